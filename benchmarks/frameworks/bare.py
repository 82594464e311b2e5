"""The bare stack: ctx, Function and engine in as few instructions as pure Python allows.

It has what the design of the project needs (one recorded object an op, rules that take arrays in a
first-order pass and tensors above it, saved versions, a heap of sequence numbers, saved data
dropped once used) and nothing that protects a user: no checks, no modes, no hooks, no views, no
second output. What a complete stack costs beyond it is the price of those.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar

import numpy as np

from .base import Array, Framework

_sequence = count(1)


class Tensor:
    """An array, the node that made it, and how often it was written."""

    __slots__ = ("__weakref__", "data", "grad", "node", "version")
    data: Array
    grad: Any
    node: Any
    version: int

    def __add__(self, other: Any) -> Any:
        return Add.apply(self, other)

    def __mul__(self, other: Any) -> Any:
        return Mul.apply(self, other)

    def __rsub__(self, other: Any) -> Any:
        return Add.apply(Mul.apply(self, -1.0), other)

    def __matmul__(self, other: Any) -> Any:
        return MatMul.apply(self, other)

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The transpose."""
        return Transpose.apply(self)


_new = Tensor.__new__


def wrap(data: Array) -> Tensor:
    """A tensor without history."""
    tensor = _new(Tensor)
    tensor.data = data
    tensor.node = tensor.grad = None
    tensor.version = 0
    return tensor


class Node:
    """One recorded call, and its ctx."""

    __slots__ = (
        "__weakref__",
        "arrays",
        "function",
        "next",
        "number",
        "saved",
        "shape",
        "versions",
    )
    arrays: bool
    saved: Any
    versions: Any

    def save(self, *tensors: Any) -> None:
        """Keep tensors for backward."""
        self.saved = tensors
        for tensor in tensors:
            if tensor is not None and tensor.version:
                self.versions = [None if t is None else t.version for t in tensors]

    def load(self) -> list[Any]:
        """What was saved: arrays in a first-order pass."""
        values: list[Any] = []
        for tensor in self.saved:
            if tensor is None:
                values.append(None)
            elif tensor.version and self.versions is None:
                raise RuntimeError("written since it was saved")
            else:
                values.append(tensor.data if self.arrays else tensor)
        return values


class Leaf:
    """Where a path ends."""

    __slots__ = ("shape", "tensor")
    shape: tuple[int, ...]
    tensor: Tensor
    number = 0


class Function:
    """An op: `forward(ctx, ...)` gives an array, `backward(ctx, grad)` a tuple."""

    forward: ClassVar[Callable[..., Any]]
    backward: ClassVar[Callable[..., Any]]
    apply: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls) -> None:
        forward, make = cls.forward, Node.__new__

        def apply(*args: Any) -> Tensor:
            upstream = []
            for a in args:
                upstream.append(a.node if type(a) is Tensor else None)
            ctx: Any = make(Node)
            ctx.function = cls
            ctx.next = tuple(upstream)
            ctx.saved = ctx.versions = None
            data = forward(ctx, *args)
            ctx.number = next(_sequence)
            ctx.shape = data.shape
            output = _new(Tensor)
            output.data = data
            output.node = ctx
            output.grad = None
            output.version = 0
            return output

        cls.apply = staticmethod(apply)


def backward(root: Tensor, create: bool = False) -> None:
    """Send ones down to the leaves."""
    seed = np.ones(root.data.shape)
    first: Any = root.node
    pending: dict[Any, Any] = {first: wrap(seed) if create else seed}
    heap = [(-first.number, first)]
    while heap:
        node = heappop(heap)[1]
        node.arrays = not create
        grads = node.function.backward(node, pending.pop(node))
        if not create:
            node.saved = None
        for upstream, grad in zip(node.next, grads, strict=False):
            if upstream is None or grad is None:
                continue
            g = grad if create or grad.shape == upstream.shape else grad.sum(axis=0)
            if upstream in pending:
                pending[upstream] = pending[upstream] + g
            else:
                pending[upstream] = g
                if upstream.number:
                    heappush(heap, (-upstream.number, upstream))
    for leaf, grad in pending.items():
        leaf.tensor.grad = grad if create else wrap(grad)


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


class CrossEntropy(Function):
    """Mean over rows. Its rule is for a first-order pass."""

    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any) -> Any:
        """Keeps the logarithms of the probabilities."""
        z = logits.data - logits.data.max(axis=1, keepdims=True)
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
        ctx.save(wrap(z), labels)
        return -z[np.arange(len(z)), labels.data].mean(keepdims=True)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Probabilities less the truth."""
        z, labels = ctx.load()
        p = np.exp(z)
        p[np.arange(len(p)), labels] -= 1.0
        p *= grad / len(p)
        return p, None


class Bare(Framework):
    """The stack above as an adapter."""

    name = "bare stack"
    distribution = "numpy"

    def parameter(self, array: Array) -> Any:
        """A copy that requires grad."""
        tensor = wrap(array.copy())
        leaf = Leaf()
        leaf.shape, leaf.tensor = array.shape, tensor
        tensor.node = leaf
        return tensor

    def constant(self, array: Array) -> Any:
        """A copy."""
        return wrap(array.copy())

    def backward(self, recorded: Any, parameters: list[Any]) -> list[Any]:
        """The engine, then `.grad` of each."""
        backward(recorded)
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        return gradients

    def array(self, gradient: Any) -> Array:
        """The data."""
        return np.asarray(gradient.data)

    def tanh(self, x: Any) -> Any:
        """The op above."""
        return Tanh.apply(x)

    def own_tanh(self, x: Any) -> Any:
        """The same op: every Function is a user's own here."""
        return Tanh.apply(x)

    def relu(self, x: Any) -> Any:
        """The op above."""
        return Relu.apply(x)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The op above."""
        return CrossEntropy.apply(logits, labels)
