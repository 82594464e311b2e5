"""Which line of the user's program asked for something: `file:line`, in a notebook `In[3]:2`."""

import sys
from types import CodeType, FrameType
from typing import Any

_PACKAGE = __name__.split(".", 1)[0]
#: The inside of the package; under `lm.bridge.torch` PyTorch stands between it and the user's line.
_INSIDE = (f"{_PACKAGE}.", "torch.")
#: Modules of the package that are programs a user runs, and not its machinery.
_PROGRAMS = frozenset({f"{_PACKAGE}.tour"})


def is_machinery(variables: dict[str, Any]) -> bool:
    """Whether the module with these globals belongs to the inside of the package, or of PyTorch."""
    name: str = variables.get("__name__", "")
    return name.startswith(_INSIDE) and name not in _PROGRAMS


def call_site(depth: int = 1) -> str:
    """`file:line` of the innermost frame outside this package, "" if there is none."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and is_machinery(frame.f_globals):
        frame = frame.f_back
    return "" if frame is None else f"{file_of(frame.f_code)}:{frame.f_lineno}"


def outer_level() -> int:
    """The `stacklevel` with which a warning of the calling function points at user code."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_machinery(frame.f_globals):
        level, frame = level + 1, frame.f_back
    return level


def file_of(code: CodeType) -> str:
    """The last part of the file name of `code`; a notebook's cell as `In[3]`.

    The file name of a cell has a process id in it, which would differ from run to run.
    """
    path = code.co_filename
    ipython = sys.modules.get("IPython")
    if ipython is not None and (shell := ipython.get_ipython()) is not None:
        formatted = getattr(shell.compile, "format_code_name", lambda name: None)(path)
        if formatted is not None:
            return str(formatted[1])
    return path.replace("\\", "/").rsplit("/", 1)[-1]
