"""What watching costs: the trace of lucid_mini, beside PyTorch's profiler and both anomaly modes.

Each figure is the time of a step while watched over that of a step unwatched, turn by turn.
Switching on, switching off and reading what was recorded do not count. "Off, once more" is the same
unwatched step measured against itself: how far the others can be trusted.
"""

import gc
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import process_time_ns
from typing import Any

import lucid_mini as lm

from ..frameworks import Framework, Program
from ..goals import Goal
from ..measure import Row, in_turn, rows, start
from .chain import multiply_add
from .mlp import SIZES, TINY, network

TITLE = "what watching costs, × the same step unwatched"
SHOWS = "value"
MLP, CHAIN = "MLP step", "chain of 1 000 × x*y+z"
OFF, TRACE, PROFILER, ANOMALY = "off, once more", "trace", "profiler with memory", "anomaly mode"
GOALS = {
    f"{MLP}, {OFF}": Goal(1.01, of="median"),
    f"{MLP}, {TRACE}": Goal(1.06, of="median"),
    f"{CHAIN}, {OFF}": Goal(1.01, of="median"),
    f"{CHAIN}, {TRACE}": Goal(2.0, of="median"),
}

Watch = Callable[[], AbstractContextManager[Any]]


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Each way of watching that a framework has, for a step of few large ops and one of many."""
    programs: dict[str, Program] = {
        MLP: network(*next(iter((TINY if tiny else SIZES).values()))),
        CHAIN: multiply_add(3 if tiny else 1_000),
    }
    made = []
    for name, program in programs.items():
        runs = start(program, frameworks)
        values: dict[str, dict[str, list[float]]] = {}
        for framework, ways in _ways(set(runs)).items():
            for way, ratios in _watched(runs[framework].step, ways, reps).items():
                values.setdefault(way, {})[framework] = ratios
        for way in (OFF, TRACE, PROFILER, ANOMALY):
            made += rows(f"{name}, {way}", "×", values.get(way, {}))
    return made


def _ways(present: set[str]) -> dict[str, dict[str, Watch]]:
    ways: dict[str, dict[str, Watch]] = {
        "lucid_mini": {
            OFF: nullcontext,
            TRACE: lm.lifetime.trace,
            ANOMALY: lm.autograd.detect_anomaly,
        }
    }
    if "PyTorch" in present:
        import torch
        from torch.profiler import ProfilerActivity, profile

        ways["PyTorch"] = {
            OFF: nullcontext,
            PROFILER: lambda: profile(activities=[ProfilerActivity.CPU], profile_memory=True),
            ANOMALY: lambda: torch.autograd.detect_anomaly(check_nan=True),
        }
    return ways


def _watched(step: Callable[[], Any], ways: dict[str, Watch], reps: int) -> dict[str, list[float]]:
    """Way -> its ratios to an unwatched step, a turn each."""
    values: dict[str, list[float]] = {name: [] for name in ways}
    everything: dict[str, Watch] = {"": nullcontext, **ways}
    number = max(1, round(2e7 / max(1, _time(step, nullcontext, 3))))
    for turn in range(reps):
        took = {name: _time(step, everything[name], number) for name in in_turn(everything, turn)}
        for name in ways:
            values[name].append(took[name] / took[""])
    return values


def _time(step: Callable[[], Any], watch: Watch, number: int) -> float:
    """Nanoseconds a step. PyTorch warns each time that it is slow now."""
    gc.collect()
    with warnings.catch_warnings(action="ignore"), watch():
        step()
        begin = process_time_ns()
        for _ in range(number):
            step()
        return (process_time_ns() - begin) / number
