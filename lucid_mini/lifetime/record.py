"""Record: what a trace knows of buffers and events, and the sums it draws from them.

It keeps nothing of the program alive: it stores names, numbers, and a weak reference to each
*owner* of memory (on a view the callback would come when the view dies, long before the memory).
Its clock counts events, so two runs give the same log. Who calls `_alloc` and `_use` is another
matter: `trace` listens to lucid_mini's stack, a bridge to another library.
"""

import gc
import linecache
import re
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple, Self

from ..autograd.callsite import file_of, is_machinery
from ..autograd.node import first_number, label_of
from ..events import Event
from . import holders
from .buffers import Buffer
from .cycles import cycle_through
from .holders import Chain, name_of, why_alive_array
from .kinds import OWN, Kind


class _Ref(weakref.ref[Any]):
    """A weak reference that knows which buffer it stands for, and under which id that is found."""

    __slots__ = ("key", "serial")

    serial: int
    key: int


#: An event as it is recorded; texts are made when somebody reads them. Kind; node: (kind, sequence
#: number), a text, or None; number of the buffer, -1 for none; the line that asked for it. A plain
#: tuple is made in a third of the time of a named one.
Raw = tuple[str, Any, int, tuple[CodeType, int] | None]


class Life:
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


class Seen(NamedTuple):
    """What was alive before a collection: buffers, and the chains and cycles that hold them."""

    serials: list[int]
    named: dict[int, Chain]
    unnamed: dict[int, Chain]


