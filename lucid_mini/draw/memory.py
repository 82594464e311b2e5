"""The memory curve of a trace: what was retained, and what of it had to be.

`memory(trace)` draws it alone; the timeline draws the same curve under its rows.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import radians, sin
from typing import Any, NamedTuple

from lucid_mini.draw import style

RETAINED, PROGRAM, ALGORITHM = style.STROKES

#: 900 pixels, what JupyterLab leaves beside a prompt: a wider picture is shrunk, letters and all.
WIDTH = 675.0
MARGIN = 10.0
_LISTED_MARKS = 60
_NARROW = 6.0
_PEAK_BUFFERS = 3


class Column(NamedTuple):
    """The steps that one op, or one node of backward, took: from `start` up to `end`."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class Clock:
    """The x axis: a step is one event. After the last, a column for what `gc.collect()` frees."""

    end: int
    boundary: int | None
    columns: tuple[Column, ...]

    @property
    def after(self) -> Column:
        """The last column, which no event fills."""
        return Column(self.end, self.end + max(1, round(0.07 * self.end)), "after gc.collect()")

    def over(self, step: int) -> int:
        """When the op that was at work at `step` was over; the end where no mark says so."""
        return next((column.end for column in self.columns if column.end > step), self.end)

    @property
    def collected(self) -> float:
        """Where, inside the last column, a cycle ends."""
        return (self.after.start + self.after.end) / 2


class Curve(NamedTuple):
    """Bytes after each step."""

    values: tuple[int, ...]

    @property
    def peak(self) -> int:
        """The highest value, 0 of an empty curve."""
        return max(self.values, default=0)

    @property
    def peak_step(self) -> int:
        """The first step with the highest value."""
        return self.values.index(self.peak) if self.values else 0

    @property
    def last(self) -> int:
        """The bytes at the end."""
        return self.values[-1] if self.values else 0


@dataclass(frozen=True)
class Curves:
    """The facts under a memory curve, copied out of the trace: it may go on, the picture stays."""

    clock: Clock
    #: By name, in the order of style.STROKES. The least that the algorithm needs may be unknown.
    lines: dict[str, Curve]
    #: The buffers alive at the peak, largest first, and how many others there are.
    largest: tuple[tuple[str, int], ...]
    others: int
    #: Bytes times ops, as the trace counts them.
    drag: int
    #: What remains of `retained` when the cycles are gone.
    collected: int
    #: The bytes that existed before the trace, which no curve counts.
    existing: int

    @property
    def retained(self) -> Curve:
        """What was there."""
        return self.lines[RETAINED]

    @property
    def program(self) -> Curve:
        """What would have been there, had every buffer died at its last use."""
        return self.lines[PROGRAM]

    @property
    def area(self) -> int:
        """The hatched area: bytes times steps between what was there and what the program needs."""
        return sum(self.retained.values) - sum(self.program.values)

    @property
    def share(self) -> str:
        """The hatched area, in percent of all bytes times steps."""
        return style.format_share(self.area, sum(self.retained.values))

    def at_the_peak(self) -> str:
        """The peak in words."""
        return f"peak {style.format_bytes(self.retained.peak)} at step {self.retained.peak_step}"

    def peak_buffers(self) -> str:
        """What the peak is made of."""
        names = [f"{name} {style.format_bytes(nbytes)}" for name, nbytes in self.largest]
        return ", ".join(names) + (f" and {self.others} more" if self.others else "")

    def about_existing(self) -> str:
        """One sentence on what existed before the trace, "" if nothing did."""
        if not self.existing:
            return ""
        return f"The curve leaves out the {style.format_bytes(self.existing)} that existed before."


