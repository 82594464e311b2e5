"""The one cycle that the stack can close: leaf -> .grad -> graph of the gradient -> leaf."""

import warnings
from typing import Any

from ..errors import LeakWarning
from .callsite import outer_level
from .node import reachable


def warn_of_cycle(leaves: list[Any]) -> None:
    """Warn if the `.grad` of one of `leaves` has a history that leads back to the leaf.

    Costs: a walk of the graph for each leaf, under `create_graph` only.
    """
    holds = {id(leaf): _held(leaf, leaves) for leaf in leaves}
    for leaf in leaves:
        # From each leaf to the leaves that the graph of its gradient holds, and so on.
        stack, seen = [leaf], set()
        while stack:
            for other, node in holds[id(stack.pop())]:
                if other is leaf:
                    _warn(leaf, node)
                    return
                if id(other) not in seen:
                    seen.add(id(other))
                    stack.append(other)


def _held(leaf: Any, leaves: list[Any]) -> list[tuple[Any, Any]]:
    """Which of `leaves` the history of `leaf.grad` holds, and the node that saved each."""
    if leaf._grad is None or leaf._grad.is_leaf:
        return []
    wanted = {id(other): other for other in leaves}
    found: dict[int, tuple[Any, Any]] = {}
    for node in reachable([leaf._grad._node]):
        slots = node._ctx._saved
        kept = (*(slots if type(slots) is tuple else ()), *node._ctx.__dict__.values())
        for value in kept:
            for tensor in (value, getattr(value, "_base", None)):
                if id(tensor) in wanted:
                    found.setdefault(id(tensor), (wanted[id(tensor)], node))
    return list(found.values())


def _warn(leaf: Any, node: Any) -> None:
    warnings.warn(
        f"backward(create_graph=True) put a gradient with a history into the .grad of a leaf of "
        f"shape {leaf.shape}. Leaf -> .grad -> its history -> {node.label} -> saved tensor -> leaf "
        "is a cycle, and only the garbage collector frees it. Use lm.autograd.grad(), or set "
        "x.grad = None when you are done with it.",
        LeakWarning,
        stacklevel=outer_level(),
    )
