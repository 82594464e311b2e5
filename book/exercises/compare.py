"""What the checkers of all chapters compare with: numbers, arrays, gradients, bytes, Functions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import lucid_mini as lm

from .core import Unsolved, Wrong

Array = np.ndarray[Any, Any]


def as_number(answer: Any, what: str) -> float:
    """`answer` as a float, or Wrong; `what` says what it should have been."""
    if isinstance(answer, bool) or not isinstance(answer, int | float | np.integer | np.floating):
        raise Wrong(f"The answer is {what}, and yours is of type {type(answer).__name__}.")
    return float(answer)


def as_function(answer: Any, name: str) -> Any:
    """`answer`, if it can be called and is no class, or Wrong."""
    if isinstance(answer, type) or not callable(answer):
        raise Wrong(
            f"Pass the function `{name}` itself; you passed something of type "
            f"{type(answer).__name__}."
        )
    return answer


def as_array(value: Any, what: str, shape: tuple[int, ...]) -> Array:
    """`value` as an array of `shape`, or Wrong."""
    if value is None:
        raise Wrong(f"{what} is None: a line with `return` is missing.")
    if value is ...:
        raise Unsolved(f"{what} is still ...")
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise Wrong(f"{what} is of type {type(value).__name__}; it must be numbers.") from None
    if array.shape != shape:
        raise Wrong(f"{what} has shape {array.shape}, and it must have shape {shape}.")
    return array


def same(a: Array, b: Array) -> bool:
    """Whether two arrays have the same shape and, rounding aside, the same values."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-6, atol=1e-9))


def compare_grads(got: Array, want: Array, ones: Array, seed: Array, what: str) -> None:
    """Raise Wrong where `got`, for the incoming gradient `seed`, is not `want`.

    `ones`: what the answer gives for an incoming gradient of ones.
    """
    if same(got, want):
        return
    if same(got, ones) and not same(want, ones):
        raise Wrong(
            f"{what} is the same for every incoming gradient: your rule ignores `grad`, the "
            f"derivative that arrives from above. The chain rule multiplies by it."
        )
    if got.ndim == 2 and got.shape[0] == got.shape[1] and same(got.T, want):
        raise Wrong(f"{what} lies along the wrong axis: rows and columns have changed places.")
    if same(-got, want):
        raise Wrong(f"{what} has the wrong sign.")
    with np.errstate(all="ignore"):
        ratio = got / want
    if np.all(np.isfinite(ratio)) and np.allclose(ratio, ratio.flat[0]):
        raise Wrong(f"{what} is {ratio.flat[0]:.4g} times what it must be, everywhere.")
    at = np.unravel_index(np.argmax(~np.isclose(got, want)), got.shape)
    raise Wrong(
        f"{what} is wrong, for example at index {_index(at)}: a finite difference gives "
        f"{want[at]:.4f} there, and your rule {got[at]:.4f}."
    )


def _index(at: Sequence[Any]) -> str:
    numbers = tuple(int(i) for i in at)
    return str(numbers[0]) if len(numbers) == 1 else str(numbers)


def in_bytes(count: int) -> str:
    """`1,024 bytes`."""
    return f"{count:,} bytes"


def owned(arrays: Sequence[Any]) -> int:
    """Bytes of the owning arrays, each counted once."""
    owners: dict[int, Array] = {}
    for value in arrays:
        array = np.asarray(value)
        while isinstance(array.base, np.ndarray):
            array = array.base
        owners[id(array)] = array
    return sum(array.nbytes for array in owners.values())


# -- Functions ------------------------------------------------------------------------------------


def function_class(answer: Any) -> Any:
    """`answer`, if it is a Function, or Wrong."""
    if not (isinstance(answer, type) and issubclass(answer, lm.autograd.Function)):
        raise Wrong(
            f"The answer is a class derived from lm.autograd.Function, and yours is of type "
            f"{type(answer).__name__}. Pass the class itself, not the result of apply."
        )
    return answer


def try_function(
    function: Any,
    arrays: Sequence[Array],
    rest: tuple[Any, ...],
    value: Array,
    grads: Callable[[Array], Sequence[Array | None]],
    names: Sequence[str],
    least: int,
    why: str = "",
) -> None:
    """Run a Function forward and backward, and raise Wrong at the first thing that is not right.

    `grads(seed)`: what the gradients must be, None for an argument that needs none.
    `least`: the bytes that the rule needs.
    """
    wanted = grads(np.ones(value.shape))

    def call(seed: Array) -> tuple[list[Array | None], int, int]:
        inputs = [
            lm.tensor(a, requires_grad=g is not None) for a, g in zip(arrays, wanted, strict=True)
        ]
        output = function.apply(*inputs, *rest)
        if type(output) is not lm.Tensor:
            raise Wrong(f"`forward` gives a {type(output).__name__}, and it must give a tensor.")
        if not same(output.numpy(), value):
            if output.shape != value.shape:
                raise Wrong(
                    f"`forward` gives shape {output.shape}, and it must give {value.shape}."
                )
            raise Wrong("`forward` gives other values than the formula.")
        counts = lm.autograd.stats(output)
        output.backward(lm.tensor(seed))
        got: list[Array | None] = []
        for tensor, want, name in zip(inputs, wanted, names, strict=True):
            if want is not None and tensor.grad is None:
                raise Wrong(f"`backward` returns None for `{name}`, which needs a gradient.")
            got.append(None if tensor.grad is None else tensor.grad.numpy())
        return got, counts["saved_bytes"], counts["attribute_bytes"]

    seed = 1.0 + np.arange(value.size, dtype=float).reshape(value.shape)
    with_ones, saved, attributes = call(np.ones(value.shape))
    with_seed, _, _ = call(seed)
    for got, ones, want, name in zip(with_seed, with_ones, grads(seed), names, strict=True):
        if got is not None and want is not None and ones is not None:
            compare_grads(got, want, ones, seed, f"The gradient of `{name}`")
    if attributes:
        raise Wrong(
            f"The gradient is right, but {in_bytes(attributes)} lie in an attribute of ctx, where "
            f"nothing checks them and backward does not release them."
        )
    if saved > least:
        raise Wrong(
            f"The gradient is right, but ctx keeps {in_bytes(saved - least)} more than the rule "
            f"needs{why}."
        )
