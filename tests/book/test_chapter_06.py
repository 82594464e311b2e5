"""What `check` says to answers of chapter 6."""

import pytest

import lucid_mini as lm


@pytest.mark.parametrize(
    ("bytes_", "hint"),
    [
        (16_000, "right."),
        (2000, "number of values"),
        (8000, "one of the buffers"),
        (24_000, "twice"),
        (0, "retain"),
        (5, "Which buffers"),
    ],
)
def test_6_1(said, bytes_, hint):
    assert hint in said("6.1", bytes_)


def hidden(weight, x):
    return (x @ weight).tanh()


def summed(weight, x, targets, scale=1.0, **how):
    h = hidden(weight, x)
    (scale * sum(((h - t) ** 2).sum() for t in targets)).backward(**how)


def retained(weight, x, targets):
    h = hidden(weight, x)
    for target in targets:
        ((h - target) ** 2).sum().backward(retain_graph=True)


def rebuilt(weight, x, targets):
    for target in targets:
        ((hidden(weight, x) - target) ** 2).sum().backward()


def broken(weight, x, targets):
    h = hidden(weight, x)
    for target in targets:
        ((h - target) ** 2).sum().backward()


def test_6_2_right(said):
    assert said("6.2", summed) == "right."


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (broken, "GraphFreedError"),
        (retained, "the shared node ran 3 times"),
        (rebuilt, "tanh was computed 3 times"),
        (lambda w, x, t: summed(w, x, t, retain_graph=True), "nobody comes back"),
        (lambda w, x, t: summed(w, x, t[:1]), "one loss alone, that of target 0.0"),
        (lambda w, x, t: summed(w, x, t, 1 / 3), "the mean"),
        (lambda w, x, t: summed(w, x, t, -1.0), "not the sum of the gradients"),
        (lambda w, x, t: None, "`W.grad` is None"),
    ],
)
def test_6_2_says_what_is_wrong(said, answer, hint):
    assert hint in said("6.2", answer)


def apart(weight, x, *, clear=True, tidy=True, last=False):
    h = hidden(weight, x)
    squares, plain = (h * h).sum(), h.sum()
    squares.backward(retain_graph=True)
    first = weight.grad
    if clear:
        weight.grad = None
    plain.backward(retain_graph=last)
    second = weight.grad
    if tidy:
        weight.grad = None
    return first, second


def with_grad(weight, x):
    h = hidden(weight, x)
    (first,) = lm.autograd.grad((h * h).sum(), weight, retain_graph=True)
    (second,) = lm.autograd.grad(h.sum(), weight)
    return first, second


def twice(weight, x):
    h, again = hidden(weight, x), hidden(weight, x)
    (first,) = lm.autograd.grad((h * h).sum(), weight)
    (second,) = lm.autograd.grad(again.sum(), weight)
    return first, second


@pytest.mark.parametrize("answer", [apart, with_grad])
def test_6_3_right(said, answer):
    assert said("6.3", answer) == "right."


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda w, x: apart(w, x, clear=False), "The second is the sum of the two"),
        (lambda w, x: apart(w, x, tidy=False), "`W.grad` is not None"),
        (lambda w, x: apart(w, x, last=True), "the last pass retains"),
        (lambda w, x: apart(w, x)[::-1], "changed places"),
        (lambda w, x: apart(w, x)[0], "two gradients"),
        (lambda w, x: (apart(w, x)[1] * 2, apart(w, x)[1]), "The first is not"),
        (lambda w, x: (apart(w, x)[0], apart(w, x)[1] * 2), "The second is not"),
        (twice, "tanh was computed 2 times"),
        (lambda w, x: (None, None), "is None"),
    ],
)
def test_6_3_says_what_is_wrong(said, answer, hint):
    assert hint in said("6.3", answer)
