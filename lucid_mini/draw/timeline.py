"""The timeline of a trace: one row per buffer, from birth to free, and the memory curve under it.

Who keeps these bytes, until when, and was it needed? A row answers from left to right: in use,
saved for backward, drag; then, in words, who freed it or who holds it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from lucid_mini.draw import style
from lucid_mini.draw.memory import (
    MARGIN,
    WIDTH,
    Clock,
    Curves,
    Place,
    clock_lines,
    curve_caption,
    label_band,
    look,
    paint_columns,
    paint_curves,
    paint_nothing,
    paint_title,
    read_curves,
    require_trace,
    summary_lines,
)

_MOST_ROWS = 40
_LEAKS = ("cycle", "outside")
_UNKNOWN = "unknown"


class Bar(NamedTuple):
    """A stretch of a row. `kind` is one of style.LOOKS: use, saved, drag, kept or void."""

    start: float
    end: float
    kind: str


class Row(NamedTuple):
    """The life of one buffer."""

    name: str
    nbytes: int
    bars: tuple[Bar, ...]
    born: int
    #: It was there before the trace began.
    existed: bool
    saved: int | None
    last_use: int | None
    #: Where the circle stands: at the free, in the last column for a cycle, None if never freed.
    freed: float | None
    drag: int
    #: How it ended: `freed`, `cycle`, `outside`, `expected`, or `unknown` where nobody looked.
    ending: str
    #: How it ended in words, and who is to blame for it.
    note: str
    blame: str

    @property
    def leaked(self) -> bool:
        """Counting references did not free it, and the caller did not ask for it."""
        return self.ending in _LEAKS


@dataclass(frozen=True)
class Layout:
    """What a timeline shows, as plain data."""

    rows: tuple[Row, ...]
    curves: Curves
    #: How many buffers have no row because others are larger or drag more, and their bytes.
    folded: int
    folded_bytes: int
    #: How many of the folded ones leaked.
    folded_leaks: int
    #: What existed before the trace and is neither saved nor held: parameters, as a rule.
    excluded: tuple[tuple[str, int], ...]

    @property
    def clock(self) -> Clock:
        """The x axis."""
        return self.curves.clock

    @property
    def leaks(self) -> int:
        """How many buffers leaked, with and without a row."""
        return sum(row.leaked for row in self.rows) + self.folded_leaks


def timeline(trace: Any, *, top: int | None = None) -> "TimelineFigure":
    """The lifetimes of the buffers of a `lm.lifetime.trace`.

    Of more than 40 buffers, or than `top`, those have a row that leaked, then those that are
    largest or drag most. What existed before the trace has one only if it is saved or held.

    Keeps: names and numbers; neither the trace nor a buffer.
    Raises: ValueError for a `top` below 1, TypeError for what is no trace.

    Example:
        >>> x = lm.ones(1000, requires_grad=True)
        >>> with lm.lifetime.trace() as t:
        ...     x.exp().sum().backward()
        >>> lm.draw.timeline(t)
        Buffers, from birth to free
        <BLANKLINE>
        buffer            bytes  born  saved  last use  freed   drag  how it ended
        exp#1          7.81 KiB     0      2        11     14         by engine after exp#1
        ...
    """
    require_trace(trace, "timeline")
    return TimelineFigure(trace, top=top)


class TimelineFigure(style.Painting):
    """Rows of bars over the event clock, the memory curve, and the same facts as a table."""

    def __init__(self, trace: Any, *, top: int | None = None) -> None:
        """Copy what the picture shows out of `trace`."""
        if top is not None and top < 1:
            raise ValueError(f"top={top} shows no buffer: give 1 or more, or None")
        self._layout = _lay_out(trace, top or _MOST_ROWS)
        self.title = style.clean(trace.title) or "Buffers, from birth to free"
        self.caption = _caption(self._layout)

    def layout(self) -> Layout:
        """What the picture shows, as plain data."""
        return self._layout

    def text(self) -> str:
        """One line per buffer, then the clock and the memory curve in numbers."""
        layout = self._layout
        lines = [style.shorten(self.title, 100)]
        if not layout.curves.retained.values:
            return "\n".join([*lines, "no events were recorded"])
        lines += ["", *_row_table(layout)]
        for line in _omissions(layout):
            lines += style.wrap(line, indent="  ")
        lines += ["", *clock_lines(layout.clock), "", *summary_lines(layout.curves)]
        return "\n".join(lines)

    def size(self) -> tuple[float, float]:
        """As wide as a notebook, as high as the rows."""
        return WIDTH, self._plan.height

    def paint(self, sheet: style.Sheet) -> None:
        """Title, legend, columns, rows, curves."""
        paint_title(sheet, self.title)
        self._plan.paint(sheet)

    @cached_property
    def _plan(self) -> "_Plan":
        return _Plan(self._layout)


# ---------------------------------------------------------------- facts


def _lay_out(trace: Any, most: int) -> Layout:
    curves = read_curves(trace)
    excluded, rows = [], []
    for buffer in look(trace):
        held = buffer.freed is None and buffer.verdict in _LEAKS
        if buffer.existed and not buffer.saved_by and not held:
            excluded.append((style.clean(buffer.name), buffer.nbytes))
        else:
            rows.append(_row(buffer, curves.clock))
    # Bytes, and drag as bytes averaged over the ops: one scale for "large" and "drags".
    ops = max(1, len(curves.clock.columns))
    weights = [(row.leaked, row.nbytes + row.drag / ops) for row in rows]
    ranked = sorted(range(len(rows)), key=lambda at: weights[at], reverse=True)
    shown, folded = sorted(ranked[:most]), [rows[at] for at in ranked[most:]]
    return Layout(
        tuple(rows[at] for at in shown),
        curves,
        len(folded),
        sum(row.nbytes for row in folded),
        sum(row.leaked for row in folded),
        tuple(excluded),
    )


def _row(buffer: Any, clock: Clock) -> Row:
    ending = "freed" if buffer.freed is not None else buffer.verdict or _UNKNOWN
    freed = {"freed": buffer.freed, "cycle": clock.collected}.get(ending)
    return Row(
        style.clean(buffer.name),
        buffer.nbytes,
        _bars(buffer, clock, ending, clock.after.end if freed is None else freed),
        buffer.allocated,
        buffer.existed,
        buffer.saved,
        buffer.last_use,
        freed,
        buffer.drag,
        ending,
        *_words(buffer, ending),
    )


def _bars(buffer: Any, clock: Clock, ending: str, end: float) -> tuple[Bar, ...]:
    """The stretches of a row, without those that are empty."""
    born = buffer.allocated
    if buffer.last_use is None and buffer.saved is None:
        return (Bar(born, end, "void"),)
    alive_until = clock.end if buffer.freed is None else buffer.freed
    kept = ending not in ("freed", *_LEAKS)
    dead = max(born, alive_until)
    if buffer.drag or kept:
        last = born if buffer.last_use is None else buffer.last_use
        # Drag begins when the op of the last use is over: before, nobody could let go.
        over = last + 1 if kept else clock.over(last)
        # An op that was not recorded left no mark: then the next step must do.
        dead = over if over < dead else min(last + 1, dead)
    tail = "kept" if kept else "drag"
    waits = dead
    if buffer.saved is not None:
        forward = buffer.last_forward_use
        waits = min(dead, max(buffer.saved, 0 if forward is None else forward + 1))
    stretches = (Bar(born, waits, "use"), Bar(waits, dead, "saved"), Bar(dead, end, tail))
    # A buffer that lived between two events has no length, and a row all the same.
    return tuple(bar for bar in stretches if bar.start < bar.end) or (Bar(born, end, "use"),)


def _words(buffer: Any, ending: str) -> tuple[str, str]:
    """How a life ended, and who is to blame."""
    blame = style.clean(buffer.holder)
    if ending == "outside":
        return (f"HELD by {blame}" if blame else "HELD, by whom was not found"), blame
    if ending == "cycle":
        return "CYCLE, freed by gc.collect()" + (f": {blame}" if blame else ""), blame
    if ending == _UNKNOWN and not buffer.existed:
        return "alive at the end", blame
    if ending != "freed":
        return (f"kept: {blame}" if blame else "kept by the caller"), blame
    return f"freed: step {buffer.freed}{_by(style.clean(buffer.freed_by))}", ""


def _by(phase: str) -> str:
    """` by engine after mul#1`, but ` after mul#1` and ` at the end of mul#1`."""
    if phase.startswith("end of"):
        return f" at the {phase}"
    return f" {phase}" if phase.startswith(("after", "during")) else f" by {phase}" if phase else ""


def _caption(layout: Layout) -> str:
    if not layout.curves.retained.values:
        return curve_caption(layout.curves)
    buffers = style.count_of(len(layout.rows) + layout.folded, "buffer")
    leaks = f"{layout.leaks} of {buffers} leaked" if layout.leaks else f"{buffers}, none leaked"
    return f"{leaks}; {curve_caption(layout.curves)}"


def _omissions(layout: Layout) -> list[str]:
    """What has no row, in sentences."""
    lines = []
    if layout.folded:
        smaller = style.count_of(layout.folded, "smaller buffer")
        leaks = f", {layout.folded_leaks} of them leaked" if layout.folded_leaks else ""
        lines.append(f"and {smaller}, {style.format_bytes(layout.folded_bytes)}{leaks}")
    if layout.excluded:
        names = [style.shorten(name, 20) for name, _ in layout.excluded[:4]]
        more = len(layout.excluded) - len(names)
        total = style.format_bytes(sum(nbytes for _, nbytes in layout.excluded))
        named = ", ".join(names) + (f" and {more} more" if more else "")
        lines.append(f"parameters excluded (neither saved nor held): {named}, {total}")
    return lines


# ---------------------------------------------------------------- text


def _row_table(layout: Layout) -> list[str]:
    rows = [("buffer", "bytes", "born", "saved", "last use", "freed", "drag", "how it ended")]
    for row in layout.rows:
        # What the caller keeps may be used after the trace: no picture calls that drag.
        drag = row.drag // max(1, row.nbytes) if row.ending in ("freed", *_LEAKS) else 0
        rows.append(
            (
                style.shorten(row.name, 22),
                style.format_bytes(row.nbytes),
                "before" if row.existed else str(row.born),
                "" if row.saved is None else str(row.saved),
                "never" if row.last_use is None else str(row.last_use),
                "gc" if row.ending == "cycle" else "" if row.freed is None else f"{row.freed:.0f}",
                style.count_of(drag, "op") if drag else "",
                re.sub(r"^freed: step \d+ ?", "", row.note),
            )
        )
    return style.table(rows, "<>>>>>><") if layout.rows else ["no buffers were recorded"]


# ---------------------------------------------------------------- picture

_PITCH = 16.0
_TALL_PITCH = 23.0
_BAR = 10.0


class _Plan:
    """Where things stand on the sheet. Measures texts, so it needs matplotlib."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.names = [style.shorten(row.name, 22) for row in layout.rows]
        self.sizes = [style.format_bytes(row.nbytes) for row in layout.rows]
        self.notes = [_note_lines(row) for row in layout.rows]
        self.omissions = _omissions(layout)
        self.empty = not layout.curves.retained.values
        if self.empty:
            self.height = 64.0
            return
        widths = [
            style.text_width(f"{name} {size}")
            for name, size in zip(self.names, self.sizes, strict=True)
        ]
        left = MARGIN + max([62.0, *widths]) + 6
        right = WIDTH - MARGIN - self._note_width()
        self.legend_rows, self.legend = _legend(layout)
        self.labels = 30 + 14 * self.legend_rows + label_band(layout.clock)
        self.top = self.labels + 3
        pitches = [_TALL_PITCH if detail else _PITCH for _, detail in self.notes]
        self.middles = [
            self.top + sum(pitches[:at]) + pitches[at] / 2 for at in range(len(pitches))
        ]
        self.bottom = self.top + sum(pitches) + 2
        below = self.bottom + 12 * len(self.omissions)
        self.place = Place(left, right, below + 34, below + 154)
        self.x = self.place.scale(layout.clock)
        self.height = self.place.bottom + 46

    def _note_width(self) -> float:
        """The width of the words at the right: as wide as they are, within reason."""
        widths = [150.0]
        for row, (head, detail) in zip(self.layout.rows, self.notes, strict=True):
            widths.append(style.text_width(head, bold=row.leaked))
            widths.append(style.text_width(detail))
        return min(max(widths), 210.0) + 18

    def paint(self, sheet: style.Sheet) -> None:
        """The whole picture but its title."""
        if self.empty:
            paint_nothing(sheet)
            return
        for item in self.legend:
            item(sheet)
        spans = [(self.top, self.bottom), (self.place.top - 4, self.place.bottom)]
        paint_columns(sheet, self.layout.clock, self.x, self.labels, spans)
        for at in range(len(self.layout.rows)):
            self._paint_row(sheet, at)
        for at, line in enumerate(self.omissions):
            y = self.bottom + 10 + 12 * at
            room = self.place.right - self.place.left
            sheet.text(self.place.left, y, style.fit(line, room), ink=style.FAINT_INK)
        paint_curves(sheet, self.layout.curves, self.place, self.x)

    def _paint_row(self, sheet: style.Sheet, at: int) -> None:
        row, y, x = self.layout.rows[at], self.middles[at], self.x
        faint, end = style.FAINT_INK, self.place.left - 6
        sheet.text(end, y + 2.8, self.sizes[at], align="right", ink=faint)
        end -= style.text_width(f" {self.sizes[at]}")
        sheet.text(end, y + 2.8, self.names[at], align="right")
        for bar in row.bars:
            left, right = x(bar.start), x(bar.end)
            sheet.bar(left, max(right, left + 1.5), y - _BAR / 2, y + _BAR / 2, bar.kind)
        if row.last_use is not None:
            # An event lasts one step, and what it frees is freed at its end.
            used = row.last_use + 1 if row.freed is None else min(row.last_use + 1, row.freed)
            sheet.sign(x(used), y - _BAR / 2, "last use")
        if row.freed is not None:
            sheet.sign(max(x(row.freed), x(row.born) + 1.5), y, "freed")
        else:
            sheet.sign(self.place.right, y, "never", row.bars[-1].kind)
        self._paint_note(sheet, row, self.notes[at], y)

    def _paint_note(self, sheet: style.Sheet, row: Row, note: tuple[str, str], y: float) -> None:
        left = self.place.right + 14
        room = WIDTH - MARGIN - left
        ink = style.RED_INK if row.leaked else style.FAINT_INK
        head, detail = note
        y += -1.6 if detail else 2.6
        head = style.fit(head, room, bold=row.leaked)
        sheet.text(left, y, head, ink=ink, bold=row.leaked)
        sheet.text(left, y + 9, style.fit(detail, room), ink=ink)


