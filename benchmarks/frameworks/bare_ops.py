"""The ops of the bare stack. Those of the network with relu differentiate twice."""

from typing import Any

import numpy as np

from .bare_stack import Function, Tensor, wrap


def _data(x: Any) -> Any:
    return x.data if type(x) is Tensor else x


class Add(Function):
    """a + b."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        """Keeps nothing."""
        return a.data + _data(b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The gradient, twice."""
        return grad, grad


class Mul(Function):
    """a * b."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        """Keeps what the other one's gradient needs."""
        if type(b) is not Tensor:
            ctx.save(wrap(b), None)
            return a.data * b
        need_a, need_b = ctx.next
        ctx.save(None if need_a is None else b, None if need_b is None else a)
        return a.data * b.data

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The gradient, times the other one."""
        b, a = ctx.load()
        return None if b is None else grad * b, None if a is None else grad * a


class Tanh(Function):
    """tanh."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Keeps its output, without the tensor."""
        y = np.tanh(x.data)
        ctx.save(wrap(y))
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """1 - tanh²."""
        (y,) = ctx.load()
        return (grad * (1.0 - y * y),)


class Relu(Function):
    """max(x, 0)."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Keeps its output."""
        y = np.maximum(x.data, 0.0)
        ctx.save(wrap(y))
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Where the output is above zero."""
        (y,) = ctx.load()
        return (grad * (_data(y) > 0),)


class MatMul(Function):
    """a @ b for matrices."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        """Keeps both."""
        need_a, need_b = ctx.next
        ctx.save(None if need_a is None else b, None if need_b is None else a)
        return a.data @ b.data

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Two products."""
        b, a = ctx.load()
        return None if b is None else grad @ b.T, None if a is None else a.T @ grad


class Transpose(Function):
    """A matrix the other way round."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Keeps nothing."""
        return x.data.T

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The other way round again."""
        return (grad.T,)


class Sub(Function):
    """a - b."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        """Keeps nothing."""
        return _data(a) - _data(b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The gradient, and minus it."""
        return grad, grad * -1.0


class Div(Function):
    """a / b for tensors."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        """Keeps both."""
        ctx.save(a, b)
        return a.data / b.data

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """1/b and -a/b²."""
        a, b = ctx.load()
        g = grad / b
        return g, g * a / b * -1.0


class Sqrt(Function):
    """The square root."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Keeps its output."""
        y = np.sqrt(x.data)
        ctx.save(wrap(y))
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """1/2y; in a first-order pass only, as from here on."""
        (y,) = ctx.load()
        return (grad * 0.5 / y,)


class Sum(Function):
    """The sum of all elements."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Keeps the shape."""
        ctx.saved = x.data.shape
        return np.asarray(x.data.sum())

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The gradient everywhere."""
        return (np.broadcast_to(grad, ctx.saved),)


class Mean(Function):
    """The mean of each row, as a column."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Keeps the shape."""
        ctx.saved = x.data.shape
        return x.data.mean(axis=-1, keepdims=True)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """A share of the gradient everywhere."""
        return (np.broadcast_to(grad / ctx.saved[-1], ctx.saved),)


class GetItem(Function):
    """x[index]."""

    @staticmethod
    def forward(ctx: Any, x: Any, index: Any) -> Any:
        """Keeps the shape and the index."""
        ctx.saved = x.data.shape, index
        return x.data[index]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Zeros, and the gradient where it belongs."""
        shape, index = ctx.saved
        whole = np.zeros(shape)
        if isinstance(index, slice):
            whole[index] = grad
        else:
            np.add.at(whole, index, grad)
        return whole, None


class Cat(Function):
    """Pieces behind each other."""

    @staticmethod
    def forward(ctx: Any, *pieces: Any) -> Any:
        """Keeps where they start."""
        arrays = [piece.data for piece in pieces]
        ctx.saved = np.cumsum([len(array) for array in arrays]).tolist()
        return np.concatenate(arrays)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Slices of the gradient."""
        ends = ctx.saved
        return [grad[a:b] for a, b in zip([0, *ends], ends, strict=False)]


class Stack(Function):
    """Pieces on top of each other."""

    @staticmethod
    def forward(ctx: Any, *pieces: Any) -> Any:
        """Keeps nothing."""
        return np.stack([piece.data for piece in pieces])

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Rows of the gradient."""
        return list(grad)


class Softmax(Function):
    """Of each row."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Keeps its output."""
        p = np.exp(x.data - x.data.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        ctx.save(wrap(p))
        return p

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Less what all of a row have in common."""
        (p,) = ctx.load()
        g = grad * p
        return (g - p * g.sum(axis=1, keepdims=True),)


class CrossEntropy(Function):
    """Mean over rows."""

    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any) -> Any:
        """Keeps the logarithms of the probabilities, and its input for a second order."""
        z = logits.data - logits.data.max(axis=1, keepdims=True)
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
        ctx.save(wrap(z), labels, logits)
        return -z[np.arange(len(z)), labels.data].mean(keepdims=True)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Probabilities less the truth."""
        z, labels, logits = ctx.load()
        if not ctx.arrays:
            truth = np.zeros(z.data.shape)
            truth[np.arange(len(truth)), labels.data] = 1.0
            return (Softmax.apply(logits) - truth) * (grad * (1.0 / len(truth))), None
        p = np.exp(z)
        p[np.arange(len(p)), labels] -= 1.0
        p *= grad / len(p)
        return p, None


def _minus_from(x: Any, other: Any) -> Any:
    return Sub.apply(other, x)


for name, op in {
    "__add__": Add.apply,
    "__sub__": Sub.apply,
    "__rsub__": _minus_from,
    "__mul__": Mul.apply,
    "__truediv__": Div.apply,
    "__matmul__": MatMul.apply,
    "__getitem__": GetItem.apply,
    "T": property(Transpose.apply),
}.items():
    setattr(Tensor, name, op)
