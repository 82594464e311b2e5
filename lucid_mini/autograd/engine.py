"""The engine: one loop for `backward`, `grad` and `steps`, first order and higher.

`traverse` takes, from the nodes reached, the one with the highest sequence number. All its
consumers were made later, so they have run, and its gradient is complete: no counting pass, no
recursion.

In a first-order pass gradients are arrays, and become tensors only for a rule that wants tensors.
Under `create_graph` they are tensors everywhere, and recording is on.

The lines that exist for memory: a gradient is *popped* from `pending` (kept there, every gradient
of the pass would live to its end), `grad` and `grads` are dropped before the next node runs, and a
node lets go of what it saved as soon as it has run.
"""

import sys
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .. import events
from ..errors import GraphFreedError
from . import saved
from .ctx import ARRAYS, IDLE, _set_named, _set_phase, _set_saved, better_missing
from .cycles import warn_of_cycle
from .hook_calls import run_leaf_hooks, run_posthooks, run_prehooks, run_tensor_hooks
from .mode import thread
from .node import NOT_A_TENSOR as NOT_A_TENSOR
from .node import next_pass
from .node import reachable as reachable
from .part import Part
from .refcount import ALONE
from .rules import as_tuple, call_rule, fit, refuse_gradient
from .saved import Array, Freed

#: From this many elements on, adding in place is faster than into a new array.
IN_PLACE_FROM = 1024


class Step(NamedTuple):
    """What one node did: `steps()` yields one per node executed.

    `grads_in`: gradients of its outputs; `grads_out`: of its arguments. `ready`: labels of the
    nodes that have a gradient and wait, in the order they will run. `counts`: for each of them, how
    many consumers have yet to deliver. `released`: bytes of saved data let go of.

    Example:
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> y = (x * x).exp()
        >>> step = next(lm.autograd.steps(y))
        >>> step.node.label, step.released, step.ready, step.counts
        ('exp#2', 8, ('mul#1',), {'mul#1': 0})
    """

    node: Any
    grads_in: tuple[Any, ...]
    grads_out: tuple[Any, ...]
    ready: tuple[str, ...]
    counts: dict[str, int]
    released: int


class Wanted(NamedTuple):
    """The gradients a caller asked for: `found` is filled in, by (node, output number).

    `path` holds the nodes from which one of them can be reached: only those run. `reach` holds the
    targets too: only those are delivered to. `accumulate`: a leaf gets its gradient into `.grad`.
    """

    found: dict[tuple[Any, int], Any]
    path: set[Any]
    reach: set[Any]
    accumulate: bool


def traverse(
    roots: list[tuple[Any, int, Any]],
    *,
    retain: bool,
    create: bool,
    wanted: Wanted | None = None,
    watch: bool = False,
) -> Iterator[Step]:
    """Send the gradient of each root `(node, output_nr, gradient)` to the leaves, or to `wanted`.

    A generator: with `watch` it yields a Step per node, without it runs through to the end.
    Shape: a gradient has the shape of the output it belongs to.   Keeps: one gradient per live
    edge, dropped on use.
    Raises: GraphFreedError, GradientCountError, GradientShapeError, VersionMismatchError,
    TypeError.
    """
    pending: dict[Any, Any] = {}
    kept: dict[tuple[Any, int], Any] = {}
    heap: list[tuple[int, Any]] = []
    starts = [node for node, _, _ in roots]
    for root, output_nr, grad in roots:
        _deliver(pending, heap, root, output_nr, grad)
    roots.clear()
    freed, nothing = next_pass()
    kind = type(saved.wrap(np.empty(0))) if create else np.ndarray
    node = root = grad = grads = g = step_in = written = None
    found_mode, thread.mode.recording = thread.mode.recording, create
    try:
        while heap:
            node = heappop(heap)[1]
            grad = pending.pop(node)
            if node._hooks is not None or wanted is not None:
                grad = _arrive(node, grad, wanted, kept, create)
                if grad is None:
                    continue
            if node._released is not None:
                _refuse_released(node)
            recorder = events.recorder
            if recorder is not None:
                recorder.running(node, grad)

            if create or not node.function._direct or node._outputs is not None:
                grads = call_rule(node, grad, create)
            else:
                _set_phase(node._ctx, ARRAYS)
                grads = node.function.backward(node._ctx, grad)
                if retain:
                    _set_phase(node._ctx, IDLE)

            nodes = node._next_nodes
            if type(grads) is kind:
                grads = (grads,)
            if type(grads) is not tuple or len(grads) != len(nodes):
                grads = as_tuple(grads, node)
            if recorder is not None:
                recorder.ran(node, grads)
            if node._hooks is not None and node._hooks.post:
                grads = run_posthooks(node, grads, grad, create)
            if watch:
                step_in, held = grad, saved.held_bytes(node._ctx._saved)
            grad = None
            if not retain:
                if recorder is not None:
                    recorder.released(node)
                node._released = freed
                ctx = node._ctx
                _set_saved(ctx, nothing if ctx._saved is None else freed)
                if ctx._named is not None:
                    _set_named(ctx, None)

            for index, g in enumerate(grads):
                upstream = nodes[index]
                if g is None or not upstream:
                    if g is not None and upstream is NOT_A_TENSOR:
                        refuse_gradient(node, index)
                    continue
                if wanted is not None and upstream not in wanted.reach:
                    continue
                if (
                    type(g) is not kind
                    or g.shape != upstream.shape
                    or g.dtype is not upstream.dtype
                ):
                    if type(g) is Part and _add_part(pending, upstream, g):
                        continue
                    g = fit(g, node, index, create)  # noqa: PLW2901
                if upstream._outputs is not None:
                    nr = node._next_nrs[index] if node._next_nrs else 0
                    _deliver(pending, heap, upstream, nr, g)
                elif upstream in pending:
                    _add(pending, upstream, g)
                else:
                    pending[upstream] = g
                    if upstream.sequence_nr:
                        heappush(heap, (-upstream.sequence_nr, upstream))
            g = None

            if watch:
                step = _step(node, step_in, grads, heap, 0 if retain else held)
                step_in = grads = None
                thread.mode.recording = found_mode
                try:
                    yield step
                finally:
                    found_mode, thread.mode.recording = thread.mode.recording, create
            grads = None
        node = None
        written = _finish(pending, kept, wanted, create)
        _announce(written, create)
    except BaseException as error:
        # The traceback keeps this frame for as long as the error lives: nothing may stay in it.
        pending.clear()
        kept.clear()
        heap.clear()
        grad = grads = g = step_in = None
        _explain(error, node, starts, freed, nothing, written is not None)
        raise
    finally:
        thread.mode.recording = found_mode
        # A failed rule may have left its ctx in the middle of a call.
        if node is not None:
            _set_phase(node._ctx, IDLE)


