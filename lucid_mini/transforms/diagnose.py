"""What kind of mistake a wrong gradient is: the explanations of `gradcheck`.

Each function looks for one kind, and answers with a sentence or "". They see the two matrices of a
Pair (rows: elements of the output, columns: of the input), and may run more passes.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..autograd.shapes import broadcasts_to, stretched_axes

Array = NDArray[Any]
#: `pull(output number, seed)`: the gradients that arrive at the inputs.
Pull = Callable[[int, Array], list[Array]]


class Numbers(NamedTuple):
    """Slopes by differences: from both sides, from the right alone, from the left alone."""

    central: Array
    right: Array
    left: Array

    @classmethod
    def empty(cls, rows: int, columns: int) -> "Numbers":
        """Slopes to be filled in."""
        return cls(*[np.zeros((rows, columns)) for _ in range(3)])

    def note(self, column: int, plus: Array, value: Array, minus: Array, eps: float) -> None:
        """Fill in the slopes along one element of the input."""
        p, v, m = (array.reshape(-1).astype(np.float64) for array in (plus, value, minus))
        with np.errstate(invalid="ignore"):
            self.central[:, column] = (p - m) / (2 * eps)
            self.right[:, column] = (p - v) / eps
            self.left[:, column] = (v - m) / eps


class Pair:
    """The derivatives of one output by one input, from the rules and from differences."""

    def __init__(
        self,
        output: int,
        input: int,
        position: int,
        name: str,
        output_shape: tuple[int, ...],
        input_shape: tuple[int, ...],
        dtype: np.dtype[Any],
        numbers: Numbers,
    ) -> None:
        self.output, self.input, self.name = output, input, name
        self.position = position  # among the inputs that are checked
        self.output_shape, self.input_shape, self.dtype = output_shape, input_shape, dtype
        self.numbers = numbers
        self.analytic = np.zeros_like(numbers.central)

    def close(self, atol: float, rtol: float) -> Array:
        """Where the two agree."""
        numeric = self.numbers.central
        return np.isclose(self.analytic, numeric, rtol=rtol, atol=atol, equal_nan=True)

    def place(self, row: int | None = None, column: int | None = None) -> str:
        """`d output 0[1, 2] / d input 1 'b'[0]`, without the elements where none are given."""
        name = f" '{self.name}'" if self.name else ""
        return (
            f"d output {self.output}{_element(row, self.output_shape)} / "
            f"d input {self.input}{name}{_element(column, self.input_shape)}"
        )


def _element(flat: int | None, shape: tuple[int, ...]) -> str:
    if flat is None or not shape:
        return ""
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(flat, shape))}]"


# -- seeds ----------------------------------------------------------------------------------------


class Seed(NamedTuple):
    """A gradient to start from, and how it lies in memory."""

    array: Array
    layout: str


def random(shape: tuple[int, ...], dtype: Any, salt: int = 0) -> Array:
    """Numbers between 0.5 and 1.5 of either sign: the same in every run, and none near 0."""
    count = int(np.prod(shape, dtype=int))
    # The golden ratio's multiples fall evenly and never repeat; no generator is touched, none
    # imported.
    even = np.modf((np.arange(count) + 1 + 31 * salt) * 0.6180339887498949)[0]
    signs = np.where(np.modf(even * 7.0)[0] < 0.5, -1.0, 1.0)
    return np.asarray(((0.5 + even) * signs).reshape(shape), dtype=dtype)


def seeds(value: Array) -> list[Seed]:
    """Seeds for an output like `value`: contiguous twice, then as other ops would hand them."""
    shape, dtype = value.shape, value.dtype
    plain = random(shape, dtype)
    found = [Seed(plain, "contiguous"), Seed(np.asarray(random(shape, dtype, 1) * 3), "contiguous")]
    if len(shape) >= 2:
        found.append(Seed(np.asfortranarray(plain), "transposed"))
    if shape:
        # What lies between the elements must never be read.
        wide = np.full((*shape[:-1], 2 * shape[-1]), np.nan, dtype)
        wide[..., ::2] = plain
        found.append(Seed(wide[..., ::2], "sliced"))
        found.append(Seed(np.broadcast_to(np.asarray(1.25, dtype), shape), "expanded"))
    return found


def seeds_of(pair: Pair) -> list[Seed]:
    """Seeds for the output of `pair`."""
    return seeds(np.empty(pair.output_shape, pair.dtype))


def layout(seed: Seed, what: str) -> str:
    """The explanation where only the layout of the seed was another."""
    return (
        "backward assumes contiguous gradients: with "
        f"{'an' if seed.layout[0] in 'aeiou' else 'a'} {seed.layout} one (strides "
        f"{seed.array.strides}) it {what}. Do not read its memory; index, reshape or copy it."
    )


def seed_use(pull: Pull, pair: Pair) -> str:
    """The explanation where one seed a time is right, and a general one is not."""
    return _ignores_seed(pull, pair) or (
        "backward is not linear in grad_output: the gradient for a sum of seeds is not the sum "
        "of the gradients. Multiply by grad_output, once."
    )


# -- the matrices differ --------------------------------------------------------------------------


def worst(pair: Pair, atol: float, rtol: float) -> tuple[int, int]:
    """The element that differs most, one without a kink if there is any."""
    wrong = ~pair.close(atol, rtol)
    smooth = wrong & ~_kinks(pair, atol, rtol)
    difference = np.abs(np.nan_to_num(pair.analytic - pair.numbers.central, nan=np.inf))
    scores = np.where(smooth if smooth.any() else wrong, difference, -1.0)
    row, column = np.unravel_index(int(np.argmax(scores)), scores.shape)
    return int(row), int(column)


def mismatch(pull: Pull, pair: Pair, atol: float, rtol: float) -> str:
    """Why the two matrices differ, or what is known of it."""
    return (
        _ignores_seed(pull, pair)
        or _precision(pair)
        or _undefined(pair, atol, rtol)
        or _kink(pair, atol, rtol)
        or _wrong_axis(pull, pair)
        or _lost(pair)
        or _factor(pair)
        or "The rule and the function do not agree."
    )


def _ignores_seed(pull: Pull, pair: Pair) -> str:
    """The gradient is the same whatever arrives."""
    if not pair.analytic.size:
        return ""
    plain = random(pair.output_shape, pair.dtype)
    one, other, none = (
        pull(pair.output, plain * factor)[pair.position] for factor in (1.0, -3.0, 0.0)
    )
    if np.array_equal(one, other) and np.array_equal(one, none) and one.any():
        return (
            "backward ignores grad_output: the gradient is the same whatever arrives. Multiply by "
            "grad_output."
        )
    return ""


def _precision(pair: Pair) -> str:
    if pair.dtype.itemsize >= 8:
        return ""
    return (
        f"The input is {pair.dtype}, whose precision is too low for these differences. Check with "
        f"float64 (`x.to(float)`), or with a larger eps, atol and rtol."
    )


def _undefined(pair: Pair, atol: float, rtol: float) -> str:
    row, column = worst(pair, atol, rtol)
    if np.isfinite([side[row, column] for side in pair.numbers]).all():
        return ""
    return (
        "The function is not finite within eps of this input, so there is no slope to compare "
        "with. Check elsewhere."
    )


def _kinks(pair: Pair, atol: float, rtol: float) -> Array:
    """Where the slopes from the right and from the left disagree."""
    _, right, left = pair.numbers
    slack = 10 * (atol + rtol * np.maximum(np.abs(right), np.abs(left)))
    kinks: Array = np.abs(right - left) > slack
    return kinks


def _kink(pair: Pair, atol: float, rtol: float) -> str:
    row, column = worst(pair, atol, rtol)
    if not _kinks(pair, atol, rtol)[row, column]:
        return ""
    right, left = pair.numbers.right[row, column], pair.numbers.left[row, column]
    return (
        f"kink here: the slope is {left:.6g} from the left and {right:.6g} from the right, so "
        "there is no derivative to compare with. Move the input away from this point."
    )


def _wrong_axis(pull: Pull, pair: Pair) -> str:
    """The input was broadcast, and the rule sums over an axis along which it was not.

    With one input element behind each output element, the right gradient is grad_output times the
    slope of that element, summed over the stretched axes. The same summed over other axes is
    compared.
    """
    small, large = pair.input_shape, pair.output_shape
    numeric = pair.numbers.central
    if (
        not broadcasts_to(small, large)
        or (np.count_nonzero(np.abs(numeric) > 1e-8, axis=1) > 1).any()
    ):
        return ""
    stretched = stretched_axes(small, large)
    seed = random(large, pair.dtype)
    got = pull(pair.output, seed)[pair.position]
    terms = seed * numeric.sum(axis=1).reshape(large)
    for axes in combinations(range(len(large)), len(stretched)):
        total = terms.sum(axis=axes)
        if axes == stretched or total.size != got.size:
            continue
        if np.allclose(total.reshape(-1), got.reshape(-1), rtol=1e-4, atol=1e-5):
            return (
                f"wrong axis of a broadcast: backward sums over {_axes(axes)}, but broadcasting "
                f"from {small} to {large} stretched {_axes(stretched)}."
            )
    return ""


def _axes(axes: Sequence[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {tuple(axes)}"


def _lost(pair: Pair) -> str:
    if pair.analytic.any():
        return ""
    return (
        "No gradient arrives at all: backward returns None or zeros for this argument, or "
        "forward loses the history (an array, `.detach()`, `.numpy()`, mark_non_differentiable)."
    )


def _factor(pair: Pair) -> str:
    """The two differ by one factor everywhere."""
    numeric, analytic = pair.numbers.central, pair.analytic
    scale = float((analytic * numeric).sum() / (numeric * numeric).sum()) if numeric.any() else 0.0
    if not scale or not np.allclose(analytic, scale * numeric, rtol=1e-4, atol=1e-5):
        return ""
    if abs(scale + 1) < 1e-4:
        return "The sign is wrong, everywhere."
    return f"The analytic gradient is {scale:.4g} times the numeric one, everywhere."


# -- still alive ----------------------------------------------------------------------------------


def holder(alive: Sequence[tuple[str, Any]]) -> str:
    """Which ctx attribute closes a cycle, if one does."""
    for _, item in alive:
        if not hasattr(item, "ctx"):
            continue
        for key, value in item.ctx.__dict__.items():
            if getattr(value, "_node", None) is item and item is not None:
                return (
                    f" ctx.{key} of {item.function.__name__} holds an output of its own node; use "
                    f"ctx.save_for_backward, which keeps the array only."
                )
    return ""
