"""What the chapters show with: errors as text, tables, and plots that have a text twin."""

import ast
import difflib
import io
import json
import re
import sys
import textwrap
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from lucid_mini.draw import Figure

_HERE = Path(__file__).parent
#: Letters that fit into a line under a cell.
_WIDTH = 84
#: The code cells of the chapter that runs, for a name that is missing.
_CELLS: list[str] = []


def start(chapter: str) -> None:
    """Begin a chapter: the book's look for plots, and errors that help.

    A name that is missing is answered with the cell that makes it; other errors show the lines of
    the reader, and not those inside the package.
    """
    if "matplotlib.pyplot" in sys.modules:  # what draws nothing does not wait for it
        _pyplot()
    try:
        shell = get_ipython()  # type: ignore[name-defined]
    except NameError:
        return  # not in a notebook
    _CELLS[:] = _code_cells(chapter)

    def say(shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: Any = None) -> Any:
        name = getattr(error, "name", None)
        if kind is not NameError or not name:
            shell.showtraceback((kind, error, own_lines(trace)), tb_offset=tb_offset)
            return
        sentence = missing(name, _CELLS, list(shell.user_ns))
        shell._showtraceback(NameError, NameError(sentence), [f"NameError: {sentence}"])

    shell.set_custom_exc((Exception,), say)


def _pyplot() -> Any:
    """Pyplot, with the look of the book."""
    import matplotlib.pyplot as plt

    plt.style.use(_HERE / "style.mplstyle")
    return plt


