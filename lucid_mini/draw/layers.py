"""A layered layout: boxes in rows, every arrow points down, few arrows cross.

The same graph gets the same places on every run and on every machine; no program is needed.
"""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

_SWEEPS = 8
_BEND_WIDTH = 8.0
_MARGIN = 14.0
_PORT_GAP = 14.0
#: How much a neighbour pulls: ops form a spine, leaves stand beside it.
_PULL_OF_LEAF, _PULL = 1.0, 4.0


class Box(NamedTuple):
    """A box on the page: its left top corner and its size, in whole pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def middle(self) -> int:
        """Half way between its left and its right side."""
        return self.x + self.width // 2


@dataclass(frozen=True)
class Layered:
    """Where things stand: boxes by name, and for each edge the points it goes through."""

    boxes: dict[str, Box]
    routes: tuple[tuple[tuple[int, int], ...], ...]
    width: int
    height: int


def lay_out(
    sizes: Mapping[str, tuple[int, int]],
    edges: Sequence[tuple[str, str]],
    *,
    gap: float = 22,
    pitch: float = 72,
) -> Layered:
    """Places for the boxes of a graph without cycles.

    `sizes` maps names to width and height, in an order in which every edge `(upper, lower)` leads
    from an earlier name to a later one.   Rows are `pitch` apart, boxes in a row at least `gap`.
    """
    return _Plan(sizes, edges, gap, pitch).result()


class _Bend(NamedTuple):
    """Where the arrows of one box cross a row without stopping there."""

    source: str
    rank: int


_Item = str | _Bend


class _Plan:
    """Rank, order, place: the three steps of every layered layout."""

    def __init__(
        self,
        sizes: Mapping[str, tuple[int, int]],
        edges: Sequence[tuple[str, str]],
        gap: float,
        pitch: float,
    ) -> None:
        self.sizes, self.edges, self.gap, self.pitch = sizes, edges, gap, pitch
        self.ranks = self._rank()
        self.up: dict[_Item, list[_Item]] = {name: [] for name in sizes}
        self.down: dict[_Item, list[_Item]] = {name: [] for name in sizes}
        self.paths = [self._path(upper, lower) for upper, lower in edges]
        for path in self.paths:
            for upper, lower in pairwise(path):
                if lower not in self.down.setdefault(upper, []):
                    self.down[upper].append(lower)
                    self.up.setdefault(lower, []).append(upper)
        self.leaves = {name for name in sizes if not self.up[name]}
        self.rows = self._order()
        self.xs = self._place()

    def result(self) -> Layered:
        """Whole numbers, from the left top corner."""
        left = min(self.xs[item] - self._width(item) / 2 for item in self.xs) if self.xs else 0
        shift = _MARGIN - left
        boxes = {
            name: Box(
                round(self.xs[name] + shift - width / 2),
                round(_MARGIN + self.ranks[name] * self.pitch),
                width,
                height,
            )
            for name, (width, height) in self.sizes.items()
        }
        right = max((self.xs[item] + self._width(item) / 2 for item in self.xs), default=0)
        bottom = max((box.y + box.height for box in boxes.values()), default=0)
        routes = self._routes(boxes, shift)
        return Layered(boxes, routes, round(right + shift + _MARGIN), round(bottom + _MARGIN))

    def _rank(self) -> dict[str, int]:
        """The row of each box: below all it comes from, and just above the first it leads to."""
        above: dict[str, list[str]] = {name: [] for name in self.sizes}
        below: dict[str, list[str]] = {name: [] for name in self.sizes}
        for upper, lower in self.edges:
            above[lower].append(upper)
            below[upper].append(lower)
        ranks: dict[str, int] = {}
        for name in self.sizes:
            ranks[name] = max((ranks[upper] + 1 for upper in above[name]), default=0)
        for name in reversed(list(self.sizes)):
            if below[name]:
                ranks[name] = min(ranks[lower] for lower in below[name]) - 1
        return ranks

    def _path(self, upper: str, lower: str) -> list[_Item]:
        """An arrow over several rows bends in each; arrows of one box share their bends."""
        between = range(self.ranks[upper] + 1, self.ranks[lower])
        return [upper, *(_Bend(upper, rank) for rank in between), lower]

    def _order(self) -> list[list[_Item]]:
        """The rows from left to right: the order of fewest crossings that a few sweeps find."""
        rows: list[list[_Item]] = [[] for _ in range(max(self.ranks.values(), default=-1) + 1)]
        for name, rank in self.ranks.items():
            rows[rank].append(name)
        for item in self.down:
            if isinstance(item, _Bend):
                rows[item.rank].append(item)
        best, fewest = [list(row) for row in rows], self._crossings(rows)
        for sweep in range(_SWEEPS):
            downwards = sweep % 2 == 0
            neighbours = self.up if downwards else self.down
            for row in rows if downwards else reversed(rows):
                self._sort(row, rows, neighbours)
            crossings = self._crossings(rows)
            if crossings < fewest:
                best, fewest = [list(row) for row in rows], crossings
        return best

    def _sort(
        self,
        row: list[_Item],
        rows: list[list[_Item]],
        neighbours: dict[_Item, list[_Item]],
    ) -> None:
        """By the middle of each item's neighbours; who has none stays where it was."""
        places = {item: at for other in rows for at, item in enumerate(other)}
        middles = {}
        for at, item in enumerate(row):
            near = [places[other] for other in neighbours[item]]
            middles[item] = sum(near) / len(near) if near else float(at)
        row.sort(key=lambda item: middles[item])

    def _crossings(self, rows: list[list[_Item]]) -> int:
        total = 0
        for upper, lower in pairwise(rows):
            places = {item: at for at, item in enumerate(lower)}
            passed: list[int] = []
            for item in upper:
                ends = sorted(places[other] for other in self.down[item])
                total += sum(len(passed) - bisect_right(passed, end) for end in ends)
                for end in ends:
                    insort(passed, end)
        return total

    def _place(self) -> dict[_Item, float]:
        """The middle of each item: near its neighbours, and clear of the next in its row."""
        xs: dict[_Item, float] = {}
        for row in self.rows:
            xs.update(zip(row, self._spread(row, [0.0] * len(row)), strict=True))
        for sweep in range(_SWEEPS + 2):
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                wanted = [self._wanted(item, xs) for item in row]
                xs.update(zip(row, self._spread(row, wanted), strict=True))
        return xs

    def _wanted(self, item: _Item, xs: dict[_Item, float]) -> float:
        pulls = [
            (_PULL_OF_LEAF if other in self.leaves else _PULL, xs[other])
            for other in (*self.up[item], *self.down[item])
        ]
        total = sum(pull for pull, _ in pulls)
        return sum(pull * x for pull, x in pulls) / total if total else xs[item]

    def _spread(self, row: list[_Item], wanted: list[float]) -> list[float]:
        """The places in order and clear of each other that are nearest to the wanted ones.

        Neighbours that would overlap are joined into a block, which goes to its mean.
        """
        offsets = [0.0]
        for left, right in pairwise(row):
            offsets.append(offsets[-1] + (self._width(left) + self._width(right)) / 2 + self.gap)
        blocks: list[tuple[float, int]] = []
        for want, offset in zip(wanted, offsets, strict=False):
            total, count = want - offset, 1
            while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
                before = blocks.pop()
                total, count = total + before[0], count + before[1]
            blocks.append((total, count))
        starts = [total / count for total, count in blocks for _ in range(count)]
        return [start + offset for start, offset in zip(starts, offsets, strict=False)]

    def _width(self, item: _Item) -> float:
        return _BEND_WIDTH if isinstance(item, _Bend) else self.sizes[item][0]

    def _routes(
        self, boxes: dict[str, Box], shift: float
    ) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The points of each arrow. Arrows at one side of a box do not meet at one point."""
        starts = self._ports(boxes, 0, 1)
        ends = self._ports(boxes, -1, -2)
        routes = []
        for at, path in enumerate(self.paths):
            upper, lower = boxes[self.edges[at][0]], boxes[self.edges[at][1]]
            points = [(starts[at], upper.y + upper.height)]
            for rank, bend in enumerate(path[1:-1], self.ranks[self.edges[at][0]] + 1):
                x = round(self.xs[bend] + shift)
                y = round(_MARGIN + rank * self.pitch)
                points += [(x, y), (x, y + lower.height)]
            routes.append((*points, (ends[at], lower.y)))
        return tuple(routes)

    def _ports(self, boxes: dict[str, Box], own: int, near: int) -> dict[int, int]:
        """Where each arrow touches the box at its end `own`; ordered by what is `near` that end."""
        touching: dict[_Item, list[int]] = {}
        for at, path in enumerate(self.paths):
            touching.setdefault(path[own], []).append(at)
        ports = {}
        for item, arrows in touching.items():
            box = boxes[str(item)]
            arrows.sort(key=lambda at: (self.xs[self.paths[at][near]], at))
            step = min(_PORT_GAP, (box.width - 16) / len(arrows))
            for index, at in enumerate(arrows):
                ports[at] = round(box.middle + (index - (len(arrows) - 1) / 2) * step)
        return ports
