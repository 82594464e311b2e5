"""A recorder that overhears what the stack does, and hands all on to whoever listened before."""

import threading
from typing import Any, cast

from .. import events

_lock = threading.Lock()


def _nobody(*_: Any) -> None:
    """What a listener answers for an event that neither it nor anybody else wants."""


class Listener:
    """Subclass it with the methods of `events.Recorder` that matter, and use it in a `with`.

    A method starts with `self.pass_on("applied", ...)`, so that a trace around it stays complete.
    It hears every thread; `self.hears()` tells whether the event comes from the thread that opened
    it.
    """

    def __init__(self) -> None:
        self._outer: Any = None
        self._thread = threading.get_ident()
        self._left = False

    def __enter__(self) -> "Listener":
        with _lock:
            self._outer = events.recorder
            events.recorder = cast(events.Recorder, self)
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            self._left = True
            # Another thread may have started to listen on top. Then this one stays in the chain,
            # deaf, and goes when that one does: taking `_outer` back here would cut the other off.
            while isinstance(events.recorder, Listener) and events.recorder._left:
                events.recorder = events.recorder._outer

    def hears(self) -> bool:
        """Whether this listener is open, and the event comes from its thread."""
        return not self._left and threading.get_ident() == self._thread

    def pass_on(self, event: str, *args: Any) -> None:
        """Tell whoever listened before."""
        if self._outer is not None:
            getattr(self._outer, event)(*args)

    def __getattr__(self, event: str) -> Any:
        """An event that this listener has no method for: the outer recorder's method."""
        return _nobody if self._outer is None else getattr(self._outer, event)
