"""Longer and longer chains: does an op cost more in a graph that is larger?

Forward, backward and the dropping of the graph are timed apart, with the collector on. What was
loaded before is hidden from it: PyTorch alone brings 200 000 objects, and each full collection
would look at them at the expense of whoever makes objects in Python. With the collector off, a
graph that is dropped must be gone: what is left over lies in reference cycles.
"""

import gc
from time import process_time_ns
from typing import Any

import numpy as np

from ..frameworks import Framework, Run
from ..measure import Row, rows, start
from .chain import multiply_add

TITLE = "chains of 1 000 to 300 000 nodes (x*y+z on arrays of one element)"
SHOWS = "value"

NODES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
TINY = (10, 20)
PHASES = ("forward", "backward", "drop")


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Nanoseconds a node for each length and phase, the fitted exponents, and what is left over."""
    gc.collect()
    gc.freeze()
    try:
        return _run(frameworks, reps, tiny)
    finally:
        gc.unfreeze()


def _run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    lengths = TINY if tiny else NODES
    reps = min(reps, 5)  # the longest chains last seconds
    took: dict[tuple[str, int], dict[str, list[float]]] = {}
    left: dict[str, list[float]] = {}
    for nodes in lengths:
        runs = start(multiply_add(nodes // 2), frameworks)
        names = list(runs)
        for turn in range(reps):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                for phase, ns in zip(PHASES, _timed(runs[name]), strict=True):
                    took.setdefault((phase, nodes), {n: [] for n in names})[name].append(ns / nodes)
        if nodes == lengths[-1]:
            left = {name: [float(left_over(run))] for name, run in runs.items()}
    made = []
    for phase in PHASES:
        for nodes in lengths:
            length = f"{nodes:,}".replace(",", " ")
            made += rows(f"{phase}, {length} nodes", "ns/node", took[phase, nodes])
        exponents = {
            name: [
                exponent(lengths, [took[phase, nodes][name][turn] * nodes for nodes in lengths])
                for turn in range(reps)
            ]
            for name in took[phase, lengths[0]]
        }
        made += rows(f"{phase}, exponent", "", exponents)
    # A ratio of counts would say nothing.
    return made + rows("objects left over, collector off", "", left)


def _timed(run: Run) -> tuple[int, int, int]:
    gc.collect()
    begin = process_time_ns()
    recorded = run.forward()
    forward = process_time_ns()
    gradients = run.backward(recorded)
    backward = process_time_ns()
    del recorded
    dropped = process_time_ns()
    del gradients
    return forward - begin, backward - forward, dropped - backward


def exponent(lengths: tuple[int, ...], times: list[float]) -> float:
    """The k of the best fit `time ∝ nodes ** k`."""
    slope, _ = np.polyfit(np.log(lengths), np.log(times), 1)
    return float(slope)


def left_over(run: Run) -> int:
    """How many objects the collector would have to free after a step whose graph was dropped."""
    run.step()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        step: Any = run.step()
        del step
        return len(gc.get_objects()) - before
    finally:
        gc.enable()
        gc.collect()
