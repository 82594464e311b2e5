"""trace: watch a piece of a PyTorch program as `lm.lifetime.trace` watches one of lucid_mini.

What it listens to, all of it without a reference that lasts:

    every op that reaches a kernel, in forward and backward    a TorchDispatchMode
    the death of memory                                        a weak reference to the storage
    the nodes of the graph, and what they saved                the graph above each result
    the pass that runs them                                    a pre-hook on each node
    the death of a node                                        a mark in `node.metadata`

Saved-tensor hooks are not used: under them PyTorch checks no versions. Saved slots are looked at
without being unpacked, so that no hook of the program runs and no check comes early.
"""

import functools
import gc
import itertools
import re
import sys
import warnings
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple, Self

from ..autograd.callsite import is_machinery
from ..lifetime.buffers import Buffer
from ..lifetime.edges import is_library
from ..lifetime.holders import Chain, name_of, search_all
from ..lifetime.record import Life, Record, Seen, assigned, where_of
from .installed import torch
from .internals import graph_task, keeps_graph, running_node, sequence_nr, warn_of_missing
from .nodes import (
    History,
    NodeLife,
    Save,
    SavedTable,
    history_from,
    role_of,
    slot_name,
    table_of,
)
from .objects import MARK, TORCH, grad_fn, nodes_of, saved_slots
from .unnamed import explain, is_cycle

#: How many traces there have been: each leaves marks of its own in the graph.
_traces = itertools.count()


#: PyTorch runs this op to save a result, when the node of the result is not complete yet. It reads
#: nothing, so it is no event.
_SAVING = "detach"
#: PyTorch runs this op on the value that torch.tensor was given.
_BIRTH = "lift_fresh"
#: The file through which every call of a module goes.
_MODULE_CALL = torch.nn.Module.__call__.__code__.co_filename


class Op:
    """One op that ran: a name until its node is known, then the node's label."""

    __slots__ = ("code", "inputs", "makes", "name", "node", "site")

    def __init__(self, name: str, inputs: list[int], site: Any, makes: bool) -> None:
        self.name = name
        self.node = ""
        self.inputs = inputs
        self.site = site
        self.makes = makes  # a constructor: its result is called by the variable

    def __str__(self) -> str:
        return self.node or self.name


class _Facts(NamedTuple):
    """What is asked of an op each time it runs."""

    name: str
    writes: tuple[int, ...]  # the places of the arguments that it writes into


@functools.lru_cache(maxsize=4096)
def _facts_of(func: Any) -> _Facts:
    schema = func._schema
    aliases = [argument.alias_info for argument in schema.arguments]
    writes = tuple(at for at, alias in enumerate(aliases) if alias and alias.is_write)
    return _Facts(schema.name.rpartition("::")[2].strip("_"), writes)


class _Running:
    """A node that a backward pass runs now."""

    __slots__ = ("in_use", "keeps", "life", "task")

    def __init__(self, life: NodeLife, task: int) -> None:
        self.life = life
        self.task = task
        self.keeps = keeps_graph()
        self.in_use: list[int] = []  # what the rule was handed and has read


