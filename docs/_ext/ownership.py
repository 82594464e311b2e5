"""Who owns whom, read off living objects and drawn.

Every arrow is checked: the collector must find the held object in its holder, directly or through
the tuple that a row of slots or of upstream nodes is.
"""

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from html import escape
from typing import Any, NamedTuple

import numpy as np

import lucid_mini as lm
from lucid_mini.autograd.ctx import FunctionCtx
from lucid_mini.autograd.node import AccumulateGrad, Node
from lucid_mini.autograd.saved import DETACHED
from lucid_mini.draw import style
from lucid_mini.draw.figure import Figure
from lucid_mini.draw.layers import Layered, lay_out
from lucid_mini.draw.stepper_art import MONO, _curve

#: The kinds of object: colour of the box, of its words, and what it is.
KINDS = {
    "tensor": ("#0072B2", "#FFFFFF", "Tensor"),
    "node": ("#FFFFFF", "#10202B", "Node"),
    "ctx": ("#E4E4E4", "#10202B", "ctx"),
    "slot": ("#56B4E9", "#10202B", "slot of a saved output"),
    "array": ("#D9F2E8", "#10202B", "array"),
}
#: Words at arrows: those that the box at their end does not say.
_SAID = ("array", "ctx")
_LETTER, _HEIGHT, _PITCH, _KEY, _BESIDE = 7.3, 38, 80, 30, 60


class Box(NamedTuple):
    """One object: what it is, its name, and a line about it."""

    kind: str
    name: str
    note: str


class Arrow(NamedTuple):
    """One object holds another; `weak` does not keep it alive."""

    holder: str
    held: str
    how: str
    weak: bool


@dataclass
class Ownership(Figure):
    """What hangs on some variables: boxes are objects, arrows say what keeps what alive."""

    title: str
    caption: str
    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)

    def text(self) -> str:
        """One line an object, with what it holds."""
        lines = [self.title, ""]
        for name, box in self.boxes.items():
            held = [f"{a.how} → {a.held}" for a in self.arrows if a.holder == name and not a.weak]
            lines.append(f"{name:<26} {box.note:<15} {', '.join(held)}".rstrip())
        return "\n".join([*lines, "", self.caption])

    def svg(self) -> str:
        """The drawing: what holds stands above what it holds."""
        strong = [(a.holder, a.held) for a in self.arrows if not a.weak]
        below: dict[str, set[str]] = {name: set() for name in self.boxes}
        for holder, held in strong:
            below[held].add(holder)
        sizes = {}
        for name in TopologicalSorter(below).static_order():
            _, shown, note = self.boxes[name]
            letters = max(style.cells(shown), style.cells(note) * 0.84)
            sizes[name] = (max(72, round(letters * _LETTER) + 22), _HEIGHT)
        return self._drawn(lay_out(sizes, strong, pitch=_PITCH, gap=30), strong)

    def _drawn(self, places: Layered, strong: list[tuple[str, str]]) -> str:
        width, height = max(places.width + 2 * _BESIDE, 640), places.height + _KEY
        left = (width - places.width) // 2
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            f"<title>{escape(self.title)}</title><desc>{escape(self.text())}</desc>",
            f"<style>{_STYLE}</style>{_HEAD}",
            f'<rect width="{width}" height="{height}" fill="#FFFFFF"/>',
            f'<g transform="translate({left} 0)">',
        ]
        hows = {(a.holder, a.held): a.how for a in self.arrows}
        for route in places.routes:
            parts.append(f'<path class="e" d="{_curve(route)}"/>')
        words = [
            (hows[pair], _middle(route)) for pair, route in zip(strong, places.routes, strict=True)
        ]
        for at, (how, place) in enumerate(words):
            same = any(how == other and _near(place, there) for other, there in words[:at])
            if how not in _SAID and not same:  # two arrows that start as one need one word
                parts.append(_word(how, *place))
        parts += [_weak(places, arrow) for arrow in self.arrows if arrow.weak]
        for name, (x, y, wide, high) in places.boxes.items():
            kind, shown, note = self.boxes[name]
            fill, ink, _ = KINDS[kind]
            round_ = {"tensor": 12, "array": 0}.get(kind, 4)
            parts.append(
                f'<rect class="b" x="{x}" y="{y}" width="{wide}" height="{high}" rx="{round_}" '
                f'fill="{fill}"/><text class="l" x="{x + wide / 2:g}" y="{y + 16}" fill="{ink}">'
                f'{escape(shown)}</text><text class="m" x="{x + wide / 2:g}" y="{y + 30}" '
                f'fill="{ink}">{escape(note)}</text>'
            )
        return "\n".join([*parts, "</g>", _key(places.height), "</svg>\n"])


_STYLE = f"""text{{font-family:{MONO};text-anchor:middle}}
.l{{font-size:12px;font-weight:600}}.m{{font-size:10px}}
.b{{stroke:#10202B}}.e{{fill:none;stroke:#5B6B75;stroke-width:1.3;marker-end:url(#head)}}
.weak{{stroke-dasharray:3 3}}
.h{{font-size:10px;fill:#10202B;paint-order:stroke;stroke:#FFFFFF;stroke-width:4px}}
.k{{font-size:11px;text-anchor:start;fill:#10202B}}"""
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" fill="#5B6B75"/></marker>'
    "</defs>"
)


def _middle(route: tuple[tuple[int, int], ...]) -> tuple[float, float]:
    """Where the word at an arrow stands: where it has left the arrows that start beside it."""
    (x, y), (right, below) = route[0], route[1]
    return x + (right - x) * 0.62, y + (below - y) * 0.62 + 3


