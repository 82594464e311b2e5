"""The exercises of chapter 10."""

from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import Array, as_array, as_function, compare_grads, function_class, in_bytes, same
from .core import Unsolved, Wrong, exercise


def _undone(grad: Array, shape: tuple[int, ...]) -> Array:
    """`grad` summed to `shape`."""
    lead = grad.ndim - len(shape)
    stretched = tuple(lead + axis for axis, n in enumerate(shape) if n == 1)
    total: Array = grad.sum(axis=tuple(range(lead)) + stretched).reshape(shape)
    return total


def _compare_sums(got: Any, grad: Array, shape: tuple[int, ...]) -> None:
    if lm.is_tensor(got):
        got = got.detach().numpy()
    what = f"For a gradient of shape {grad.shape} and an input of shape {shape}, the result"
    array = as_array(got, what, np.shape(got)) if got is not None else as_array(got, what, shape)
    if array.shape != shape:
        if array.size == int(np.prod(shape)):
            raise Wrong(
                f"{what} has shape {array.shape}: an axis of length 1 has to stay where it was, "
                f"and no other is to be left."
            )
        raise Wrong(
            f"{what} has shape {array.shape}. Sum over each axis along which forward repeated, "
            f"and over no other."
        )
    want = _undone(grad, shape)
    if same(array, want):
        return
    with np.errstate(all="ignore"):
        ratio = array / want
    if np.all(np.isfinite(ratio)) and np.allclose(ratio, ratio.flat[0]):
        raise Wrong(f"{what} is {ratio.flat[0]:.4g} times what it must be: a sum is no mean.")
    raise Wrong(f"{what} has the right shape and wrong numbers: is it a sum, and of which axes?")


def _gradient(*shape: int) -> Array:
    """Numbers, all different, none 0."""
    return 1.0 + np.arange(float(np.prod(shape))).reshape(shape)


@exercise("10.1")
def _undo_one(answer: Any) -> str | None:
    undo = as_function(answer, "undo")
    grad = _gradient(5, 4, 3)
    _compare_sums(undo(lm.tensor(grad)), grad, (4, 1))
    return None


@exercise("10.2")
def _sum_and_difference(answer: Any) -> str | None:
    function = function_class(answer)
    first, second = np.linspace(-1.0, 1.0, 4), np.linspace(2.0, 3.0, 4)
    seeds = np.arange(1.0, 5.0), np.array([0.5, -1.0, 2.0, 3.0])
    for used in ((True, True), (True, False), (False, True)):
        a, b = lm.tensor(first, requires_grad=True), lm.tensor(second, requires_grad=True)
        out = function.apply(a, b)
        if not isinstance(out, tuple) or len(out) != 2:
            raise Wrong("`forward` must return two tensors, the sum and the difference.")
        for tensor, want, name in zip(out, (first + second, first - second), _NAMES, strict=True):
            if not lm.is_tensor(tensor) or not same(tensor.numpy(), want):
                raise Wrong(f"`forward` gives another {name} than it should.")
        counts = lm.autograd.stats(out[0])
        kept = counts["saved_bytes"] + counts["attribute_bytes"]
        roots = [tensor for tensor, use in zip(out, used, strict=True) if use]
        given = [seed for seed, use in zip(seeds, used, strict=True) if use]
        lm.autograd.backward(roots, [lm.tensor(seed) for seed in given])
        by_sum, by_diff = (s if use else np.zeros(4) for s, use in zip(seeds, used, strict=True))
        for tensor, want, name in ((a, by_sum + by_diff, "a"), (b, by_sum - by_diff, "b")):
            if tensor.grad is None:
                raise Wrong(f"`backward` returns None for `{name}`, which needs a gradient.")
            got = tensor.grad.numpy()
            what = f"The gradient of `{name}`"
            if not all(used):
                what += f", if only the {_NAMES[used.index(True)]} is used,"
            compare_grads(got, want, np.full(4, np.nan), np.ones(4), what)
        if kept:
            raise Wrong(f"The gradients are right, but ctx keeps {in_bytes(kept)} for nothing.")
    return None


_NAMES = ("sum", "difference")

#: Gradient and input shapes: equal, added axes, stretched axes, both, a scalar, a length of 1 kept.
_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((4, 3), (4, 3)),
    ((4, 3), (3,)),
    ((4, 3), (4, 1)),
    ((5, 4, 3), (1, 3)),
    ((5, 4, 3), (5, 1, 1)),
    ((4, 3), ()),
    ((1, 3), (1, 3)),
    ((4, 4), (4, 1)),
)


@exercise("10.3")
def _general_rule(answer: Any) -> str | None:
    sum_to = as_function(answer, "sum_to")
    for large, small in _CASES:
        grad = _gradient(*large)
        before = grad.copy()
        got = sum_to(grad, small)
        if got is ...:
            raise Unsolved("`sum_to` still returns ...")
        _compare_sums(got, before, small)
        if not same(grad, before):
            raise Wrong("The sums are right, but `grad` itself was changed: it is not yours.")
    return f"In all {len(_CASES)} cases."
