"""The graph as data: what is upstream of a tensor, and what each node keeps until backward.

`dump` reads, and changes nothing: what it returns consists of names and numbers, so it keeps no
tensor and no node alive, and it holds no address, no id and no time, so that two runs give the same
text.

Nodes stand in the order of their calls, leaves before them, and `from -> to` of an edge is the way
a gradient goes: from the node that used a value to the one that made it.
"""

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .ctx import _SMALL
from .engine import NOT_A_TENSOR, reachable
from .function import Function
from .node import AccumulateGrad, Node
from .saved import DETACHED, Packed, SavedAlias, SavedOutput, owner
from .tensor import Tensor
from .timing import nanoseconds

FORMATS = ("text", "dict", "dot")

#: What DOT would read as the end of a quoted string, or as one of its escapes.
_IN_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"'})


def dump(
    tensor_or_node: Any, format: str = "text", *, names: Mapping[str, Any] | None = None
) -> Any:
    """The graph upstream of `tensor_or_node`: as a text table, as dicts for JSON, or as DOT source.

    A released node is listed as released, without rows: what it had saved is gone, and nothing
    remembers it. `names` maps names to tensors: `{"W": W}`, or `locals()` (what is no tensor is
    passed over). Without it the leaves are called `leaf#1`, `leaf#2` in the order of first use.

    The dict has `start`, `nodes`, `leaves` and `edges`. A row of `saved` says which slot it is,
    what forward called it (`name`), its shape, dtype and bytes, its version when saved and now, and
    the owning buffer: slots on the same memory have the same `buffer`, all but the first are
    `again`. Its `role` is `input`, `output`, `alias of output` or `intermediate`; `attribute` for
    what lies in the bag of the ctx, `object` for a named value that is no tensor, `packed` for what
    a hook packed (the bytes are those of what it made), and `unknown` where nothing tells.

    Keeps: nothing.
    Raises: TypeError for what is neither tensor nor node; ValueError for an unknown format.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> print(lm.autograd.dump((x * x).sum(), names={"x": x}))
        x          (2,)  float64  b1  16 B  leaf
        mul#1      (2,)  float64            from a: x, b: x
          ● a = x  (2,)  float64  b1  16 B  input
          ○ b = x  (2,)  float64  b1        input
        sum#2      ()    float64            from x: mul#1
        2 nodes, 3 edges, 1 leaf; saved: 16 B in 1 buffer
    """
    if format not in FORMATS:
        raise ValueError(f"dump knows no format '{format}'; use one of {', '.join(FORMATS)}")
    graph = read(tensor_or_node, names, "dump")
    if format == "text":
        return as_text(graph)
    return as_dot(graph) if format == "dot" else graph


def stats(tensor_or_node: Any, *, timed: bool = False) -> dict[str, Any]:
    """The graph upstream of `tensor_or_node` in numbers, ready for JSON.

    `depth` counts the nodes on the longest way to a leaf. `saved_bytes` in `buffers` are those that
    backward will release, `attribute_bytes` those that lie in the bag of a ctx and nowhere else,
    and stay until the node dies; both count every owning buffer once. `timed` adds `nanoseconds`:
    what the rule of each node takes, in a backward pass of a tensor that writes no `.grad`.

    Keeps: nothing.
    Raises: TypeError for what is neither tensor nor node (`timed`: no tensor with a history).

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> found = lm.autograd.stats(x.exp().sum())
        >>> found["nodes"], found["depth"], found["saved_bytes"]
        (2, 2, 16)
    """
    numbers: dict[str, Any] = count(read(tensor_or_node, None, "stats"))
    if timed:
        if not isinstance(tensor_or_node, Tensor) or tensor_or_node.is_leaf:
            raise TypeError("stats(timed=True) runs backward, so it takes a tensor with a history")
        numbers["nanoseconds"] = nanoseconds(tensor_or_node)
    return numbers


def count(graph: dict[str, Any]) -> dict[str, int]:
    """The numbers of a graph that `read` made."""
    rows = [row for node in graph["nodes"] for row in node["saved"] if not row.get("released")]
    owned = {row["buffer"]: row["owner_nbytes"] for row in rows if row["buffer"]}
    saved = {row["buffer"] for row in rows if row["buffer"] and row["role"] != "attribute"}
    depths = {node["name"]: 1 for node in graph["nodes"]}
    for edge in reversed(graph["edges"]):  # the latest consumer first
        if edge["to"] in depths:
            depths[edge["to"]] = max(depths[edge["to"]], depths[edge["from"]] + 1)
    return {
        "nodes": len(graph["nodes"]),
        "edges": len(graph["edges"]),
        "leaves": len(graph["leaves"]),
        "depth": max(depths.values(), default=0),
        "released": sum(node["released"] for node in graph["nodes"]),
        "slots": len(rows),
        "buffers": len(saved),
        "saved_bytes": sum(owned[badge] for badge in saved),
        "attribute_bytes": sum(owned[badge] for badge in owned.keys() - saved),
    }


