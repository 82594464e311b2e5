"""Reading elements, and the adjoint: adding them back where they came from."""

from typing import Any

import numpy as np

from ..autograd.function import Function
from ..autograd.tensor import Tensor
from . import both
from .operands import Array, fresh


class Index(Function):
    """x[index]: a view for slices and integers, a copy for arrays and masks.

    Keeps: the index and a shape.
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Any) -> Tensor:
        ctx.save_for_backward(index=index, shape=x._data.shape)
        data = x._data[index]
        if type(data) is not np.ndarray and isinstance(data, np.generic):
            parts = index if isinstance(index, tuple) else (index,)
            data = x._data[(*parts, ...)]  # a 0-d view in place of a NumPy scalar
        return fresh(data)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        saved = ctx.saved_variables
        if both.is_tensor(grad):
            return PutBack.apply(grad, saved.index, saved.shape), None
        return put_back(grad, saved.index, saved.shape), None


class PutBack(Function):
    """Zeros of `shape` with x added at `index`: the adjoint of Index.   Keeps: the index."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Any, shape: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(index=index)
        return fresh(put_back(x._data, index, shape))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        index = ctx.saved_variables.index
        if both.is_tensor(grad):
            return Index.apply(grad, index), None, None
        return grad[index], None, None


def put_back(x: Array, index: Any, shape: tuple[int, ...]) -> Array:
    """Zeros of `shape`, with `x` added at `index`; an element chosen twice gets both."""
    out: Array = (
        np.zeros(shape, x.dtype) if type(x) is np.ndarray else np.zeros_like(x, shape=shape)
    )
    if is_basic(index):
        out[index] = x
    else:
        np.add.at(out, index, x)
    return out


def is_basic(index: Any) -> bool:
    """Whether NumPy answers `x[index]` with a view: integers, slices, None and `...` only."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        isinstance(part, int | np.integer | slice | type(None) | type(...))
        and not isinstance(part, bool | np.bool_)
        for part in parts
    )


def as_index(index: Any) -> Any:
    """`index` with its tensors as arrays of their own, so that nobody can change what is saved."""
    if type(index) is Tensor:
        return _frozen(index._data)
    if isinstance(index, list):
        return np.asarray(index)
    if isinstance(index, tuple):
        return tuple([as_index(part) for part in index])
    return index.copy() if isinstance(index, np.ndarray) else index


def _frozen(array: Array) -> Any:
    if array.dtype.kind not in "biu":
        raise IndexError(
            f"a tensor used as an index must hold integers or booleans, not {array.dtype}"
        )
    return array.copy() if array.ndim or array.dtype.kind == "b" else int(array)