def memory(trace: Any) -> "MemoryFigure":
    """The memory curve of a `lm.lifetime.trace`, alone and large.

    Keeps: names and numbers; neither the trace nor a buffer.
    Raises: TypeError for what is no trace.

    Example:
        >>> x = lm.ones(1000, requires_grad=True)
        >>> with lm.lifetime.trace() as t:
        ...     x.exp().sum().backward()
        >>> lm.draw.memory(t)
        Memory, event by event
        <BLANKLINE>
        step  after      retained   program  algorithm  drag
           3  F exp#1    7.81 KiB  7.81 KiB   7.81 KiB   0 B
           5  F sum#2    7.82 KiB  7.82 KiB   7.82 KiB   0 B
        ...
    """
    require_trace(trace, "memory")
    return MemoryFigure(trace)


def require_trace(trace: Any, caller: str) -> None:
    """Raise if `trace` is none.

    Raises: TypeError that says how to get one.
    """
    if not hasattr(trace, "marks") or not hasattr(trace, "curve"):
        raise TypeError(
            f"{caller} takes a trace, not {type(trace).__name__}. Get one by "
            "`with lm.lifetime.trace() as t: ...`."
        )


class MemoryFigure(style.Painting):
    """Retained bytes over the event clock, with the two minima and the drag between them."""

    def __init__(self, trace: Any) -> None:
        """Copy what the picture shows out of `trace`."""
        self._curves = read_curves(trace)
        self.title = style.clean(trace.title) or "Memory, event by event"
        self.caption = curve_caption(self._curves)

    def layout(self) -> Curves:
        """What the picture shows, as plain data."""
        return self._curves

    def text(self) -> str:
        """The curve at each mark, and its summary, as tables."""
        lines = [style.shorten(self.title, 100)]
        curves = self._curves
        if not curves.retained.values:
            return "\n".join([*lines, "no events were recorded"])
        lines += ["", *_mark_table(curves), "", *summary_lines(curves)]
        return "\n".join(lines)

    def size(self) -> tuple[float, float]:
        """Wide enough for a notebook; the labels over the columns need what they need."""
        if not self._curves.retained.values:
            return WIDTH, 64
        return WIDTH, 34 + label_band(self._curves.clock) + 312

    def paint(self, sheet: style.Sheet) -> None:
        """Title, columns, curves."""
        curves = self._curves
        paint_title(sheet, self.title)
        if not curves.retained.values:
            paint_nothing(sheet)
            return
        labels = 34 + label_band(curves.clock)
        place = Place(MARGIN + 62, WIDTH - MARGIN - 168, labels + 36, labels + 268)
        x = place.scale(curves.clock)
        paint_columns(sheet, curves.clock, x, labels, [(labels + 3, place.bottom)])
        paint_curves(sheet, curves, place, x)


# ---------------------------------------------------------------- facts


def read_curves(trace: Any) -> Curves:
    """The facts of `trace` that a memory curve shows."""
    clock, buffers = read_clock(trace), look(trace)
    lines = {RETAINED: Curve(tuple(trace.curve()))}
    for name, by in ((PROGRAM, "program"), (ALGORITHM, "algorithm")):
        # That no value was needed takes a test of each: a trace may not have made it.
        with suppress(ValueError):
            lines[name] = Curve(tuple(trace.needed(by=by)))
    counted = [b for b in buffers if not b.existed and not getattr(b, "foreign", False)]
    at_peak = [b for b in counted if _alive(b, lines[RETAINED].peak_step)]
    at_peak.sort(key=lambda b: -b.nbytes)
    cycles = sum(b.nbytes for b in counted if b.freed is None and b.verdict == "cycle")
    return Curves(
        clock,
        lines,
        tuple((style.shorten(b.name, 24), b.nbytes) for b in at_peak[:_PEAK_BUFFERS]),
        len(at_peak[_PEAK_BUFFERS:]),
        trace.drag(),
        lines[RETAINED].last - cycles,
        sum(b.nbytes for b in buffers if b.existed),
    )


def look(trace: Any) -> list[Any]:
    """The buffers of `trace`. If nobody has asked yet why some are alive, it is asked now."""
    buffers = list(trace.buffers)
    if any(b.freed is None and not b.existed and not b.verdict for b in buffers):
        trace.survivors()
        buffers = list(trace.buffers)
    return buffers