# -- reading --------------------------------------------------------------------------------------


def read(
    start: Any, names: Mapping[str, Any] | None = None, caller: str = "dump"
) -> dict[str, Any]:
    """The graph upstream of `start` as the dict that `dump` describes.

    Keeps: nothing.   Raises: TypeError for what is neither tensor nor node.
    """
    if not isinstance(start, Tensor | Node | AccumulateGrad):
        _refuse(start, caller)
    root = start._node if isinstance(start, Tensor) else start
    nodes = [] if root is None else reachable([root])[::-1]
    given = _Names(names)
    labels: dict[Any, str] = {node: _clean(node.label) for node in nodes}
    taken = set(labels.values())
    leaves: dict[Any, dict[str, Any]] = {}

    def meet(leaf: Any) -> None:
        if leaf not in leaves:
            label = _unused(f"leaf#{len(leaves) + 1}", taken)
            name = given.of_leaf(leaf)
            labels[leaf] = _unused(name, taken) if name else label
            leaves[leaf] = {"name": labels[leaf], "label": label}

    for node in nodes:
        for upstream in node._next_nodes:
            if isinstance(upstream, AccumulateGrad):
                meet(upstream)
    if not nodes:
        meet(start if root is None else root)

    buffers, functions = _Buffers(), _Functions()
    entries, edges = [], []
    for node in nodes:
        arguments = functions.arguments(node)
        entries.append(
            {
                "name": labels[node],
                "function": _clean(node.function.__name__),
                "sequence_nr": int(node.label.rpartition("#")[2]),
                "released": node.released,
                "outputs": _outputs(node, given),
                "saved": _rows(node, arguments, functions, given, buffers),
            }
        )
        for index, upstream in enumerate(node._next_nodes):
            if upstream:
                output_nr = node._next_nrs[index] if node._next_nrs else 0
                edges.append(
                    {
                        "from": labels[node],
                        "to": labels[upstream],
                        "argument": arguments[index],
                        "output_nr": output_nr,
                    }
                )
    for leaf, entry in leaves.items():
        entry.update(_leaf(leaf, buffers))
    return {
        "start": _start(start, root, labels, given),
        "nodes": entries,
        "leaves": list(leaves.values()),
        "edges": edges,
    }


def _refuse(start: Any, caller: str) -> NoReturn:
    hint = (
        "A leaf has no grad_fn: pass the tensor itself."
        if start is None
        else "Pass the loss, or its grad_fn."
    )
    given = "None" if start is None else type(start).__name__
    raise TypeError(f"{caller} takes a tensor or a node of its graph, not {given}. {hint}")


