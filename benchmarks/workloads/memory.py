"""Bytes of arrays held by a graph: 50 layers of 1 MiB, `h = tanh(h * 0.9)`.

What a backward needs is the 50 outputs of tanh: the product needs nothing. While it runs it needs
those that are left, the gradient that came and the one that goes.

NumPy tells tracemalloc about its arrays under a domain of its own; PyTorch's are taken from the
memory events of its profiler.
"""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from ..frameworks import Array, Framework, Program, Run
from ..goals import Goal
from ..measure import Row, rows, start

TITLE = "50 layers of 1 MiB: MiB of arrays that the graph keeps alive"
SHOWS = "value"

#: The domain under which NumPy reports the memory of arrays.
NUMPY_DOMAIN = 389047
MIB = 2**20
CASES = (
    "held after forward",
    "peak in backward",
    "alive after backward, loss alive",
    "alive after the loss is dropped",
)
GOALS = {
    "held after forward": Goal(1.0),
    "peak in backward": Goal(1.0),
    "alive after backward, loss alive": Goal(0.0, of="median"),
    "alive after the loss is dropped": Goal(0.0, of="median"),
}


def layers(depth: int, elements: int) -> Program:
    """`depth` times `h = tanh(h * 0.9)`, then the sum."""

    def write(framework: Framework) -> Callable[..., Any]:
        tanh, total = framework.tanh, framework.sum

        def loss(h: Any) -> Any:
            for _ in range(depth):
                h = tanh(h * 0.9)
            return total(h)

        return loss

    def forward(h: Array) -> list[Array]:
        saved = []
        for _ in range(depth):
            h = np.tanh(h * 0.9)
            saved.append(h)
        h.sum()
        return saved

    def backward(recorded: list[Array]) -> list[Array]:
        grad = np.ones(elements)
        while recorded:
            y = recorded.pop()
            slope = y * y
            np.subtract(1.0, slope, out=slope)
            slope *= grad
            slope *= 0.9
            grad = slope
        return [grad]

    start = np.linspace(-2.0, 2.0, elements)
    return Program((start,), write, forward, backward)


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Bytes do not vary: each framework runs once, whatever `reps` says."""
    program = layers(3, 1_024) if tiny else layers(50, MIB // 8)
    runs = start(program, frameworks)
    measured = {
        name: (_in_torch if name == "PyTorch" else _in_numpy)(run) for name, run in runs.items()
    }
    made = []
    for index, case in enumerate(CASES):
        made += rows(
            case, "MiB", {name: [values[index] / MIB] for name, values in measured.items()}
        )
    return made


def _arrays() -> int:
    """Bytes of NumPy's arrays that tracemalloc has seen and that are alive."""
    only = tracemalloc.DomainFilter(inclusive=True, domain=NUMPY_DOMAIN)
    traces = tracemalloc.take_snapshot().filter_traces([only]).traces
    return sum(trace.size for trace in traces)


def _in_numpy(run: Run) -> list[float]:
    """Held, peak, alive with the loss, alive without."""
    run.step()  # what is made once and kept is no part of the graph
    gc.collect()
    gc.disable()  # what only the collector would free counts
    tracemalloc.start()
    try:
        recorded = run.forward()
        held = _arrays()
        # The peak is known for everything traced; the Python objects of the graph are taken off.
        objects = tracemalloc.get_traced_memory()[0] - held
        tracemalloc.reset_peak()
        gradients = run.backward(recorded)
        peak = tracemalloc.get_traced_memory()[1] - objects
        del gradients
        with_loss = _arrays()
        del recorded
        return [float(held), float(peak), float(with_loss), float(_arrays())]
    finally:
        tracemalloc.stop()
        gc.enable()
        gc.collect()


def _in_torch(run: Run) -> list[float]:
    """The same, from the profiler: every allocation and release, in the order of time."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    run.step()
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        recorded = run.forward()
        with record_function("mark: forward done"):
            pass
        gradients = run.backward(recorded)
        with record_function("mark: backward done"):
            pass
        del gradients
        with record_function("mark: gradients dropped"):
            pass
        del recorded
        with record_function("mark: loss dropped"):
            pass
    assert torch.is_grad_enabled()
    events = sorted(
        profiled.profiler.kineto_results.events(),
        key=lambda event: event.start_ns(),
    )
    alive, peak, at = 0, 0, {}
    for event in events:
        if event.name() == "[memory]":
            alive += event.nbytes()
            peak = max(peak, alive)
        elif event.name().startswith("mark: "):
            at[event.name()[6:]] = alive
            if event.name() == "mark: forward done":
                peak = alive
            elif event.name() == "mark: backward done":
                at["peak"] = peak
    return [
        float(at[mark]) for mark in ("forward done", "peak", "gradients dropped", "loss dropped")
    ]
