"""A layer of a network of today: small reductions, broadcasting there and back.

`tanh((x - mean) / sqrt(variance + 1e-5) * gain + shift)`, written out in small ops.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..frameworks import Array, Framework, Program
from ..goals import Goal
from ..measure import Row, compare, start

TITLE = "layer norm and tanh of 64 × 256, four times, ratio to the floor"
SHOWS = "ratio"
CASE = "forward + backward"
GOALS = {CASE: Goal(2.2)}


def layers(depth: int, rows: int, width: int) -> Program:
    """`depth` layers with one gain and one shift; their gradients and that of the input."""
    draw = np.random.default_rng(0)
    parameters = (
        draw.normal(size=(rows, width)),
        draw.normal(1.0, 0.1, width),
        draw.normal(0.0, 0.1, width),
    )

    def write(framework: Framework) -> Callable[..., Any]:
        mean, sqrt, tanh = framework.mean, framework.sqrt, framework.tanh

        def loss(x: Any, gain: Any, shift: Any) -> Any:
            for _ in range(depth):
                centred = x - mean(x)
                scale = sqrt(mean(centred * centred) + 1e-5)
                x = tanh(centred / scale * gain + shift)
            return framework.sum(x * x)

        return loss

    def forward(x: Array, gain: Array, shift: Array) -> Any:
        saved = []
        for _ in range(depth):
            centred = x - x.mean(axis=-1, keepdims=True)
            scale = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
            normal = np.divide(centred, scale, out=centred)
            y = normal * gain
            y += shift
            x = np.tanh(y, out=y)
            saved.append((normal, scale, x))
        return (x * x).sum(), gain, saved

    def backward(recorded: Any) -> list[Array]:
        _, gain, saved = recorded
        grad = saved[-1][2] * 2.0
        grad_gain, grad_shift = np.zeros(width), np.zeros(width)
        for normal, scale, y in reversed(saved):
            slope = y * y
            np.subtract(1.0, slope, out=slope)
            grad = np.multiply(grad, slope, out=slope)
            grad_shift += grad.sum(axis=0)
            grad_gain += (grad * normal).sum(axis=0)
            grad *= gain
            along = (grad * normal).mean(axis=-1, keepdims=True)
            grad -= grad.mean(axis=-1, keepdims=True)
            # What the normal itself gives; 1e-5 keeps its mean square a little below one.
            grad -= normal * along
            grad /= scale
        return [grad, grad_gain, grad_shift]

    return Program(parameters, write, forward, backward)


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Forward and backward."""
    runs = start(layers(2, 3, 4) if tiny else layers(4, 64, 256), frameworks)
    return compare(CASE, {name: run.step for name, run in runs.items()}, reps)
