"""A backward pass as a film: one frame per step, in names and numbers.

What waits, what flows and what is let go of, copied out of `lm.autograd.steps`. Keeps no tensor.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lucid_mini.autograd.dump import read, row_name, shape_text
from lucid_mini.autograd.passes import steps
from lucid_mini.draw import style

LONGEST_NAME = 22
_MOST_LISTED = 4


class Gradient(NamedTuple):
    """A gradient at the element `at` (a node or a leaf), for its output `output_nr`."""

    at: str
    output_nr: int
    shape: str
    nbytes: int


class Release(NamedTuple):
    """A buffer that a node lets go of. `fate`: `freed`, or who in the graph keeps it still."""

    name: str
    shape: str
    nbytes: int
    fate: str


class Frame(NamedTuple):
    """One step. `kind`: `start` (nothing has run), `run` (`node` runs), `end` (`.grad` is written).

    `carried`: which edges of the film a gradient went along. `ready`: the nodes that have a
    gradient, in the order they will run, each with the number of consumers that have yet to
    deliver. `waits`: that number for every node that will run. `flight`: the gradients that exist
    after the step. `released`: bytes let go of, as `lm.autograd.steps` counts them; `freed` of them
    died, for nothing else in the graph keeps them.
    """

    kind: str
    node: str
    grads_in: tuple[Gradient | None, ...]
    grads_out: tuple[Gradient | None, ...]
    carried: tuple[int, ...]
    ready: tuple[tuple[str, int], ...]
    waits: dict[str, int]
    flight: tuple[Gradient, ...]
    releases: tuple[Release, ...]
    released: int
    freed: int
    saved: int

    @property
    def gradients(self) -> int:
        """Bytes of the gradients that exist after the step, each counted by itself."""
        return sum(gradient.nbytes for gradient in self.flight)

    @property
    def total(self) -> int:
        """Saved bytes and gradients together."""
        return self.saved + self.gradients


@dataclass(frozen=True)
class Film:
    """A whole pass, in names and numbers. An edge leads from who used a value to who made it."""

    title: str
    nodes: tuple[str, ...]
    leaves: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    #: What stands in the second line of a box.
    notes: dict[str, str]
    #: Bytes that each node saves; 0 for a leaf.
    saves: dict[str, int]
    outputs: dict[str, int]
    frames: tuple[Frame, ...]

    @property
    def peak(self) -> tuple[int, int]:
        """The most bytes at once, and the first step with them."""
        totals = [frame.total for frame in self.frames]
        return max(totals), totals.index(max(totals))

    def words(self, at: int) -> str:
        """Frame `at` in one sentence: what the status line says."""
        return _sentence(self, at)

    def heading(self, at: int) -> str:
        """Frame `at` in few words."""
        frame, last = self.frames[at], len(self.frames) - 1
        what = {"start": "start", "end": "leaves get .grad"}.get(frame.kind, frame.node)
        return f"step {at} of {last}: {what}"


# ---------------------------------------------------------------- facts


def watch(tensor: Any, gradient: Any, names: Mapping[str, Any] | None) -> Film:
    """Run the pass, and copy what happens."""
    running = steps(tensor, gradient, retain_graph=True)  # refuses what cannot start a pass
    graph = read(tensor, names, "stepper")
    nodes = tuple(node["name"] for node in graph["nodes"])
    leaves = tuple(leaf["name"] for leaf in graph["leaves"])
    frames = tuple(_Recorder(graph).frames(running if nodes else iter(())))
    start = graph["start"]["tensor"] or graph["start"]["name"]
    notes = {leaf["name"]: shape_text(leaf["shape"]) for leaf in graph["leaves"]}
    saves = dict.fromkeys(leaves, 0)
    for node in graph["nodes"]:
        saves[node["name"]] = sum(_released(node).values())
        notes[node["name"]] = _saves(saves[node["name"]])
    return Film(
        f"Backward from {start}, step by step",
        nodes,
        leaves,
        tuple((edge["from"], edge["to"]) for edge in graph["edges"]),
        notes,
        saves,
        {node["name"]: len(node["outputs"]) for node in graph["nodes"]},
        frames,
    )


def _saves(nbytes: int) -> str:
    return f"saved {style.format_bytes(nbytes)}" if nbytes else "saves nothing"


def _released(node: dict[str, Any]) -> dict[str, int]:
    """The buffers that a node lets go of when it has run; the bag of its ctx is not emptied."""
    return {
        row["buffer"]: row["owner_nbytes"]
        for row in node["saved"]
        if row["buffer"] and row["role"] not in ("attribute", "object", "packed")
    }


class _Recorder:
    """Follows a pass: who waits for whom, what is pending, what is still saved."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self.graph = graph
        self.nodes = {node["name"]: node for node in graph["nodes"]}
        self.outputs = {
            leaf["name"]: [{"shape": leaf["shape"], "dtype": leaf["dtype"]}]
            for leaf in graph["leaves"]
        } | {name: node["outputs"] for name, node in self.nodes.items()}
        self.edges: dict[str, list[dict[str, Any]]] = {name: [] for name in self.outputs}
        for edge in graph["edges"]:
            self.edges[edge["from"]].append(edge)
        self.numbers = {id(edge): number for number, edge in enumerate(graph["edges"])}
        self.owned = {leaf["buffer"]: leaf["name"] for leaf in graph["leaves"] if leaf["buffer"]}
        self.saved = {name: _released(node) for name, node in self.nodes.items()}
        self.pending: dict[tuple[str, int], Gradient] = {}

    def frames(self, running: Iterator[Any]) -> Iterator[Frame]:
        """The start, a frame per step of `running`, the end. No `.grad` is written."""
        start = self.graph["start"]
        self._deliver(start["name"], start["output_nr"])
        first = start["name"] if self.nodes else ""
        yield self._frame("start", "", ((first, 0),) if first else ())
        while first:
            step = next(running)
            yield self._run(step)
            if not step.ready:
                break
        # After the last node the leaves are written; what is left of the pass is dropped instead.
        close = getattr(running, "close", None)
        if close is not None:
            close()
        for leaf in self.graph["leaves"]:
            if not leaf["alive"]:
                self.pending.pop((leaf["name"], 0), None)
        yield self._frame("end", "", ())

    def _run(self, step: Any) -> Frame:
        name = style.clean(step.node.label)
        arrived = tuple(
            self.pending.pop((name, number), None) for number in range(len(self.outputs[name]))
        )
        edges = iter(self.edges[name])
        sent: list[Gradient | None] = []
        carried = []
        for upstream, grad in zip(step.node.next_edges, step.grads_out, strict=True):
            edge = next(edges) if upstream.node else None
            if grad is None or edge is None:
                sent.append(None)
            else:
                sent.append(self._deliver(edge["to"], edge["output_nr"]))
                carried.append(self.numbers[id(edge)])
        mine = self.saved.pop(name)
        releases = tuple(self._release(name, badge, nbytes) for badge, nbytes in mine.items())
        ready = tuple((style.clean(label), step.counts[label]) for label in step.ready)
        return self._frame("run", name, ready, arrived, tuple(sent), tuple(carried), releases)

    def _deliver(self, name: str, output_nr: int) -> Gradient:
        """One gradient per output: what arrives later is added to it."""
        output = self.outputs[name][output_nr]
        nbytes = math.prod(output["shape"]) * np.dtype(output["dtype"]).itemsize
        gradient = Gradient(name, output_nr, shape_text(output["shape"]), nbytes)
        self.pending[name, output_nr] = gradient
        return gradient

    def _release(self, name: str, badge: str, nbytes: int) -> Release:
        row = next(row for row in self.nodes[name]["saved"] if row["buffer"] == badge)
        fate = "freed"
        keepers = [other for other, buffers in self.saved.items() if badge in buffers]
        if badge in self.owned:
            fate = f"stays: it is the leaf {self.owned[badge]}"
        elif keepers:
            fate = f"stays: {keepers[-1]} has saved it, too"
        return Release(row_name(row), shape_text(row["shape"]), nbytes, fate)

    def _frame(
        self,
        kind: str,
        node: str,
        ready: tuple[tuple[str, int], ...],
        grads_in: tuple[Gradient | None, ...] = (),
        grads_out: tuple[Gradient | None, ...] = (),
        carried: tuple[int, ...] = (),
        releases: tuple[Release, ...] = (),
    ) -> Frame:
        waiting = {
            badge: nbytes for buffers in self.saved.values() for badge, nbytes in buffers.items()
        }
        return Frame(
            kind,
            node,
            grads_in,
            grads_out,
            carried,
            ready,
            self._waits([name for name, _ in ready]),
            tuple(self.pending.values()),
            releases,
            sum(release.nbytes for release in releases),
            sum(release.nbytes for release in releases if release.fate == "freed"),
            # A leaf lives anyway: that a node has saved it costs nothing.
            sum(nbytes for badge, nbytes in waiting.items() if badge not in self.owned),
        )

    def _waits(self, ready: list[str]) -> dict[str, int]:
        """How many deliveries each node that will run still waits for."""
        counts = dict.fromkeys(ready, 0)
        todo = list(ready)
        while todo:
            for edge in self.edges[todo.pop()]:
                if edge["to"] not in self.nodes:
                    continue
                if edge["to"] not in counts:
                    counts[edge["to"]] = 0
                    todo.append(edge["to"])
                counts[edge["to"]] += 1
        return counts