def read_clock(trace: Any) -> Clock:
    """The x axis of `trace`: a column from each mark to the next."""
    columns, start = [], 0
    for step, label in trace.marks:
        columns.append(Column(start, step, style.clean(label)))
        start = step
    return Clock(trace.end, trace.boundary, tuple(columns))


def curve_caption(curves: Curves) -> str:
    """One line with the numbers that matter."""
    if not curves.retained.values:
        return "No events were recorded"
    least = [
        f"{name} {style.format_bytes(curve.peak)}"
        for name, curve in curves.lines.items()
        if name != RETAINED
    ]
    return (
        f"{curves.at_the_peak()}; {', '.join(least)}; drag {curves.share} of all byte·steps; "
        f"{style.format_bytes(curves.retained.last)} retained at the end"
    )


def _alive(buffer: Any, step: int) -> bool:
    return buffer.allocated <= step and (buffer.freed is None or step < buffer.freed)


# ---------------------------------------------------------------- text


def summary_lines(curves: Curves) -> list[str]:
    """Peaks, ends and drag as text."""
    rows = [("memory", "peak", "at step", "at the end")]
    for name, curve in curves.lines.items():
        peak, last = style.format_bytes(curve.peak), style.format_bytes(curve.last)
        rows.append((name, peak, str(curve.peak_step), last))
    lines = style.table(rows, "<>><")
    lines.append(f"after gc.collect(): {style.format_bytes(curves.collected)} retained")
    lines.append(f"drag: {curves.share} of all byte·steps; {style.format_bytes(curves.drag)}·ops")
    lines += style.wrap(f"at the peak: {curves.peak_buffers()}", indent="  ")
    about = curves.about_existing()
    return [*lines, about] if about else lines


def clock_lines(clock: Clock) -> list[str]:
    """The columns of the x axis as text."""
    marks = [f"{column.end} {style.shorten(column.label, 24)}" for column in clock.columns]
    hidden = len(marks) - _LISTED_MARKS
    if hidden > 0:
        marks = [*marks[:_LISTED_MARKS], f"and {hidden} more"]
    lines = style.wrap_items("marks: ", marks)
    where = "no backward" if clock.boundary is None else f"backward begins at {clock.boundary}"
    return [*lines, f"clock: {style.count_of(clock.end, 'step')}, {where}"]


def _mark_table(curves: Curves) -> list[str]:
    """The curve, read at the end of each column."""
    names = [name.rpartition(" ")[2] for name in curves.lines]
    rows = [("step", "after", *names, "drag", "")]
    points = [(column.end, column.label) for column in curves.clock.columns]
    hidden = len(points) - _LISTED_MARKS
    listed = points[:_LISTED_MARKS]
    if not points or hidden > 0 or points[-1][0] < curves.clock.end:
        listed.append((curves.clock.end, "(the end)"))
    for step, label in listed:
        # A mark at step s names what was done before event s: read the curve one event earlier.
        at = min(max(step - 1, 0), len(curves.retained.values) - 1)
        values = [curve.values[at] for curve in curves.lines.values()]
        amounts = [style.format_bytes(value) for value in [*values, values[0] - values[1]]]
        rows.append((str(step), style.shorten(label, 30), *amounts, ""))
    lines = style.table(rows, "><" + ">" * len(names) + "><")
    if hidden > 0:
        lines.insert(-1, f"and {style.count_of(hidden, 'more mark')}")
    return lines


# ---------------------------------------------------------------- picture


class Place(NamedTuple):
    """A rectangle on the sheet."""

    left: float
    right: float
    top: float
    bottom: float

    def scale(self, clock: Clock) -> Callable[[float], float]:
        """Where a step of `clock` is, from left to right."""
        span = clock.after.end
        return lambda step: self.left + (self.right - self.left) * step / span


def paint_title(sheet: style.Sheet, title: str) -> None:
    """The title, as much of it as fits."""
    size, room = 11, sheet.width - 2 * MARGIN
    sheet.text(MARGIN, 16, style.fit(title, room, size, bold=True), size, bold=True)


