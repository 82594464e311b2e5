"""Turns, quartiles, ratios, and the check that everybody computes the same."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import process_time_ns
from typing import Any, NamedTuple

import numpy as np

from .frameworks import Framework, Program, Run, UnsupportedError

#: Microseconds a step from which on a framework has only one turn.
SLOW = 1e6


class Row(NamedTuple):
    """One figure: median and quartiles in `unit`, and those of its ratio to the floor, if any.

    Where there is no figure, `note` says what came instead.
    """

    case: str
    framework: str
    unit: str
    median: float | None = None
    lower: float | None = None
    upper: float | None = None
    ratio: float | None = None
    ratio_lower: float | None = None
    ratio_upper: float | None = None
    note: str | None = None


def figure(value: float) -> str:
    """Three digits that count, and no exponent."""
    if value == int(value):
        return f"{value:.0f}"
    size = abs(value)
    return f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2}f}"


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, lower and upper quartile."""
    lower, median, upper = np.percentile(values, (25, 50, 75))
    return float(median), float(lower), float(upper)


def rows(case: str, unit: str, values: dict[str, list[float]]) -> list[Row]:
    """A row a framework. Ratios are taken turn by turn: a slow second hits both sides.

    Who is slow may have fewer turns than the floor: the first ones.
    """
    floor = values.get("floor")
    made = []
    for name, measured in values.items():
        ratio: tuple[float, float, float] | tuple[None, None, None] = (None, None, None)
        if floor is not None and all(floor):
            ratio = quartiles([a / b for a, b in zip(measured, floor, strict=False)])
        made.append(Row(case, name, unit, *quartiles(measured), *ratio))
    return made


@contextmanager
def unseen_by_the_collector() -> Iterator[None]:
    """Hide what was loaded before from the cyclic collector, which stays on for the rest.

    PyTorch alone brings 200 000 objects: each full collection would look at them, at the expense of
    whoever makes objects in Python.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def start(program: Program, frameworks: list[Framework]) -> dict[str, Run]:
    """`program` in every framework that has the words for it, checked against the floor.

    Raises: AssertionError naming the framework and the parameter, where a gradient differs.
    """
    runs: dict[str, Run] = {}
    expected: list[Any] = []
    for framework in frameworks:
        try:
            run = framework.start(program)
            gradients = [framework.array(g) for g in run.step()]
        except UnsupportedError:
            continue
        if not runs:
            expected = gradients
        assert len(gradients) == len(expected), framework.name
        for index, (got, wanted) in enumerate(zip(gradients, expected, strict=True)):
            np.testing.assert_allclose(
                got,
                wanted,
                rtol=1e-9,
                atol=1e-12,
                err_msg=f"{framework.name}: the gradient of parameter {index} is not the floor's",
            )
        runs[framework.name] = run
    return runs


def in_turn(names: Iterable[str], turn: int) -> list[str]:
    """`names`, beginning with another one each turn."""
    ordered = list(names)
    first = turn % len(ordered)
    return ordered[first:] + ordered[:first]


def compare(case: str, steps: dict[str, Callable[[], Any]], reps: int) -> list[Row]:
    """Time `steps` in turns, `reps` times, each time in another order: microseconds a step.

    A turn lasts about 5 ms or one call. The collector stays on, as it is for users, but what one
    framework left to it is gone before the next one's turn. What is read is the processor time of
    this process, which other programs disturb less than wall time.
    """
    calls = {name: _calls(step) for name, step in steps.items()}
    values: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(reps):
        for name in in_turn(steps, turn):
            if values[name] and values[name][0] > SLOW:
                continue
            step, number = steps[name], calls[name]
            gc.collect()
            begin = process_time_ns()
            for _ in range(number):
                step()
            values[name].append((process_time_ns() - begin) / number / 1e3)
    return rows(case, "µs", values)


def _calls(step: Callable[[], Any]) -> int:
    """How many calls make a turn. The first call warms up."""
    for _ in range(2):
        begin = process_time_ns()
        step()
        took = process_time_ns() - begin
        if took > 1e3 * SLOW:
            return 1
    return max(1, round(5e6 / took))
