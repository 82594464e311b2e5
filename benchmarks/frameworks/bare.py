"""The bare stack as an adapter."""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import bare_ops as ops
from .bare_stack import Leaf, backward, wrap
from .base import Array, Framework


class Bare(Framework):
    """The floor of all stacks that have a ctx, Functions and an engine."""

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
        return self._taken(parameters)

    def gradients(self, function: Callable[..., Any], parameters: tuple[Any, ...]) -> list[Any]:
        """The engine, recording."""
        backward(function(*parameters), create=True)
        return self._taken(parameters)

    def _taken(self, parameters: Any) -> list[Any]:
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        return gradients

    def array(self, gradient: Any) -> Array:
        """The data."""
        return np.asarray(gradient.data)

    def tanh(self, x: Any) -> Any:
        """The op."""
        return ops.Tanh.apply(x)

    def own_tanh(self, x: Any) -> Any:
        """The same op: every Function is a user's own here."""
        return ops.Tanh.apply(x)

    def relu(self, x: Any) -> Any:
        """The op."""
        return ops.Relu.apply(x)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The op."""
        return ops.CrossEntropy.apply(logits, labels)

    def sqrt(self, x: Any) -> Any:
        """The op."""
        return ops.Sqrt.apply(x)

    def sum(self, x: Any) -> Any:
        """The op."""
        return ops.Sum.apply(x)

    def mean(self, x: Any) -> Any:
        """The op."""
        return ops.Mean.apply(x)

    def cat(self, pieces: list[Any]) -> Any:
        """The op."""
        return ops.Cat.apply(*pieces)

    def stack(self, pieces: list[Any]) -> Any:
        """The op."""
        return ops.Stack.apply(*pieces)
