"""The exercises of chapter 2."""

from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import as_array, as_function, compare_grads, function_class, same, try_function
from .core import Wrong, exercise


@exercise("2.1")
def _sqrt_rule(answer: Any) -> str | None:
    rule = as_function(answer, "sqrt_backward")
    x = np.array([1.0, 4.0, 9.0])
    y, seed = np.sqrt(x), np.array([1.0, -2.0, 5.0])
    ones = as_array(rule(y, np.ones(3)), "Your result", y.shape)
    got = as_array(rule(y, seed), "Your result", y.shape)
    if same(got, seed / (2 * np.sqrt(y))):
        raise Wrong("You treat y as the input. It is the output: the root has been taken already.")
    compare_grads(got, seed / (2 * y), ones, seed, "The gradient")
    return None


@exercise("2.2")
def _row_sum(answer: Any) -> str | None:
    function = function_class(answer)
    columns = function.apply(lm.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    if lm.is_tensor(columns) and columns.shape == (3,):
        raise Wrong("`forward` sums along the wrong axis: it gives a number for each column.")
    x = np.arange(9.0).reshape(3, 3)
    try_function(
        function,
        [x],
        (),
        x.sum(1),
        lambda seed: [np.repeat(seed[:, None], 3, 1)],
        "x",
        0,
        ": no value of x stands in the derivative of a sum",
    )
    return None


@exercise("2.3")
def _scaled_product(answer: Any) -> str | None:
    function = function_class(answer)
    a, b, k = np.linspace(1.0, 2.0, 4), np.linspace(-1.0, 3.0, 4), 3.0
    cases: list[tuple[str, bool, bool]] = [
        ("", True, True),
        (" when only `a` needs a gradient", True, False),
        (" when only `b` needs a gradient", False, True),
    ]
    for why, need_a, need_b in cases:
        try_function(
            function,
            [a, b],
            (k,),
            k * a * b,
            lambda s, na=need_a, nb=need_b: [s * k * b if na else None, s * k * a if nb else None],
            "ab",
            a.nbytes * (need_a + need_b),
            why,
        )
    return None
