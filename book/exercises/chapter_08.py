"""The exercises of chapter 8."""

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import Array, as_array, as_function, as_number, compare_grads, in_bytes, same
from .core import Unsolved, Wrong, exercise

#: Bytes per batch that a few numbers may take.
SMALL = 16


@exercise("8.1")
def _make_hook(answer: Any) -> str | None:
    make_hook = as_function(answer, "make_hook")
    x = lm.tensor(np.linspace(0.1, 1.0, 1000), requires_grad=True)
    with lm.lifetime.trace() as trace:
        loss = (x * x).exp().sum()
        value = loss.item()
        hook = make_hook(loss)
        del loss
        left = trace.live_bytes()
    if hook is None:
        raise Wrong("`make_hook` returns None: a line with `return` is missing.")
    if not callable(hook):
        raise Wrong(
            f"`make_hook` must return a function, and yours returns a {type(hook).__name__}."
        )
    given = np.linspace(1.0, 2.0, 6)
    got = hook(lm.tensor(given))
    if got is not None and lm.is_tensor(got):
        got = got.detach().numpy()
    got = as_array(got, "What the hook returns", (6,))
    if not same(got, given / value):
        if same(got, given):
            raise Wrong("The hook returns the gradient as it came.")
        raise Wrong("The hook returns another number than the gradient divided by the loss.")
    if left > SMALL:
        raise Wrong(
            f"The hook computes the right gradient, but it holds {in_bytes(left)}: the loss with "
            f"its whole history, for one number."
        )
    if any(found.has_history for found in lm.lifetime.scan(hook)):
        raise Wrong("The hook computes the right gradient, but it holds a tensor with a grad_fn.")
    return None


class _Value:
    """What `Repaired` is in the chapter: a rule that is handed the gradient."""

    def __init__(self, data: Array, made_from: tuple[Any, ...] = ()) -> None:
        self.data, self.made_from = data, made_from
        self.grad = np.zeros(data.shape)
        self.rule: Any = None


@exercise("8.2")
def _exp_without_circle(answer: Any) -> str | None:
    exp = as_function(answer, "exp")
    data = np.linspace(-1.0, 1.0, 5)
    value = _Value(data)
    seed = 1.0 + np.arange(5.0)
    out = exp(value)
    _look_at_value(out, np.exp(data), value)
    _call_rule(out, np.ones(5))
    ones = value.grad.copy()
    if not ones.any():
        raise Wrong("The rule leaves `value.grad` at 0: nothing is added to it.")
    _call_rule(out, seed)
    got = value.grad - ones
    compare_grads(ones, np.exp(data), ones, np.ones(5), "The gradient")
    if same(value.grad, seed * np.exp(data)):
        raise Wrong("The rule overwrites `value.grad`. A value may be used twice: add to it.")
    compare_grads(got, seed * np.exp(data), ones, seed, "The gradient")
    running = gc.isenabled()
    gc.disable()
    try:
        watch = weakref.ref(out)
        del out
        alive = watch() is not None
    finally:
        if running:
            gc.enable()
    if alive:
        raise Wrong(
            "The gradient is right, but with the collector off the result outlives its last name: "
            "its rule leads back to it."
        )
    return None


def _look_at_value(out: Any, want: Array, value: Any) -> None:
    if out is None:
        raise Wrong("`exp` returns None: a line with `return` is missing.")
    if not hasattr(out, "data") or not hasattr(out, "rule"):
        raise Wrong(f"`exp` must return a value as `tanh` does, not a {type(out).__name__}.")
    if not same(as_array(out.data, "`data`", want.shape), want):
        raise Wrong("`data` has other numbers than the exponential function.")
    if value not in tuple(out.made_from):
        raise Wrong("The result does not say what it was made from, so backward never gets there.")
    if out.rule is None:
        raise Wrong("The result has no rule: give it one, as `tanh` does.")