def _unused(name: str, taken: set[str]) -> str:
    """`name`, primed until no node and no other leaf is called so."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def _start(start: Any, root: Any, labels: dict[Any, str], given: "_Names") -> dict[str, Any]:
    """Where the graph was entered."""
    is_tensor = isinstance(start, Tensor)
    return {
        "name": labels[start if root is None else root],
        "output_nr": start._output_nr if is_tensor else 0,
        "tensor": given.of_tensor(start) if is_tensor else None,
        "shape": list(start.shape) if is_tensor else None,
    }


def _outputs(node: Any, given: "_Names") -> list[dict[str, Any] | None]:
    """Shape and dtype of each output of `node`; None for one that is no tensor."""
    metas = node._outputs if node._outputs is not None else (node,)
    return [
        None
        if meta is None
        else {
            "shape": list(meta.shape),
            "dtype": _dtype_text(meta.dtype),
            "tensor": given.of_edge(node, output_nr),
        }
        for output_nr, meta in enumerate(metas)
    ]


def _leaf(leaf: Any, buffers: "_Buffers") -> dict[str, Any]:
    """What is to be said of a leaf: an AccumulateGrad, or a tensor that requires no grad."""
    tensor = leaf if isinstance(leaf, Tensor) else leaf.variable
    grad = None if tensor is None else tensor._grad
    return {
        "shape": list(leaf.shape),
        "dtype": _dtype_text(leaf.dtype),
        "nbytes": math.prod(leaf.shape) * leaf.dtype.itemsize,
        "requires_grad": tensor is not None and tensor._node is not None,
        "alive": tensor is not None,
        "buffer": None if tensor is None else buffers.known(tensor._data),
        "grad_nbytes": None if grad is None else grad.nbytes,
    }


def _clean(name: object) -> str:
    """`name` on one line: a line break in it would forge a row."""
    name = str(name)
    if name.isprintable():
        return name
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in name)


@cache
def _dtype_text(dtype: np.dtype[Any]) -> str:
    # NumPy takes 5 us for it, and a graph has many nodes and few dtypes.
    return str(dtype)


class _Names:
    """Names that a caller gave to tensors, found again by tensor, by edge or by leaf."""

    def __init__(self, names: Mapping[str, Any] | None) -> None:
        self._tensors: dict[int, str] = {}
        self._edges: dict[tuple[int, int], str] = {}
        for key, value in (names or {}).items():
            # Jupyter calls everything that was displayed `_` or `_17`.
            name = _clean(key)
            if isinstance(value, Tensor) and name and not name.startswith("_"):
                self._tensors.setdefault(id(value), name)
                if value._node is not None:
                    self._edges.setdefault((id(value._node), value._output_nr), name)

    def of_tensor(self, tensor: Any) -> str | None:
        return self._tensors.get(id(tensor)) or self.of_edge(tensor._node, tensor._output_nr)

    def of_edge(self, node: Any, output_nr: int) -> str | None:
        return self._edges.get((id(node), output_nr))

    def of_leaf(self, leaf: Any) -> str | None:
        return self.of_tensor(leaf) if isinstance(leaf, Tensor) else self.of_edge(leaf, 0)


class _Buffers:
    """Badges of owning arrays, `b1` first.

    Holds the arrays while the graph is read: an id without its object can come back as another's.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, str]] = {}

    def badge(self, array: Any) -> tuple[str, bool, int]:
        """The badge of the array that owns `array`, whether it was met before, and its bytes."""
        owning = owner(array)
        again = id(owning) in self._found
        _, badge = self._found.setdefault(id(owning), (owning, f"b{len(self._found) + 1}"))
        return badge, again, owning.nbytes

    def known(self, array: Any) -> str | None:
        """The badge, where the array has one."""
        found = self._found.get(id(owner(array)))
        return None if found is None else found[1]


# -- what a node has saved ------------------------------------------------------------------------


def _rows(
    node: Any,
    arguments: tuple[str, ...],
    functions: "_Functions",
    given: _Names,
    buffers: _Buffers,
) -> list[dict[str, Any]]:
    """One row per value that the ctx of `node` holds: slots, then named objects, then the bag."""
    ctx = node._ctx
    slots = ctx._saved if type(ctx._saved) is tuple else ()
    named = ctx._named or {}
    keys: dict[int, int | str] = {at: key for key, at in named.items() if type(at) is int}
    versions = ctx._versions or (0,) * len(slots)
    met: set[str] = set()
    rows = []
    for index, slot in enumerate(slots):
        if slot is None:
            continue
        key = keys.get(index, index)
        name, role = _identify(slot, key, node, arguments, functions, met)
        row = _row(key, name, role, slot.held if type(slot) is Packed else slot, buffers)
        row["version"] = versions[index]
        row["version_now"] = 0 if slot._memory is None else slot._memory.version
        if type(slot) is Packed:
            row["shape"], row["dtype"] = list(slot.shape), _dtype_text(slot.dtype)
        if isinstance(slot, Tensor):
            row["tensor"] = given.of_tensor(slot)
        elif type(slot) is Packed and not slot.is_output:
            row["tensor"] = given.of_edge(slot.node, slot.output_nr)
        elif slot.output_nr >= 0:
            row["tensor"] = given.of_edge(node, slot.output_nr)
        rows.append(row)
    for key, at in named.items():
        if type(at) is list and not (at[0] is None or (node.released and type(at[0]) in _SMALL)):
            rows.append(_row(key, key, "object", at[0], buffers))
    for key, value in ctx.__dict__.items():
        if isinstance(value, Tensor | np.ndarray):
            rows.append(_row(key, f"ctx.{key}", "attribute", value, buffers))
    return rows


