"""Function: a forward and its backward rule. `apply` runs the one and records the other.

    apply(x, y)
      1. looks at the arguments: which are tensors, which need a gradient
      2. makes a ctx and calls forward(ctx, x, y), with recording off
      3. if a gradient is needed, makes the node: its ctx, its edges, the shape of its output
      4. hangs the node on the output

Built-in ops and a reader's own go through this one function.
"""

import inspect
from collections.abc import Callable
from sys import getrefcount
from typing import Any, ClassVar, NoReturn

import numpy as np

from .. import events
from ..errors import CtxUsageError
from . import saved
from .captures import Capture, captures_of, contents, warn_of_captures
from .ctx import (
    _SMALL,
    FORWARD,
    FORWARD_UNRECORDED,
    IDLE,
    FunctionCtx,
    NeedsInputGrad,
    _a,
    _Fields,
    _set_phase,
    _set_saved,
    better_missing,
    is_small,
)
from .engine import NOT_A_TENSOR
from .inside import tensors_inside
from .mode import thread
from .node import Meta, Node, _sequence, kind_of
from .refcount import ALONE
from .saved import (
    INFERENCE,
    SavedAlias,
    memory_of,
    note_view,
    owner,
    record_write,
    saved_output,
)
from .tensor import Tensor, wrap

_FLOAT64, _FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)


class _ApplyOfClass:
    """`SomeFunction.apply`: the call path that was made for that class."""

    def __init__(self, described: Callable[..., Any]) -> None:
        self.__doc__ = described.__doc__

    def __get__(self, instance: object, owner: "type[Function]") -> Callable[..., Any]:
        """The call path of `owner`."""
        return owner._apply


