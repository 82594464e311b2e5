"""The bare stack: ctx, Function and engine in as few instructions as pure Python allows.

It has what the design of the project needs (one recorded object an op, rules that take arrays in a
first-order pass and tensors above it, saved versions, a heap of sequence numbers, saved data
dropped once used) and nothing that protects a user: no checks, no modes, no hooks, no views, no
second output. What a complete stack costs beyond it is the price of those. `bare_ops.py` has the
ops, and hangs the operators on Tensor.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar

import numpy as np

from .base import Array

_sequence = count(1)


class Tensor:
    """An array, the node that made it, and how often it was written."""

    __slots__ = ("__weakref__", "data", "grad", "node", "version")
    data: Array
    grad: Any
    node: Any
    version: int


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
            g = grad
            if (grad.data if create else grad).shape != upstream.shape:
                g = SumTo.apply(grad, upstream.shape) if create else sum_to(grad, upstream.shape)
            if upstream in pending:
                pending[upstream] = pending[upstream] + g
            else:
                pending[upstream] = g
                if upstream.number:
                    heappush(heap, (-upstream.number, upstream))
    for leaf, grad in pending.items():
        leaf.tensor.grad = grad if create else wrap(grad)


def sum_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Broadcasting undone: `x` summed to `shape`."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    short = tuple(axis for axis, length in enumerate(shape) if length < x.shape[axis])
    return x.sum(axis=short, keepdims=True) if short else x


class SumTo(Function):
    """Broadcasting undone."""

    @staticmethod
    def forward(ctx: Any, x: Any, shape: Any) -> Any:
        """Keeps the shape."""
        ctx.saved = x.data.shape
        return sum_to(x.data, shape)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Broadcast again; in a first-order pass only."""
        return (np.broadcast_to(grad, ctx.saved),)
