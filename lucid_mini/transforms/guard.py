"""What `gradcheck` watches while rules run: arrays they may not write, and objects that should die.

Rules with `arrays = True` are handed plain arrays, which no op can protect. So while a guard is
open every gradient and every saved array is read-only for as long as its rule runs, and a write
raises at the guilty line. It hears of rules through the recorder's slot, so it costs nothing when
it is not there.
"""

import weakref
from typing import Any

import numpy as np

from .listen import Listener


class Guard(Listener):
    """Makes arrays read-only while a rule has them, and notes what is made, weakly."""

    def __init__(self) -> None:
        super().__init__()
        self.rule = ""  # the Function whose rule ran last
        self._locked: list[list[Any]] = []  # per running rule, the arrays to open again
        self._made: list[tuple[str, weakref.ref[Any]]] = []

    def __enter__(self) -> "Guard":
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        while self._locked:
            self._unlock()
        super().__exit__(*error)

    # -- what the stack tells -------------------------------------------------------------------

    def applied(
        self, node: Any, function: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]
    ) -> None:
        """Note the node and its outputs."""
        self.pass_on("applied", node, function, args, outputs)
        if self.hears() and node is not None:
            self.note(f"the node of {function.__name__}", node)
            for output in outputs:
                if hasattr(output, "_memory"):
                    self.note(f"an output of {function.__name__}", output)

    def running(self, node: Any, grads: Any) -> None:
        """Lock what the rule is given."""
        self.pass_on("running", node, grads)
        if self.hears():
            self.rule = node.function.__name__
            slots = node._ctx._saved
            held = [*(grads if isinstance(grads, list) else [grads])]
            for grad in held:
                if grad is not None:
                    self.note(f"a gradient given to {self.rule}.backward", _array(grad))
            held += slots if type(slots) is tuple else ()
            self._lock([_array(item) for item in held if item is not None])

    def ran(self, node: Any, grads: Any) -> None:
        """Open it again."""
        self.pass_on("ran", node, grads)
        if self.hears():
            self._unlock()

    # -- read-only ------------------------------------------------------------------------------

    def _lock(self, arrays: list[Any]) -> None:
        closed = [array for array in arrays if array.flags.writeable]
        for array in closed:
            array.flags.writeable = False
        self._locked.append(closed)

    def _unlock(self) -> None:
        # Owners first: a view may be opened only where its owner is open.
        for array in sorted(self._locked.pop(), key=lambda array: array.base is not None):
            array.flags.writeable = True

    # -- alive ----------------------------------------------------------------------------------

    def note(self, what: str, item: Any) -> None:
        """Remember `item`, weakly, as something that should die."""
        self._made.append((what, weakref.ref(item)))

    def alive(self) -> list[tuple[str, Any]]:
        """What was noted and lives."""
        found = [(what, reference()) for what, reference in self._made]
        return [(what, item) for what, item in found if item is not None]


def _array(item: Any) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = item if isinstance(item, np.ndarray) else item._data
    return array
