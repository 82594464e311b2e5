"""How long the rule of each node takes: one backward pass with a clock, which changes nothing."""

from time import perf_counter_ns
from typing import Any

import numpy as np

from .. import events
from .node import AccumulateGrad, reachable
from .passes import grad
from .saved import wrap


class _Clock:
    """A recorder that reads the time around each rule, and hands all on to whoever listened."""

    def __init__(self, outer: Any) -> None:
        self._outer = outer
        self.started = 0
        self.taken: dict[str, int] = {}

    def running(self, node: Any, grads: Any) -> None:
        """A rule is about to run."""
        if self._outer is not None:
            self._outer.running(node, grads)
        self.started = perf_counter_ns()

    def ran(self, node: Any, grads: Any) -> None:
        """A rule has run."""
        self.taken[node.label] = perf_counter_ns() - self.started
        if self._outer is not None:
            self._outer.ran(node, grads)

    def __getattr__(self, event: str) -> Any:
        return (lambda *_: None) if self._outer is None else getattr(self._outer, event)


def nanoseconds(tensor: Any) -> dict[str, int]:
    """How long each node of the graph of `tensor` takes in a backward that starts with ones.

    Runs the rules; the graph keeps what it saved, and no `.grad` is written.
    Raises: what backward raises: GraphFreedError, and the errors of the rules.
    """
    leaves = {
        upstream: upstream._leaf()
        for node in reachable([tensor._node])
        for upstream in node._next_nodes
        if isinstance(upstream, AccumulateGrad)
    }
    targets = [leaf for leaf in leaves.values() if leaf is not None and leaf.requires_grad]
    if not targets:
        return {}
    clock: Any = _Clock(events.recorder)
    found, events.recorder = events.recorder, clock
    try:
        ones = wrap(np.ones(tensor.shape, tensor.dtype))
        grad(tensor, targets, ones, retain_graph=True, allow_unused=True)
    finally:
        events.recorder = found
    return dict(clock.taken)
