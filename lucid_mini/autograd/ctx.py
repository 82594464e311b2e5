"""FunctionCtx: what one call of a Function remembers between its forward and its backward.

    Tensor -owns-> Node -owns-> ctx -owns-> saved slots -own-> arrays

The ctx keeps nothing by default. Three ways to keep a value, in the order of preference:

- `save_for_backward(a, b)`: tensors. Version-checked, released as soon as the node has run.
- `save_for_backward(n=3)`: any object under a name. Released with the tensors, no version check.
- `ctx.n = 3`, `ctx.store("n", 3)`: the bag. For small things; it lives until the node dies.
"""

import copy
import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from .. import events
from ..errors import (
    AutogradError,
    CtxAttributeWarning,
    CtxUsageError,
    GraphFreedError,
    InferenceTensorError,
    LeafInPlaceError,
    SavedTwiceWarning,
)
from . import saved
from .callsite import outer_level
from .inside import Found, tensors_inside
from .saved import DETACHED, Freed, SavedOutput, check_versions, restored, versions_of

# What a ctx is doing now.
FORWARD = 1  # forward runs, and the outputs will be recorded
FORWARD_UNRECORDED = 2  # forward runs under no_grad
IDLE = 0
ARRAYS = 3  # the engine runs the rule of a Function with `arrays = True`: saved values are arrays
# Or a Node: the engine runs the rule on tensors; saved outputs re-attach themselves to that node.


def _no_names(count: int) -> tuple[str, ...]:
    """The names of a ctx made by hand without any."""
    return ()


class NeedsInputGrad(tuple[bool, ...]):
    """Which arguments of forward need a gradient: by position `[0]`, by name `["a"]` or `.a`.

    Equal to the tuple of its flags. Read-only.
    """

    _named: Callable[[int], tuple[str, ...]]

    def __new__(
        cls, flags: tuple[bool, ...], named: Callable[[int], tuple[str, ...]] = _no_names
    ) -> "NeedsInputGrad":
        """Flags, and what gives the names of the first so many: asked when a name is used."""
        self = super().__new__(cls, flags)
        self.__dict__["_named"] = named
        return self

    @property
    def _names(self) -> tuple[str, ...]:
        names: tuple[str, ...] = self.__dict__["_named"](len(self))
        return names

    def __getitem__(self, key: Any) -> Any:
        """The flag at a position or under a name. Raises: KeyError that lists the names."""
        if isinstance(key, str):
            if key in self._names:
                return super().__getitem__(self._names.index(key))
            raise KeyError(f"no argument '{key}'; forward has {', '.join(self._names)}")
        return super().__getitem__(key)

    def __getattr__(self, name: str) -> bool:
        names = self._names
        if name in names:
            return bool(super().__getitem__(names.index(name)))
        raise AttributeError(f"no argument '{name}'; forward has {', '.join(names)}")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("needs_input_grad is read-only")

    def __repr__(self) -> str:
        if len(self._names) != len(self):
            return f"NeedsInputGrad{tuple(self)!r}"
        flags = ", ".join(f"{name}={flag}" for name, flag in zip(self._names, self, strict=True))
        return f"NeedsInputGrad({flags})"


class SavedVariables(Mapping[Any, Any]):
    """What was saved, by name (`.a`, `["a"]`), positional values by their position."""

    def __init__(self, values: dict[Any, Any], function: Any) -> None:
        self.__dict__["_values"] = values
        self.__dict__["_function"] = function

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.__dict__["_values"][key]
        except KeyError:
            raise KeyError(self._missing(key)) from None

    def __getattr__(self, key: str) -> Any:
        values = self.__dict__["_values"]
        if key in values:
            return values[key]
        raise AttributeError(self._missing(key))

    def __setattr__(self, key: str, value: Any) -> NoReturn:
        raise AttributeError(
            "saved_variables is read-only; save in forward, with save_for_backward"
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__dict__["_values"])

    def __len__(self) -> int:
        return len(self.__dict__["_values"])

    def __repr__(self) -> str:
        return f"SavedVariables({', '.join(map(str, self))})"

    def _missing(self, key: Any) -> str:
        names = ", ".join(map(str, self)) or "nothing"
        return f"{_name_of(self.__dict__['_function'])} saved no '{key}'; it saved {names}"


