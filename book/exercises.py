"""The exercises of the book, and what `check("2.1", answer)` says to an answer.

It prints one sentence: not solved yet, right, or what is wrong, without giving the answer away.
Whatever an answer does, the checker does not break: it tells an error as class, message and line.
"""

import dis
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import lucid_mini as lm
from lucid_mini.autograd.callsite import file_of
from lucid_mini.autograd.dump import stats

Array = np.ndarray[Any, Any]


class Wrong(Exception):  # noqa: N818
    """An answer is wrong; the message says in what way."""


class Unsolved(Exception):  # noqa: N818
    """Nothing was answered yet, or only a part; the message says which part is missing."""


#: The checkers by number. A checker returns what to add to "right", or None.
CHECKS: dict[str, Callable[..., str | None]] = {}


def check(exercise: str, *answer: Any) -> None:
    """Print what there is to say about the answer to `exercise`."""
    checker = CHECKS.get(str(exercise))
    if checker is None:
        print(f"There is no exercise {exercise}. There are: {', '.join(CHECKS)}.")
        return
    name = f"Exercise {exercise}"
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for part in answer:
                _refuse_unsolved(part)
            remark = checker(*answer)
    except Unsolved as what:
        print(f"{name}: not solved yet. {what}")
    except Wrong as what:
        print(f"{name}: not right yet. {what}")
    except KeyboardInterrupt:
        print(f"{name}: stopped.")
    except BaseException as error:  # whatever an answer raises is told, SystemExit too
        print(f"{name}: not right yet. Your code raised {_told(error)}")
    else:
        if leaks := [w for w in caught if issubclass(w.category, lm.errors.LeakWarning)]:
            print(f"{name}: not right yet. {leaks[0].message}")
        else:
            print(f"{name}: right." + (f" {remark}" if remark else ""))


def reveal(guess: Any, measured: Any) -> None:
    """Print a prediction beside what was measured."""
    if guess is ...:
        print(f"Measured: {_value(measured)}. You made no prediction; the next one is yours.")
    elif guess == measured:
        print(f"Measured: {_value(measured)}. As you predicted.")
    else:
        print(f"Measured: {_value(measured)}. You predicted {_value(guess)}: find out why.")


def _value(value: Any) -> str:
    if isinstance(value, set | frozenset):
        return ", ".join(sorted(map(str, value))) or "nothing"
    return str(value)


def _exercise(number: str) -> Callable[[Callable[..., str | None]], Callable[..., str | None]]:
    def register(checker: Callable[..., str | None]) -> Callable[..., str | None]:
        CHECKS[number] = checker
        return checker

    return register


# -- unsolved, crashed ----------------------------------------------------------------------------


def _refuse_unsolved(part: Any) -> None:
    """Raise Unsolved where a part of the answer is still the `...` of the task."""
    if part is ...:
        raise Unsolved("Replace the ... by your answer.")
    if isinstance(part, types.FunctionType) and _gives_dots(part):
        raise Unsolved(f"`{part.__name__}` still returns ...")
    if isinstance(part, type) and issubclass(part, lm.autograd.Function):
        open_ = [name for name in ("forward", "backward") if _gives_dots(getattr(part, name))]
        if len(open_) == 2:
            raise Unsolved("`forward` and `backward` still return ...")
        if open_:
            raise Unsolved(f"One half is there; `{open_[0]}` still returns ...")


def _gives_dots(function: Any) -> bool:
    """Whether `function` has a line `return ...`."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("CACHE", "NOP")]
    return any(
        step.argval is ...
        and (step.opname == "RETURN_CONST" or after is None or after.opname == "RETURN_VALUE")
        for step, after in zip(steps, [*steps[1:], None], strict=True)
    )


def _told(error: BaseException) -> str:
    """An error as class, message and line of the answer."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if trace.tb_frame.f_globals.get("__name__", "").split(".")[0] not in _INSIDE:
            line = trace.tb_lineno - code.co_firstlineno + 1
            if file_of(code).startswith(("In[", "Cell")) or code.co_filename != __file__:
                where = f" (line {line} of `{code.co_name}`)"
        trace = trace.tb_next
    message = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}{': ' if message else ''}{message}{where}"


_INSIDE = frozenset({"lucid_mini", "numpy", __name__.split(".")[0], "book", "contextlib"})


# -- comparing ------------------------------------------------------------------------------------


def _number(answer: Any, what: str) -> float:
    if isinstance(answer, bool) or not isinstance(answer, int | float | np.integer | np.floating):
        raise Wrong(f"The answer is {what}, and yours is of type {type(answer).__name__}.")
    return float(answer)


def _callable(answer: Any, name: str) -> Any:
    if isinstance(answer, type) or not callable(answer):
        raise Wrong(
            f"Pass the function `{name}` itself; you passed something of type "
            f"{type(answer).__name__}."
        )
    return answer


def _array(value: Any, what: str, shape: tuple[int, ...]) -> Array:
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


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-6, atol=1e-9))


