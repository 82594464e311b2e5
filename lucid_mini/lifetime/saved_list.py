"""saved: everything that a graph has saved for backward, as rows."""

from dataclasses import dataclass
from typing import Any

from ..autograd.dump import dump
from ..autograd.tensor import Tensor


@dataclass(frozen=True)
class SavedValue:
    """One saved slot.

    `nbytes` are those of the owning buffer; `counted` is False for a buffer met before.
    """

    node: str
    slot: str
    role: str
    shape: tuple[int, ...]
    nbytes: int
    buffer: str
    version: int
    counted: bool


class SavedValues(list[SavedValue]):
    """The rows, their sum, and a text table.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> lm.lifetime.saved(x * x).nbytes
        16
    """

    @property
    def nbytes(self) -> int:
        """Bytes of the owning buffers, each counted once."""
        return sum(row.nbytes for row in self if row.counted)

    def __repr__(self) -> str:
        head = ("node", "slot", "role", "shape", "bytes", "buffer", "version")
        rows = [
            (
                r.node,
                r.slot,
                r.role,
                str(r.shape),
                f"{r.nbytes}" if r.counted else "(again)",
                r.buffer,
                str(r.version),
            )
            for r in self
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in [head, *rows]
        ]
        lines.append(
            f"{len(self)} saved values in {len({r.buffer for r in self})} buffers, {self.nbytes} "
            "bytes"
        )
        return "\n".join(lines)


def saved(tensor: Tensor) -> SavedValues:
    """What the graph of `tensor` has saved: node, slot, role, shape, bytes, buffer, version.

    The bytes of a view are those of the array that owns its memory; slots on one buffer bear one
    badge and it is counted once. Keeps: nothing.
    Raises: TypeError for what is neither tensor nor node.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> lm.lifetime.saved((x * x.exp()).sum())
        node   slot    role    shape  bytes    buffer  version
        exp#1  output  output  (2,)   16       b1      0
        mul#2  a       input   (2,)   16       b2      0
        mul#2  b       input   (2,)   (again)  b1      0
        3 saved values in 2 buffers, 32 bytes
    """
    graph: Any = dump(tensor, "dict")
    rows = SavedValues()
    met: set[str] = set()
    for node in graph["nodes"]:
        for row in node["saved"]:
            if not row["buffer"] or row["role"] == "attribute":
                continue
            rows.append(
                SavedValue(
                    node["name"],
                    row["name"],
                    row["role"],
                    tuple(row["shape"]),
                    row["owner_nbytes"],
                    row["buffer"],
                    row["version"],
                    row["buffer"] not in met,
                )
            )
            met.add(row["buffer"])
    return rows
