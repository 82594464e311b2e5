"""What `check` says to answers of chapter 8."""

import gc
from types import SimpleNamespace

import numpy as np
import pytest

import lucid_mini as lm


def as_number(loss):
    value = loss.item()
    return lambda grad: grad / value


def detached(loss):
    value = loss.detach()
    return lambda grad: grad / value


@pytest.mark.parametrize("make_hook", [as_number, detached])
def test_8_1_right(said, make_hook):
    assert said("8.1", make_hook) == "right."


@pytest.mark.parametrize(
    ("make_hook", "hint"),
    [
        (lambda loss: lambda grad: grad / loss, "the loss with its whole history"),
        (lambda loss: lambda grad, kept=loss: grad / kept, "the loss with its whole history"),
        (lambda loss: lambda grad: grad, "as it came"),
        (lambda loss: lambda grad: grad * 2, "another number"),
        (lambda loss: lambda grad: None, "is None"),
        (lambda loss: loss.item(), "must return a function"),
        (lambda loss: None, "a line with `return` is missing"),
    ],
)
def test_8_1_says_what_is_wrong(said, make_hook, hint):
    assert hint in said("8.1", make_hook)


def exponential(*, add=True, circle=False, ignore=False, rule=True, made=True, scale=1.0, arg=True):
    def exp(value):
        result = np.exp(value.data) * scale
        out = type(value)(result, (value,) if made else ())

        source = out if circle else SimpleNamespace(data=result)

        def send(grad):
            value.grad = (value.grad if add else 0) + source.data * (1.0 if ignore else grad)

        def without():
            send(out.grad)

        if rule:
            out.rule = send if arg else without
        return out

    return exp


def test_8_2_right(said):
    assert said("8.2", exponential()) == "right."


@pytest.mark.parametrize(
    ("exp", "hint"),
    [
        (exponential(circle=True), "its rule leads back to it"),
        (exponential(add=False), "overwrites"),
        (exponential(ignore=True), "ignores `grad`"),
        (exponential(rule=False), "has no rule"),
        (exponential(made=False), "what it was made from"),
        (exponential(scale=2.0), "other numbers"),
        (exponential(arg=False), "takes one argument"),
        (lambda value: np.exp(value.data), "not a ndarray"),
        (lambda value: None, "`return` is missing"),
    ],
)
def test_8_2_says_what_is_wrong(said, exp, hint):
    assert hint in said("8.2", exp)
    assert gc.isenabled()


class Leaky(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.tanh()
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        return grad * (1 - ctx.y**2)


def trainer(*, squash=False, hook=False, log=False, update=True, count=True, keep=None):
    def train(weight, batches):
        losses, ratios = [], []

        def observe(h):
            square = (h * h).sum().item() if hook else h
            over = (lambda: square) if hook else (lambda: (square * square).sum().item())
            h.register_hook(lambda grad: ratios.append((grad * grad).sum().item() / over()))

        for x in batches:
            h = (x @ weight).tanh() if squash else Leaky.apply(x @ weight)
            observe(h)
            loss = (h * h).mean()
            loss.backward()
            if update:
                with lm.no_grad():
                    weight -= 0.1 * weight.grad
            weight.grad = None
            losses.append(loss.item() if log else loss)
            if keep is not None:
                keep.append(h)
        return (losses, ratios) if count else (losses[1:], ratios)

    return train


def test_8_3_right(said):
    answer = trainer(squash=True, hook=True, log=True)
    assert said("8.3", answer) == "right. Nothing but numbers is left."


def test_8_3_the_program_as_it_is_counts_as_unsolved(said):
    text = said("8.3", trainer())
    assert text.startswith("not solved yet. Every batch leaves behind:")
    assert "1,024 bytes in circles" in text


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (trainer(squash=True), "1,024 bytes in circles"),
        (trainer(hook=True), "1,024 bytes in circles"),
        (trainer(log=True), "1,024 bytes in circles"),
        (trainer(squash=True, hook=True), "still owns a graph"),
        (trainer(squash=True, log=True), "still leaves behind: 1,024 bytes in circles"),
        (trainer(squash=True, hook=True, log=True, update=False), "has changed"),
        (trainer(squash=True, hook=True, log=True, count=False), "gives 3 of the number loss"),
        (trainer(squash=True, hook=True, log=True, keep=[]), "bytes held from elsewhere"),
        (lambda w, b: None, "the losses and the ratios"),
        (lambda w, b: (1.0, 2.0), "two lists"),
    ],
)
def test_8_3_says_what_is_wrong(said, answer, hint):
    assert hint in said("8.3", answer)
    assert gc.isenabled()