def _row(key: int | str, name: str, role: str, value: Any, buffers: _Buffers) -> dict[str, Any]:
    array = value._data if isinstance(value, Tensor | SavedOutput | SavedAlias) else value
    row: dict[str, Any] = {
        "slot": key if isinstance(key, int) else _clean(key),
        "name": _clean(name),
        "tensor": None,
        "role": role,
        "type": type(value).__name__,
        "shape": None,
        "dtype": None,
        "nbytes": 0,
        "version": 0,
        "version_now": 0,
        "buffer": None,
        "again": False,
        "owner_nbytes": 0,
    }
    if isinstance(array, np.ndarray):
        row["type"] = "array" if array is value else "tensor"
        row["shape"], row["dtype"] = list(array.shape), _dtype_text(array.dtype)
        row["nbytes"] = array.nbytes
        row["buffer"], row["again"], row["owner_nbytes"] = buffers.badge(array)
    return row


def _identify(
    slot: Any,
    key: int | str,
    node: Any,
    arguments: tuple[str, ...],
    functions: "_Functions",
    met: set[str],
) -> tuple[str, str]:
    """Name and role of a slot: by its edge where it has one, then by what forward's source says.

    A tensor without history leaves no edge: only the source tells an argument from an intermediate.
    Equal shapes prove nothing.
    """
    source = functions.saved(node).get(key)
    written = source.name if source else None
    fallback = written or (key if isinstance(key, str) else f"saved {key}")
    packed = type(slot) is Packed
    if type(slot) in DETACHED or (packed and slot.is_output):
        if slot.output_nr < 0:
            return fallback, "packed" if packed else "alias of output"
        single = node._outputs is None or len(node._outputs) == 1
        name = "output" if single else f"output {slot.output_nr}"
        return name, "packed" if packed else "output"
    matching = [
        name
        for index, name in enumerate(arguments)
        if _came_by(slot, node._next_nodes[index], node._next_nrs[index] if node._next_nrs else 0)
    ]
    if matching:
        fresh = [name for name in matching if name not in met]
        name = written if written in matching else (fresh or matching)[0]
        met.add(name)
        return name, "packed" if packed else "input"
    if packed:
        return fallback, "packed"
    if source is not None and source.is_argument:
        return fallback, "input"
    if slot._node is None and (
        (source is not None and written not in arguments) or None not in node._next_nodes
    ):
        return fallback, "intermediate"
    return fallback, "unknown"


def _came_by(slot: Any, upstream: Any, output_nr: int) -> bool:
    """Whether `slot` is the argument whose gradient goes to output `output_nr` of `upstream`."""
    if upstream is None or upstream is NOT_A_TENSOR:
        return False
    if type(slot) is Packed:
        return slot.node is upstream and slot.output_nr == output_nr
    if slot._node is upstream:
        return bool(slot._output_nr == output_nr)
    return isinstance(upstream, AccumulateGrad) and upstream.variable is slot


class _Written(NamedTuple):
    """What the source of forward says of one saved value."""

    name: str
    is_argument: bool  # an argument that forward never binds anew


class _Functions:
    """What is looked up once per Function while a graph is read."""

    def __init__(self) -> None:
        self._arguments: dict[tuple[Any, int], tuple[str, ...]] = {}
        self._saved: dict[Any, dict[int | str, _Written]] = {}

    def arguments(self, node: Any) -> tuple[str, ...]:
        key = (node.function, len(node._next_nodes))
        if key not in self._arguments:
            self._arguments[key] = tuple(map(_clean, node.function.argument_names(key[1])))
        return self._arguments[key]

    def saved(self, node: Any) -> dict[int | str, _Written]:
        if node.function not in self._saved:
            self._saved[node.function] = _written_saves(node.function)
        return self._saved[node.function]


def _written_saves(function: Any) -> dict[int | str, _Written]:
    """What `function` calls the values in its `save_for_backward(...)`, by position or keyword.

    Empty where the source is not at hand. A position that two calls name differently is left out.
    """
    splits = function.setup_context is not Function.setup_context
    try:
        source = inspect.getsource(function.setup_context if splits else function.forward)
        body = ast.parse(textwrap.dedent(source))
        parameters = [parameter.name for parameter in function._parameters()]
        arguments = _unpacked(body, parameters) if splits else {name: name for name in parameters}
    except (OSError, TypeError, ValueError, SyntaxError, LookupError, StopIteration):
        return {}
    if not splits:
        for part in ast.walk(body):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                arguments.pop(part.id, None)
    found: dict[int | str, set[_Written | None]] = {}
    for part in ast.walk(body):
        if isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "save_for_backward":
            for index, value in enumerate(part.args):
                if isinstance(value, ast.Starred):
                    break
                found.setdefault(index, set()).add(_written(value, arguments))
            for keyword in part.keywords:
                if keyword.arg is not None:
                    found.setdefault(keyword.arg, set()).add(_written(keyword.value, arguments))
    agreed = {key: said.pop() for key, said in found.items() if len(said) == 1}
    return {key: written for key, written in agreed.items() if written is not None}


