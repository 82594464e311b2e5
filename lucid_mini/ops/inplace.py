"""Ops that write into the memory of their first argument.

Each says so with `mark_dirty` before it writes, so that a leaf is refused while its value is
intact, and bumps the version, so that whoever saved the old value finds out. The tensor then has
the history of this op; what it was before lives on upstream.
"""

from typing import Any

import numpy as np

from ..autograd.function import Function
from ..autograd.saved import record_write, refuse_frozen
from ..autograd.tensor import Tensor
from . import both
from .operands import Array, fresh


def _write(ctx: Any, x: Tensor) -> Array:
    """Make ready to write into `x`: marked, allowed, counted.

    Raises: LeafInPlaceError, AutogradError for a gradient that backward handed out.
    """
    refuse_frozen(x, ctx._function._kind)
    ctx.mark_dirty(x)
    record_write(x, ctx._function._kind)
    return x._data


def _before(x: Tensor) -> Tensor:
    """The value `x` has now, with its history, for a rule that needs both after the write."""
    copy = fresh(x._data.copy())
    copy._node, copy._output_nr = x._node, x._output_nr
    return copy


def _fitting(x: Tensor, y: Tensor) -> Array:
    """The array of `y`, cast to `x`'s dtype.

    Raises: ValueError where it does not broadcast to x's shape, TypeError where the cast loses a
    kind.
    """
    if not both.broadcasts_to(y.shape, x.shape):
        raise ValueError(
            f"a tensor of shape {y.shape} does not broadcast into one of shape {x.shape}"
        )
    if x.dtype.kind in "biu" and y.dtype.kind == "f":
        raise TypeError(f"a {y.dtype} result cannot be written into a tensor of {x.dtype}")
    return y._data.astype(x.dtype, copy=False)


class AddInPlace(Function):
    """x += y.   Keeps: nothing."""

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        value = _fitting(x, y)
        data = _write(ctx, x)
        np.add(data, value, out=data)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, grad


class SubInPlace(Function):
    """x -= y.   Keeps: nothing."""

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        value = _fitting(x, y)
        data = _write(ctx, x)
        np.subtract(data, value, out=data)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, -grad if ctx.needs_input_grad[1] else None


class MulInPlace(Function):
    """x *= y.   Keeps: y if x needs a gradient, a copy of the old x if y does."""

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        value = _fitting(x, y)
        need_x, need_y = ctx.needs_input_grad
        if y is x:
            y = _before(x)
        old = _before(x) if need_y else None
        data = _write(ctx, x)
        ctx.save_for_backward(old, y if need_x else None)
        np.multiply(data, value, out=data)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        old, y = ctx.saved_tensors
        return None if y is None else grad * y, None if old is None else grad * old


class DivInPlace(Function):
    """x /= y.   Keeps: y, and a copy of the old x if y needs a gradient."""

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        value = _fitting(x, y)
        if y is x:
            y = _before(x)
        old = _before(x) if ctx.needs_input_grad[1] else None
        data = _write(ctx, x)
        ctx.save_for_backward(old, y)
        np.divide(data, value, out=data)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        old, y = ctx.saved_tensors
        grad_x = grad / y if ctx.needs_input_grad[0] else None
        return grad_x, None if old is None else -grad * old / (y * y)


class PowInPlace(Function):
    """x **= n for a number n.   Keeps: a copy of the old x."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, exponent: float) -> Tensor:
        old = _before(x)
        data = _write(ctx, x)
        ctx.save_for_backward(old, n=exponent)
        np.power(data, exponent, out=data)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (old,), n = ctx.saved_tensors, ctx.saved_variables.n
        return grad * 0.0 if n == 0 else grad * (n * old ** (n - 1)), None


class ExpInPlace(Function):
    """x = e ** x.   Keeps: the output."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        data = _write(ctx, x)
        np.exp(data, out=data)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        return grad * y


class ClampInPlace(Function):
    """x clipped to [low, high].   Keeps: a copy of the old x."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float | None, high: float | None) -> Tensor:
        old = _before(x)
        data = _write(ctx, x)
        ctx.save_for_backward(old, low=low, high=high)
        np.clip(data, low, high, out=data)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,), bounds = ctx.saved_tensors, ctx.saved_variables
        if bounds.low is not None:
            grad = grad * (x >= bounds.low)
        if bounds.high is not None:
            grad = grad * (x <= bounds.high)
        return grad, None, None


class Fill(Function):
    """x set to a number.   Keeps: nothing."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: float) -> Tensor:
        _write(ctx, x)[...] = value
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 0.0, None


class Copy(Function):
    """x set to y, broadcast.   Keeps: nothing."""

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        value = _fitting(x, y)
        _write(ctx, x)[...] = value
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 0.0, grad


class SetItem(Function):
    """x[index] = y, broadcast.   Keeps: the index and a shape."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, index: Any) -> Tensor:
        target = x._data[index]
        if not both.broadcasts_to(y.shape, np.shape(target)):
            raise ValueError(
                f"a tensor of shape {y.shape} does not broadcast into x[index] of shape "
                f"{np.shape(target)}"
            )
        value = y._data.astype(x.dtype, copy=False)
        data = _write(ctx, x)
        data[index] = value
        ctx.save_for_backward(index=index, shape=x.shape, value_shape=y.shape)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        saved = ctx.saved_variables
        need_x, need_y, _ = ctx.needs_input_grad
        grad_x = grad_y = None
        if need_x:
            keep = np.ones(saved.shape, dtype=bool)
            keep[saved.index] = False
            keep_mask: Any = fresh(keep) if both.is_tensor(grad) else keep
            grad_x = both.where(keep_mask, grad, grad * 0.0)
        if need_y:
            grad_y = both.sum_to(grad[saved.index], saved.value_shape)
        return grad_x, grad_y, None
