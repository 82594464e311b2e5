"""trace: listen to lucid_mini's stack, and know of every buffer when it was born, used, freed."""

import zlib
from typing import Any, Self

import numpy as np

from .. import events
from ..autograd.node import AccumulateGrad
from ..autograd.saved import owner
from ..autograd.tensor import Tensor
from ..errors import VersionMismatchError
from .record import Record, site
from .slots import slot_names


class Trace(Record):
    """What `with lm.lifetime.trace() as t` gives: it listens to lucid_mini's stack.

    Example:
        >>> x = lm.ones(1000, requires_grad=True)
        >>> with lm.lifetime.trace() as t:
        ...     y = x.exp()
        >>> t
        <trace, ended: 3 events, 2 buffers, peak 8000 B, live 8000 B, drag 0 B x ops>
    """

    def __init__(self, *, check_writes: bool = False) -> None:
        super().__init__()
        self.check_writes = check_writes
        self._saved_serials: dict[int, list[int]] = {}
        self._outer: Any = None
        self._prints: dict[tuple[int, int], int] = {}  # of saved bytes, with check_writes

    def __enter__(self) -> Self:
        super().__enter__()
        self._outer = events.recorder
        events.recorder = self
        return self

    def __exit__(self, *error: object) -> None:
        events.recorder = self._outer
        self._outer = None
        super().__exit__(*error)

    # -- what the stack tells (events.Recorder) ---------------------------------------------------

    def created(self, tensor: Any, name: str = "tensor") -> None:
        """A constructor made `tensor`; a `constant` is a number that an op made a tensor of."""
        if self._outer is not None:
            self._outer.created(tensor, name)
        self._alloc(tensor._data, name, None, site())

    def applied(
        self, node: Any, function: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]
    ) -> None:
        """An op finished; `node` is None where nothing was recorded."""
        if self._outer is not None:
            self._outer.applied(node, function, args, outputs)
        where = site()
        self._op += 1
        self._op_starts.append(len(self._raw))
        what = (function._kind, None if node is None else node.sequence_nr)
        # What was there before is met before what the op made: a view of an argument is no new
        # buffer.
        inputs = []
        for a in args:
            if type(a) is Tensor:
                inputs.append(self._serial_of(a._data, where))
                if a._grad is not None:
                    self._serial_of(
                        a._grad._data, where
                    )  # it dies when the next one takes its place
        for number, output in enumerate(outputs):
            if type(output) is Tensor:
                serial = self._alloc(output._data, what, what, where)
                if number:
                    self._lives[serial].output = number
        # An argument is needed until the op has its result, so its use stands behind the
        # allocation.
        for serial in inputs:
            self._use(serial, what, where)
        if node is not None:
            self._note_saves(node, args, what, where)
            self._marks.append((len(self._raw), "F", what))
            self._phase = ("the caller, after", what)

    def _note_saves(self, node: Any, args: tuple[Any, ...], what: Any, where: Any) -> None:
        ctx = node._ctx
        for value in (
            *ctx.__dict__.values(),
            *(at for at in (ctx._named or {}).values() if type(at) is list),
        ):
            self._note_untracked(value, what, where)
        slots = ctx._saved
        if type(slots) is not tuple:
            return
        serials = []
        names = slot_names(node, args)
        for index, slot in enumerate(slots):
            if slot is not None and hasattr(slot, "_data"):
                serial = self._serial_of(slot._data, where, what)
                life = self._lives[serial]
                if life.saved is None:
                    life.saved = len(self._raw)
                life.saved_by += ((what, names[index]),)
                self._raw.append(("save", what, serial, where))
                serials.append(serial)
                if self.check_writes:
                    self._prints[node.sequence_nr, index] = _fingerprint(slot._data)
        self._saved_serials[node.sequence_nr] = serials

    def _note_untracked(self, value: Any, what: Any, where: Any) -> None:
        """An array that a ctx keeps outside tensors: in its bag, or saved by name."""
        if type(value) is np.ndarray:
            if id(owner(value)) not in self._by_id:
                serial = self._alloc(value, ("kept by", what, 0), what, where)
                life = self._lives[serial]
                life.untracked = True
        elif type(value) in (list, tuple):
            for item in value:
                self._note_untracked(item, what, where)

    def replaced(self, ctx: Any) -> None:
        """A second save_for_backward replaced the first."""
        if self._outer is not None:
            self._outer.replaced(ctx)
        self._raw.append(
            ("replace", (ctx._function._kind, None) if ctx._function else None, -1, site())
        )

    def stored(self, ctx: Any, key: str) -> None:
        """A value that may hold a tensor went into the bag of `ctx`."""
        if self._outer is not None:
            self._outer.stored(ctx, key)
        self._raw.append(
            ("store", (ctx._function._kind, None) if ctx._function else None, -1, site())
        )

    def unpacked(self, ctx: Any) -> None:
        """Saved values were read."""
        if self._outer is not None:
            self._outer.unpacked(ctx)
        what = self._phase[1]
        for index, slot in enumerate(ctx._saved or ()):
            if slot is not None and hasattr(slot, "_data"):
                if self.check_writes:
                    self._check_print(what, index, slot)
                serial = self._serial_of(slot._data, None)
                self._touch(serial)
                self._lives[serial].unpack_op = self._op
                self._in_use.append(serial)
                self._raw.append(("unpack", what, serial, None))

    def _check_print(self, what: Any, index: int, slot: Any) -> None:
        """Raise if the bytes in a slot are not those that were saved, though no counter moved.

        Raises: VersionMismatchError naming node, slot and buffer.
        """
        saved_print = None if what is None else self._prints.get((what[1], index))
        if saved_print is not None and saved_print != _fingerprint(slot._data):
            name = self._name_of(self._serial_of(slot._data, None))
            raise VersionMismatchError(
                f"{self._label(what)} saved tensor {index} ({name}), and its bytes were changed "
                "since without "
                "any op of lucid_mini: somebody wrote into an array that it shares memory with, "
                "as from_numpy "
                f"does. Use lm.tensor, which copies."
            )

    def running(self, node: Any, grads: Any) -> None:
        """Backward is about to run `node` with its complete gradient or gradients."""
        if self._outer is not None:
            self._outer.running(node, grads)
        self._op += 1
        self._op_starts.append(len(self._raw))
        what = (node.function._kind, node.sequence_nr)
        if self.boundary is None:
            self.boundary = len(self._raw)
        self._in_use.clear()
        for number, g in enumerate(grads if type(grads) is list else (grads,)):
            if g is not None:
                serial = self._alloc(_array(g), ("grad of", what, number), what, None)
                self._use(serial, what, None)
                self._in_use.append(serial)
        self._phase = ("during", what)

    def ran(self, node: Any, grads: Any) -> None:
        """Backward ran `node`, which gave `grads`."""
        if self._outer is not None:
            self._outer.ran(node, grads)
        what = (node.function._kind, node.sequence_nr)
        nrs = node._next_nrs or (0,) * len(node._next_nodes)
        for upstream, number, g in zip(node._next_nodes, nrs, grads, strict=False):
            array = _array(g)
            if upstream and type(array) is np.ndarray:
                self._alloc(array, self._grad_name(upstream, number), what, None)
        # What the rule was handed or read was needed until it had its result.
        for serial in self._in_use:
            life = self._lives[serial]
            life.last_use = len(self._raw)
        self._in_use.clear()
        self._raw.append(("run", what, -1, None))
        self._marks.append((len(self._raw), "B", what))
        self._phase = ("engine after", what)

    def adding(self, total: Any, grad: Any) -> None:
        """The engine is about to add two contributions to one gradient: it reads both."""
        if self._outer is not None:
            self._outer.adding(total, grad)
        for part in (total, grad):
            array = _array(part)
            if type(array) is np.ndarray:
                self._touch(self._alloc(array, "grad", self._phase[1], None))

    def summed(self, node: Any, total: Any) -> None:
        """The engine made a gradient of its own: a sum of two, or one summed down or cast."""
        if self._outer is not None:
            self._outer.summed(node, total)
        array = _array(total)
        if type(array) is np.ndarray:
            name = self._grad_name(node, 0) if hasattr(node, "sequence_nr") else "sum of gradients"
            self._alloc(array, name, self._phase[1], None)

    def released(self, node: Any) -> None:
        """`node` let go of what it had saved."""
        if self._outer is not None:
            self._outer.released(node)
        what = (node.function._kind, node.sequence_nr)
        for serial in self._saved_serials.pop(node.sequence_nr, ()):
            life = self._lives[serial]
            life.released = len(self._raw)
            self._raw.append(("release", what, serial, None))

    def accumulated(self, leaf: Any, grad: Any) -> None:
        """`leaf.grad` was given `grad`."""
        if self._outer is not None:
            self._outer.accumulated(leaf, grad)
        name = self._grad_name(leaf._node, 0)
        serial = self._alloc(grad._data, name, None, None)
        life = self._lives[serial]
        life.is_grad = True
        life.name = name
        self._touch(serial)
        self._raw.append(("accumulate", None, serial, None))
        self._phase = ("the caller, after backward", None)

    def wrote(self, tensor: Any, what: str) -> None:
        """`tensor` was changed in place."""
        if self._outer is not None:
            self._outer.wrote(tensor, what)
        where = site()
        serial = self._serial_of(tensor._data, where)
        self._touch(serial)
        self._raw.append(("write", (what, None), serial, where))

    def hooked(self, hook: Any) -> None:
        """A hook ran."""
        if self._outer is not None:
            self._outer.hooked(hook)
        self._raw.append(("hook", getattr(hook, "__qualname__", type(hook).__name__), -1, None))

    def _grad_name(self, upstream: Any, number: int) -> Any:
        """`grad of relu#2`, or of the variable that a leaf is called."""
        if type(upstream) is AccumulateGrad:
            leaf = upstream._leaf()
            if leaf is None:
                return "grad of a leaf that is gone"
            return ("grad of leaf", self._serial_of(leaf._data, None))
        return ("grad of", (upstream.function._kind, upstream.sequence_nr), number)


def trace(check_writes: bool = False) -> Trace:
    """Record what happens to memory in the block: `with lm.lifetime.trace() as t: ...`.

    `check_writes`: compare the bytes of every saved tensor when it is read with those that were
    saved, which catches writes through an array that `from_numpy` shares; costs a checksum a save
    and a read.
    Keeps: names, numbers and weak references; no object of the program. Changes no result.

    Example:
        >>> x = lm.ones(1000, requires_grad=True)
        >>> with lm.lifetime.trace() as t:
        ...     x.exp().sum().backward()
        >>> for b in t.buffers:
        ...     print(b.name, b.nbytes, b.freed_by or "alive")
        x 8000 alive
        exp#1 8000 engine after exp#1
        sum#2 8 the caller, after backward
        grad of sum#2 8 engine after exp#1
        grad of x 8000 alive
    """
    return Trace(check_writes=check_writes)


def _fingerprint(array: Any) -> int:
    """A checksum of the elements."""
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def _array(g: Any) -> Any:
    return g._data if type(g) is Tensor else g
