"""What a workload asks of a framework: a handful of words, and a forward and a backward.

A workload is a `Program`: written once in these words for all frameworks, and once by hand in
NumPy.
"""

from collections.abc import Callable
from importlib import metadata
from typing import Any, ClassVar, NamedTuple
from weakref import ReferenceType

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class UnsupportedError(Exception):
    """A framework lacks a word that a workload needs; it is left out of that workload."""


class Program(NamedTuple):
    """One computation, told twice.

    `write(framework)` gives a function of the parameters that returns one output of one element.
    `forward(*parameters)` does the same by hand and returns whatever `backward(recorded)` needs to
    give one gradient a parameter.
    """

    parameters: tuple[Array, ...]
    write: Callable[["Framework"], Callable[..., Any]]
    forward: Callable[..., Any]
    backward: Callable[[Any], list[Array]]


class Run(NamedTuple):
    """A program in the hands of a framework: `backward(forward())` is one step."""

    forward: Callable[[], Any]
    backward: Callable[[Any], list[Any]]

    def step(self) -> list[Any]:
        """Forward and backward, and the graph dropped."""
        return self.backward(self.forward())


class Framework:
    """The base of the adapters.

    An adapter imports its package in its module or in `__init__`: an ImportError leaves it out.
    """

    name: ClassVar[str]
    #: What the package is called where it is installed.
    distribution: ClassVar[str]
    #: The statement that imports it; None where there is no package.
    importing: ClassVar[str | None] = None
    #: The depth of recursion that its backward is given; 0: what Python allows.
    depth: int = 0

    def version(self) -> str:
        """The installed version; "checkout" for a package that is imported without one."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return "checkout"

    def start(self, program: Program) -> Run:
        """`program` with its parameters made, ready to run again and again."""
        function = program.write(self)
        parameters = [self.parameter(array) for array in program.parameters]
        return Run(
            lambda: self.forward(function, parameters),
            lambda recorded: self.backward(recorded, parameters),
        )

    def forward(self, function: Callable[..., Any], parameters: list[Any]) -> Any:
        """Run `function` while recording; the result owns the graph."""
        return function(*parameters)

    def backward(self, recorded: Any, parameters: list[Any]) -> list[Any]:
        """The gradients of `parameters`, taken away from them: the next step starts anew."""
        raise NotImplementedError

    def array(self, gradient: Any) -> Array:
        """A gradient as an array."""
        return np.asarray(gradient)

    # -- the words --------------------------------------------------------------------------------
    # Besides them: the operators `+ - * / []`.

    def parameter(self, array: Array) -> Any:
        """A leaf that wants a gradient."""
        raise UnsupportedError("arrays")

    def constant(self, array: Array) -> Any:
        """A leaf that wants none; labels too."""
        raise UnsupportedError("arrays")

    def matmul(self, a: Any, b: Any) -> Any:
        """The product of two matrices."""
        return a @ b

    def tanh(self, x: Any) -> Any:
        """The built-in."""
        raise UnsupportedError("tanh")

    def own_tanh(self, x: Any) -> Any:
        """As a user of the framework writes it, with its own backward, for speed."""
        raise UnsupportedError("own functions")

    def own_tanh_plain(self, x: Any) -> Any:
        """As one writes it who knows nothing of speed; the same where there is only one way."""
        return self.own_tanh(x)

    def relu(self, x: Any) -> Any:
        """`max(x, 0)`."""
        raise UnsupportedError("relu")

    def sqrt(self, x: Any) -> Any:
        """The square root."""
        raise UnsupportedError("sqrt")

    def sum(self, x: Any) -> Any:
        """The sum of all elements."""
        raise UnsupportedError("sum")

    def mean(self, x: Any) -> Any:
        """The mean of each row, as a column."""
        raise UnsupportedError("mean")

    def cat(self, pieces: list[Any]) -> Any:
        """Pieces behind each other."""
        raise UnsupportedError("cat")

    def stack(self, pieces: list[Any]) -> Any:
        """Pieces on top of each other."""
        raise UnsupportedError("stack")

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """Mean over the rows, labels as class numbers."""
        raise UnsupportedError("cross_entropy")

    def gradients(self, function: Callable[..., Any], parameters: tuple[Any, ...]) -> list[Any]:
        """The gradients of `function(*parameters)`, with a graph of their own."""
        raise UnsupportedError("gradients of gradients")

    # -- for facts.py -----------------------------------------------------------------------------

    def write(self, parameter: Any) -> None:
        """Double a parameter in place, as its user would, after it was recorded."""
        raise UnsupportedError("writes")

    def pair(self, x: Any) -> Any:
        """Two outputs of one op, the first of them `2 * x`."""
        raise UnsupportedError("several outputs")

    def holder(self, tensor: ReferenceType[Any]) -> str:
        """Who keeps a tensor alive, as the framework tells it."""
        raise UnsupportedError("holders")
