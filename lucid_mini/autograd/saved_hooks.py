"""Keeping saved tensors in another form: `saved_tensors_hooks`, `save_on_disk`, copies on write.

While one of them is active, what a recorded call has saved is packed as soon as its forward is
over:

    forward: ctx.save_for_backward(x)  ->  pack(x)       the slot keeps what pack returned
    backward: ctx.saved_tensors        ->  unpack(kept)  at each reading

Switched off, they cost one look at a name per call (`saved.packer`) or per write
(`saved.before_write`). The version check stays on: a tensor that was changed in place after it was
saved is reported, whatever was packed.
"""

import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import PackError
from . import saved
from .ctx import FunctionCtx, _a, _set_saved, _set_versions
from .mode import thread
from .saved import FROZEN_PACK, PACKED_AWAY, Memory, Packed, SavedOutput, owner
from .tensor import Tensor, wrap


class _Active(threading.local):
    """The packers of the running thread, the innermost last."""

    def __init__(self) -> None:
        self.packers: list[Any] = []


_active = _Active()
_entered = 0  # how many packers are active in all threads
_lock = threading.Lock()


def _pack_saved(ctx: FunctionCtx) -> None:
    """Put what the innermost packer of this thread makes of them in place of the slots of `ctx`."""
    slots = ctx._saved
    if not _active.packers or type(slots) is not tuple:
        return
    packer = _active.packers[-1]
    packed = tuple([None if slot is None else packer._pack_slot(ctx, slot) for slot in slots])
    versions = ctx._versions or (0,) * len(slots)
    for slot in slots:
        if type(slot) is SavedOutput:
            # It lives on as the version counter; with its array it would keep what is packed away.
            slot._data = PACKED_AWAY
    _set_saved(ctx, packed)
    _set_versions(ctx, versions)  # never None here: that is where the reader looks for Packed


class _Packer:
    """A context manager under which saved tensors are packed. It may be nested and used again."""

    def __enter__(self) -> Any:
        global _entered  # noqa: PLW0603 - counts over all threads
        _active.packers.append(self)
        with _lock:
            _entered += 1
            saved.packer = _pack_saved
        return self

    def __exit__(self, *_: object) -> None:
        global _entered  # noqa: PLW0603
        _active.packers.pop()
        with _lock:
            _entered -= 1
            if not _entered:
                saved.packer = None

    def _pack_slot(self, ctx: FunctionCtx, slot: Any) -> Packed:
        raise NotImplementedError


class saved_tensors_hooks(_Packer):  # noqa: N801 - the name is PyTorch's
    """Keep `pack(tensor)` in place of each saved tensor; `unpack` gives the tensor back when read.

    The innermost of several wins. `pack` gets an alias without history that must not be written,
    and may return anything; `unpack` must return a tensor of the same shape and dtype.
    Keeps: what `pack` returns, until the node is released.
    Raises: PackError for an in-place op in `pack`, and for what `unpack` returns.

    Example:
        >>> x = lm.tensor([3.0], requires_grad=True)
        >>> half = lambda t: t.numpy().astype("float32")
        >>> with lm.autograd.saved_tensors_hooks(half, lambda a: lm.tensor(a).to(float)):
        ...     y = x * x
        >>> y.backward()
        >>> x.grad
        tensor([6.])
    """

    def __init__(self, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        for name, hook in (("pack", pack), ("unpack", unpack)):
            if not callable(hook):
                raise TypeError(
                    f"saved_tensors_hooks: {name} must be a callable, not {_a(type(hook).__name__)}"
                )
        self._pack, self._unpack = pack, unpack

    def _pack_slot(self, ctx: FunctionCtx, slot: Any) -> Packed:
        alias = wrap(slot._data)
        alias._memory = FROZEN_PACK
        found, thread.mode.recording = thread.mode.recording, False
        try:
            return Packed(slot, self._pack(alias), self._unpack)
        finally:
            thread.mode.recording = found


class save_on_disk(saved_tensors_hooks):  # noqa: N801
    """Keep saved tensors in files of `folder`, which is made if it is missing.

    Keeps: on disk the bytes of each saved tensor, in memory none; a file is removed when its node
    is released or dies.
    Raises: OSError where `folder` cannot be written; PackError where a file is gone when it is
    read.

    Example:
        >>> x = lm.tensor([3.0], requires_grad=True)
        >>> with lm.autograd.save_on_disk("saved"):
        ...     y = x * x
        >>> y.backward()
        >>> x.grad
        tensor([6.])
    """

    def __init__(self, folder: Any) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        super().__init__(self._write, _read)

    def _write(self, tensor: Tensor) -> "_File":
        return _File(self._folder, tensor.numpy())


class _File:
    """A saved tensor on disk; the file goes with this object."""

    def __init__(self, folder: Path, array: Any) -> None:
        number = 1
        while True:
            self.path = folder / f"saved_{number}.npy"
            try:
                with self.path.open("xb") as file:
                    np.save(file, array, allow_pickle=False)
                break
            except FileExistsError:
                number = max(number, _highest(folder)) + 1
        # At the end of the program too, where objects need not be torn down.
        weakref.finalize(self, self.path.unlink, missing_ok=True)


def _highest(folder: Path) -> int:
    numbers = [path.stem.removeprefix("saved_") for path in folder.glob("saved_*.npy")]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _read(kept: _File) -> Tensor:
    try:
        return wrap(np.load(kept.path, allow_pickle=False))
    except OSError as error:
        raise PackError(
            f"save_on_disk: {kept.path.name} cannot be read back ({error.strerror}). Keep the "
            "folder until backward has run."
        ) from error


class allow_mutation_on_saved_tensors(_Packer):  # noqa: N801
    """Let saved tensors be changed in place: before the first write, what is saved is copied.

    Forward, the writes and backward stand in one block. Backward sees the values that were saved.
    Keeps: a copy of each saved tensor that is written, until its node is released.

    Example:
        >>> x = lm.tensor([1.0], requires_grad=True)
        >>> z = x * 1
        >>> with lm.autograd.allow_mutation_on_saved_tensors():
        ...     y = z * z
        ...     z += 1
        ...     y.backward()
        >>> x.grad
        tensor([2.])
    """

    def __init__(self) -> None:
        #: By the identity of the owning array, which each living slot keeps alive.
        self._slots: dict[int, list[weakref.ref[Packed]]] = {}

    def __enter__(self) -> "allow_mutation_on_saved_tensors":
        super().__enter__()
        with _lock:
            _copying.append(self)
            saved.before_write = _copy_before_write
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            _copying.remove(self)
            if not _copying:
                saved.before_write = None
        super().__exit__()
        # What is written from here on is reported by the version check.
        self._slots.clear()

    def _pack_slot(self, ctx: FunctionCtx, slot: Any) -> Packed:
        packed = Packed(slot, slot._data, wrap)
        self._slots.setdefault(id(owner(slot._data)), []).append(weakref.ref(packed))
        return packed

    def _copy(self, tensor: Tensor) -> None:
        for reference in self._slots.pop(id(owner(tensor._data)), ()):
            packed = reference()
            if packed is not None:
                packed.held = packed.held.copy()
                # From now on it is its own memory, in the version that was saved.
                version = packed._memory.version
                packed._memory = Memory()
                packed._memory.version = version


#: The contexts that copy before a write.
_copying: list[allow_mutation_on_saved_tensors] = []


def _copy_before_write(tensor: Tensor) -> None:
    for context in list(_copying):
        context._copy(tensor)
