"""What speed and memory rest on, in counts that no machine changes.

Python calls of an op, bytes that a training step allocates, visits of the engine, and what a dead
graph leaves for the collector.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import lucid_mini as lm
from lucid_mini.autograd.node import Node

NUMPY_DOMAIN = 389047


def g(x: Any) -> Any:
    """`x.grad` as a list."""
    return x.grad.tolist()


def python_calls(run: Callable[[], Any]) -> int:
    """How many Python functions are called from when `run` begins to when it ends."""
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


class Square(lm.autograd.Function):
    """A reader's own, with rules on arrays."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


w = lm.tensor([[0.5, 0.1], [0.2, 0.3]], requires_grad=True)
bias = lm.tensor([0.1, 0.2], requires_grad=True)

#: One link of a chain -> Python calls: recorded, unrecorded, in backward.
LINKS: dict[str, tuple[Callable[[Any], Any], int, int, int]] = {
    "h + w": (lambda h: h + w, 4, 4, 2),
    "h + 2.0": (lambda h: h + 2.0, 6, 6, 1),
    "h + bias": (lambda h: h + bias, 4, 4, 7),
    "h * w": (lambda h: h * w, 6, 6, 3),
    "h / w": (lambda h: h / w, 7, 7, 5),
    "h @ w": (lambda h: h @ w, 7, 7, 6),
    "-h": (lambda h: -h, 4, 4, 1),
    "h.sqrt()": (lambda h: h.sqrt(), 8, 6, 2),
    "h.tanh()": (lambda h: h.tanh(), 8, 6, 2),
    "h.relu()": (lambda h: h.relu(), 8, 6, 4),
    "Square.apply(h)": (Square.apply, 8, 8, 2),
}


@pytest.mark.parametrize("link", LINKS)
def test_an_op_makes_no_more_python_calls_than_it_did(link: str, no_gc: None) -> None:
    """Counted on chains of 20 and 10 links, so that what surrounds them cancels out."""
    op, recorded, unrecorded, backward = LINKS[link]

    def chain(links: int, roots: list[Any]) -> Callable[[], None]:
        def run() -> None:
            h = lm.tensor([[0.5, 0.6], [0.7, 0.8]], requires_grad=True)
            for _ in range(links):
                h = op(h)
            roots.append(h)

        return run

    def each(measure: Callable[[int], int]) -> float:
        measure(10)  # whatever is made once is made
        return (measure(20) - measure(10)) / 10

    def of_backward(links: int) -> int:
        roots: list[Any] = []
        chain(links, roots)()
        return python_calls(lambda: roots[0].backward(lm.ones(2, 2)))

    assert each(lambda links: python_calls(chain(links, []))) == recorded
    assert each(of_backward) == backward
    with lm.no_grad():
        assert each(lambda links: python_calls(chain(links, []))) == unrecorded


def test_a_training_step_allocates_what_its_values_and_gradients_take(no_gc: None) -> None:
    """To the byte: after forward the outputs of the two ReLU layers, the logits and the loss, after
    backward the gradients and the loss. x and the parameters are there before.
    """
    widths, rows = (64, 48, 32, 10), 128
    rng = np.random.default_rng(0)
    pairs = list(pairwise(widths))
    weights = [lm.tensor(rng.normal(size=pair) / 8, requires_grad=True) for pair in pairs]
    biases = [lm.zeros(n).requires_grad_() for n in widths[1:]]
    x = lm.tensor(rng.normal(size=(rows, widths[0])))
    target = lm.tensor(rng.integers(0, 10, rows))

    def numpy_bytes() -> int:
        only = tracemalloc.DomainFilter(inclusive=True, domain=NUMPY_DOMAIN)
        return sum(t.size for t in tracemalloc.take_snapshot().filter_traces([only]).traces)

    def forward() -> Any:
        h = x
        for index, (weight, b) in enumerate(zip(weights, biases, strict=True)):
            h = h @ weight + b
            if index < 2:
                h = h.relu()
        return lm.cross_entropy(h, target)

    tracemalloc.start()
    try:
        before = numpy_bytes()
        loss = forward()
        after_forward = numpy_bytes() - before
        loss.backward()
        after_backward = numpy_bytes() - before
    finally:
        tracemalloc.stop()

    saved = 8 * rows * (48 + 32 + 10)
    gradients = sum(p.nbytes for p in weights + biases)
    assert after_forward == saved + loss.nbytes
    assert after_backward == gradients + loss.nbytes


def visits(root: Any) -> list[str]:
    """The nodes that a backward from `root` runs, in its order."""
    with lm.lifetime.trace() as t:
        root.backward()
    return [event.node for event in t.events if event.kind == "run"]


def test_a_tensor_used_10_000_times_is_visited_once() -> None:
    x = lm.tensor([1.0], requires_grad=True)
    y = x * 1.0
    ran = visits(lm.stack([y + 0.0 for _ in range(10_000)]).sum())
    assert ran[-1] == y.grad_fn.label
    assert len(ran) == len(set(ran))
    assert g(x) == [10_000.0]


def test_a_ladder_of_30_diamonds_is_visited_rung_by_rung() -> None:
    h = x = lm.tensor([1.0], requires_grad=True)
    for _ in range(30):
        h = h + h
    assert len(visits(h)) == 30
    assert g(x) == [2.0**30]


def test_a_million_nodes_run_and_die_and_leave_nothing_for_the_collector(no_gc: None) -> None:
    def living_nodes() -> int:
        return sum(type(o) is Node for o in gc.get_objects())

    x = lm.tensor([1.0], requires_grad=True)
    one = lm.tensor([0.0])
    before = living_nodes(), len(gc.get_objects())
    h = x
    for _ in range(1_000_000):
        h = h + one
    assert living_nodes() == before[0] + 1_000_000
    h.backward()
    assert g(x) == [1.0]
    x.grad = None
    del h
    assert living_nodes() == before[0]
    assert len(gc.get_objects()) - before[1] < 10
    assert gc.collect() < 100  # frames and the like; nothing of the million
