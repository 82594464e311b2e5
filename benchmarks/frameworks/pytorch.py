"""PyTorch on the CPU, one thread, float64 as everywhere here."""

from collections.abc import Callable
from typing import Any

from .base import Array, Framework


class PyTorch(Framework):
    """The engine that readers come from and go back to."""

    name = "PyTorch"
    distribution = "torch"
    importing = "import torch"

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(1)

        class OwnTanh(torch.autograd.Function):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = torch.tanh(x)
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                (y,) = ctx.saved_tensors
                return grad * (1.0 - y * y)

        class Pair(torch.autograd.Function):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2.0, x * 3.0

            @staticmethod
            def backward(ctx: Any, first: Any, second: Any) -> Any:
                return first * 2.0 + second * 3.0

        self.two = Pair
        self.torch = torch
        self.own = OwnTanh

    def parameter(self, array: Array) -> Any:
        """A copy that requires grad."""
        return self.torch.tensor(array, requires_grad=True)

    def constant(self, array: Array) -> Any:
        """A copy."""
        return self.torch.tensor(array)

    def backward(self, recorded: Any, parameters: list[Any]) -> list[Any]:
        """`.backward()`, then `.grad` of each."""
        recorded.backward()
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        return gradients

    def gradients(self, function: Callable[..., Any], parameters: tuple[Any, ...]) -> list[Any]:
        """`grad` with a graph."""
        return list(self.torch.autograd.grad(function(*parameters), parameters, create_graph=True))

    def write(self, parameter: Any) -> None:
        """An op in place, unrecorded."""
        with self.torch.no_grad():
            parameter.mul_(2.0)

    def pair(self, x: Any) -> Any:
        """A Function with two outputs."""
        return self.two.apply(x)

    def tanh(self, x: Any) -> Any:
        """The method."""
        return x.tanh()

    def own_tanh(self, x: Any) -> Any:
        """A `torch.autograd.Function`."""
        return self.own.apply(x)

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
        return self.torch.cat(pieces)

    def stack(self, pieces: list[Any]) -> Any:
        """The function."""
        return self.torch.stack(pieces)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The functional form."""
        return self.torch.nn.functional.cross_entropy(logits, labels)
