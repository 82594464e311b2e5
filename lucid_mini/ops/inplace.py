"""Ops that write into the memory of their first argument.

Each says so with `mark_dirty` before it writes, so that a leaf is refused while its value is
intact, and bumps the version, so that whoever saved the old value finds out. The tensor then has
the history of this op; what it was before lives on upstream.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import saved
from ..autograd.ctx import refuse_hidden
from ..autograd.function import Function
from ..autograd.mode import thread
from ..autograd.part import is_basic
from ..autograd.saved import owner, record_write, refuse_frozen
from ..autograd.tensor import Tensor
from ..errors import AutogradError
from . import both, strided
from .operands import Array, fresh

saved.rewrite = strided.rewrite


class _InPlace(Function):
    """An op that writes its first argument."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.apply = staticmethod(_guarded(cls))  # type: ignore[assignment]


def _guarded(cls: type[Function]) -> Callable[..., Any]:
    """The call path of `cls`, closed to a view made under no_grad of a tensor with a history."""

    def apply(x: Tensor, *args: Any) -> Any:
        hidden = x._base is not None and x._node is None and x._base._node is not None
        if hidden and thread.mode.recording:
            refuse_hidden(x, cls._kind)
        return cls._apply(x, *args)

    apply.__doc__ = cls.__doc__
    return apply


def _write(ctx: Any, x: Tensor) -> Array:
    """Make ready to write into `x`: marked, allowed, counted.

    Raises: LeafInPlaceError; AutogradError for a gradient that backward handed out, for what the
    running rule has saved, and for memory that must not be written; InferenceTensorError.
    """
    name = ctx._function._kind
    refuse_frozen(x, name)
    if not x._data.flags.writeable:
        raise AutogradError(
            f"{name} would write into memory that is read-only: in an expanded tensor several "
            "elements lie on one place. Call clone() first and write into the copy."
        )
    ctx.mark_dirty(x)
    record_write(x, name)
    return x._data


def _before(x: Tensor) -> Tensor:
    """The value `x` has now, with its history, for a rule that needs both after the write."""
    copy = fresh(x._data.copy())
    copy._node, copy._output_nr = x._node, x._output_nr
    return copy


def _apart(y: Tensor, x: Tensor) -> Tensor:
    """`y`, or its value now if it lies in the memory of `x`, which is about to be written."""
    return _before(y) if owner(y._data) is owner(x._data) else y


def _fitting(x: Tensor, y: Tensor) -> Array:
    """The array of `y`, cast to `x`'s dtype.

    Raises: ValueError where it does not broadcast to x's shape, TypeError where the cast loses a
    kind.
    """
    if not both.broadcasts_to(y.shape, x.shape):
        raise ValueError(
            f"a tensor of shape {y.shape} does not broadcast into one of shape {x.shape}; use the "
            "op that is not in place"
        )
    if x.dtype.kind in "biu" and y.dtype.kind == "f":
        raise TypeError(
            f"a {y.dtype} result cannot be written into a tensor of {x.dtype}; use the op that is "
            "not in place, or x.to(float) first"
        )
    return y._data.astype(x.dtype, copy=False)


class AddInPlace(_InPlace):
    """x += y; y broadcasts to the shape of x.   Keeps: nothing.

    Raises: LeafInPlaceError for a leaf that requires grad, ValueError for a shape that does not
    fit, TypeError for floats into integers.

    Example:
        >>> x = lm.ones(2)
        >>> x.add_(2.0)  # the same memory, one version on
        tensor([3., 3.])
        >>> x._version
        1
    """

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


class SubInPlace(_InPlace):
    """x -= y; y broadcasts to the shape of x.   Keeps: nothing.   Raises: as `add_`.

    Example:
        >>> w = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> with lm.no_grad():
        ...     w -= 0.5  # a step of an optimiser; with recording on, LeafInPlaceError
        >>> w
        tensor([0.5, 1.5], requires_grad=True)
    """

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


