"""The event record, and the slot for the one active recorder. Imports nothing of the package.

The stack calls the recorder where something happens to memory, and only if there is one:
`if events.recorder is not None: ...`. When nothing watches, that read is all it costs.
"""

from typing import Any, NamedTuple, Protocol


class Event(NamedTuple):
    """One thing that happened, in names and numbers; it holds no object of the program.

    `step` counts events from 0. `kind` is one of KINDS. `node` is a label such as `mul#17` or "".
    `buffer` is the name of the owning buffer or "". `nbytes` is the size of that buffer, in bytes.
    `where` is `file:line` of the code that asked for it, or "".
    """

    step: int
    kind: str
    node: str
    buffer: str
    nbytes: int
    where: str


KINDS = (
    "alloc",
    "save",
    "replace",
    "unpack",
    "use",
    "release",
    "free",
    "run",
    "accumulate",
    "write",
    "store",
    "hook",
)


class Recorder(Protocol):
    """What the stack tells whoever listens. Arrays are handed over: hold them weakly."""

    def created(self, tensor: Any, name: str = "tensor") -> None:
        """A constructor made `tensor`; a `constant` is a number that an op made a tensor of."""

    def applied(
        self, node: Any, function: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]
    ) -> None:
        """An op finished; `node` is None where nothing was recorded."""

    def running(self, node: Any, grads: Any) -> None:
        """Backward is about to run `node` with its complete gradient or gradients."""

    def ran(self, node: Any, grads: Any) -> None:
        """Backward ran `node`, which gave `grads`."""

    def adding(self, total: Any, grad: Any) -> None:
        """The engine is about to add two contributions to one gradient."""

    def summed(self, node: Any, total: Any) -> None:
        """The engine added two contributions to the gradient of an output of `node`."""

    def released(self, node: Any) -> None:
        """`node` let go of what it had saved."""

    def accumulated(self, leaf: Any, grad: Any) -> None:
        """`leaf.grad` was given `grad`."""

    def wrote(self, tensor: Any, what: str) -> None:
        """`tensor` was changed in place by `what`."""

    def replaced(self, ctx: Any) -> None:
        """A second save replaced what `ctx` had saved."""

    def stored(self, ctx: Any, key: str) -> None:
        """A value that may hold a tensor went into the bag of `ctx`."""

    def unpacked(self, ctx: Any) -> None:
        """The saved values of `ctx` were read."""

    def hooked(self, hook: Any) -> None:
        """`hook` ran."""


recorder: Recorder | None = None
