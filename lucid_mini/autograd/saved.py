"""The saved slot: what a ctx keeps for one saved value, and how it is given back.

A slot holds one of three things, and never a bare array (CPython stops tracking tuples that hold
only arrays, and then no tool can find the holder):

- the input tensor itself: whoever reads it gets the identical object, history included;
- a `SavedOutput` or `SavedAlias`: for an output, a view of one, or an input written in place, the
  array and its version, not the tensor. The tensor owns the node, so a node that held it would
  close a cycle;
- a `Packed`, where `saved_tensors_hooks` were active: what their `pack` made of it;
- `None`, where the forward saved `None`.
"""

import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from .. import events
from ..errors import AutogradError, InferenceTensorError, PackError, VersionMismatchError
from .callsite import call_site
from .mode import thread

Array = NDArray[Any]


class Memory:
    """The version counter of one piece of memory: how often it was written, and by whom last.

    A tensor, its views and its detached aliases share one. A tensor that was never written, never
    viewed and never saved as an output has none: its version is 0.
    """

    __slots__ = ("__weakref__", "last_write", "version", "views")

    #: Whose memory this is, if an in-place op on it must be refused, and what that raises.
    frozen: ClassVar[str] = ""
    error: ClassVar[type[AutogradError]] = AutogradError
    #: Whether `inference_mode` made it: it can never be saved.
    inference: ClassVar[bool] = False

    #: Weak references to the views of tensors on this memory; not set before there is one.
    views: "list[weakref.ref[Any]]"

    def __init__(self) -> None:
        self.version = 0
        self.last_write: Write | None = None


class Write(NamedTuple):
    """One write in place: its number in the process (see `writes`), and who did it where."""

    number: int
    writer: str


class _FrozenGradient(Memory):
    __slots__ = ()
    frozen = "a gradient that the backward pass handed out"


class _FrozenPack(Memory):
    __slots__ = ()
    frozen = "a tensor that is being packed for backward"
    error = PackError


class _Inference(Memory):
    __slots__ = ()
    inference = True


#: How many writes there were in this process: tells a call whether anything was written meanwhile.
writes = 0

#: Shared by every gradient that is handed to a rule or a hook: an in-place op on one raises.
FROZEN_GRADIENT = _FrozenGradient()
#: Shared by every tensor that is handed to the `pack` of `saved_tensors_hooks`.
FROZEN_PACK = _FrozenPack()
#: Shared by everything that `inference_mode` made.
INFERENCE = _Inference()


class SavedOutput(Memory):
    """An output kept without its tensor: its array, its version counter, and which output it was.

    It is the version counter of that memory itself, so that one object does for both: the output
    tensor refers to it as its `_memory`.
    """

    __slots__ = ("_data", "output_nr")

    _data: Array
    output_nr: int

    @property
    def _memory(self) -> Memory:
        return self


class SavedAlias:
    """A saved output whose memory has a counter already: a view of an output, or a dirty input.

    `output_nr` is -1 for what has no gradient slot of its own: a view of an output, or an output
    without gradient.
    """

    __slots__ = ("__weakref__", "_data", "_memory", "output_nr")

    def __init__(self, data: Array, memory: Memory, output_nr: int) -> None:
        self._data = data
        self._memory = memory
        self.output_nr = output_nr


