"""is_needed: does a gradient depend on a value that was saved for it? The poison test.

The rule of one node is run again with other values in one slot. A gradient that stays the same to
the bit did not need them. Nothing is freed by the answer: it says what could be saved instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import events
from ..autograd.ctx import _set_saved, _set_versions
from ..autograd.node import Node
from ..autograd.rules import as_tuple, call_rule
from ..autograd.saved import Array, Memory, SavedAlias, versions_of
from ..autograd.tensor import Tensor, wrap
from .slots import slot_names

_BLIND = (
    "Two blind spots: a branch that these values did not take, and a gradient that is zero here "
    "whatever the value."
)


@dataclass(frozen=True)
class Need:
    """What the poison test found for one slot. True if any gradient depends on the value.

    `by_argument` says it for each argument that needs a gradient. `nbytes` are those of the saved
    value, `instead` says what would do in its place.

    Example:
        >>> y = lm.tensor([1.0, 2.0], requires_grad=True).exp()
        >>> need = lm.lifetime.is_needed(y.grad_fn, 0)
        >>> need.node, need.nbytes, need.by_argument, need.instead
        ('exp#1', 16, {'x': True}, '')
    """

    node: str
    slot: str
    by_argument: dict[str, bool]
    nbytes: int
    instead: str

    def __bool__(self) -> bool:
        return any(self.by_argument.values())

    def __repr__(self) -> str:
        needed = [name for name, need in self.by_argument.items() if need]
        spared = [name for name, need in self.by_argument.items() if not need]
        said = []
        if needed:
            said.append(f"needed for the gradient of {', '.join(needed)}")
        if spared:
            said.append(f"not needed for this input: {', '.join(spared)}")
        advice = f" {self.instead[0].upper()}{self.instead[1:]}." if self.instead else ""
        return (
            f"{self.node}, {self.slot} ({self.nbytes} bytes): {'; '.join(said)}.{advice} {_BLIND}"
        )


def is_needed(node: Node, slot: int | str) -> Need:
    """Whether the gradient of `node` depends on the value saved in `slot` (its number or its name).

    Runs the backward rule a few times; the node, what it saved and every gradient stay as they
    were.
    Raises: TypeError for what is no node, ValueError where nothing is saved in that slot.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> need = lm.lifetime.is_needed(x.log().grad_fn, 0)
        >>> bool(need), need.by_argument
        (True, {'x': True})
    """
    if not isinstance(node, Node):
        raise TypeError(f"is_needed takes a node (y.grad_fn), not {type(node).__name__}")
    slots = node._ctx._saved
    if type(slots) is not tuple or not slots:
        raise ValueError(
            f"{node.label} has nothing saved" + (", it was released" if node.released else "")
        )
    names = slot_names(node)
    index = names.index(slot) if isinstance(slot, str) and slot in names else slot
    if not isinstance(index, int) or not 0 <= index < len(slots) or slots[index] is None:
        raise ValueError(
            f"{node.label} has nothing saved in slot {slot!r}; it saved {', '.join(names)}"
        )
    data: Array = slots[index]._data
    seed = _seeds(node)
    honest = _gradients(node, seed)

    def depends(poison: Array) -> list[bool]:
        found = _with_value(node, index, poison, lambda: _gradients(node, seed))
        return (
            [True] * len(honest)
            if found is None
            else [not _same(a, b) for a, b in zip(honest, found, strict=True)]
        )

    verdicts = [a or b for a, b in zip(*map(depends, _poisons(data)), strict=True)]
    arguments = node.function.argument_names(len(node._next_nodes))
    by_argument = {
        name: verdict
        for name, verdict, upstream in zip(arguments, verdicts, node._next_nodes, strict=True)
        if upstream
    }
    return Need(
        node.label,
        names[index],
        by_argument,
        data.nbytes,
        _instead(data, any(by_argument.values()), depends),
    )


def _instead(data: Array, needed: bool, depends: Callable[[Array], list[bool]]) -> str:
    """What would do in place of `data`."""
    if not needed:
        return "its shape would do, if anything"
    if data.dtype.kind == "f" and data.size and not any(depends(data * 3.0)):
        return f"only its sign matters: {data.size} bytes would do"
    return ""


def _poisons(data: Array) -> tuple[Array, Array]:
    """Two arrays of other values: of the same kind, in the same range if they may be indices."""
    if data.dtype.kind == "b":
        return ~data, np.zeros_like(data)
    if data.dtype.kind in "iu":
        top = data.max(initial=0)
        return (top - data).astype(data.dtype), np.zeros_like(data)
    draw = np.random.default_rng(0).uniform(0.5, 2.0, data.shape)
    return (-1.7 * data + 0.3).astype(data.dtype), draw.astype(data.dtype)


def _seeds(node: Node) -> Any:
    draw = np.random.default_rng(1)
    if node._outputs is None:
        return draw.uniform(0.5, 1.5, node.shape).astype(node.dtype)
    return [
        None
        if meta is None or meta.dtype.kind != "f"
        else draw.uniform(0.5, 1.5, meta.shape).astype(meta.dtype)
        for meta in node._outputs
    ]


def _gradients(node: Node, seed: Any) -> list[Array | None]:
    found, events.recorder = events.recorder, None  # a trace that runs is not told of the trial
    try:
        given = (
            [None if s is None else s.copy() for s in seed]
            if isinstance(seed, list)
            else seed.copy()
        )
        grads = as_tuple(call_rule(node, given, False), node)
    finally:
        events.recorder = found
    return [g._data if type(g) is Tensor else g for g in grads]


def _with_value(node: Node, index: int, value: Array, run: Callable[[], Any]) -> Any:
    """What `run` gives while slot `index` holds `value`; None if the rule cannot digest it."""
    ctx = node._ctx
    slots, versions = ctx._saved, ctx._versions
    slot = slots[index]
    changed = wrap(value) if type(slot) is Tensor else SavedAlias(value, Memory(), slot.output_nr)
    swapped = (*slots[:index], changed, *slots[index + 1 :])
    try:
        _set_saved(ctx, swapped)
        _set_versions(ctx, versions_of(swapped))
        with np.errstate(all="ignore"):
            return run()
    except Exception:  # a value the rule cannot work with is a value it reads
        return None
    finally:
        _set_saved(ctx, slots)
        _set_versions(ctx, versions)


def _same(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
