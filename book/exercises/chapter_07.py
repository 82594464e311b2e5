"""The exercises of chapter 7."""

from collections.abc import Callable
from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import as_function, as_number, in_bytes, same
from .core import Unsolved, Wrong, exercise

#: Bytes per iteration that a few numbers may take.
SMALL = 64


def _weight(size: int = 8) -> Any:
    values = np.linspace(-0.5, 0.6, size * size).reshape(size, size)
    return lm.tensor(values, requires_grad=True)


@exercise("7.1")
def _what_to_keep(answer: Any) -> str | None:
    keep = as_function(answer, "keep")
    weight, data = _weight(), np.linspace(-1, 1, 128).reshape(16, 8)
    with lm.lifetime.trace() as trace:
        loss = ((lm.tensor(data) @ weight).tanh() ** 2).sum()
        value = loss.item()
        kept = keep(loss)
        del loss
        left = trace.live_bytes()
    if kept is None:
        raise Wrong("`keep` returns None: a line with `return` is missing.")
    if left > SMALL:
        raise Wrong(f"What you keep holds {in_bytes(left)}, for one number.")
    if lm.is_tensor(kept):
        if kept.grad_fn is not None:
            raise Wrong("What you keep has a grad_fn still: a graph with nodes, if without bytes.")
        kept = kept.tolist()
    if isinstance(kept, np.ndarray) and kept.size == 1:
        kept = kept.item()
    if as_number(kept, "the number that the loss is") != value:
        raise Wrong("What you keep is another number than the loss.")
    return f"{in_bytes(left)} of arrays per iteration."


def _peak(call: Callable[[], Any]) -> tuple[Any, int]:
    with lm.lifetime.trace() as trace:
        result = call()
    return result, trace.peak()


@exercise("7.2")
def _mean_loss(answer: Any) -> str | None:
    mean_loss = as_function(answer, "mean_loss")
    weight = _weight()
    seen: list[bool] = []

    def loss_of(batch: Any) -> Any:
        seen.append(lm.is_grad_enabled())
        return ((batch @ weight).tanh() ** 2).sum()

    peaks = []
    for count in (2, 12):
        batches = [lm.tensor(np.linspace(-1, k, 128).reshape(16, 8)) for k in range(count)]
        with lm.no_grad():
            want = sum(loss_of(batch).item() for batch in batches) / count
        seen.clear()
        result, peak = _peak(lambda b=batches: mean_loss(loss_of, b))  # type: ignore[misc]
        if result is ...:
            raise Unsolved("`mean_loss` still returns ...")
        if lm.is_tensor(result):
            raise Wrong("`mean_loss` returns a tensor, and a Python number was asked for.")
        got = as_number(result, "a Python number")
        if not np.isclose(got, want):
            if np.isclose(got, want * count):
                raise Wrong("That is the sum of the losses, not their mean.")
            raise Wrong(f"For {count} batches the mean is {want:.4f}, and yours is {got:.4f}.")
        if len(seen) != count:
            raise Wrong(f"`loss_of` was called {len(seen)} times for {count} batches.")
        peaks.append(peak)
    growth = (peaks[1] - peaks[0]) // 10
    if growth > SMALL:
        raise Wrong(f"The mean is right, but every batch leaves {in_bytes(growth)} behind.")
    if any(seen):
        raise Wrong(
            "The mean is right and memory is flat, but recording was on: each loss saved tensors "
            "for a backward that nobody calls."
        )
    return f"Peak {in_bytes(peaks[1])}, for 2 batches as for 12."


def _reference(weight: Any, x: Any, n: int) -> list[float]:
    state, losses = lm.zeros(*x.shape), []
    for _ in range(n):
        state = (x + state.detach() @ weight).tanh()
        loss = (state * state).mean()
        loss.backward()
        with lm.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None
        losses.append(loss.item())
    return losses


@exercise("7.3")
def _train_with_state(answer: Any) -> str | None:
    train = as_function(answer, "train")
    x = lm.tensor(np.linspace(-1, 1, 128).reshape(16, 8))
    peaks, small, large = [], 4, 14
    for n in (small, large):
        mine, theirs = _weight(), _weight()
        want = _reference(mine, x, n)
        got, peak = _peak(lambda w=theirs, n=n: train(w, x, n))  # type: ignore[misc]
        if got is ...:
            raise Unsolved("`train` still returns ...")
        if not isinstance(got, list | tuple):
            raise Wrong(f"`train` must return a list, and gives a {type(got).__name__}.")
        if len(got) != n:
            raise Wrong(f"For {n} iterations your list has {len(got)} losses.")
        for at, (value, right) in enumerate(zip(got, want, strict=True), 1):
            if lm.is_tensor(value):
                raise Wrong("Your list holds tensors, and numbers were asked for.")
            if not np.isclose(as_number(value, "a list of numbers"), right, rtol=1e-7):
                why = ""
                if same(theirs.numpy(), _weight().numpy()):
                    why = " W is still what it was at the start."
                elif theirs.grad is not None:
                    why = " `W.grad` is not None after an iteration: gradients add up."
                raise Wrong(f"Loss {at} is {value:.4f}, and must be {right:.4f}.{why}")
        if theirs.grad is not None:
            raise Wrong("The losses are right, but `W.grad` is not None at the end.")
        if not same(theirs.numpy(), mine.numpy()):
            raise Wrong("The losses are right, but W is not what the last update makes it.")
        peaks.append(peak)
    growth = (peaks[1] - peaks[0]) // (large - small)
    if growth > SMALL:
        raise Wrong(f"The losses are right, but every iteration leaves {in_bytes(growth)} behind.")
    return f"Peak {in_bytes(peaks[1])}, for {small} iterations as for {large}."
