"""Who keeps a tensor alive: the shortest chain of holders from a name the user wrote to the array.

A search forward, from names along `edges.links`, never backward from the array by
`gc.get_referrers` alone: that goes blind on tuples of arrays, which the collector stops tracking.
"""

import ast
import linecache
import re
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..autograd.callsite import file_of, is_machinery
from .edges import INERT, Link, is_library, links, locals_of, user_modules
from .kinds import OWN, Kind, is_memory, kind_of, node_label
from .remedies import remedy_for

#: How many objects a search looks at before it says that it stopped.
SEARCH_LIMIT = 300_000
#: The same for names of libraries that are running, which seldom are the answer.
FOREIGN_LIMIT = 50_000
#: How many more it looks at once it has an answer, to count the other names that lead there.
COUNT_LIMIT = 20_000
#: Names that a notebook keeps on its own account: what it displayed, and what was typed.
_NOTEBOOK = re.compile(r"_{1,3}|_\d+|Out|_oh|In|_ih|_dh|_i{1,3}|_i\d+")
#: Roots that are no variable of the user.
_UNSEEN_ROOTS = ("the notebook's", "sys.last_")
#: How a variable holds its own memory: nothing to tell.
PLAIN = frozenset({"its array", "its array, a view", "its storage", ".grad", "view of"})
#: How a model or an optimizer holds what it is made of: nothing to tell either.
STATE = ("module '", "parameter '", "buffer '", "optimizer state '")

#: How memory is held without being seen in a variable or a container.
_HIDDEN = ("closure", "default", "ctx attribute", "hook", "global")


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a chain: how `what` is held by the hop before."""

    what: str
    how: str
    by: str = ""
    where: str = ""


@dataclass(frozen=True)
class Chain:
    """The shortest way from a name to the memory, and how many other names lead there.

    `others` are counted among the next COUNT_LIMIT objects that the search meets.

    Example:
        >>> def look():
        ...     x = lm.ones(1000)
        ...     cache = {"last": [x]}
        ...     return lm.lifetime.why_alive(x)
        >>> chain = look()
        >>> [hop.how for hop in chain.hops], chain.nbytes
        (["local 'cache' of look", "['last']", '[0]', 'its array'], 8000)
    """

    hops: tuple[Hop, ...]
    nbytes: int
    others: int = 0
    stopped: bool = False
    #: Whether the tensor that lies on the memory, at the end of the chain, was recorded by an op.
    has_history: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether a plain variable, the `.grad` of one, or a model holds it: nothing hidden."""
        if self.hops and self.hops[0].how.startswith(_UNSEEN_ROOTS):
            return False
        for hop in reversed(self.hops[1:]):
            if hop.how.startswith(STATE):
                return True  # however the model itself is held
            if hop.how not in PLAIN:
                return False
        return True

    @property
    def cut(self) -> int:
        """Which hop matters, by its place: the last that hides what it holds."""
        telling = [
            at
            for at, hop in enumerate(self.hops)
            if at and hop.how not in PLAIN and not hop.how.startswith(STATE)
        ]
        hidden = [at for at in telling if self.hops[at].how.startswith(_HIDDEN)]
        return (hidden or telling or [0])[-1]

    @property
    def line(self) -> str:
        """The hop that matters in one line: `make_relu.backward, closure cell 'z' (tour.py:41)`."""
        return self.told(self.cut) if self.hops else "nothing that a name leads to"

    def told(self, at: int) -> str:
        """The hop at this place in one line.

        A step into a container is told with the name of the container: `global 'cache'[0]`.
        """
        steps = ""
        while at and self.hops[at].how.startswith("["):
            steps = self.hops[at].how + steps
            at -= 1
        hop = self.hops[at]
        where = f" ({hop.where})" if hop.where else ""
        by = hop.by
        for before in self.hops[1:at]:
            if before.how in ("its forward", "its backward", "its setup_context"):
                by = f"{before.by}.{before.how.removeprefix('its ')}"
        return f"{by + ', ' if by else ''}{hop.how}{steps}{where}"

    @property
    def around(self) -> str:
        """The edges of a cycle in order, each with its line where one is known."""
        edges = (hop.how + (f" ({hop.where})" if hop.where else "") for hop in self.hops[1:])
        return "a cycle: " + " → ".join(edges)

    @property
    def remedy(self) -> str:
        """What to do about the hop that matters; "" where nothing is known, or nothing is wrong."""
        at = self.cut if self.hops else 0
        while at and self.hops[at].how.startswith("["):
            at -= 1
        return remedy_for(self.hops[at].how) if self.hops else ""

    def __str__(self) -> str:
        if not self.hops:
            end = " (the search stopped early)" if self.stopped else ""
            blind = " (some objects of C extensions, such as np.nditer, hide what they hold)"
            return f"{self.nbytes} bytes, held by nothing that a name leads to{end or blind}"
        lines = [f"{self.nbytes} bytes, held through {self.hops[0].how}" + _at(self.hops[0])]
        for depth, hop in enumerate(self.hops[1:], 1):
            by = f"{hop.by}: " if hop.by else ""
            lines.append(f"{'  ' * depth}└ {by}{hop.how} → {hop.what}{_at(hop)}")
        if self.others:
            lines.append(f"and {self.others} other name{'s' if self.others > 1 else ''}")
        if self.remedy:
            lines.append(f"way out: {self.remedy}")
        return "\n".join(lines)

    __repr__ = __str__


