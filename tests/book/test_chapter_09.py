"""What `check` says to answers of chapter 9."""

import numpy as np
import pytest

import lucid_mini as lm


def test_9_1_right(said):
    assert said("9.1", 2).startswith("right.")


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (1, "the other one"),
        (3, "makes a new tensor"),
        (0, "write in place"),
        (7, "Count the writes"),
        ("2", "of type str"),
    ],
)
def test_9_1_says_which_thought_went_wrong(said, answer, hint):
    assert hint in said("9.1", answer)


def out_of_place(w):
    e = w.exp()
    low = e - 1
    return e.sum() * (low * low).sum()


def copied(w):
    e = w.exp()
    total = e.sum()
    e = e.clone()
    e -= 1
    return total * (e * e).sum()


def as_it_is(w):
    e = w.exp()
    total = e.sum()
    e -= 1
    return total * (e * e).sum()


def late(w):
    low = w.exp() - 1
    return low.sum() * (low * low).sum()


def cut(w):
    e = w.exp()
    low = e.detach() - 1
    return e.sum() * (low * low).sum()


@pytest.mark.parametrize("answer", [out_of_place, copied])
def test_9_2_right(said, answer):
    assert said("9.2", answer) == "right."


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (as_it_is, "VersionMismatchError"),
        (late, "before 1 was taken away"),
        (cut, "The gradient of `w` is wrong"),
        (lambda w: out_of_place(w).detach(), "no history"),
        (lambda w: out_of_place(w).item(), "returns a float"),
        (lambda w: out_of_place(w) * 2, "another number"),
        (lambda w: out_of_place(w).reshape(1), "has shape (1,)"),
    ],
)
def test_9_2_says_what_is_wrong(said, answer, hint):
    assert hint in said("9.2", answer)


def add_scaled(*, mark=True, write=True, factor=True, scale=1.0, save=False, attribute=False):
    class AddScaled(lm.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, k):
            if mark and write:
                ctx.mark_dirty(a)
            if save:
                ctx.save_for_backward(b)
            if attribute:
                ctx.b = np.ones(4)
            ctx.k = k
            if not write:
                return a + scale * k * b
            a += scale * k * b
            return a

        @staticmethod
        def backward(ctx, grad):
            return grad, grad * (ctx.k if factor else 1), None

    return AddScaled


def test_9_3_right(said):
    assert said("9.3", add_scaled()) == "right."


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (add_scaled(mark=False), "not marked"),
        (add_scaled(write=False), "new memory"),
        (add_scaled(factor=False), "times what it must be"),
        (add_scaled(scale=2.0), "other values"),
        (add_scaled(save=True), "keeps 32 bytes for nothing"),
        (add_scaled(attribute=True), "keeps 32 bytes for nothing"),
        (lambda a, b, k: a, "of type function"),
    ],
)
def test_9_3_says_what_is_wrong(said, answer, hint):
    assert hint in said("9.3", answer)
