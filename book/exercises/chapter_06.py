"""The exercises of chapter 6."""

from collections.abc import Callable
from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import Array, as_array, as_function, as_number, same
from .core import Unsolved, Wrong, exercise

TARGETS = (0.0, 0.5, -0.25)


@exercise("6.1")
def _bytes_retained(answer: Any) -> str | None:
    x = lm.tensor(np.linspace(0.1, 1.0, 1000), requires_grad=True)
    loss = (x.exp() * x).sum()
    loss.backward(retain_graph=True)
    kept = lm.lifetime.saved(loss).nbytes
    given = as_number(answer, "a number of bytes")
    if given == kept:
        return "As many as before."
    if given == kept / 8:
        raise Wrong("That is the number of values; one float64 has more than one byte.")
    if given == kept / 2:
        raise Wrong("That is one of the buffers. What does the rule of `*` read?")
    if given == kept * 1.5:
        raise Wrong("You count one buffer twice: the output of exp goes into `*`.")
    if given == 0:
        raise Wrong("Nothing would be saved after backward() as it is. What does retain say?")
    raise Wrong(
        f"{given:.0f} bytes have room for {given / 8:.0f} of the numbers. Which buffers do exp "
        f"and `*` keep?"
    )


def _inputs() -> tuple[Any, Any]:
    weight = np.linspace(-0.5, 0.6, 16).reshape(4, 4)
    return lm.tensor(weight, requires_grad=True), lm.tensor(np.linspace(-1, 1, 24).reshape(6, 4))


def _gradient(loss_of: Callable[[Any], Any]) -> Array:
    """The gradient of W, for a loss of h."""
    weight, x = _inputs()
    loss_of((x @ weight).tanh()).backward()
    grad: Array = weight.grad.numpy()
    return grad


def _counts(trace: Any) -> tuple[int, int, int]:
    """How often tanh was computed, how often its node ran, how often it released."""
    events = list(trace.events)
    made = sum(e.kind == "alloc" and str(e.buffer).startswith("tanh#") for e in events)
    of_tanh = [e.kind for e in events if str(e.node).startswith("tanh#")]
    return made, of_tanh.count("run"), of_tanh.count("release")


def _compare_trunk(made: int) -> None:
    if made == 0:
        raise Wrong("The gradient is right, but where is `(x @ W).tanh()`?")
    if made > 1:
        raise Wrong(f"The gradient is right, but tanh was computed {made} times.")


@exercise("6.2")
def _repaired_loop(answer: Any) -> str | None:
    repaired = as_function(answer, "repaired")
    weight, x = _inputs()
    with lm.lifetime.trace() as trace:
        result = repaired(weight, x, TARGETS)
    if result is ...:
        raise Unsolved("`repaired` still returns ...")
    want = _gradient(lambda h: sum(((h - t) ** 2).sum() for t in TARGETS))
    if weight.grad is None:
        raise Wrong("`W.grad` is None afterwards: no backward has reached W.")
    got = weight.grad.numpy()
    for target in TARGETS:
        if same(got, _gradient(lambda h, t=target: ((h - t) ** 2).sum())):  # type: ignore[misc]
            raise Wrong(f"`W.grad` has the gradient of one loss alone, that of target {target}.")
    if same(got, want / len(TARGETS)):
        raise Wrong("`W.grad` has the gradient of the mean; the loop adds up.")
    if not same(got, want):
        raise Wrong("`W.grad` is not the sum of the gradients of all losses.")
    made, runs, released = _counts(trace)
    _compare_trunk(made)
    if runs > 1:
        raise Wrong(
            f"The gradient is right, but the shared node ran {runs} times, so its graph was "
            f"retained. The gradient of a sum is the sum of the gradients."
        )
    if not released:
        raise Wrong("The gradient is right, but the graph was retained, and nobody comes back.")
    return None


@exercise("6.3")
def _gradients_apart(answer: Any) -> str | None:
    apart = as_function(answer, "apart")
    weight, x = _inputs()
    with lm.lifetime.trace() as trace:
        result = apart(weight, x)
    if result is ...:
        raise Unsolved("`apart` still returns ...")
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Wrong("`apart` must return two gradients.")
    squares, plain = _gradient(lambda h: (h * h).sum()), _gradient(lambda h: h.sum())
    first, second = (
        as_array(g.detach() if lm.is_tensor(g) else g, f"The {what} gradient", (4, 4))
        for g, what in zip(result, ("first", "second"), strict=True)
    )
    both = squares + plain
    if same(first, both) and same(second, both):
        raise Wrong("Both are the sum of the two: `.grad` was read after both passes, or is one.")
    if same(second, both):
        raise Wrong("The second is the sum of the two: `.grad` adds up.")
    if same(first, plain) and same(second, squares):
        raise Wrong("The two gradients have changed places.")
    if not same(first, squares):
        raise Wrong("The first is not the gradient of the sum of squares.")
    if not same(second, plain):
        raise Wrong("The second is not the gradient of the plain sum.")
    made, _, released = _counts(trace)
    if weight.grad is not None:
        raise Wrong("The gradients are right, but `W.grad` is not None afterwards.")
    _compare_trunk(made)
    if not released:
        raise Wrong("The gradients are right, but the last pass retains the graph, too.")
    return None
