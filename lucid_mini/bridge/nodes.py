"""What a trace knows of a node of PyTorch: its number, what it saved, whether it let go of it."""

import inspect
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..lifetime.record import where_of
from .installed import torch
from .objects import Slot, grad_fn


class Mark:
    """What a trace leaves in `node.metadata`: it dies with the node, and bears its label."""

    __slots__ = ("__weakref__", "label", "number")

    def __init__(self, number: int, label: str) -> None:
        self.number = number
        self.label = label

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True)
class Save:
    """One tensor in one saved slot of a node. `nbytes` are those of the storage under it."""

    serial: int
    slot: str
    role: str
    shape: tuple[int, ...]
    nbytes: int


class NodeLife:
    """One node, in names and numbers; texts call it `MulBackward0#3`."""

    __slots__ = (
        "existed",
        "first_pass",
        "gone",
        "handle",
        "label",
        "leaf",
        "mark",
        "name",
        "number",
        "released",
        "saves",
        "turn",
        "where",
    )

    def __init__(self, number: int, label: int, node: Any, existed: bool) -> None:
        self.number = number
        self.name = node.name().rpartition("::")[2]
        leaf = getattr(node, "variable", None)
        #: Of the end of a graph: the leaf that is given the gradient.
        self.leaf: weakref.ref[Any] | None = None if leaf is None else weakref.ref(leaf)
        self.label = self.name if leaf is not None else f"{self.name}#{label}"
        self.existed = existed
        self.saves: list[Save] = []
        self.released = self.gone = False
        #: The backward pass that ran it first, None if none did.
        self.first_pass: int | None = None
        #: The turn of the program's loops in which it was made.
        self.turn = 0
        #: The line of the program that made it.
        self.where: Any = None
        self.mark: weakref.ref[Mark] | None = None
        self.handle: Any = None

    def __str__(self) -> str:
        return self.label

    def watch(
        self, node: Any, key: str, died: Callable[[Any], None], runs: Callable[[Any], None]
    ) -> None:
        """Be told when the node dies and before it runs."""
        mark = Mark(self.number, self.label)
        node.metadata[key] = mark
        self.mark = weakref.ref(mark, died)
        self.handle = node.register_prehook(runs)

    def let_go(self) -> None:
        """Listen no more."""
        self.mark = None
        self.handle.remove()


@dataclass(frozen=True, slots=True)
class SavedRow:
    """One saved slot as the table shows it."""

    node: str
    slot: str
    role: str
    shape: tuple[int, ...]
    nbytes: int
    buffer: str
    state: str
    where: str
    counted: bool


class SavedTable(list[SavedRow]):
    """Every saved tensor of every node that a trace met, and the bytes they hold now."""

    @property
    def nbytes(self) -> int:
        """Bytes of the storages that are held by a saved slot now, each counted once."""
        held = {row.buffer: row.nbytes for row in self if row.state == "held"}
        return sum(held.values())

    def __repr__(self) -> str:
        rows = [("node", "slot", "role", "shape", "bytes", "buffer", "state", "line")]
        rows += [
            (
                row.node,
                row.slot,
                row.role,
                str(row.shape),
                f"{row.nbytes}" if row.counted else "(again)",
                row.buffer,
                row.state,
                row.where,
            )
            for row in self
        ]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        buffers = len({row.buffer for row in self})
        lines.append(f"{len(self)} saved tensors in {buffers} buffers, {self.nbytes} bytes held")
        return "\n".join(lines)


def table_of(
    nodes: Iterable[NodeLife], name_of: Callable[[int], str], alive: Callable[[int], bool]
) -> SavedTable:
    """The rows of all `nodes`, in the order in which they were met.

    `state`: `held`; `released` by a pass; `gone` with its node.
    """
    table, met = SavedTable(), set()
    for node in nodes:
        state = "released" if node.released else "gone" if node.gone else "held"
        for save in node.saves:
            again = save.serial in met
            met.add(save.serial)
            table.append(
                SavedRow(
                    node.label,
                    save.slot,
                    save.role,
                    save.shape,
                    save.nbytes,
                    name_of(save.serial),
                    state if alive(save.serial) or state != "held" else "gone",
                    where_of(node.where),
                    not again,
                )
            )
    return table


@dataclass(frozen=True, slots=True)
class History:
    """What a tensor's history holds: how many nodes, run by how many passes, and which bytes.

    `turns`: over how many turns of a loop one leaf was used by nodes of one line that never ran.
    """

    nodes: int
    passes: int
    turns: int
    nbytes: int
    buffers: int
    where: str


def history_from(nodes: Iterable[Any], life_of: Callable[[Any], NodeLife | None]) -> History:
    """The history that `nodes`, of one graph from its root on, make up."""
    lives: list[NodeLife] = []
    uses: dict[tuple[int, Any], set[int]] = {}
    held: dict[int, int] = {}
    for node in nodes:
        life = life_of(node)
        if life is None or life.leaf is not None:
            continue
        lives.append(life)
        if not life.released:
            held.update((save.serial, save.nbytes) for save in life.saves)
        if life.first_pass is None:
            for upstream, _ in node.next_functions:
                if hasattr(upstream, "variable"):
                    uses.setdefault((id(upstream), life.where), set()).add(life.turn)
    passes = {life.first_pass for life in lives if life.first_pass is not None}
    turns = max((len(each) for each in uses.values()), default=0)
    where = where_of(lives[0].where) if lives else ""
    return History(len(lives), len(passes), turns, sum(held.values()), len(held), where)


def role_of(node: Any, tensor: Any, outputs: list[Any], is_input: bool) -> str:
    """`output`, `alias of output`, `input` or `intermediate`.

    `outputs`: the tensors that the op gave. `is_input`: whether the op was handed the storage.
    """
    for output in outputs:
        if tensor is output or _same_place(tensor, output):
            return "output"
        if tensor.untyped_storage() is output.untyped_storage():
            return "input" if is_input else "alias of output"
    if is_input or argument_of(node, tensor) is not None:
        return "input"
    return "intermediate"


def _same_place(a: Any, b: Any) -> bool:
    return (
        a.untyped_storage() is b.untyped_storage()
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.storage_offset() == b.storage_offset()
        and a._base is None  # what PyTorch saves of an output is no view of it
    )


def argument_of(node: Any, tensor: Any) -> int | None:
    """Which argument of the op `tensor` is, by the edges: those that need a gradient."""
    history = grad_fn(tensor)
    for index, (upstream, number) in enumerate(node.next_functions):
        if upstream is None:
            continue
        if history is None:
            if getattr(upstream, "variable", None) is tensor:
                return index
        elif upstream is history and number == tensor.output_nr:
            return index
    return None


def slot_name(node: Any, slot: Slot, tensor: Any, role: str) -> str:
    """PyTorch's name of a slot; of a custom Function's the argument, `output`, or `saved 2`."""
    function = getattr(type(node), "_forward_cls", None)
    if function is None or not slot.name.isdigit():
        return slot.name
    if role == "output":
        return "output"
    if role == "alias of output":
        return "view of output"
    at = argument_of(node, tensor)
    names = list(inspect.signature(function.forward).parameters)
    if function.setup_context is torch.autograd.Function.setup_context:
        names = names[1:]  # ctx
    return names[at] if at is not None and at < len(names) else f"saved {slot.name}"