def _applier(cls: "type[Function]") -> Callable[..., Any]:
    """The call path of one Function, closed over what it needs of the class.

    A closure variable costs a third of a class attribute, and a plain function needs no binding: an
    operator of Tensor can be this very function.
    """
    forward = cls._forward
    known_needs = cls._needs
    broadcasts = cls.broadcasts

    def apply(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            return cls._by_name(args, kwargs)
        next_nodes: list[Any] = []
        flags, bit, nrs = 0, 1, False
        for a in args:
            if broadcasts and type(a) is not Tensor:
                args = cls._operands(args)
                a = args[len(next_nodes)]  # noqa: PLW2901
            if type(a) is Tensor:
                node = a._node
                next_nodes.append(node)
                if node is not None:
                    flags |= bit
                    if a._output_nr:
                        nrs = True
            else:
                next_nodes.append(NOT_A_TENSOR)
                if type(a) not in _SMALL:
                    cls._refuse_hidden(args, len(next_nodes) - 1)
            bit += bit
        try:
            needs = known_needs[flags | bit]
        except KeyError:
            needs = cls._flags(next_nodes, flags | bit)

        mode = thread.mode
        recording = mode.recording
        ctx: Any = _Fields()
        ctx._function = cls
        ctx._needs = needs
        ctx._saved = ctx._versions = ctx._named = ctx._marks = None
        ctx._phase = FORWARD if recording and flags else FORWARD_UNRECORDED
        ctx.__class__ = FunctionCtx

        writes = saved.writes
        mode.recording = False
        try:
            output = forward(ctx, *args)
        except Exception as error:
            cls._explain(error, ctx, args)
            raise
        finally:
            mode.recording = recording
        if saved.writes != writes:
            cls._check_writes(ctx, args, writes)
        # One fresh tensor is what nearly every call gives. If nobody else holds it, it is neither
        # an argument nor saved, and there is nothing to look for.
        fresh = type(output) is Tensor and output._node is None and ctx._marks is None
        alone = fresh and getrefcount(output) == ALONE
        if fresh and output._data.base is not None:  # a view: what is saved may lie under it
            fresh = alone and not ctx._saved
            if fresh and output._base is None:
                note_base(output, args)
        if not (recording and flags):
            if fresh and (alone or not is_in(output, args)) and not mode.inference:
                _set_phase(ctx, IDLE)
                if events.recorder is not None:
                    events.recorder.applied(None, cls, args, (output,))
                return output
            return cls._unrecorded(ctx, args, output, writes)

        made: Any = Node()
        made.function = cls
        made._ctx = ctx
        made.sequence_nr = next(_sequence)
        made._next_nodes = tuple(next_nodes)
        made._next_nrs = (
            tuple([a._output_nr if type(a) is Tensor else 0 for a in args]) if nrs else None
        )
        made._hooks = made._released = None
        if fresh:
            data = output._data
            dtype = data.dtype
            if (dtype is _FLOAT64 or dtype is _FLOAT32) and (alone or not is_in(output, args)):
                made._outputs = None
                made.shape = data.shape
                made.dtype = dtype
                if ctx._saved is not None:
                    if not alone:
                        detach_output(ctx, args, output)
                    if saved.packer is not None:
                        saved.packer(ctx)
                _set_phase(ctx, IDLE)
                output._node = made
                if events.recorder is not None:
                    events.recorder.applied(made, cls, args, (output,))
                return output
        return cls._record(made, ctx, args, output, writes)

    apply.__doc__ = f"Call {cls.__name__}.forward, and record the call if a gradient is needed."
    apply.__name__ = "apply"
    apply.__qualname__ = f"{cls.__qualname__}.apply"
    return apply


def _watched(cls: "type[Function]", apply: Callable[..., Any]) -> Callable[..., Any]:
    """The call path of a Function whose methods capture something: looked at after each call."""

    def apply_and_look(*args: Any, **kwargs: Any) -> Any:
        before = contents(cls._captures)
        output = apply(*args, **kwargs)
        if thread.mode.recording:
            outputs = output if isinstance(output, tuple) else (output,)
            warn_of_captures(cls, cls._captures, before, args, outputs)
        return output

    return apply_and_look


def detach_output(ctx: Any, args: tuple[Any, ...], output: Tensor) -> None:
    """Where the one `output`, or a view of it, was saved: keep its array in place of the tensor."""
    slots = ctx._saved
    if len(slots) == 1 and slots[0] is output:
        _set_saved(ctx, (saved_output(output, 0),))
        return
    for slot in slots:
        if slot is output or (slot is not None and slot._base is output):
            keep_outputs(ctx, args, (output,), (True,))
            return


def keep_outputs(
    ctx: Any, args: tuple[Any, ...], outputs: tuple[Any, ...], has_grad: tuple[bool, ...]
) -> None:
    """Put slots without a tensor in place of saved outputs, views of them and dirty inputs.

    `has_grad`: which of the outputs have a gradient slot, to which a reader can attach them again.
    """

    def slot_for(value: Any) -> Any:
        if value is None:
            return None
        for number, output in enumerate(outputs):
            if value is output:
                return saved_output(value, number if has_grad[number] else -1)
        for output in outputs:
            if type(output) is not Tensor:
                continue
            made_here = value._node is None and not is_in(value, args)
            shared = value._memory is not None and value._memory is output._memory
            if value._base is output or (made_here and shared):
                return SavedAlias(value._data, memory_of(value), -1)
        return value

    if type(ctx._saved) is tuple:
        _set_saved(ctx, tuple([slot_for(value) for value in ctx._saved]))


def note_base(tensor: Any, args: tuple[Any, ...]) -> None:
    """If `tensor` is a view of an argument, give it that as base, and its version counter."""
    root = owner(tensor._data)
    for a in args:
        if type(a) is Tensor and owner(a._data) is root:
            tensor._base = a if a._base is None else a._base
            tensor._memory = memory_of(a)
            note_view(tensor)
            return


def is_in(tensor: Any, tensors: tuple[Any, ...]) -> bool:
    """Whether `tensor` itself is among `tensors` (`in` would compare values)."""
    for other in tensors:  # noqa: SIM110 - any() costs three times as much, and every call pays
        if other is tensor:
            return True
    return False


class Function:
    """Subclass it, give it two static methods, call `.apply(...)`.

    Or `forward(x)` with `setup_context(ctx, inputs, output)`.

    `arrays = True`: in a first-order pass backward gets NumPy arrays, gradients and saved values
    alike (under `create_graph` tensors, so write it with operators that both have).
    `broadcasts = True`: forward broadcasts its arguments against each other, and backward may
    return gradients of the output's shape: the engine sums them down.

    Keeps: per recorded call one node and one ctx, and what forward saves.

    Example:
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
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> Square.apply(x).backward()
        >>> x.grad
        tensor(6.)
    """

    arrays: ClassVar[bool] = False
    broadcasts: ClassVar[bool] = False

    _forward: ClassVar[Callable[..., Any]]
    _needs: ClassVar[dict[int, NeedsInputGrad]]
    _names: ClassVar[dict[int, tuple[str, ...]]]  # of the first so many arguments
    _warned: ClassVar[set[Any]]  # keys of the bag, and captures, that were warned of
    _with_keywords: ClassVar[dict[Any, Any]]
    _kind: ClassVar[str]
    _apply: ClassVar[Callable[..., Any]]
    _captures: ClassVar[tuple[Capture, ...]]
    _direct: ClassVar[bool]  # the engine may call the rule on arrays without looking at anything

    def __new__(cls, *args: Any, **kwargs: Any) -> "Function":
        """Refused: a Function has no instances."""
        raise TypeError(f"{cls.__name__} is not instantiated; call {cls.__name__}.apply(...)")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("forward", "backward", "setup_context"):
            raw = inspect.getattr_static(cls, name, None)
            if raw is not None and not isinstance(raw, staticmethod):
                raise TypeError(
                    f"{cls.__name__}.{name} must be a static method: put @staticmethod above it"
                )
        cls._needs, cls._names = {}, {}
        cls._with_keywords = {}
        cls._kind = kind_of(cls.__name__)
        for name in ("forward", "backward"):
            found = getattr(cls, name)
            if found is getattr(Function, name) or isinstance(found, _Missing):
                setattr(cls, name, staticmethod(_Missing(cls.__name__, name)))
        if cls.setup_context is Function.setup_context:
            cls._forward = staticmethod(cls.forward)
        else:
            forward, setup_context = cls.forward, cls.setup_context

            def split(ctx: FunctionCtx, *args: Any) -> Any:
                output = forward(*args)
                setup_context(ctx, args, output)
                return output

            cls._forward = staticmethod(split)
        if "_captures" not in cls.__dict__:
            cls._captures, cls._warned = captures_of(cls), set()
        cls._direct = cls.arrays and not cls._captures
        apply = _applier(cls)
        cls._apply = staticmethod(_watched(cls, apply) if cls._captures else apply)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs, and save what backward needs. Runs with recording off."""
        raise NotImplementedError

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what backward needs, where `forward` takes no ctx."""

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        """One gradient per argument of forward, given one per output; None where there is none."""
        raise NotImplementedError

    @_ApplyOfClass
    def apply(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - called on the class
        """Call forward, and record the call if recording is on and an argument requires grad.

        Keeps: nothing where it records nothing.   Raises: TypeError for arguments that hide tensors
        and for outputs that are none; CtxUsageError; and whatever forward raises, with a note that
        says where, and recording restored.
        """

    # -- the arguments --------------------------------------------------------------------------

    @classmethod
    def argument_names(cls, count: int) -> tuple[str, ...]:
        """What forward calls its first `count` arguments, `args[2]` for one that `*args` takes."""
        if count in cls._names:
            return cls._names[count]
        names: list[str] = []
        rest = "argument"
        for parameter in cls._parameters():
            if parameter.kind is parameter.VAR_POSITIONAL:
                rest = parameter.name
                break
            names.append(parameter.name)
        fixed = len(names)
        names += [f"{rest}[{index - fixed}]" for index in range(fixed, count)]
        if count <= 16:
            cls._names[count] = tuple(names[:count])
        return tuple(names[:count])

    @classmethod
    def _parameters(cls) -> list[inspect.Parameter]:
        """The parameters of forward, the ctx left out."""
        parameters = list(inspect.signature(cls.forward).parameters.values())
        return parameters[1:] if cls.setup_context is Function.setup_context else parameters

    @classmethod
    def _by_name(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call, with keyword arguments put where forward's signature has them."""
        path, given = cls.bound(args, kwargs)
        return path._apply(*given)

    @classmethod
    def bound(
        cls, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> "tuple[type[Function], tuple[Any, ...]]":
        """Which Function to call with which arguments by position, for a call with keywords.

        A parameter that was left out before one that was given gets its default. Keyword-only
        parameters and `**options` count as arguments after the positional ones.
        Raises: TypeError naming the keyword.
        """
        signature = inspect.Signature(cls._parameters())
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(map(str, signature.parameters.values()))
            raise TypeError(f"{cls.__name__}.apply: {error}; forward takes ({names})") from None
        parameters = list(signature.parameters.values())
        given = [index for index, p in enumerate(parameters) if p.name in bound.arguments]
        by_keyword = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
        last = len(parameters) if parameters[given[-1]].kind in by_keyword else given[-1]
        for p in parameters[:last]:
            if p.default is not p.empty:
                bound.arguments.setdefault(p.name, p.default)
        if not bound.kwargs:
            return cls, bound.args
        path = cls._keyword_path(len(bound.args), tuple(bound.kwargs))
        return path, (*bound.args, *bound.kwargs.values())

    @classmethod
    def _keyword_path(cls, count: int, names: tuple[str, ...]) -> "type[Function]":
        """This Function with what forward takes only by keyword put behind `count` other arguments.

        The stack knows arguments by position alone: each set of keywords has its own call path.
        """
        path: type[Function] | None = cls._with_keywords.get((count, names))
        if path is None:
            forward, setup_context = cls.forward, cls.setup_context
            splits = setup_context is not Function.setup_context
            all_names = cls.argument_names(count) + names

            def by_position(ctx: FunctionCtx, *given: Any) -> Any:
                by_keyword = dict(zip(names, given[count:], strict=True))
                if not splits:
                    return forward(ctx, *given[:count], **by_keyword)
                output = forward(*given[:count], **by_keyword)
                setup_context(ctx, given, output)
                return output

            body = {
                "__doc__": cls.__doc__,
                "__module__": cls.__module__,
                "forward": staticmethod(by_position),
                "setup_context": staticmethod(Function.setup_context),
                "argument_names": classmethod(lambda _, wanted: all_names[:wanted]),
                "_captures": cls._captures,
                "_warned": cls._warned,
            }
            path = cls._with_keywords[count, names] = type(cls.__name__, (cls,), body)
        return path

    @classmethod
    def _operands(cls, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a Function that broadcasts, numbers and arrays made constant tensors.

        A number takes the dtype of the tensors, unless its kind is higher: integers * 0.5 is float.
        Raises: TypeError for anything else.
        """
        if len(args) == 2:  # x * 0.5 or 1 - x: what nearly every such call is
            a, b = args
            tensor, number = (b, a) if type(b) is Tensor else (a, b)
            if type(tensor) is Tensor and (type(number) is float or type(number) is int):
                dtype = tensor._data.dtype
                if dtype.kind == "f":
                    constant = wrap(np.array(number, dtype))
                    if events.recorder is not None:
                        events.recorder.created(constant, "constant")
                    return (tensor, constant) if number is b else (constant, tensor)
        dtypes = [a._data.dtype for a in args if type(a) is Tensor]
        like = max(dtypes, key=lambda dtype: "buifc".index(dtype.kind), default=_FLOAT64)
        made: list[Any] = []
        for index, a in enumerate(args):
            if type(a) is Tensor:
                made.append(a)
            elif isinstance(a, np.ndarray | np.generic):
                made.append(Tensor(a))
            elif isinstance(a, bool | int | float):
                fits = like.kind == "f" or (like.kind in "iu" and not isinstance(a, float))
                made.append(wrap(np.array(a, like if fits else None)))
                if events.recorder is not None:
                    events.recorder.created(made[-1], "constant")
            else:
                cls.refuse_foreign(args, index)
                raise TypeError(
                    f"{cls.__name__}: argument '{cls.argument_names(index + 1)[index]}' is "
                    f"{_a(type(a).__name__)}; it must be a tensor, an array or a number"
                )
        return tuple(made)

    @classmethod
    def _flags(cls, next_nodes: list[Any], key: int) -> NeedsInputGrad:
        """Which arguments need a gradient, parameters left at their defaults included.

        Made once for each pattern of flags: a call then costs one look-up.
        """
        count = len(next_nodes)
        flags = [bool(node) for node in next_nodes]
        for parameter in cls._parameters()[count:]:
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                flags.append(False)
        needs = NeedsInputGrad(tuple(flags), cls.argument_names)
        if count <= 16:
            cls._needs[key] = needs
        return needs

    @classmethod
    def _refuse_hidden(cls, args: tuple[Any, ...], index: int) -> None:
        """Raise if argument `index` is a container with a tensor that requires grad in it.

        A tensor of PyTorch would lose its gradient as well.
        """
        if is_small(args[index]):
            return
        cls.refuse_foreign(args, index)
        name = cls.argument_names(index + 1)[index]
        for path, tensor, _ in tensors_inside(args, index, name, closed=True):
            if tensor._node is not None:
                raise TypeError(
                    f"{cls.__name__}.apply: argument '{name}' is {_a(type(args[index]).__name__)} "
                    f"that holds a tensor which requires grad ({path}), and its gradient would be "
                    "lost. Pass tensors as separate arguments."
                )

    @classmethod
    def refuse_foreign(cls, args: tuple[Any, ...], index: int) -> None:
        """Raise if argument `index` is a tensor of PyTorch: recognised by name, never imported."""
        kinds = type(args[index]).__mro__
        if not any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in kinds):
            return
        raise TypeError(
            f"{cls._kind}: argument '{cls.argument_names(index + 1)[index]}' of {cls.__name__} is "
            "a tensor of PyTorch, and here it takes one of lucid_mini. Say it in PyTorch, with an "
            "operator or a method (x * y, x.exp()), or take this Function over there with "
            f"lm.bridge.torch.to_torch({cls.__name__}).apply(...)."
        )

    @classmethod
    def _explain(cls, error: Exception, ctx: FunctionCtx, args: tuple[Any, ...]) -> None:
        """Note on an error of forward where it was raised and with which arguments."""
        if isinstance(error, AttributeError):
            better_missing(error, ctx)
        _set_phase(ctx, IDLE)
        given = ", ".join(
            f"{name}: {a._data.dtype} {a._data.shape}"
            if type(a) is Tensor
            else f"{name}: {type(a).__name__}"
            for name, a in zip(cls.argument_names(len(args)), args, strict=True)
        )
        error.add_note(f"Raised in {cls.__name__}.forward, called with ({given}).")

    # -- the outputs, in every other case -------------------------------------------------------

    @classmethod
    def _unrecorded(cls, ctx: FunctionCtx, args: tuple[Any, ...], output: Any, writes: int) -> Any:
        """The outputs of a call that leaves no history; the ctx dies with it."""
        outputs = cls._as_outputs(output)
        cls._check_marks(ctx, args, outputs, writes)
        made = []
        for item in outputs:
            if type(item) is Tensor:
                result = cls._fresh(item, args, ctx)
                if thread.mode.inference and result._memory is None:  # no view, not written into
                    result._memory = INFERENCE
                made.append(result)
            else:
                made.append(item)
        _set_phase(ctx, IDLE)
        if events.recorder is not None:
            events.recorder.applied(None, cls, args, tuple(made))
        return tuple(made) if isinstance(output, tuple | list) else made[0]

    @classmethod
    def _record(
        cls, node: Any, ctx: FunctionCtx, args: tuple[Any, ...], output: Any, writes: int
    ) -> Any:
        """Hang `node` on the outputs: several of them, views, marked, or not floating."""
        outputs = cls._as_outputs(output)
        cls._check_marks(ctx, args, outputs, writes)
        marks = ctx._marks
        plain = () if marks is None else marks.non_differentiable or ()
        made: list[Any] = []
        metas: list[Meta | None] = []
        has_grad: list[bool] = []
        for number, item in enumerate(outputs):
            if type(item) is not Tensor:
                cls._refuse_nested(outputs, number)
                made.append(item)
                metas.append(None)
                has_grad.append(False)
                continue
            result = cls._fresh(item, args, ctx)
            if is_in(result, tuple(made)):
                result = result.detach()  # returned twice: two gradient slots
            made.append(result)
            metas.append(Meta(result._data.shape, result._data.dtype))
            has_grad.append(result._data.dtype.kind == "f" and not is_in(item, plain))
        single = not isinstance(output, tuple | list)
        if single:
            (meta,) = metas
            node._outputs = None
            node.shape, node.dtype = meta  # type: ignore[misc]
        else:
            node._outputs, node.shape, node.dtype = tuple(metas), None, None
        keep_outputs(ctx, args, tuple(made), tuple(has_grad))
        if saved.packer is not None:
            saved.packer(ctx)
        written = []
        if marks is not None:
            written = [(d, d._node, d._output_nr) for d in marks.dirty or ()]
            if marks.kept:
                ctx._warn_of_kept(made)
            # The marks have done their work; tensors in them would keep the outputs alive.
            marks.dirty = marks.non_differentiable = None
        _set_phase(ctx, IDLE)
        for number, result in enumerate(made):
            if has_grad[number]:
                result._node, result._output_nr = node, number
        if written:
            saved.rewrite(written)
        if events.recorder is not None:
            events.recorder.applied(node, cls, args, tuple(made))
        return made[0] if single else tuple(made)

    @classmethod
    def _as_outputs(cls, output: Any) -> tuple[Any, ...]:
        """The outputs as a tuple.

        Raises: TypeError where there is no tensor among them.
        """
        outputs = tuple(output) if isinstance(output, tuple | list) else (output,)
        if not any(type(item) is Tensor for item in outputs):
            given = _a(type(output).__name__)
            numbers = np.ndarray, np.generic, int, float, complex
            hint = (
                " Wrap it: lm.tensor(...)." if any(isinstance(o, numbers) for o in outputs) else ""
            )
            raise TypeError(
                f"{cls.__name__}.forward returned no tensor, but {given}; it must return a tensor "
                f"or a tuple with one in it.{hint}"
            )
        return outputs

    @classmethod
    def _refuse_nested(cls, outputs: tuple[Any, ...], number: int) -> None:
        """Raise if output `number` is a container with a floating tensor in it."""
        for path, tensor, _ in tensors_inside(outputs, number, f"output[{number}]", closed=True):
            if tensor._data.dtype.kind == "f":
                raise TypeError(
                    f"{cls.__name__}.forward returned {_a(type(outputs[number]).__name__)} as "
                    f"output {number} that holds a tensor ({path}), and its gradient would be "
                    "lost. Return each tensor as an output of its own."
                )

    @classmethod
    def _fresh(cls, item: Tensor, args: tuple[Any, ...], ctx: FunctionCtx) -> Tensor:
        """The tensor to hand out for `item`: itself, unless it is an input or has a history.

        An input handed out again, and a view of one, share its version counter and have it as base.
        """
        marks = ctx._marks
        if marks is not None and marks.dirty is not None and is_in(item, marks.dirty):
            return item
        if is_in(item, args):
            alias = item.detach()
            alias._base = item if item._base is None else item._base
            note_view(alias)
            return alias
        if item._node is not None:
            return item.detach()
        if item._base is None and item._data.base is not None:
            note_base(item, args)
        return item

    # -- what forward must not have done --------------------------------------------------------

    @classmethod
    def _check_writes(cls, ctx: FunctionCtx, args: tuple[Any, ...], writes: int) -> None:
        """Raise if forward wrote an input that requires grad or was saved, and did not mark it."""
        dirty = () if ctx._marks is None or ctx._marks.dirty is None else ctx._marks.dirty
        slots = ctx._saved if type(ctx._saved) is tuple else ()
        for index, a in enumerate(args):
            if (
                type(a) is not Tensor
                or a._memory is None
                or a._memory.last_write is None
                or a._memory.last_write.number <= writes
            ):
                continue
            if any(a is d or a._memory is d._memory for d in dirty):
                continue
            if a._node is not None or any(s is not None and s._memory is a._memory for s in slots):
                name = cls.argument_names(index + 1)[index]
                raise CtxUsageError(
                    f"{cls.__name__}.forward: argument '{name}' was modified in place but not "
                    f"marked. Call ctx.mark_dirty({name}) before writing, and return it."
                )

    @classmethod
    def _check_marks(
        cls, ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...], writes: int
    ) -> None:
        """Check what was marked, and count a write into each dirty input that forward wrote unseen.

        Raises: CtxUsageError.
        """
        marks = ctx._marks
        if marks is None:
            return
        for tensor in marks.dirty or ():
            if not is_in(tensor, args):
                raise CtxUsageError(
                    f"{cls.__name__}: mark_dirty was given a tensor that is not an input of "
                    "forward. Mark the argument itself, not a copy or a view of it."
                )
            if not is_in(tensor, outputs):
                raise CtxUsageError(
                    f"{cls.__name__}: an input that is marked dirty must be returned by forward, "
                    "or the write has no history. Return it, or write into a clone."
                )
            memory = memory_of(tensor)
            if memory.inference:
                continue
            if memory.last_write is None or memory.last_write.number <= writes:
                record_write(tensor, cls._kind)
        for tensor in marks.non_differentiable or ():
            if not is_in(tensor, outputs):
                raise CtxUsageError(
                    f"{cls.__name__}: mark_non_differentiable was given a tensor that is not an "
                    "output of forward. Mark the very tensor that forward returns."
                )


class _Missing:
    """What stands for a method that a Function did not define."""

    def __init__(self, class_name: str, method: str) -> None:
        self.class_name = class_name
        self.method = method

    def __call__(self, *args: Any) -> NoReturn:
        raise NotImplementedError(
            f"{self.class_name} has no {self.method}; define "
            f"`@staticmethod def {self.method}(ctx, ...)`"
        )


def _apply_on_the_base(*args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        "Function.apply works on a subclass; Function itself has no forward. Define one in a "
        "subclass."
    )


Function._apply = staticmethod(_apply_on_the_base)


def autograd_function(
    forward: Callable[..., Any], backward: Callable[..., Any], name: str | None = None
) -> Callable[..., Any]:
    """The functional form of a Function, as in R torch: two functions in, a callable out.

    `forward(ctx, ...)` and `backward(ctx, grad)` are those of a Function. `name` is the name of the
    class made (default: that of `forward`).
    Raises: TypeError for what is not callable.

    Example:
        >>> twice = lm.autograd.autograd_function(
        ...     lambda ctx, x: 2 * x, lambda ctx, grad: 2 * grad, name="Twice"
        ... )
        >>> twice(lm.tensor(3.0, requires_grad=True))
        tensor(6., grad_fn=<TwiceBackward>)
    """
    for role, given in (("forward", forward), ("backward", backward)):
        if not callable(given):
            raise TypeError(
                f"autograd_function: {role} must be callable, and {_a(type(given).__name__)} is not"
            )
    if name is None:
        words = getattr(forward, "__name__", type(forward).__name__).strip("<>_").split("_")
        name = "".join(word[:1].upper() + word[1:] for word in words)
    made = type(
        name, (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )

    def call(*args: Any, **kwargs: Any) -> Any:
        return made.apply(*args, **kwargs)  # type: ignore[attr-defined]

    call.__name__ = call.__qualname__ = name
    call.function = made  # type: ignore[attr-defined]
    return call
