"""checkpoint: run a function without recording it, and run it again when backward gets there.

    forward    fn runs under no_grad; one node is made, which keeps the inputs
    backward   fn runs again, recorded; its graph is walked and dropped

    Bytes between the two: those of the inputs.   Time: one more forward.

The node needs an edge for each tensor the gradient must reach, and that includes parameters that
`fn` reads from outside (a closure, a layer object). Nobody names those, so the first run is
listened to: under no_grad, whatever an op takes that requires grad came from outside.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..autograd.function import Function
from ..autograd.mode import enable_grad, is_grad_enabled, no_grad
from ..autograd.node import next_sequence_nr
from ..autograd.passes import grad
from ..autograd.tensor import Tensor
from ..errors import CheckpointError
from ..ops import create
from .listen import Listener


def checkpoint(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`fn(*args, **kwargs)`, which keeps its inputs only, and is run again in backward.

    Tensors may stand in tuples, lists and dicts, in the arguments and in the result; what else
    there is passes through. Tensors that `fn` reads from outside get their gradients too. `rand`
    and `randn` give the second run the numbers of the first. Differentiable to any order;
    checkpoints may be nested.
    Not seen: whether `fn` looks at `is_grad_enabled()`, and random numbers from other generators.

    Keeps: the tensors among the arguments, and `fn`.
    Raises: TypeError for an `fn` that cannot be called; in backward CheckpointError if the second
    run gives other outputs than the first or uses other tensors, VersionMismatchError if an input
    was changed in between.

    Example:
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> lm.checkpoint(lambda x: x * x * x, x).backward()
        >>> x.grad
        tensor(27.)
    """
    if not callable(fn):
        raise TypeError(
            f"checkpoint takes a function and its arguments, and the first argument is "
            f"{type(fn).__name__}; write checkpoint(fn, x), not checkpoint(fn(x))"
        )
    if not is_grad_enabled():
        return fn(*args, **kwargs)
    inputs: list[Tensor] = []
    call = _Call(fn, _taken((args, kwargs), inputs), create.generator_state())
    with no_grad(), _Outside() as outside:
        result = fn(*args, **kwargs)
    outputs: list[Tensor] = []
    form = _taken(result, outputs)
    if not outputs:
        return result
    # The arrays of the first run are the outputs; forward only has to hand them out.
    call.outputs = outputs
    call.before = [_Trait.of(output) for output in outputs]
    closed = outside.others(inputs)
    outside.refuse_writes(call, [*inputs, *closed])
    call.made_leaves = outside.made_leaves
    del result, outputs, outside
    return _given(form, Checkpoint.apply(call, *inputs, *closed))


class _Call:
    """What a checkpoint node knows beside its tensors: the function, where its arguments stand."""

    __slots__ = ("before", "fn", "form", "made_leaves", "outputs", "state")

    def __init__(self, fn: Callable[..., Any], form: Any, state: Any) -> None:
        self.fn = fn
        self.form = form  # (args, kwargs) with a _Place for each tensor
        self.state = state  # of the generator, before the first run
        self.outputs: Sequence[Tensor] = ()
        self.before: list[_Trait] = []
        self.made_leaves = False


class Checkpoint(Function):
    """The one node of a checkpointed call.   Keeps: its inputs, and the function as `call`."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The outputs of the first run, as the outputs of this node."""
        ctx.save_for_backward(*tensors, call=call)
        ctx.set_materialize_grads(False)
        outputs, call.outputs = call.outputs, ()
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Run the function again, and take the gradients through it to the stand-ins."""
        tensors, call = ctx.saved_tensors, ctx.saved_variables.call
        recorded = is_grad_enabled()  # the pass itself is differentiated: create_graph=True
        with enable_grad():
            stand_ins = [_stand_in(tensor, recorded) for tensor in tensors]
            first = next_sequence_nr()
            outputs = _run_again(call, stand_ins)
            _cut(call, outputs, first, dict(zip(map(_edge, tensors), stand_ins, strict=True)))
            live = [
                (output, g)
                for output, g in zip(outputs, grads, strict=True)
                if g is not None and output.requires_grad
            ]
            del outputs
            wanted = [stand_in for stand_in in stand_ins if stand_in.requires_grad]
            if not live or not wanted:
                return (None,) * (1 + len(tensors))
            roots, seeds = map(list, zip(*live, strict=True))
            del live
            found = iter(grad(roots, wanted, seeds, create_graph=recorded, allow_unused=True))
        return None, *[next(found) if s.requires_grad else None for s in stand_ins]


# -- the first run --------------------------------------------------------------------------------


class _Outside(Listener):
    """Collects the tensors with history that ops take, and that were not made while it listens."""

    def __init__(self) -> None:
        super().__init__()
        self._first = next_sequence_nr()
        # Weakly: a leaf that fn itself makes and drops is no input, and shows it by being gone
        # afterwards.
        self._seen: dict[int, weakref.ref[Tensor]] = {}
        self._written: list[Any] = []

    def applied(
        self, node: Any, function: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]
    ) -> None:
        self.pass_on("applied", node, function, args, outputs)
        if self.hears():
            for a in args:
                if type(a) is Tensor and a._node is not None and a._node.sequence_nr < self._first:
                    self._seen[id(a)] = weakref.ref(a)

    def wrote(self, tensor: Any, what: str) -> None:
        self.pass_on("wrote", tensor, what)
        if self.hears():
            self._written.append(tensor._memory)

    def others(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The tensors seen that live and are not among `inputs`."""
        known = set(map(id, inputs))
        alive = [reference() for reference in self._seen.values()]
        return [tensor for tensor in alive if tensor is not None and id(tensor) not in known]

    def refuse_writes(self, call: _Call, tensors: Sequence[Tensor]) -> None:
        """Raise if a tensor that requires grad was written: the second run would write it again.

        Raises: CheckpointError.
        """
        for tensor in tensors:
            if tensor.requires_grad and any(tensor._memory is memory for memory in self._written):
                _refuse(
                    call, f"wrote in place into a tensor of shape {tensor.shape} that requires grad"
                )

    @property
    def made_leaves(self) -> bool:
        """Whether `fn` made leaves that require grad itself, as one that calls `grad()` does."""
        return any(reference() is None for reference in self._seen.values())


