"""trace: watch one piece of a program, and know of every buffer when it was born, used and freed.

The trace keeps nothing alive: it stores names, numbers, and a weak reference to each *owning* array
(on a view the callback would come when the view dies, long before the memory). Its clock counts
events, so two runs give the same log.
"""

import gc
import linecache
import re
import sys
import weakref
import zlib
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np

from .. import events
from ..autograd.callsite import file_of, is_machinery
from ..autograd.node import AccumulateGrad, first_number, label_of
from ..autograd.saved import owner
from ..autograd.tensor import Tensor
from ..errors import VersionMismatchError
from ..events import Event
from . import holders
from .buffers import Buffer
from .cycles import cycle_through
from .holders import Chain, name_of, why_alive_array
from .slots import slot_names


class _Ref(weakref.ref[Any]):
    """A weak reference that knows which buffer it stands for, and under which id that is found."""

    __slots__ = ("key", "serial")

    serial: int
    key: int


#: An event as it is recorded; texts are made when somebody reads them. Kind; node: (kind, sequence
#: number), a text, or None; number of the buffer, -1 for none; the line that asked for it. A plain
#: tuple is made in a third of the time of a named one.
_Raw = tuple[str, Any, int, tuple[CodeType, int] | None]


class _Life:
    """What is known of one buffer while the trace runs. What is not set yet stands in the class."""

    existed = foreign = is_grad = untracked = False
    output = 0
    saved: int | None = None
    saved_by: tuple[tuple[Any, str], ...] = ()
    last_use: int | None = None
    forward_op: int | None = None
    unpack_op: int | None = None
    forward_use: int | None = None
    released: int | None = None
    death: int | None = None
    death_op = 0
    freed_by: Any = ""

    def __init__(
        self, name: Any, nbytes: int, born: int, op: int, where: tuple[CodeType, int] | None
    ) -> None:
        self.name = name
        self.nbytes = nbytes
        self.born = born
        self.born_op = self.last_op = op
        self.where = where


