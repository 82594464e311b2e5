"""The look of every picture, in one place: colours, hatches, fonts, bytes and names in words.

Pictures are painted on a `Sheet`, in points, from the top left corner, never with pyplot and never
with the settings of the person who looks: the same facts give the same bytes, on every run.
matplotlib is imported when something is painted or measured, not before; texts do without it.
"""

import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from math import radians, sin
from typing import Any, NamedTuple

from lucid_mini.draw.figure import Figure, PictureError

INK = "#000000"
OUTLINE = "#10202B"
FAINT_INK = "#4D4D4D"
RED_INK = "#8A3800"


class Look(NamedTuple):
    """How a bar of one kind is filled. The hatch carries the meaning where colour cannot."""

    fill: str
    hatch: str
    ink: str  # of the hatch
    dashed: bool
    meaning: str


#: Kinds of bar: what the bytes were doing. Distinct in every kind of colour vision, and in grey.
LOOKS = {
    "use": Look("#0072B2", "", "", False, "in use (first to last forward use)"),
    "saved": Look("#56B4E9", "////", "#FFFFFF", False, "saved, waiting for backward"),
    "drag": Look("#D55E00", "xxxxxx", "#FFFFFF", False, "drag: dead but still held"),
    "kept": Look("#E4E4E4", "", "", False, "kept by the caller"),
    "void": Look("#FFFFFF", "", "", True, "void: never used"),
}


class Stroke(NamedTuple):
    """How a line is drawn: colour, width, and the lengths of ink and gap."""

    ink: str
    width: float
    dashes: tuple[float, ...] = ()


#: The lines of the memory curve, each over the one before: where they agree, all show.
STROKES = {
    "retained": Stroke(INK, 1.6),
    "needed by this program": Stroke("#56B4E9", 1.6, (3.5, 2)),
    "needed by the algorithm": Stroke("#CC79A7", 1.6, (1.2, 1.4)),
}
AXIS = Stroke(INK, 0.8)
GRID = Stroke("#DADADA", 0.7)
BOUNDARY = Stroke(INK, 1.1, (3.5, 2))

#: Points in an inch; a sheet is measured in points.
_INCH = 72
_PNG_DPI = 144
_HOW_TO_GET_PICTURES = (
    "Pictures need matplotlib: pip install 'lucid-mini[book]'. The text says the same without it."
)


# ---------------------------------------------------------------- words and numbers


def format_bytes(count: float) -> str:
    """`count` bytes with three digits and a binary unit: 20 B, 512 KiB, 1.53 MiB."""
    if count < 0:
        return f"-{format_bytes(-count)}"
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    for unit in units:
        digits = 0 if count >= 100 or unit == "B" else 1 if count >= 10 else 2
        number = f"{count:.{digits}f}"
        # Decided by the rounded number: 1023.7 KiB would read "1024 KiB" for what is 1 MiB.
        if float(number) < 1024 or unit == units[-1]:
            break
        count /= 1024
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"


def format_share(part: float, whole: float) -> str:
    """`part` of `whole` in percent, with one decimal: 8.4 %. Nothing of nothing is 0 %."""
    return f"{100 * part / whole:.1f} %" if part else "0 %"


def count_of(number: int, noun: str) -> str:
    """`1 buffer`, `2 buffers`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def clean(name: object) -> str:
    """`name` on one line, without what XML forbids or what turns the direction of writing."""
    return "".join(
        sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in str(name)
    )


def shorten(name: str, limit: int) -> str:
    """`name` in at most `limit` cells; the middle goes, because heads and numbers tell names apart.

    `grad of softmax_cross_entropy#12` in 20 cells is `grad of sof…ropy#12`.
    """
    name = clean(name)
    head, tail = name, ""
    if cells(name) > limit:
        tail = name[max(1, len(name) - (limit - 1) // 2) :]
        head = name[: limit - 1 - (limit - 1) // 2]
        # Letters that fill two cells: give up one at a time, from the longer side.
        while cells(head) + cells(tail) + 1 > limit and (head or tail):
            head, tail = (head[:-1], tail) if cells(head) >= cells(tail) else (head, tail[1:])
        return f"{head}…{tail}"
    return name


def cells(text: str) -> int:
    """How many cells of a terminal `text` fills: a wide letter two, a combining one none."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def table(rows: Iterable[Sequence[str]], aligned: str, width: int = 100) -> list[str]:
    """Rows as lines whose columns stand under each other; the last column is wrapped at `width`.

    `aligned` has one of `<` and `>` per column.
    """
    rows = [tuple(row) for row in rows]
    widths = [max(cells(row[at]) for row in rows) for at in range(len(aligned) - 1)]
    indent = sum(widths) + 2 * len(widths)
    lines = []
    for row in rows:
        start = "".join(
            _pad(cell, wide, side) + "  "
            for cell, wide, side in zip(row, widths, aligned, strict=False)
        )
        pieces = wrap(row[-1], max(20, width - indent)) or [""]
        lines.append((start + pieces[0]).rstrip())
        lines += [" " * indent + piece for piece in pieces[1:]]
    return lines


