"""Forward and backward of a small network: matrix products rule one size, overhead rules the other.

The update of the parameters is the same NumPy work for everybody and is left out.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ..frameworks import Array, Framework, Program
from ..goals import PEERS, Goal
from ..measure import Row, compare, start

TITLE = "forward and backward of a ReLU network with cross entropy, ratio to the floor"
SHOWS = "ratio"

#: Rows in the batch, and the widths of the layers.
SIZES = {
    "64 × (784-256-128-10)": (64, (784, 256, 128, 10)),
    "8 × (16-32-32-10)": (8, (16, 32, 32, 10)),
}
GOALS = {
    "64 × (784-256-128-10)": Goal(1.12, {PEERS: 1}),
    "8 × (16-32-32-10)": Goal(2.4, {"PyTorch": 0.5}),
}
TINY = {"2 × (3-4-4-2)": (2, (3, 4, 4, 2))}


def examples(batch: int, widths: tuple[int, ...]) -> tuple[Array, Array]:
    """The inputs and their labels."""
    draw = np.random.default_rng(2)
    return draw.normal(size=(batch, widths[0])), draw.integers(widths[-1], size=batch)


def network(batch: int, widths: tuple[int, ...]) -> Program:
    """Gradients of the weights and biases, `w1, b1, w2, b2 …`."""
    draw = np.random.default_rng(0)
    parameters: list[Array] = []
    for inside, outside in pairwise(widths):
        parameters.append(draw.normal(0.0, np.sqrt(2 / inside), (inside, outside)))
        parameters.append(draw.normal(0.0, 0.1, outside))
    pixels, labels = examples(batch, widths)
    each = np.arange(batch)

    def write(framework: Framework) -> Callable[..., Any]:
        x, truth = framework.constant(pixels), framework.constant(labels)
        relu, matmul, cross_entropy = framework.relu, framework.matmul, framework.cross_entropy

        def loss(*parameters: Any) -> Any:
            h = x
            for index in range(0, len(parameters) - 2, 2):
                h = relu(matmul(h, parameters[index]) + parameters[index + 1])
            return cross_entropy(matmul(h, parameters[-2]) + parameters[-1], truth)

        return loss

    def forward(*parameters: Array) -> Any:
        inputs = [pixels]
        for index in range(0, len(parameters) - 2, 2):
            h = inputs[-1] @ parameters[index]
            h += parameters[index + 1]
            inputs.append(np.maximum(h, 0.0, out=h))
        z = inputs[-1] @ parameters[-2]
        z += parameters[-1]
        z -= z.max(axis=1, keepdims=True)
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True))
        loss = -z[each, labels].mean()
        return loss, parameters, inputs, z

    def backward(recorded: Any) -> list[Array]:
        _, parameters, inputs, z = recorded
        grad = np.exp(z)
        grad[each, labels] -= 1.0
        grad /= batch
        grads: list[Array] = []
        for index in range(len(parameters) - 2, -1, -2):
            h = inputs[index // 2]
            grads[:0] = [h.T @ grad, grad.sum(axis=0)]
            if index:
                grad = grad @ parameters[index].T
                grad *= h > 0
        return grads

    return Program(tuple(parameters), write, forward, backward)


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """One case a size."""
    made = []
    for case, (batch, widths) in (TINY if tiny else SIZES).items():
        runs = start(network(batch, widths), frameworks)
        made += compare(case, {name: run.step for name, run in runs.items()}, reps)
    return made
