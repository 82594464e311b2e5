"""Function: a forward and its backward rule. `apply` runs the one and records the other.

    apply(x, y)
      1. looks at the arguments: which are tensors, which need a gradient
      2. makes a ctx and calls forward(ctx, x, y), with recording off
      3. if a gradient is needed, makes the node: its ctx, its edges, the shape of its output
      4. hangs the node on the output

Built-in ops and a reader's own go through this one function.
"""

import inspect
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from .. import events
from ..errors import CtxAttributeWarning, CtxUsageError
from . import saved
from .ctx import (
    _SMALL,
    _a,
    FORWARD,
    FORWARD_UNRECORDED,
    IDLE,
    FunctionCtx,
    NeedsInputGrad,
    _Fields,
    _set_phase,
    _set_saved,
)
from .engine import NOT_A_TENSOR
from .mode import mode
from .node import Meta, Node, _sequence, kind_of
from .saved import INFERENCE, SavedAlias, memory_of, owner, saved_output
from .tensor import Tensor, wrap

_FLOAT64, _FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)


class _ApplyOfClass:
    """`SomeFunction.apply`: the call path that was made for that class."""

    def __init__(self, described: Callable[..., Any]) -> None:
        self.__doc__ = described.__doc__

    def __get__(self, instance: object, owner: "type[Function]") -> Callable[..., Any]:
        return owner._apply


