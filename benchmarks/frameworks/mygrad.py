"""MyGrad, as it comes: the guard that makes arrays of a graph read-only stays on."""

from typing import Any

import mygrad as mg
import numpy as np
from mygrad.nnet.activations import relu
from mygrad.nnet.losses import softmax_crossentropy
from mygrad.operation_base import Operation

from .base import Array, Framework


class OwnTanh(Operation):  # type: ignore[misc]
    """A user's Operation."""

    def __call__(self, x: Any) -> Array:
        """Keeps its output."""
        self.variables = (x,)
        self.output = np.tanh(x.data)
        return self.output

    def backward_var(self, grad: Any, index: int, **kwargs: Any) -> Any:
        """1 - tanh²."""
        return grad * (1.0 - self.output * self.output)


class MyGrad(Framework):
    """It has no gradients of gradients, and no op with several outputs."""

    name = "MyGrad"
    distribution = "mygrad"
    importing = "import mygrad"

    def backward(self, recorded: Any, parameters: list[Any]) -> list[Any]:
        """`.backward()`, then `.grad` of each."""
        recorded.backward()
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.null_grad()
        return gradients

    def parameter(self, array: Array) -> Any:
        """A copy."""
        return mg.tensor(array)

    def constant(self, array: Array) -> Any:
        """A copy that is constant."""
        return mg.tensor(array, constant=True)

    def write(self, parameter: Any) -> None:
        """Into the array under the tensor."""
        parameter.data *= 2.0

    def tanh(self, x: Any) -> Any:
        """The function."""
        return mg.tanh(x)

    def own_tanh(self, x: Any) -> Any:
        """An Operation."""
        return mg.execute_op(OwnTanh, x)

    def relu(self, x: Any) -> Any:
        """The function."""
        return relu(x)

    def sqrt(self, x: Any) -> Any:
        """The function."""
        return mg.sqrt(x)

    def sum(self, x: Any) -> Any:
        """The function."""
        return mg.sum(x)

    def mean(self, x: Any) -> Any:
        """The function."""
        return mg.mean(x, axis=-1, keepdims=True)

    def cat(self, pieces: list[Any]) -> Any:
        """The function."""
        return mg.concatenate(pieces)

    def stack(self, pieces: list[Any]) -> Any:
        """The function."""
        return mg.stack(pieces)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The function."""
        return softmax_crossentropy(logits, labels)
