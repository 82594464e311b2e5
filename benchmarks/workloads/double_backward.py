"""The product of the Hessian of a network's loss and a vector, by a backward through a backward.

By hand it is one pass forward and one back that carry a value and its derivative along the vector.
The gradient itself, which everybody has on the way, is part of it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..frameworks import Array, Framework, Program
from ..goals import Goal
from ..measure import Row, compare, start
from . import mlp

TITLE = "Hessian-vector product of a ReLU network with cross entropy, ratio to the floor"
SHOWS = "ratio"
GOALS = {"64 × (784-256-128-10)": Goal(1.7)}


def product(batch: int, widths: tuple[int, ...]) -> Program:
    """The gradient of `gradient · vector`: one row of numbers a parameter."""
    network = mlp.network(batch, widths)
    pixels, labels = mlp.examples(batch, widths)
    each = np.arange(batch)
    draw = np.random.default_rng(1)
    vectors = [draw.normal(size=parameter.shape) for parameter in network.parameters]

    def write(framework: Framework) -> Callable[..., Any]:
        loss = network.write(framework)
        along = [framework.constant(vector) for vector in vectors]

        def slope(*parameters: Any) -> Any:
            gradients = framework.gradients(loss, parameters)
            terms = [framework.sum(g * v) for g, v in zip(gradients, along, strict=True)]
            total = terms[0]
            for term in terms[1:]:
                total = total + term
            return total

        return slope

    def forward(*parameters: Array) -> Any:
        h, moved, layers = pixels, None, []
        for w, v, b, u in _by_layer(parameters, vectors):
            z = h @ w + b
            moving = h @ v + u
            if moved is not None:
                moving += moved @ w
            layers.append((h, moved, w, v, z > 0))
            h, moved = np.maximum(z, 0.0), moving * (z > 0)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return layers, p, moving

    def backward(recorded: Any) -> list[Array]:
        layers, p, moving = recorded
        change = p * moving
        change -= p * change.sum(axis=1, keepdims=True)
        change /= batch
        grad = p
        grad[each, labels] -= 1.0
        grad /= batch
        gradient: list[Array] = []
        products: list[Array] = []
        for number in range(len(layers) - 1, -1, -1):
            h, moved, w, v, _ = layers[number]
            gradient[:0] = [h.T @ grad, grad.sum(axis=0)]
            row = h.T @ change
            if moved is not None:
                row += moved.T @ grad
                change_below = change @ w.T + grad @ v.T
            products[:0] = [row, change.sum(axis=0)]
            if number:
                alive = layers[number - 1][4]
                grad, change = grad @ w.T * alive, change_below * alive
        return products

    return Program(network.parameters, write, forward, backward)


def _by_layer(parameters: Any, vectors: Any) -> Any:
    for index in range(0, len(parameters), 2):
        yield parameters[index], vectors[index], parameters[index + 1], vectors[index + 1]


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """The larger of the networks of `mlp`."""
    sizes = mlp.TINY if tiny else {case: mlp.SIZES[case] for case in GOALS}
    made = []
    for case, (batch, widths) in sizes.items():
        runs = start(product(batch, widths), frameworks)
        made += compare(case, {name: run.step for name, run in runs.items()}, reps)
    return made