def _unpacked(body: ast.AST, parameters: list[str]) -> dict[str, str]:
    """Which local name of `setup_context` is which parameter of forward: `x, w = inputs`."""
    names: dict[str, str] = {}
    definition = next(part for part in ast.walk(body) if isinstance(part, ast.FunctionDef))
    inputs = definition.args.args[1].arg
    for part in ast.walk(definition):
        if isinstance(part, ast.Assign) and getattr(part.value, "id", None) == inputs:
            for target in part.targets:
                elements = getattr(target, "elts", ())
                for element, parameter in zip(elements, parameters, strict=False):
                    if isinstance(element, ast.Name):
                        names[element.id] = parameter
    return names


def _written(value: ast.expr, arguments: dict[str, str]) -> _Written | None:
    """The name in `x` or `x if needed else None`; None for another expression."""
    if isinstance(value, ast.IfExp):
        value = value.orelse if getattr(value.body, "value", 0) is None else value.body
    if isinstance(value, ast.Name):
        return _Written(arguments.get(value.id, value.id), value.id in arguments)
    return None


# -- writing --------------------------------------------------------------------------------------


def shape_text(shape: list[int] | None) -> str:
    """`(32, 128)`, as Python writes it."""
    return "" if shape is None else str(tuple(shape))


def as_text(
    graph: dict[str, Any],
    *,
    nbytes: Callable[[int], str] = lambda count: f"{count} B",
    most: int | None = None,
) -> str:
    """A graph that `read` made as a table: one line per leaf, node and slot, then the sums.

    `nbytes` writes a number of bytes; of more than `most` nodes only the last `most` are listed.
    """
    lines: list[tuple[str, ...]] = []
    left_out = 0 if most is None else max(0, len(graph["nodes"]) - most)
    nodes = graph["nodes"][left_out:]
    sources: dict[str, list[str]] = {node["name"]: [] for node in nodes}
    near = {graph["start"]["name"]}
    for edge in graph["edges"]:
        if edge["from"] in sources:
            sources[edge["from"]].append(_from(edge))
            near.add(edge["to"])
    for leaf in graph["leaves"]:
        if not left_out or leaf["name"] in near:
            size = nbytes(leaf["nbytes"])
            what = leaf_text(leaf, nbytes)
            lines.append(
                (
                    leaf["name"],
                    shape_text(leaf["shape"]),
                    leaf["dtype"],
                    leaf["buffer"] or "",
                    size,
                    what,
                )
            )
    if left_out:
        lines.append((f"… {plural(left_out, 'earlier node')}",))
    for node in nodes:
        outputs = [output for output in node["outputs"] if output is not None]
        shapes = " ".join(shape_text(output["shape"]) for output in outputs)
        dtypes = " ".join(dict.fromkeys(output["dtype"] for output in outputs))
        what = "from " + ", ".join(sources[node["name"]]) if sources[node["name"]] else ""
        if node["released"]:
            what = f"released; {what}"
        lines.append((node["name"], shapes, dtypes, "", "", what))
        lines.extend(_slot_line(row, node["released"], nbytes) for row in node["saved"])
    return "\n".join([*_aligned(lines), _summary(graph, nbytes)])


def leaf_text(leaf: dict[str, Any], nbytes: Callable[[int], str]) -> str:
    """What a leaf is: `leaf`, and whether it is gone, wants no gradient, or has one."""
    if not leaf["alive"]:
        return "leaf, gone"
    if leaf["grad_nbytes"] is not None:
        return f"leaf, .grad {nbytes(leaf['grad_nbytes'])}"
    return "leaf" if leaf["requires_grad"] else "leaf, requires no grad"


def row_name(row: dict[str, Any]) -> str:
    """What a row is called: `x`; `x = images` where the caller gave that tensor a name."""
    name = str(row["name"])
    return name if row["tensor"] in (None, name) else f"{name} = {row['tensor']}"


