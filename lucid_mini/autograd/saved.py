"""The saved slot: what a ctx keeps for one saved value, and how it is given back.

A slot holds one of three things, and never a bare array (CPython stops tracking tuples that hold
only arrays, and then no tool can find the holder):

- the input tensor itself: whoever reads it gets the identical object, history included;
- a `SavedOutput` or `SavedAlias`: for an output, a view of one, or an input written in place, the array
  and its version, not the tensor. The tensor owns the node, so a node that held it would close a cycle;
- `None`, where the forward saved `None`.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import events
from ..errors import AutogradError, VersionMismatchError
from .callsite import call_site

Array = NDArray[Any]


class Memory:
    """The version counter of one piece of memory: how often it was written, and by whom last.

    A tensor, its views and its detached aliases share one. A tensor that was never written, never
    viewed and never saved as an output has none: its version is 0.
    """

    __slots__ = ("__weakref__", "last_write", "version")

    #: Whose memory this is, if an in-place op on it must be refused.
    frozen: ClassVar[str] = ""
    #: Whether `inference_mode` made it: it can never be saved.
    inference: ClassVar[bool] = False

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


class _Inference(Memory):
    __slots__ = ()
    inference = True


#: How many writes there were in this process: tells a call whether anything was written meanwhile.
writes = 0

#: Shared by every gradient that is handed to a rule or a hook: an in-place op on one raises.
FROZEN_GRADIENT = _FrozenGradient()
#: Shared by everything that `inference_mode` made.
INFERENCE = _Inference()


class SavedOutput(Memory):
    """An output kept without its tensor: its array, its version counter, and which output it was.

    It is the version counter of that memory itself, so that one object does for both: the output
    tensor refers to it as its `_memory`.
    """

    __slots__ = ("_data", "output_nr")

    @property
    def _memory(self) -> Memory:
        return self


class SavedAlias:
    """A saved output whose memory has a counter already: a view of an output, or an input written in place.

    `output_nr` is -1 for a view of an output, which has no gradient slot of its own.
    """

    __slots__ = ("__weakref__", "_data", "_memory", "output_nr")

    def __init__(self, data: Array, memory: Memory, output_nr: int) -> None:
        self._data = data
        self._memory = memory
        self.output_nr = output_nr


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
    global writes
    writes += 1
    memory = memory_of(tensor)
    memory.version += 1
    memory.last_write = Write(writes, f"{what} at {call_site()}")
    if events.recorder is not None:
        events.recorder.wrote(tensor, what)


def refuse_frozen(tensor: Any, what: str) -> None:
    """Raise if `tensor` is a gradient that belongs to a running backward pass.

    Raises: AutogradError saying `clone()` first.
    """
    if tensor._memory is not None and tensor._memory.frozen:
        raise AutogradError(
            f"{what} would write into {tensor._memory.frozen}; others may be about to read it. Call clone() "
            f"first and write into the copy."
        )


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
    owners = {
        id(array): array for array in (owner(slot._data) for slot in slots if slot is not None)
    }
    return sum(array.nbytes for array in owners.values())


def versions_of(slots: tuple[Any, ...]) -> tuple[int, ...] | None:
    """How often the memory in each slot was written until now; None where never: no object is made."""
    versions = tuple(
        [0 if slot is None or slot._memory is None else slot._memory.version for slot in slots]
    )
    return versions if any(versions) else None


def check_versions(slots: tuple[Any, ...], versions: tuple[int, ...] | None, label: str) -> None:
    """Raise if the memory in a slot was written since it was saved.

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
                f"{label} saved tensor {index} at version {before}, but it was changed in place"
                f"{' by ' + write.writer if write else ''} and is at version {after} now. Save a copy "
                f"(`x.clone()`), or use an out-of-place op instead of the one that changed it."
            )
