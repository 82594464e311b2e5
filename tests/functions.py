"""The notation of the behaviour rows: short names for tensors, and the example Functions."""

import lucid_mini as lm
from lucid_mini.autograd import Function


def T(*values):
    """A float64 tensor that requires grad."""
    return lm.tensor([float(v) for v in values], requires_grad=True)


def C(*values):
    """The same, without a gradient: a constant."""
    return lm.tensor([float(v) for v in values])


def g(x):
    """`x.grad` as a list, None where there is none."""
    return None if x.grad is None else x.grad.tolist()


class Square(Function):
    """x², and it saves its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class Mul(Function):
    """a · b, and it saves both."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return b * grad, a * grad


class Exp(Function):
    """e to the x, and it saves its output."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * grad


class Split(Function):
    """(2x, 3x): two outputs, and it saves nothing."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x, 3 * x

    @staticmethod
    def backward(ctx, grad_a, grad_b):
        return 2 * grad_a + 3 * grad_b
