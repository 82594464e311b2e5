"""Many small ops in a row: nothing but overhead."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..frameworks import Array, Framework, Program
from ..goals import Goal
from ..measure import Row, compare, start

TITLE = "1 000 × x*y+z on arrays of one element, ratio to the floor"
SHOWS = "ratio"
BOTH, FORWARD, CONSTANT = "forward + backward", "forward only, recording", "with a constant"
GOALS = {BOTH: Goal(6.0, {"PyTorch": 1}), FORWARD: Goal(8.0), CONSTANT: Goal(6.0)}


def multiply_add(links: int) -> Program:
    """`a = a*y + z`, `links` times; gradients of the first a, y and z."""

    def write(framework: Framework) -> Callable[..., Any]:
        def chain(a: Any, y: Any, z: Any) -> Any:
            for _ in range(links):
                a = a * y + z
            return a

        return chain

    def forward(a: Array, y: Array, z: Array) -> tuple[list[Array], Array]:
        saved = []
        for _ in range(links):
            saved.append(a)
            a = a * y + z
        return saved, y

    def backward(recorded: tuple[list[Array], Array]) -> list[Array]:
        saved, y = recorded
        grad = np.ones(1)
        grad_z, grad_y, grad = grad, grad * saved[-1], grad * y
        for a in saved[-2::-1]:
            grad_z = grad_z + grad
            grad_y = grad_y + grad * a
            grad = grad * y
        return [grad, grad_y, grad_z]

    parameters = np.array([1.0]), np.array([0.999]), np.array([0.001])
    return Program(parameters, write, forward, backward)


def with_constant(links: int, factor: float = 0.999) -> Program:
    """`a = a*0.999 + z`, where 0.999 is a Python number."""

    def write(framework: Framework) -> Callable[..., Any]:
        def chain(a: Any, z: Any) -> Any:
            for _ in range(links):
                a = a * factor + z
            return a

        return chain

    def forward(a: Array, z: Array) -> None:
        for _ in range(links):
            a = a * factor + z

    def backward(recorded: None) -> list[Array]:
        grad = np.ones(1)
        grad_z, grad = grad, grad * factor
        for _ in range(links - 1):
            grad_z = grad_z + grad
            grad = grad * factor
        return [grad, grad_z]

    return Program((np.array([1.0]), np.array([0.001])), write, forward, backward)


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Forward and backward; forward alone; and both with a constant."""
    links = 3 if tiny else 1_000
    both = start(multiply_add(links), frameworks)
    constant = start(with_constant(links), frameworks)
    return [
        *compare(BOTH, {name: run.step for name, run in both.items()}, reps),
        *compare(FORWARD, {name: run.forward for name, run in both.items()}, reps),
        *compare(CONSTANT, {name: run.step for name, run in constant.items()}, reps),
    ]