def _at(hop: Hop) -> str:
    return f"  ({hop.where})" if hop.where else ""


#: The trace that was entered last, weakly: `why_alive("relu#2")` looks the name up there.
last_trace: Callable[[], Any] = lambda: None  # noqa: E731


def why_alive(x: Any) -> Chain:
    """Who keeps `x` alive: the shortest chain from a name, and how many other names lead there.

    `x`: a tensor or an array, a weak reference to one, or the name that a buffer has in the last
    trace. The argument and the name it was passed by do not count.
    Keeps: nothing; what it looked at is free again when it returns.
    Raises: TypeError for anything else, ValueError for a name that the last trace does not know.

    Example:
        >>> def look():
        ...     x = lm.ones(1000)
        ...     cache = {"last": [x]}
        ...     return lm.lifetime.why_alive(x)
        >>> print(look())
        8000 bytes, held through local 'cache' of look  (...:4)
          └ ['last'] → a list
            └ [0] → tensor (1000,)
              └ its array → array (1000,), 8000 bytes
        way out: let the function end, or del the variable in it
    """
    caller = sys._getframe(1)
    given = kind_of(x) is not None
    passed = passed_names(caller, "why_alive") if given else []
    if isinstance(x, str):
        x = _named(x)
    if isinstance(x, weakref.ref):
        x = x()
    if x is None:
        return Chain((), 0)
    kind = kind_of(x)
    if kind is None:
        raise TypeError(
            "why_alive takes a tensor, a weak reference to one, or a buffer's name, not "
            f"{type(x).__name__}"
        )
    target = kind.owner(x)
    return search(target, caller, passed) or Chain((), kind.nbytes(target))


def _named(name: str) -> Any:
    """The memory of the buffer called `name`, None if it is gone."""
    trace = last_trace()
    if trace is None or name not in (known := trace.arrays()):
        raise ValueError(f"there is no buffer named '{name}' in the last trace")
    return known[name]()


def why_alive_array(array: Any) -> Chain | None:
    """The chain to the owning `array`, or None if no name leads there."""
    return search(array, sys._getframe(1))


def name_of(data: Any, kind: Kind = OWN) -> str | None:
    """The name by which the innermost frames know the tensor on `data`: `W`, `layer.W`, `W[0]`.

    Looks one step into lists, dicts and objects, not further; a model is asked for its parameters.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_machinery(frame.f_globals) and not is_library(frame.f_code.co_filename):
            found = _name_in(locals_of(frame), data, kind)
            if found is not None:
                return found
            if frame.f_code.co_name == "<module>":
                return None
        frame = frame.f_back
    return None


def _name_in(variables: list[tuple[str, Any]], data: Any, kind: Kind) -> str | None:
    inside = None
    for name, value in variables:
        if name.startswith("_"):
            continue
        if kind.is_on(value, data):
            return name
        if inside is None:
            inside = _step_in(name, value, data, kind)
    return inside


def _step_in(name: str, value: Any, data: Any, kind: Kind) -> str | None:
    """The name of the tensor on `data`, if `value`, called `name`, holds it."""
    if isinstance(value, list | tuple | dict) and len(value) <= 64:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            if kind.is_on(item, data) and isinstance(key, int | str):
                return f"{name}[{key!r}]"
    elif type(getattr(value, "__dict__", None)) is dict and not isinstance(
        value, type | types.ModuleType
    ):
        for key, item in [*list(vars(value).items()), *kind.parts(value)]:
            if kind.is_on(item, data):
                return str(key) if name == "self" else f"{name}.{key}"
    return None


def passed_names(frame: types.FrameType, function: str) -> list[str]:
    """The variables in `function(a, b)`, as the source line has them; "" for other arguments."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    try:
        tree = ast.parse(line)
    except SyntaxError:
        return []
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            called = (
                call.func.attr
                if isinstance(call.func, ast.Attribute)
                else getattr(call.func, "id", "")
            )
            if called == function:
                return [arg.id if isinstance(arg, ast.Name) else "" for arg in call.args]
    return []


