"""detect_anomaly: stop at the first NaN or Inf of a backward pass, and say which call it is from.

It listens as a trace does (`events.recorder`), so it costs nothing when it is off.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from .. import events
from ..errors import AnomalyError
from .callsite import call_site
from .tensor import Tensor


class ReadOnly:
    """Makes the arrays that a rule with `arrays = True` was handed read-only while it runs.

    A rule that writes them would change gradients and saved values under everybody's hands. NumPy
    refuses the write at the guilty line.
    """

    def __init__(self) -> None:
        self._closed: list[Any] = []

    def close(self, node: Any, grads: Any) -> None:
        """Take the write permission from `grads` and from what `node` has saved."""
        self.open()
        slots = node._ctx._saved
        held = (
            [slot._data for slot in slots if hasattr(slot, "_data")] if type(slots) is tuple else []
        )
        for array in (*(grads if type(grads) is list else (grads,)), *held):
            if type(array) is np.ndarray and array.flags.writeable:
                array.flags.writeable = False
                self._closed.append(array)

    def open(self) -> None:
        """Give it back."""
        # Owners first: a view can be opened only when its owner is.
        for array in sorted(self._closed, key=lambda array: array.base is not None):
            array.flags.writeable = True
        self._closed.clear()


class detect_anomaly:  # noqa: N801 - the name is PyTorch's
    """Raise AnomalyError at the first gradient with a NaN or an Inf in it.

    Put forward and backward into the block: the calls made in it know the line that made them.
    Arrays that rules are handed cannot be written meanwhile.
    Keeps: one text per node.   Raises: AnomalyError with the node, the argument, and where forward
    was called.

    Example:
        >>> x = lm.tensor([0.0], requires_grad=True)
        >>> with lm.autograd.detect_anomaly():
        ...     x.sqrt().backward()
        Traceback (most recent call last):
            ...
        lucid_mini.errors.AnomalyError: sqrt#1 gave a gradient for 'x' with 1 Inf ...
    """

    def __init__(self) -> None:
        self._outer: Any = None
        self._protected = ReadOnly()

    def __enter__(self) -> "detect_anomaly":
        self._outer = events.recorder
        events.recorder = cast(events.Recorder, self)
        return self

    def __exit__(self, *_: object) -> None:
        self._protected.open()
        events.recorder, self._outer = self._outer, None

    # -- what the stack tells (events.Recorder) ---------------------------------------------------

    def applied(
        self, node: Any, function: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]
    ) -> None:
        """An op finished: note on its node who called it."""
        if node is not None:
            node.metadata["called at"] = call_site()
        if self._outer is not None:
            self._outer.applied(node, function, args, outputs)

    def running(self, node: Any, grads: Any) -> None:
        """A rule is about to run."""
        self._protected.close(node, grads)
        if self._outer is not None:
            self._outer.running(node, grads)

    def ran(self, node: Any, grads: Any) -> None:
        """A rule ran: look at what it gave.

        Raises: AnomalyError.
        """
        self._protected.open()
        if self._outer is not None:
            self._outer.ran(node, grads)
        for index, g in enumerate(grads):
            array = g._data if type(g) is Tensor else g
            if isinstance(array, np.ndarray | np.generic) and array.dtype.kind == "f":
                found = ", ".join(_strange(np.asarray(array)))
                if found:
                    name = node.function.argument_names(len(node._next_nodes))[index]
                    where = (node._hooks and node._hooks.metadata.get("called at")) or (
                        "outside detect_anomaly, so the line is not known"
                    )
                    raise AnomalyError(
                        f"{node.label} gave a gradient for '{name}' with {found} among "
                        f"{array.size} elements; its forward was called at {where}. Look at the "
                        "values that reach this call."
                    )

    def __getattr__(self, name: str) -> Any:
        """Everything else is for whoever listened before."""
        return _ignore if self._outer is None else getattr(self._outer, name)


def _ignore(*_: Any) -> None:
    """Nobody listens."""


def _strange(array: Any) -> Iterator[str]:
    for name, count in (("NaN", np.isnan(array).sum()), ("Inf", np.isinf(array).sum())):
        if count:
            yield f"{int(count)} {name}"
