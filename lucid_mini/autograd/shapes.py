"""Broadcasting and its adjoint, for arrays and tensors alike."""

from typing import Any

import numpy as np


def broadcasts_to(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Whether NumPy would broadcast shape `small` to shape `large`."""
    lead = len(large) - len(small)
    if lead >= 0 and large[lead:] == small:  # a bias, a scalar: what there mostly is
        return True
    return lead >= 0 and all(a in (1, b) for a, b in zip(small, large[lead:], strict=True))


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
    if x.shape[lead:] != shape:
        inner = [axis for axis in stretched_axes(shape, x.shape) if axis >= lead]
        x = x.sum(axis=tuple(inner), keepdims=True)
    # No reshape: its result would be a view, and a leaf would have to copy it to own it.
    if lead:
        x = x.sum(axis=0 if lead == 1 else tuple(range(lead)))
        if isinstance(x, np.generic):
            x = np.asarray(x)  # NumPy gives a scalar where no dimension is left
    return x
