"""The engine: one loop for `backward`, `grad` and `steps`, first order and higher.

`traverse` takes, from the nodes reached, the one with the highest sequence number. All its consumers
were made later, so they have run, and its gradient is complete: no counting pass, no recursion.

In a first-order pass gradients are arrays, and become tensors only for a rule that wants tensors.
Under `create_graph` they are tensors everywhere, and recording is on.

The lines that exist for memory: a gradient is *popped* from `pending` (kept there, every gradient of
the pass would live to its end), `grad` and `grads` are dropped before the next node runs, and a node
lets go of what it saved as soon as it has run.
"""

import sys
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .. import events
from ..errors import (
    GradientCountError,
    GradientShapeError,
    GraphFreedError,
)
from . import saved
from .ctx import ARRAYS, IDLE, _a, _set_phase, _set_saved
from .mode import mode
from .node import AccumulateGrad, Meta, next_pass
from .saved import FROZEN_GRADIENT, Array, Freed
from .shapes import broadcasts_to, stretched_axes, sum_to

#: Stands in `_next_nodes` for an argument that is no tensor; a tensor that needs no gradient is None.
NOT_A_TENSOR = 0
#: From this many elements on, adding in place is faster than into a new array.
IN_PLACE_FROM = 1024


class Step(NamedTuple):
    """What one node did: `steps()` yields one per node executed.

    `grads_in`: gradients of its outputs; `grads_out`: of its arguments. `ready`: labels of the nodes
    that have a gradient and wait, in the order they will run. `counts`: for each of them, how many
    consumers have yet to deliver. `released`: bytes of saved data let go of.
    """

    node: Any
    grads_in: tuple[Any, ...]
    grads_out: tuple[Any, ...]
    ready: tuple[str, ...]
    counts: dict[str, int]
    released: int


class Wanted(NamedTuple):
    """The gradients a caller asked for by name: `found` is filled in, by (node, output number).

    `path` holds the nodes from which one of them can be reached: only those run.
    """

    found: dict[tuple[Any, int], Any]
    path: set[Any]


def traverse(
    roots: list[tuple[Any, int, Any]],
    *,
    retain: bool,
    create: bool,
    wanted: Wanted | None = None,
    watch: bool = False,
) -> Iterator[Step]:
    """Send the gradient of each root `(node, output_nr, gradient)` down to the leaves, or to `wanted`.

    A generator: with `watch` it yields a Step per node, without it runs through to the end.
    Shape: a gradient has the shape of the output it belongs to.   Keeps: one gradient per live edge,
    dropped on use.
    Raises: GraphFreedError, GradientCountError, GradientShapeError, VersionMismatchError, TypeError.
    """
    pending: dict[Any, Any] = {}
    heap: list[tuple[int, Any]] = []
    starts = [node for node, _, _ in roots]
    for root, output_nr, grad in roots:
        _deliver(pending, heap, root, output_nr, grad)
    roots.clear()
    freed, nothing = next_pass()
    kind = type(saved.wrap(np.empty(0))) if create else np.ndarray
    node = root = grad = None
    found_mode, mode.recording = mode.recording, create
    try:
        while heap:
            node = heappop(heap)[1]
            grad = pending.pop(node)
            if node._hooks is not None:
                grad = _before(node, grad, create)
            if wanted is not None:
                _collect(wanted, node, grad)
                if node not in wanted.path:
                    continue
            if node._released is not None:
                _refuse_released(node)
            recorder = events.recorder
            if recorder is not None:
                recorder.running(node, grad)

            if create or not node.function.arrays or node._outputs is not None:
                grads = _call(node, grad, create)
            else:
                _set_phase(node._ctx, ARRAYS)
                grads = node.function.backward(node._ctx, grad)
                if retain:
                    _set_phase(node._ctx, IDLE)

            nodes = node._next_nodes
            if type(grads) is kind:
                grads = (grads,)
            if type(grads) is not tuple or len(grads) != len(nodes):
                grads = _as_tuple(grads, node)
            if recorder is not None:
                recorder.ran(node, grads)
            if node._hooks is not None:
                grads = _after(node, grad, grads, create)
            if watch:
                step_in, held = grad, saved.held_bytes(node._ctx._saved)
            grad = None
            if not retain:
                node._released = freed
                _set_saved(node._ctx, nothing if node._ctx._saved is None else freed)
                if recorder is not None:
                    recorder.released(node)

            for index, g in enumerate(grads):
                upstream = nodes[index]
                if g is None or not upstream:
                    if g is not None and upstream is NOT_A_TENSOR:
                        _refuse_gradient(node, index)
                    continue
                if (
                    wanted is not None
                    and upstream not in wanted.path
                    and not _is_wanted(wanted, upstream)
                ):
                    continue
                if (
                    type(g) is not kind
                    or g.shape != upstream.shape
                    or g.dtype is not upstream.dtype
                ):
                    g = _fit(g, node, index, create)
                if upstream._outputs is not None:
                    _deliver(
                        pending, heap, upstream, node._next_nrs[index] if node._next_nrs else 0, g
                    )
                elif upstream in pending:
                    _add(pending, upstream, g)
                else:
                    pending[upstream] = g
                    if upstream.sequence_nr:
                        heappush(heap, (-upstream.sequence_nr, upstream))
            g = None

            if watch:
                mode.recording = found_mode
                yield _step(node, step_in, grads, heap, 0 if retain else held)
                found_mode, mode.recording = mode.recording, create
                step_in = None
            grads = None
        _finish(pending, wanted, create)
    except BaseException as error:
        _explain(error, node, starts, freed, nothing)
        raise
    finally:
        mode.recording = found_mode
        # A failed rule may have left its ctx in the middle of a call.
        if node is not None and node.sequence_nr:
            _set_phase(node._ctx, IDLE)