def row_notes(row: dict[str, Any], node_released: bool, nbytes: Callable[[int], str]) -> list[str]:
    """What is unusual about a row: released, still held, more kept than used, changed since."""
    notes = []
    if row.get("released"):
        notes.append("released")
    elif node_released:
        notes.append("still held")
    if row["owner_nbytes"] > row["nbytes"] and not row["again"]:
        notes.append(f"keeps all {nbytes(row['owner_nbytes'])} of its buffer")
    if row["version"] != row["version_now"]:
        notes.append(f"changed in place, version {row['version']} -> {row['version_now']}")
    if row.get("needed") is False:
        notes.append("not needed")
    if row.get("instead"):
        notes.append(row["instead"])
    return notes


def _from(edge: dict[str, Any]) -> str:
    output = f" output {edge['output_nr']}" if edge["output_nr"] else ""
    return f"{edge['argument']}: {edge['to']}{output}"


def sign_of(row: dict[str, Any]) -> str:
    """`●` keeps its buffer, `○` too, but an earlier row keeps it as well, `×` was released.

    `▲` keeps it in vain: a row that `needed` says False of.
    """
    if row.get("released"):
        return "×"
    if row.get("needed") is False:
        return "▲"
    return "○" if row["again"] else "●"


def _slot_line(
    row: dict[str, Any], node_released: bool, nbytes: Callable[[int], str]
) -> tuple[str, ...]:
    size = "" if row["again"] or not row["buffer"] else nbytes(row["nbytes"])
    what = "; ".join([row["role"], *row_notes(row, node_released, nbytes)])
    kind = row["dtype"] or row["type"]
    badge = row["buffer"] or ""
    return f"  {sign_of(row)} {row_name(row)}", shape_text(row["shape"]), kind, badge, size, what


def _aligned(lines: list[tuple[str, ...]]) -> list[str]:
    """The cells in columns, the fifth (bytes) flush right. A lone cell takes no part."""
    widths = [max((len(line[at]) for line in lines if len(line) > 1), default=0) for at in range(5)]
    rows = []
    for line in lines:
        if len(line) == 1:
            rows.append(line[0])
            continue
        cells = [
            cell.rjust(width) if at == 4 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line[:5], widths, strict=True))
        ]
        rows.append("  ".join([*cells, line[5]]).rstrip())
    return rows


def _summary(graph: dict[str, Any], nbytes: Callable[[int], str]) -> str:
    sums = count(graph)
    parts = [
        f"{plural(sums['nodes'], 'node')}, {plural(sums['edges'], 'edge')}, "
        f"{plural(sums['leaves'], 'leaf', 'leaves')}",
        f"saved: {nbytes(sums['saved_bytes'])} in {plural(sums['buffers'], 'buffer')}",
    ]
    if sums["attribute_bytes"]:
        parts.append(f"in ctx attributes, never released: {nbytes(sums['attribute_bytes'])}")
    if sums["released"]:
        parts.append(f"released: {plural(sums['released'], 'node')}")
    return "; ".join(parts)


def plural(number: int, noun: str, nouns: str = "") -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def as_dot(graph: dict[str, Any]) -> str:
    """A graph that `read` made as plain DOT: a box per node, arrows as forward ran."""
    lines = ["digraph {", "  node [shape=box]"]
    for leaf in graph["leaves"]:
        label = [leaf["name"], shape_text(leaf["shape"])]
        lines.append(f"  {quoted(leaf['name'])} [shape=ellipse, label={quoted(*label)}]")
    for node in graph["nodes"]:
        label = [node["name"] + (" released" if node["released"] else "")]
        for row in node["saved"]:
            cells = (
                sign_of(row),
                row_name(row),
                shape_text(row["shape"]),
                row["buffer"] or "",
                f"{row['nbytes']} B",
            )
            label.append(" ".join(cell for cell in cells if cell))
        lines.append(f"  {quoted(node['name'])} [label={quoted(*label)}]")
    for edge in graph["edges"]:
        output = f" (output {edge['output_nr']})" if edge["output_nr"] else ""
        label = [edge["argument"] + output]
        lines.append(f"  {quoted(edge['to'])} -> {quoted(edge['from'])} [label={quoted(*label)}]")
    return "\n".join([*lines, "}", ""])


def quoted(*lines: str) -> str:
    """Lines of text as one DOT string; no character in them ends it or starts an escape."""
    safe = [line.replace("&", "&amp;").translate(_IN_QUOTES) for line in lines]
    return '"' + "\\n".join(safe) + '"'
