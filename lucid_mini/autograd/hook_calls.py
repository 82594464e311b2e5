"""Running hooks: on the gradient of a tensor, before a node runs, after it has run.

`hooks.py` registers them, the engine comes here to call them. A hook sees gradients as tensors that
in-place ops refuse to write; what it returns replaces them, None keeps them.
"""

from collections.abc import Callable
from typing import Any

from .. import events
from ..errors import GradientCountError, GradientShapeError
from .ctx import _a
from .mode import thread
from .node import NOT_A_TENSOR
from .rules import fit, frozen, refuse_gradient


def run_tensor_hooks(node: Any, grad: Any, create: bool) -> Any:
    """`grad`, complete, after the hooks of the tensors that `node` made, in registration order.

    Raises: TypeError, GradientShapeError, and what the hooks raise.
    """
    grads = [grad] if node._outputs is None else grad
    for output_nr, registered in list(node._hooks.tensor_hooks.items()):
        for hook in list(registered.values()):
            if grads[output_nr] is not None:
                grads[output_nr] = _replaced(
                    hook, _call(hook, (grads[output_nr],), create), grads[output_nr], create
                )
    return grads[0] if node._outputs is None else grads


def run_prehooks(node: Any, grad: Any, create: bool) -> Any:
    """`grad` after `hook(grad_outputs)` of each prehook of `node`.

    Raises: GradientCountError, TypeError, GradientShapeError, and what the hooks raise.
    """
    grads = (grad,) if node._outputs is None else tuple(grad)
    for hook in list(node._hooks.pre.values()):
        grads = _all_replaced(hook, _call(hook, (grads,), create), grads, create)
    return grads[0] if node._outputs is None else list(grads)


def run_posthooks(node: Any, grads: tuple[Any, ...], grad: Any, create: bool) -> tuple[Any, ...]:
    """`grads` of the arguments after `hook(grad_inputs, grad_outputs)` of each hook of `node`.

    Raises: GradientCountError, TypeError, GradientShapeError, and what the hooks raise.
    """
    grads = tuple([None if g is None else _fitted(g, node, i, create) for i, g in enumerate(grads)])
    outputs = (grad,) if node._outputs is None else tuple(grad)
    for hook in list(node._hooks.post.values()):
        grads = _all_replaced(hook, _call(hook, (grads, outputs), create), grads, create)
    return grads


def _fitted(g: Any, node: Any, index: int, create: bool) -> Any:
    upstream = node._next_nodes[index]
    if upstream is NOT_A_TENSOR:
        refuse_gradient(node, index)
    return None if upstream is None else fit(g, node, index, create)


def run_leaf_hooks(accumulate: Any, leaf: Any, grad: Any, create: bool) -> None:
    """What follows the write of `leaf.grad`: its post-accumulate hooks, then those of its node."""
    for hook in list(accumulate._hooks.accumulated.values()):
        hook(leaf)
        if events.recorder is not None:
            events.recorder.hooked(hook)
    for hook in list(accumulate._hooks.post.values()):
        _call(hook, ((), (grad,)), create)


def _call(hook: Callable[..., Any], grads: tuple[Any, ...], create: bool) -> Any:
    """`hook(*grads)`, each a gradient or a tuple of them, given as tensors."""
    shown = [
        tuple(_shown(g, create) for g in item) if type(item) is tuple else _shown(item, create)
        for item in grads
    ]
    found, found_mode = thread.mode.running, thread.mode.recording
    if create:
        flat = [g for item in shown for g in (item if type(item) is tuple else (item,))]
        thread.mode.running = ((None, flat), *found)
    thread.mode.recording = create
    try:
        result = hook(*shown)
    finally:
        thread.mode.running, thread.mode.recording = found, found_mode
    if events.recorder is not None:
        events.recorder.hooked(hook)
    return result


def _shown(grad: Any, create: bool) -> Any:
    return grad if grad is None or create else frozen(grad)


def _all_replaced(
    hook: Callable[..., Any], results: Any, grads: tuple[Any, ...], create: bool
) -> tuple[Any, ...]:
    """`grads` with what a hook of a node returned in their place.

    Raises: TypeError, GradientCountError where it returned more or fewer, GradientShapeError.
    """
    if results is None:
        return grads
    if hasattr(results, "_memory"):
        results = (results,)
    if not isinstance(results, tuple | list):
        raise TypeError(
            f"hook {_name(hook)} returned {_a(type(results).__name__)}; a hook of a node must "
            f"return a tuple of gradients, which replace those given, or None, which keeps them."
        )
    if len(results) != len(grads):
        raise GradientCountError(
            f"hook {_name(hook)} returned {len(results)} gradients for {len(grads)}; return one "
            f"for each, None where there is none."
        )
    return tuple(
        [
            None if result is None else _replaced(hook, result, grad, create)
            for result, grad in zip(results, grads, strict=True)
        ]
    )


def _replaced(hook: Callable[..., Any], result: Any, grad: Any, create: bool) -> Any:
    """`result`, which a hook returned, in the place of `grad`.

    Raises: TypeError for what is neither a tensor nor None, GradientShapeError.
    """
    if result is None:
        return grad
    if not hasattr(result, "_memory"):
        raise TypeError(
            f"hook {_name(hook)} returned {_a(type(result).__name__)}; it must return a tensor, "
            f"which replaces the gradient, or None, which keeps it."
        )
    if grad is not None:
        if result.shape != grad.shape:
            raise GradientShapeError(
                f"hook {_name(hook)} returned a gradient of shape {result.shape} for one of shape "
                f"{grad.shape}. Return one of that shape."
            )
        if result.dtype is not grad.dtype:
            result = result.to(grad.dtype)
    return result if create else result._data


def _name(hook: Callable[..., Any]) -> str:
    return str(getattr(hook, "__qualname__", type(hook).__name__))