def named_roots(
    frame: types.FrameType | None, passed: Sequence[str]
) -> tuple[list[tuple[Any, Hop]], list[tuple[Any, Hop]]]:
    """What the names lead to: locals of the frames, innermost first, then globals of user modules.

    First those that the user wrote, then those of libraries that are running (a test runner, a
    notebook).
    """
    own: list[tuple[Any, Hop]] = []
    foreign: list[tuple[Any, Hop]] = []
    seen_globals: set[int] = set()
    first = True
    while frame is not None:
        code = frame.f_code
        if not is_machinery(frame.f_globals):
            roots = foreign if is_library(code.co_filename) else own
            if code.co_flags & 0x1:
                where = f"{file_of(code)}:{frame.f_lineno}"
                for name, value in locals_of(frame):
                    if not (first and name in passed):
                        roots.append(
                            (
                                value,
                                Hop(shown(value), f"local '{name}' of {code.co_name}", "", where),
                            )
                        )
            elif id(frame.f_globals) not in seen_globals:
                seen_globals.add(id(frame.f_globals))
                roots += _globals(frame.f_globals, passed if first else ())
            first = False
        frame = frame.f_back
    for module in user_modules():
        if id(vars(module)) not in seen_globals:
            seen_globals.add(id(vars(module)))
            own += _globals(vars(module), ())
    return own + _last_errors(), foreign


def _globals(variables: dict[str, Any], passed: Sequence[str]) -> list[tuple[Any, Hop]]:
    """The global variables of a module, what a notebook keeps of its own accord last."""
    module = variables.get("__name__", "")
    of = "" if module == "__main__" else f" of {module}"
    own: list[tuple[Any, Hop]] = []
    notebook: list[tuple[Any, Hop]] = []
    is_notebook = "In" in variables and "Out" in variables
    for name, value in list(variables.items()):
        if name in passed or isinstance(value, types.ModuleType):
            continue
        if is_notebook and _NOTEBOOK.fullmatch(name):
            notebook.append((value, Hop(shown(value), f"the notebook's {name}")))
        elif not name.startswith("__"):
            own.append((value, Hop(shown(value), f"global '{name}'{of}")))
    return own + notebook


def _last_errors() -> list[tuple[Any, Hop]]:
    """What Python keeps of the last error that nobody caught, at a prompt or in a notebook."""
    found = []
    for name in ("last_exc", "last_value", "last_traceback"):
        value = getattr(sys, name, None)
        if isinstance(value, types.TracebackType):
            value = Exception().with_traceback(value)
        if value is not None:
            found.append((value, Hop(shown(value), f"sys.{name}")))
    return found


def search(target: Any, frame: types.FrameType | None, passed: Sequence[str] = ()) -> Chain | None:
    """The chain to the memory that `target` owns: from the user's names, or else from libraries'.

    `passed` are names of the innermost user frame that do not count.
    """
    own, foreign = named_roots(frame, passed)
    found = Search([target], own, SEARCH_LIMIT).chain(target)
    if (found is None or not found.hops) and foreign:
        other = Search([target], foreign, FOREIGN_LIMIT).chain(target)
        return other if other is not None and other.hops else found
    return found


def search_all(targets: list[Any], frame: types.FrameType | None) -> "Search":
    """One search for the memory of many owners, from the user's names alone."""
    return Search(targets, named_roots(frame, ())[0], SEARCH_LIMIT)


