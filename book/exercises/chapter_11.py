"""The exercises of chapter 11."""

from collections.abc import Callable
from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import Array, as_function, compare_grads, function_class, in_bytes, owned, same
from .core import Unsolved, Wrong, exercise


def _values(n: int = 48) -> Array:
    values: Array = np.sin(np.arange(n * 4) * 0.7).reshape(n, 4)
    return values


def _arrays(kept: Any) -> list[Array]:
    """The arrays in what a pack returned."""
    if isinstance(kept, dict):
        kept = list(kept.values())
    if isinstance(kept, tuple | list):
        return [array for part in kept for array in _arrays(part)]
    if lm.is_tensor(kept):
        return [kept.numpy()]
    if isinstance(kept, bytes):
        return [np.frombuffer(kept, np.uint8)]
    return [kept] if isinstance(kept, np.ndarray) else []


def _packed(
    names: tuple[str, str], answer: tuple[Any, ...], number: str, program: Callable[[Any], Any]
) -> tuple[Array, Array, int, int]:
    """The gradient with the hooks of `answer` and without, bytes before packing and after."""
    if len(answer) != 2:
        raise Wrong(f'Pass both functions: check("{number}", {names[0]}, {names[1]}).')
    pack, unpack = (as_function(a, name) for a, name in zip(answer, names, strict=True))
    before: list[Any] = []
    after: list[Array] = []

    def put(tensor: Any) -> Any:
        kept = pack(tensor)
        if kept is None:
            raise Wrong(f"`{names[0]}` returns None: a line with `return` is missing.")
        if kept is ...:
            raise Unsolved(f"`{names[0]}` still returns ...")
        before.append(tensor.numpy())
        after.extend(_arrays(kept))
        return kept

    def take(kept: Any) -> Any:
        found = unpack(kept)
        if found is None:
            raise Wrong(f"`{names[1]}` returns None: a line with `return` is missing.")
        if found is ...:
            raise Unsolved(f"`{names[1]}` still returns ...")
        return found

    grads = []
    for hooked in (False, True):
        x = lm.tensor(_values(), requires_grad=True)
        if hooked:
            with lm.autograd.saved_tensors_hooks(put, take):
                loss = program(x)
        else:
            loss = program(x)
        loss.backward()
        grads.append(np.asarray(x.grad))
    return grads[1], grads[0], owned(before), owned(after)


@exercise("11.1")
def _from_half(*answer: Any) -> str | None:
    got, want, before, after = _packed(
        ("to_half", "from_half"), answer, "11.1", lambda x: (x.exp() * 0.5).tanh().sum()
    )
    if not np.allclose(got, want, rtol=1e-4, atol=1e-5):
        raise Wrong("The gradient is another one: what you return has other values than were kept.")
    return f"{before:,} bytes became {after:,}; the gradient is right to about 7 digits."


@exercise("11.2")
def _sparse(*answer: Any) -> str | None:
    got, want, before, after = _packed(
        ("squeeze", "stretch"),
        answer,
        "11.2",
        lambda x: (
            ((x - 0.5).relu().reshape(8, 24) @ lm.full((24, 5), 0.3)).tanh().sum()
            + ((x - 0.5).relu() ** 3).sum()
        ),
    )
    if not same(got, want):
        raise Wrong("The gradient is another one: a number is lost, or comes back elsewhere.")
    if after >= before:
        raise Wrong(
            f"The gradient is right, and what you keep has {in_bytes(after)}, against "
            f"{in_bytes(before)} unpacked: nothing is saved."
        )
    if after > 0.8 * before:
        raise Wrong(
            f"The gradient is right, and you keep {in_bytes(after)} of {in_bytes(before)}: the "
            f"places take too much. One bit, or one byte, says whether a number is 0."
        )
    return f"{before:,} bytes became {after:,}."


@exercise("11.3")
def _again(answer: Any) -> str | None:
    function = function_class(answer)
    runs: list[bool] = []

    def fn(x: Any) -> Any:
        runs.append(lm.is_grad_enabled())
        return (x.exp() * x).tanh() * x

    def gradient(call: Callable[[Any], Any], seed: Array) -> Array:
        x = lm.tensor(_values(), requires_grad=True)
        call(x).backward(lm.tensor(seed))
        if x.grad is None:
            raise Wrong("`backward` returns None for `x`, which needs a gradient.")
        return np.array(x.grad.numpy())

    ones = np.ones(_values().shape)
    seed = 1.0 + np.arange(ones.size, dtype=float).reshape(ones.shape)
    want = gradient(fn, seed)
    x = lm.tensor(_values(), requires_grad=True)
    runs.clear()
    y = function.apply(fn, x)
    if y is None or type(y) is not lm.Tensor:
        raise Wrong(f"`forward` gives a {type(y).__name__}, and it must give what `fn` gives.")
    with lm.no_grad():
        if not same(y.numpy(), fn(x).numpy()):
            raise Wrong("`forward` gives other values than `fn`.")
    counts = lm.autograd.stats(y)
    if counts["nodes"] != 1:
        raise Wrong(f"{counts['nodes']} nodes were recorded, and one is enough.")
    kept = counts["saved_bytes"] + counts["attribute_bytes"]
    if kept > x.numpy().nbytes:
        raise Wrong(f"You keep {in_bytes(kept - x.numpy().nbytes)} more than `x`.")
    if counts["attribute_bytes"]:
        raise Wrong("`x` lies in an attribute of ctx, where backward does not release it.")
    runs.clear()
    y.backward(lm.tensor(seed))
    if not runs:
        raise Wrong("`fn` does not run in backward: its values must come from somewhere.")
    if len(runs) > 1:
        raise Wrong(f"In backward `fn` runs {len(runs)} times, and once is enough.")
    if x.grad is None:
        raise Wrong("`backward` returns None for `x`, which needs a gradient.")
    first = gradient(lambda x: function.apply(fn, x), ones)
    compare_grads(x.grad.numpy(), want, first, seed, "The gradient of `x`")
    return f"{in_bytes(kept)} kept, `fn` run twice."
