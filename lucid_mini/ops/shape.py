"""Ops that rearrange: mostly views on the same memory, so they keep nothing and cost no bytes."""

from typing import Any

import numpy as np

from ..autograd.function import Function
from ..autograd.tensor import Tensor
from . import both
from .operands import aligned, axis_of, fresh


class Reshape(Function):
    """The same elements under another shape; a view where NumPy can.   Keeps: the shape."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        ctx.shape = x._data.shape
        return fresh(x._data.reshape(shape))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.reshape(ctx.shape), None


class Permute(Function):
    """The axes in another order; a view.   Keeps: the order."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        ctx.axes = axes
        return fresh(x._data.transpose(axes))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        inverse = [0] * len(ctx.axes)
        for to, axis in enumerate(ctx.axes):
            inverse[axis] = to
        return both.permute(grad, tuple(inverse)), None


class Expand(Function):
    """Broadcast to a larger shape; a view.   Keeps: the shape."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        ctx.shape = x._data.shape
        data = np.broadcast_to(x._data, shape)
        if data.size == x._data.size:
            # Nothing lies twice, so that it may be written: NumPy's own is read-only throughout.
            data = x._data.reshape(shape)
        return fresh(data)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return both.sum_to(grad, ctx.shape), None


class Cat(Function):
    """Tensors one after another along `dim`.   Keeps: their lengths."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, dim: int, *tensors: Tensor) -> Tensor:
        arrays = [t._data for t in tensors]
        axis = axis_of(dim, arrays[0].ndim)
        ctx.axis = axis
        ctx.lengths = tuple([a.shape[axis] for a in arrays])
        return fresh(np.concatenate(arrays, axis=axis))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if both.is_tensor(grad):
            # One node for all pieces: n slices would each put theirs back into zeros of the whole.
            pieces = Split.apply(grad, ctx.lengths, ctx.axis)
            needed_of = zip(pieces, ctx.needs_input_grad[1:], strict=True)
            return None, *[piece if needed else None for piece, needed in needed_of]
        lead = (slice(None),) * ctx.axis
        parts, start = [], 0
        for length, needed in zip(ctx.lengths, ctx.needs_input_grad[1:], strict=True):
            parts.append(grad[(*lead, slice(start, start + length))] if needed else None)
            start += length
        return None, *parts


class Stack(Function):
    """Tensors of one shape side by side along a new dimension `dim`.   Keeps: nothing."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, dim: int, *tensors: Tensor) -> Tensor:
        ctx.axis = dim
        return fresh(np.stack([t._data for t in tensors], axis=dim))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if both.is_tensor(grad):
            return None, *Unbind.apply(grad, ctx.axis)
        moved = np.moveaxis(grad, ctx.axis, 0)
        return None, *[moved[i, ...] for i in range(len(moved))]


class Unbind(Function):
    """The slices along `dim`, each without it: as many outputs as `dim` is long. Views.

    Keeps: nothing.
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> tuple[Tensor, ...]:
        ctx.axis = axis_of(dim, x._data.ndim)
        moved = np.moveaxis(x._data, ctx.axis, 0)
        return tuple([fresh(moved[i, ...]) for i in range(len(moved))])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if both.is_tensor(grads[0]):
            return Stack.apply(ctx.axis, *grads), None
        return np.stack(grads, axis=ctx.axis), None


class Split(Function):
    """Pieces of the given lengths along `dim`, views.   Keeps: nothing."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: tuple[int, ...], dim: int) -> tuple[Tensor, ...]:
        ctx.axis = axis_of(dim, x._data.ndim)
        lead = (slice(None),) * ctx.axis
        pieces, start = [], 0
        for length in lengths:
            pieces.append(fresh(x._data[(*lead, slice(start, start + length))]))
            start += length
        return tuple(pieces)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if both.is_tensor(grads[0]):
            return Cat.apply(ctx.axis, *grads), None, None
        return np.concatenate(grads, axis=ctx.axis), None, None


def cat(tensors: Any, dim: int = 0) -> Tensor:
    """`tensors` one after another along `dim`: all other lengths equal.   Keeps: their lengths.

    Raises: ValueError for none or for lengths that differ, TypeError for what is no tensor.

    Example:
        >>> lm.cat([lm.zeros(1, 2), lm.ones(2, 2)])
        tensor([[0., 0.],
                [1., 1.],
                [1., 1.]])
    """
    made: Tensor = Cat.apply(dim, *_of_one_dtype(_several(tensors, "cat")))
    return made


def stack(tensors: Any, dim: int = 0) -> Tensor:
    """`tensors` of one shape side by side along a new dimension `dim`.   Keeps: their number.

    Raises: ValueError for none or for shapes that differ, TypeError for what is no tensor.

    Example:
        >>> lm.stack([lm.zeros(2), lm.ones(2)], dim=1)
        tensor([[0., 1.],
                [0., 1.]])
    """
    tensors = _several(tensors, "stack")
    made: Tensor = Stack.apply(axis_of(dim, tensors[0].ndim + 1), *_of_one_dtype(tensors))
    return made


def _of_one_dtype(tensors: list[Any]) -> list[Any]:
    """`tensors`, cast to the dtype that the operators would give them together."""
    if len({t._data.dtype for t in tensors}) == 1:
        return tensors
    like = tensors[0]._data
    for t in tensors[1:]:
        like = aligned(
            like[..., :0] if like.ndim else like, t._data[..., :0] if t.ndim else t._data
        )[0]
    return [t.to(like.dtype) for t in tensors]


def _several(tensors: Any, name: str) -> list[Any]:
    several = list(tensors)
    if not several:
        raise ValueError(f"{name} needs at least one tensor")
    for index, t in enumerate(several):
        if type(t) is not Tensor:
            Cat.refuse_foreign((0, *several), index + 1)
            raise TypeError(f"{name}: item {index} is no tensor but {type(t).__name__}")
        if name == "stack" and t._data.shape != several[0]._data.shape:
            raise ValueError(
                f"stack: item {index} has shape {t.shape}, and item 0 has {several[0].shape}; "
                "all must have one shape"
            )
    return several
