"""What `check` says to answers of chapter 12."""

import numpy as np
import pytest

import lucid_mini as lm


def test_12_1_right(said):
    assert said("12.1", lambda x, grad: grad * 3 * x**2).startswith("right.")


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        (lambda x, grad: 3 * x * x, "ignores `grad`"),
        (lambda x, grad: 2 * x * grad, "The first derivative is not right"),
        (lambda x, grad: 3 * (x * x).detach() * grad, "The second derivative is wrong"),
        (lambda x, grad: (3 * x * x * grad).detach(), "The second derivative does not exist"),
        (lambda x, grad: 3 * x.numpy() ** 2 * grad.numpy(), "returns a ndarray"),
        (lambda x, grad: None, "`return` is missing"),
    ],
)
def test_12_1_says_what_is_wrong(said, rule, hint):
    assert hint in said("12.1", rule)


def nth(f, x, n):
    x = lm.tensor(x, requires_grad=True)
    value = f(x)
    for _ in range(n):
        (value,) = lm.autograd.grad(value, x, create_graph=True)
    return value.item()


def test_12_2_right(said):
    assert said("12.2", nth) == "right."


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda f, x, n: nth(f, x, n + 1), "Derivative 1 of x ** 4 at 2.0 is 32.0000"),
        (lambda f, x, n: nth(f, x, max(n, 1)), "Derivative 0"),
        (lambda f, x, n: lm.tensor(nth(f, x, n)), "a tensor"),
        (lambda f, x, n: None, "`return` is missing"),
    ],
)
def test_12_2_says_what_is_wrong(said, answer, hint):
    assert hint in said("12.2", answer)


def hessian(f, x, *, retain=True, calls=1):
    for _ in range(calls):
        y = f(x)
    (first,) = lm.autograd.grad(y, x, create_graph=True)
    rows = [
        lm.autograd.grad(e, x, retain_graph=retain, allow_unused=True, materialize_grads=True)[0]
        for e in first
    ]
    return np.stack([row.numpy() for row in rows])


def summed(f, x):
    (first,) = lm.autograd.grad(f(x), x, create_graph=True)
    (row,) = lm.autograd.grad(first.sum(), x)
    return np.stack([row.numpy()] * 3)


def through_grad(f, x):
    result = hessian(f, x)
    x.sum().backward()
    return result


def test_12_3_right(said):
    assert said("12.3", hessian) == "right. Symmetric, as it must be."
    assert said("12.3", lambda f, x: hessian(f, x).tolist()).startswith("right.")


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda f, x: hessian(f, x, retain=False), "GraphFreedError"),
        (lambda f, x: hessian(f, x, calls=2), "called 2 times"),
        (lambda f, x: np.array(hessian(f, x)) * 2, "must be"),
        (lambda f, x: np.diag(np.diag(hessian(f, x))), "Only the diagonal"),
        (summed, "the sum of all rows"),
        (through_grad, "`x.grad` was written"),
        (lambda f, x: hessian(f, x)[0], "shape (3,)"),
        (lambda f, x: None, "`return` is missing"),
    ],
)
def test_12_3_says_what_is_wrong(said, answer, hint):
    assert hint in said("12.3", answer)


def test_12_3_is_not_solved_by_the_ready_made_one(said):
    assert "You call `lm.hessian`" in said("12.3", lambda f, x: lm.hessian(f, x) + 0)
    assert lm.hessian(lambda x: x**2, lm.tensor(1.0)).item() == 2  # and it is there again