# -- calling a rule -------------------------------------------------------------------------------


def _call(node: Any, grad: Any, create: bool) -> Any:
    """Run the rule of `node` on tensors, or on arrays where it has several outputs and takes arrays."""
    ctx, function = node._ctx, node.function
    arrays = function.arrays and not create
    if node._outputs is None:
        grads_in = [grad]
    else:
        materialize = ctx._marks is None or ctx._marks.materialize
        grads_in = [
            _zeros(meta, create) if given is None and meta is not None and materialize else given
            for given, meta in zip(grad, node._outputs, strict=True)
        ]
    if arrays:
        _set_phase(ctx, ARRAYS)
        return function.backward(ctx, *grads_in)
    _set_phase(ctx, node)
    if create:
        before = [None if g is None else g._memory for g in grads_in]
    else:
        grads_in = [None if g is None else saved.wrap(g) for g in grads_in]
    for g in grads_in:
        if g is not None:
            g._memory = FROZEN_GRADIENT
    try:
        grads = function.backward(ctx, *grads_in)
    finally:
        if create:
            for g, memory in zip(grads_in, before, strict=True):
                if g is not None:
                    g._memory = memory
    _set_phase(ctx, IDLE)
    return grads


def _zeros(meta: Meta, create: bool) -> Any:
    zeros = np.zeros(meta.shape, meta.dtype)
    return saved.wrap(zeros) if create else zeros


def _as_tuple(grads: Any, node: Any) -> tuple[Any, ...]:
    """What a rule returned, as one gradient per argument of forward.

    Raises: GradientCountError with forward's parameter names beside what was returned.
    """
    wanted = len(node._next_nodes)
    if isinstance(grads, dict):
        return _by_name(grads, node)
    given = tuple(grads) if isinstance(grads, tuple | list) else (grads,)
    if len(given) > wanted and all(g is None for g in given[wanted:]):
        given = given[:wanted]
    if len(given) != wanted:
        names = node.function.argument_names(wanted)
        raise GradientCountError(
            f"{node.function.__name__}.backward returned {_count(len(given), 'gradient')}, but forward was "
            f"called with {_count(wanted, 'argument')} ({', '.join(names)}). Return one gradient for each "
            f"argument, in that order, and None where there is none."
        )
    return given