def wrap(text: str, width: int = 100, indent: str = "") -> list[str]:
    """`text` in lines of at most `width` cells; lines after the first begin with `indent`."""
    # Wide letters: textwrap counts letters, so it is given half the width where there are any.
    room = width if cells(text) == len(text) else width // 2
    return textwrap.wrap(text, room, subsequent_indent=indent, break_on_hyphens=False)


def wrap_items(head: str, items: Sequence[str], width: int = 100) -> list[str]:
    """`head`, then the items with dots between them; a line ends between items only."""
    whole = "\N{NO-BREAK SPACE}· ".join(item.replace(" ", "\N{NO-BREAK SPACE}") for item in items)
    lines = wrap(head + whole, width, " " * len(head)) if items else []
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _pad(text: str, width: int, side: str) -> str:
    gap = " " * (width - cells(text))
    return gap + text if side == ">" else text + gap


# ---------------------------------------------------------------- axes


def byte_ticks(lowest: int, highest: int) -> list[int]:
    """Round numbers of bytes from `lowest` to `highest`, a power of two apart, at most seven."""
    step = 1
    while (highest - lowest) / step > 6:
        step *= 2
    return list(range(-(-lowest // step) * step, highest + 1, step))


def clock_ticks(end: int, most: int = 10) -> list[int]:
    """Round steps of a clock from 0 to `end`, at most `most` of them after the 0."""
    step = 1
    for step in (factor * 10**power for power in range(19) for factor in (1, 2, 5)):
        if end <= step * most:
            break
    return list(range(0, end + 1, step))


def thin(positions: Sequence[float], gap: float, first: Iterable[int] = ()) -> list[int]:
    """Indices of the positions that keep `gap` from each other; those in `first` choose first."""
    chosen: list[int] = []
    for index in dict.fromkeys([*first, *range(len(positions))]):
        if all(abs(positions[index] - positions[other]) >= gap for other in chosen):
            chosen.append(index)
    return sorted(chosen)


# ---------------------------------------------------------------- painting


class Sheet:
    """What a picture is painted on. Points from the top left corner, y downwards.

    Every text is plain: a `$` in a user's name starts no formula, a `<` no element.
    """

    def __init__(self, width: float, height: float) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas

        self.width, self.height = width, height
        self.figure = Canvas(figsize=(width / _INCH, height / _INCH), dpi=_INCH, facecolor="white")
        FigureCanvasAgg(self.figure)
        self._axes = self.figure.add_axes((0, 0, 1, 1))
        self._axes.set_xlim(0, width)
        self._axes.set_ylim(height, 0)
        self._axes.set_axis_off()

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 8,
        *,
        ink: str = INK,
        bold: bool = False,
        align: str = "left",
        turn: float = 0,
        ground: str = "",
    ) -> None:
        """Write a line; `y` is its baseline, `turn` its angle, `ground` the colour behind it."""
        behind = {"facecolor": ground, "edgecolor": "none", "pad": 1} if ground else None
        self._axes.text(
            x,
            y,
            text,
            color=ink,
            fontproperties=_font(size, bold),
            ha=align,
            va="baseline",
            rotation=turn,
            rotation_mode="anchor",
            parse_math=False,
            bbox=behind,
            zorder=6,
        )

    def line(
        self,
        points: Sequence[tuple[float, float]],
        stroke: Stroke = AXIS,
        *,
        over: float = 3,
    ) -> None:
        """A line through `points`."""
        from matplotlib.lines import Line2D

        style: Any = (0, stroke.dashes) if stroke.dashes else "solid"
        xs, ys = zip(*points, strict=True)
        self._axes.add_line(
            Line2D(
                xs,
                ys,
                color=stroke.ink,
                linewidth=stroke.width,
                linestyle=style,
                zorder=over,
                dash_capstyle="butt",
                solid_capstyle="butt",
                solid_joinstyle="miter",
            )
        )

    def area(
        self,
        points: Sequence[tuple[float, float]],
        kind: str,
        *,
        outline: bool = True,
        over: float = 4,
    ) -> None:
        """A closed area through `points`, filled as a bar of this kind."""
        from matplotlib.patches import Polygon

        look = LOOKS[kind]
        # The fill, then the outline: one patch would paint both and the hatch in one colour.
        self._axes.add_patch(
            Polygon(
                points,
                facecolor=look.fill,
                edgecolor=look.ink or look.fill,
                hatch=look.hatch or None,
                linewidth=0,
                zorder=over,
            )
        )
        if outline:
            style: Any = (0, (2.5, 1.5)) if look.dashed else "solid"
            self._axes.add_patch(
                Polygon(
                    points,
                    fill=False,
                    edgecolor=OUTLINE,
                    linewidth=0.7,
                    linestyle=style,
                    joinstyle="miter",
                    zorder=over + 0.1,
                )
            )

    def bar(self, left: float, right: float, top: float, bottom: float, kind: str) -> None:
        """A bar of this kind."""
        self.area([(left, top), (right, top), (right, bottom), (left, bottom)], kind)

    def sign(self, x: float, y: float, name: str, kind: str = "drag") -> None:
        """At x, y: the tip of `last use`, the centre of `freed` or the base of `never`."""
        from matplotlib.patches import Circle, Polygon

        if name == "freed":
            self._axes.add_patch(
                Circle((x, y), 2.7, facecolor="white", edgecolor=INK, linewidth=1.1, zorder=5.5)
            )
        elif name == "last use":
            self._axes.add_patch(
                Polygon(
                    [(x - 3, y - 4.1), (x + 3, y - 4.1), (x, y + 1.2)],
                    facecolor=INK,
                    edgecolor="white",
                    linewidth=0.5,
                    zorder=5.4,
                )
            )
        else:
            self._axes.add_patch(
                Polygon(
                    [(x, y - 5), (x + 8, y), (x, y + 5)],
                    facecolor=LOOKS[kind].fill,
                    edgecolor=OUTLINE,
                    linewidth=0.7,
                    zorder=5.3,
                )
            )


def text_width(text: str, size: float = 8, *, bold: bool = False) -> float:
    """The width of `text` in points.

    Raises: PictureError without matplotlib.
    """
    require_matplotlib()
    from matplotlib.textpath import text_to_path

    with no_complaints():
        return float(text_to_path.get_text_width_height_descent(text, _font(size, bold), False)[0])


def fit(text: str, width: float, size: float = 8, *, bold: bool = False) -> str:
    """`text`, its middle left out until it is at most `width` points wide.

    Raises: PictureError without matplotlib.
    """
    text = clean(text)
    short, limit = text, cells(text)
    while limit > 1 and text_width(short, size, bold=bold) > width:
        limit -= 1
        short = shorten(text, limit)
    return short


#: The angle of the labels over columns, in degrees, and how far apart they must begin.
SLANT = 33.0
SLANTED_GAP = 10 / sin(radians(SLANT))


class Painting(Figure):
    """A figure that is painted on a sheet. Subclasses define `text()`, `size()` and `paint()`."""

    def size(self) -> tuple[float, float]:
        """Width and height of the sheet, in points."""
        raise NotImplementedError

    def paint(self, sheet: Sheet) -> None:
        """Put everything on the sheet."""
        raise NotImplementedError

    def svg(self) -> str:
        """The picture as SVG; its `<desc>` is the text twin.

        Raises: PictureError without matplotlib.
        """
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        source = _printed(self, format="svg", metadata=nothing).decode()
        words = f"<title>{_escape(self.title)}</title>\n<desc>{_escape(self.text())}</desc>"
        return re.sub(
            r"<svg\b([^>]*)>", lambda tag: f'<svg{tag[1]} role="img">\n{words}', source, count=1
        )

    def png(self) -> bytes:
        """The picture as PNG, at twice the size of the SVG.

        Raises: PictureError without matplotlib.
        """
        return _printed(self, format="png", dpi=_PNG_DPI, metadata={"Software": None})


def require_matplotlib() -> None:
    """Nothing, or PictureError with the way to get pictures."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PictureError(_HOW_TO_GET_PICTURES) from None


def _printed(painting: Painting, **how: Any) -> bytes:
    require_matplotlib()
    with own_settings(), no_complaints():
        sheet = Sheet(*painting.size())
        painting.paint(sheet)
        out = io.BytesIO()
        sheet.figure.savefig(out, **how)
    return out.getvalue()


@contextmanager
def own_settings() -> Iterator[None]:
    """Make matplotlib what was shipped, whatever matplotlibrc or a style says; then undo that."""
    import matplotlib

    # Where a picture would be shown, and to whom, is not ours to reset: these choose no ink.
    theirs = ("backend", "interactive", "toolbar", "timezone", "webagg", "tk.", "figure.raise")
    with matplotlib.rc_context():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # settings on their way out
            matplotlib.rcParams.update(
                {
                    key: value
                    for key, value in matplotlib.rcParamsDefault.items()
                    if not key.startswith((*theirs, "savefig.directory", "date.epoch"))
                }
            )
        matplotlib.rcParams.update(
            {
                "svg.hashsalt": "lucid-mini",
                "svg.fonttype": "path",  # in <img> no font can be fetched: letters are drawn
                "hatch.linewidth": 0.9,
                "text.hinting": "none",  # a letter is as wide as it was measured
                "text.parse_math": False,
            }
        )
        yield


@contextmanager
def no_complaints() -> Iterator[None]:
    """A letter that the font lacks becomes a box; that is said once, in the picture."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        yield


def _font(size: float, bold: bool) -> Any:
    """DejaVu Sans, the file that matplotlib ships: another copy on the machine may differ."""
    import matplotlib
    from matplotlib.font_manager import FontProperties

    file = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return FontProperties(fname=f"{matplotlib.get_data_path()}/fonts/ttf/{file}", size=size)


def _escape(text: str) -> str:
    return "\n".join(escape(clean(line), quote=False) for line in text.split("\n"))
