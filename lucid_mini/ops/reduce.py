"""Ops that sum up, choose or normalise along dimensions."""

from math import prod
from typing import Any

import numpy as np

from ..autograd.function import Function
from ..autograd.tensor import Tensor
from . import both
from .operands import Array, axes_of, axis_of, fresh


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with length 1 along `axes`: what a reduction with keepdim gives."""
    if len(axes) == len(shape):
        return (1,) * len(shape)
    return tuple([1 if axis in axes else n for axis, n in enumerate(shape)])


class Sum(Function):
    """The sum over `dim` (None: over all).   Keeps: nothing but two shapes."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
        data = x._data
        axes = axes_of(dim, data.ndim)
        ctx.shapes = kept_shape(data.shape, axes), data.shape
        dtype: Any = np.int64 if data.dtype.kind == "b" else None
        return fresh(np.add.reduce(data, axis=axes, keepdims=keepdim, dtype=dtype))  # type: ignore[call-overload]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        kept, shape = ctx.shapes
        return both.expand_to(grad.reshape(kept), shape), None, None


class Mean(Function):
    """The mean over `dim` (None: over all).   Keeps: nothing but two shapes."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
        data = x._data
        axes = axes_of(dim, data.ndim)
        ctx.shapes = kept_shape(data.shape, axes), data.shape
        if data.dtype.kind != "f" or data.dtype.itemsize < 4 or not data.size:
            return fresh(np.mean(data, axis=axes, keepdims=keepdim))  # sums float16 in float32
        total: Any = np.add.reduce(data, axis=axes, keepdims=keepdim)  # type: ignore[call-overload]
        return fresh(total / (data.size // total.size))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        kept, shape = ctx.shapes
        count = max(prod(shape), 1) // max(prod(kept), 1)
        return both.expand_to((grad / count).reshape(kept), shape), None, None


class Extreme(Function):
    """The largest (`smallest`: the smallest) element over `dim`; equal ones share the gradient.

    Keeps: x and the output.
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: Any, keepdim: bool, smallest: bool) -> Tensor:
        data = x._data
        axes = axes_of(dim, data.ndim)
        ctx.kept = kept_shape(data.shape, axes)
        ctx.axes = axes
        out = fresh((np.min if smallest else np.max)(data, axis=axes, keepdims=keepdim))
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, out = ctx.saved_tensors
        best = x == out.reshape(ctx.kept)
        count = best.sum(axis=ctx.axes, keepdims=True)
        return both.masked(grad.reshape(ctx.kept) / count, best), None, None, None


class ArgExtreme(Function):
    """Where the largest (`smallest`: the smallest) element is, along `dim` or in the flat tensor.

    Integers, so no gradient.   Keeps: nothing.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int | None, keepdim: bool, smallest: bool) -> Tensor:
        if not x._data.ndim:
            return fresh(np.zeros((), np.int64))
        choose = np.argmin if smallest else np.argmax
        return fresh(choose(x._data, axis=dim, keepdims=keepdim))


class Choose(Function):
    """The elements at `index` along one dimension, as `gather`; max and min over one use it.

    x: (…, n, …), index: integers of x's number of dimensions, out: the shape of index.
    Keeps: the index.
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.dim, ctx.shape = dim, x._data.shape
        return fresh(_take(x._data, dim, index._data))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (index,) = ctx.saved_tensors
        if both.is_tensor(grad):
            return Spread.apply(grad, ctx.dim, index, ctx.shape), None, None
        return _spread(grad, ctx.dim, index, ctx.shape), None, None


class Spread(Function):
    """The adjoint of Choose: adds each element where it was taken from.   Keeps: the index."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, index: Tensor, shape: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(index)
        ctx.dim = dim
        return fresh(_spread(x._data, dim, index._data, shape))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (index,) = ctx.saved_tensors
        if both.is_tensor(grad):
            return Choose.apply(grad, ctx.dim, index), None, None, None
        return _take(grad, ctx.dim, index), None, None, None


def _places(dim: int, index: Array) -> tuple[Array, ...]:
    places = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[dim] = index
    return tuple(places)


def _take(x: Array, dim: int, index: Array) -> Array:
    return x[_places(dim, index)] if x.ndim else x.reshape(1)[index.reshape(1)].reshape(())


def _spread(x: Array, dim: int, index: Array, shape: tuple[int, ...]) -> Array:
    out: Array = (
        np.zeros(shape, x.dtype) if type(x) is np.ndarray else np.zeros_like(x, shape=shape)
    )
    if out.ndim:
        np.add.at(out, _places(dim, index), x)
    else:
        out += x
    return out


class Prod(Function):
    """The product over `dim` (None: over all).   Keeps: x."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
        axes = axes_of(dim, x._data.ndim)
        ctx.kept, ctx.axes = kept_shape(x._data.shape, axes), axes
        ctx.save_for_backward(x)
        return fresh(np.prod(x._data, axis=axes, keepdims=keepdim))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        # The product of all others, without dividing by x, which may be 0: with the reduced
        # elements in one last axis, 1 where an element meets itself.
        (x,) = ctx.saved_tensors
        kept_axes = tuple(axis for axis in range(x.ndim) if axis not in ctx.axes)
        order = kept_axes + ctx.axes
        flat = both.permute(x, order)
        lead = flat.shape[: len(kept_axes)]
        count = int(np.prod(flat.shape[len(kept_axes) :], dtype=int))
        rows = flat.reshape((*lead, 1, count))
        same = np.eye(count, dtype=bool)
        if both.is_tensor(rows):
            others = both.where(fresh(same), rows * 0.0 + 1.0, rows)
            product = others.prod(dim=-1)
        else:
            product = np.prod(np.where(same, np.ones((), rows.dtype), rows), axis=-1)
        back = product.reshape(flat.shape)
        inverse = tuple(int(i) for i in np.argsort(order))
        return grad.reshape(ctx.kept) * both.permute(back, inverse), None, None


