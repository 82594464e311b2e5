"""to_torch: a Function of lucid_mini as a Function of PyTorch.

    Torch = lm.bridge.torch.to_torch(Square)      Torch.apply(x): x and its history are PyTorch's

Forward and rule run unchanged. What they are handed are tensors of lucid_mini that stand on tensors
of PyTorch (`array.py`), so that PyTorch computes; what they say to their ctx is passed on to the
ctx of PyTorch, so that PyTorch owns the graph:

    forward   Tensor(TorchArray(x)) -> forward(ctx, ...) -> outputs, saved tensors, marks -> PyTorch
    backward  PyTorch's saved_tensors, its gradients -> rule(ctx, ...) -> checked -> PyTorch

Release, version checks, `retain_graph`, hooks, threads and devices are PyTorch's. What lucid_mini
refuses and PyTorch lets pass (a wrong shape, an array as a gradient, an unmarked write) stays
refused. Under `create_graph` PyTorch records what the rule computes.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, NoReturn

import numpy as np

from .. import events
from ..autograd import ctx as ctx_fields
from ..autograd import rules, saved
from ..autograd.captures import contents, warn_of_captures
from ..autograd.ctx import ARRAYS, FORWARD, FORWARD_UNRECORDED, IDLE, FunctionCtx, better_missing
from ..autograd.function import Function, is_in
from ..autograd.mode import thread
from ..autograd.node import NOT_A_TENSOR, AccumulateGrad, Node
from ..autograd.once import refuse_second
from ..autograd.part import Part
from ..autograd.saved import FROZEN_GRADIENT, Memory
from ..autograd.shapes import broadcasts_to, sum_to
from ..autograd.tensor import Tensor, wrap
from ..errors import GraphFreedError
from .array import TorchArray, dtype_of, tensor_of
from .installed import torch


def to_torch(function: type[Function]) -> Any:
    """A `torch.autograd.Function` with the forward and the backward rule of `function`.

    Call it as any other: `to_torch(Square).apply(x)`. Keywords bind as in lucid_mini. The same
    class comes back for the same Function; what `from_torch` made gives its original.

    Keeps: per recorded call the node of PyTorch, on it one ctx, and what forward saves (in
    PyTorch's `save_for_backward`). An object saved by keyword lives as long as the node.
    Raises: TypeError for what is no Function of lucid_mini, and at a call for a tensor hidden in a
    container and for names of NumPy that PyTorch has not; in backward what lucid_mini raises. A
    rule that runs a pass of lucid_mini's own engine gets a TypeError from it.

    Example:
        >>> import torch
        >>> import lucid_mini as lm
        >>> class Square(lm.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * grad
        >>> x = torch.tensor([3.0], requires_grad=True)
        >>> y = lm.bridge.torch.to_torch(Square).apply(x)
        >>> y
        tensor([9.], grad_fn=<SquareBackward>)
        >>> y.backward()
        >>> x.grad
        tensor([6.])
    """
    if not (isinstance(function, type) and issubclass(function, Function)):
        given = getattr(function, "__name__", type(function).__name__)
        raise TypeError(
            f"to_torch takes a subclass of lm.autograd.Function, not {given}; what "
            "lm.autograd.autograd_function gave has its class under .function"
        )
    if "_torch" not in function.__dict__:
        function._torch = _made_for_torch(function)  # type: ignore[attr-defined]
    return function.__dict__["_torch"]


def _made_for_torch(function: type[Function]) -> Any:
    def forward(torch_ctx: Any, recording: bool, *args: Any) -> Any:
        return _forward(function, torch_ctx, recording, args)

    def backward(torch_ctx: Any, *grads: Any) -> Any:
        return (None, *_backward(torch_ctx, grads))

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            path, args = function.bound(args, kwargs)
            if path is not function:
                return to_torch(path).apply(*args)
        return super(made, cls).apply(torch.is_grad_enabled(), *args)

    body = {
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
        "apply": classmethod(apply),
        "lucid_mini": function,
    }
    made: Any = type(function.__name__, (torch.autograd.Function,), body)
    return made


# -- the ctx --------------------------------------------------------------------------------------


class _Input:
    """What a gradient must be like: the facts of one argument that needs one."""

    __slots__ = ("device", "dtype", "shape")

    _outputs: ClassVar[None] = None

    def __init__(self, tensor: Any) -> None:
        self.shape = tuple(tensor.shape)
        self.dtype, self.device = tensor.dtype, tensor.device


class _Call:
    """One call of a Function in the place of a Node, for those who check what its rule returned."""

    __slots__ = ("_next_nodes", "function")

    _next_nrs: ClassVar[None] = None

    def __init__(self, function: type[Function], inputs: tuple[Any, ...]) -> None:
        self.function = function
        self._next_nodes = inputs


class _FrozenSaved(Memory):
    __slots__ = ()
    frozen = "a tensor that was saved, while its backward runs"


_FROZEN_SAVED = _FrozenSaved()


class TorchCtx(FunctionCtx):
    """The ctx of a call in PyTorch: says what a FunctionCtx says, and has its values from there.

    Owned by the ctx of PyTorch, which is the node; knows it only while the rule runs.
    """

    __slots__ = ("_before", "_call", "_intermediates", "_torch")

    _call: _Call
    _torch: Any  # the ctx of PyTorch, while the rule runs
    _before: dict[int, Any]  # id of a node of an input -> its value before it was written
    _intermediates: list[tuple[int, ...]]  # shapes of what was saved and made on the way

    def __init__(self, function: type[Function], call: _Call, needs: list[Any]) -> None:
        super().__init__()
        ctx_fields._set_function(self, function)
        key = sum(1 << index for index, flag in enumerate(needs) if flag) | 1 << len(needs)
        ctx_fields._set_needs(self, function._needs.get(key) or function._flags(needs, key))
        _set(self, "_call", call)
        _set(self, "_torch", None)
        _set(self, "_before", {})
        _set(self, "_intermediates", [])

    def mark_dirty(self, *inputs: Any) -> None:
        """Say that forward writes `inputs` in place; what they are now keeps its history."""
        super().mark_dirty(*inputs)
        for tensor in inputs:
            if tensor._node is not None and type(tensor._data) is TorchArray:
                with torch.enable_grad():
                    self._before[id(tensor._node)] = tensor._data.torch.clone()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved. In backward PyTorch gives it, and says why where it cannot."""
        if self._phase in (FORWARD, FORWARD_UNRECORDED):
            return FunctionCtx.saved_tensors.__get__(self)  # type: ignore[no-any-return]
        return self._from_torch()

    @property
    def saved_variables(self) -> Any:
        """What was saved, by name; positional values under their position."""
        if self._phase in (FORWARD, FORWARD_UNRECORDED):
            return FunctionCtx.saved_variables.__get__(self)
        return self._with_names(self._from_torch())

    def _from_torch(self) -> tuple[Any, ...]:
        if self._torch is None:
            raise GraphFreedError(
                f"{self._name}: this ctx was read while its backward does not run, and PyTorch "
                "gives saved tensors only there. Save what is needed elsewhere in a place of yours."
            )
        return tuple(
            [
                None if tensor is None else self.handed(tensor, _FROZEN_SAVED)
                for tensor in self._torch.saved_tensors
            ]
        )

    def handed(self, tensor: Any, memory: Memory | None) -> Any:
        """A tensor of PyTorch as the rule gets it: an array for `arrays = True`, else a tensor."""
        array: Any = TorchArray(tensor)
        if self._phase is ARRAYS:
            return array
        made = wrap(array)
        made._memory = memory
        return made

    def _node(self) -> Any:
        return None  # the node is PyTorch's


def _set(ctx: TorchCtx, field: str, value: Any) -> None:
    TorchCtx.__dict__[field].__set__(ctx, value)


@contextmanager
def _unrecorded() -> Iterator[None]:
    """In the block lucid_mini records no history and notes no event: both are PyTorch's matter."""
    mode = thread.mode
    found = mode.recording, mode.along, events.recorder
    mode.recording, mode.along, events.recorder = False, _switch_torch, None
    try:
        yield
    finally:
        mode.recording, mode.along, events.recorder = found


def _switch_torch(recording: bool) -> Callable[[], None]:
    """Under `lm.no_grad()` PyTorch records nothing either; afterwards it does as before."""
    found = torch.is_grad_enabled()
    torch.set_grad_enabled(found and recording)
    return functools.partial(torch.set_grad_enabled, found)


# -- forward --------------------------------------------------------------------------------------


class PyTorch(Function):
    """Stands for what made an argument: its history is PyTorch's."""


def _upstream() -> Any:
    node: Any = Node()
    node.function, node.sequence_nr, node._next_nodes = PyTorch, 1, ()
    node._hooks = node._released = node._outputs = node._next_nrs = None
    return node


def _forward(
    function: type[Function], torch_ctx: Any, recording: bool, args: tuple[Any, ...]
) -> Any:
    """Run forward on `args`, and tell PyTorch what it returned, saved and marked."""
    needs = [recording and flag for flag in torch_ctx.needs_input_grad[1:]]
    given = _arguments(function, args, needs)
    if function.broadcasts:
        given = function._operands(given)
    inputs = [_input(t, a, flag) for t, a, flag in zip(given, args, needs, strict=True)]
    call = _Call(function, tuple(inputs))
    ctx = TorchCtx(function, call, needs)
    ctx_fields._set_phase(ctx, FORWARD if any(needs) else FORWARD_UNRECORDED)
    captured = contents(function._captures)
    with _unrecorded():
        writes = saved.writes
        try:
            output = function._forward(ctx, *given)
        except Exception as error:
            function._explain(error, ctx, given)
            raise
        function._check_writes(ctx, given, writes)
        outputs = function._as_outputs(output)
        function._check_marks(ctx, given, outputs, writes)
        if function._captures and recording:
            warn_of_captures(function, function._captures, captured, given, outputs)
        made = _outputs(function, given, args, outputs)
        pairs = [*zip(outputs, made, strict=True), *zip(given, args, strict=True)]
        known = {id(t): tensor for t, tensor in pairs if isinstance(tensor, torch.Tensor)}
        _pass_on(torch_ctx, ctx, known, given, outputs, _device(args))
    ctx_fields._set_phase(ctx, IDLE)
    torch_ctx.lucid_mini = ctx
    return tuple(made) if isinstance(output, tuple | list) else made[0]


def _arguments(
    function: type[Function], args: tuple[Any, ...], needs: list[Any]
) -> tuple[Any, ...]:
    """`args` as forward gets them; one that was passed twice is one tensor there too."""
    made: list[Any] = []
    for index, value in enumerate(args):
        first = next(at for at, other in enumerate(args) if other is value)
        made.append(
            made[first] if first < index else _argument(function, args, index, needs[index])
        )
    return tuple(made)


def _argument(function: type[Function], args: tuple[Any, ...], index: int, needed: bool) -> Any:
    """An argument as forward gets it: a tensor of PyTorch as one of lucid_mini that stands on it.

    Raises: TypeError for a container with a tensor that requires grad in it.
    """
    value = args[index]
    if isinstance(value, torch.Tensor):
        dtype = dtype_of(value)
        array: Any = TorchArray(value)
        tensor = wrap(array)
        if needed:
            leaf = value.is_leaf
            tensor._node = AccumulateGrad(tensor, tensor.shape, dtype) if leaf else _upstream()
        return tensor
    name = function.argument_names(index + 1)[index]
    if type(value) is Tensor:
        raise TypeError(
            f"{function.__name__}.apply: argument '{name}' is a tensor of lucid_mini, and this "
            "class is called with tensors of PyTorch; use torch.from_numpy(x.numpy().copy())"
        )
    if _hides_tensor(value):
        raise TypeError(
            f"{function.__name__}.apply: argument '{name}' is a {type(value).__name__} that holds "
            "a tensor which requires grad, and its gradient would be lost. Pass tensors as "
            "separate arguments."
        )
    return value


def _hides_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return any(_hides_tensor(item) for item in value)
    return isinstance(value, torch.Tensor) and bool(value.requires_grad)


def _input(tensor: Any, value: Any, needed: bool) -> Any:
    """What is asked of the gradient of an argument: `tensor` as forward gets it, `value` given."""
    if type(tensor) is not Tensor:
        return NOT_A_TENSOR
    return _Input(value) if needed else None


def _device(args: tuple[Any, ...]) -> Any:
    """Where the arguments are: what a forward makes by itself goes there too."""
    return next((a.device for a in args if isinstance(a, torch.Tensor)), "cpu")


def _torch_of(tensor: Any, device: Any) -> Any:
    """The tensor of PyTorch under a tensor of lucid_mini; a copy of one that stands on NumPy."""
    data = tensor._data
    return data.torch if type(data) is TorchArray else tensor_of(data, device)


def _outputs(
    function: type[Function],
    given: tuple[Any, ...],
    args: tuple[Any, ...],
    outputs: tuple[Any, ...],
) -> list[Any]:
    """The outputs for PyTorch: an input handed out again as that very tensor."""
    made: list[Any] = []
    for number, item in enumerate(outputs):
        if type(item) is not Tensor:
            function._refuse_nested(outputs, number)
            made.append(item)
            continue
        if is_in(item, given):
            tensor = next(a for t, a in zip(given, args, strict=True) if t is item)
        else:
            tensor = _torch_of(item, _device(args))
        # Returned twice: two gradient slots.
        made.append(tensor.detach() if is_in(tensor, tuple(made)) else tensor)
    return made


def _pass_on(
    torch_ctx: Any,
    ctx: TorchCtx,
    known: dict[int, Any],
    given: tuple[Any, ...],
    outputs: tuple[Any, ...],
    device: Any,
) -> None:
    """Tell PyTorch's ctx what was saved and marked; afterwards `ctx` itself holds no tensor.

    `known`: the tensor of PyTorch for each argument and output, by the id of ours.
    """
    slots = ctx._saved or ()
    if slots:
        torch_ctx.save_for_backward(*[_kept(slot, ctx, known, device) for slot in slots])
        ctx._intermediates.extend([s.shape for s in slots if _is_made(s, ctx, known, given)])
        ctx_fields._set_saved(ctx, ())
    marks = ctx._marks
    if marks is None:
        return
    if marks.kept:
        ctx._warn_of_kept(outputs)
    if marks.dirty:
        torch_ctx.mark_dirty(*[known[id(tensor)] for tensor in marks.dirty])
    if marks.non_differentiable:
        torch_ctx.mark_non_differentiable(*[known[id(t)] for t in marks.non_differentiable])
    torch_ctx.set_materialize_grads(marks.materialize)
    marks.dirty = marks.non_differentiable = None


def _is_made(slot: Any, ctx: TorchCtx, known: dict[int, Any], given: tuple[Any, ...]) -> bool:
    """Whether forward made `slot` on the way, so that it has no history."""
    if slot is None or id(slot) in known or id(slot._node) in ctx._before or is_in(slot, given):
        return False
    return bool(slot.dtype.kind == "f")


def _kept(slot: Any, ctx: TorchCtx, known: dict[int, Any], device: Any) -> Any:
    """What PyTorch keeps for a saved tensor: an input or output itself, so that its history stays.

    A copy made before a write has the node of the input that was written; it is given its history.
    """
    if slot is None or id(slot) in known:
        return None if slot is None else known[id(slot)]
    if id(slot._node) in ctx._before:
        return ctx._before[id(slot._node)]
    return _torch_of(slot, device).detach()


# -- backward -------------------------------------------------------------------------------------


def _backward(torch_ctx: Any, grads: tuple[Any, ...]) -> list[Any]:
    """Run the rule on the gradients of PyTorch, and check what it returns."""
    ctx: TorchCtx = torch_ctx.lucid_mini
    call, function = ctx._call, ctx._call.function
    once = getattr(function.backward, "once_differentiable", False)
    create = torch.is_grad_enabled() and not once
    arrays = function.arrays and not create
    if create and ctx._intermediates:
        rules.warn_of_intermediates(function.__name__, ctx._intermediates)
    if function._captures:
        warn_of_captures(function, function._captures)
    _set(ctx, "_torch", torch_ctx)
    ctx_fields._set_phase(ctx, ARRAYS if arrays else call)
    frozen = None if create else FROZEN_GRADIENT
    try:
        with _unrecorded(), torch.no_grad() if once else nullcontext():
            given = [None if grad is None else ctx.handed(grad, frozen) for grad in grads]
            results = rules.as_tuple(function.backward(ctx, *given), call)
            fitting = [_fit(g, call, index, arrays) for index, g in enumerate(results)]
    except Exception as error:
        if isinstance(error, AttributeError):
            better_missing(error, ctx)
        error.add_note(f"Raised in {function.__name__}.backward, which PyTorch's engine runs.")
        raise
    finally:
        _set(ctx, "_torch", None)
        ctx_fields._set_phase(ctx, IDLE)
    if once and torch.is_grad_enabled():
        return _closed(torch_ctx, function, grads, fitting)
    return fitting


def _fit(g: Any, call: _Call, index: int, arrays: bool) -> Any:
    """A gradient as PyTorch gets it: a tensor of the shape, dtype and device of its argument.

    Raises: TypeError, GradientShapeError, GradientCountError for one given to no tensor.
    """
    wanted = call._next_nodes[index]
    if g is None:
        return None
    if wanted is NOT_A_TENSOR:
        rules.refuse_gradient(call, index)
    if wanted is None:
        return None
    if arrays:
        g = g.whole() if type(g) is Part else g
        if not isinstance(g, TorchArray | np.ndarray | np.generic):
            rules.refuse_type(g, call, index, "an array")
        data: Any = g
    else:
        if type(g) is not Tensor:
            rules.refuse_type(g, call, index, "a tensor")
        data = g._data
    if data.shape != wanted.shape:
        if not call.function.broadcasts or not broadcasts_to(wanted.shape, data.shape):
            rules.refuse_shape(call, index, data.shape, wanted.shape)
        data = sum_to(data, wanted.shape)
    tensor = data.torch if type(data) is TorchArray else tensor_of(np.asarray(data), wanted.device)
    return tensor.to(wanted.dtype)


class _OnceOnly(torch.autograd.Function):  # type: ignore[misc]
    """Stands behind a rule that is `once_differentiable`: the value passes, its gradient raises."""

    @staticmethod
    def forward(ctx: Any, value: Any, label: str, *sources: Any) -> Any:
        """`sources`: what the value depends on."""
        ctx.label = label
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        """Raise."""
        refuse_second(ctx.label)


def _closed(
    torch_ctx: Any, function: type[Function], grads: tuple[Any, ...], results: list[Any]
) -> list[Any]:
    """`results` of a rule that may not be differentiated: whoever does so anywhere is told."""
    sources = [t for t in (*grads, *torch_ctx.saved_tensors) if t is not None and t.requires_grad]
    label = f"{function.__name__}.backward"
    return [None if r is None else _OnceOnly.apply(r, label, *sources) for r in results]