class _Listener(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Hands every op that reaches a kernel to the trace, before and after."""

    def __init__(self, trace: "TorchTrace") -> None:
        super().__init__()
        self.trace = trace

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else PyTorch wraps the method below, and the wrapper's frame keeps arguments

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """What `torch.compile` computes while it compiles is not the program's."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func` unchanged."""
        op = self.trace.guarded(self.trace.starting, func, args, kwargs or {})
        try:
            result = func(*args, **(kwargs or {}))
        except BaseException as error:
            del args, kwargs  # the traceback keeps this frame, and those of PyTorch under it
            error.__traceback__ = _of_user(error.__traceback__)
            raise
        if op is not None:
            self.trace.guarded(self.trace.finished, op, func, args, result)
        return result


class _Tally:
    """Counts what a log would keep, where nobody reads the log."""

    def __init__(self) -> None:
        self.count = 0

    def append(self, _: Any) -> None:
        self.count += 1

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class TorchTrace(Record):
    """What `with lm.bridge.torch.trace() as t` gives: a record of a PyTorch program.

    The same events, buffers, sums and survivors as `lm.lifetime.trace`, for the same figures. A
    buffer is a storage. Not seen: what another thread does, and memory that a kernel takes and
    gives back. Listed as `foreign` and not counted: memory that no op made (`from_numpy`).
    """

    kind = TORCH
    made_by = "lm.bridge.torch.trace()"

    def __init__(self, *, log: bool = True) -> None:
        super().__init__()
        self._log = log
        if not log:
            for name in ("_raw", "_marks", "_op_starts"):
                setattr(self, name, _Tally())
        self._key = f"{MARK} {next(_traces)}"
        self._listener: Any = None
        self._before: dict[int, weakref.ref[Any]] = {}
        self._older = 0  # the sequence number at the start: nodes below were there before
        self._pending: list[tuple[weakref.ref[Any], Op]] = []
        self._nodes: dict[int, NodeLife] = {}
        self._met_nodes = self._labels = 0
        self._stack: list[_Running] = []  # the nodes at work: a pass may start another
        self._collecting = False
        self._now = self._most = 0  # bytes
        self._frames: list[tuple[CodeType, int]] = []  # where the program stood, outside of modules
        self._turn = 0  # how often it has gone back there: turns of its loops
        #: Above so many bytes the trace runs the collector, and again when they have doubled.
        self.ceiling: float = float("inf")
        #: By (what made it, line): how many buffers of graphs the collector freed, and their bytes.
        self.collected: dict[tuple[str, str], list[int]] = {}
        #: By (node, slot, role, line): the largest tensor saved there, and how many there were.
        self.saves: dict[tuple[str, str, str, str], list[int]] = {}
        #: What went wrong in the trace itself, which then listens no more.
        self.failure: Exception | None = None

    # -- on and off -------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        super().__enter__()
        warn_of_missing()
        self._before = dict(_storages())
        self._older = sequence_nr()
        gc.callbacks.append(self._on_collection)
        self._listener = _Listener(self)
        self._listener.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.__exit__(*error)
        self._listener = None
        self.guarded(self._look_around)
        gc.callbacks.remove(self._on_collection)
        for node in self._nodes.values():
            node.let_go()
        self._before.clear()
        super().__exit__(*error)

    def _on_collection(self, phase: str, _: Any) -> None:
        self._collecting = phase == "start"

    def guarded(self, listen: Any, *args: Any) -> Any:
        """Call `listen`; if the trace itself fails, the program goes on and the trace says so."""
        if self.failure is not None:
            return None
        try:
            return listen(*args)
        except Exception as error:
            self.failure = error.with_traceback(None)
            warnings.warn(
                f"the trace of lm.bridge.torch stopped at step {len(self._raw)} "
                f"({type(error).__name__}: {error}); the program goes on.",
                RuntimeWarning,
                stacklevel=2,
            )
            return None

    # -- ops --------------------------------------------------------------------------------------

    def starting(self, func: Any, args: Any, kwargs: Any) -> Op:
        """An op is about to run: what it reads is met before what it makes."""
        given = list(_tensors_in([*args, *kwargs.values()]))
        facts = _facts_of(func)
        if facts.name == _SAVING:
            self._met(given[0], None, None)
            return Op(_SAVING, [], None, False)
        self._catch_up(given)
        self._find_running()
        site = None if self._stack else self._stand()
        is_birth = facts.name == _BIRTH
        op = Op("tensor" if is_birth else facts.name, [], site, is_birth or not given)
        for tensor in given:
            serial = self._met(tensor, op if is_birth else None, site)
            if serial is not None:
                op.inputs.append(serial)
                if type(tensor) is torch.nn.Parameter:
                    self._ask_name(tensor, serial)
        if not self._stack:
            self._op += 1
            self._op_starts.append(len(self._raw))
        return op

    def _stand(self) -> tuple[CodeType, int] | None:
        """The line of the program that is at work; a way back to an earlier place is a new turn.

        Loops inside of a module are the module's own: an unrolled network makes no turn.
        """
        site, frames = _user_frames()
        for (code, at), (before, was) in zip(frames, self._frames, strict=False):
            if code is not before or at > was:
                break
            if at < was:
                self._turn += 1
                break
        self._frames = frames
        return site

    def finished(self, op: Op, func: Any, args: Any, result: Any) -> None:
        """An op ran: its results are buffers, or views of what it read."""
        running = self._stack[-1] if self._stack else None
        what: Any = op if running is None else running.life
        recorded = torch.is_grad_enabled()
        for number, tensor in enumerate(_tensors_in([result])):
            if self._owner(tensor) is None:
                continue
            name: Any = (
                (op, number) if running is None or recorded else ("made by", running.life, 0)
            )
            self._alloc(tensor, name, what, op.site)
            if running is None or recorded:
                self._pending.append((weakref.ref(tensor), op))
        for serial in op.inputs:
            if running is not None:
                self._read(serial, running)
            self._use(serial, what, op.site)
        for at in _facts_of(func).writes:
            self._note_writes(args[at : at + 1], op)

    def _read(self, serial: int, running: _Running) -> None:
        running.in_use.append(serial)
        if any(save.serial == serial for save in running.life.saves):
            self._lives[serial].unpack_op = self._op
            self._raw.append(("unpack", running.life, serial, None))

    def _note_writes(self, written: Any, op: Op) -> None:
        for tensor in _tensors_in(written):
            serial = self._by_id.get(id(self._owner(tensor)))
            if serial is not None:
                self._raw.append(("write", op, serial, op.site))

    def _met(self, tensor: Any, birth: Op | None, site: Any) -> int | None:
        """The number of the buffer under an argument, None if it has no memory.

        What was not seen before was there before the trace, or was made where no op is.
        """
        storage = self._owner(tensor)
        if storage is None:
            return None
        serial = self._by_id.get(id(storage))
        if serial is not None:
            return serial
        if birth is not None:
            return self._alloc(tensor, (birth, 0), birth, site)
        before = self._before.get(id(storage))
        if before is not None and before() is storage:
            return self._serial_of(tensor, site)
        serial = self._register(storage, ("existing", tuple(tensor.shape)), len(self._raw), site)
        self._lives[serial].foreign = True
        self._names[serial] = name_of(tensor, TORCH) or ""
        self._raw.append(("alloc", None, serial, site))
        return serial

    def _alloc(self, data: Any, name: Any, what: Any, where: Any) -> int:
        known = len(self._lives)
        serial = super()._alloc(data, name, what, where)
        if serial == known and not self._lives[serial].foreign:
            self._now += self._lives[serial].nbytes
            self._most = max(self._most, self._now)
            if self._now > self.ceiling:
                gc.collect()
                self.ceiling = max(self.ceiling, 2 * self._now)
        return serial

    def _died(self, ref: Any) -> None:
        running = self._running
        if running:
            self.guarded(self._before_death, ref.serial)
        super()._died(ref)
        if running and not self._log:
            self._lives[ref.serial] = _GONE
            self._names.pop(ref.serial, None)

    def _before_death(self, serial: int) -> None:
        """What dies with a node's saved tensors, or after the pass, dies when the node is over."""
        life = self._lives[serial]
        if not life.foreign and not life.existed:
            self._now -= life.nbytes
        self._end_passes()
        if self._collecting:
            self._phase = ("the collector", None)
            if life.saved_by or (isinstance(life.name[0], Op) and life.name[0].node):
                made = self._name_of(serial), where_of(life.where)
                entry = self.collected.setdefault((re.sub(r"#\d+", "", made[0]), made[1]), [0, 0])
                entry[0] += 1
                entry[1] += life.nbytes
        elif self._stack and not self._stack[-1].keeps:
            running = self._stack[-1]
            if any(save.serial == serial for save in running.life.saves):
                self._finish(running)

    # -- the graph --------------------------------------------------------------------------------

    def _find_running(self) -> None:
        """Enter the node that backward runs, if it was made before the trace: no pre-hook told."""
        task = graph_task()
        if task >= 0 and (not self._stack or self._stack[-1].task != task):
            node = running_node()
            if node is not None:
                self._enter(self._life_of(node), task, ())

    def _look_around(self) -> None:
        """Meet the nodes of results that no op has read yet: a custom Function's, for example."""
        self._catch_up([t for t in _tensors() if self._is_new(t)])

    def _is_new(self, tensor: Any) -> bool:
        serial = self._by_id.get(id(self._owner(tensor)))
        return serial is not None and not self._lives[serial].existed

    def _catch_up(self, given: list[Any] | None = None) -> None:
        """See that a pass has ended, and the nodes behind new results and behind `given`."""
        self._end_passes()
        results: list[tuple[Any, Op | None]] = [(ref(), op) for ref, op in self._pending]
        self._pending.clear()
        results += [(tensor, self._maker_of(tensor)) for tensor in given or ()]
        heads: dict[int, tuple[Any, list[Any], Op | None]] = {}
        for tensor, op in results:
            node = None if tensor is None else grad_fn(tensor)
            if node is not None:
                heads.setdefault(id(node), (node, [], op))[1].append(tensor)
        for node, _, op in list(heads.values()):
            self._meet(node, heads)
            life = self._life_of(node)
            if op is not None and not op.node:
                op.node = life.label
                life.where = life.where or op.site
        self._phase_after(heads)

    def _phase_after(self, heads: dict[int, tuple[Any, list[Any], Op | None]]) -> None:
        for node, _, op in heads.values():
            if op is not None and not self._stack:
                self._phase = ("the caller, after", self._life_of(node))

    def _maker_of(self, tensor: Any) -> Op | None:
        """The op that made the memory of what a custom Function returned."""
        if getattr(type(grad_fn(tensor)), "_forward_cls", None) is None:
            return None
        serial = self._by_id.get(id(self._owner(tensor)))
        name = None if serial is None else self._lives[serial].name
        return name[0] if isinstance(name, tuple) and isinstance(name[0], Op) else None

    def _life_of(self, node: Any) -> NodeLife:
        """What is known of a node; it is met now if it is new."""
        if self._key not in node.metadata:
            self._meet(node, {})
        return self._nodes[node.metadata[self._key].number]

    def _meet(self, root: Any, heads: dict[int, Any]) -> None:
        """Note every node of the graph under `root` that is new, in the order of their making."""
        fresh, pending = {}, [root]
        while pending:
            node = pending.pop()
            if id(node) in fresh or self._key in node.metadata:
                continue
            fresh[id(node)] = node
            pending += [upstream for upstream, _ in node.next_functions if upstream is not None]
        for node in sorted(fresh.values(), key=sequence_nr):
            self._note(node, *heads.get(id(node), (node, [], None))[1:])

    def _note(self, node: Any, outputs: list[Any], op: Op | None) -> None:
        self._met_nodes += 1
        number = self._met_nodes
        is_leaf = hasattr(node, "variable")
        self._labels += not is_leaf
        life = NodeLife(number, self._labels, node, sequence_nr(node) < self._older)
        life.turn = self._turn
        self._nodes[number] = life
        me = weakref.ref(self)
        life.watch(
            node,
            self._key,
            functools.partial(_node_died, me, number),
            functools.partial(_node_runs, me, number),
        )
        if op is not None and not op.node:
            op.node, life.where = life.label, op.site
        if is_leaf:
            return
        if not life.existed and not self._stack:
            self._marks.append((len(self._raw), "F", life))
        self._note_saves(node, life, outputs, op)

    def _note_saves(self, node: Any, life: NodeLife, outputs: list[Any], op: Op | None) -> None:
        for slot in saved_slots(node):
            for tensor in _tensors_in([slot.value]):
                storage = self._owner(tensor)
                if storage is None:
                    continue
                serial = self._by_id.get(id(storage))
                if serial is None and life.existed:
                    serial = self._serial_of(tensor, None)
                elif serial is None:  # a number, as in `x * 2`, or what a kernel put aside
                    name = f"constant of {life}" if not tensor.dim() else ("made by", life, 0)
                    serial = self._alloc(tensor, name, life, life.where)
                buffer = self._lives[serial]
                is_input = self._is_input(node, buffer, serial, op)
                role = role_of(node, tensor, outputs, is_input)
                if slot.packed:
                    role += ", packed"
                called = slot_name(node, slot, tensor, role)
                shape = tuple(tensor.shape)
                life.saves.append(Save(serial, called, role, shape, buffer.nbytes))
                if buffer.saved is None:
                    buffer.saved = len(self._raw)
                buffer.released = None
                # Without a log the last is enough: a parameter is saved again in every step.
                before = buffer.saved_by if self._log else ()
                buffer.saved_by = (*before, (life, called))
                self._raw.append(("save", life, serial, life.where))
                self._tally(life, called, role, buffer.nbytes)

    def _is_input(self, node: Any, buffer: Life, serial: int, op: Op | None) -> bool:
        """Whether the op was handed this buffer: of a custom Function, whether forward made it."""
        function = getattr(type(node), "_forward_cls", None)
        if function is None:
            return op is not None and serial in op.inputs
        code = function.forward.__code__
        return buffer.where is None or buffer.where[0] is not code

    def _tally(self, life: NodeLife, slot: str, role: str, nbytes: int) -> None:
        entry = self.saves.setdefault((life.name, slot, role, where_of(life.where)), [0, 0])
        entry[0] = max(entry[0], nbytes)
        entry[1] += 1

    def node_died(self, number: int) -> None:
        """A node is gone, and with it what it had saved."""
        life = self._nodes.get(number)
        if life is not None:
            life.gone = True
            if not self._log:
                del self._nodes[number]

    # -- backward ---------------------------------------------------------------------------------

    def node_runs(self, number: int, grads: tuple[Any, ...]) -> None:
        """Backward is about to run a node with its complete gradients."""
        if self._running and number in self._nodes:
            self._catch_up()
            self._enter(self._nodes[number], graph_task(), grads)

    def _enter(self, life: NodeLife, task: int, grads: tuple[Any, ...]) -> None:
        # A pass inside of a pass has a higher number, and its nodes run before the outer one ends.
        while self._stack and self._stack[-1].task >= task:
            self._finish(self._stack[-1])
        running = _Running(life, task)
        if life.first_pass is None:
            life.first_pass = task
        if self.boundary is None:
            self.boundary = len(self._raw)
        self._stack.append(running)
        leaf = None if life.leaf is None else life.leaf()
        if life.leaf is None:
            self._op += 1
            self._op_starts.append(len(self._raw))
        for number, grad in enumerate(grads):
            if isinstance(grad, torch.Tensor):
                serial = self._met(grad, None, None)
                if serial is not None:
                    self._name_grad(serial, self._grad_name(life, leaf, number))
                    self._use(serial, life, None)
                    running.in_use.append(serial)
        self._phase = ("during", life)

    def _grad_name(self, life: NodeLife, leaf: Any, number: int) -> Any:
        if leaf is None:
            return ("grad of", life, number)
        serial = self._met(leaf, None, None)
        if serial is None:
            return "grad of a leaf"
        self._ask_name(leaf, serial)
        return ("grad of leaf", serial)

    def _ask_name(self, tensor: Any, serial: int) -> None:
        """Call a leaf as the program does, once: by variable, or by its place in a model."""
        if serial not in self._names:
            self._names[serial] = name_of(tensor, TORCH) or ""

    def _name_grad(self, serial: int, name: Any) -> None:
        """Name a gradient by whom it is for, unless it has a better name."""
        life = self._lives[serial]
        made = life.name
        is_seed = isinstance(made[0], Op) and made[0].name == "ones_like"
        if made[0] == "made by" or is_seed or name[0] == "grad of leaf":
            life.name = name

    def _end_passes(self) -> None:
        """Finish the nodes of passes that are over."""
        if not self._stack:
            return
        task = graph_task()
        while self._stack and self._stack[-1].task > task:
            self._finish(self._stack[-1])
        if not self._stack:
            self._phase = ("the caller, after backward", None)

    def _finish(self, running: _Running) -> None:
        """A node has run: what its rule read was needed until now."""
        self._stack.remove(running)
        life = running.life
        for serial in running.in_use:
            self._lives[serial].last_use = len(self._raw)
        if life.leaf is not None:
            self._accumulated(life)
        else:
            self._raw.append(("run", life, -1, None))
            self._marks.append((len(self._raw), "B", life))
            if not running.keeps and not life.released:
                life.released = True
                for save in life.saves:
                    self._lives[save.serial].released = len(self._raw)
                    self._raw.append(("release", life, save.serial, None))
        self._phase = ("engine after", life)

    def _accumulated(self, life: NodeLife) -> None:
        """A leaf was given its gradient."""
        leaf = None if life.leaf is None else life.leaf()
        grad = None if leaf is None else leaf.grad
        if grad is None or self._owner(grad) is None:
            return
        serial = self._alloc(grad, self._grad_name(life, leaf, 0), None, None)
        self._lives[serial].is_grad = True
        self._name_grad(serial, self._grad_name(life, leaf, 0))
        self._touch(serial)
        self._raw.append(("accumulate", None, serial, None))

    # -- what it shows ----------------------------------------------------------------------------

    def _label(self, what: Any) -> str:
        return "" if what is None else str(what)

    def _name_of(self, serial: int) -> str:
        life = self._lives[serial]
        name = life.name
        if self._names.get(serial) or not isinstance(name, tuple) or not isinstance(name[0], Op):
            return super()._name_of(serial)
        op, number = name
        if op.node:
            return f"{op.node} out" + (f".{number}" if number else "")
        variable = assigned(life.where) if op.makes else ""
        return variable or f"{op.name} {where_of(life.where)}".strip()

    def saved(self) -> SavedTable:
        """Every saved tensor of every node: slot, role, bytes, buffer, and whether it is held.

        Example:
            >>> import torch
            >>> with lm.bridge.torch.trace() as t:
            ...     y = torch.ones(1000, requires_grad=True).exp()
            >>> [(row.node, row.slot, row.role, row.nbytes, row.state) for row in t.saved()]
            [('ExpBackward0#1', 'result', 'output', 4000, 'held')]
        """
        return table_of(self._nodes.values(), self._name_of, self._alive)

    @property
    def nodes(self) -> list[NodeLife]:
        """The nodes that were met, those at the end of a graph left out."""
        return [node for node in self._nodes.values() if node.leaf is None]

    def history_of(self, x: Any) -> History | None:
        """What the history of a tensor holds, None for what is none or has none."""
        node = grad_fn(x) if isinstance(x, torch.Tensor) else None
        return None if node is None else history_from(nodes_of(node), self.life_of)

    def life_of(self, node: Any) -> NodeLife | None:
        """What is known of a node, None if the trace did not meet it."""
        mark = node.metadata.get(self._key)
        return None if mark is None else self._nodes.get(mark.number)

    def _curve(self, death: Any) -> list[int]:
        return super()._curve(death) if self._log else []

    def peak(self) -> int:
        """The highest point of the curve, in bytes."""
        return super().peak() if self._log else self._most

    def survivors(self) -> list[Buffer]:
        """The buffers born in the trace that are alive now, each with its verdict and its holder.

        As `Trace.survivors`, and one kind more of `outside`: what no name leads to and the
        collector does not free, because C++ holds it. Its holder says what Python can see of it.
        """
        return super().survivors()

    def look(self) -> Seen:
        """The first half of `survivors()`: nodes that no op has read yet are met before."""
        if self._running:
            self.guarded(self._look_around)
        return super().look()

    def _is_expected(self, buffer: Buffer, chain: Chain | None) -> bool:
        return chain is not None and chain.is_plain

    def _holders_of(self, serials: list[int]) -> tuple[dict[int, Chain], dict[int, Chain]]:
        storages = {n: ref() for n in serials if (ref := self._refs[n]) is not None}
        search = search_all(list(storages.values()), sys._getframe(1))
        named, lost = {}, {}
        for serial, storage in storages.items():
            chain = search.chain(storage)
            if chain is None:
                lost[serial] = storage
            else:
                named[serial] = chain
        sites = {n: (str(self._lives[n].name), where_of(self._lives[n].where)) for n in lost}
        return named, explain(lost, sites, search)

    def _tell_unnamed(self, buffer: Buffer, chain: Chain | None) -> None:
        if chain is None or not chain.hops:
            saved = f", saved as {buffer.saved_by[-1]}" if buffer.saved_by else ""
            buffer.holder = f"C++ alone: no name leads to it, no collection frees it{saved}"
        elif is_cycle(chain):
            buffer.holder = f"{chain.around}, which passes through C++: no collection frees it"
            buffer.holders = (chain,)
        else:
            buffer.holder = f"{chain.line}, held by C++ alone"
            buffer.holders = (chain,)


def trace(*, log: bool = True) -> TorchTrace:
    """Record what happens to memory in the block: `with lm.bridge.torch.trace() as t: ...`.

    What it gives is drawn by `lm.draw.timeline(t)` and `lm.draw.memory(t)`; `t.survivors()` says
    what is still alive and who holds it, `t.saved()` what each node saved.
    `log=False`: for a long program. What is gone is forgotten; events, marks and curves are empty,
    and the rest stands.

    Keeps: names, numbers and weak references; no object of the program. Changes no result and no
    error, and runs no hook of the program. Costs: a Python call for each op and each node.
    Raises: ImportError where PyTorch is missing.

    Example:
        >>> import torch
        >>> x = torch.ones(1000, requires_grad=True)
        >>> with lm.bridge.torch.trace() as t:
        ...     x.exp().sum().backward()
        >>> [(b.name, b.nbytes, b.freed_by) for b in t.buffers if b.saved_by]
        [('ExpBackward0#1 out', 4000, 'engine after ExpBackward0#1')]
    """
    return TorchTrace(log=log)


#: Stands for buffers that are gone, where no log is kept.
_GONE = Life("gone", 0, 0, 0, None)
_GONE.existed = _GONE.foreign = True


def _node_died(trace: "weakref.ref[TorchTrace]", number: int, _: Any) -> None:
    me = trace()
    if me is not None:
        me.node_died(number)


def _node_runs(trace: "weakref.ref[TorchTrace]", number: int, grads: tuple[Any, ...]) -> None:
    me = trace()
    if me is not None:
        me.guarded(me.node_runs, number, grads)


def _of_user(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback below this module: None where no line of the user is in it."""
    below = trace.tb_next if trace is not None else None
    step = below
    while step is not None:
        if not _is_library(step.tb_frame.f_code.co_filename):
            return below
        step = step.tb_next
    return None


def _tensors_in(items: Any) -> Iterator[Any]:
    """The tensors among `items`, and in lists and tuples among them."""
    for item in items:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, list | tuple):
            yield from _tensors_in(item)


def _tensors() -> Iterator[Any]:
    """The tensors that Python knows of now."""
    for item in gc.get_objects():
        if issubclass(type(item), torch.Tensor):
            yield item


def _storages() -> Iterator[tuple[int, Any]]:
    """The storages of all tensors that Python knows of now, by id, as weak references."""
    for item in _tensors():
        grad = item.grad if item.is_leaf else None
        for tensor in (item, grad):
            storage = None if tensor is None else TORCH.owner(tensor)
            if storage is not None:
                yield id(storage), weakref.ref(storage)


def _user_frames() -> tuple[tuple[CodeType, int] | None, list[tuple[CodeType, int]]]:
    """The user's line that asked for this; and where the user's frames stand, outermost first.

    Frames inside of a module that was called are left out of the second.
    """
    frame: FrameType | None = sys._getframe(2)
    site = None
    frames: list[tuple[CodeType, int]] = []
    while frame is not None:
        code = frame.f_code
        if _is_library(code.co_filename):
            if code.co_filename == _MODULE_CALL:
                frames.clear()
        elif not is_machinery(frame.f_globals):
            site = site or (code, frame.f_lineno)
            frames.append((code, frame.f_lasti))
        frame = frame.f_back
    frames.reverse()
    return site, frames


@functools.lru_cache(maxsize=1024)
def _is_library(path: str) -> bool:
    return path.startswith("<frozen") or is_library(path)
