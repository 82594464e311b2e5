"""How the frameworks behave, where that is a matter of yes or no.

    python -m benchmarks.facts        prints the table as Markdown

No figure here depends on the machine. Each fact is a function of an adapter that runs a few lines
in its framework and says in a word or two what came of them.
"""

import copy
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .frameworks import Array, Framework, Program, UnsupportedError, load
from .measure import unseen_by_the_collector
from .report import markdown
from .workloads.chain import multiply_add
from .workloads.deep import left_over

#: No users: the floor has no graph, the bare stack checks nothing.
NO_PEERS = ("floor", "bare stack")


def left_behind(framework: Framework) -> str:
    """A chain of 1 000 nodes is run, there and back, and dropped."""
    count = left_over(framework.start(multiply_add(500)).step)
    return f"{count:,} objects".replace(",", " ") if count else "nothing"


def second_backward(framework: Framework) -> str:
    """x³ at 3, and backward twice: the second gives 27 again, or says why not."""
    run = framework.start(_program(lambda x: x * x * x))
    recorded = run.forward()
    run.backward(recorded)
    return _outcome(framework, lambda: run.backward(recorded), 27.0)


def written_value(framework: Framework) -> str:
    """x³ at 3, recorded; then x is doubled in place; the gradient at 3 would be 27."""
    x = framework.parameter(np.array([3.0]))
    recorded = framework.forward(lambda x: x * x * x, [x])

    def write_and_go_on() -> list[Any]:
        framework.write(x)
        return framework.backward(recorded, [x])

    return _outcome(framework, write_and_go_on, 27.0)


def long_chain(framework: Framework) -> str:
    """A chain of 5 000 ops, at the depth of recursion that Python allows by default."""
    unaided = copy.copy(framework)
    unaided.depth = 0
    return _outcome(unaided, unaided.start(_program(_five_thousand)).step, 0.9999**5_000)


def _five_thousand(x: Any) -> Any:
    for _ in range(5_000):
        x = x * 0.9999
    return x


def dropped_output(framework: Framework) -> str:
    """An op has two outputs, the first of them 2x; nobody uses the second."""
    return _outcome(framework, framework.start(_program(lambda x: framework.pair(x)[0])).step, 2.0)


def ladder_growth(framework: Framework) -> str:
    """From 10 rungs to 20, how many more Python functions does a backward call?

    With one visit a node they are twice as many, with one a path a thousand times.
    """
    short, long = (_calls(framework, rungs) for rungs in (10, 20))
    return "linear" if long < 3 * short else "exponential"


def _calls(framework: Framework, rungs: int) -> int:
    tanh = framework.own_tanh

    def climb(x: Any) -> Any:
        for _ in range(rungs):
            y = tanh(x)
            x = y * 0.5 + y * 0.25
        return x

    run = framework.start(_program(climb))
    run.step()
    recorded = run.forward()
    count = 0

    def each(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(each)
    try:
        run.backward(recorded)
    finally:
        sys.setprofile(before)
    return count


def names_holders(framework: Framework) -> str:
    """A list named `drawer` keeps a tensor alive: can one ask who does, and is told that name?"""
    drawer = [framework.parameter(np.zeros(1_000))]
    return "yes" if "drawer" in framework.holder(weakref.ref(drawer[0])) else "no"


FACTS: dict[str, Callable[[Framework], str]] = {
    "left to the collector by a dropped graph of 1 000 nodes": left_behind,
    "backward twice through one graph": second_backward,
    "a saved value is written in place before backward": written_value,
    "backward of a chain of 5 000 ops": long_chain,
    "one of two outputs is never used": dropped_output,
    "cost of a ladder with twice as many rungs": ladder_growth,
    "tells by name who keeps a tensor alive": names_holders,
}


def facts(frameworks: list[Framework]) -> dict[str, dict[str, str]]:
    """Fact -> framework -> what came of it; "–" where a framework has nothing of the kind."""
    peers = [framework for framework in frameworks if framework.name not in NO_PEERS]
    with unseen_by_the_collector():
        return {
            fact: {peer.name: _answer(ask, peer) for peer in peers} for fact, ask in FACTS.items()
        }


def _answer(ask: Callable[[Framework], str], framework: Framework) -> str:
    try:
        return ask(framework)
    except UnsupportedError:
        return "–"


def table(found: dict[str, dict[str, str]]) -> str:
    """As Markdown, a line a fact."""
    names = list(dict.fromkeys(name for answers in found.values() for name in answers))
    lines = [["", *names]]
    for fact, answers in found.items():
        lines.append([fact, *(answers.get(name, "–") for name in names)])
    return markdown(lines, ":--")


def _program(function: Callable[[Any], Any]) -> Program:
    """`function` of one number, 3; nothing is told by hand."""

    def none(*_: Any) -> list[Array]:
        raise UnsupportedError("by hand")

    return Program((np.array([3.0]),), lambda _: function, none, none)


def _outcome(framework: Framework, backward: Callable[[], list[Any]], wanted: float) -> str:
    """What came of a backward that should give `wanted`."""
    try:
        (gradient,) = backward()
    except UnsupportedError:
        raise
    except Exception as error:  # whatever a framework raises is the fact
        return f"error: {type(error).__name__}"
    if gradient is None:
        return "silently no gradient"
    got = float(framework.array(gradient).item())
    return "right" if np.isclose(got, wanted) else f"silently wrong: {got:g} for {wanted:g}"


def main() -> int:
    """Print the table."""
    frameworks, missing = load()
    for name, reason in missing.items():
        print(f"left out: {name} ({reason})", file=sys.stderr)
    print(table(facts(frameworks)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