def _compare_grads(got: Array, want: Array, ones: Array, seed: Array, what: str) -> None:
    """Raise Wrong where `got`, for the incoming gradient `seed`, is not `want`.

    `ones`: what the answer gives for an incoming gradient of ones.
    """
    if _same(got, want):
        return
    if _same(got, ones) and not _same(want, ones):
        raise Wrong(
            f"{what} is the same for every incoming gradient: your rule ignores `grad`, the "
            f"derivative that arrives from above. The chain rule multiplies by it."
        )
    if got.ndim == 2 and got.shape[0] == got.shape[1] and _same(got.T, want):
        raise Wrong(f"{what} lies along the wrong axis: rows and columns have changed places.")
    if _same(-got, want):
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


def _bytes(count: int) -> str:
    return f"{count:,} bytes"


def _owned(arrays: Sequence[Any]) -> int:
    """Bytes of the owning arrays, each counted once."""
    owners: dict[int, Array] = {}
    for value in arrays:
        array = np.asarray(value)
        while isinstance(array.base, np.ndarray):
            array = array.base
        owners[id(array)] = array
    return sum(array.nbytes for array in owners.values())


# -- Functions ------------------------------------------------------------------------------------


def _function_class(answer: Any) -> Any:
    if not (isinstance(answer, type) and issubclass(answer, lm.autograd.Function)):
        raise Wrong(
            f"The answer is a class derived from lm.autograd.Function, and yours is of type "
            f"{type(answer).__name__}. Pass the class itself, not the result of apply."
        )
    return answer


def _try(
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
        if not _same(output.numpy(), value):
            if output.shape != value.shape:
                raise Wrong(
                    f"`forward` gives shape {output.shape}, and it must give {value.shape}."
                )
            raise Wrong("`forward` gives other values than the formula.")
        counts = stats(output)
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
            _compare_grads(got, want, ones, seed, f"The gradient of `{name}`")
    if attributes:
        raise Wrong(
            f"The gradient is right, but {_bytes(attributes)} lie in an attribute of ctx, where "
            f"nothing checks them and backward does not release them."
        )
    if saved > least:
        raise Wrong(
            f"The gradient is right, but ctx keeps {_bytes(saved - least)} more than the rule "
            f"needs{why}."
        )


# -- chapter 1 ------------------------------------------------------------------------------------


@_exercise("1.1")
def _bytes_of_a_chain(answer: Any) -> str | None:
    x = lm.tensor(np.linspace(0.0, 1.0, 1000), requires_grad=True)
    saved = lm.lifetime.saved(lm.sin(lm.exp(x))).nbytes
    given = _number(answer, "a number of bytes")
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
        f"{given:.0f} bytes are {given / 8:.0f} values of float64. How many buffers of 1000 do the "
        f"two ops keep?"
    )


@_exercise("1.2")
def _sine_of_square(answer: Any) -> str | None:
    rule = _callable(answer, "rule")
    x = np.array([0.5, -1.2, 2.0])
    seed = np.array([1.0, 10.0, -3.0])
    want = np.cos(x * x) * 2 * x * seed
    ones = _array(rule(x, np.ones(3)), "Your result", x.shape)
    got = _array(rule(x, seed), "Your result", x.shape)
    if _same(got, np.cos(x * x) * seed):
        raise Wrong("One factor is missing: the derivative of the inner function, $x^2$.")
    _compare_grads(got, want, ones, seed, "The gradient")
    return None


@_exercise("1.3")
def _two_inputs(*answer: Any) -> str | None:
    if len(answer) != 2:
        raise Wrong('Pass both functions: check("1.3", forward, backward).')
    forward, backward = _callable(answer[0], "forward"), _callable(answer[1], "backward")
    a, b = np.linspace(-1.0, 1.0, 5), np.linspace(2.0, 0.5, 5)
    given = a.copy(), b.copy()
    result = forward(*given)
    if not isinstance(result, tuple) or len(result) != 2:
        raise Wrong("`forward` must return two things: y, and a tuple of what backward will read.")
    y, kept = result
    if not isinstance(kept, tuple | list):
        raise Wrong(f"What `forward` keeps must be a tuple of arrays, not {type(kept).__name__}.")
    if not _same(_array(y, "y", a.shape), np.exp(a * b) + np.sin(a)):
        raise Wrong("`forward` gives another y than the formula.")
    seed = np.arange(1.0, 6.0)
    grads = {}
    for name, s in (("ones", np.ones(5)), ("seed", seed)):
        pair = backward(kept, s)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Wrong("`backward` must return two gradients: that of a, then that of b.")
        grads[name] = [
            _array(g, f"The gradient of `{n}`", a.shape) for g, n in zip(pair, "ab", strict=True)
        ]
    e = np.exp(a * b)
    if _same(grads["seed"][0], seed * e * b) or _same(grads["seed"][0], seed * np.cos(a)):
        raise Wrong("`a` is used twice, and your gradient of `a` counts one of the two ways only.")
    for at, want in enumerate((seed * (e * b + np.cos(a)), seed * e * a)):
        name = f"The gradient of `{'ab'[at]}`"
        _compare_grads(grads["seed"][at], want, grads["ones"][at], seed, name)
    least, keeps = 3 * a.nbytes, _owned(kept)
    if keeps > least:
        raise Wrong(
            f"The gradients are right, but you keep {_bytes(keeps - least)} more than needed."
        )
    if keeps < least:
        return "You keep less, and compute something a second time: that is chapter 11."
    return None


