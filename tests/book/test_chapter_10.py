"""What `check` says to answers of chapter 10."""

import numpy as np
import pytest

import lucid_mini as lm


@pytest.mark.parametrize(
    "undo",
    [
        lambda grad: grad.sum(0).sum(1, keepdim=True),
        lambda grad: grad.sum((0, 2)).reshape(4, 1),
        lambda grad: grad.numpy().sum((0, 2))[:, None],
    ],
)
def test_10_1_right(said, undo):
    assert said("10.1", undo) == "right."


@pytest.mark.parametrize(
    ("undo", "hint"),
    [
        (lambda grad: grad.sum((0, 2)), "has to stay where it was"),
        (lambda grad: grad.sum(0), "has shape (4, 3). Sum over each axis"),
        (lambda grad: grad.sum(0).mean(1, keepdim=True), "a sum is no mean"),
        (lambda grad: grad[0, :, :1], "is it a sum"),
        (lambda grad: None, "`return` is missing"),
    ],
)
def test_10_1_says_what_is_wrong(said, undo, hint):
    assert hint in said("10.1", undo)


def sum_diff(*, first=1, second=-1, save=False, drop=False, outputs=2):
    class SumDiff(lm.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            if save:
                ctx.save_for_backward(a)
            return (a + b, a - b) if outputs == 2 else a + b

        @staticmethod
        def backward(ctx, grad_sum, grad_diff):
            if drop:
                return grad_sum, grad_sum
            return grad_sum + first * grad_diff, grad_sum + second * grad_diff

    return SumDiff


def test_10_2_right(said):
    assert said("10.2", sum_diff()) == "right."


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (sum_diff(second=1), "The gradient of `b` is wrong"),
        (sum_diff(first=-1), "The gradient of `a` is wrong"),
        (sum_diff(drop=True), "The gradient of `a`"),
        (sum_diff(save=True), "keeps 32 bytes for nothing"),
        (sum_diff(outputs=1), "must return two tensors"),
        (lambda a, b: (a, b), "of type function"),
    ],
)
def test_10_2_says_what_is_wrong(said, answer, hint):
    assert hint in said("10.2", answer)


def general(grad, shape):
    lead = grad.ndim - len(shape)
    ones = tuple(lead + axis for axis, n in enumerate(shape) if n == 1)
    return grad.sum(axis=tuple(range(lead)) + ones).reshape(shape)


def leading_only(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(axis=0)
    return grad


def squeezed(grad, shape):
    return general(grad, shape).squeeze()


def in_place(grad, shape):
    result = general(grad, shape)
    grad *= 0
    return result


def mean(grad, shape):
    return general(grad, shape) / (grad.size / max(int(np.prod(shape)), 1))


def test_10_3_right(said):
    assert said("10.3", general) == "right. In all 8 cases."


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (leading_only, "Sum over each axis"),
        (squeezed, "has to stay where it was"),
        (in_place, "itself was changed"),
        (mean, "a sum is no mean"),
        (lambda grad, shape: None, "`return` is missing"),
        (lambda grad, shape: grad[0], "has shape"),
    ],
)
def test_10_3_says_what_is_wrong(said, answer, hint):
    assert hint in said("10.3", answer)
