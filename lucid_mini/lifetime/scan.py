"""scan: what a function or a graph captures, found without running it."""

import types
from collections import deque
from dataclasses import dataclass
from typing import Any

from ..autograd.engine import reachable
from ..autograd.node import Node
from ..autograd.tensor import Tensor
from .edges import Link, global_reads, links
from .kinds import OWN, Kind, is_node, kind_of, kind_of_function
from .remedies import remedy_for

#: How many objects are looked at for one function before the scan says that it stopped.
SCAN_LIMIT = 20_000


@dataclass(frozen=True)
class Finding:
    """One tensor or array that something keeps: who, how, how many bytes, where, and what to do.

    Example:
        >>> def make(kept):
        ...     return lambda ctx, grad: grad * kept
        >>> (finding,) = lm.lifetime.scan(make(lm.ones(1000)))
        >>> finding.how, finding.nbytes, finding.extra_bytes
        ("closure cell 'kept'", 8000, 8000)
    """

    holder: str
    how: str
    shape: tuple[int, ...]
    nbytes: int
    where: str
    has_history: bool
    fix: str
    #: A leaf that requires grad: its model holds it anyway, so the capture costs no byte.
    is_parameter: bool = False
    #: Others that hold the same tensor: they all see the value that was bound last.
    also: tuple[str, ...] = ()

    @property
    def extra_bytes(self) -> int:
        """Bytes that would be free without the capture."""
        return 0 if self.is_parameter else self.nbytes

    def __str__(self) -> str:
        history = ", with history" if self.has_history else ""
        where = f" ({self.where})" if self.where else ""
        held = f"{self.shape}, {self.nbytes} bytes{history}{where}"
        shared = f" Shared with {', '.join(self.also)}: the last value bound." if self.also else ""
        if self.is_parameter:
            why = "0 extra bytes: a parameter, which its model holds anyway."
            return f"{self.holder}: {self.how} keeps {held}. {why}{shared}"
        return f"{self.holder}: {self.how} keeps {held}. {self.fix}{shared}"

    __repr__ = __str__


class Findings(list[Finding]):
    """What a scan found; its text is one line a finding.

    Example:
        >>> lm.lifetime.scan(lambda x: x * 2)
        nothing captured
    """

    stopped: bool = False

    def __repr__(self) -> str:
        lines = [str(finding) for finding in self] or ["nothing captured"]
        if self.stopped:
            lines.append(f"(stopped after {SCAN_LIMIT} objects)")
        return "\n".join(lines)


def scan(tensor_or_function: Any) -> Findings:
    """What is captured by a function, a Function class, or by the nodes of a tensor's graph.

    Closure cells, defaults, globals that the code reads, partials, bound selfs, attributes of ctx,
    hooks: each tensor or array they lead to is one finding. What `save_for_backward` saved is none:
    backward releases it.
    Raises: TypeError for what can be none of these.

    Example:
        >>> def make(kept):
        ...     return lambda ctx, grad: grad * kept
        >>> lm.lifetime.scan(make(lm.ones(1000)))
        make.<lambda>: closure cell 'kept' keeps (1000,), 8000 bytes (...). Save it with
        ctx.save_for_backward, or pass it as an argument.
    """
    if type(tensor_or_function) is Tensor:
        starts = [] if tensor_or_function.is_leaf else [tensor_or_function._node]
        roots = _of_graph(starts)
        if tensor_or_function._node is not None and tensor_or_function.is_leaf:
            roots += list(links(tensor_or_function._node))
    elif isinstance(tensor_or_function, Node):
        roots = _of_graph([tensor_or_function])
    elif callable(tensor_or_function):
        roots = of_callable(tensor_or_function)
    else:
        raise TypeError(
            "scan takes a tensor, a node, a Function or a callable, not "
            f"{type(tensor_or_function).__name__}"
        )
    return follow(roots)


def of_callable(function: Any) -> list[Link]:
    """What a function, or each method of a Function class, holds itself."""
    kind = kind_of_function(function) if isinstance(function, type) else None
    if kind is not None:
        return _of_class(function, kind)
    found = list(links(function))
    if isinstance(function, types.FunctionType):
        # A global that is itself a function, class or module is code, not a capture.
        found += [
            link
            for link in global_reads(function)
            if not isinstance(link.held, types.FunctionType | type | types.ModuleType)
        ]
    return found


def _of_class(function: type, kind: Kind) -> list[Link]:
    found: list[Link] = []
    for name in kind.methods:
        method = getattr(function, name, None)
        if isinstance(method, types.FunctionType) and method.__module__ != kind.function.__module__:
            found += [
                link._replace(by=f"{function.__name__}.{name}") for link in of_callable(method)
            ]
    return found


def _of_graph(starts: list[Any]) -> list[Link]:
    found: list[Link] = []
    functions: dict[type, None] = {}
    for node in reachable(starts):
        functions.setdefault(node.function)
        found += [
            link._replace(by=node.label)
            for link in links(node._ctx)
            if link.how.startswith("ctx attribute")
        ]
        found += [link for link in links(node) if "hook" in link.how]
    for function in functions:
        found += of_callable(function)
    return found


def follow(roots: list[Link]) -> Findings:
    """Each tensor and array behind `roots`, once, under the root that leads to it first."""
    found: dict[int, tuple[Any, Link, str, list[str]]] = {}
    seen: set[int] = set()
    keep: list[Any] = []  # an id stands for one object only while that object lives
    stopped = False
    queue: deque[tuple[Any, Link, str]] = deque((link.held, link, "") for link in roots)
    while queue and not stopped:
        held, root, path = queue.popleft()
        if kind_of(held) is not None:
            _, first, _, others = found.setdefault(id(held), (held, root, path, []))
            if root.by not in (first.by, *others):
                others.append(root.by)
            continue
        if id(held) in seen or isinstance(held, types.ModuleType) or is_node(held):
            continue
        seen.add(id(held))
        keep.append(held)
        stopped = len(keep) > SCAN_LIMIT
        for link in links(held):
            step = link.how if link.how.startswith("[") else f", {link.how}"
            queue.append((link.held, root, path + step))
    findings = Findings(_finding(*entry) for entry in found.values())
    findings.stopped = stopped
    return findings


def _finding(held: Any, root: Link, path: str, others: list[str]) -> Finding:
    kind = kind_of(held) or OWN
    owner = kind.owner(held)
    return Finding(
        holder=root.by,
        how=root.how + path,
        shape=kind.shape(held),
        nbytes=0 if owner is None else kind.nbytes(owner),
        where=root.where,
        has_history=kind.has_history(held),
        fix=_sentence(remedy_for(root.how)),
        is_parameter=kind.is_parameter(held),
        also=tuple(others),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
