"""The exercises of chapter 9."""

from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import as_function, as_number, compare_grads, function_class, in_bytes, same
from .core import Unsolved, Wrong, exercise


@exercise("9.1")
def _version_of_a_view(answer: Any) -> str | None:
    h = lm.ones(3, requires_grad=True) * 2
    part = h[:2]
    part += 1
    _ = h + 1
    h *= 2
    given = as_number(answer, "a number of writes")
    if given == part._version:
        return "A view and its base share memory and version."
    if given == 1:
        raise Wrong("One of the writes you count. Which memory does the other one go to?")
    if given == 3:
        raise Wrong("`h + 1` makes a new tensor: it reads `h` and does not write into it.")
    if given == 0:
        raise Wrong("Both `part += 1` and `h *= 2` write in place.")
    raise Wrong("Count the writes into the memory that `part` shares.")


def _weight() -> Any:
    return lm.tensor(np.linspace(-0.5, 1.0, 5), requires_grad=True)


@exercise("9.2")
def _repaired_program(answer: Any) -> str | None:
    repaired = as_function(answer, "repaired")
    weight = _weight()
    loss = repaired(weight)
    if loss is ...:
        raise Unsolved("`repaired` still returns ...")
    if not lm.is_tensor(loss):
        raise Wrong(f"`repaired` must return the loss, and yours returns a {type(loss).__name__}.")
    e = np.exp(weight.numpy())
    low = e - 1
    if loss.shape != ():
        raise Wrong(f"The loss has shape {loss.shape}, and it is a single number.")
    if not np.isclose(loss.item(), e.sum() * (low * low).sum()):
        if np.isclose(loss.item(), low.sum() * (low * low).sum()):
            raise Wrong("`total` was the sum before 1 was taken away.")
        raise Wrong("The loss is another number than `program` computes.")
    if loss.grad_fn is None:
        raise Wrong("The loss has no history: what was cut is missing in the gradient.")
    loss.backward()
    if weight.grad is None:
        raise Wrong("`w.grad` is None after backward: the history does not lead to w.")
    want = e * (low * low).sum() + e.sum() * 2 * low * e
    compare_grads(weight.grad.numpy(), want, np.zeros(5), np.ones(5), "The gradient of `w`")
    return None


@exercise("9.3")
def _add_scaled(answer: Any) -> str | None:
    function = function_class(answer)
    first, second = np.linspace(-1.0, 1.0, 4), np.linspace(2.0, 3.0, 4)
    for k in (3.0, -0.5):
        a = lm.tensor(first, requires_grad=True)
        b = lm.tensor(second, requires_grad=True)
        target = a * 1
        out = function.apply(target, b, k)
        if not lm.is_tensor(out):
            raise Wrong(f"`forward` gives a {type(out).__name__}, and it must give `a`.")
        if not same(out.numpy(), first + k * second):
            raise Wrong("`forward` gives other values than a + k b.")
        if not np.shares_memory(out.numpy(), target.numpy()):
            raise Wrong("The values are right, but they lie in new memory: write into `a`.")
        counts = lm.autograd.stats(out)
        seed = np.arange(1.0, 5.0)
        out.backward(lm.tensor(seed))
        for tensor, factor, name in ((a, 1.0, "a"), (b, k, "b")):
            if tensor.grad is None:
                raise Wrong(f"`backward` returns None for `{name}`, which needs a gradient.")
            got = tensor.grad.numpy()
            ones = np.full(4, factor)
            compare_grads(got, seed * factor, ones, seed, f"The gradient of `{name}`")
        extra = counts["saved_bytes"] - 8  # `a * 1` keeps the 1, for the gradient of a
        extra = max(extra, 0) + counts["attribute_bytes"]
        if extra:
            raise Wrong(f"The gradients are right, but ctx keeps {in_bytes(extra)} for nothing.")
    return None
