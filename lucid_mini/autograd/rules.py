"""Calling a backward rule, and checking what it returned: count, types, shapes.

Everything here stands beside the engine's loop: the loop calls a rule on arrays itself, and comes
here for the rest.
"""

import warnings
from typing import Any, NoReturn

import numpy as np

from .. import events
from ..errors import GradientCountError, GradientShapeError, SecondDerivativeWarning
from . import saved
from .callsite import outer_level
from .captures import warn_of_captures
from .ctx import ARRAYS, IDLE, _a, _set_phase
from .mode import thread
from .node import Meta
from .part import Part
from .saved import FROZEN_GRADIENT
from .shapes import broadcasts_to, stretched_axes, sum_to


def call_rule(node: Any, grad: Any, create: bool) -> Any:
    """Run the rule of `node` on tensors; on arrays if it takes them and has several outputs.

    While it runs, in-place ops on its gradients and on what its node saved are refused.
    """
    ctx, function = node._ctx, node.function
    if function._captures:
        warn_of_captures(function, function._captures)
    if node._outputs is None:
        grads_in = [grad]
    else:
        materialize = ctx._marks is None or ctx._marks.materialize
        grads_in = [
            _zeros(meta, create) if given is None and meta is not None and materialize else given
            for given, meta in zip(grad, node._outputs, strict=True)
        ]
    if function.arrays and not create:
        _set_phase(ctx, ARRAYS)
        grads = function.backward(ctx, *grads_in)
        _set_phase(ctx, IDLE)
        return grads
    if create:
        _look_for_intermediates(node)
    else:
        grads_in = [None if g is None else frozen(g) for g in grads_in]
    _set_phase(ctx, node)
    mode = thread.mode
    found = mode.running
    mode.running = ((node, grads_in), *found)
    try:
        grads = function.backward(ctx, *grads_in)
    finally:
        mode.running = found
    _set_phase(ctx, IDLE)
    return grads if create else _as_arrays(as_tuple(grads, node), node)


def frozen(grad: Any) -> Any:
    """A gradient of a first-order pass as a tensor that in-place ops refuse to write."""
    tensor = saved.wrap(grad)
    tensor._memory = FROZEN_GRADIENT
    return tensor


def _zeros(meta: Meta, create: bool) -> Any:
    zeros = np.zeros(meta.shape, meta.dtype)
    return saved.wrap(zeros) if create else zeros


def _look_for_intermediates(node: Any) -> None:
    """Warn if `node` saved a tensor that forward made on the way: its own history was not recorded.

    Only an argument that needs no gradient may be saved without a history. More such tensors than
    such arguments, and one of them was made inside.
    """
    slots = node._ctx._saved
    if type(slots) is not tuple:
        return
    made = [
        slot
        for slot in slots
        if hasattr(slot, "_node") and slot._node is None and slot._data.dtype.kind == "f"
    ]
    constants = sum(upstream is None for upstream in node._next_nodes)
    if len({id(slot) for slot in made}) > constants:
        warn_of_intermediates(node.label, [slot.shape for slot in made])


def warn_of_intermediates(label: str, shapes: list[tuple[int, ...]]) -> None:
    """Warn that the call `label` saved tensors of these shapes, which it had made on the way."""
    shown = ", ".join(map(str, shapes))
    warnings.warn(
        f"{label} saved an intermediate (shape {shown}) that is neither an argument nor an output "
        "of its forward, so a second derivative takes it for a constant. Save arguments and "
        "outputs, and compute the rest in backward.",
        SecondDerivativeWarning,
        stacklevel=outer_level(),
    )


# -- what came back -------------------------------------------------------------------------------


def as_tuple(grads: Any, node: Any) -> tuple[Any, ...]:
    """What a rule returned, as one gradient per argument of forward.

    Raises: GradientCountError with forward's parameter names beside what was returned.
    """
    wanted = len(node._next_nodes)
    if type(grads) is tuple and len(grads) == wanted:
        return grads
    if isinstance(grads, dict):
        return _by_name(grads, node)
    given = tuple(grads) if isinstance(grads, (tuple, list)) else (grads,)
    if len(given) > wanted and all(g is None for g in given[wanted:]):
        given = given[:wanted]
    if len(given) != wanted:
        raise GradientCountError(
            f"{_rule(node)} returned {_count(len(given), 'gradient')}, but forward was called with "
            f"{_count(wanted, 'argument')} ({', '.join(_names(node))}). Return one gradient for "
            f"each argument, in that order, and None where there is none."
        )
    return given