class Trace:
    """What `with lm.lifetime.trace() as t` gives: events, buffers, and sums over them.

    Example:
        >>> x = lm.ones(1000, requires_grad=True)
        >>> with lm.lifetime.trace() as t:
        ...     y = x.exp()
        >>> t
        <trace, ended: 3 events, 2 buffers, peak 8000 B, live 8000 B, drag 0 B x ops>
    """

    def __init__(self, *, check_writes: bool = False) -> None:
        self.check_writes = check_writes
        self.title = ""
        #: The step at which the first backward node ran, None if none did.
        self.boundary: int | None = None
        #: `(step, "F matmul#1")` for each op that finished, `"B …"` for each node that ran.
        self._marks: list[tuple[int, str, Any]] = []
        self._raw: list[_Raw] = []
        self._lives: list[_Life] = []
        self._refs: list[_Ref | None] = []
        self._by_id: dict[int, int] = {}
        self._saved_serials: dict[int, list[int]] = {}
        self._op = 0  # counts ops of forward and nodes of backward: the clock of drag
        self._op_starts = [0]  # the first step of each
        self._phase: Any = ("the caller", None)
        self._outer: Any = None
        self._first = first_number()
        self._running = False
        self._in_use: list[int] = []  # what the running rule was handed and has read
        self._prints: dict[tuple[int, int], int] = {}  # of saved bytes, with check_writes
        self._names: dict[int, str] = {}
        self._found: dict[int, Buffer] = {}  # what the last survivors() said

    # -- on and off -----------------------------------------------------------------------------

    def __enter__(self) -> "Trace":
        if self._running:
            raise RuntimeError(
                "this trace is running already; make another with lm.lifetime.trace()"
            )
        holders.last_trace = weakref.ref(self)
        self._first = first_number()  # labels stay what they are now
        self._outer = events.recorder
        events.recorder = self
        self._running = True
        return self

    def __exit__(self, *_: object) -> None:
        events.recorder = self._outer
        self._outer = None
        self._running = False

    def name(self, **tensors: Tensor) -> None:
        """Call the buffers of `tensors` by these names: `t.name(W=layer.weight)`.

        Example:
            >>> x = lm.ones(2)
            >>> with lm.lifetime.trace() as t:
            ...     t.name(weights=x)
            ...     _ = x * 2
            >>> t.buffers[0].name
            'weights'
        """
        for name, tensor in tensors.items():
            self._names[self._serial_of(tensor._data, None)] = name

    def mark(self, text: str) -> None:
        """Put a mark of your own on the clock, such as `"SGD"`.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     t.mark("SGD")
            >>> t.marks
            [(0, 'SGD')]
        """
        self._marks.append((len(self._raw), text, None))

    # -- what the stack tells (events.Recorder) ---------------------------------------------------

    def created(self, tensor: Any, name: str = "tensor") -> None:
        """A constructor made `tensor`; a `constant` is a number that an op made a tensor of."""
        if self._outer is not None:
            self._outer.created(tensor, name)
        self._alloc(tensor._data, name, None, _site())

    def applied(
        self, node: Any, function: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]
    ) -> None:
        """An op finished; `node` is None where nothing was recorded."""
        if self._outer is not None:
            self._outer.applied(node, function, args, outputs)
        where = _site()
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
            ("replace", (ctx._function._kind, None) if ctx._function else None, -1, _site())
        )

    def stored(self, ctx: Any, key: str) -> None:
        """A value that may hold a tensor went into the bag of `ctx`."""
        if self._outer is not None:
            self._outer.stored(ctx, key)
        self._raw.append(
            ("store", (ctx._function._kind, None) if ctx._function else None, -1, _site())
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
        where = _site()
        serial = self._serial_of(tensor._data, where)
        self._touch(serial)
        self._raw.append(("write", (what, None), serial, where))

    def hooked(self, hook: Any) -> None:
        """A hook ran."""
        if self._outer is not None:
            self._outer.hooked(hook)
        self._raw.append(("hook", getattr(hook, "__qualname__", type(hook).__name__), -1, None))

    # -- the registry -----------------------------------------------------------------------------

    def _serial_of(self, data: Any, where: Any, what: Any = None) -> int:
        """The number of the buffer under `data`; one never seen was there before the trace."""
        array = owner(data)
        serial = self._by_id.get(id(array))
        if serial is not None:
            return serial
        serial = self._register(array, ("existing", data.shape), 0, where)
        life = self._lives[serial]
        life.existed = what is None
        if what is None:
            self._names[serial] = name_of(data) or ""
        else:
            # Saved, and neither an argument nor an output: forward made it on the way.
            life.name = ("made by", what, 0)
            life.born = len(self._raw)
            self._raw.append(("alloc", what, serial, where))
        return serial

    def _alloc(self, data: Any, name: Any, what: Any, where: Any) -> int:
        """The number of the buffer under `data`, which has just been made if it is not known."""
        array = owner(data)
        serial = self._by_id.get(id(array))
        if serial is not None:
            return serial
        serial = self._register(array, name, len(self._raw), where)
        life = self._lives[serial]
        self._raw.append(("alloc", what, serial, where))
        life.last_op = self._op
        return serial

    def _register(self, array: Any, name: Any, born: int, where: Any) -> int:
        serial = len(self._lives)
        life = _Life(name, array.nbytes or 1, born, self._op, where)
        if not array.flags.owndata:
            life.foreign = True
        self._lives.append(life)
        ref = _Ref(array, self._died)
        ref.serial, ref.key = serial, id(array)
        self._refs.append(ref)
        self._by_id[ref.key] = serial
        return serial

    def _died(self, ref: Any) -> None:
        """The memory of a buffer goes. Only numbers are written: the block itself still counts."""
        self._by_id.pop(ref.key, None)
        self._refs[ref.serial] = None
        if not self._running:
            return
        life = self._lives[ref.serial]
        life.death = len(self._raw)
        life.death_op = self._op
        life.freed_by = self._phase
        self._raw.append(("free", self._phase[1], ref.serial, None))

    def _use(self, serial: int, what: Any, where: Any) -> None:
        self._touch(serial)
        if self.boundary is None:
            self._lives[serial].forward_use = len(self._raw)
            self._lives[serial].forward_op = self._op
        self._raw.append(("use", what, serial, where))

    def _touch(self, serial: int) -> None:
        life = self._lives[serial]
        life.last_use = len(self._raw)
        life.last_op = self._op

    def _grad_name(self, upstream: Any, number: int) -> Any:
        """`grad of relu#2`, or of the variable that a leaf is called."""
        if type(upstream) is AccumulateGrad:
            leaf = upstream._leaf()
            if leaf is None:
                return "grad of a leaf that is gone"
            return ("grad of leaf", self._serial_of(leaf._data, None))
        return ("grad of", (upstream.function._kind, upstream.sequence_nr), number)

    # -- what it shows ----------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The number of events.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     y = lm.ones(2)
            >>> t.end == len(t.events)
            True
        """
        return len(self._raw)

    @property
    def marks(self) -> list[tuple[int, str]]:
        """`(step, "F matmul#1")` for each op that finished, `"B …"` for each node that ran.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     lm.ones(2, requires_grad=True).sum().backward()
            >>> t.marks
            [(3, 'F sum#1'), (7, 'B sum#1')]
        """
        return [
            (step, text if what is None else f"{text} {self._label(what)}")
            for step, text, what in self._marks
        ]

    @property
    def events(self) -> list[Event]:
        """Everything that happened, in order.

        Example:
            >>> x = lm.ones(2, requires_grad=True)
            >>> with lm.lifetime.trace() as t:
            ...     y = x.exp()
            >>> [(event.step, event.kind, event.buffer, event.nbytes) for event in t.events]
            [(0, 'alloc', 'exp#1', 16), (1, 'use', 'x', 16), (2, 'save', 'exp#1', 16)]
        """
        return [
            Event(
                step,
                kind,
                self._label(what),
                "" if serial < 0 else self._name_of(serial),
                0 if serial < 0 else self._lives[serial].nbytes,
                _where(where),
            )
            for step, (kind, what, serial, where) in enumerate(self._raw)
        ]

    @property
    def buffers(self) -> list[Buffer]:
        """One row per owning buffer, in the order in which they were first seen.

        Verdicts and holders of what was alive at the end are those that `survivors()` found last.

        Example:
            >>> x = lm.ones(2, requires_grad=True)
            >>> with lm.lifetime.trace() as t:
            ...     x.exp().sum().backward()
            >>> [(b.name, b.saved_by, b.freed_by) for b in t.buffers if b.saved_by]
            [('exp#1', ('exp#1 output',), 'engine after exp#1')]
        """
        return [
            self._found.get(serial) or self._buffer(serial) for serial in range(len(self._lives))
        ]

    def _buffer(self, serial: int) -> Buffer:
        life = self._lives[serial]
        drag = 0
        if not life.existed and not life.is_grad and not life.untracked:
            until = life.death_op if life.death is not None else self._op
            drag = life.nbytes * max(0, until - life.last_op)
        return Buffer(
            name=self._name_of(serial),
            nbytes=life.nbytes,
            allocated=life.born,
            existed=life.existed,
            foreign=life.foreign,
            untracked=life.untracked,
            where=_where(life.where),
            saved_by=tuple(f"{self._label(what)} {slot}" for what, slot in life.saved_by),
            saved=life.saved,
            last_use=life.last_use,
            last_forward_use=life.forward_use,
            released=life.released,
            freed=life.death,
            freed_by="" if life.death is None else self._phase_text(life.freed_by),
            drag=drag,
            is_grad=life.is_grad,
            verdict="refcount" if life.death is not None else "",
        )

    def _name_of(self, serial: int) -> str:
        given = self._names.get(serial)
        if given:
            return given
        life = self._lives[serial]
        name = life.name
        if name == "tensor":
            return _assigned(life.where) or f"tensor {_where(life.where)}".strip()
        if isinstance(name, str):
            return name
        if name[0] == "existing":
            return f"tensor {name[1]}"
        if name[0] == "grad of leaf":
            return f"grad of {self._name_of(name[1])}"
        if name[0] in ("grad of", "made by", "kept by"):
            return f"{name[0]} {self._label(name[1])}" + (f".{name[2]}" if name[2] else "")
        if name[1] is None:
            return f"{name[0]} {_where(life.where)}".strip()
        return self._label(name) + (f".{life.output}" if life.output else "")

    def _label(self, what: Any) -> str:
        if what is None:
            return ""
        if isinstance(what, str):
            return what
        kind, number = what
        return str(kind) if number is None else label_of(kind, number, self._first)

    def _phase_text(self, phase: Any) -> str:
        when, what = phase
        return f"{when} {self._label(what)}".strip()

    def live_bytes(self) -> int:
        """Bytes that tensors own now beyond what they owned when the trace began.

        What was there before counts 0, and minus its size once it is gone. Foreign memory is left
        out.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     x = lm.ones(1000)
            >>> t.live_bytes()
            8000
        """
        total = 0
        for life in self._lives:
            if life.foreign or life.untracked:
                continue
            if life.existed:
                total -= life.nbytes if life.death is not None else 0
            elif life.death is None:
                total += life.nbytes
        return total

    def untracked_bytes(self) -> int:
        """Bytes of arrays alive now that a ctx keeps outside tensors: in its bag, or by name.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     y = lm.ones(3, requires_grad=True)[[0, 2]]  # its node keeps the index
            >>> t.untracked_bytes()
            16
        """
        return sum(
            life.nbytes
            for life in self._lives
            if life.untracked and life.death is None and not life.foreign
        )

    def arrays(self) -> dict[str, Callable[[], Any]]:
        """For each buffer name a weak reference to its memory; of equal names the latest counts.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     x = lm.ones(2, requires_grad=True)
            ...     y = x.exp()
            >>> {name: array() is not None for name, array in t.arrays().items()}
            {'x': True, 'exp#1': True}
        """
        return {self._name_of(n): ref or _gone for n, ref in enumerate(self._refs)}

    def curve(self) -> list[int]:
        """`live_bytes()` after each event.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     x = lm.ones(1000)
            ...     del x
            >>> t.curve()
            [8000, 0]
        """
        return self._curve(lambda life: life.death)

    def needed(self, by: str = "program") -> list[int]:
        """The least that would do, after each event: a buffer goes with the op that used it last.

        `by="program"`: every use that this run made of it. `by="algorithm"`: what forward read,
        what a node had saved and its rule read, and gradients; a value that backward reached in
        another way (a capture) is not needed beyond forward.
        Raises: ValueError for another `by`.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     y = lm.ones(1000)
            ...     z = y.exp()
            ...     z = z.exp()  # y is still there, and nobody reads it again
            >>> t.curve()[-1], t.needed()[-1]
            (16000, 8000)
        """
        if by not in ("program", "algorithm"):
            raise ValueError(f"needed(by=…) is 'program' or 'algorithm', not {by!r}")

        def death(life: _Life) -> int | None:
            if life.is_grad or life.existed:
                return life.death
            op = life.last_op
            if by == "algorithm" and self.boundary is not None and life.born < self.boundary:
                op = max(
                    o for o in (life.born_op, life.forward_op, life.unpack_op) if o is not None
                )
            over = self._op_starts[op + 1] if op + 1 < len(self._op_starts) else len(self._raw)
            return over if life.death is None else min(over, life.death)

        return self._curve(death)

    def _curve(self, death: Any) -> list[int]:
        change = [0] * (len(self._raw) + 2)
        for life in self._lives:
            if life.foreign or life.untracked:
                continue
            end = death(life)
            if not life.existed:
                change[life.born] += life.nbytes
            if end is not None:
                change[min(end, len(self._raw))] -= life.nbytes
        total, curve = 0, []
        for step in range(len(self._raw)):
            total += change[step]
            curve.append(total)
        return curve

    def peak(self) -> int:
        """The highest point of the curve, in bytes.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     _ = lm.ones(1000) + 1
            >>> t.peak()
            16008
        """
        return max(self.curve(), default=0)

    def drag(self) -> int:
        """Bytes x ops that buffers were held after their last use; gradients of leaves left out.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     y = lm.ones(1000)
            ...     z = y.exp()
            ...     z = z.exp()  # one op after the last use of y
            ...     del y
            >>> t.drag()
            8000
        """
        return sum(buffer.drag for buffer in self.buffers)

    def survivors(self) -> list[Buffer]:
        """The buffers born in the trace that are alive now, each with its verdict and who holds it.

        `cycle`: the collector can free it (a collection was run to see). `expected`: a plain
        variable or a `.grad` holds it. `outside`: something else does, and `holder` says what.

        Example:
            >>> x = lm.ones(1000, requires_grad=True)
            >>> with lm.lifetime.trace() as t:
            ...     y = x.exp()
            >>> [(b.name, b.nbytes, b.verdict) for b in t.survivors()]
            [('exp#1', 8000, 'expected')]
        """
        self._found.clear()
        before = [
            serial for serial, ref in enumerate(self._refs) if ref is not None and ref() is not None
        ]
        chains: dict[int, Chain | None] = {}
        cycles: dict[int, Chain] = {}
        for serial in before:
            if not self._lives[serial].existed:
                ref = self._refs[serial]
                array = None if ref is None else ref()
                if array is not None:
                    chains[serial] = why_alive_array(array)
                    if chains[serial] is None:  # no name leads to it: perhaps it holds itself
                        cycles[serial] = Chain(cycle_through(array), array.nbytes)
                del array
        gc.collect()
        for serial in before:
            if self._lives[serial].existed:
                continue
            buffer = self._buffer(serial)
            chain = chains.get(serial)
            ref = self._refs[serial]
            if ref is None or ref() is None:
                buffer.verdict = "cycle"
                chain = cycles.get(serial)
            elif buffer.is_grad or (chain is not None and chain.is_plain):
                buffer.verdict = "expected"
            else:
                buffer.verdict = "outside"
            if chain is not None:
                buffer.holder = chain.line
                buffer.holders = (chain,)
                if buffer.verdict == "cycle":
                    buffer.holder = "a cycle: " + " → ".join(hop.how for hop in chain.hops[1:])
            self._found[serial] = buffer
        return list(self._found.values())

    def __repr__(self) -> str:
        state = "running" if self._running else "ended"
        return (
            f"<trace, {state}: {self.end} events, {len(self._lives)} buffers, peak {self.peak()} "
            "B, "
            f"live {self.live_bytes()} B, drag {self.drag()} B x ops>"
        )


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


def _gone() -> None:
    """What a weak reference to a dead array gives."""


def _site() -> tuple[CodeType, int] | None:
    """The line of the user's program that asked for this."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_machinery(frame.f_globals):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lineno)


def _where(site: tuple[CodeType, int] | None) -> str:
    return "" if site is None else f"{file_of(site[0])}:{site[1]}"


def _assigned(site: tuple[CodeType, int] | None) -> str:
    """The variable that the line at `site` assigns to, "" where it is no plain assignment."""
    if site is None:
        return ""
    line = linecache.getline(site[0].co_filename, site[1])
    found = re.match(r"\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=[^=]", line)
    return found.group(1) if found else ""


def _fingerprint(array: Any) -> int:
    """A checksum of the elements."""
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def _array(g: Any) -> Any:
    return g._data if type(g) is Tensor else g
