"""The exercises of chapter 13."""

from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import as_function, as_number, in_bytes, same
from .core import Unsolved, Wrong, exercise

#: Bytes that a few numbers may take.
SMALL = 256


def _parameters() -> list[Any]:
    sizes = [(64, 64), (64,), (64, 10), (10,)]
    values = [np.cos(np.arange(np.prod(size)) * 1.7).reshape(size) * 0.2 for size in sizes]
    return [lm.tensor(value, requires_grad=True) for value in values]


def _scores(p: list[Any], x: Any) -> Any:
    return (x @ p[0] + p[1]).relu() @ p[2] + p[3]


def _images(n: int) -> tuple[Any, Any]:
    return np.abs(np.sin(np.arange(n * 64) * 0.37)).reshape(n, 64), np.arange(n) * 7 % 10


@exercise("13.1")
def _saved_bytes(answer: Any) -> str | None:
    formula = as_function(answer, "saved_bytes")

    def measured(n: int) -> int:
        pixels, labels = _images(n)
        loss = lm.cross_entropy(_scores(_parameters(), lm.tensor(pixels)), lm.tensor(labels))
        return int(lm.lifetime.saved(loss).nbytes)

    def answered(n: int) -> float:
        value = formula(n)
        if value is None:
            raise Wrong("`saved_bytes` returns None: a line with `return` is missing.")
        return as_number(value, "a number of bytes")

    few, many = 10, 110
    want, got = [[f(n) for n in (few, many)] for f in (measured, answered)]
    slopes = [(large - small) / (many - few) for small, large in (want, got)]
    if slopes[0] != slopes[1]:
        less = "less" if slopes[1] < slopes[0] else "more"
        raise Wrong(
            f"For each image, your formula has {abs(slopes[0] - slopes[1]):,.0f} bytes {less} than "
            f"are saved."
        )
    if want[0] != got[0]:
        less = "less" if got[0] < want[0] else "more"
        raise Wrong(
            f"What each image adds is right. What does not depend on n is "
            f"{in_bytes(abs(int(want[0] - got[0])))} {less} than is saved."
        )
    if answered(1000) != measured(1000):
        raise Wrong("Your formula fits 10 and 110 images, and not 1,000.")
    return f"{int(slopes[0]):,} bytes for each image."


@exercise("13.2")
def _count_right(answer: Any) -> str | None:
    count_right = as_function(answer, "count_right")
    p, size = _parameters(), 20
    seen: list[tuple[int, bool]] = []

    def scores_of(x: Any) -> Any:
        seen.append((x.shape[0], lm.is_grad_enabled()))
        return _scores(p, x)

    peaks = []
    for n in (45, 205):
        pixels, labels = _images(n)
        with lm.no_grad():
            best = _scores(p, lm.tensor(pixels)).argmax(1).numpy()
        labels = np.where(np.arange(n) % 3 == 0, labels, best)
        want = int((best == labels).sum())
        seen.clear()
        with lm.lifetime.trace() as trace:
            result = count_right(scores_of, pixels, labels, size)
        if result is ...:
            raise Unsolved("`count_right` still returns ...")
        if result is None:
            raise Wrong("`count_right` returns None: a line with `return` is missing.")
        if lm.is_tensor(result):
            raise Wrong("`count_right` returns a tensor, and a Python number was asked for.")
        got = as_number(result, "a Python number")
        rows = sum(length for length, _ in seen)
        if rows != n:
            raise Wrong(f"`scores_of` was given {rows} images in all, and there are {n}.")
        if got != want:
            if np.isclose(got, want / n):
                raise Wrong("That is the share of right answers, and their number was asked for.")
            raise Wrong(f"Of {n} digits, {want} are read right, and you count {got:g}.")
        if (most := max(length for length, _ in seen)) > size:
            raise Wrong(f"`scores_of` was given {most} images at once, and `size` was {size}.")
        if any(recorded for _, recorded in seen):
            raise Wrong(
                "The number is right, but recording was on: each call saved tensors for a backward "
                "that nobody calls."
            )
        peaks.append(trace.peak())
    if peaks[1] - peaks[0] > SMALL:
        raise Wrong(
            f"The number is right, but for more images the peak rises, by "
            f"{in_bytes(peaks[1] - peaks[0])}: something is kept from one call to the next."
        )
    return f"Peak {in_bytes(peaks[1])}, for 45 images as for 205."


@exercise("13.3")
def _accumulate(answer: Any) -> str | None:
    accumulate = as_function(answer, "accumulate")
    pixels, labels = _images(200)

    def run(rows: Any, parts: int, call: Any) -> tuple[Any, list[Any], int]:
        p = _parameters()

        def loss_of(chosen: Any) -> Any:
            x, target = lm.tensor(pixels[chosen]), lm.tensor(labels[chosen])
            return lm.cross_entropy(_scores(p, x), target)

        with lm.lifetime.trace() as trace:
            result = call(loss_of, rows, parts)
            if lm.is_tensor(result):
                raise Wrong("`accumulate` returns a tensor, and a Python number was asked for.")
        if result is ...:
            raise Unsolved("`accumulate` still returns ...")
        if any(w.grad is None for w in p):
            raise Wrong("A parameter has no gradient afterwards: backward must be called.")
        return result, [w.grad.numpy() for w in p], trace.peak()

    def whole(loss_of: Any, rows: Any, parts: int) -> float:
        loss = loss_of(rows)
        loss.backward()
        return float(loss.item())

    peaks = (0, 0)
    for rows, parts in ((np.arange(192), 4), (np.arange(30, 40), 4)):
        loss, grads, before = run(rows, parts, whole)
        mine, found, peak = run(rows, parts, accumulate)
        of = f"For {len(rows)} rows in {parts} parts"
        if not all(same(f, g) for f, g in zip(found, grads, strict=True)):
            ratio = float(np.vdot(found[2], grads[2]) / np.vdot(grads[2], grads[2]))
            close = all(np.allclose(f, ratio * g) for f, g in zip(found, grads, strict=True))
            if close:
                raise Wrong(f"{of}, the gradients are {ratio:.4g} times what they must be.")
            uneven = " The parts are not equally long there." if len(rows) % parts else ""
            raise Wrong(f"{of}, the gradients are not those of the mean over all rows.{uneven}")
        if mine is None:
            raise Wrong("The gradients are right, but `accumulate` returns None, not the mean.")
        if not np.isclose(as_number(mine, "a Python number"), loss):
            raise Wrong(f"{of}, the gradients are right, and the loss is not: {loss:.4f} is.")
        if len(rows) == 192:
            _, _, least = run(rows[: len(rows) // parts], 1, whole)
            # Gradients of the parts before, and those of this part, before they are added.
            least += sum(g.nbytes for g in grads)
            if peak > least + SMALL:
                raise Wrong(
                    f"The gradients are right, and the peak is {in_bytes(peak)}: "
                    f"{in_bytes(peak - least)} more than one part needs."
                )
            peaks = (before, peak)
    return f"Peak {peaks[0]:,} bytes for the whole batch, {peaks[1]:,} in 4 parts."