class Packed:
    """What `pack` made of a saved tensor, and all that is needed to make a tensor of it again.

    `_memory` is the version counter of the tensor that was saved: packing does not switch the check
    off. `node` and `output_nr` are its history; None and -1 for an output, which `is_output` says.
    """

    __slots__ = (
        "__weakref__",
        "_memory",
        "dtype",
        "held",
        "is_output",
        "node",
        "output_nr",
        "shape",
        "unpack",
    )

    def __init__(self, slot: Any, held: Any, unpack: Callable[[Any], Any]) -> None:
        self._memory: Memory = slot._memory if slot._memory is not None else memory_of(slot)
        self.held = held
        self.unpack = unpack
        self.shape, self.dtype = slot._data.shape, slot._data.dtype
        self.is_output = type(slot) in DETACHED
        self.node = None if self.is_output else slot._node
        self.output_nr: int = slot.output_nr if self.is_output else slot._output_nr

    def restore(self, owner_node: Any, label: Callable[[], str]) -> Any:
        """The saved tensor, unpacked; a saved output is attached to `owner_node`.

        Raises: PackError for another type, shape or dtype than was saved.
        """
        found, thread.mode.recording = thread.mode.recording, False
        try:
            given = self.unpack(self.held)
        finally:
            thread.mode.recording = found
        if not hasattr(given, "_memory"):
            raise PackError(
                f"{label()}: unpack returned {type(given).__name__}, not a tensor. It must give "
                f"back what pack was given: a tensor of shape {self.shape} and dtype {self.dtype}."
            )
        if given._data.shape != self.shape or given._data.dtype != self.dtype:
            raise PackError(
                f"{label()}: unpack returned a tensor of shape {given._data.shape} and dtype "
                f"{given._data.dtype}, and what was saved had shape {self.shape} and dtype "
                f"{self.dtype}. It must give back what pack was given."
            )
        value = wrap(given._data)
        value._memory = self._memory if given._memory is FROZEN_PACK else given._memory
        node = owner_node if self.is_output else self.node
        if node is not None and self.output_nr >= 0:
            value._node, value._output_nr = node, self.output_nr
        return value


#: Set while `saved_tensors_hooks` or a like are active somewhere: packs what a ctx has just saved.
packer: Callable[[Any], None] | None = None
#: Set while `allow_mutation_on_saved_tensors` is active somewhere: called before a write in place.
before_write: Callable[[Any], None] | None = None


def restored(slots: tuple[Any, ...], ctx: Any) -> tuple[Any, ...]:
    """`slots` with every `Packed` as the tensor it stands for."""
    if not any(type(slot) is Packed for slot in slots):
        return slots
    node = ctx._node()
    return tuple(
        [slot.restore(node, lambda: ctx._name) if type(slot) is Packed else slot for slot in slots]
    )


#: What the slot of an output holds once that was packed.
PACKED_AWAY = np.empty(0)
#: The slots that hold an array in place of the tensor.
DETACHED = (SavedOutput, SavedAlias)