# -- chapter 2 ------------------------------------------------------------------------------------


@_exercise("2.1")
def _sqrt_rule(answer: Any) -> str | None:
    rule = _callable(answer, "sqrt_backward")
    x = np.array([1.0, 4.0, 9.0])
    y, seed = np.sqrt(x), np.array([1.0, -2.0, 5.0])
    ones = _array(rule(y, np.ones(3)), "Your result", y.shape)
    got = _array(rule(y, seed), "Your result", y.shape)
    if _same(got, seed / (2 * np.sqrt(y))):
        raise Wrong("You treat y as the input. It is the output: the root has been taken already.")
    _compare_grads(got, seed / (2 * y), ones, seed, "The gradient")
    return None


@_exercise("2.2")
def _row_sum(answer: Any) -> str | None:
    x = np.arange(9.0).reshape(3, 3)
    _try(
        _function_class(answer),
        [x],
        (),
        x.sum(1),
        lambda seed: [np.repeat(seed[:, None], 3, 1)],
        "x",
        0,
        ": no value of x stands in the derivative of a sum",
    )
    return None


@_exercise("2.3")
def _scaled_product(answer: Any) -> str | None:
    function = _function_class(answer)
    a, b, k = np.linspace(1.0, 2.0, 4), np.linspace(-1.0, 3.0, 4), 3.0
    cases: list[tuple[str, bool, bool]] = [
        ("", True, True),
        (" when only `a` needs a gradient", True, False),
        (" when only `b` needs a gradient", False, True),
    ]
    for why, need_a, need_b in cases:
        _try(
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


# -- chapter 5 ------------------------------------------------------------------------------------


@_exercise("5.1")
def _most_drag(answer: Any, trace: Any = None) -> str | None:
    if trace is None or not hasattr(trace, "buffers"):
        raise Wrong('Pass the trace, too: check("5.1", answer, careless).')
    if not isinstance(answer, str):
        raise Wrong(
            f"The answer is the name of a buffer, and yours is of type {type(answer).__name__}."
        )
    found = {buffer.name: buffer for buffer in trace.buffers}
    if answer not in found:
        raise Wrong(f"The trace has no buffer '{answer}'. It has: {', '.join(found)}.")
    most = max(found.values(), key=lambda buffer: buffer.drag)
    if answer != most.name:
        mine = found[answer].drag
        raise Wrong(
            f"'{answer}' has a drag of {mine:,} bytes x ops. Another has {most.drag - mine:,} more."
        )
    return f"{most.drag:,} bytes x ops."


@_exercise("5.2")
def _less_peak(*answer: Any) -> str | None:
    if len(answer) != 2:
        raise Wrong('Pass both functions: check("5.2", lean, careless_step).')
    mine, original = _callable(answer[0], "lean"), _callable(answer[1], "careless_step")
    data = np.linspace(-1.0, 1.0, 64 * 32).reshape(64, 32)

    def run(step: Any) -> tuple[Any, Array, Any]:
        weight = lm.tensor(np.linspace(-0.5, 0.5, 32 * 32).reshape(32, 32), requires_grad=True)
        with lm.lifetime.trace() as trace:
            result = step(weight, data)
        if weight.grad is None:
            raise Wrong("Your step fills no `W.grad`: it must call backward.")
        return result, weight.grad.numpy(), trace

    want, want_grad, before = run(original)
    got, got_grad, after = run(mine)
    if not isinstance(got, float) or not np.isclose(got, want):
        raise Wrong("Your step returns another loss: compute the same, and return loss.item().")
    if not _same(got_grad, want_grad):
        raise Wrong("Your step computes another gradient of W.")
    # The loss that the step returns is one number more, which nothing in the trace reads.
    least = max(before.needed("program")) + 8
    if after.peak() > least:
        raise Wrong(
            f"The gradient is right, and your peak is {_bytes(after.peak())}: "
            f"{_bytes(after.peak() - least)} above what the computation needs."
        )
    return f"Peak {before.peak():,} before, {after.peak():,} bytes now."


@_exercise("5.3")
def _swish(answer: Any) -> str | None:
    function = _function_class(answer)
    z = np.linspace(-2.0, 2.0, 6)
    s = 1 / (1 + np.exp(-z))
    _try(
        function,
        [z],
        (),
        z * s,
        lambda seed: [seed * (s + z * s * (1 - s))],
        "z",
        z.nbytes,
        ", if it computes the sigmoid a second time",
    )
    return "Two buffers have become one."