def paint_nothing(sheet: style.Sheet) -> None:
    """What stands where a picture would: a trace of nothing is no error."""
    sheet.text(MARGIN, 44, "No events were recorded.", ink=style.FAINT_INK)


def label_band(clock: Clock) -> float:
    """The height that the slanted labels over the columns need."""
    widest = max(style.text_width(label) for label in [*_labels(clock), clock.after.label])
    return 14 + widest * sin(radians(style.SLANT))


def _labels(clock: Clock) -> list[str]:
    return [style.shorten(column.label, 20) for column in clock.columns]


def paint_columns(
    sheet: style.Sheet,
    clock: Clock,
    x: Callable[[float], float],
    labels: float,
    spans: Sequence[tuple[float, float]],
) -> None:
    """Slanted labels above `labels`; in `spans` the lines of the columns, and the boundary."""
    after = clock.after
    names = [*_labels(clock), after.label]
    columns = [*clock.columns, after]
    middles = [x((column.start + column.end) / 2) for column in columns]
    # What no op of the program explains, the user's own marks above all, is labelled first.
    first = [len(columns) - 1] + [
        at for at, column in enumerate(clock.columns) if column.label[:2] not in ("F ", "B ")
    ]
    shown = style.thin(middles, style.SLANTED_GAP, first)
    for at in shown:
        sheet.text(middles[at], labels, names[at], turn=style.SLANT)
    edges: set[float] = set()
    for at in shown:
        start, end = float(columns[at].start), float(columns[at].end)
        # Two lines that nearly touch would look like one thick one.
        edges |= {start, end} if x(end) - x(start) > _NARROW else {(start + end) / 2}
    for top, bottom in spans:
        for step in sorted(edges):
            sheet.line([(x(step), top), (x(step), bottom)], style.GRID, over=1)
        if clock.boundary is not None:
            middle = x(clock.boundary)
            sheet.line([(middle, top), (middle, bottom)], style.BOUNDARY, over=4.6)


def paint_curves(
    sheet: style.Sheet, curves: Curves, place: Place, x: Callable[[float], float]
) -> None:
    """The three curves in `place`, their axes around it, their names and numbers at its right."""
    highest = max(1, *(curve.peak for curve in curves.lines.values()))
    # Below zero where the trace saw the death of what existed before it.
    lowest = min(0, curves.collected, *(min(c.values) for c in curves.lines.values()))

    def y(count: float) -> float:
        return place.bottom - (place.bottom - place.top) * (count - lowest) / (highest - lowest)

    _paint_axes(sheet, curves, place, x, y, style.byte_ticks(lowest, highest))
    clock, end = curves.clock, curves.clock.after.end
    levels = {
        name: _levels(curve, clock, curves.collected if name == RETAINED else curve.last)
        for name, curve in curves.lines.items()
    }
    for corners in _gaps(levels[RETAINED], levels[PROGRAM], end):
        points = [(x(step), y(count)) for step, count in corners]
        sheet.area(points, "drag", outline=False, over=2)
    for name in levels:
        points = [(x(step), y(count)) for step, count in _staircase(levels[name], end)]
        sheet.line(points, style.STROKES[name])
    _paint_peak(sheet, curves, place, x)
    _paint_key(sheet, curves, place)
    foot, about = place.bottom + 36, curves.about_existing()
    sheet.text(place.left, foot, about, ink=style.FAINT_INK)


def _levels(curve: Curve, clock: Clock, collected: int) -> list[tuple[float, int]]:
    """Where a curve changes, and to what; the last column, after the last step, included."""
    levels: list[tuple[float, int]] = []
    for step, value in enumerate(curve.values):
        if not levels or levels[-1][1] != value:
            levels.append((step, value))
    return [*levels, (clock.collected, collected)]


def _staircase(levels: list[tuple[float, int]], end: float) -> list[tuple[float, int]]:
    """The corners of a curve: a level holds until the next one begins."""
    corners: list[tuple[float, int]] = []
    for step, value in levels:
        if corners:
            corners.append((step, corners[-1][1]))
        corners.append((step, value))
    return [*corners, (end, levels[-1][1])]