class Search:
    """Breadth first from names to owners of memory: the first hit is a shortest chain."""

    def __init__(self, targets: list[Any], roots: list[tuple[Any, Hop]], limit: int) -> None:
        self.stopped = False
        self.limit = limit
        #: For each object met: the first way to it, as (the object before, or None; the edge).
        self.first: dict[int, tuple[int | None, Link | Hop]] = {}
        #: For each object met: all objects that hold it, and the names that do.
        self.parents: dict[int, list[int]] = {}
        self.names: dict[int, list[str]] = {}
        self._met: list[Any] = []  # an id stands for one object only while that object lives
        self._objects: dict[int, Any] = {}  # the same by id, made when asked for
        self._queue: deque[Any] = deque()
        for value, hop in roots:
            self.names.setdefault(id(value), []).append(hop.how)
            self._meet(value, None, hop)
        #: For each target: the objects met that are its memory.
        self._hits: dict[int, list[int]] = {id(target): [] for target in targets}
        self._open = len(self._hits)  # how many have no hit yet
        self._run()

    def _meet(self, held: Any, holder: int | None, edge: Link | Hop) -> None:
        key = id(held)
        if holder is not None:
            self.parents.setdefault(key, []).append(holder)
        if key not in self.first:
            self.first[key] = holder, edge
            self._met.append(held)
            self._queue.append(held)

    def _run(self) -> None:
        while self._queue:
            holder = self._queue.popleft()
            hits = self._hits_of(holder)
            if hits is not None:
                if not hits:
                    self._open -= 1
                    if not self._open:
                        self.limit = min(self.limit, len(self._met) + COUNT_LIMIT)
                hits.append(id(holder))
                continue
            if len(self._met) > self.limit:
                self.stopped = self._open > 0
                return
            key = id(holder)
            for link in links(holder):
                if not isinstance(link.held, INERT):
                    self._meet(link.held, key, link)

    def _hits_of(self, holder: Any) -> list[int] | None:
        """The hits of the target whose memory `holder` is, None for any other object."""
        kind = kind_of(holder) if is_memory(holder) else None
        return None if kind is None else self._hits.get(id(kind.owner(holder)))

    def reached(self, x: Any) -> bool:
        """Whether a name leads to `x`."""
        return id(x) in self.first

    def root(self, target: Any) -> Any:
        """The object that the shortest chain to `target` begins with, None if there is no chain."""
        key: int | None = next(iter(self._hits[id(target)]), None)
        begin = key
        while key is not None:
            begin, key = key, self.first[key][0]
        return self._object(begin)

    def _object(self, key: int | None) -> Any:
        """The object that was met under this id."""
        if not self._objects:
            self._objects = {id(met): met for met in self._met}
        return None if key is None else self._objects[key]

    def chain(self, target: Any) -> Chain | None:
        """The shortest chain to `target`, or None where no name leads there."""
        kind, hits = kind_of(target), self._hits[id(target)]
        nbytes = 0 if kind is None else kind.nbytes(target)
        if not hits:
            return Chain((), nbytes, stopped=True) if self.stopped else None
        hops: list[Hop] = []
        key: int | None = hits[0]
        tensor = self._object(self.first[hits[0]][0])
        history = kind is not None and kind.has_history(tensor)
        while key is not None:
            key, edge = self.first[key]
            if isinstance(edge, Link):
                edge = Hop(shown(edge.held), edge.how, edge.by, edge.where)
            hops.append(edge)
        others = self._count_names(hits) - 1
        return Chain(tuple(reversed(hops)), nbytes, others, self.stopped, history)

    def _count_names(self, hits: list[int]) -> int:
        """How many names lead to the memory, by whatever way."""
        names: set[str] = set()
        seen, stack = set(hits), list(hits)
        while stack:
            key = stack.pop()
            names.update(self.names.get(key, ()))
            for parent in self.parents.get(key, ()):
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
        return max(len(names), 1)


def shown(value: Any) -> str:
    """What a chain calls an object: no address, no value."""
    kind = kind_of(value)
    if kind is not None:
        return kind.shown(value)
    if isinstance(value, types.FunctionType):
        return f"function {value.__qualname__.replace('.<locals>', '')}"
    if isinstance(value, type):
        return f"class {value.__name__}"
    label = node_label(value)
    if label:
        return label
    name = type(value).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"
