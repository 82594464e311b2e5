"""Ops that work element by element. Those of two tensors broadcast, and the engine undoes it.

Each says under "Keeps" what its backward needs, the least that will do.
"""

import functools
from typing import Any

import numpy as np

from ..autograd.function import Function
from ..autograd.tensor import Tensor
from . import both
from .operands import aligned, fresh


class Add(Function):
    """a + b; the shapes broadcast.   Keeps: nothing.

    Example:
        >>> lm.tensor([[1.0], [2.0]]) + lm.tensor([10.0, 20.0])
        tensor([[11., 21.],
                [12., 22.]])
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x, y = a._data, b._data
        if x.dtype is not y.dtype:
            x, y = aligned(x, y)
        return fresh(x + y)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, grad


class Sub(Function):
    """a - b; the shapes broadcast.   Keeps: nothing.

    Example:
        >>> lm.tensor([3.0, 5.0]) - 1
        tensor([2., 4.])
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x, y = a._data, b._data
        if x.dtype is not y.dtype:
            x, y = aligned(x, y)
        return fresh(x - y)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, -grad if ctx.needs_input_grad[1] else None


class Mul(Function):
    """a * b; the shapes broadcast.   Keeps: b if a needs a gradient, a if b does.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * lm.tensor([10.0, 20.0])).sum().backward()
        >>> x.grad  # the other factor
        tensor([10., 20.])
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x, y = a._data, b._data
        if x.dtype is not y.dtype:
            x, y = aligned(x, y)
        need_a, need_b = ctx.needs_input_grad
        ctx.save_for_backward(a if need_b else None, b if need_a else None)
        return fresh(x * y)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        return None if b is None else grad * b, None if a is None else grad * a


class Div(Function):
    """a / b; the shapes broadcast.   Keeps: b, and a if b needs a gradient.

    Example:
        >>> b = lm.tensor(2.0, requires_grad=True)
        >>> (6.0 / b).backward()
        >>> b.grad  # -a / b²
        tensor(-1.5)
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x, y = a._data, b._data
        if x.dtype is not y.dtype:
            x, y = aligned(x, y)
        ctx.save_for_backward(a if ctx.needs_input_grad[1] else None, b)
        return fresh(x / y)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        grad_a = grad / b if ctx.needs_input_grad[0] else None
        return grad_a, None if a is None else -grad * a / (b * b)


class Pow(Function):
    """a ** b of two tensors.   Keeps: a, b, and the output if b needs a gradient."""

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x, y = a._data, b._data
        if x.dtype is not y.dtype:
            x, y = aligned(x, y)
        out = fresh(x**y)
        ctx.save_for_backward(a, b, out if ctx.needs_input_grad[1] else None)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b, out = ctx.saved_tensors
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            # x ** 0 is constant, also at 0, where the formula would give 0 * inf.
            slope = b * both.where(b == 0, a * 0.0 + 1.0, a) ** (b - 1.0)
            grad_a = both.where(b == 0, 0.0, grad * slope)
        if out is not None:
            # 0 ** b is constant for b > 0, where the formula would give 0 * -inf.
            safe = both.where(a == 0, a * 0.0 + 1.0, a)
            grad_b = both.where((a == 0) & (b >= 0), 0.0, grad * out * both.log(safe))
        return grad_a, grad_b


class PowNumber(Function):
    """x ** n for a number n.   Keeps: x (nothing for n = 0 and n = 1)."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, exponent: float) -> Tensor:
        ctx.save_for_backward(x if exponent not in (0, 1) else None, n=exponent)
        return fresh(x._data**exponent)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        saved = ctx.saved_variables
        n = saved.n
        if n == 0:
            return both.zeros_like(grad), None
        if n == 1:
            return grad, None
        x = saved[0]
        return grad * (x * 2.0 if n == 2 else n * x ** (n - 1)), None


class Neg(Function):
    """-x, of the shape of x.   Keeps: nothing.

    Example:
        >>> -lm.tensor([1.0, -2.0])
        tensor([-1.,  2.])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return fresh(-x._data)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return -grad