def _note_lines(row: Row) -> tuple[str, str]:
    """The words at the right of a row; a leak has two lines, its row is the one to read."""
    if not row.leaked:
        return row.note, ""
    if row.ending == "cycle":
        return "CYCLE, freed by gc.collect()", row.blame
    who, _, how = row.note.partition(", ")
    return who, how


def _legend(layout: Layout) -> tuple[int, list[Callable[[style.Sheet], None]]]:
    """Which bars and signs mean what: the number of lines, and what paints each item."""
    used = {bar.kind for row in layout.rows for bar in row.bars} | {"use", "saved", "drag"}
    items: list[Callable[[style.Sheet], None]] = []
    x, y = MARGIN, 34.0
    entries = [(kind, look.meaning) for kind, look in style.LOOKS.items() if kind in used]
    entries += [("last use", "last use"), ("freed", "freed"), ("never", "never freed")]
    for kind, words in entries:
        swatch = 16 if kind in style.LOOKS else 6
        wide = swatch + 4 + style.text_width(words)
        if x + wide > WIDTH - MARGIN:
            x, y = MARGIN, y + 14
        items.append(_legend_item(x, y, kind, words, swatch))
        x += wide + 14
    return round((y - 34) / 14) + 1, items


def _legend_item(
    x: float, y: float, kind: str, words: str, swatch: float
) -> Callable[[style.Sheet], None]:
    def paint(sheet: style.Sheet) -> None:
        if kind in style.LOOKS:
            sheet.bar(x, x + swatch, y - 7, y + 1, kind)
        elif kind == "never":
            sheet.sign(x - 1, y - 2.8, kind)
        else:
            sheet.sign(x + 3, y - (2.8 if kind == "freed" else 0.8), kind)
        sheet.text(x + swatch + 4, y, words)

    return paint
