"""The matrix product."""

from typing import Any

import numpy as np

from ..autograd.function import Function
from ..autograd.tensor import Tensor
from . import both
from .operands import aligned, fresh


class Matmul(Function):
    """a @ b, as NumPy: (n, k) @ (k, m), vectors at either side, leading dimensions broadcast.

    Keeps: b if a needs a gradient, a if b does.   Raises: ValueError for shapes that do not fit.

    Example:
        >>> a = lm.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> (a @ lm.tensor([10.0, 1.0])).sum().backward()
        >>> a.grad  # grad_output @ b.T
        tensor([[10.,  1.],
                [10.,  1.]])
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x, y = a._data, b._data
        if x.dtype is not y.dtype:
            x, y = aligned(x, y)
        need_a, need_b = ctx.needs_input_grad
        ctx.save_for_backward(a if need_b else None, b if need_a else None)
        if x.ndim == 2 == y.ndim:
            return fresh(both.product(x, y))
        ctx.dims = x.ndim, y.ndim
        return fresh(np.matmul(x, y))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        dims = ctx.load("dims")
        if dims is None:
            return (
                None if b is None else both.product(grad, b.T),
                None if a is None else both.product(a.T, grad),
            )
        # A vector is a row on the left and a column on the right; what matmul dropped comes back.
        row, column = dims[0] == 1, dims[1] == 1
        if row:
            grad = grad.reshape((*grad.shape[:-1], 1, *grad.shape[-1:]) if not column else (1,))
        if column:
            grad = grad.reshape((*grad.shape, 1))
        grad_a = grad_b = None
        if b is not None:
            b = b.reshape((-1, 1)) if column else b
            grad_a = grad @ both.swap_last(b)
            if row:
                grad_a = grad_a.reshape((*grad_a.shape[:-2], grad_a.shape[-1]))
        if a is not None:
            a = a.reshape((1, -1)) if row else a
            grad_b = both.swap_last(a) @ grad
            if column:
                grad_b = grad_b.reshape(grad_b.shape[:-1])
        return grad_a, grad_b
