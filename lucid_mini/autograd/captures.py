"""What a Function captures: tensors in closure cells and defaults of its forward and backward.

A capture is the leak that nothing shows: the ctx does not know of it, backward does not release it,
and it lives as long as the function. Cells and defaults are collected once per class. A Function
that has none, as nearly all, is never looked at again; one that has some is looked at after each
apply, and once more when its node runs: an output that is bound to the captured name only
afterwards is an empty cell at apply.

Warned of: a captured tensor with history, an output, one made during this apply. Silent: constants,
parameters. Captured batch data without history is seen by `lifetime.scan` and `survivors` only.
"""

import types
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import ClosureCaptureWarning
from .callsite import file_of, outer_level

_NOTHING = object()


class Capture(NamedTuple):
    """One way a method holds something: `read` gives what it holds now, or `_NOTHING`."""

    method: str  # `forward` or `backward`
    how: str  # `closure cell 'z'`, `default of 'z'`
    where: str  # file:line of the method
    read: Callable[[], Any]


def captures_of(function: Any) -> tuple[Capture, ...]:
    """The closure cells and defaults of a Function's methods."""
    found: list[Capture] = []
    for method in ("forward", "backward", "setup_context"):
        code = getattr(function, method, None)
        if isinstance(code, types.FunctionType):
            found += _of_method(code, method)
    return tuple(found)


def _of_method(method: types.FunctionType, name: str) -> list[Capture]:
    code = method.__code__
    where = f"{file_of(code)}:{code.co_firstlineno}"
    found = [
        Capture(name, f"closure cell '{free}'", where, _reader(cell))
        for free, cell in zip(code.co_freevars, method.__closure__ or (), strict=False)
    ]
    defaults = method.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults) :]
    held = dict(zip(names, defaults, strict=True)) | (method.__kwdefaults__ or {})
    return found + [
        Capture(name, f"default of '{parameter}'", where, _constant(value))
        for parameter, value in held.items()
        if hasattr(value, "_memory")
    ]


def _reader(cell: types.CellType) -> Callable[[], Any]:
    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # a name that is bound later
            return _NOTHING

    return read


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def contents(captures: tuple[Capture, ...]) -> list[int]:
    """Which object each capture holds now: to see afterwards what forward put there."""
    return [id(capture.read()) for capture in captures]


def warn_of_captures(
    function: Any,
    captures: tuple[Capture, ...],
    before: list[int] | None = None,
    args: tuple[Any, ...] = (),
    outputs: tuple[Any, ...] = (),
) -> None:
    """Warn, once per class and capture, of each tensor that is held and should not be.

    `before`: what `contents` gave before forward ran; None when the node runs.
    """
    for index, capture in enumerate(captures):
        held = capture.read()
        if not hasattr(held, "_memory") or (capture.method, capture.how) in function._warned:
            continue
        what = _fault(held, None if before is None else before[index], args, outputs)
        if not what:
            continue
        function._warned.add((capture.method, capture.how))
        warnings.warn(
            f"{function.__name__}.{capture.method} captures {what} of {held._data.nbytes} bytes in "
            "a "
            f"{capture.how} ({capture.where}): it lives as long as the function does, and backward "
            "does "
            f"not release it. Save it with ctx.save_for_backward, or pass it as an argument.",
            ClosureCaptureWarning,
            stacklevel=outer_level(),
        )


def _fault(held: Any, before: int | None, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> str:
    """What is wrong with capturing the tensor `held`, "" if nothing is."""
    if any(held is output for output in outputs):
        return "its own output"
    if held._node is not None and held._node.sequence_nr:
        return "a tensor with history"
    if before is not None and id(held) != before and not any(held is a for a in args):
        return "a tensor made during this call"
    return ""