def _refuse_released(node: Any) -> NoReturn:
    raise GraphFreedError(f"{node.label} {node._released.text}")


def _arrive(
    node: Any, grad: Any, wanted: Wanted | None, kept: dict[tuple[Any, int], Any], create: bool
) -> Any:
    """What is done with the complete gradient of `node` before it runs, in this order.

    Tensor hooks; then `retain_grad` and the caller's request take what the hooks have made of it;
    then prehooks. None where the pass need not run the node.
    """
    hooks = node._hooks
    if hooks is not None:
        grad = run_tensor_hooks(node, grad, create)
        if hooks.retain and (wanted is None or wanted.accumulate):
            grads = (grad,) if node._outputs is None else grad
            for output_nr, reference in hooks.retain.items():
                if grads[output_nr] is not None and reference() is not None:
                    kept[node, output_nr] = grads[output_nr]
    if wanted is not None:
        _collect(wanted, node, grad)
        if node not in wanted.path:
            return None
    if hooks is not None and hooks.pre and node._released is None:
        grad = run_prehooks(node, grad, create)
    return grad


def _collect(wanted: Wanted, node: Any, grad: Any) -> None:
    """Keep the gradient of an output of `node` if it was asked for."""
    for output_nr, g in enumerate((grad,) if node._outputs is None else grad):
        if (node, output_nr) in wanted.found:
            wanted.found[node, output_nr] = g


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
    """Add `grad` to the gradient `where[key]`: in place if it is large and nobody else has it.

    Alone means: besides the name `total` here, only `where` holds it.
    """
    total = where[key]
    if events.recorder is not None:
        events.recorder.adding(total, grad)
    if type(total) is not np.ndarray:
        where[key] = total + grad
    elif total.size >= IN_PLACE_FROM and sys.getrefcount(total) == ALONE + 1 and _is_whole(total):
        np.add(total, grad, out=total)
    else:
        total = total + grad
        where[key] = total if type(total) is np.ndarray else np.asarray(total)
        if events.recorder is not None:
            events.recorder.summed(key, where[key])


def _add_part(pending: dict[Any, Any], node: Any, part: Part) -> bool:
    """Add `part` in place to the gradient of `node`, if there is one that nobody else has."""
    total = pending.get(node)
    if type(total) is not np.ndarray or sys.getrefcount(total) != ALONE + 1:
        return False
    if total.shape != part.shape or total.dtype is not part.dtype or not _is_whole(total):
        return False
    if events.recorder is not None:
        events.recorder.adding(total, part.values)
    part.add_to(total)
    return True


def _is_whole(array: Array) -> bool:
    """Whether `array` owns its memory and may be written."""
    return array.base is None and bool(array.flags.writeable)


def own(pending: dict[Any, Any], key: Any) -> Any:
    """Take a gradient out of `pending` as a tensor that shares memory with nobody.

    The array itself if only `pending` had it; a copy if a rule returned it twice, a hook kept it,
    or it is a view.
    """
    grad = pending.pop(key)
    if type(grad) is np.ndarray:
        alone = sys.getrefcount(grad) == ALONE and _is_whole(grad)
        return saved.wrap(grad if alone else grad.copy())
    data = grad._data
    if sys.getrefcount(grad) == ALONE and sys.getrefcount(data) == ALONE + 1 and _is_whole(data):
        return grad
    return grad.clone()


