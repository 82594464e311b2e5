"""Who keeps a tensor alive: the shortest chain of holders from a name the user wrote to the array.

A search forward, from names along `edges.links`, never backward from the array by `gc.get_referrers`
alone: that goes blind on tuples of arrays, which the collector stops tracking.
"""

import ast
import linecache
import sys
import types
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autograd.callsite import file_of, is_machinery
from ..autograd.saved import owner
from ..autograd.tensor import Tensor
from .edges import Link, links, locals_of, user_modules

#: How many objects a search looks at before it says that it stopped.
SEARCH_LIMIT = 300_000
#: Names that a notebook keeps on its own account.
_NOTEBOOK = {"_", "__", "___", "_i", "_ii", "_iii", "_oh", "_dh", "In", "Out", "_ih"}


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a chain: how `what` is held by the hop before."""

    what: str
    how: str
    by: str = ""
    where: str = ""


@dataclass(frozen=True)
class Chain:
    """The shortest way from a name to the memory, and how many other names lead there."""

    hops: tuple[Hop, ...]
    nbytes: int
    others: int = 0
    stopped: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether a plain variable, or the `.grad` of one, holds it: nothing hidden."""
        held = [hop.how for hop in self.hops[1:]]
        return all(how in ("its array", ".grad", "view of") for how in held)

    @property
    def line(self) -> str:
        """The hop that matters in one line: `make_relu.backward, closure cell 'z' (tour.py:41)`."""
        if not self.hops:
            return "nothing that a name leads to"
        telling = [hop for hop in self.hops[1:] if hop.how not in ("its array", "view of", ".grad")]
        hop = telling[-1] if telling else self.hops[0]
        for candidate in telling:
            if candidate.how.startswith(("closure", "default", "ctx attribute", "hook", "global")):
                hop = candidate
        where = f" ({hop.where})" if hop.where else ""
        return f"{hop.by}, {hop.how}{where}" if hop.by else f"{hop.how}{where}"

    def __str__(self) -> str:
        if not self.hops:
            end = " (the search stopped early)" if self.stopped else ""
            return f"{self.nbytes} bytes, held by nothing that a name leads to{end}"
        lines = [f"{self.nbytes} bytes, held through {self.hops[0].how}" + _at(self.hops[0])]
        for depth, hop in enumerate(self.hops[1:], 1):
            by = f"{hop.by}: " if hop.by else ""
            lines.append(f"{'  ' * depth}└ {by}{hop.how} → {hop.what}{_at(hop)}")
        if self.others:
            lines.append(f"and {self.others} other name{'s' if self.others > 1 else ''}")
        return "\n".join(lines)

    __repr__ = __str__


def _at(hop: Hop) -> str:
    return f"  ({hop.where})" if hop.where else ""


def why_alive(x: Any) -> Chain:
    """Who keeps `x` alive: the shortest holder chain from a name, and how many others there are.

    `x`: a tensor, or a weak reference to one. The argument and the name it was passed by do not count.
    Keeps: nothing; what it looked at is free again when it returns.
    Raises: TypeError for anything else.
    """
    passed = _passed_name(sys._getframe(1), "why_alive")
    if isinstance(x, weakref.ref):
        x = x()
        if x is None:
            return Chain((), 0)
        passed = None
    if type(x) is not Tensor:
        raise TypeError(f"why_alive takes a tensor or a weak reference to one, not {type(x).__name__}")
    chain = _search(owner(x._data), sys._getframe(1), passed)
    return chain or Chain((), owner(x._data).nbytes)


def why_alive_array(array: Any) -> Chain | None:
    """The chain to the owning `array`, or None if no name leads there."""
    frame = sys._getframe(1)
    return _search(array, frame, None)


def name_of(data: Any) -> str | None:
    """The name under which the innermost frames know the tensor on `data`: `W`, `layer.W`, `params[0]`.

    Looks one step into lists, dicts and objects, not further.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_machinery(frame.f_globals):
            found = _name_in(locals_of(frame), data)
            if found is not None:
                return found
            if frame.f_code.co_name == "<module>":
                return None
        frame = frame.f_back
    return None


def _name_in(variables: list[tuple[str, Any]], data: Any) -> str | None:
    inside = None
    for name, value in variables:
        if name in _NOTEBOOK or name.startswith("_"):
            continue
        if type(value) is Tensor:
            if value._data is data:
                return name
        elif inside is None and isinstance(value, list | tuple | dict) and len(value) <= 64:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                if type(item) is Tensor and item._data is data:
                    inside = f"{name}[{key!r}]" if isinstance(key, int | str) else None
        elif inside is None and type(getattr(value, "__dict__", None)) is dict and not isinstance(value, type | types.ModuleType):
            for key, item in list(vars(value).items()):
                if type(item) is Tensor and item._data is data:
                    inside = key if name == "self" else f"{name}.{key}"
    return inside


def _passed_name(frame: types.FrameType, function: str) -> str | None:
    """The variable in `why_alive(variable)`, as the caller's source line has it."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    try:
        tree = ast.parse(line)
    except SyntaxError:
        return None
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Name):
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if called == function:
                return call.args[0].id
    return None


