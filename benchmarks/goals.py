"""Goals: what a figure of lucid_mini has to be, and whether it is.

Each workload has `GOALS`, case -> Goal; not every case has one. A figure is judged as it is shown,
with two digits after the point.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from .measure import Row, figure

#: Stands for everybody who took part but the floor and the bare stack, which lack what users need.
PEERS = "every peer"
_NO_PEERS = ("floor", "bare stack", "lucid_mini")


class Goal(NamedTuple):
    """`at_most`: an upper bound. `times`: framework -> at most so many times its figure.

    `of`: whether the ratio to the floor is meant, or the figure itself.
    """

    at_most: float | None = None
    times: Mapping[str, float] = {}
    of: Literal["ratio", "median"] = "ratio"

    def __str__(self) -> str:
        """The bounds."""
        parts = [] if self.at_most is None else [f"≤ {figure(self.at_most)}"]
        for name, factor in self.times.items():
            parts.append(f"≤ {name}" if factor == 1 else f"≤ {figure(factor)} × {name}")
        return ", ".join(parts)

    def verdict(self, rows: Sequence[Row]) -> str:
        """Whether lucid_mini is within the bounds, or by how much it is not.

        `rows`: those of one case. A bound whose framework did not take part is no bound.
        """
        figures = {row.framework: getattr(row, self.of) for row in rows}
        own = figures.get("lucid_mini")
        if own is None:
            return "not measured"
        bounds = [] if self.at_most is None else [("", self.at_most)]
        for name, factor in self.times.items():
            for other, theirs in figures.items():
                meant = other not in _NO_PEERS if name == PEERS else other == name
                if meant and theirs is not None:
                    sign = other if factor == 1 else f"{figure(factor)} × {other}"
                    bounds.append((sign, factor * theirs))
        return "; ".join(_over(own, *bound) for bound in bounds if _exceeds(own, bound[1])) or "met"


def _exceeds(own: float, bound: float) -> bool:
    return round(own, 2) > round(bound, 2)


def _over(own: float, name: str, bound: float) -> str:
    if not bound:
        return f"{figure(own)} over"
    return f"{100 * (own / bound - 1):.0f} % over {name}".rstrip()
