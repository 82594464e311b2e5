"""One tensor with very many consumers, and one op with very many inputs.

A backward that makes an array of zeros per slice, sorts its nodes over and over, or looks through
all the inputs for each of them shows here. HIPS autograd does the last: joining 10 000 leaves takes
it minutes, and it is left out there.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..frameworks import Array, Framework, Program
from ..goals import Goal
from ..measure import Row, compare, start

TITLE = "many consumers, many inputs, ratio to the floor"
SHOWS = "ratio"
USES = "one tensor used 10 000 times"
CAT = "cat of 10 000 leaves"
STACK = "stack of 10 000 leaves"
SLICES = "2 000 slices x[i:i+1] of one vector"
ROWS = "4 096 rows of an embedding of 2 000 × 32"
GOALS = {USES: Goal(5.6), CAT: Goal(3.0), STACK: Goal(3.0), SLICES: Goal(4.0), ROWS: Goal(1.2)}


def uses(number: int) -> Program:
    """`a = a + x`, `number` times, from x itself."""

    def write(framework: Framework) -> Callable[..., Any]:
        def add(x: Any) -> Any:
            a = x
            for _ in range(number):
                a = a + x
            return a

        return add

    def forward(x: Array) -> Array:
        a = x
        for _ in range(number):
            a = a + x
        return a

    def backward(recorded: Array) -> list[Array]:
        grad = total = np.ones(1)
        for _ in range(number):
            total = total + grad
        return [total]

    return Program((np.array([0.5]),), write, forward, backward)


def joined(number: int, word: str) -> Program:
    """`number` leaves of two elements, joined by `word`, times a constant, summed."""
    draw = np.random.default_rng(0)
    shape = (2 * number,) if word == "cat" else (number, 2)
    weights = draw.normal(size=shape)
    join = np.concatenate if word == "cat" else np.stack

    def write(framework: Framework) -> Callable[..., Any]:
        w, together = framework.constant(weights), getattr(framework, word)

        def total(*pieces: Any) -> Any:
            return framework.sum(together(list(pieces)) * w)

        return total

    def forward(*pieces: Array) -> Any:
        return (join(pieces) * weights).sum()

    def backward(recorded: Any) -> list[Array]:
        grad = weights * 1.0
        if word == "cat":
            return [grad[start : start + 2] for start in range(0, 2 * number, 2)]
        return list(grad)

    return Program(tuple(draw.normal(size=(number, 2))), write, forward, backward)


def slices(number: int) -> Program:
    """`a = a + x[i:i+1]` for all elements of x."""

    def write(framework: Framework) -> Callable[..., Any]:
        def add(x: Any) -> Any:
            a = x[0:1]
            for i in range(1, number):
                a = a + x[i : i + 1]
            return a

        return add

    def forward(x: Array) -> Array:
        a = x[0:1]
        for i in range(1, number):
            a = a + x[i : i + 1]
        return a

    def backward(recorded: Array) -> list[Array]:
        grad, whole = np.ones(1), np.zeros(number)
        for i in range(number - 1, -1, -1):
            whole[i : i + 1] += grad
        return [whole]

    return Program((np.linspace(0.1, 0.9, number),), write, forward, backward)


def embedding(words: int, width: int, batch: int) -> Program:
    """Rows of a table by number, some of them many times; times a constant, summed."""
    draw = np.random.default_rng(0)
    index = draw.integers(words, size=batch)
    weights = draw.normal(size=(batch, width))

    def write(framework: Framework) -> Callable[..., Any]:
        w = framework.constant(weights)

        def total(table: Any) -> Any:
            return framework.sum(table[index] * w)

        return total

    def forward(table: Array) -> Any:
        return (table[index] * weights).sum()

    def backward(recorded: Any) -> list[Array]:
        grad = np.zeros((words, width))
        np.add.at(grad, index, weights * 1.0)
        return [grad]

    return Program((draw.normal(size=(words, width)),), write, forward, backward)


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Forward and backward."""
    many = 3 if tiny else 10_000
    programs = {
        USES: uses(many),
        CAT: joined(many, "cat"),
        STACK: joined(many, "stack"),
        SLICES: slices(3 if tiny else 2_000),
        ROWS: embedding(5, 2, 9) if tiny else embedding(2_000, 32, 4_096),
    }
    made = []
    for case, program in programs.items():
        runs = start(program, frameworks)
        made += compare(case, {name: run.step for name, run in runs.items()}, reps)
    return made
