"""What `check` says to answers of chapter 14."""

import numpy as np
import pytest

import lucid_mini as lm

REASON = "PyTorch is not installed: pip install 'lucid-mini[torch]'"


def test_14_1_right(said):
    def backward(ctx, grad):
        kept = ctx.saved_variables
        return {"b": kept.a * grad, "a": kept["b"] * grad}

    assert said("14.1", backward) == "right."


@pytest.mark.parametrize(
    ("backward", "hint"),
    [
        (lambda kept, grad: None, "`return` is missing"),
        (lambda kept, grad: (kept.b * grad, kept.a * grad), "returns a tuple"),
        (lambda kept, grad: {"a": kept.b, "b": kept.a}, "ignores `grad`"),
        (lambda kept, grad: {"a": kept.a * grad, "b": kept.b * grad}, "gradient of `a` is not"),
        (lambda kept, grad: {"a": kept.b * grad, "b": None}, "gradient of `b` is missing"),
        (lambda kept, grad: {"c": grad}, "Valid names: a, b"),
    ],
)
def test_14_1_says_what_is_wrong(said, backward, hint):
    assert hint in said("14.1", lambda ctx, grad: backward(ctx.saved_variables, grad))


def made(base, forward, backward, name):
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (base,), body)


def root(saved=lambda x, y: y, backward=lambda kept, grad: grad / (2 * kept), out=lambda y: y):
    torch = pytest.importorskip("torch", reason=REASON, exc_type=ImportError)

    def forward(ctx, x):
        y = x.sqrt()
        ctx.save_for_backward(saved(x, y))
        return out(y)

    def rule(ctx, grad):
        (kept,) = ctx.saved_tensors
        return backward(kept, grad)

    return made(torch.autograd.Function, forward, rule, "Root")


def test_14_2_right(said):
    assert said("14.2", root()) == "right. To the second order."


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"saved": lambda x, y: x, "backward": lambda x, g: g / (2 * x.sqrt())}, "not the output"),
        ({"backward": lambda y, g: 1 / (2 * y)}, "ignores `grad`"),
        ({"backward": lambda y, g: g / y}, "gradient is not right"),
        ({"backward": lambda y, g: g / (2 * y.detach())}, "the second is not"),
        ({"out": lambda y: y * 2}, "not the square root"),
        ({"out": lambda y: 3}, "returns no tensor"),
    ],
)
def test_14_2_says_what_is_wrong(said, changes, hint):
    assert hint in said("14.2", root(**changes))


def softplus(save=lambda x: x, rule=lambda x, grad: grad * x.sigmoid()):
    def forward(ctx, x):
        ctx.save_for_backward(save(x))
        return (1 + x.exp()).log()

    def backward(ctx, grad):
        return rule(*ctx.saved_tensors, grad)

    return made(lm.autograd.Function, forward, backward, "Softplus")


def test_14_3_right(said):
    pytest.importorskip("torch", reason=REASON, exc_type=ImportError)
    assert said("14.3", softplus()) == "right. On both libraries."


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"rule": lambda x, grad: x.sigmoid()}, "On lucid_mini the first derivative is not right."),
        ({"rule": lambda x, grad: x.sigmoid() * grad * 2}, "first derivative is not right"),
        ({"rule": lambda x, grad: grad * x.detach().sigmoid()}, "On lucid_mini the second der"),
        ({"save": lambda x: x * 1}, "On lucid_mini the second derivative"),
    ],
)
def test_14_3_says_what_is_wrong(said, changes, hint):
    assert hint in said("14.3", softplus(**changes))


def test_14_3_says_what_is_wrong_on_pytorch_alone(said):
    pytest.importorskip("torch", reason=REASON, exc_type=ImportError)
    numbers = softplus(rule=lambda x, grad: grad * x.sigmoid() if x._base is None else grad)

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (1 + x.exp()).log() if type(x._data) is np.ndarray else x * 1

    numbers.forward = staticmethod(forward)
    again = made(lm.autograd.Function, forward, numbers.backward, "Softplus")
    assert "On PyTorch the value is not right" in said("14.3", again)


@pytest.mark.parametrize("number", ["14.2", "14.3"])
def test_a_class_of_another_kind_is_named(said, number):
    pytest.importorskip("torch", reason=REASON, exc_type=ImportError)
    assert "and yours is int" in said(number, int)


def test_without_pytorch_an_exercise_says_how_to_get_it(said, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    assert "pip install 'lucid-mini[torch]'" in said("14.2", int)