def _applier(cls: "type[Function]") -> Callable[..., Any]:
    """The call path of one Function, closed over what it needs of the class.

    A closure variable costs a third of a class attribute, and a plain function needs no binding: an
    operator of Tensor can be this very function.
    """
    forward = cls._forward
    known_needs = cls._needs.get
    broadcasts = cls.broadcasts

    def apply(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args = cls._bind(args, kwargs)
        next_nodes: list[Any] = []
        flags, bit, nrs = 0, 1, False
        for a in args:
            if type(a) is Tensor:
                node = a._node
                next_nodes.append(node)
                if node is not None:
                    flags |= bit
                    if a._output_nr:
                        nrs = True
            elif broadcasts:
                return apply(*cls._operands(args))
            else:
                next_nodes.append(NOT_A_TENSOR)
                if type(a) not in _SMALL:
                    cls._refuse_hidden(a, len(next_nodes) - 1)
            bit += bit
        needs = known_needs(flags | bit)
        if needs is None:
            needs = cls._flags(next_nodes, flags | bit)

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
        finally:
            mode.recording = recording
        if saved.writes != writes:
            cls._check_writes(ctx, args, writes)
        if not (recording and flags):
            return cls._unrecorded(ctx, args, output)

        made: Any = Node()
        made.function = cls
        made._ctx = ctx
        made.sequence_nr = next(_sequence)
        made._next_nodes = tuple(next_nodes)
        made._next_nrs = (
            tuple([a._output_nr if type(a) is Tensor else 0 for a in args]) if nrs else None
        )
        made._hooks = made._released = None
        if type(output) is Tensor and output._node is None and ctx._marks is None:
            data = output._data
            dtype = data.dtype
            if (
                (dtype is _FLOAT64 or dtype is _FLOAT32)
                and data.base is None
                and not is_in(output, args)
            ):
                # One fresh floating output: what nearly every call has.
                made._outputs = None
                made.shape = data.shape
                made.dtype = dtype
                if ctx._saved is not None:
                    detach_output(ctx, output)
                _set_phase(ctx, IDLE)
                output._node = made
                if events.recorder is not None:
                    events.recorder.applied(made, cls, args, (output,))
                return output
        return cls._record(made, ctx, args, output)

    apply.__doc__ = f"Call {cls.__name__}.forward, and record the call if a gradient is needed."
    apply.__name__ = "apply"
    apply.__qualname__ = f"{cls.__qualname__}.apply"
    return apply


def detach_output(ctx: Any, output: Tensor) -> None:
    """Where the one `output`, or a view of it, was saved: keep its array in place of the tensor."""
    slots = ctx._saved
    for slot in slots:
        if slot is output:
            if len(slots) == 1:
                _set_saved(ctx, (saved_output(output, 0),))
            else:
                ctx._function._keep_outputs(ctx, (output,))
            return
        if slot is not None and slot._base is output:
            ctx._function._keep_outputs(ctx, (output,))
            return


def is_in(tensor: Any, tensors: tuple[Any, ...]) -> bool:
    """Whether `tensor` itself is among `tensors` (`in` would compare values)."""
    for other in tensors:
        if other is tensor:
            return True
    return False


class Function:
    """Subclass it, give it two static methods, call `.apply(...)`.

        class Square(lm.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return 2 * x * grad

    Or `forward(x)` with `setup_context(ctx, inputs, output)`.

    `arrays = True`: in a first-order pass backward gets NumPy arrays, gradients and saved values alike
    (under `create_graph` tensors, so write it with operators that both have).
    `broadcasts = True`: forward broadcasts its arguments against each other, and backward may return
    gradients of the output's shape: the engine sums them down.

    Keeps: per recorded call one node and one ctx, and what forward saves.
    """

    arrays: ClassVar[bool] = False
    broadcasts: ClassVar[bool] = False

    _forward: ClassVar[Callable[..., Any]]
    _needs: ClassVar[dict[int, NeedsInputGrad]]
    _warned: ClassVar[set[str]]
    _kind: ClassVar[str]
    _apply: ClassVar[Callable[..., Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> "Function":
        raise TypeError(f"{cls.__name__} is not instantiated; call {cls.__name__}.apply(...)")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("forward", "backward", "setup_context"):
            raw = inspect.getattr_static(cls, name, None)
            if raw is not None and not isinstance(raw, staticmethod):
                raise TypeError(
                    f"{cls.__name__}.{name} must be a static method: put @staticmethod above it"
                )
        cls._needs = {}
        cls._warned = set()
        cls._kind = kind_of(cls.__name__)
        for name in ("forward", "backward"):
            if getattr(cls, name) is getattr(Function, name):
                setattr(cls, name, staticmethod(_missing(cls.__name__, name)))
        if cls.setup_context is Function.setup_context:
            cls._forward = staticmethod(cls.forward)
        else:
            forward, setup_context = cls.forward, cls.setup_context

            def split(ctx: FunctionCtx, *args: Any) -> Any:
                output = forward(*args)
                setup_context(ctx, args, output)
                return output

            cls._forward = staticmethod(split)
        cls._apply = staticmethod(_applier(cls))

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
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call forward, and record the call if recording is on and an argument requires grad.

        Keeps: nothing where it records nothing. Raises: TypeError for arguments that hide tensors and
        for outputs that are none; CtxUsageError; and whatever forward raises, with recording restored.
        """

    # -- the arguments --------------------------------------------------------------------------

    @classmethod
    def argument_names(cls, count: int) -> tuple[str, ...]:
        """What forward calls its first `count` arguments, `args[2]` for one that `*args` takes."""
        names: list[str] = []
        rest = "argument"
        for parameter in cls._parameters():
            if parameter.kind is parameter.VAR_POSITIONAL:
                rest = parameter.name
                break
            names.append(parameter.name)
        fixed = len(names)
        names += [f"{rest}[{index - fixed}]" for index in range(fixed, count)]
        return tuple(names[:count])

    @classmethod
    def _parameters(cls) -> list[inspect.Parameter]:
        """The parameters of forward, the ctx left out."""
        parameters = list(inspect.signature(cls.forward).parameters.values())
        return parameters[1:] if cls.setup_context is Function.setup_context else parameters

    @classmethod
    def _bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Keyword arguments put where forward's signature has them, defaults filled in before them.

        Raises: TypeError naming the keyword.
        """
        signature = inspect.Signature(
            [
                p.replace(kind=p.POSITIONAL_OR_KEYWORD) if p.kind is p.KEYWORD_ONLY else p
                for p in cls._parameters()
            ]
        )
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.apply: {error}") from None
        last = max(
            list(signature.parameters).index(name)
            for name in kwargs
            if name in signature.parameters
        )
        bound.apply_defaults()
        positional: list[Any] = []
        for index, parameter in enumerate(signature.parameters.values()):
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional.extend(bound.arguments[parameter.name])
            elif index <= max(last, len(args) - 1):
                positional.append(bound.arguments[parameter.name])
        return tuple(positional)

    @classmethod
    def _operands(cls, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a Function that broadcasts, numbers and arrays made constant tensors.

        A number takes the dtype of the first tensor, unless its kind is higher: int tensor * 0.5 is float.
        Raises: TypeError for anything else.
        """
        like = next((a._data.dtype for a in args if type(a) is Tensor), _FLOAT64)
        made: list[Any] = []
        for index, a in enumerate(args):
            if type(a) is Tensor:
                made.append(a)
            elif isinstance(a, np.ndarray | np.generic):
                made.append(Tensor(a))
            elif isinstance(a, bool | int | float):
                fits = like.kind == "f" or (like.kind in "iu" and not isinstance(a, float))
                made.append(wrap(np.array(a, like if fits else None)))
            else:
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
        needs = NeedsInputGrad(tuple(flags), cls.argument_names(len(flags)))
        if count <= 16:
            cls._needs[key] = needs
        return needs

    @classmethod
    def _refuse_hidden(cls, value: Any, index: int) -> None:
        """Raise if `value` is a container with a tensor that requires grad in it."""
        if isinstance(value, dict):
            items: Any = value.values()
        elif isinstance(value, list | tuple | set):
            items = value
        else:
            return
        for item in items:
            if type(item) is Tensor and item._node is not None:
                name = cls.argument_names(index + 1)[index]
                raise TypeError(
                    f"{cls.__name__}.apply: argument '{name}' is a {type(value).__name__} that holds a tensor "
                    f"which requires grad; its gradient would be lost. Pass tensors as separate arguments."
                )
            if type(item) not in _SMALL:
                cls._refuse_hidden(item, index)

    # -- the outputs, in every other case -------------------------------------------------------

    @classmethod
    def _unrecorded(cls, ctx: FunctionCtx, args: tuple[Any, ...], output: Any) -> Any:
        """The outputs of a call that leaves no history; the ctx dies with it."""
        outputs = cls._as_outputs(output)
        made = []
        for item in outputs:
            if type(item) is Tensor:
                item = cls._fresh(item, args, ctx)
                if mode.inference:
                    item._memory = INFERENCE
            made.append(item)
        cls._check_marks(ctx, args, outputs)
        if events.recorder is not None:
            events.recorder.applied(None, cls, args, tuple(made))
        return tuple(made) if isinstance(output, tuple | list) else made[0]

    @classmethod
    def _record(cls, node: Any, ctx: FunctionCtx, args: tuple[Any, ...], output: Any) -> Any:
        """Hang `node` on the outputs: several of them, views, marked, or not floating."""
        outputs = cls._as_outputs(output)
        cls._check_marks(ctx, args, outputs)
        marks = ctx._marks
        dirty = () if marks is None or marks.dirty is None else marks.dirty
        plain = (
            () if marks is None or marks.non_differentiable is None else marks.non_differentiable
        )
        made: list[Any] = []
        metas: list[Meta | None] = []
        attach: list[tuple[Tensor, int]] = []
        for number, item in enumerate(outputs):
            if type(item) is not Tensor:
                made.append(item)
                metas.append(None)
                continue
            result = cls._fresh(item, args, ctx)
            if any(result is earlier for earlier in made):
                result = _alias(result)  # returned twice: two gradient slots
            made.append(result)
            metas.append(Meta(result._data.shape, result._data.dtype))
            if result._data.dtype.kind == "f" and not any(item is p for p in plain):
                attach.append((result, number))
        single = not isinstance(output, tuple | list)
        if single:
            (meta,) = metas
            node._outputs, node.shape, node.dtype = None, meta.shape, meta.dtype  # type: ignore[union-attr]
        else:
            node._outputs, node.shape, node.dtype = tuple(metas), None, None
        cls._keep_outputs(ctx, tuple(made), dirty)
        if marks is not None:
            if marks.kept:
                cls._warn_kept(ctx, args, made)
            # The marks have done their work; tensors in them would keep the outputs alive.
            marks.dirty = marks.non_differentiable = None
        _set_phase(ctx, IDLE)
        for result, number in attach:
            result._node, result._output_nr = node, number
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
            given = type(output).__name__
            hint = (
                " Wrap it: lm.tensor(...)"
                if any(isinstance(item, np.ndarray | np.generic | int | float) for item in outputs)
                else ""
            )
            raise TypeError(
                f"{cls.__name__}.forward returned no tensor, but {given}; it must return a tensor or a tuple "
                f"with one in it.{hint}"
            )
        return outputs

    @classmethod
    def _fresh(cls, item: Tensor, args: tuple[Any, ...], ctx: FunctionCtx) -> Tensor:
        """The tensor to hand out for `item`: itself, unless it is an input or has a history already.

        A view of an input shares its version counter and names it as its base.
        """
        marks = ctx._marks
        if marks is not None and marks.dirty is not None and any(item is d for d in marks.dirty):
            return item
        if item._node is not None or any(item is a for a in args):
            return _alias(item)
        if item._base is None and item._data.base is not None:
            root = owner(item._data)
            for a in args:
                if type(a) is Tensor and owner(a._data) is root:
                    item._base = a if a._base is None else a._base
                    item._memory = memory_of(a)
                    break
        return item

    @classmethod
    def _keep_outputs(
        cls, ctx: FunctionCtx, outputs: tuple[Any, ...], dirty: tuple[Any, ...] = ()
    ) -> None:
        """Replace saved outputs, views of them and dirty inputs by slots that do not hold the tensor."""
        slots = ctx._saved
        if type(slots) is not tuple:
            return
        kept = []
        for slot in slots:
            if slot is not None:
                for number, output in enumerate(outputs):
                    if slot is output:
                        slot = saved_output(slot, number)
                        break
                    if type(output) is Tensor and (
                        slot._base is output
                        or (
                            slot._node is None
                            and slot._memory is not None
                            and slot._memory is output._memory
                        )
                    ):
                        slot = SavedAlias(slot._data, memory_of(slot), -1)
                        break
            kept.append(slot)
        _set_saved(ctx, tuple(kept))

    # -- what forward must not have done --------------------------------------------------------

    @classmethod
    def _check_writes(cls, ctx: FunctionCtx, args: tuple[Any, ...], writes: int) -> None:
        """Raise if forward wrote an input that requires grad or was saved, and did not mark it dirty."""
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
            if a._node is not None or any(a is slot for slot in slots):
                raise CtxUsageError(
                    f"{cls.__name__}.forward: argument '{cls.argument_names(index + 1)[index]}' was modified in "
                    f"place but not marked. Call ctx.mark_dirty(...) before writing, and return it."
                )

    @classmethod
    def _check_marks(
        cls, ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...]
    ) -> None:
        marks = ctx._marks
        if marks is None:
            return
        for tensor in marks.dirty or ():
            if not any(tensor is a for a in args):
                raise CtxUsageError(
                    f"{cls.__name__}: mark_dirty was given a tensor that is not an input of forward"
                )
            if not any(tensor is o for o in outputs):
                raise CtxUsageError(
                    f"{cls.__name__}: an input that is marked dirty must be returned by forward, or the write "
                    f"has no history"
                )
        for tensor in marks.non_differentiable or ():
            if not any(tensor is o for o in outputs):
                raise CtxUsageError(
                    f"{cls.__name__}: mark_non_differentiable was given a tensor that is not an output of forward"
                )

    @classmethod
    def _warn_kept(cls, ctx: FunctionCtx, args: tuple[Any, ...], outputs: list[Any]) -> None:
        """Warn, once per class and key, of a tensor in the bag: nothing checks it, nothing releases it."""
        for key in ctx._marks.kept:  # type: ignore[union-attr]
            value = ctx.__dict__.get(key)
            if type(value) is Tensor and key not in cls._warned:
                cls._warned.add(key)
                cycle = (
                    " It is an output: ctx, tensor and node form a cycle that only the collector can free."
                    if any(value is o for o in outputs)
                    else ""
                )
                warnings.warn(
                    f"{cls.__name__} keeps a tensor of {value.nbytes} bytes in ctx.{key}: it is not "
                    f"version-checked and not released by backward.{cycle} Use ctx.save_for_backward.",
                    CtxAttributeWarning,
                    stacklevel=4,
                )


def _missing(class_name: str, method: str) -> Callable[..., Any]:
    """What stands for a method that a Function did not define."""

    def missing(*args: Any) -> NoReturn:
        raise NotImplementedError(
            f"{class_name} has no {method}; define `@staticmethod def {method}(ctx, ...)`"
        )

    return missing


def _apply_on_the_base(*args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError("Function.apply works on a subclass; Function itself has no forward")


Function._apply = staticmethod(_apply_on_the_base)


def _alias(tensor: Tensor) -> Tensor:
    """A new tensor on the same memory and version counter, without history."""
    return tensor.detach()


def autograd_function(
    forward: Callable[..., Any], backward: Callable[..., Any], name: str | None = None
) -> Callable[..., Any]:
    """The functional form of a Function: `forward(ctx, ...)` and `backward(ctx, grad)` in, a callable out.

    As in R torch. `name` is the name of the class made (default: that of `forward`).
    """
    name = name or forward.__name__.strip("<>").title()
    made = type(
        name, (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )

    def call(*args: Any, **kwargs: Any) -> Any:
        return made.apply(*args, **kwargs)  # type: ignore[attr-defined]

    call.__name__ = call.__qualname__ = name
    call.function = made  # type: ignore[attr-defined]
    return call