def _by_name(grads: dict[Any, Any], node: Any) -> tuple[Any, ...]:
    import warnings

    names = node.function.argument_names(len(node._next_nodes))
    unknown = [str(key) for key in grads if key not in names]
    if unknown:
        raise GradientCountError(
            f"{node.function.__name__}.backward returned a gradient for {', '.join(unknown)}, which is no "
            f"argument of forward. Valid names: {', '.join(names)}."
        )
    for name, upstream in zip(names, node._next_nodes, strict=True):
        if upstream and name not in grads:
            warnings.warn(
                f"{node.function.__name__}.backward returned no gradient for '{name}', which needs one; it is "
                f"taken as None. Return '{name}': None if that is meant.",
                stacklevel=2,
            )
    return tuple(grads.get(name) for name in names)


def _fit(g: Any, node: Any, index: int, create: bool) -> Any:
    """The gradient `g` of argument `index`, as the pass wants it: type, shape and dtype of its tensor.

    A Function that says `broadcasts = True` leaves the sum over broadcast axes to this place.
    Raises: TypeError for what is no tensor (a rule on arrays: no array), GradientShapeError.
    """
    upstream = node._next_nodes[index]
    if upstream._outputs is None:
        shape, dtype = upstream.shape, upstream.dtype
    else:
        shape, dtype = upstream._outputs[node._next_nrs[index] if node._next_nrs else 0]
    arrays = node.function.arrays and not create
    name = node.function.argument_names(len(node._next_nodes))[index]
    if arrays:
        if isinstance(g, np.generic):
            g = np.asarray(g)  # NumPy's reductions and 0-d arithmetic give scalars
        good = type(g) is np.ndarray
    else:
        good = hasattr(g, "_memory")
    if not good:
        raise TypeError(
            f"{node.function.__name__}.backward returned {_a(type(g).__name__)} as the gradient of '{name}'; "
            f"it must be {'an array' if arrays else 'a tensor'} of shape {shape} or None."
        )
    if not create and not arrays:
        g = g._data
    if g.shape != shape:
        if not node.function.broadcasts or not broadcasts_to(shape, g.shape):
            _refuse_shape(node, name, g.shape, shape)
        g = sum_to(g, shape)
    if g.dtype is not dtype:
        g = g.to(dtype) if create else g.astype(dtype)
    return g


def _refuse_shape(node: Any, name: str, got: tuple[int, ...], shape: tuple[int, ...]) -> NoReturn:
    hint = ""
    if broadcasts_to(shape, got):
        hint = f" Forward broadcast it; sum the gradient over axis {stretched_axes(shape, got)}."
    raise GradientShapeError(
        f"{node.function.__name__}.backward returned a gradient of shape {got} for '{name}', which has shape "
        f"{shape}.{hint}"
    )


def _refuse_gradient(node: Any, index: int) -> NoReturn:
    name = node.function.argument_names(len(node._next_nodes))[index]
    raise GradientCountError(
        f"{node.function.__name__}.backward returned a gradient for '{name}', which is not a tensor. Return "
        f"None for it."
    )


def _refuse_released(node: Any) -> NoReturn:
    raise GraphFreedError(f"{node.label} {node._released.text}")


# -- gradients on their way -----------------------------------------------------------------------


def _deliver(
    pending: dict[Any, Any], heap: list[tuple[int, Any]], node: Any, output_nr: int, grad: Any
) -> None:
    """Add `grad` to what output `output_nr` of `node` has received, and queue the node."""
    if node not in pending and node.sequence_nr:
        heappush(heap, (-node.sequence_nr, node))
    if node._outputs is None:
        if node in pending:
            _add(pending, node, grad)
        else:
            pending[node] = grad
        return
    slots = pending.setdefault(node, [None] * len(node._outputs))
    if slots[output_nr] is None:
        slots[output_nr] = grad
    else:
        _add(slots, output_nr, grad)


def _add(where: Any, key: Any, grad: Any) -> None:
    """Add `grad` to the gradient `where[key]`: in place if that array is large and nobody else has it.

    Three references mean: `where`, the name `total` here, and the argument of getrefcount.
    """
    total = where[key]
    if type(total) is not np.ndarray:
        where[key] = total + grad
    elif total.size >= IN_PLACE_FROM and sys.getrefcount(total) == 3 and _is_whole(total):
        np.add(total, grad, out=total)
    else:
        total = total + grad
        where[key] = total if type(total) is np.ndarray else np.asarray(total)
        if events.recorder is not None:
            events.recorder.summed(key, where[key])


