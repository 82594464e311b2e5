"""HIPS autograd: functional, so `forward` is its `make_vjp` and `backward` calls the vjp.

What records is the call of a function; the graph lives in the vjp that it returns.
"""

from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp, primitive

from .base import Array, Framework, UnsupportedError

#: The gradient of one piece of a concatenation looks at the shapes of all before it.
MANY = 1_000


@primitive
def own_tanh(x: Any) -> Any:
    """A user's primitive; the rule stands below."""
    return np.tanh(x)


defvjp(own_tanh, lambda ans, x: lambda grad: grad * (1.0 - ans * ans))


class Hips(Framework):
    """Parameters are plain arrays; they become boxes while the function runs."""

    name = "HIPS autograd"
    distribution = "autograd"
    importing = "import autograd, autograd.numpy"

    def forward(self, function: Callable[..., Any], parameters: list[Any]) -> Any:
        """The vjp and the output."""
        return autograd.make_vjp(function, tuple(range(len(parameters))))(*parameters)

    def backward(self, recorded: Any, parameters: list[Any]) -> list[Any]:
        """The vjp of ones."""
        vjp, output = recorded
        return list(vjp(np.ones_like(output)))

    def gradients(self, function: Callable[..., Any], parameters: tuple[Any, ...]) -> list[Any]:
        """`grad` of `grad`: it is a function like any other."""
        return list(autograd.grad(function, tuple(range(len(parameters))))(*parameters))

    def parameter(self, array: Array) -> Any:
        """A copy."""
        return array.copy()

    def constant(self, array: Array) -> Any:
        """A copy."""
        return array.copy()

    def write(self, parameter: Any) -> None:
        """Into the array."""
        parameter *= 2.0

    def pair(self, x: Any) -> Any:
        """A built-in that has several outputs."""
        return anp.split(anp.concatenate([x, x]) * 2.0, 2)

    def tanh(self, x: Any) -> Any:
        """The function."""
        return anp.tanh(x)

    def own_tanh(self, x: Any) -> Any:
        """A primitive with `defvjp`."""
        return own_tanh(x)

    def relu(self, x: Any) -> Any:
        """It has none of that name."""
        return anp.maximum(x, 0.0)

    def sqrt(self, x: Any) -> Any:
        """The function."""
        return anp.sqrt(x)

    def sum(self, x: Any) -> Any:
        """The function."""
        return anp.sum(x)

    def mean(self, x: Any) -> Any:
        """The function."""
        return anp.mean(x, axis=-1, keepdims=True)

    def cat(self, pieces: list[Any]) -> Any:
        """The function."""
        self._few(pieces)
        return anp.concatenate(pieces)

    def stack(self, pieces: list[Any]) -> Any:
        """The function."""
        self._few(pieces)
        return anp.stack(pieces)

    def _few(self, pieces: list[Any]) -> None:
        if len(pieces) > MANY:
            raise UnsupportedError(f"joins of more than {MANY} arrays in less than minutes")

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """It has none: written with its functions."""
        z = logits - anp.max(logits, axis=1, keepdims=True)
        z = z - anp.log(anp.sum(anp.exp(z), axis=1, keepdims=True))
        return -anp.mean(z[np.arange(len(labels)), labels])