def _roots(frame: types.FrameType | None, passed: str | None) -> list[tuple[Any, Hop]]:
    """What the names lead to: locals of the caller's frames, innermost first, then globals of user modules."""
    roots: list[tuple[Any, Hop]] = []
    seen_globals: set[int] = set()
    first = True
    while frame is not None:
        if not is_machinery(frame.f_globals):
            code = frame.f_code
            if code.co_flags & 0x1:
                for name, value in locals_of(frame):
                    if first and name == passed:
                        continue
                    hop = Hop(_shown(value), f"local '{name}' of {code.co_name}", "", f"{file_of(code)}:{frame.f_lineno}")
                    roots.append((value, hop))
            elif id(frame.f_globals) not in seen_globals:
                seen_globals.add(id(frame.f_globals))
                roots += _globals(frame.f_globals, passed if first else None)
            first = False
        frame = frame.f_back
    for module in user_modules():
        if id(vars(module)) not in seen_globals:
            seen_globals.add(id(vars(module)))
            roots += _globals(vars(module), None)
    return roots


def _globals(variables: dict[str, Any], passed: str | None) -> list[tuple[Any, Hop]]:
    module = variables.get("__name__", "")
    return [
        (value, Hop(_shown(value), f"global '{name}'" + ("" if module == "__main__" else f" of {module}")))
        for name, value in list(variables.items())
        if name != passed and not isinstance(value, types.ModuleType) and not name.startswith("__")
    ]


def _search(target: Any, frame: types.FrameType | None, passed: str | None) -> Chain | None:
    """Breadth first from the names to the owning array `target`: the first hit is a shortest chain."""
    queue: deque[tuple[Any, int]] = deque()
    steps: list[tuple[int, Hop]] = []  # the hop that led here, and the step before it
    seen: set[int] = {id(queue), id(steps)}
    keep: list[Any] = []  # ids in `seen` stay valid while what they name lives; gone on return
    hits: list[int] = []
    for value, hop in _roots(frame, passed):
        steps.append((-1, hop))
        if id(value) not in seen:
            seen.add(id(value))
            keep.append(value)
            queue.append((value, len(steps) - 1))
    stopped = False
    while queue:
        holder, step = queue.popleft()
        if isinstance(holder, np.ndarray) and owner(holder) is target:
            hits.append(step)
            continue
        if len(keep) > SEARCH_LIMIT:
            stopped = True
            break
        for link in links(holder):
            held = link.held
            if isinstance(held, np.ndarray) and owner(held) is target:
                steps.append((step, _hop(link)))
                hits.append(len(steps) - 1)
            elif id(held) not in seen:
                seen.add(id(held))
                keep.append(held)
                steps.append((step, _hop(link)))
                queue.append((held, len(steps) - 1))
    if not hits:
        return Chain((), target.nbytes, stopped=True) if stopped else None
    firsts = {_first(steps, hit) for hit in hits}
    return Chain(_path(steps, hits[0]), target.nbytes, len(firsts) - 1, stopped)


def _hop(link: Link) -> Hop:
    return Hop(_shown(link.held), link.how, link.by, link.where)


def _path(steps: list[tuple[int, Hop]], step: int) -> tuple[Hop, ...]:
    hops = []
    while step >= 0:
        before, hop = steps[step]
        hops.append(hop)
        step = before
    return tuple(reversed(hops))


def _first(steps: list[tuple[int, Hop]], step: int) -> int:
    while steps[step][0] >= 0:
        step = steps[step][0]
    return step


def _shown(value: Any) -> str:
    """What a chain calls an object: no address, no value."""
    if type(value) is Tensor:
        return f"tensor {value.shape}"
    if isinstance(value, np.ndarray):
        return f"array {value.shape}, {value.nbytes} bytes"
    if isinstance(value, types.FunctionType):
        return f"function {value.__qualname__.replace('.<locals>', '')}"
    if isinstance(value, type):
        return f"class {value.__name__}"
    label = getattr(value, "label", None) if hasattr(type(value), "_is_node") else None
    return str(label) if label else f"a {type(value).__name__}"