class Record:
    """Events, buffers, and sums over them."""

    #: Whose tensors these are.
    kind: Kind = OWN
    #: How a user makes one.
    made_by = "lm.lifetime.trace()"

    def __init__(self) -> None:
        self.title = ""
        #: The step at which the first backward node ran, None if none did.
        self.boundary: int | None = None
        #: `(step, "F matmul#1")` for each op that finished, `"B …"` for each node that ran.
        self._marks: list[tuple[int, str, Any]] = []
        self._raw: list[Raw] = []
        self._lives: list[Life] = []
        self._refs: list[_Ref | None] = []
        self._by_id: dict[int, int] = {}
        self._op = 0  # counts ops of forward and nodes of backward: the clock of drag
        self._op_starts = [0]  # the first step of each
        self._phase: Any = ("the caller", None)
        self._first = first_number()
        self._running = False
        self._owner = self.kind.owner
        self._in_use: list[int] = []  # what the running rule was handed and has read
        self._names: dict[int, str] = {}
        self._found: dict[int, Buffer] = {}  # what the last survivors() said

    def __enter__(self) -> Self:
        if self._running:
            raise RuntimeError(f"this trace is running already; make another with {self.made_by}")
        holders.last_trace = weakref.ref(self)
        self._first = first_number()  # labels stay what they are now
        self._running = True
        return self

    def __exit__(self, *_: object) -> None:
        self._running = False

    def name(self, **tensors: Any) -> None:
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
            self._names[self._serial_of(self.kind.data(tensor), None)] = name

    def mark(self, text: str) -> None:
        """Put a mark of your own on the clock, such as `"SGD"`.

        Example:
            >>> with lm.lifetime.trace() as t:
            ...     t.mark("SGD")
            >>> t.marks
            [(0, 'SGD')]
        """
        self._marks.append((len(self._raw), text, None))

    # -- the registry -----------------------------------------------------------------------------

    def _serial_of(self, data: Any, where: Any, what: Any = None) -> int:
        """The number of the buffer under `data`; one never seen was there before the trace."""
        array = self._owner(data)
        serial = self._by_id.get(id(array))
        if serial is not None:
            return serial
        serial = self._register(array, ("existing", self.kind.shape(data)), 0, where)
        life = self._lives[serial]
        life.existed = what is None
        if what is None:
            self._names[serial] = name_of(data, self.kind) or ""
        else:
            # Saved, and neither an argument nor an output: forward made it on the way.
            life.name = ("made by", what, 0)
            life.born = len(self._raw)
            self._raw.append(("alloc", what, serial, where))
        return serial

    def _alloc(self, data: Any, name: Any, what: Any, where: Any) -> int:
        """The number of the buffer under `data`, which has just been made if it is not known."""
        array = self._owner(data)
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
        nbytes = self.kind.nbytes(array) or self.kind.empty
        life = Life(name, nbytes, born, self._op, where)
        if self.kind.is_foreign(array):
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
                where_of(where),
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
            where=where_of(life.where),
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
            return assigned(life.where) or f"tensor {where_of(life.where)}".strip()
        if isinstance(name, str):
            return name
        if name[0] == "existing":
            return f"tensor {name[1]}"
        if name[0] == "grad of leaf":
            return f"grad of {self._name_of(name[1])}"
        if name[0] in ("grad of", "made by", "kept by"):
            return f"{name[0]} {self._label(name[1])}" + (f".{name[2]}" if name[2] else "")
        if name[1] is None:
            return f"{name[0]} {where_of(life.where)}".strip()
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

        def death(life: Life) -> int | None:
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
        seen = self.look()
        gc.collect()
        return self.judge(seen)

    def look(self) -> Seen:
        """The first half of `survivors()`, before a collection: what is alive, and who holds it."""
        before = [n for n, life in enumerate(self._lives) if not life.existed and self._alive(n)]
        automatic = gc.isenabled()
        gc.disable()  # a collection on the way would take a cycle from under the search
        try:
            return Seen(before, *self._holders_of(before))
        finally:
            if automatic:
                gc.enable()

    def judge(self, seen: Seen) -> list[Buffer]:
        """The second half, after a collection: the verdicts."""
        self._found.clear()
        before, named, unnamed = seen
        for serial in before:
            buffer = self._buffer(serial)
            chain = named.get(serial)
            if not self._alive(serial):
                buffer.verdict = "cycle"
                chain = unnamed.get(serial)
            elif self._is_expected(buffer, chain):
                buffer.verdict = "expected"
            else:
                buffer.verdict = "outside"
            if chain is not None:
                buffer.holder = chain.line
                buffer.holders = (chain,)
                if buffer.verdict == "cycle":
                    buffer.holder = chain.around if chain.hops else "a cycle that hides its members"
            elif buffer.verdict == "outside":
                self._tell_unnamed(buffer, unnamed.get(serial))
            self._found[serial] = buffer
        return list(self._found.values())

    def _is_expected(self, buffer: Buffer, chain: Chain | None) -> bool:
        """Whether a buffer is held as a program holds what it works with."""
        return buffer.is_grad or (chain is not None and chain.is_plain)

    def _alive(self, serial: int) -> bool:
        ref = self._refs[serial]
        return ref is not None and ref() is not None

    def _holders_of(self, serials: list[int]) -> tuple[dict[int, Chain], dict[int, Chain]]:
        """By buffer the chain from a name, and for the others the cycle that holds them."""
        named: dict[int, Chain] = {}
        unnamed: dict[int, Chain] = {}
        for serial in serials:
            ref = self._refs[serial]
            array = None if ref is None else ref()
            if array is not None:
                chain = why_alive_array(array)
                if chain is not None:
                    named[serial] = chain
                if chain is None or not chain.hops:  # no name was found: perhaps it holds itself
                    unnamed[serial] = Chain(cycle_through(array), self.kind.nbytes(array))
            del array
        return named, unnamed

    def _tell_unnamed(self, buffer: Buffer, chain: Chain | None) -> None:
        """Say of a buffer that no name leads to, and that a collection did not free, who holds it.

        Nothing, here: what holds it is hidden in a C extension.
        """

    def __repr__(self) -> str:
        state = "running" if self._running else "ended"
        return (
            f"<trace, {state}: {self.end} events, {len(self._lives)} buffers, peak {self.peak()} "
            "B, "
            f"live {self.live_bytes()} B, drag {self.drag()} B x ops>"
        )


def _gone() -> None:
    """What a weak reference to a dead array gives."""


def site() -> tuple[CodeType, int] | None:
    """The line of the user's program that asked for this."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_machinery(frame.f_globals):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lineno)


def where_of(site: tuple[CodeType, int] | None) -> str:
    """`file:line` of a site, "" for none."""
    return "" if site is None else f"{file_of(site[0])}:{site[1]}"


def assigned(site: tuple[CodeType, int] | None) -> str:
    """The variable that the line at `site` assigns to, "" where it is no plain assignment."""
    if site is None:
        return ""
    line = linecache.getline(site[0].co_filename, site[1])
    found = re.match(r"\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=[^=]", line)
    return found.group(1) if found else ""
