"""A chain of tanh: the built-in one, and one that a user wrote."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..frameworks import Array, Framework, Program
from ..goals import Goal
from ..measure import Row, compare, start

TITLE = "1 000 × tanh on arrays of one element, ratio to the floor"
SHOWS = "ratio"

#: What the table calls it -> the word of the adapters.
CASES = {
    "built-in": "tanh",
    "own Function, arrays in backward": "own_tanh",
    "own Function, as written by default": "own_tanh_plain",
}
GOALS = {
    "built-in": Goal(3.4),
    "own Function, arrays in backward": Goal(3.9, {"PyTorch": 1 / 3}),
    "own Function, as written by default": Goal(6.5),
}


def tanh_chain(links: int, word: str) -> Program:
    """`a = tanh(a)`, `links` times, by the adapters' `word`."""

    def write(framework: Framework) -> Callable[..., Any]:
        tanh = getattr(framework, word)

        def chain(a: Any) -> Any:
            for _ in range(links):
                a = tanh(a)
            return a

        return chain

    def forward(a: Array) -> list[Array]:
        saved = []
        for _ in range(links):
            a = np.tanh(a)
            saved.append(a)
        return saved

    def backward(recorded: list[Array]) -> list[Array]:
        grad = np.ones(1)
        for y in reversed(recorded):
            grad = grad * (1.0 - y * y)
        return [grad]

    return Program((np.array([0.5]),), write, forward, backward)


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Forward and backward, three ways."""
    made = []
    for case, word in CASES.items():
        runs = start(tanh_chain(3 if tiny else 1_000, word), frameworks)
        made += compare(case, {name: run.step for name, run in runs.items()}, reps)
    return made