def own_lines(trace: Any) -> Any:
    """The traceback `trace` without the frames inside the package."""
    frames = []
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if name.split(".")[0] != "lucid_mini":
            frames.append(trace)
        trace = trace.tb_next
    own = None
    for frame in reversed(frames):
        own = types.TracebackType(own, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return own


def _code_cells(chapter: str) -> list[str]:
    """The code cells of the notebook whose name begins with `chapter`, in the working folder."""
    for path in sorted(Path().glob(f"{chapter}_*.ipynb")):
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        except Exception:  # a notebook that is being saved
            continue
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return []


def missing(name: str, cells: Sequence[str], known: Sequence[str] = ()) -> str:
    """One sentence on where `name` comes from: the cell that makes it, or a name spelt alike."""
    for source in cells:
        if name in _made_by(source):
            return (
                f"`{name}` is missing. The cell that begins with {_beginning(source, cells)} makes "
                f"it: run that cell first, or all cells from the top."
            )
    like = difflib.get_close_matches(name, [n for n in known if not n.startswith("_")], 1)
    hint = f" Did you mean `{like[0]}`?" if like else ""
    return f"`{name}` is missing, and no cell of this chapter makes it.{hint}"


def _beginning(source: str, cells: Sequence[str]) -> str:
    """The first line of a cell, and the second where another cell begins in the same way."""
    heads = [[line.strip() for line in cell.splitlines() if _code(line)][:2] for cell in cells]
    first, *second = heads[cells.index(source)]
    alike = sum(head[:1] == [first] for head in heads) > 1
    return ", then ".join(f"`{line}`" for line in [first, *(second if alike else [])])


def _code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _made_by(source: str) -> set[str]:
    """The names that a cell binds at its outermost level."""
    try:
        body = ast.parse(source)
    except SyntaxError:
        return set()
    found: set[str] = set()
    pending: list[ast.AST] = [body]
    while pending:
        for part in ast.iter_child_nodes(pending.pop()):
            if isinstance(part, ast.FunctionDef | ast.ClassDef):
                found.add(part.name)
                continue
            if isinstance(part, ast.alias):
                found.add(part.asname or part.name.split(".")[0])
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found.add(part.id)
            pending.append(part)
    return found


@contextmanager
def attempt() -> Iterator[None]:
    """Run the block, and print the errors and warnings it raises: class and message, nothing else.

    An error that leaves a cell keeps every variable of the functions it passed through alive. This
    one is dropped here, with all it holds.
    """
    said = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except NameError as error:
            skipped = error.name and _CELLS
            text = _text(NameError(missing(error.name, _CELLS)) if skipped else error)
        except Exception as error:
            text = _text(error)
        else:
            text = ""
    for warning in caught:
        print(_text(warning.message))
        said += 1
    if text:
        print(text)
    elif not said:
        print("nothing was raised")


def _text(error: Any) -> str:
    """Class, message and notes, broken at spaces: a cell would break them within a word."""
    notes = [f"  {note}" for note in getattr(error, "__notes__", ())]
    lines = "\n".join([f"{type(error).__name__}: {error}", *notes]).splitlines()
    return "\n".join(
        textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_long_words=False)
        for line in lines
    )


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows in columns; numbers stand to the right."""
    print("\n".join(_columns(head, rows)))


def _columns(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[at]) for line in [list(head), *cells]) for at in range(len(head))]
    right = [
        bool(rows) and all(re.fullmatch(r"[-\d., ]*", row[at]) for row in cells)
        for at in range(len(head))
    ]
    lines = []
    for line in [list(head), *cells]:
        columns = zip(line, widths, right, strict=True)
        lines.append("  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in columns).rstrip())
    return lines


class Plot(Figure):
    """A matplotlib figure as the book shows it: a picture with alternative text, and a text twin.

    `caption` stands under the picture and carries its numbers; `text` is the twin, what a terminal
    shows and what the tests compare.
    """

    def __init__(self, figure: Any, *, title: str, caption: str, text: str) -> None:
        """Draw `figure` and close it, so that it is shown once."""
        self.title = title
        self.caption = caption
        self._text = text
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
        self._svg = drawn.getvalue()
        _pyplot().close(figure)

    def text(self) -> str:
        """Title, twin and caption."""
        return "\n".join([self.title, "", self._text, "", self.caption])

    def svg(self) -> str:
        """The picture, with title and description."""
        words = f"<title>{_safe(self.title)}</title><desc>{_safe(self.text())}</desc>"
        start = self._svg.index("<svg")
        end = self._svg.index(">", start) + 1
        return f"{self._svg[start:end]}{words}{self._svg[end:]}"


def saved_bars(saved: Mapping[str, Any], *, title: str) -> Plot:
    """What several programs have saved, a bar for each: `{name: lm.lifetime.saved(loss)}`.

    A buffer that two nodes keep is drawn once, at the first.
    """
    figure, axes = _pyplot().subplots(figsize=(7.2, 0.8 + 0.6 * len(saved)))
    for row, values in enumerate(saved.values()):
        left = 0.0
        for value in values:
            if value.counted:
                size = value.nbytes / 1024
                place = {"left": left, "height": 0.6}
                axes.barh(row, size, color="#56B4E9", edgecolor="white", hatch="////", **place)
                axes.barh(row, size, fill=False, **place)
                label = f"{value.node} {value.slot}"
                middle = left + size / 2
                axes.text(middle, row, label, ha="center", va="center", fontsize=8, bbox=_WHITE)
                left += size
        axes.text(left, row, f"  {left:.0f} KiB", va="center")
    axes.set_title(title)
    axes.set_yticks(range(len(saved)), list(saved))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(values.nbytes for values in saved.values()) / 1024)
    axes.set_xlabel("KiB saved, each buffer once")
    return Plot(
        figure,
        title=title,
        caption="; ".join(f"{name}: {values.nbytes:,} bytes" for name, values in saved.items())
        + ".",
        text="\n\n".join(f"{name}\n{values}" for name, values in saved.items()),
    )


#: Lines and areas that differ without colour.
_LINES = ("-", "--", ":", "-.")
_AREAS = (
    ("#E4E4E4", ""),
    ("#56B4E9", "////"),
    ("#0072B2", ""),
    ("#CC79A7", "\\\\\\\\"),
    ("#FFFFFF", "...."),
)
#: What a label needs of the height of the axes.
_LABEL = 0.07
_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}


def curves(
    lines: Mapping[str, Sequence[float]],
    *,
    x: str,
    y: str,
    title: str,
    caption: str,
    log: bool = False,
    steps: bool = False,
    named: str = "end",
) -> Plot:
    """One curve per name, over 1, 2, 3 …; `x` and `y` say what stands on the axes.

    Curves that lie on each other are drawn once, under all their names. `steps`: a value holds
    until the next one. `named`: where the names stand, at the `end` of the curves or at their
    `top`.
    """
    figure, axes = _pyplot().subplots()
    drawn: dict[tuple[float, ...], list[str]] = {}
    for name, values in lines.items():
        drawn.setdefault(tuple(values), []).append(name)
    style = "steps-post" if steps else "default"
    for values, line in zip(drawn, cycle(_LINES), strict=False):
        at = range(1, len(values) + 1)
        axes.plot(at, values, linestyle=line, drawstyle=style, clip_on=False)
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, 1.05 * max(max(values) for values in drawn))
    _axes(axes, x, y, title)
    if named == "top":
        _name_tops(axes, drawn)
    else:
        _name_ends(axes, drawn)
    return Plot(figure, title=title, caption=caption, text=_twin(lines, x, y))


def _axes(axes: Any, x: str, y: str, title: str) -> None:
    """Words at the axes; steps and nodes have no halves."""
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def _name_ends(axes: Any, drawn: Mapping[tuple[float, ...], Sequence[str]]) -> None:
    """Names at the right of the curves, as high as their ends, and apart from each other."""
    longest = max(map(len, drawn))
    axes.get_ylim()  # the limits are found now, not when all is drawn
    into = axes.transData + axes.transAxes.inverted()
    ends = []
    for values, names in drawn.items():
        height = into.transform((longest, max(values[-1], 1e-9)))[1]
        ends.append((height, "\n".join(names), _LABEL * len(names), (len(values), values[-1])))
    lowest = -_LABEL / 2
    for height, words, room, end in sorted(ends):
        middle = max(height, lowest + room / 2)
        lowest = middle + room / 2
        axes.annotate(
            words,
            xy=end,
            xytext=(1.03, middle),
            textcoords="axes fraction",
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": "#4D4D4D", "linewidth": 0.6, "shrinkB": 2},
        )


def _name_tops(axes: Any, drawn: Mapping[tuple[float, ...], Sequence[str]]) -> None:
    """Names beside the highest points of the curves."""
    for values, names in drawn.items():
        top = max(values)
        axes.annotate(
            ", ".join(names),
            xy=(values.index(top) + 1, top),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            bbox=_WHITE,
        )


def stacked(
    parts: Mapping[str, Sequence[float]],
    *,
    x: str,
    y: str,
    title: str,
    caption: str,
    beside: Mapping[str, tuple[float, float]],
) -> Plot:
    """What several parts add up to, over 1, 2, 3 …: one area upon the other, named inside.

    `beside` says where the names stand that are wider than their areas; a line leads there.
    """
    figure, axes = _pyplot().subplots()
    together = [sum(column) for column in zip(*parts.values(), strict=True)]
    floor = [0.0] * len(together)
    at = range(1, len(together) + 1)
    for (name, values), (fill, hatch) in zip(parts.items(), cycle(_AREAS), strict=False):
        top = [low + value for low, value in zip(floor, values, strict=True)]
        ink = "#10202B" if fill == "#FFFFFF" else "#FFFFFF"
        axes.fill_between(
            at, floor, top, step="post", facecolor=fill, edgecolor=ink, hatch=hatch, linewidth=0
        )
        for edge in (floor, top):
            axes.plot(at, edge, drawstyle="steps-post", color="#10202B", linewidth=0.7)
        first, last = _longest([value > 0.45 * max(values) for value in values])
        middle = (first + last) // 2
        inside = ((first + last) / 2 + 1.5, (floor[middle] + top[middle]) / 2)
        axes.annotate(
            name,
            xy=inside,
            xytext=beside.get(name, inside),
            ha="center",
            va="center",
            bbox=_WHITE,
            arrowprops={"arrowstyle": "-", "color": "#10202B"} if name in beside else None,
        )
        floor = top
    _axes(axes, x, y, title)
    axes.set_ylim(0, 1.05 * max(together))
    text = _twin({**parts, "together": together}, x, y)
    return Plot(figure, title=title, caption=caption, text=text)


def _longest(flags: Sequence[bool]) -> tuple[int, int]:
    """First and last index of the longest run of True."""
    best, first = (0, -1), None
    for at, flag in enumerate([*flags, False]):
        if flag and first is None:
            first = at
        elif not flag and first is not None:
            best, first = max(best, (first, at - 1), key=lambda run: run[1] - run[0]), None
    return best


def _twin(lines: Mapping[str, Sequence[float]], x: str, y: str) -> str:
    """The lines as a table: the first value, then at each quarter of the longest."""
    longest = max(len(values) for values in lines.values())
    at = sorted({1, *(round(longest * part / 4) for part in (1, 2, 3, 4))} - {0})
    rows = [
        [name, *(f"{values[n - 1]:,.0f}" if n <= len(values) else "" for n in at)]
        for name, values in lines.items()
    ]
    return f"{y}, over {x}\n" + "\n".join(_columns(["", *(str(n) for n in at)], rows))


#: What an event does to the memory it names, and how it is marked.
_TOUCHES = {"alloc": "made by", "save": "saved by", "write": "written by", "unpack": "read by"}


def versions(trace: Any, buffer: str, *, title: str) -> Plot:
    """The version of one buffer of a trace over the events that make, save, write and read it."""
    version = 0
    saved: dict[str, int] = {}
    rows: list[list[str]] = []
    for event in trace.events:
        if event.buffer != buffer or event.kind not in _TOUCHES:
            continue
        version += event.kind == "write"
        said = ""
        if event.kind == "save":
            saved[event.node] = version
        elif event.kind == "unpack" and event.node in saved:
            fits = saved[event.node] == version
            said = f"saved at {saved[event.node]}, {'the same' if fits else f'now {version}'}"
        row = [f"{_TOUCHES[event.kind]} {event.node}", str(version), said]
        if row not in rows[-1:]:
            rows.append(row)
    figure, axes = _pyplot().subplots(figsize=(7.2, 2.6))
    at, counts = range(len(rows)), [int(row[1]) for row in rows]
    axes.step(at, counts, where="post", color="#0072B2")
    for x, (what, count, said) in enumerate(rows):
        wrong = "now" in said
        axes.plot(x, int(count), "X" if wrong else "o", color="#8A3800" if wrong else "#0072B2")
        words = what.replace(" by ", " by\n") + (f"\n{said}" if said else "")
        axes.annotate(words, (x, int(count)), (0, 8), textcoords="offset points", ha="center")
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks(range(max(counts, default=0) + 1))
    axes.set_ylabel("version")
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_ylim(-0.3, max(counts, default=0) + 1)
    return Plot(
        figure,
        title=title,
        caption=f"{buffer} was written {version} times.".replace("1 times", "once"),
        text="\n".join(_columns(["event", "version", ""], rows)),
    )


def shapes(inputs: Mapping[str, Any], shape: tuple[int, ...], *, title: str) -> Plot:
    """How inputs are broadcast to `shape`, and over which axes their gradients are summed."""
    rows = []
    for name, value in inputs.items():
        added = len(shape) - value.ndim
        gone = [f"{axis}" for axis in range(added)]
        kept = [
            f"{axis}"
            for axis in range(added, len(shape))
            if value.shape[axis - added] == 1 and shape[axis] != 1
        ]
        repeats = ", ".join(f"axis {axis}: {shape[int(axis)]} times" for axis in gone + kept)
        sums = ", ".join([f"axis {a}, gone" for a in gone] + [f"axis {a}, kept as 1" for a in kept])
        rows.append([name, str(value.shape), repeats or "nothing", str(shape), sums or "nothing"])
    figure, axes = _pyplot().subplots(figsize=(7.2, 0.4 + 0.9 * len(rows)))
    axes.set_axis_off()
    axes.set_xlim(0, 10)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    box = {"boxstyle": "round", "facecolor": "#E6E6E6", "edgecolor": "#222222"}
    for y, (name, small, repeats, large, sums) in enumerate(rows):
        axes.text(1, y, f"{name} {small}", ha="center", va="center", bbox=box)
        axes.text(9, y, large, ha="center", va="center", bbox=box)
        for dy, start_x, end_x, style, color, words in (
            (-0.14, 2.0, 8.1, "-", "#0072B2", f"forward repeats {repeats}"),
            (0.14, 8.1, 2.0, "--", "#8A3800", f"backward sums {sums}"),
        ):
            arrow = {"arrowstyle": "->", "linestyle": style, "color": color, "linewidth": 1.6}
            axes.annotate("", (end_x, y + dy), (start_x, y + dy), arrowprops=arrow)
            axes.text(5, y + 1.9 * dy, words, ha="center", va="center", fontsize=8.5, color=color)
    axes.set_title(title)
    summed = sum(row[4] != "nothing" for row in rows)
    return Plot(
        figure,
        title=title,
        caption=f"{summed} of {len(rows)} gradients are summed.",
        text="\n".join(
            _columns(["input", "shape", "forward repeats", "output", "backward sums"], rows)
        ),
    )


def _safe(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