# ---------------------------------------------------------------- words


def caption(film: Film) -> str:
    """One line with the numbers that matter."""
    peak, at = film.peak
    nodes = style.count_of(len(film.nodes), "node")
    leaves = f"{len(film.leaves)} {'leaf' if len(film.leaves) == 1 else 'leaves'}"
    freed = sum(frame.freed for frame in film.frames)
    return (
        f"{nodes}, {leaves}; saved at the start {style.format_bytes(film.frames[0].saved)}, "
        f"freed on the way {style.format_bytes(freed)}; most at once "
        f"{style.format_bytes(peak)} (saved and gradients) at step {at}"
    )


def flow(gradients: tuple[Gradient | None, ...], *, named: bool) -> str:
    """Gradients in few words: `x (4,), relu#3 (4,)`; one that nobody wants is left out."""
    parts = [
        f"{style.shorten(g.at, LONGEST_NAME)} {g.shape}" if named else g.shape
        for g in gradients
        if g is not None
    ]
    return _listed(parts) or "nothing"


def _listed(parts: list[str]) -> str:
    hidden = len(parts) - _MOST_LISTED
    return ", ".join(parts[:_MOST_LISTED]) + (f" and {hidden} more" if hidden > 0 else "")


def queue(frame: Frame) -> str:
    """The ready queue: `mul#3 (0), add#2 (1)`."""
    return ", ".join(f"{style.shorten(name, LONGEST_NAME)} ({n})" for name, n in frame.ready)


def _sentence(film: Film, at: int) -> str:
    frame = film.frames[at]
    if frame.kind == "start":
        seed = frame.flight[0]
        where = style.shorten(seed.at, LONGEST_NAME)
        return f"Nothing has run. A gradient of shape {seed.shape} waits at {where}."
    if frame.kind == "end":
        leaves = [style.shorten(gradient.at, LONGEST_NAME) for gradient in frame.flight]
        if not leaves:
            return "The pass is over. No leaf was reached."
        verb = "gets its" if len(leaves) == 1 else "get their"
        return f"The pass is over. All at once, {_listed(leaves)} {verb} .grad."
    name = style.shorten(frame.node, LONGEST_NAME)
    arrived, sent = flow(frame.grads_in, named=False), flow(frame.grads_out, named=True)
    freed = f"Frees {style.format_bytes(frame.freed)}." if frame.freed else "Frees nothing."
    return f"{name} runs: takes {arrived}, hands on {sent}. {freed}"