def _near(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return abs(one[0] - other[0]) < 28 and abs(one[1] - other[1]) < 10


def _word(how: str, x: float, y: float) -> str:
    return f'<text class="h" x="{x:g}" y="{y:g}">{escape(how)}</text>'


def _weak(places: Layered, arrow: Arrow) -> str:
    """A dashed line beside the boxes, on the side where the way is shorter."""
    one, other = places.boxes[arrow.holder], places.boxes[arrow.held]
    y, to_y = one.y + one.height // 2, other.y + other.height // 2
    between = [box for box in places.boxes.values() if other.y <= box.y <= one.y]
    left = min(box.x for box in between) - _BESIDE + 10
    right = max(box.x + box.width for box in between) + _BESIDE - 10
    x, to_x, out = one.x + one.width, other.x + other.width + 2, right
    if one.x - left < right - x:
        x, to_x, out = one.x, other.x - 2, left
    line = f'<path class="e weak" d="M{x} {y}C{out} {y} {out} {to_y} {to_x} {to_y}"/>'
    return line + _word(arrow.how, (3 * out + x) / 4, (y + to_y) / 2 + 3)


def _key(top: int) -> str:
    parts, x = [], 14
    for fill, _, words in KINDS.values():
        parts.append(
            f'<rect class="b" x="{x}" y="{top + 6}" width="14" height="12" fill="{fill}"/>'
            f'<text class="k" x="{x + 20}" y="{top + 16}">{words}</text>'
        )
        x += 34 + round(len(words) * 6.7)
    return "".join(parts)


# ---------------------------------------------------------------- reading


def read(title: str, caption: str, **variables: Any) -> Ownership:
    """What hangs on `variables`, each object once."""
    figure = Ownership(title, caption)
    names: dict[int, str] = {}
    met: list[Any] = []  # kept, so that no id is used again

    def meet(thing: Any, name: str) -> str:
        if id(thing) not in names:
            names[id(thing)] = name
            met.append(thing)
            figure.boxes[name] = _box(thing, name)
        return names[id(thing)]

    for name, thing in variables.items():
        meet(thing, name)
    for holder in met:  # grows while it is walked
        name = names[id(holder)]
        for how, held, weak in _held(holder):
            if not weak and not _holds(holder, held):
                raise RuntimeError(f"{name} does not hold what its {how} is")
            figure.arrows.append(Arrow(name, meet(held, _name(held, name, how)), how, weak))
    return figure


def _name(thing: Any, holder: str, how: str) -> str:
    """What to call an object that no variable names."""
    if isinstance(thing, lm.Tensor):
        made = isinstance(thing._node, Node)
        return f"{holder}{how}" if how == ".grad" or not made else f"output of {thing._node.label}"
    if isinstance(thing, AccumulateGrad):
        return "AccumulateGrad"
    if isinstance(thing, Node):
        return thing.label
    return f"{how if how in _SAID else type(thing).__name__} of {holder}"


def _box(thing: Any, name: str) -> Box:
    if isinstance(thing, lm.Tensor):
        return Box("tensor", name, f"Tensor {_shape(thing.shape)}")
    if isinstance(thing, AccumulateGrad):
        return Box("node", name, "fills .grad")
    if isinstance(thing, Node):
        return Box("node", name, "Node, released" if thing.released else "Node")
    if isinstance(thing, FunctionCtx):
        saved = len(thing._saved) if type(thing._saved) is tuple else 0
        return Box("ctx", "ctx", style.count_of(saved, "saved slot") if saved else "nothing saved")
    if type(thing) in DETACHED:
        return Box("slot", type(thing).__name__, "no tensor")
    return Box("array", "array", style.format_bytes(thing.nbytes))


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})" if len(shape) != 1 else f"({shape[0]},)"


def _held(thing: Any) -> Iterator[tuple[str, Any, bool]]:
    """What an object of the stack has in its fields: how, what, and whether weakly."""
    if isinstance(thing, lm.Tensor):
        yield "array", thing._data, False
        if thing._node is not None:
            yield ("grad_fn" if isinstance(thing._node, Node) else "owns"), thing._node, False
        if thing._grad is not None:
            yield ".grad", thing._grad, False
    elif isinstance(thing, AccumulateGrad):
        yield "weak", thing.variable, True
    elif isinstance(thing, Node):
        yield "ctx", thing._ctx, False
        for upstream in thing._next_nodes:
            if upstream:
                yield "edge", upstream, False
    elif isinstance(thing, FunctionCtx) and type(thing._saved) is tuple:
        for number, slot in enumerate(thing._saved):
            yield f"saved {number}", slot, False
    elif type(thing) in DETACHED:
        yield "array", thing._data, False


def _holds(holder: Any, held: Any) -> bool:
    """Whether the collector finds `held` in `holder`, or in a tuple that lies there."""
    for found in gc.get_referents(holder):
        if found is held or (type(found) is tuple and any(item is held for item in found)):
            return True
    return False


def before_and_after() -> tuple[Ownership, Ownership]:
    """The same program before its backward and after it."""
    lm.reset_names()
    x = lm.tensor(np.array([0.0, 1.0, 2.0]), requires_grad=True)
    loss = (lm.exp(x) * x).sum()
    waiting = read(
        "Before backward: what loss and x keep alive",
        "The array of exp(x) hangs on two saved slots, and no variable names it.",
        loss=loss,
        x=x,
    )
    loss.backward()
    done = read(
        "After backward: what loss and x keep alive",
        "The nodes are still there, as loss is; what they had saved is gone.",
        loss=loss,
        x=x,
    )
    return waiting, done
