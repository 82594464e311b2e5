"""DeZero 0.0.13, which was written for older NumPy.

While it is imported it reads `np.int`, which NumPy 1.24 took away (and matplotlib, which it does
not ask for when it is installed). The name is lent for the import alone: what DeZero uses it for
are default arguments of its data sets, which take no part here.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Array, Framework

_lent = not hasattr(np, "int")
if _lent:
    vars(np)["int"] = int
try:
    import dezero
    import dezero.functions as F  # noqa: N812 - its own name for it
finally:
    if _lent:
        del vars(np)["int"]


class OwnTanh(dezero.Function):  # type: ignore[misc]
    """A user's Function, written like its own: the output is known weakly."""

    def forward(self, x: Any) -> Any:
        """Keeps nothing; its output is at `outputs`."""
        return np.tanh(x)

    def backward(self, grad: Any) -> Any:
        """1 - tanh²."""
        y = self.outputs[0]()
        return grad * (1.0 - y * y)


class Pair(dezero.Function):  # type: ignore[misc]
    """Two outputs."""

    def forward(self, x: Any) -> Any:
        """Twice and three times."""
        return x * 2.0, x * 3.0

    def backward(self, first: Any, second: Any) -> Any:
        """Both."""
        return first * 2.0 + second * 3.0


class DeZero(Framework):
    """It has neither `@` nor an op that joins arrays."""

    name = "DeZero"
    distribution = "dezero"
    importing = "import numpy; numpy.int = int; import dezero"

    def backward(self, recorded: Any, parameters: list[Any]) -> list[Any]:
        """`.backward()`, then `.grad` of each."""
        recorded.backward()
        return self._taken(parameters)

    def gradients(self, function: Callable[..., Any], parameters: tuple[Any, ...]) -> list[Any]:
        """A backward that records."""
        function(*parameters).backward(create_graph=True)
        return self._taken(parameters)

    def _taken(self, parameters: Any) -> list[Any]:
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.cleargrad()
        return gradients

    def array(self, gradient: Any) -> Array:
        """The data."""
        return np.asarray(gradient.data)

    def parameter(self, array: Array) -> Any:
        """A copy."""
        return dezero.Variable(array.copy())

    def constant(self, array: Array) -> Any:
        """A copy; it gets a gradient like all others."""
        return dezero.Variable(array.copy())

    def write(self, parameter: Any) -> None:
        """Into the array under the Variable."""
        parameter.data *= 2.0

    def pair(self, x: Any) -> Any:
        """A Function with two outputs."""
        return Pair()(x)

    def matmul(self, a: Any, b: Any) -> Any:
        """The function."""
        return F.matmul(a, b)

    def tanh(self, x: Any) -> Any:
        """The function."""
        return F.tanh(x)

    def own_tanh(self, x: Any) -> Any:
        """A Function."""
        return OwnTanh()(x)

    def relu(self, x: Any) -> Any:
        """The function."""
        return F.relu(x)

    def sqrt(self, x: Any) -> Any:
        """It has none of that name."""
        return x**0.5

    def sum(self, x: Any) -> Any:
        """The function."""
        return F.sum(x)

    def mean(self, x: Any) -> Any:
        """It has none: a sum, and a division."""
        return F.sum(x, axis=-1, keepdims=True) / x.shape[-1]

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The function."""
        return F.softmax_cross_entropy(logits, labels)