def grown(before: Any, grad: Any) -> Any:
    """`.grad` after `grad` arrived: a new tensor, for user code may have seen the one before."""
    if before is None:
        return grad
    if thread.mode.recording:
        return before + grad
    return saved.wrap(np.asarray(before._data + grad._data))


# -- the end of a pass ----------------------------------------------------------------------------


def _finish(
    pending: dict[Any, Any],
    kept: dict[tuple[Any, int], Any],
    wanted: Wanted | None,
    create: bool,
) -> list[tuple[Any, Any, Any]]:
    """Give all leaves their gradients, or none: hooks first, which may raise, then the writes.

    Returns, for each leaf about which something is to be done: its AccumulateGrad, itself, and the
    gradient if a hook wants it.
    """
    writes = wanted is None or wanted.accumulate
    for accumulate in list(pending):
        leaf = accumulate._leaf()
        if writes and (leaf is None or leaf._node is None):
            del pending[accumulate]  # the leaf is gone, or no longer wants a gradient
        elif accumulate._hooks is not None:
            grad = run_tensor_hooks(accumulate, pending[accumulate], create)
            pending[accumulate] = run_prehooks(accumulate, grad, create) if writes else grad
    if wanted is not None and not writes:
        for accumulate in list(pending):
            _collect(wanted, accumulate, pending.pop(accumulate))
        return []

    written = []
    for accumulate in list(pending):
        leaf = accumulate._leaf()
        if leaf is None:
            continue
        hooks = accumulate._hooks
        if hooks is not None or create:
            seen = pending[accumulate] if hooks is not None and hooks.post else None
            written.append((accumulate, leaf, seen))
        leaf._grad = grown(leaf._grad, own(pending, accumulate))
        if events.recorder is not None:
            events.recorder.accumulated(leaf, leaf._grad)
    for node, output_nr in list(kept):
        tensor = node._hooks.retain[output_nr]()
        if tensor is not None:
            tensor._grad = grown(tensor._grad, own(kept, (node, output_nr)))
    return written


def _announce(written: list[tuple[Any, Any, Any]], create: bool) -> None:
    """Run the hooks that follow the writes, and warn of a `.grad` that holds its own leaf."""
    for accumulate, leaf, grad in written:
        if accumulate._hooks is not None:
            run_leaf_hooks(accumulate, leaf, grad, create)
    if create:
        warn_of_cycle([leaf for _, leaf, _ in written])


def _explain(
    error: BaseException,
    node: Any,
    starts: list[Any],
    freed: Freed,
    nothing: Freed,
    written: bool,
) -> None:
    """Add to `error` where it happened, what was released by then, and whether `.grad` changed."""
    if written:
        error.add_note("Raised in a hook that runs when every .grad has been written.")
        return
    where = "the leaves" if node is None else node.label
    if isinstance(error, GeneratorExit):
        where = f"the step after {where}"
    if isinstance(error, AttributeError) and node is not None:
        better_missing(error, node._ctx)
    gone = [at.label for at in reachable(starts) if at._released is freed]
    freed.text = nothing.text = (
        f"belongs to a backward that failed at {where} after it had released this. Run forward "
        "again."
    )
    names = ", ".join(gone[:8]) + (f" and {len(gone) - 8} more" if gone[8:] else "")
    done = f"Already run, and released: {names}." if gone else "Nothing had been released."
    error.add_note(f"Raised in backward at {where}. {done} No .grad was written.")


# -- requests and steps ---------------------------------------------------------------------------


def path_to(starts: list[Any], targets: list[tuple[Any, int]], accumulate: bool = False) -> Wanted:
    """Which of the nodes reachable from `starts` lead to one of `targets`."""
    reach = {node for node, _ in targets}
    path = set()
    for node in reversed(reachable(starts)):
        if any(upstream and upstream in reach for upstream in node._next_nodes):
            path.add(node)
            reach.add(node)
    return Wanted(dict.fromkeys(targets), path, reach, accumulate)


def _step(
    node: Any, grad: Any, grads: tuple[Any, ...], heap: list[tuple[int, Any]], released: int
) -> Step:
    ready = [waiting for _, waiting in sorted(heap)]
    counts = {waiting.label: 0 for waiting in ready}
    for at in reachable(ready):
        for upstream in at._next_nodes:
            if upstream and upstream.sequence_nr and upstream.label in counts:
                counts[upstream.label] += 1
    grads_in = tuple(grad) if node._outputs is not None else (grad,)
    return Step(
        node,
        tuple(map(_shown, grads_in)),
        tuple(map(_shown, grads)),
        tuple(counts),
        counts,
        released,
    )


def _shown(grad: Any) -> Any:
    """A gradient as a tensor that whoever looks may keep and write."""
    if type(grad) is Part:
        return saved.wrap(grad.whole())
    return grad if grad is None or hasattr(grad, "_memory") else saved.wrap(np.array(grad))