class MulInPlace(_InPlace):
    """x *= y.   Keeps: y if x needs a gradient, a copy of the old x if y does.   Raises: as `add_`.

    Example:
        >>> a = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> x = a.clone()
        >>> x.mul_(3.0).sum().backward()
        >>> a.grad
        tensor([3., 3.])
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        value = _fitting(x, y)
        need_x, need_y = ctx.needs_input_grad
        y = _apart(y, x)
        old = _before(x) if need_y else None
        data = _write(ctx, x)
        ctx.save_for_backward(old, y if need_x else None)
        np.multiply(data, value, out=data)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        old, y = ctx.saved_tensors
        return None if y is None else grad * y, None if old is None else grad * old


class DivInPlace(_InPlace):
    """x /= y.   Keeps: y, and a copy of the old x if y needs a gradient.   Raises: as `add_`.

    Example:
        >>> lm.tensor([2.0, 6.0]).div_(2)
        tensor([1., 3.])
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        value = _fitting(x, y)
        y = _apart(y, x)
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


class PowInPlace(_InPlace):
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
        saved = ctx.saved_variables
        old, n = saved[0], saved.n
        return both.zeros_like(grad) if n == 0 else grad * (n * old ** (n - 1)), None


class ExpInPlace(_InPlace):
    """x = e ** x.   Keeps: the output.   Raises: LeafInPlaceError for a leaf that requires grad.

    Example:
        >>> lm.zeros(2).exp_()
        tensor([1., 1.])
    """

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


class ClampInPlace(_InPlace):
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
        bounds = ctx.saved_variables
        x = bounds[0]
        if bounds.low is not None:
            grad = both.masked(grad, x >= bounds.low)
        if bounds.high is not None:
            grad = both.masked(grad, x <= bounds.high)
        return grad, None, None


class Fill(_InPlace):
    """x set to a number.   Keeps: nothing.   Raises: as `add_`.

    Example:
        >>> lm.zeros(2).fill_(7)
        tensor([7., 7.])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: float) -> Tensor:
        _write(ctx, x)[...] = value
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return both.zeros_like(grad), None


class Copy(_InPlace):
    """x set to y, which broadcasts to its shape.   Keeps: nothing.   Raises: as `add_`.

    Example:
        >>> y = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> x = lm.zeros(2, 2).copy_(y)
        >>> x.sum().backward()
        >>> y.grad  # each element was copied twice
        tensor([2., 2.])
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        value = _fitting(x, y)
        _write(ctx, x)[...] = value
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return both.zeros_like(grad) if ctx.needs_input_grad[0] else None, grad


class SetItem(_InPlace):
    """x[index] = y, broadcast.   Keeps: the index and a shape."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, index: Any) -> Tensor:
        target = np.shape(x._data[index])
        lead = y.ndim - len(target)  # extra dimensions of length 1 in front, as NumPy takes them
        fitting = y.shape[lead:] if lead > 0 and set(y.shape[:lead]) == {1} else y.shape
        if not both.broadcasts_to(fitting, target):
            raise ValueError(
                f"a tensor of shape {y.shape} does not broadcast into x[index] of shape {target}; "
                "it must have that shape or broadcast to it"
            )
        value = y._data.astype(x.dtype, copy=False).reshape(fitting)
        data = _write(ctx, x)
        data[index] = value
        ctx.save_for_backward(index=index, shape=x.shape, value_shape=y.shape)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        kept = ctx.saved_variables
        need_x, need_y, _ = ctx.needs_input_grad
        grad_x = grad_y = None
        if need_x:
            keep = np.ones(kept.shape, dtype=bool)
            keep[kept.index] = False
            keep_mask: Any = fresh(keep) if both.is_tensor(grad) else keep
            grad_x = both.where(keep_mask, grad, 0.0)
        if need_y:
            grad_y = grad[kept.index]
            if not is_basic(kept.index):
                wins: Any = _last_writers(kept.index, kept.shape)
                wins = fresh(wins) if both.is_tensor(grad) else wins
                grad_y = both.where(wins, grad_y, 0.0)
            lead = len(kept.value_shape) - len(grad_y.shape)
            grad_y = both.sum_to(grad_y, kept.value_shape[max(lead, 0) :])
            if lead > 0:
                grad_y = grad_y.reshape(kept.value_shape)
        return grad_x, grad_y, None


def _last_writers(index: Any, shape: tuple[int, ...]) -> Array:
    """Which of the elements that `index` chooses keep what was written: of equal ones, the last."""
    writer = np.zeros(shape, np.int64)
    order = np.arange(writer[index].size).reshape(writer[index].shape)
    writer[index] = order
    made: Array = writer[index] == order
    return made
