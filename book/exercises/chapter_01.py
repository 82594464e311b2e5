"""The exercises of chapter 1."""

from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import as_array, as_function, as_number, compare_grads, in_bytes, owned, same
from .core import Wrong, exercise


@exercise("1.1")
def _bytes_of_a_chain(answer: Any) -> str | None:
    x = lm.tensor(np.linspace(0.0, 1.0, 1000), requires_grad=True)
    saved = lm.lifetime.saved(lm.sin(lm.exp(x))).nbytes
    given = as_number(answer, "a number of bytes")
    if given == saved:
        return "The output of exp is the input of sin: one buffer, kept once."
    if given == x.numel():
        raise Wrong("That is the number of values; one float64 has more than one byte.")
    if given == 2 * saved:
        raise Wrong("You count one buffer twice. What is the output of exp to sin?")
    if given == 3 * saved:
        raise Wrong("You count values that no local derivative reads.")
    if given == 0:
        raise Wrong("Both local derivatives read something: look at the table above.")
    raise Wrong(
        f"{given:.0f} bytes have room for {given / 8:.0f} of the numbers. How many buffers of "
        f"1000 do the two ops keep?"
    )


@exercise("1.2")
def _sine_of_square(answer: Any) -> str | None:
    rule = as_function(answer, "rule")
    x = np.array([0.5, -1.2, 2.0])
    seed = np.array([1.0, 10.0, -3.0])
    want = np.cos(x * x) * 2 * x * seed
    ones = as_array(rule(x, np.ones(3)), "Your result", x.shape)
    got = as_array(rule(x, seed), "Your result", x.shape)
    if same(got, np.cos(x * x) * seed):
        raise Wrong("One factor is missing: the derivative of the inner function, $x^2$.")
    compare_grads(got, want, ones, seed, "The gradient")
    return None


@exercise("1.3")
def _two_inputs(*answer: Any) -> str | None:
    if len(answer) != 2:
        raise Wrong('Pass both functions: check("1.3", forward, backward).')
    forward, backward = as_function(answer[0], "forward"), as_function(answer[1], "backward")
    a, b = np.linspace(-1.0, 1.0, 5), np.linspace(2.0, 0.5, 5)
    given = a.copy(), b.copy()
    result = forward(*given)
    if not isinstance(result, tuple) or len(result) != 2:
        raise Wrong("`forward` must return two things: y, and a tuple of what backward will read.")
    y, kept = result
    if not isinstance(kept, tuple | list):
        raise Wrong(f"What `forward` keeps must be a tuple of arrays, not {type(kept).__name__}.")
    if not same(as_array(y, "y", a.shape), np.exp(a * b) + np.sin(a)):
        raise Wrong("`forward` gives another y than the formula.")
    seed = np.arange(1.0, 6.0)
    grads = {}
    for name, s in (("ones", np.ones(5)), ("seed", seed)):
        pair = backward(kept, s)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Wrong("`backward` must return two gradients: that of a, then that of b.")
        grads[name] = [
            as_array(g, f"The gradient of `{n}`", a.shape) for g, n in zip(pair, "ab", strict=True)
        ]
    e = np.exp(a * b)
    if same(grads["seed"][0], seed * e * b) or same(grads["seed"][0], seed * np.cos(a)):
        raise Wrong("`a` is used twice, and your gradient of `a` counts one of the two ways only.")
    for at, want in enumerate((seed * (e * b + np.cos(a)), seed * e * a)):
        name = f"The gradient of `{'ab'[at]}`"
        compare_grads(grads["seed"][at], want, grads["ones"][at], seed, name)
    least, keeps = 3 * a.nbytes, owned(kept)
    if keeps > least:
        raise Wrong(
            f"The gradients are right, but you keep {in_bytes(keeps - least)} more than needed."
        )
    if keeps < least:
        return "You keep less, and compute something a second time: that is chapter 11."
    return None