class Abs(Function):
    """|x|, of the shape of x; its derivative at 0 is 0.   Keeps: x.

    Example:
        >>> x = lm.tensor([-3.0, 0.0, 2.0], requires_grad=True)
        >>> lm.abs(x).sum().backward()
        >>> x.grad
        tensor([-1.,  0.,  1.])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return fresh(np.abs(x._data))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * both.sign(x)


class Exp(Function):
    """e ** x, of the shape of x.   Keeps: the output.

    Example:
        >>> x = lm.tensor([0.0, 1.0], requires_grad=True)
        >>> lm.exp(x).sum().backward()
        >>> x.grad  # the output is its own derivative
        tensor([1.    , 2.7183])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = fresh(np.exp(x._data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        return grad * y


class Log(Function):
    """The natural logarithm, of the shape of x.   Keeps: x.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> lm.log(x).sum().backward()
        >>> x.grad  # 1 / x
        tensor([1. , 0.5])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return fresh(np.log(x._data))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad / x


class Sqrt(Function):
    """The square root, of the shape of x.   Keeps: the output.

    Example:
        >>> x = lm.tensor([1.0, 4.0], requires_grad=True)
        >>> lm.sqrt(x).sum().backward()
        >>> x.grad  # 1 / (2 √x)
        tensor([0.5 , 0.25])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = fresh(np.sqrt(x._data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        return grad / (2.0 * y)


class Deviation(Function):
    """The square root of a variance.   Keeps: the output.

    Where that is 0 its gradient is 0 (the square root's is infinite, and 0 times it NaN): elements
    that are all equal are pulled nowhere.
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = fresh(np.sqrt(x._data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        nowhere = y == 0
        return both.where(nowhere, 0.0, grad / (2.0 * both.where(nowhere, 1.0, y)))


class Sin(Function):
    """The sine of x in radians, of the shape of x.   Keeps: x.

    Example:
        >>> x = lm.tensor(0.0, requires_grad=True)
        >>> lm.sin(x).backward()
        >>> x.grad  # cos 0
        tensor(1.)
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return fresh(np.sin(x._data))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * both.cos(x)


class Cos(Function):
    """The cosine of x in radians, of the shape of x.   Keeps: x.

    Example:
        >>> lm.cos(lm.tensor([0.0, np.pi / 3]))
        tensor([1. , 0.5])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return fresh(np.cos(x._data))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return -grad * both.sin(x)


class Tanh(Function):
    """The hyperbolic tangent, of the shape of x.   Keeps: the output.

    Example:
        >>> x = lm.tensor([0.0, 1.0], requires_grad=True)
        >>> lm.tanh(x).sum().backward()
        >>> x.grad  # 1 - tanh² x
        tensor([1.  , 0.42])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = fresh(np.tanh(x._data))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        return grad * (1.0 - y * y)


class Sigmoid(Function):
    """1 / (1 + e ** -x), of the shape of x, without overflow on either side.   Keeps: the output.

    Example:
        >>> lm.sigmoid(lm.tensor([-1000.0, 0.0, 1000.0]))
        tensor([0. , 0.5, 1. ])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = fresh(np.exp(-np.logaddexp(0.0, -x._data)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        return grad * (y * (1.0 - y))


class Relu(Function):
    """max(x, 0), of the shape of x; its derivative at 0 is 0.

    Keeps: the output: the next op mostly does so too, and x is one more buffer.

    Example:
        >>> x = lm.tensor([-1.0, 0.0, 2.0], requires_grad=True)
        >>> lm.relu(x).sum().backward()
        >>> x.grad
        tensor([0., 0., 1.])
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = fresh(np.maximum(x._data, 0))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        return both.masked(grad, y > 0)


class Clamp(Function):
    """x, no lower than `low` and no higher than `high` (numbers or None).   Keeps: x."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float | None, high: float | None) -> Tensor:
        ctx.save_for_backward(x, low=low, high=high)
        return fresh(np.clip(x._data, low, high))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        bounds = ctx.saved_variables
        x = bounds[0]
        if bounds.low is not None:
            grad = both.masked(grad, x >= bounds.low)
        if bounds.high is not None:
            grad = both.masked(grad, x <= bounds.high)
        return grad, None, None


class Maximum(Function):
    """The larger of a and b; the shapes broadcast. Equal ones share the gradient.   Keeps: a, b.

    Example:
        >>> a = lm.tensor([1.0, 5.0, 2.0], requires_grad=True)
        >>> lm.maximum(a, 2.0).sum().backward()
        >>> a.grad
        tensor([0. , 1. , 0.5])
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x, y = aligned(a._data, b._data)
        ctx.save_for_backward(a, b)
        return fresh(np.maximum(x, y))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        return _split(ctx, grad, a < b, a > b, a == b)


class Minimum(Function):
    """The smaller of a and b; the shapes broadcast. Equal ones share the gradient.   Keeps: a, b.

    Example:
        >>> lm.minimum(lm.tensor([1.0, 5.0]), lm.tensor([3.0, 4.0]))
        tensor([1., 4.])
    """

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        x, y = aligned(a._data, b._data)
        ctx.save_for_backward(a, b)
        return fresh(np.minimum(x, y))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        return _split(ctx, grad, a > b, a < b, a == b)


def _split(ctx: Any, grad: Any, not_a: Any, not_b: Any, tie: Any) -> Any:
    need_a, need_b = ctx.needs_input_grad
    grad = grad * (1.0 - tie * 0.5)
    grad_a = both.where(not_a, 0.0, grad) if need_a else None
    return grad_a, both.where(not_b, 0.0, grad) if need_b else None


class Where(Function):
    """a where `condition` holds, b elsewhere.   Keeps: the condition."""

    arrays = broadcasts = True

    @staticmethod
    def forward(ctx: Any, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(condition)
        return fresh(np.where(condition._data, *aligned(a._data, b._data)))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (condition,) = ctx.saved_tensors
        _, need_a, need_b = ctx.needs_input_grad
        return (
            None,
            both.where(condition, grad, 0.0) if need_a else None,
            both.where(condition, 0.0, grad) if need_b else None,
        )


class Clone(Function):
    """A copy with the history of x.   Keeps: nothing.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> x.clone().mul_(3.0)  # x stays what it is
        tensor([3., 6.], grad_fn=<MulInPlaceBackward>)
    """

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return fresh(x._data.copy())

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


class To(Function):
    """A copy of another dtype; the engine casts the gradient back.   Keeps: nothing."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: Any) -> Tensor:
        return fresh(x._data.astype(dtype))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


def _combine(ufunc: np.ufunc, ctx: Any, a: Tensor, b: Tensor) -> Tensor:
    return fresh(ufunc(*aligned(a._data, b._data)))


def _discrete(name: str, ufunc: np.ufunc, doc: str) -> type[Function]:
    """A Function that compares or combines bits: no floating result, so no gradient and no node."""
    # A partial, no closure: a Function that captures something is looked at after each call.
    body = {
        "broadcasts": True,
        "forward": staticmethod(functools.partial(_combine, ufunc)),
        "__doc__": doc,
        "__module__": __name__,
    }
    return type(name, (Function,), body)


Eq = _discrete("Eq", np.equal, "a == b.   Keeps: nothing.")
Ne = _discrete("Ne", np.not_equal, "a != b.   Keeps: nothing.")
Lt = _discrete("Lt", np.less, "a < b.   Keeps: nothing.")
Le = _discrete("Le", np.less_equal, "a <= b.   Keeps: nothing.")
Gt = _discrete("Gt", np.greater, "a > b.   Keeps: nothing.")
Ge = _discrete("Ge", np.greater_equal, "a >= b.   Keeps: nothing.")
And = _discrete(
    "And",
    np.bitwise_and,
    """a & b of booleans or integers; the shapes broadcast.   Keeps: nothing.

Example:
    >>> x = lm.tensor([-1.0, 2.0, 5.0])
    >>> (x > 0) & (x < 3)
    tensor([False,  True, False])
""",
)
Or = _discrete(
    "Or",
    np.bitwise_or,
    """a | b of booleans or integers; the shapes broadcast.   Keeps: nothing.

Example:
    >>> x = lm.tensor([-1.0, 2.0, 5.0])
    >>> (x < 0) | (x > 3)
    tensor([ True, False,  True])
""",
)
Xor = _discrete(
    "Xor",
    np.bitwise_xor,
    """a ^ b of booleans or integers; the shapes broadcast.   Keeps: nothing.

Example:
    >>> x = lm.tensor([-1.0, 2.0, 5.0])
    >>> (x > 0) ^ (x > 3)
    tensor([False,  True, False])
""",
)


class Not(Function):
    """~x of booleans or integers, of the shape of x.   Keeps: nothing.

    Example:
        >>> ~lm.tensor([True, False])
        tensor([False,  True])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return fresh(np.invert(x._data))
