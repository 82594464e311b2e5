"""Longer and longer chains: does an op cost more in a graph that is larger?

Forward, backward and the dropping of the graph are timed apart, with the collector on. With the
collector off, a graph that is dropped must be gone: what is left over lies in reference cycles.
Dropping takes MyGrad no time because its backward takes the graph apart, and micrograd none because
it leaves it to the collector. Who follows the graph by recursion ends where Python's stack does.
The million nodes run once, where 300 000 are not a matter of many seconds.
"""

import gc
from collections.abc import Callable
from time import process_time_ns
from typing import Any

import numpy as np

from ..frameworks import Framework, Run
from ..goals import Goal
from ..measure import Row, in_turn, rows, start
from .chain import multiply_add

TITLE = "chains of 1 000 to 1 000 000 nodes (x*y+z on arrays of one element)"
SHOWS = "value"

NODES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
TINY = (10, 20)
MILLION = 1_000_000
PHASES = ("forward", "backward", "drop")
LEFT = "objects left over by 1 000 nodes, collector off"
GOALS = {
    "backward, exponent": Goal(times={"bare stack": 1.02}, of="median"),
    "drop, 300 000 nodes": Goal(300, of="median"),
    LEFT: Goal(0, of="median"),
}
#: Who takes less than ten microseconds a node; the others have one turn where chains are long.
FAST = ("floor", "bare stack", "lucid_mini", "PyTorch")
LONG = 100_000

Times = dict[tuple[str, int], dict[str, list[float]]]


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Nanoseconds a node for each length and phase, the fitted exponents, and what is left over."""
    lengths = TINY if tiny else NODES
    reps = min(reps, 3)  # the longest chains last seconds
    checked = start(multiply_add(lengths[0] // 2), frameworks)
    part = [framework for framework in frameworks if framework.name in checked]
    took: Times = {}
    for nodes in lengths:
        _time(part, nodes, reps, took)
    _time([f for f in part if f.name in FAST], 2 * TINY[-1] if tiny else MILLION, 1, took)
    made = []
    for phase in PHASES:
        for of, nodes in took:
            if of == phase:
                made += length_rows(phase, nodes, took)
        exponents = {
            name: [
                exponent(lengths, [took[phase, nodes][name][turn] * nodes for nodes in lengths])
                for turn in range(len(took[phase, lengths[-1]][name]))
            ]
            for name in checked
            if took[phase, lengths[-1]][name]
        }
        made += rows(f"{phase}, exponent", "", exponents)
    # A ratio of counts would say nothing.
    return made + rows(
        LEFT, "", {name: [float(left_over(run.step))] for name, run in checked.items()}
    )


def length_rows(phase: str, nodes: int, took: Times) -> list[Row]:
    """One length, and a note for whom it is too long."""
    length = f"{nodes:,}".replace(",", " ")
    case, times = f"{phase}, {length} nodes", took[phase, nodes]
    made = rows(case, "ns/node", {name: values for name, values in times.items() if values})
    for name, values in times.items():
        if not values:
            made.append(Row(case, name, "ns/node", note="RecursionError"))
    return made


def _time(frameworks: list[Framework], nodes: int, reps: int, took: Times) -> None:
    """Nanoseconds a node into `took`; an empty list for whom the chain is too long."""
    program = multiply_add(nodes // 2)
    runs = {framework.name: framework.start(program) for framework in frameworks}
    for phase in PHASES:
        took[phase, nodes] = {name: [] for name in runs}
    for turn in range(reps):
        for name in in_turn(runs, turn):
            if turn and nodes >= LONG and name not in FAST:
                continue
            try:
                times = _timed(runs[name])
            except RecursionError:
                continue
            for phase, ns in zip(PHASES, times, strict=True):
                took[phase, nodes][name].append(ns / nodes)


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


def left_over(step: Callable[[], Any]) -> int:
    """How many objects only the collector can free of what a step left and gave."""
    step()
    gc.collect()
    gc.disable()
    try:
        step()
        return gc.collect()
    finally:
        gc.enable()
