"""The tour: a network learns handwritten digits, and one training step is seen from inside.

What it prints is the same on every run, times aside. Read it as an example: it uses the public
names only, and the layer that leaks leaks for real.
"""

import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lucid_mini as lm

from .data import load_digits, split
from .draw.figure import Figure, PictureError
from .draw.style import format_bytes as nbytes

EPOCHS = 30
BATCH = 32
HIDDEN = 64
RATE = 0.1
MOMENTUM = 0.9


class Network:
    """64 pixels, one hidden layer, 10 classes."""

    def __init__(self, activation: Callable[[Any], Any]) -> None:
        lm.manual_seed(0)
        self.activation = activation
        self.W0 = (lm.randn(64, HIDDEN) * (2 / 64) ** 0.5).requires_grad_()
        self.b0 = lm.zeros(HIDDEN, requires_grad=True)
        self.W1 = (lm.randn(HIDDEN, 10) * (2 / HIDDEN) ** 0.5).requires_grad_()
        self.b1 = lm.zeros(10, requires_grad=True)

    def __call__(self, x: lm.Tensor) -> Any:
        """Class scores, shape (n, 10), for pixels of shape (n, 64)."""
        h = self.activation(x @ self.W0 + self.b0)
        return h @ self.W1 + self.b1

    def parameters(self) -> dict[str, lm.Tensor]:
        """Everything that is trained, by name."""
        return {"W0": self.W0, "b0": self.b0, "W1": self.W1, "b1": self.b1}


class CapturingRelu:
    """The same activation, written the way that leaks.

    Its backward reads `z` from the enclosing call, and the layer keeps the function it made.
    Nothing that backward releases, no deleted variable and no collection frees `z` while the layer
    lives.
    """

    def __call__(self, z: Any) -> Any:
        """relu(z), through a Function that is made for this call and kept."""

        def forward(ctx: Any, x: Any) -> Any:
            return lm.relu(x)

        def backward(ctx: Any, grad: Any) -> Any:
            return grad * (z > 0)

        self.function = lm.autograd.autograd_function(forward, backward, "CapturingRelu")
        return self.function(z)


def run(folder: Path) -> None:
    """Train, trace, draw, diagnose: the whole tour, its pictures in `folder`."""
    started = time.perf_counter()
    pixels, labels = load_digits()
    train, test = split(len(pixels))

    _title("1  A network learns")
    print(
        f"{len(train)} handwritten digits to learn from, {len(test)} to be tested on, 8 x 8 pixels "
        "each."
    )
    network = Network(lm.relu)
    parameters = network.parameters()
    momentum = {name: np.zeros(p.shape) for name, p in parameters.items()}
    for epoch in _progress(range(EPOCHS), "training"):
        order = train[np.argsort(np.random.PCG64(epoch).random_raw(len(train)), kind="stable")]
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            loss = lm.cross_entropy(network(lm.tensor(pixels[rows])), labels[rows])
            loss.backward()
            _update(parameters, momentum)
    right = _count_right(network, pixels[test], labels[test])
    print(f"{right} of {len(test)} test digits read right ({right / len(test):.1%}).")

    lm.reset_names()
    batch = train[:BATCH]

    _title("2  What one step remembers")
    loss = _step(network, pixels[batch], labels[batch])
    saved = lm.lifetime.saved(loss)
    print(f"After forward, before backward: {nbytes(saved.nbytes)} saved in {len(saved)} slots.")
    graph = lm.draw.graph(loss, names=parameters)
    print(graph)
    _save(graph, folder, "graph")
    stepper = lm.draw.stepper(loss, names=parameters)
    print(f"→ {stepper.save(folder / 'stepper.html')} (backward node by node, for a browser)")
    del loss, stepper

    _title("3  From birth to death")
    lm.reset_names()
    with lm.lifetime.trace() as trace:
        _step(network, pixels[batch], labels[batch]).backward()
    trace.title = "One training step"
    trace.survivors()
    _clear(parameters)
    timeline = lm.draw.timeline(trace)
    print(timeline)
    _save(timeline, folder, "timeline")

    _title("4  The same step with a closure that captures")
    network.activation = CapturingRelu()
    lm.reset_names()
    with warnings.catch_warnings(record=True) as warned, lm.lifetime.trace() as leaking:
        warnings.simplefilter("always", lm.errors.LeakWarning)
        _step(network, pixels[batch], labels[batch]).backward()
    leaking.title = "The same step, with an activation that captures"
    held = [buffer for buffer in leaking.survivors() if buffer.verdict == "outside"]
    _clear(parameters)
    timeline = lm.draw.timeline(leaking)
    print(timeline)
    _save(timeline, folder, "leak")
    print()
    print(
        f"Never freed: {len(held)} buffer{'s' if len(held) != 1 else ''}, "
        f"{nbytes(sum(b.nbytes for b in held))}."
    )
    for buffer in held:
        chain = lm.draw.holders(buffer)
        print(chain)
        _save(chain, folder, "holders")
    print("Said already while it ran, as a warning:")
    for warning in warned:
        print(textwrap.fill(str(warning.message), 96, initial_indent="  ", subsequent_indent="  "))

    _title("Where to go next")
    print(f"The pictures are in {folder}: graph, stepper, timeline, leak, holders.")
    print(
        "This tour is 150 lines to read: lucid_mini/tour.py. How one call runs: README.md, Reading "
        "one call."
    )
    print(f"(The tour took {time.perf_counter() - started:.0f} s.)")


def _step(network: Network, pixels: Any, labels: Any) -> Any:
    """The loss of one batch. `x` is made here, so that the trace sees it born."""
    x = lm.tensor(pixels)
    target = lm.tensor(labels)
    return lm.cross_entropy(network(x), target)


def _update(parameters: dict[str, Any], momentum: dict[str, Any]) -> None:
    with lm.no_grad():
        for name, p in parameters.items():
            momentum[name] = MOMENTUM * momentum[name] + p.grad.numpy()
            p.sub_(RATE * momentum[name])
            p.grad = None


def _clear(parameters: dict[str, lm.Tensor]) -> None:
    for p in parameters.values():
        p.grad = None


def _count_right(network: Network, pixels: Any, labels: Any) -> int:
    with lm.no_grad():
        scores = network(lm.tensor(pixels))
    return int((scores.argmax(1).numpy() == labels).sum())


# -- on the terminal
# --------------------------------------------------------------------------------


def _title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def _progress(steps: Iterable[int], what: str) -> Iterator[int]:
    """A progress bar on a terminal; nothing where the output is kept."""
    if not sys.stderr.isatty():
        yield from steps
        return
    total = list(steps)
    for done, step in enumerate(total, 1):
        yield step
        filled = done * 30 // len(total)
        end = "\n" if done == len(total) else ""
        print(
            f"\r{what} [{'#' * filled}{'.' * (30 - filled)}] {done}/{len(total)}",
            end=end,
            file=sys.stderr,
            flush=True,
        )


def _save(figure: Figure, folder: Path, name: str) -> None:
    """Write the picture and its text, or the text and one line on what is missing."""
    try:
        figure.save(folder / f"{name}.txt")
        print(f"→ {figure.save(folder / f'{name}.svg')}")
    except PictureError as error:
        print(f"→ {folder / f'{name}.txt'} (no picture: {error})")