def _call_rule(out: Any, grad: Array) -> None:
    out.grad = grad  # for a rule that reads it there
    try:
        out.rule(grad)
    except TypeError as error:
        if "positional argument" in str(error):
            raise Wrong("The rule of a `Repaired` takes one argument, the gradient.") from None
        raise


@exercise("8.3")
def _leak_hunt(answer: Any) -> str | None:
    train = as_function(answer, "train")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        few, many = _measure(train, 4), _measure(train, 14)
        losses = train(*_inputs(2))[0]
    returned, circles, outside = ((b - a) // 10 for a, b in zip(few, many, strict=True))
    held = {
        "in what `train` returns": returned,
        "in circles": circles,
        "held from elsewhere": outside,
    }
    told = ", ".join(f"{in_bytes(n)} {where}" for where, n in held.items() if n > 0)
    owns_graph = any(lm.is_tensor(loss) and loss.grad_fn is not None for loss in losses)
    leaks = [w for w in caught if issubclass(w.category, lm.errors.LeakWarning)]
    by_hook = any(w.category is lm.errors.HookCaptureWarning for w in leaks)
    if owns_graph and by_hook and lm.autograd.stats(losses[0])["attribute_bytes"]:
        raise Unsolved(f"Every batch leaves behind: {told}.")
    if returned + circles + outside > SMALL:
        raise Wrong(f"The numbers are right, but every batch still leaves behind: {told}.")
    if owns_graph:
        raise Wrong("The large arrays are gone, but each loss you return still owns a graph.")
    if leaks:
        raise Wrong(str(leaks[0].message))
    return "Nothing but numbers is left."


def _inputs(count: int) -> tuple[Any, list[Any]]:
    weight = lm.tensor(np.linspace(-0.5, 0.6, 64).reshape(8, 8), requires_grad=True)
    batches = [lm.tensor(np.linspace(-1, 1 + k, 128).reshape(16, 8)) for k in range(count)]
    return weight, batches


def _measure(train: Callable[..., Any], count: int) -> tuple[int, int, int]:
    """Bytes left with the collector off: through what is returned, in circles, from elsewhere."""
    weight, batches = _inputs(count)
    running = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with lm.lifetime.trace() as trace:
            result = train(weight, batches)
            with_result = trace.live_bytes()
            numbers = _numbers(result)
            del result
            without = trace.live_bytes()
            gc.collect()
            collected = trace.live_bytes()
    finally:
        if running:
            gc.enable()
    _compare_numbers(numbers, weight, count)
    return with_result - without, without - collected, collected


def _numbers(result: Any) -> tuple[list[Any], ...]:
    """What `train` returned, tensors read as numbers."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise Wrong("`train` must return the losses and the ratios, as it did.")
    if not all(isinstance(part, list | tuple) for part in result):
        raise Wrong("`train` must return two lists, as it did.")
    return tuple([v.tolist() if lm.is_tensor(v) else v for v in part] for part in result)


def _compare_numbers(numbers: tuple[list[Any], ...], weight: Any, count: int) -> None:
    want_weight, batches = _inputs(count)
    want: Array = want_weight.numpy().copy()
    for at, batch in enumerate(batches):
        x = batch.numpy()
        h = np.tanh(x @ want)
        grad = 2 * h / h.size
        right = {"loss": (h * h).mean(), "ratio": (grad * grad).sum() / (h * h).sum()}
        for (name, value), given in zip(right.items(), numbers, strict=True):
            if len(given) != count:
                raise Wrong(
                    f"For {count} batches, `train` gives {len(given)} of the number {name}."
                )
            got = as_number(given[at], f"a list with a number for each {name}")
            if not np.isclose(got, value, rtol=1e-7):
                raise Wrong(f"The {name} of batch {at + 1} has changed: it was {value:.6f}.")
        want = want - 0.1 * (x.T @ (grad * (1 - h * h)))
    if not same(weight.numpy(), want):
        raise Wrong("The losses are as before, but W is not: the last update is missing.")