class _Trait(NamedTuple):
    """What is compared between the runs: shape, dtype, and two sums in place of the elements."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    total: float
    size: float

    @classmethod
    def of(cls, output: Tensor) -> "_Trait":
        array = output.numpy()
        total, size = (float(part.sum(dtype=np.float64)) for part in (array, np.abs(array)))
        return cls(array.shape, array.dtype, total, size)

    def agrees(self, other: "_Trait") -> bool:
        """Whether the sums are the same, but for what rounding in another order can do."""
        slack = 1e-5 * (self.size + other.size)
        near = abs(self.total - other.total) <= slack and abs(self.size - other.size) <= slack
        # Sums that are not finite tell nothing, or the same.
        return near or not np.isfinite(slack)


# -- the second run -------------------------------------------------------------------------------


def _stand_in(tensor: Tensor, recorded: bool) -> Tensor:
    """What takes the place of `tensor` in the second run, so that the inner pass ends there.

    A leaf on the same memory; where the pass is recorded a copy whose history leads on to `tensor`.
    """
    if not tensor.requires_grad:
        return tensor
    if recorded:
        return tensor.clone()  # type: ignore[no-any-return]
    return tensor.detach().requires_grad_()


def _run_again(call: _Call, stand_ins: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of the second run.

    Raises: CheckpointError where they are not those of the first.
    """
    args, kwargs = _given(call.form, stand_ins)
    outputs: list[Tensor] = []
    with create.replayed(call.state):
        _taken(call.fn(*args, **kwargs), outputs)
    if len(outputs) != len(call.before):
        _refuse(
            call, f"gave {len(outputs)} tensors when run again, and {len(call.before)} at first"
        )
    for index, (output, before) in enumerate(zip(outputs, call.before, strict=True)):
        if (output.shape, output.dtype) != (before.shape, before.dtype):
            _refuse(
                call,
                f"gave output {index} of shape {output.shape} and {output.dtype} when run again, "
                f"and of shape {before.shape} and {before.dtype} at first",
            )
        if not before.agrees(_Trait.of(output)):
            _refuse(call, f"gave other values for output {index} when run again")
    return outputs


def _cut(call: _Call, outputs: Sequence[Tensor], first: int, known: dict[Any, Tensor]) -> None:
    """Let every edge that leaves the second run's graph end at a stand-in.

    `fn` reads closed-over tensors by itself, so the edges lead to the caller's graph. Followed from
    here, hooks of the caller's leaves would run twice, and a parameter that is upstream of another
    closed-over tensor would get that part of its gradient twice: here, and by the outer pass.
    Raises: CheckpointError for a tensor that requires grad and that the first run did not use.
    """
    own = {stand_in._node for stand_in in known.values() if stand_in._node is not None}
    reached = {o._node for o in outputs if o._node is not None and o._node.sequence_nr >= first}
    stack = list(reached)
    while stack:
        node = stack.pop()
        nodes, nrs = list(node._next_nodes), list(node._next_nrs or [0] * len(node._next_nodes))
        for index, upstream in enumerate(nodes):
            if not upstream or upstream in own:
                continue
            if upstream.sequence_nr >= first:
                if upstream not in reached:
                    reached.add(upstream)
                    stack.append(upstream)
            elif (upstream, nrs[index]) in known:
                stand_in = known[upstream, nrs[index]]
                nodes[index], nrs[index] = stand_in._node, stand_in._output_nr
            elif not call.made_leaves:
                _refuse(
                    call,
                    "used a tensor that requires grad when run again, and did not use it at "
                    "first; its gradient would be lost",
                )
        node._next_nodes, node._next_nrs = tuple(nodes), tuple(nrs) if any(nrs) else None


def _edge(tensor: Tensor) -> tuple[Any, int]:
    """Where the gradient of `tensor` goes; for one without, something that no edge is equal to."""
    return (id(tensor) if tensor._node is None else tensor._node), tensor._output_nr


def _refuse(call: _Call, what: str) -> NoReturn:
    name = getattr(call.fn, "__name__", type(call.fn).__name__)
    raise CheckpointError(
        f"checkpoint: {name} {what}. It must do the same both times: draw random numbers from "
        "lm.rand or lm.randn only, and let nothing it reads change between forward and backward."
    )


# -- tensors inside containers --------------------------------------------------------------------


class _Place(NamedTuple):
    """Stands where tensor number `number` stood."""

    number: int


def _taken(value: Any, tensors: list[Tensor]) -> Any:
    """`value` with a _Place for each tensor; the tensors, each once, are added to `tensors`."""
    if type(value) is Tensor:
        for index, known in enumerate(tensors):
            if known is value:
                return _Place(index)
        tensors.append(value)
        return _Place(len(tensors) - 1)
    return _mapped(value, lambda item: _taken(item, tensors))


def _given(form: Any, tensors: Sequence[Tensor]) -> Any:
    """`form` with the tensors back in their places."""
    if type(form) is _Place:
        return tensors[form.number]
    return _mapped(form, lambda item: _given(item, tensors))


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A tuple, list or dict with `change` applied to what it holds; anything else as it is."""
    if type(value) is dict:
        return {key: change(item) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)([change(item) for item in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[change(item) for item in value])
    return value
