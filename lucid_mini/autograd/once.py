"""once_differentiable: a rule that gives a gradient and cannot itself be differentiated."""

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..errors import AutogradError
from .ctx import ARRAYS, FunctionCtx, _set_phase
from .function import Function
from .mode import thread
from .node import Edge, Node
from .tensor import Tensor, wrap


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """For a `backward` that cannot be differentiated: doing it nevertheless raises.

    Under `create_graph` the rule runs with recording off, and with `arrays = True` on arrays, so it
    may compute with NumPy alone. What it gives depends on the arguments of forward and on the
    gradient, and whoever differentiates it is told so, anywhere in a chain (PyTorch is silent
    where the gradient needs no gradient).
    Raises (when differentiated a second time): AutogradError.

    Example:
        >>> class Round(lm.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return lm.tensor(np.round(x.numpy()))
        ...
        ...     @staticmethod
        ...     @lm.autograd.once_differentiable
        ...     def backward(ctx, grad):
        ...         return grad  # straight through
        >>> x = lm.tensor([0.7, 1.2], requires_grad=True)
        >>> Round.apply(x).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """

    @functools.wraps(backward)
    def once(ctx: FunctionCtx, *grads: Any) -> Any:
        if not thread.mode.recording:
            return backward(ctx, *grads)
        node: Any = ctx._phase
        arrays = isinstance(node, Node) and node.function.arrays
        thread.mode.recording = False
        try:
            if arrays:
                _set_phase(ctx, ARRAYS)
                given = [None if grad is None else grad._data for grad in grads]
                results = backward(ctx, *given)
            else:
                results = backward(ctx, *grads)
        finally:
            thread.mode.recording = True
            _set_phase(ctx, node)
        sources = [grad for grad in grads if grad is not None and grad._node is not None]
        if isinstance(node, Node):
            sources += [_end_of(edge) for edge in node.next_edges if edge.node]
            label = f"{node.function.__name__}.backward ({node.label})"
        else:
            label = ctx._name

        def closed(result: Any) -> Any:
            if isinstance(result, np.ndarray | np.generic) and arrays:
                result = wrap(np.asarray(result))
            return OnceOnly.apply(result, label, *sources) if type(result) is Tensor else result

        if isinstance(results, dict):
            return {name: closed(result) for name, result in results.items()}
        if isinstance(results, tuple | list):
            return tuple([closed(result) for result in results])
        return closed(results)

    once.once_differentiable = True  # type: ignore[attr-defined]
    return once


class OnceOnly(Function):
    """Stands behind a rule that is `once_differentiable`: the value passes, its gradient raises."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, label: str, *sources: Tensor) -> Tensor:
        """Keeps: nothing. `sources` are what the value depends on."""
        ctx.label = label
        return value

    @staticmethod
    def backward(ctx: Any, grad: Any) -> NoReturn:
        """Raise."""
        refuse_second(ctx.label)


def refuse_second(label: str) -> NoReturn:
    """Raise because the gradient that `label`, a rule, gave was differentiated."""
    raise AutogradError(
        f"{label} is marked once_differentiable, and its gradient was differentiated. Write the "
        "rule with tensor ops and take the mark away, or do not ask for a second derivative "
        "through this Function."
    )


def _end_of(edge: Edge) -> Tensor:
    """A tensor without elements whose history is `edge`."""
    end = wrap(np.empty(0))
    end._node, end._output_nr = edge
    return end
