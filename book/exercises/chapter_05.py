"""The exercises of chapter 5."""

from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import Array, as_function, function_class, in_bytes, same, try_function
from .core import Wrong, exercise


@exercise("5.1")
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


@exercise("5.2")
def _less_peak(*answer: Any) -> str | None:
    if len(answer) != 2:
        raise Wrong('Pass both functions: check("5.2", lean, careless_step).')
    mine, original = as_function(answer[0], "lean"), as_function(answer[1], "careless_step")
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
    if not same(got_grad, want_grad):
        raise Wrong("Your step computes another gradient of W.")
    # The loss that the step returns is one number more, which nothing in the trace reads.
    least = max(before.needed("program")) + 8
    if after.peak() > least:
        raise Wrong(
            f"The gradient is right, and your peak is {in_bytes(after.peak())}: "
            f"{in_bytes(after.peak() - least)} above what the computation needs."
        )
    return f"Peak {before.peak():,} before, {after.peak():,} bytes now."


@exercise("5.3")
def _swish(answer: Any) -> str | None:
    function = function_class(answer)
    z = np.linspace(-2.0, 2.0, 6)
    s = 1 / (1 + np.exp(-z))
    try_function(
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
