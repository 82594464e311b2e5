"""What `check` prints: not solved yet, right, or what is wrong, in one sentence.

Whatever an answer does, the checker does not break: it tells an error as class, message and line.
"""

import dis
import types
import warnings
from collections.abc import Callable
from typing import Any

import lucid_mini as lm


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


def exercise(number: str) -> Callable[[Callable[..., str | None]], Callable[..., str | None]]:
    """Make the function below the checker of exercise `number`."""

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
            where = f" (line {line} of `{code.co_name}`)"
        trace = trace.tb_next
    message = str(error).splitlines()[0] if str(error) else ""
    return f"{type(error).__name__}{': ' if message else ''}{message}{where}"


_INSIDE = frozenset({"lucid_mini", "numpy", __name__.split(".")[0], "book", "contextlib"})
