"""Two ways from each rung to the next: 2³⁰ paths, 90 nodes.

Whoever visits nodes once per path never comes to the end.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..frameworks import Array, Framework, Program
from ..goals import Goal
from ..measure import Row, compare, start

TITLE = "a ladder of 30 rungs, a = a*y + a*z, on arrays of one element, ratio to the floor"
SHOWS = "ratio"
CASE = "forward + backward"
GOALS = {CASE: Goal(5.0)}


def ladder(rungs: int) -> Program:
    """`a = a*y + a*z`, `rungs` times, where y and z are constants; the gradient of the first a."""
    left, right = np.array([0.7]), np.array([0.4])

    def write(framework: Framework) -> Callable[..., Any]:
        y, z = framework.constant(left), framework.constant(right)

        def climb(a: Any) -> Any:
            for _ in range(rungs):
                a = a * y + a * z
            return a

        return climb

    def forward(a: Array) -> Array:
        for _ in range(rungs):
            a = a * left + a * right
        return a

    def backward(recorded: Array) -> list[Array]:
        grad = np.ones(1)
        for _ in range(rungs):
            grad = grad * left + grad * right
        return [grad]

    return Program((np.array([0.5]),), write, forward, backward)


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Forward and backward."""
    runs = start(ladder(3 if tiny else 30), frameworks)
    return compare(CASE, {name: run.step for name, run in runs.items()}, reps)