class _Marks:
    """The rare facts of a ctx, made when one of them is stated.

    `kept` are the keys under which something that may hold a tensor was put into the bag or saved
    by name: they are looked at once the outputs are known.
    """

    __slots__ = ("dirty", "kept", "materialize", "non_differentiable")

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.dirty: tuple[Any, ...] | None = None
        self.non_differentiable: tuple[Any, ...] | None = None
        self.materialize = True

    def keep(self, key: str) -> None:
        """Note `key`, once."""
        if key not in self.kept:
            self.kept.append(key)

    def copy(self) -> "_Marks":
        """The same facts in an object of their own."""
        twin = copy.copy(self)
        twin.kept = list(self.kept)
        return twin


class _Fields:
    """The fields of a ctx with plain assignment.

    `FunctionCtx.__setattr__` guards what users assign, at 130 ns a time; `Function.apply` fills a
    `_Fields` at 7 ns a field and then turns it into a `FunctionCtx`. What users assign lies in
    `__dict__`. A `__getattr__` would make each read of a field here four times as dear, so the text
    of an AttributeError is improved where it is caught (`better_missing`).
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_function",
        "_marks",
        "_named",
        "_needs",
        "_phase",
        "_saved",
        "_versions",
    )

    _function: Any  # the Function class, None for a ctx made by hand
    _marks: _Marks | None
    _named: dict[str, Any] | None  # name -> index into _saved, or a one-element list with an object
    _needs: NeedsInputGrad
    _phase: Any
    _saved: Any  # None before the first save, a tuple of slots, or Freed
    _versions: tuple[int, ...] | None  # of the slots; None when all are 0


def _setter(field: str) -> Any:
    return _Fields.__dict__[field].__set__


_set_function = _setter("_function")
_set_needs = _setter("_needs")
_set_phase = _setter("_phase")
_set_saved = _setter("_saved")
_set_versions = _setter("_versions")
_set_named = _setter("_named")
_set_marks = _setter("_marks")


class FunctionCtx(_Fields):
    """The first argument of `forward` and `backward`: the same object in both.

    Keeps: what it is told to, and nothing else.
    Owned by its node; a ctx made by hand (`FunctionCtx()`) behaves like one inside forward.
    Raises: ValueError where names and flags differ in number.

    Example:
        >>> ctx = lm.autograd.FunctionCtx(("x", "n"), (True, False))
        >>> ctx.needs_input_grad
        NeedsInputGrad(x=True, n=False)
    """

    __slots__ = ()

    def __init__(
        self,
        argument_names: tuple[str, ...] = (),
        argument_needs_grad: tuple[bool, ...] = (),
    ) -> None:
        if argument_names and len(argument_names) != len(argument_needs_grad):
            raise ValueError(
                f"FunctionCtx: {len(argument_names)} argument names and {len(argument_needs_grad)} "
                "flags were given; pass one flag a name"
            )
        flags = tuple(map(bool, argument_needs_grad))
        _set_function(self, None)
        names = tuple(argument_names)
        _set_needs(self, NeedsInputGrad(flags, lambda count: names))
        _set_phase(self, FORWARD)
        _set_saved(self, None)
        _set_versions(self, None)
        _set_named(self, None)
        _set_marks(self, None)

    # -- saving ---------------------------------------------------------------------------------

    def save_for_backward(self, /, *tensors: Any, **named: Any) -> None:
        """Keep `tensors` (tensors or None), and any object under a name, until the node is done.

        A second call replaces the first.   Keeps: each tensor by reference, an output by its array.
        Raises: CtxUsageError outside forward or for a name that is taken; TypeError for a
        positional value that is neither a tensor nor None; InferenceTensorError.

        Example:
            >>> ctx = lm.autograd.FunctionCtx()
            >>> ctx.save_for_backward(lm.ones(2), None, n=3)
            >>> ctx.saved_tensors, ctx.saved_variables.n
            ((tensor([1., 1.]), None), 3)
        """
        if named or self._saved is not None or self._phase not in _IN_FORWARD:
            tensors = self._save_carefully(tensors, named)
        try:
            for tensor in tensors:
                if tensor is not None and tensor._memory is not None:
                    _set_versions(self, self._read_versions(tensors))
                    break
        except AttributeError:
            self._refuse_position(tensors)
        _set_saved(self, tensors)

    def _save_carefully(self, tensors: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The rare forms of a save: names, a second call, a call at the wrong time."""
        self._only_in_forward("save_for_backward")
        if any(tensor is not None and not hasattr(tensor, "_memory") for tensor in tensors):
            self._refuse_position(tensors)
        for name in named:
            if name in _RESERVED or name in _OF_MAPPING or name.startswith("_"):
                raise CtxUsageError(
                    f"{self._name}: save_for_backward({name}=…) uses a reserved name, that of "
                    "something which ctx or saved_variables has already. Use another name."
                )
        if self._saved is not None:
            warnings.warn(
                f"{self._name} called save_for_backward twice; the second call replaced what the "
                "first had saved. Save everything in one call.",
                SavedTwiceWarning,
                stacklevel=3,
            )
            if events.recorder is not None:
                events.recorder.replaced(self)
        _set_versions(self, None)
        _set_named(self, None)
        if not named:
            return tensors
        slots = list(tensors)
        names: dict[str, Any] = {}
        for name, value in named.items():
            if hasattr(value, "_memory"):
                names[name] = len(slots)
                slots.append(value)
            else:
                names[name] = [value]
                if type(value) not in _SMALL and not is_small(value):
                    self._rare().keep(name)
        _set_named(self, names)
        return tuple(slots)

    def _read_versions(self, tensors: tuple[Any, ...]) -> tuple[int, ...] | None:
        for tensor in tensors:
            memory = None if tensor is None else tensor._memory
            if memory is not None and memory.inference and self._phase == FORWARD:
                raise InferenceTensorError(
                    f"{self._name} cannot save a tensor made in inference_mode. Make it outside, "
                    "or save `x.clone()` of it."
                )
        return versions_of(tensors)

    def _refuse_position(self, tensors: tuple[Any, ...]) -> NoReturn:
        for position, value in enumerate(tensors):
            if value is not None and not hasattr(value, "_memory"):
                raise TypeError(
                    f"{self._name}: save_for_backward takes tensors by position, and argument "
                    f"{position} is {_a(type(value).__name__)}. Save it by keyword, "
                    "save_for_backward(name=value), or keep it with ctx.store."
                ) from None
        raise AssertionError("no position to refuse")

    # -- reading back ---------------------------------------------------------------------------

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, in the order of the save; `()` when nothing was.

        An input comes back as the identical tensor, an output as a tensor with its history, None as
        None; tensors saved by name follow those saved by position. In a rule with `arrays = True`
        that the engine runs in a first-order pass, all are arrays.
        Raises: GraphFreedError, VersionMismatchError.

        Example:
            >>> x = lm.ones(2, requires_grad=True)
            >>> y = x * x
            >>> a, b = y.grad_fn.ctx.saved_tensors
            >>> a is x, b is x
            (True, True)
        """
        slots = self._saved
        if type(slots) is not tuple:
            slots = self._no_slots(slots)
        if self._phase is not ARRAYS:
            return self._unpack(slots)
        if self._versions is not None or events.recorder is not None:
            return self._as_arrays(slots)
        # What the engine's usual pass asks for: no slot had been written when it was saved.
        values: list[Any] = []
        for slot in slots:
            if slot is None:
                values.append(None)
            else:
                memory = slot if type(slot) is SavedOutput else slot._memory
                if memory is not None and memory.version:
                    check_versions(slots, None, self)
                values.append(slot._data)
        return tuple(values)

    @property
    def saved_variables(self) -> SavedVariables:
        """What was saved, by name; positional values under their position.

        Raises: GraphFreedError, VersionMismatchError.

        Example:
            >>> ctx = lm.autograd.FunctionCtx()
            >>> ctx.save_for_backward(lm.zeros(1), slope=0.1)
            >>> ctx.saved_variables[0], ctx.saved_variables.slope, ctx.saved_variables["slope"]
            (tensor([0.]), 0.1, 0.1)
        """
        slots = self._saved
        if type(slots) is not tuple:
            slots = self._no_slots(slots)
        return self._with_names(
            self._as_arrays(slots) if self._phase is ARRAYS else self._unpack(slots)
        )

    def _with_names(self, values: tuple[Any, ...]) -> SavedVariables:
        """`values`, what was saved, each under its name or position, and the objects saved too."""
        named = self._named or {}
        positional = len(values) - sum(type(at) is int for at in named.values())
        found: dict[Any, Any] = dict(enumerate(values[:positional]))
        for name, at in named.items():
            found[name] = values[at] if type(at) is int else at[0]
        return SavedVariables(found, self._function)

    def _no_slots(self, slots: Freed | None) -> tuple[Any, ...]:
        """What there is to read where there are no slots: nothing.

        Raises: GraphFreedError where a pass released them.
        """
        if slots is None:
            return ()
        if self._phase not in _IN_FORWARD:
            self._refuse_orphan()
        raise GraphFreedError(f"{self._name} {slots.text}")

    def _as_arrays(self, slots: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arrays in `slots`, each still in the version that was saved."""
        if self._versions is not None:
            check_versions(slots, self._versions, self)
            slots = restored(slots, self)
        if events.recorder is not None:
            events.recorder.unpacked(self)
        values: list[Any] = []
        for slot in slots:
            if slot is None:
                values.append(None)
                continue
            if (memory := slot._memory) is not None and memory.version and self._versions is None:
                check_versions(slots, None, self)
            values.append(slot._data)
        return tuple(values)

    def _unpack(self, slots: tuple[Any, ...]) -> tuple[Any, ...]:
        """The tensors in `slots`; a saved output is attached to its node again."""
        if self._phase is IDLE:
            # Read from outside a pass: by a tool, or by code that kept the ctx for itself.
            self._refuse_orphan()
        if self._versions is not None:
            check_versions(slots, self._versions, self)
            slots = restored(slots, self)
        if events.recorder is not None:
            events.recorder.unpacked(self)
        detached = False
        for slot in slots:
            if slot is None:
                continue
            detached = detached or type(slot) in DETACHED
            memory = slot if type(slot) is SavedOutput else slot._memory
            if memory is not None and memory.version and self._versions is None:
                check_versions(slots, None, self)
        if not detached:
            return slots
        node = self._node()
        values = []
        for slot in slots:
            if type(slot) in DETACHED:
                value = saved.wrap(slot._data)
                value._memory = slot._memory
                if node is not None and slot.output_nr >= 0:
                    value._node, value._output_nr = node, slot.output_nr
                values.append(value)
            else:
                values.append(slot)
        return tuple(values)

    def _refuse_orphan(self) -> None:
        if self._function is not None and self._node() is None:
            raise GraphFreedError(
                f"{self._name}: this ctx belongs to no live graph; the output that owned its node "
                "is gone, or the call was not recorded. Keep the output, not the ctx."
            )

    # -- marks ----------------------------------------------------------------------------------

    @property
    def needs_input_grad(self) -> NeedsInputGrad:
        """Which arguments need a gradient: a tuple of flags, also by name (`["a"]`, `.a`).

        Example:
            >>> x = lm.ones(2, requires_grad=True)
            >>> needs = (x * 3).grad_fn.ctx.needs_input_grad
            >>> needs, needs[0], needs.b
            (NeedsInputGrad(a=True, b=False), True, False)
        """
        return self._needs

    def mark_dirty(self, *inputs: Any) -> None:
        """Say that forward writes `inputs` in place; call it before writing, and return them.

        Raises: LeafInPlaceError for a leaf that requires grad; CtxUsageError for what is no input.

        Example:
            >>> class Double(lm.autograd.Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.mark_dirty(x)
            ...         return x.mul_(2)
            ...
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         return 2 * grad
            >>> x = lm.ones(2, requires_grad=True).clone()
            >>> Double.apply(x) is x, x._version
            (True, 1)
        """
        marks = self._mark("mark_dirty", "dirty", inputs)
        if self._phase == FORWARD:
            for tensor in inputs:
                if hasattr(tensor, "_memory"):
                    refuse_leaf(tensor, self._name)
        marks.dirty = inputs

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Say that `outputs` have no gradient. Backward still gets an argument for each: zeros.

        Raises: CtxUsageError outside forward.

        Example:
            >>> class Sign(lm.autograd.Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         y = lm.tensor(np.sign(x.numpy()))
            ...         ctx.mark_non_differentiable(y)
            ...         return y
            >>> Sign.apply(lm.tensor([-2.0, 3.0], requires_grad=True)).requires_grad
            False
        """
        self._mark(
            "mark_non_differentiable", "non_differentiable", outputs
        ).non_differentiable = outputs

    def set_materialize_grads(self, flag: bool) -> None:
        """Whether backward gets zeros (True, the default) or None for an output nobody used.

        Raises: TypeError for anything but a bool; CtxUsageError outside forward.

        Example:
            >>> class Pair(lm.autograd.Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.set_materialize_grads(False)
            ...         return x + 1, x + 2
            ...
            ...     @staticmethod
            ...     def backward(ctx, first, second):
            ...         return first if second is None else second
            >>> used, unused = Pair.apply(lm.ones(1, requires_grad=True))
            >>> used.backward()  # backward is handed (1, None)
        """
        if not isinstance(flag, bool):
            raise TypeError(
                f"{self._name}: set_materialize_grads takes True or False, not {flag!r}"
            )
        self._only_in_forward("set_materialize_grads")
        self._rare().materialize = flag

    def _mark(self, method: str, field: str, tensors: tuple[Any, ...]) -> _Marks:
        self._only_in_forward(method)
        marks = self._rare()
        if getattr(marks, field) is not None:
            warnings.warn(
                f"{self._name} called {method} twice; the second call replaced the first. Name "
                "every tensor in one call.",
                SavedTwiceWarning,
                stacklevel=3,
            )
        for position, tensor in enumerate(tensors):
            if not hasattr(tensor, "_memory"):
                raise CtxUsageError(
                    f"{self._name}: {method} takes tensors, and argument {position} is "
                    f"{_a(type(tensor).__name__)}"
                )
        return marks

    def _rare(self) -> _Marks:
        if self._marks is None:
            _set_marks(self, _Marks())
        return self._marks  # type: ignore[return-value]

    def _only_in_forward(self, method: str) -> None:
        if self._phase not in _IN_FORWARD:
            raise CtxUsageError(
                f"{self._name}: {method} works only inside forward (or setup_context). To hand a "
                "value to a later backward, save it in forward."
            )

    # -- the bag --------------------------------------------------------------------------------

    def store(self, key: str, value: Any) -> None:
        """Put `value` into the bag under `key`; the same as `ctx.key = value`.

        Keeps: `value`, until the node dies (backward does not release it).
        Raises: AttributeError for a reserved name, TypeError for a key that is not a string.

        Example:
            >>> ctx = lm.autograd.FunctionCtx()
            >>> ctx.store("shape", (2, 3))
            >>> ctx.shape
            (2, 3)
        """
        if not isinstance(key, str):
            raise TypeError(
                f"{self._name}: store takes a string as key, not {_a(type(key).__name__)}"
            )
        self.__setattr__(key, value)

    def load(self, key: str, default: Any = None) -> Any:
        """What `store` put under `key`, or `default`; a stored None is a value.

        Example:
            >>> ctx = lm.autograd.FunctionCtx()
            >>> ctx.shape = (2, 3)
            >>> ctx.load("shape"), ctx.load("axis", 0)
            ((2, 3), 0)
        """
        if not isinstance(key, str):
            raise TypeError(
                f"{self._name}: load takes a string as key, not {_a(type(key).__name__)}"
            )
        return self.__dict__.get(key, default)

    def __setattr__(self, key: str, value: Any) -> None:
        if key in _RESERVED or key.startswith("_"):
            raise AttributeError(
                f"{self._name}: '{key}' is a reserved name of the ctx. Store the value under "
                "another name."
            )
        object.__setattr__(self, key, value)
        if type(value) not in _SMALL and not is_small(value):
            if events.recorder is not None:
                events.recorder.stored(self, key)
            self._rare().keep(key)
            if self._phase not in _IN_FORWARD and self._function is not None:
                self._warn_of_kept(())

    def __delattr__(self, key: str) -> None:
        if key not in self.__dict__:
            raise AttributeError(_missing_text(self, key))
        del self.__dict__[key]

    def _warn_of_kept(self, outputs: Sequence[Any]) -> None:
        """Warn, once per Function and key, of a tensor that the ctx keeps without saving it."""
        warned = self._function._warned
        for key in self._rare().kept:
            if key not in warned and (text := self._kept_text(key, outputs)):
                warnings.warn(text, CtxAttributeWarning, stacklevel=outer_level())
                warned.add(key)

    def _kept_text(self, key: str, outputs: Sequence[Any]) -> str:
        """What is wrong with what lies under `key`, "" if nothing is.

        A tensor in the bag always is. In a container, partial or callable these are: an output, a
        tensor with history, and one that nobody else holds, so that it was made for this. Constants
        and parameters may lie there.
        """
        found: list[Found] = []
        if key in self.__dict__:
            found += tensors_inside(self.__dict__, key, f"ctx.{key}")
        if self._named and type(at := self._named.get(key)) is list:
            found += tensors_inside(at, 0, f"saved_variables.{key}")
        for path, tensor, only_here in found:
            if any(tensor is o or tensor._base is o for o in outputs):
                return (
                    f"{self._name} keeps an output in {path}: {path} -> output -> grad_fn -> ctx "
                    "is a cycle, which only the garbage collector frees, and backward does not "
                    "release it. Use ctx.save_for_backward."
                )
            if path == f"ctx.{key}" or only_here or not tensor.is_leaf:
                return (
                    f"{self._name} keeps a tensor of {tensor.nbytes} bytes in {path}: it is not "
                    f"version-checked and not released by backward. Use ctx.save_for_backward."
                )
        return ""

    # -- copies and names -----------------------------------------------------------------------

    def clone(self, deep: bool = False) -> "FunctionCtx":
        """An independent ctx with the same saved references and bag; `deep` copies what they hold.

        No node owns the clone. Keeps: what the original keeps (deep: a copy of it).

        Example:
            >>> ctx = lm.autograd.FunctionCtx()
            >>> ctx.store("sizes", [1, 2])
            >>> twin = ctx.clone(deep=True)
            >>> twin.sizes.append(3)
            >>> ctx.sizes
            [1, 2]
        """
        twin = FunctionCtx()
        _set_function(twin, self._function)
        _set_needs(twin, self._needs)
        spread = copy.deepcopy if deep else copy.copy
        slots = self._saved
        if type(slots) is tuple:
            slots = spread(self._unpack(slots))
            _set_versions(twin, versions_of(slots))
        _set_saved(twin, slots)
        _set_named(twin, spread(self._named))
        twin.__dict__.update(spread(self.__dict__))
        if self._marks is not None:
            _set_marks(twin, self._marks.copy())
        return twin

    def __copy__(self) -> "FunctionCtx":
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> "FunctionCtx":
        return self.clone(deep=True)

    def _node(self) -> Any:
        """The node that owns this ctx, or None.

        While the engine runs it, it says so. Otherwise the owner is looked for: a reference to it,
        weak or strong, would cost every op of every program an object for the rare outside reader.
        """
        if type(self._phase) is not int:
            return self._phase
        for holder in gc.get_referrers(self):
            if hasattr(type(holder), "_is_node") and holder._ctx is self:
                return holder
        return None

    @property
    def _name(self) -> str:
        """What error texts call it: the label of its node, or the name of its Function."""
        if self._phase not in _IN_FORWARD:
            node = self._node()
            if node is not None:
                return str(node.label)
        return _name_of(self._function)

    def __repr__(self) -> str:
        slots = self._saved
        if type(slots) is tuple:
            kept = f"{len(slots)} saved"
        else:
            kept = "nothing saved" if slots is None else "released"
        bag = f", {', '.join(self.__dict__)}" if self.__dict__ else ""
        return f"<ctx of {self._name}: {kept}{bag}>"


#: The same class under R torch's name.
AutogradContext = FunctionCtx

_IN_FORWARD = (FORWARD, FORWARD_UNRECORDED)
_RESERVED = frozenset(name for name in dir(FunctionCtx) if not name.startswith("_"))
_OF_MAPPING = frozenset(name for name in dir(SavedVariables) if not name.startswith("_"))
#: What may lie in the bag without a second look: it cannot hold a tensor.
_SMALL = frozenset((int, float, complex, bool, str, bytes, type(None), type, slice, type(Ellipsis)))


def is_small(value: Any) -> bool:
    """Whether `value` cannot hold a tensor: a shape, an index, an array, and tuples of such."""
    if type(value) is tuple:
        for item in value:  # noqa: SIM110 - all() costs twice as much, and every reshape pays
            if type(item) not in _SMALL and not is_small(item):
                return False
        return True
    if type(value) is np.ndarray:
        return not value.dtype.hasobject
    return type(value) in _SMALL or isinstance(value, np.generic | np.dtype)


def _name_of(function: Any) -> str:
    return "FunctionCtx" if function is None else str(function.__name__)


def refuse_leaf(tensor: Any, writer: str) -> None:
    """Raise LeafInPlaceError if `tensor` is a leaf that requires grad, or a view of one."""
    root = tensor if tensor._base is None else tensor._base
    if tensor._node is None and root._node is not None:
        refuse_hidden(tensor, writer)
    if tensor._node is not None and root._node is not None and root.is_leaf:
        what = "a leaf" if root is tensor else "a view of a leaf"
        raise LeafInPlaceError(
            f"{writer} would write in place into {what} that requires grad; the value that earlier "
            "ops saw would be lost. Write under `with lm.no_grad():`, or into a clone."
        )


def refuse_hidden(view: Any, writer: str) -> NoReturn:
    """Raise because `view` was made under no_grad: a write through it would have no history."""
    raise AutogradError(
        f"{writer} would write in place into a view that was made under no_grad, and the tensor it "
        "is a view of requires grad; the write would have no history. Make the view with recording "
        "on, or write under `with lm.no_grad():` too."
    )


def _a(noun: str) -> str:
    """The name of a type with its article, for an error text."""
    if noun == "NoneType":
        return "None"
    return f"{'an' if noun[:1] in 'aeiouAEIOU' or noun == 'ndarray' else 'a'} {noun}"


def better_missing(error: AttributeError, ctx: FunctionCtx) -> AttributeError:
    """`error` of a ctx attribute that was never stored, with a text that names Function and key.

    The same error object: its traceback shows the line that asked.
    """
    if error.obj is ctx and type(error.name) is str and not hasattr(type(ctx), error.name):
        error.args = (_missing_text(ctx, error.name),)
    return error


def _missing_text(ctx: FunctionCtx, key: str) -> str:
    stored = ", ".join(ctx.__dict__) or "nothing"
    return (
        f"{ctx._name}: nothing is stored under '{key}' in this ctx; it holds {stored}. Set "
        f"ctx.{key} in forward, or ask with ctx.load('{key}', default)."
    )