class Cumsum(Function):
    """Running sums along `dim`.   Keeps: nothing."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        ctx.dim = axis_of(dim, x._data.ndim)
        if not x._data.ndim:
            return fresh(x._data.copy())
        return fresh(np.cumsum(x._data, axis=ctx.dim))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if not grad.ndim:
            return grad, None
        # The sum from each place to the end: all, less what came before.
        running = grad.cumsum(ctx.dim)
        return grad.sum(axis=ctx.dim, keepdims=True) - running + grad, None


class LogSumExp(Function):
    """log of the sum of exp(x) over `dim`, without overflow.   Keeps: x and the output."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
        data = x._data
        axes = axes_of(dim, data.ndim)
        ctx.kept = kept_shape(data.shape, axes)
        top = np.max(data, axis=axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0)
        with np.errstate(divide="ignore"):  # over nothing, or over -inf alone: log(0) is the answer
            value = np.log(np.sum(np.exp(data - top), axis=axes, keepdims=True)) + top
        out = fresh(
            value
            if keepdim
            else value.reshape([n for i, n in enumerate(data.shape) if i not in axes])
        )
        if out._data.base is not None:
            out = fresh(out._data.copy())
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, out = ctx.saved_tensors
        return grad.reshape(ctx.kept) * both.exp(x - out.reshape(ctx.kept)), None, None


class Softmax(Function):
    """exp(x) over its sum along `dim`.   Keeps: the output."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        ctx.dim = axis_of(dim, x._data.ndim)
        out = fresh(_softmax(x._data, ctx.dim))
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        inner = grad * y
        if not inner.ndim:
            return inner - inner * y, None
        return inner - y * inner.sum(axis=ctx.dim, keepdims=True), None


class LogSoftmax(Function):
    """x less its log-sum-exp along `dim`.   Keeps: the output."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        data = x._data
        ctx.dim = axis_of(dim, data.ndim)
        if not data.ndim:
            return fresh(data - data)
        top = np.max(data, axis=ctx.dim, keepdims=True) if data.size else 0
        centred = data - top
        total = np.sum(np.exp(centred), axis=ctx.dim, keepdims=True)
        out = fresh(centred - np.log(total) if data.size else centred)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if not grad.ndim:
            return grad * 0.0, None
        (y,) = ctx.saved_tensors
        return grad - both.exp(y) * grad.sum(axis=ctx.dim, keepdims=True), None


class CrossEntropy(Function):
    """The mean of -log softmax(logits)[target] over n rows.

    logits: (n, classes), target: (n,) integers, out: ().   Keeps: logits and target.
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        x, y = logits._data, target._data
        ctx.save_for_backward(logits, target)
        top = np.maximum.reduce(x, axis=1, keepdims=True)
        log_sum = np.log(np.add.reduce(np.exp(x - top), axis=1)) + top[:, 0]
        return fresh(np.add.reduce(log_sum - x[np.arange(len(y)), y]) / x.dtype.type(len(y)))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        count = x.shape[0]
        if both.is_tensor(x):
            chosen = both.zeros_like(x)
            chosen._data[np.arange(count), y._data] = 1.0
            return (x.softmax(1) - chosen) * (grad / count), None
        p = _softmax(x, 1)
        p[np.arange(count), y] -= 1.0
        p *= grad / count
        return p, None


def _softmax(x: Array, axis: int) -> Array:
    if not x.ndim or not x.size:
        return np.ones_like(x)
    # ufunc.reduce costs half of np.max and np.sum, which call it.
    e: Array = np.exp(x - np.maximum.reduce(x, axis=axis, keepdims=True))
    e /= np.add.reduce(e, axis=axis, keepdims=True)
    return e
