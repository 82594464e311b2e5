"""What a value holds: the tensors inside containers, partials, callables and plain objects.

For two questions: does an argument hide a tensor whose gradient would be lost, and does something
that was put into a ctx keep a tensor alive unseen. A tensor is what has a `_memory`.
"""

import functools
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .refcount import ALONE

#: How many objects one search looks at: a list of a million numbers must not cost a second a call.
LIMIT = 1000

_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
#: What cannot hold a tensor, or is looked at elsewhere.
_SHUT = (type, types.ModuleType, types.CodeType, types.FrameType, np.generic, np.dtype)


class Found(NamedTuple):
    """A tensor inside a value.

    `path` is written as Python would reach it. `only_here`: nothing outside the value holds it, nor
    anything on the way to it.
    """

    path: str
    tensor: Any
    only_here: bool


def tensors_inside(holder: Any, key: Any, path: str, *, closed: bool = False) -> list[Found]:
    """The tensors inside `holder[key]`, which is called `path`, in reading order.

    `closed`: only containers are opened, no callables and no objects. It looks at LIMIT objects at
    most. The value is named by its holder, so that this call adds no reference to it.
    """
    found: list[Found] = []
    # One list per object waiting: path, object, and whether all its holders so far are held once.
    stack: list[list[Any]] = [[path, holder[key], True]]
    seen: set[int] = set()
    while stack and len(seen) < LIMIT:
        entry = stack.pop()
        if id(entry[1]) in seen:
            continue
        seen.add(id(entry[1]))
        # Held once: by its holder; `entry` is ours.
        entry[2] = entry[2] and sys.getrefcount(entry[1]) <= ALONE + 1
        if hasattr(entry[1], "_memory"):
            found.append(Found(*entry))
        else:
            children = [
                [entry[0] + step, value, entry[2]] for step, value in _open(entry[1], closed)
            ]
            stack.extend(reversed(children))
    return found


def _open(value: Any, closed: bool) -> Iterator[tuple[str, Any]]:
    """What `value` holds directly, with the step that leads to it."""
    if isinstance(value, dict):
        for key in list(value):
            yield f"[{_key(key)}]", value[key]
    elif isinstance(value, list | tuple | deque):
        for index in range(len(value)):
            yield f"[{index}]", value[index]
    elif isinstance(value, set | frozenset):
        for item in list(value):
            yield " (an element)", item
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            yield from ((f".flat[{index}]", item) for index, item in enumerate(value.flat))
    elif not closed:
        yield from _open_callable(value)


def _open_callable(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            yield f" (closure cell '{name}')", cell
        yield ".__defaults__", value.__defaults__
        yield ".__kwdefaults__", value.__kwdefaults__
    elif isinstance(value, types.CellType):
        try:
            yield "", value.cell_contents
        except ValueError:  # an empty cell: the name is not bound yet
            return
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif not isinstance(value, _SHUT) and isinstance(getattr(value, "__dict__", None), dict):
        for name in list(value.__dict__):
            yield f".{name}", value.__dict__[name]


def _key(key: Any) -> str:
    """`key` as a text without an address."""
    return repr(key) if isinstance(key, str | int | float | bool | None) else type(key).__name__
