"""lucid_mini, through its public names."""

from collections.abc import Callable
from typing import Any
from weakref import ReferenceType

import numpy as np

import lucid_mini as lm

from .base import Array, Framework


class ArrayTanh(lm.autograd.Function):
    """A reader's tanh that says `arrays = True`: backward is handed arrays."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Keeps its output."""
        y = lm.from_numpy(np.tanh(x.numpy()))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """1 - tanh²."""
        (y,) = ctx.saved_tensors
        return grad * (1.0 - y * y)


class PlainTanh(lm.autograd.Function):
    """The same as one writes it first: tensors everywhere."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Keeps its output."""
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """1 - tanh²."""
        (y,) = ctx.saved_tensors
        return grad * (1.0 - y * y)


class Pair(lm.autograd.Function):
    """Two outputs."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Twice and three times."""
        return x * 2.0, x * 3.0

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        """Both."""
        return first * 2.0 + second * 3.0


class Lucid(Framework):
    """The project itself."""

    name = "lucid_mini"
    distribution = "lucid-mini"
    importing = "import lucid_mini"

    def parameter(self, array: Array) -> Any:
        """A copy that requires grad."""
        return lm.tensor(array, requires_grad=True)

    def constant(self, array: Array) -> Any:
        """A copy."""
        return lm.tensor(array)

    def backward(self, recorded: Any, parameters: list[Any]) -> list[Any]:
        """`.backward()`, then `.grad` of each."""
        recorded.backward()
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        return gradients

    def gradients(self, function: Callable[..., Any], parameters: tuple[Any, ...]) -> list[Any]:
        """`grad` with a graph."""
        return list(lm.autograd.grad(function(*parameters), parameters, create_graph=True))

    def write(self, parameter: Any) -> None:
        """An op in place, unrecorded."""
        with lm.no_grad():
            parameter.mul_(2.0)

    def pair(self, x: Any) -> Any:
        """A Function with two outputs."""
        return Pair.apply(x)

    def holder(self, tensor: ReferenceType[Any]) -> str:
        """The shortest chain from a name."""
        return str(lm.lifetime.why_alive(tensor))

    def tanh(self, x: Any) -> Any:
        """The method."""
        return x.tanh()

    def own_tanh(self, x: Any) -> Any:
        """Rules on arrays."""
        return ArrayTanh.apply(x)

    def own_tanh_plain(self, x: Any) -> Any:
        """Rules on tensors."""
        return PlainTanh.apply(x)

    def relu(self, x: Any) -> Any:
        """The method."""
        return x.relu()

    def sqrt(self, x: Any) -> Any:
        """The method."""
        return x.sqrt()

    def sum(self, x: Any) -> Any:
        """The method."""
        return x.sum()

    def mean(self, x: Any) -> Any:
        """The method."""
        return x.mean(-1, keepdim=True)

    def cat(self, pieces: list[Any]) -> Any:
        """The function."""
        return lm.cat(pieces)

    def stack(self, pieces: list[Any]) -> Any:
        """The function."""
        return lm.stack(pieces)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The function."""
        return lm.cross_entropy(logits, labels)
