"""What `check` says to answers of chapter 13."""

import numpy as np
import pytest

import lucid_mini as lm


def test_13_1_right(said):
    assert said("13.1", lambda n: 1112 * n + 5120) == "right. 1,112 bytes for each image."


@pytest.mark.parametrize(
    ("formula", "hint"),
    [
        (lambda n: 1104 * n + 5120, "8 bytes less than are saved"),
        (lambda n: 1624 * n + 5120, "512 bytes more than are saved"),
        (lambda n: 1112 * n, "5,120 bytes less"),
        (lambda n: 1112 * n + 37888, "32,768 bytes more"),
        (lambda n: 1112 * n + 5120 if n < 500 else 0, "not 1,000"),
        (lambda n: None, "`return` is missing"),
        (lambda n: "many", "of type str"),
    ],
)
def test_13_1_says_by_how_many_bytes_it_is_wrong(said, formula, hint):
    assert hint in said("13.1", formula)


def counter(*, record=False, slices=True, keep=None):
    def count_right(scores_of, pixels, labels, size):
        right, step = 0, size if slices else len(pixels)
        with lm.set_grad_enabled(record):
            for first in range(0, len(pixels), step):
                scores = scores_of(lm.tensor(pixels[first : first + step]))
                if keep is not None:
                    keep.append(scores)
                right += int((scores.argmax(1).numpy() == labels[first : first + step]).sum())
        return right

    return count_right


def test_13_2_right(said):
    assert said("13.2", counter()).startswith("right. Peak")


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (counter(record=True), "recording was on"),
        (counter(slices=False), "45 images at once"),
        (counter(keep=[]), "something is kept"),
        (lambda s, p, y, n: counter()(s, p, y, n) + 1, "and you count"),
        (lambda s, p, y, n: counter()(s, p, y, n) / len(p), "share"),
        (lambda s, p, y, n: lm.tensor(3.0), "a tensor"),
        (lambda s, p, y, n: 3, "was given 0 images"),
        (lambda s, p, y, n: None, "`return` is missing"),
    ],
)
def test_13_2_says_what_is_wrong(said, answer, hint):
    assert hint in said("13.2", answer)


def accumulator(*, weight=lambda part, rows, parts: len(part) / len(rows), number=float):
    def accumulate(loss_of, rows, parts):
        total = 0.0
        for part in np.array_split(rows, parts):
            loss = loss_of(part) * weight(part, rows, parts)
            loss.backward()
            total += loss.item()
        return number(total)

    return accumulate


def all_at_once(loss_of, rows, parts):
    losses = [loss_of(part) * (len(part) / len(rows)) for part in np.array_split(rows, parts)]
    total = sum(losses)
    total.backward()
    return total.item()


def never(loss_of, rows, parts):
    return loss_of(rows).item()


def test_13_3_right(said):
    assert said("13.3", accumulator()).startswith("right. Peak")


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (accumulator(weight=lambda *_: 1), "4 times what they must be"),
        (accumulator(weight=lambda part, rows, parts: 1 / parts), "not equally long"),
        (accumulator(number=lambda total: 2 * total), "the loss is not"),
        (accumulator(number=lambda total: None), "returns None"),
        (accumulator(number=lm.tensor), "a tensor"),
        (all_at_once, "more than one part needs"),
        (never, "backward must be called"),
    ],
)
def test_13_3_says_what_is_wrong(said, answer, hint):
    assert hint in said("13.3", answer)