def _gaps(
    upper: list[tuple[float, int]], lower: list[tuple[float, int]], end: float
) -> list[list[tuple[float, int]]]:
    """The areas where one curve is above another: upper edge to the right, lower edge back."""
    highs, lows = dict(upper), dict(lower)
    steps = sorted({*highs, *lows})
    gaps: list[tuple[list[tuple[float, int]], list[tuple[float, int]]]] = []
    high = low = 0
    joined = False
    for start, stop in zip(steps, [*steps[1:], end], strict=True):
        high, low = highs.get(start, high), lows.get(start, low)
        if high > low:
            if not joined:
                gaps.append(([], []))
            gaps[-1][0].extend([(start, high), (stop, high)])
            gaps[-1][1].extend([(start, low), (stop, low)])
        joined = high > low
    return [[*top, *reversed(bottom)] for top, bottom in gaps]


def _paint_axes(
    sheet: style.Sheet,
    curves: Curves,
    place: Place,
    x: Callable[[float], float],
    y: Callable[[float], float],
    ticks: list[int],
) -> None:
    for count in ticks:
        sheet.line([(place.left, y(count)), (place.right, y(count))], style.GRID, over=1)
        sheet.line([(place.left - 3, y(count)), (place.left, y(count))])
        sheet.text(place.left - 5, y(count) + 2.7, style.format_bytes(count), align="right")
    sheet.line([(place.left, place.top - 4), (place.left, place.bottom)])
    sheet.line([(place.left, place.bottom), (place.right, place.bottom)])
    for step in style.clock_ticks(curves.clock.end):
        sheet.line([(x(step), place.bottom), (x(step), place.bottom + 3)])
        sheet.text(x(step), place.bottom + 11, str(step), align="center", ink=style.FAINT_INK)
    faint = style.FAINT_INK
    sheet.text(place.left - 5, place.bottom + 11, "step", align="right", ink=faint)
    if curves.clock.boundary is not None:
        middle = x(curves.clock.boundary)
        sheet.text(middle - 4, place.bottom + 21, "forward ◂", align="right", ink=faint)
        sheet.text(middle + 4, place.bottom + 21, "▸ backward", ink=faint)


def _paint_peak(
    sheet: style.Sheet, curves: Curves, place: Place, x: Callable[[float], float]
) -> None:
    """Peak and largest buffers, above the peak, on the side where there is more room."""
    at = x(curves.retained.peak_step + 0.5)
    left = at < (place.left + place.right) / 2
    align = "left" if left else "right"
    room = place.right - place.left
    head = style.fit(curves.at_the_peak(), room, bold=True)
    parts = style.fit(curves.peak_buffers(), room)
    # Words that are wider than that side begin, or end, a little further off.
    wide = max(style.text_width(head, bold=True), style.text_width(parts))
    at = min(at, place.right - wide) if left else max(at, place.left + wide)
    sheet.text(at, place.top - 16, head, bold=True, align=align, ground="white")
    sheet.text(at, place.top - 6.5, parts, align=align, ink=style.FAINT_INK, ground="white")


def _paint_key(sheet: style.Sheet, curves: Curves, place: Place) -> None:
    """The names of the lines at the right of the curve, each with its numbers under it."""
    left, at = place.right + 14, place.top + 4
    room = sheet.width - MARGIN - left - 26
    for name, curve in curves.lines.items():
        sheet.line([(left, at - 2.5), (left + 20, at - 2.5)], style.STROKES[name])
        sheet.text(left + 26, at, name)
        words = f"peak {style.format_bytes(curve.peak)}"
        if name == RETAINED:
            words += f", at the end {style.format_bytes(curve.last)}"
        sheet.text(left + 26, at + 9.5, style.fit(words, room), ink=style.FAINT_INK)
        at += 27
    sheet.bar(left, left + 20, at - 6.5, at + 1.5, "drag")
    sheet.text(left + 26, at, "drag")
    sheet.text(left + 26, at + 9.5, f"{curves.share} of all byte·steps", ink=style.FAINT_INK)
