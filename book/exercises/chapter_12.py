"""The exercises of chapter 12."""

from typing import Any
from unittest.mock import patch

import numpy as np

import lucid_mini as lm

from .compare import Array, as_array, as_function, as_number
from .core import Unsolved, Wrong, exercise


@exercise("12.1")
def _rule(answer: Any) -> str | None:
    rule = as_function(answer, "rule")

    class Cube(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            found = rule(*ctx.saved_tensors, grad)
            if found is None:
                raise Wrong("`rule` returns None: a line with `return` is missing.")
            if not lm.is_tensor(found):
                raise Wrong(f"`rule` returns a {type(found).__name__}, and a tensor was asked for.")
            return found

    x = lm.tensor([0.5, -2.0, 3.0], requires_grad=True)
    values = x.numpy()
    # y = (x ** 3) ** 2, so that the gradient that arrives depends on x as well
    value: Any = (Cube.apply(x) ** 2).sum()
    wanted = {"first": 6 * values**5, "second": 30 * values**4, "third": 120 * values**3}
    for order, want in wanted.items():
        if not value.requires_grad:
            raise Wrong(
                f"The {order} derivative does not exist: what `rule` returns has no history. "
                f"Compute with the tensors themselves."
            )
        (found,) = lm.autograd.grad(value, x, create_graph=True, allow_unused=True)
        if found is None or not np.allclose(found.numpy(), want):
            if order == "first":
                if np.allclose(found.numpy(), 3 * values**2):
                    raise Wrong("Your rule ignores `grad`. The chain rule multiplies by it.")
                raise Wrong("The first derivative is not right.")
            raise Wrong(
                f"The {order} derivative is wrong, those before are right: a part of your rule has "
                f"no history, and counts as a constant."
            )
        value = found.sum()
    return "To the third order, at least."


@exercise("12.2")
def _nth(answer: Any) -> str | None:
    nth = as_function(answer, "nth")
    exp, sine = float(np.exp(0.5)), float(np.sin(0.7))
    for f, name, x, n, want in (
        (lambda t: t**4, "x ** 4", 2.0, 1, 32.0),
        (lambda t: t**4, "x ** 4", 2.0, 3, 48.0),
        (lambda t: t.exp(), "exp(x)", 0.5, 4, exp),
        (lambda t: t.sin(), "sin(x)", 0.7, 4, sine),
        (lambda t: t**4, "x ** 4", 2.0, 0, 16.0),
    ):
        got = nth(f, x, n)
        if got is ...:
            raise Unsolved("`nth` still returns ...")
        if got is None:
            raise Wrong("`nth` returns None: a line with `return` is missing.")
        if lm.is_tensor(got):
            raise Wrong("`nth` returns a tensor, and a Python number was asked for.")
        if not np.isclose(as_number(got, "a Python number"), want):
            raise Wrong(
                f"Derivative {n} of {name} at {x} is {want:.4f}, and you give {float(got):.4f}."
            )
    return None


def _refuse_ready_made(*args: Any, **kwargs: Any) -> None:
    raise Wrong("You call `lm.hessian`. Write it yourself, with `lm.autograd.grad`.")


@exercise("12.3")
def _hessian(answer: Any) -> str | None:
    hessian = as_function(answer, "hessian")
    calls: list[Any] = []

    def f(x: Any) -> Any:
        calls.append(x)
        return (x[0] * x[1] * x[1]) + (x[2].exp() * x[0]) + x[2] ** 3 + x[1]

    a, b, c = values = np.array([0.5, -1.0, 0.3])
    e = float(np.exp(c))
    want: Array = np.array([[0, 2 * b, e], [2 * b, 2 * a, 0], [e, 0, e * a + 6 * c]])
    x = lm.tensor(values, requires_grad=True)
    with patch.object(lm, "hessian", _refuse_ready_made):
        result = hessian(f, x)
    if isinstance(result, list | tuple):
        result = np.array([np.asarray(row) for row in result])
    got = as_array(result, "The answer", (3, 3))
    if not np.allclose(got, want):
        if np.allclose(got, np.diag(np.diag(want))):
            raise Wrong("Only the diagonal is there: one row for each element is missing.")
        if np.allclose(got, want.sum(0)):
            raise Wrong("Every row is the sum of all rows: each pass must begin at one element.")
        i, j = (int(k) for k in np.argwhere(~np.isclose(got, want))[0])
        raise Wrong(f"Element {i}, {j} is {got[i, j]:.4f}, and must be {want[i, j]:.4f}.")
    if not calls:
        raise Wrong("`f` was not called.")
    if len(calls) > 1:
        raise Wrong(f"The numbers are right, and `f` was called {len(calls)} times; once will do.")
    if x.grad is not None:
        raise Wrong("The numbers are right, and `x.grad` was written: use `lm.autograd.grad`.")
    return "Symmetric, as it must be."
