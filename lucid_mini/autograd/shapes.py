"""Broadcasting and its adjoint, for arrays and tensors alike."""

from typing import Any

import numpy as np


def broadcasts_to(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether NumPy would broadcast shape `small` to shape `large`."""
    if len(small) > len(large):
        return False
    return all(a in (1, b) for a, b in zip(small[::-1], large[::-1], strict=False))


def stretched_axes(small: tuple[int, ...], large: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of `large` along which broadcasting from `small` repeated values."""
    lead = len(large) - len(small)
    return tuple(range(lead)) + tuple(
        lead + axis for axis, n in enumerate(small) if n == 1 and large[lead + axis] != 1
    )


def sum_to(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` summed over the axes along which `shape` was broadcast to `x.shape`: shape `shape`.

    The adjoint of broadcasting: a value that was used n times gets the sum of n gradients.
    """
    if x.shape == shape:
        return x
    lead = len(x.shape) - len(shape)
    inner = tuple(axis for axis in stretched_axes(shape, x.shape) if axis >= lead)
    if inner:
        x = x.sum(axis=inner, keepdims=True)
    # No reshape: its result would be a view, and a leaf would have to copy it to own it.
    if lead:
        x = x.sum(axis=tuple(range(lead)))
        if isinstance(x, np.generic):
            x = np.asarray(x)  # NumPy gives a scalar where no dimension is left
    return x