class Freed:
    """Stands where saved slots were, and says who took them away. One per backward pass."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _no_tensor(data: Array) -> Any:
    raise NotImplementedError("tensor.py registers how an array becomes a tensor")


#: How an array becomes a tensor. `tensor.py` puts its own `wrap` here; the files above it need no
#: more of Tensor than this and a few attributes.
wrap: Callable[[Array], Any] = _no_tensor


_new_slot = object.__new__


def saved_output(tensor: Any, output_nr: int) -> SavedOutput | SavedAlias:
    """The slot for `tensor`, an output: what is needed of it without the tensor."""
    if tensor._memory is not None:
        return SavedAlias(tensor._data, tensor._memory, output_nr)
    slot: SavedOutput = _new_slot(SavedOutput)
    tensor._memory = slot
    slot.version = 0
    slot.last_write = None
    slot._data = tensor._data
    slot.output_nr = output_nr
    return slot


def record_write(tensor: Any, what: str) -> None:
    """Count a write into `tensor`, and note who did it: the first caller outside the package."""
    global writes  # noqa: PLW0603 - a counter that every call reads
    if before_write is not None:
        before_write(tensor)
    writes += 1
    memory = memory_of(tensor)
    if not memory.inference:  # shared by all that inference_mode made, and nobody may save those
        memory.version += 1
        memory.last_write = Write(writes, f"{what} at {call_site()}")
    if events.recorder is not None:
        events.recorder.wrote(tensor, what)


def refuse_frozen(tensor: Any, what: str) -> None:
    """Raise if `tensor` must not be written now.

    That is: a gradient that a backward pass handed out, what the running rule has saved, a tensor
    that is being packed, and outside `inference_mode` a tensor that was made there.
    Raises: AutogradError saying `clone()` first, PackError, InferenceTensorError.
    """
    memory = tensor._memory
    if memory is not None:
        if memory.frozen:
            _refuse_write(what, memory.frozen, memory.error)
        if memory.inference and not thread.mode.inference:
            raise InferenceTensorError(
                f"{what} would write into a tensor made in inference_mode, outside of it. Call "
                "clone() first and write into the copy."
            )
    if thread.mode.running:
        array = owner(tensor._data)
        for node, grads in thread.mode.running:
            if any(owner(g._data) is array for g in grads if g is not None):
                _refuse_write(what, FROZEN_GRADIENT.frozen, AutogradError)
            slots = () if node is None else node._ctx._saved
            for slot in slots if type(slots) is tuple else ():
                if slot is not None and type(slot) is not Packed and owner(slot._data) is array:
                    text = f"a tensor that {node.label} saved, while its backward runs"
                    _refuse_write(what, text, AutogradError)


def _refuse_write(what: str, into: str, error: type[AutogradError]) -> NoReturn:
    raise error(
        f"{what} would write into {into}; others may be about to read it. Call clone() first and "
        "write into the copy."
    )


def note_view(view: Any) -> None:
    """Note that `view` is a view of its `_base`: a recorded write there gives it a new history.

    The list is kept by the memory they share, and cleared of the dead whenever it has doubled.
    """
    memory = view._memory
    if memory.frozen or memory.inference:
        return
    try:
        views = memory.views
    except AttributeError:
        views = memory.views = []
    views.append(weakref.ref(view))
    if len(views) >= 32 and not len(views) & (len(views) - 1):
        memory.views = [ref for ref in views if ref() is not None]


def views_of(base: Any) -> list[Any]:
    """The living views of `base`."""
    views = [] if base._memory is None else getattr(base._memory, "views", [])
    living = [ref() for ref in views]
    return [view for view in living if view is not None and view._base is base]


def _no_history(written: list[tuple[Any, Any, int]]) -> None:
    raise NotImplementedError("ops/strided.py registers how a write changes histories")


#: What a recorded write in place does to the history of bases and views. `ops/strided.py` puts its
#: own `rewrite` here. Given: each tensor written, with the node and output number it had before.
rewrite: Callable[[list[tuple[Any, Any, int]]], None] = _no_history


def owner(array: Array) -> Array:
    """The array that owns the memory under `array`: `.base` followed to its end.

    The end of a chain need not be an array (`bytes`, `mmap`); then the last array counts.
    """
    base = array.base
    while isinstance(base, np.ndarray):
        array, base = base, base.base
    return array


def memory_of(tensor: Any) -> Memory:
    """The version counter of `tensor`, made if it has none yet."""
    memory: Memory | None = tensor._memory
    if memory is None:
        memory = tensor._memory = Memory()
    return memory


def held_bytes(slots: Any) -> int:
    """Bytes of the arrays in saved slots, each owning array counted once."""
    if type(slots) is not tuple:
        return 0
    held = [slot for slot in slots if slot is not None and type(slot) is not Packed]
    owners = {id(array): array for array in (owner(slot._data) for slot in held)}
    return sum(array.nbytes for array in owners.values())


def versions_of(slots: tuple[Any, ...]) -> tuple[int, ...] | None:
    """How often the memory in each slot was written until now; None where none ever was."""
    versions = tuple(
        [0 if slot is None or slot._memory is None else slot._memory.version for slot in slots]
    )
    return versions if any(versions) else None


def check_versions(slots: tuple[Any, ...], versions: tuple[int, ...] | None, ctx: Any) -> None:
    """Raise if the memory in a slot was written since it was saved.

    `ctx` is asked for its name only where there is something to say: finding it can take a search.
    Raises: VersionMismatchError, with the slot, both versions, and who wrote where.
    """
    now = versions_of(slots)
    if now == versions:
        return
    none = (0,) * len(slots)
    for index, (before, after) in enumerate(zip(versions or none, now or none, strict=True)):
        if before != after:
            write = slots[index]._memory.last_write
            raise VersionMismatchError(
                f"{ctx._name} saved tensor {index} at version {before}, but it was changed in "
                f"place{' by ' + write.writer if write else ''} and is at version {after} now. "
                "Save a copy (`x.clone()`), or use an out-of-place op instead of the one that "
                "changed it."
            )