def _is_whole(array: Array) -> bool:
    """Whether `array` owns its memory and may be written."""
    return array.base is None and bool(array.flags.writeable)


def _finish(pending: dict[Any, Any], wanted: Wanted | None, create: bool) -> None:
    """Give the leaves their gradients: all hooks first, then all writes, then the hooks that follow."""
    if wanted is not None:
        for accumulate in list(pending):
            grad = pending.pop(accumulate)
            if accumulate._hooks is not None:
                grad = _before(accumulate, grad, create)
            _collect(wanted, accumulate, grad)
        return
    ready: dict[Any, Any] = {}
    for accumulate in list(pending):
        leaf = accumulate._leaf()
        if leaf is None or leaf._node is None:
            del pending[accumulate]  # the leaf is gone, or no longer wants a gradient
        elif accumulate._hooks is not None:
            pending[accumulate] = _before(accumulate, pending[accumulate], create)
    for accumulate in list(pending):
        leaf = accumulate._leaf()
        if leaf is not None:
            ready[accumulate] = grown(leaf._grad, own(pending, accumulate))
    for accumulate, total in ready.items():
        leaf = accumulate._leaf()
        if leaf is not None:
            leaf._grad = total
            if events.recorder is not None:
                events.recorder.accumulated(leaf, total)
    for accumulate in ready:
        hooks = accumulate._hooks
        leaf = accumulate._leaf()
        if hooks is not None and leaf is not None:
            for hook in list(hooks.post.values()):
                hook(leaf)


def own(pending: dict[Any, Any], key: Any) -> Any:
    """Take a gradient out of `pending` as a tensor that shares memory with nobody.

    The array itself if only `pending` had it (two references here: the name and the argument of
    getrefcount); a copy if a rule returned it twice, a hook kept it, or it is a view.
    """
    grad = pending.pop(key)
    if type(grad) is np.ndarray:
        if sys.getrefcount(grad) == 2 and _is_whole(grad):
            return saved.wrap(grad)
        return saved.wrap(grad.copy())
    if sys.getrefcount(grad) == 2 and sys.getrefcount(grad._data) == 2 and _is_whole(grad._data):
        return grad
    return grad.clone()


def grown(before: Any, grad: Any) -> Any:
    """`.grad` after `grad` arrived: a new tensor, for user code may have seen the one before."""
    if before is None:
        return grad
    if mode.recording:
        return before + grad
    return saved.wrap(np.asarray(before._data + grad._data))


# -- hooks, requests, steps -----------------------------------------------------------------------


def _before(node: Any, grad: Any, create: bool) -> Any:
    """Run the tensor hooks on complete gradients, then keep what `retain_grad` asked for, then prehooks."""
    hooks = node._hooks
    grads = [grad] if node._outputs is None else grad
    for output_nr, registered in hooks.tensor_hooks.items():
        if grads[output_nr] is not None:
            for hook in list(registered.values()):
                grads[output_nr] = _run_hook(hook, grads[output_nr], create)
    for output_nr, reference in hooks.retain.items():
        tensor = reference()
        if tensor is not None and grads[output_nr] is not None:
            g = grads[output_nr]
            tensor._grad = grown(tensor._grad, g if create else saved.wrap(g.copy()))
    return grads[0] if node._outputs is None else grads


def _run_hook(hook: Any, grad: Any, create: bool) -> Any:
    """What `hook` makes of `grad`.

    Raises: TypeError for a result that is neither a tensor nor None, GradientShapeError.
    """
    given = grad if create else saved.wrap(grad)
    memory, given._memory = given._memory, FROZEN_GRADIENT
    found, mode.recording = mode.recording, create
    try:
        result = hook(given)
    finally:
        given._memory = memory
        mode.recording = found
    if events.recorder is not None:
        events.recorder.hooked(hook)
    if result is None or result is given:
        return grad
    name = getattr(hook, "__qualname__", type(hook).__name__)
    if not hasattr(result, "_memory"):
        raise TypeError(
            f"hook {name} returned {_a(type(result).__name__)}; it must return a tensor, which replaces the "
            f"gradient, or None, which keeps it."
        )
    if result.shape != given.shape:
        raise GradientShapeError(
            f"hook {name} returned a gradient of shape {result.shape} for one of shape {given.shape}."
        )
    if result.dtype is not given.dtype:
        result = result.to(given.dtype)
    return result if create else result._data


