"""The functions that a rule needs beside operators, for arrays and tensors alike.

An array is NumPy's, or one of another library that answers to NumPy's functions (`FOREIGN`): what
is faster on NumPy's alone asks for that type first.

A rule is written once: in a first-order pass the engine hands it arrays, under `create_graph`
tensors, which record what is done with them. Operators, `.sum(axis=…, keepdims=…)` and
`.reshape(shape)` are spelled the same for both; this file has the rest.
"""

from math import isfinite
from typing import Any

import numpy as np

from ..autograd.shapes import broadcasts_to, stretched_axes, sum_to
from ..autograd.tensor import Tensor, wrap

__all__ = [
    "broadcasts_to",
    "expand_to",
    "is_tensor",
    "masked",
    "permute",
    "product",
    "sign",
    "stretched_axes",
    "sum_to",
    "swap_last",
    "where",
    "zeros_like",
]


#: From this many elements on, multiplying by a mask is faster than choosing, the look for Inf and
#: NaN included (four times, where the mask follows no pattern).
MULTIPLY_FROM = 512
#: Up to this many elements on the left, `dot` is faster than `@`, on small matrices by half.
DOT_UP_TO = 8192


def is_tensor(x: Any) -> bool:
    """Whether `x` is a Tensor."""
    return type(x) is Tensor


def expand_to(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` broadcast to `shape`, without a copy. The adjoint of `sum_to`."""
    if x.shape == shape:
        return x
    if type(x) is np.ndarray and x.size == 1:
        # Ten times as fast as np.broadcast_to, and the usual case: a scalar loss.
        view: Any = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
        view.flags.writeable = False
        return view
    return x.expand(shape) if type(x) is Tensor else np.broadcast_to(x, shape)


def permute(x: Any, axes: tuple[int, ...]) -> Any:
    """`x` with its axes in the order `axes`."""
    if type(x) is Tensor:
        return x.permute(axes)
    return x.transpose(axes)


def product(a: Any, b: Any) -> Any:
    """`a @ b` of two matrices."""
    return a.dot(b) if type(a) is np.ndarray and a.size <= DOT_UP_TO else a @ b


def swap_last(x: Any) -> Any:
    """`x` with its last two axes exchanged."""
    if type(x) is Tensor:
        return x.transpose(-1, -2)
    return x.swapaxes(-1, -2)


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition` holds, `y` elsewhere."""
    if is_tensor(x) or is_tensor(y) or is_tensor(condition):
        from_tensor = x if is_tensor(x) else y if is_tensor(y) else condition
        return from_tensor._where(condition, x, y)
    return np.where(condition, x, y)


def masked(x: Any, mask: Any) -> Any:
    """`x` where `mask` holds, 0 elsewhere; also of Inf and NaN, which 0 times makes NaN."""
    if type(x) is not np.ndarray:
        return where(mask, x, 0.0)
    if mask.size >= MULTIPLY_FROM:
        flat = x.ravel()
        if isfinite(flat.dot(flat)):  # the cheapest look at all elements, and it warns of nothing
            return x * mask
    return np.where(mask, x, 0.0)


def zeros_like(x: Any) -> Any:
    """Zeros of the shape of `x`; 0 times it would make NaN of Inf."""
    return wrap(np.zeros_like(x._data)) if type(x) is Tensor else np.zeros_like(x)


def sign(x: Any) -> Any:
    """-1, 0 or 1. A constant for differentiation: its derivative is 0 wherever it has one."""
    return wrap(np.sign(x._data)) if type(x) is Tensor else np.sign(x)


def _spelled(name: str) -> Any:
    function = getattr(np, name)

    def both(x: Any) -> Any:
        return getattr(x, name)() if type(x) is Tensor else function(x)

    both.__name__ = both.__qualname__ = name
    both.__doc__ = f"`{name}` of every element."
    return both


exp, log, sqrt, sin, cos, tanh = map(_spelled, ("exp", "log", "sqrt", "sin", "cos", "tanh"))