def _by_name(grads: dict[Any, Any], node: Any) -> tuple[Any, ...]:
    """A dict of gradients in the order of forward's arguments.

    Raises: GradientCountError for a key that is no argument.
    """
    names = _names(node)
    unknown = [str(key) for key in grads if key not in names]
    if unknown:
        raise GradientCountError(
            f"{_rule(node)} returned a gradient for {', '.join(unknown)}, which is no argument of "
            f"forward. Valid names: {', '.join(names)}."
        )
    for name, upstream in zip(names, node._next_nodes, strict=True):
        if upstream and name not in grads:
            warnings.warn(
                f"{_rule(node)} returned no gradient for '{name}', which needs one; it is taken as "
                f"None. Return '{name}': None if that is meant.",
                stacklevel=outer_level(),
            )
    return tuple(grads.get(name) for name in names)


def _as_arrays(grads: tuple[Any, ...], node: Any) -> tuple[Any, ...]:
    """What a rule on tensors returned, as the arrays that a first-order pass hands on.

    Raises: TypeError for what is no tensor.
    """
    arrays: list[Any] = []
    for index, g in enumerate(grads):
        if g is None:
            arrays.append(None)
        elif hasattr(g, "_memory"):
            arrays.append(g._data)
        elif node._next_nodes[index]:
            refuse_type(g, node, index, "a tensor")
        else:
            arrays.append(g)
    return tuple(arrays)


def fit(g: Any, node: Any, index: int, create: bool) -> Any:
    """The gradient `g` of argument `index` as the pass wants it: type, shape, dtype of its tensor.

    A Function that says `broadcasts = True` leaves the sum over broadcast axes to this place.
    Raises: TypeError for what is no tensor (a rule on arrays: no array), GradientShapeError.
    """
    upstream = node._next_nodes[index]
    shape, dtype = _meta(node, index)
    if not create:
        if isinstance(g, np.generic):
            g = np.asarray(g)  # NumPy's reductions and 0-d arithmetic give scalars
        elif type(g) is Part:
            g = g.whole()
    if not (hasattr(g, "_memory") if create else type(g) is np.ndarray):
        refuse_type(g, node, index, "a tensor" if create else "an array")
    if g.shape != shape:
        if not node.function.broadcasts or not broadcasts_to(shape, g.shape):
            refuse_shape(node, index, g.shape, shape)
        g = sum_to(g, shape)
    if g.dtype is not dtype:
        g = g.to(dtype) if create else g.astype(dtype)
    if events.recorder is not None:
        events.recorder.summed(upstream, g)
    return g


def refuse_type(g: Any, node: Any, index: int, wanted: str) -> NoReturn:
    """Raise because `g` is no gradient at all."""
    shape, _ = _meta(node, index)
    raise TypeError(
        f"{_rule(node)} returned {_a(type(g).__name__)} as the gradient of "
        f"'{_names(node)[index]}'; it must be {wanted} of shape {shape} or None."
    )


def refuse_shape(node: Any, index: int, got: tuple[int, ...], shape: tuple[int, ...]) -> NoReturn:
    """Raise because the gradient of argument `index` has another shape than the argument."""
    hint = " Return one of that shape."
    if broadcasts_to(shape, got):
        hint = f" Forward broadcast it; sum the gradient over axis {stretched_axes(shape, got)}."
    raise GradientShapeError(
        f"{_rule(node)} returned a gradient of shape {got} for '{_names(node)[index]}', which has "
        f"shape {shape}.{hint}"
    )


def refuse_gradient(node: Any, index: int) -> NoReturn:
    """Raise because the rule of `node` gave a gradient to an argument that is no tensor."""
    raise GradientCountError(
        f"{_rule(node)} returned a gradient for '{_names(node)[index]}', which is not a tensor. "
        f"Return None for it."
    )


def _meta(node: Any, index: int) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype of argument `index`."""
    upstream = node._next_nodes[index]
    if upstream._outputs is None:
        return upstream.shape, upstream.dtype
    meta: Meta = upstream._outputs[node._next_nrs[index] if node._next_nrs else 0]
    return meta


def _rule(node: Any) -> str:
    return f"{node.function.__name__}.backward"


def _names(node: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = node.function.argument_names(len(node._next_nodes))
    return names


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
