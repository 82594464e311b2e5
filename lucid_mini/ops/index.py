"""Reading elements, and the adjoint: adding them back where they came from."""

from typing import Any

import numpy as np

from ..autograd.function import Function
from ..autograd.part import Part, is_basic
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
        ctx.shape = x._data.shape
        _keep(ctx, index)
        data = x._data[index]
        if type(data) is not np.ndarray and isinstance(data, np.generic):
            parts = index if isinstance(index, tuple) else (index,)
            data = x._data[(*parts, ...)]  # a 0-d view in place of a NumPy scalar
        return fresh(data)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if both.is_tensor(grad):
            return PutBack.apply(grad, _kept(ctx), ctx.shape), None
        return Part(grad, _kept(ctx), ctx.shape), None


class PutBack(Function):
    """Zeros of `shape` with x added at `index`: the adjoint of Index.   Keeps: the index."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Any, shape: tuple[int, ...]) -> Tensor:
        _keep(ctx, index)
        return fresh(Part(x._data, index, shape).whole())

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if both.is_tensor(grad):
            return Index.apply(grad, _kept(ctx)), None, None
        return grad[_kept(ctx)], None, None


def _keep(ctx: Any, index: Any) -> None:
    """Keep `index` until the node is done; if it is a few numbers, in the bag, which is faster."""
    if is_basic(index):
        ctx.index = index
    else:
        ctx.save_for_backward(index=index)


def _kept(ctx: Any) -> Any:
    try:
        return ctx.index
    except AttributeError:
        return ctx.saved_variables.index


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