def _after(node: Any, grad: Any, grads: tuple[Any, ...], create: bool) -> tuple[Any, ...]:
    """Hooks of the node itself are run by `hooks.py`'s handles; none are registered here yet."""
    return grads


def path_to(starts: list[Any], targets: dict[tuple[Any, int], Any]) -> Wanted:
    """Which of the nodes reachable from `starts` lead to one of `targets`."""
    goals = {node for node, _ in targets}
    reached, stack = set(starts), list(starts)
    while stack:
        for upstream in getattr(stack.pop(), "_next_nodes", ()):
            if upstream and upstream not in reached:
                reached.add(upstream)
                stack.append(upstream)
    path: set[Any] = set()
    for node in sorted(reached, key=lambda node: node.sequence_nr):
        for upstream in getattr(node, "_next_nodes", ()):
            if upstream and (upstream in path or upstream in goals):
                path.add(node)
                break
    return Wanted(targets, path)


def _is_wanted(wanted: Wanted, node: Any) -> bool:
    return any(node is target for target, _ in wanted.found)


def _collect(wanted: Wanted, node: Any, grad: Any) -> None:
    """Keep the gradient of an output of `node` if it was asked for."""
    grads = (grad,) if node._outputs is None else grad
    for output_nr, g in enumerate(grads):
        if (node, output_nr) in wanted.found:
            wanted.found[node, output_nr] = g


def _step(node: Any, grad: Any, grads: tuple[Any, ...], heap: list[Any], released: int) -> Step:
    ready = [waiting for _, waiting in sorted(heap)]
    consumers = {waiting.label: 0 for waiting in ready}
    reached, stack = set(ready), list(ready)
    while stack:
        for upstream in getattr(stack.pop(), "_next_nodes", ()):
            if upstream and upstream.sequence_nr:
                if upstream.label in consumers:
                    consumers[upstream.label] += 1
                if upstream not in reached:
                    reached.add(upstream)
                    stack.append(upstream)
    as_tensors = [
        None if g is None else g if hasattr(g, "_memory") else saved.wrap(g.copy()) for g in grads
    ]
    grads_in = grad if isinstance(grad, list) else [grad]
    return Step(
        node,
        tuple(g if g is None or hasattr(g, "_memory") else saved.wrap(g.copy()) for g in grads_in),
        tuple(as_tensors),
        tuple(waiting.label for waiting in ready),
        consumers,
        released,
    )


def _explain(
    error: BaseException, node: Any, starts: list[Any], freed: Freed, nothing: Freed
) -> None:
    """Add to `error` where it happened and what the pass had released by then."""
    if node is None:
        return
    gone = [
        at for at in reachable(starts) if isinstance(at._released, Freed) and at._released is freed
    ]
    label = node.label
    if isinstance(error, GeneratorExit):
        label = f"the step after {label}"
    freed.text = nothing.text = (
        f"belongs to a backward that failed at {label} after it had released this. Run forward again."
    )
    if gone:
        names = ", ".join(at.label for at in gone[:8]) + (
            f" and {len(gone) - 8} more" if gone[8:] else ""
        )
        note = f"Raised in backward at {label}. Already run, and released: {names}. No .grad was written."
    else:
        note = f"Raised in backward at {label}. Nothing had been released. No .grad was written."
    error.add_note(note)


def reachable(starts: list[Any]) -> list[Any]:
    """The nodes upstream of `starts`, themselves included, leaves left out: latest first."""
    reached, stack = set(starts), list(starts)
    while stack:
        for upstream in getattr(stack.pop(), "_next_nodes", ()):
            if upstream and upstream not in reached:
                reached.add(upstream)
                stack.append(upstream)
    nodes = [node for node in reached if not isinstance(node, AccumulateGrad)]
    return sorted(nodes, key=lambda node: -node.sequence_nr)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
