"""Whether operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`.

The mode belongs to a thread.
"""

import functools
import inspect
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Mode:
    """What one thread records, and what it runs."""

    __slots__ = ("along", "inference", "recording", "running")

    def __init__(self) -> None:
        self.recording = True
        self.inference = False
        #: Set while another library records what is computed here: switches its recording along
        #: with a block in another mode, and gives back what switches it back.
        self.along: Callable[[bool], Callable[[], None]] | None = None
        #: The rules and hooks that run now, innermost first: (node, its gradients as tensors). What
        #: they were given must not be written meanwhile; in-place ops look here, nothing else does.
        self.running: tuple[tuple[Any, list[Any]], ...] = ()


class _Thread(threading.local):
    """Gives each thread a `Mode` of its own.

    Reading it costs 37 ns, and a field of it 5: an op, which needs several, reads it once.
    """

    def __init__(self) -> None:
        self.mode = Mode()


thread = _Thread()


class _ModeManager:
    """A context manager and decorator that may be re-used and nested in itself.

    What it found on entry is kept per thread, on a stack: one object may stand in two `with` blocks
    at once.
    """

    _recording: bool
    _inference: bool | None = None

    def __init__(self) -> None:
        self._found = threading.local()

    def __enter__(self) -> None:
        along = thread.mode.along
        back = None if along is None else along(self._recording)
        found = self._found.__dict__.setdefault("stack", [])
        found.append((thread.mode.recording, thread.mode.inference, back))
        if self._inference is not None:
            thread.mode.inference = self._inference
        # Recording inside inference_mode would save tensors that promise never to be saved.
        thread.mode.recording = self._recording and not thread.mode.inference

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread.mode.recording, thread.mode.inference, back = self._found.stack.pop()
        if back is not None:
            back()

    def __call__(self, function: F) -> F:
        """Run `function` in this mode. In a generator it holds while the body runs, not between."""
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def run(*args: Any, **kwargs: Any) -> Any:
                return self._drive(function(*args, **kwargs))
        else:

            @functools.wraps(function)
            def run(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return function(*args, **kwargs)

        return run  # type: ignore[return-value]

    def _drive(self, generator: Any) -> Any:
        """Pass values, exceptions and the end through `generator`, in the mode for each step."""
        try:
            with self:
                item = next(generator)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    with self:
                        generator.close()
                    raise
                except BaseException as error:
                    with self:
                        item = generator.throw(error)
                else:
                    with self:
                        item = generator.send(sent)
        except StopIteration as end:
            return end.value


class no_grad(_ModeManager):  # noqa: N801 - the name is PyTorch's
    """Record nothing: results have no history, whatever they are made of.

    Example:
        >>> x = lm.ones(2, requires_grad=True)
        >>> with lm.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    _recording = False


class enable_grad(_ModeManager):  # noqa: N801
    """Record again, inside a `no_grad`. It does not lift `inference_mode`.

    Example:
        >>> with lm.no_grad(), lm.enable_grad():
        ...     lm.is_grad_enabled()
        True
    """

    _recording = True


class inference_mode(_ModeManager):  # noqa: N801
    """Record nothing, and mark what is made: it can never be saved for a backward later.

    Raises (later, at the save): InferenceTensorError.

    Example:
        >>> with lm.inference_mode():
        ...     y = lm.ones(2) * 3
        >>> (y.clone() * lm.ones(2, requires_grad=True)).requires_grad  # y itself cannot be saved
        True
    """

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._recording = not mode
        self._inference = mode


class set_grad_enabled(_ModeManager):  # noqa: N801
    """Switch recording on or off: at once as a call, for the block in a `with`.

    Example:
        >>> with lm.set_grad_enabled(False):
        ...     lm.is_grad_enabled()
        False
    """

    def __init__(self, flag: bool) -> None:
        super().__init__()
        self._recording = bool(flag)
        self._before = thread.mode.recording
        thread.mode.recording = self._recording and not thread.mode.inference

    def __enter__(self) -> None:
        # The call has switched already; what the block gives back is what was there before the
        # call.
        thread.mode.recording = self._before
        super().__enter__()

    def __call__(self, function: F) -> F:
        """Run `function` in this mode: as a decorator the call is taken back."""
        thread.mode.recording = self._before
        return super().__call__(function)


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded now.

    Example:
        >>> lm.is_grad_enabled()
        True
    """
    return thread.mode.recording
