"""micrograd: one Python number a node. It takes part where all arrays have one element."""

import math
import sys
from typing import Any

from micrograd.engine import Value

from .base import Array, Framework, UnsupportedError


def own_tanh(x: Any) -> Any:
    """As micrograd writes its own ops: a value, and a closure that knows the rule."""
    y = math.tanh(x.data)
    output = Value(y, (x,), "tanh")

    def backward() -> None:
        x.grad += (1.0 - y * y) * output.grad

    output._backward = backward
    return output


class Micrograd(Framework):
    """It orders its graph by recursion: a chain may be as long as Python's stack is deep."""

    name = "micrograd"
    distribution = "micrograd"
    importing = "import micrograd.engine"
    #: Python's own limit is 1 000, half of what the shortest chain here needs.
    depth = 25_000

    def backward(self, recorded: Any, parameters: list[Any]) -> list[Any]:
        """`.backward()` under a raised limit, then `.grad` of each."""
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, self.depth))
        try:
            recorded.backward()
        finally:
            sys.setrecursionlimit(limit)
        gradients = [[parameter.grad] for parameter in parameters]
        for parameter in parameters:
            parameter.grad = 0
        return gradients

    def parameter(self, array: Array) -> Any:
        """A number."""
        if array.size != 1:
            raise UnsupportedError("arrays")
        return Value(array.item())

    def constant(self, array: Array) -> Any:
        """A number; it gets a gradient like all others."""
        return self.parameter(array)

    def write(self, parameter: Any) -> None:
        """Another number."""
        parameter.data *= 2.0

    def own_tanh(self, x: Any) -> Any:
        """The function above."""
        return own_tanh(x)
