"""Who holds it: the chain from a name the user wrote to the array, and where to cut it.

One box a hop. Beside each arrow stands how the hop before holds the next one, and in which line;
under the chain the source that does it, with the captured name underlined.
"""

import inspect
import io
import linecache
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

from lucid_mini.autograd.callsite import file_of
from lucid_mini.draw import style
from lucid_mini.draw.memory import MARGIN, WIDTH, paint_title
from lucid_mini.lifetime.buffers import Buffer
from lucid_mini.lifetime.holders import Chain

#: Of a longer chain the middle is left out.
_MOST_HOPS = 12
_MOST_LINES = 7
_LONGEST = 60
_FITS = 110  # no line on the sheet has room for more letters
_VERDICTS = {
    "outside": "HELD from outside: neither counting nor gc.collect() frees it",
    "cycle": "CYCLE: counting does not free it, gc.collect() does",
    "expected": "kept by a plain name, nothing hidden",
    "refcount": "freed by counting",
}


class Link(NamedTuple):
    """One hop: `what` is held by the hop before, `how`, at the line `where`.

    `by` names the hop before, where its box does not.
    """

    what: str
    how: str
    by: str
    where: str
    #: Whether this is the edge to cut.
    cut: bool
    #: How many hops are left out before this one.
    skipped: int


class Line(NamedTuple):
    """A line of source; `marks` are the columns, first and one past the last, of a name in it."""

    number: int
    text: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Held:
    """One piece of memory and who holds it, as plain data."""

    name: str
    nbytes: int
    links: tuple[Link, ...]
    #: How many other names lead there.
    others: int
    verdict: str
    #: The hop that matters, as `Chain.line` has it.
    line: str
    #: `file:line` of the source, and its lines; empty where there is none.
    where: str
    source: tuple[Line, ...]

    @property
    def leaked(self) -> bool:
        """Whether the verdict is that of a leak."""
        return self.verdict.startswith(("HELD", "CYCLE"))

    def cut(self) -> str:
        """What cutting the marked edge does, in words; "" where no edge is marked."""
        if not any(link.cut for link in self.links):
            return ""
        freed = style.format_bytes(self.nbytes)
        if self.others:
            return f"cut here and at {style.count_of(self.others, 'other name')}: frees {freed}"
        return f"cut here: frees {freed}"

    def about_others(self) -> str:
        """How many other names lead there, in words."""
        if not self.links:
            return ""
        if not self.others:
            return "No other name leads there."
        verb = "leads" if self.others == 1 else "lead"
        return f"{style.count_of(self.others, 'other name')} {verb} there, too."


def holders(chain: Any) -> "HoldersFigure":
    """The chain of holders that `lm.lifetime.why_alive` found, or those of a trace's buffer.

    `chain`: a chain, a buffer, or a list of them.

    Keeps: names and numbers, and the lines of source that it shows.
    Raises: TypeError for anything else.

    Example:
        >>> def look():
        ...     x = lm.ones(1000)
        ...     cache = {"last": [x]}
        ...     return lm.draw.holders(lm.lifetime.why_alive(x))
        >>> look()
        Who holds these 7.81 KiB
        <BLANKLINE>
           local 'cache' of look  a dict                   ...:4
           └ ['last']             a list
        ✂    └ [0]                tensor (1000,)
               └ its array        array (1000,), 7.81 KiB
        <BLANKLINE>
        ✂ cut here: frees 7.81 KiB
        <BLANKLINE>
        verdict: HELD from outside: neither counting nor gc.collect() frees it
        No other name leads there.
    """
    return HoldersFigure(chain)


class HoldersFigure(style.Painting):
    """Boxes and arrows from a name to the memory, the lines that do it, and the verdict."""

    def __init__(self, chain: Any) -> None:
        """Copy what the picture shows out of `chain`."""
        self._held = tuple(_read(chain))
        self.title = _title(self._held)
        self.caption = "; ".join(_summary(held) for held in self._held) or "nothing is held"

    def held(self) -> tuple[Held, ...]:
        """What the picture shows, as plain data."""
        return self._held

    def text(self) -> str:
        """Each chain as a table, a line per hop; then the source, the verdict, the other names."""
        lines = [style.shorten(self.title, 100)]
        for held in self._held:
            if len(self._held) > 1:
                lines += ["", _heading(held)]
            lines += ["", *_text_lines(held)]
        return "\n".join(lines).replace("\n\n\n", "\n\n")

    def size(self) -> tuple[float, float]:
        """As wide as a notebook, as high as the chains."""
        return WIDTH, 26 + sum(plan.height for plan in self._plans) + 8

    def paint(self, sheet: style.Sheet) -> None:
        """Title, then a chain under the other."""
        paint_title(sheet, self.title)
        top = 26.0
        for plan in self._plans:
            plan.paint(sheet, top)
            top += plan.height

    @cached_property
    def _plans(self) -> "list[_Plan]":
        return [_Plan(held, headed=len(self._held) > 1) for held in self._held]


# ---------------------------------------------------------------- facts


def _read(given: Any) -> Iterator[Held]:
    if isinstance(given, Chain):
        yield _held("", given, "expected" if given.is_plain and given.hops else "outside", "")
    elif isinstance(given, Buffer):
        chains = [chain for chain in given.holders if isinstance(chain, Chain)]
        verdict = given.verdict or ("refcount" if given.freed is not None else "")
        for chain in chains or [Chain((), given.nbytes)]:
            yield _held(style.clean(given.name), chain, verdict, style.clean(given.holder))
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _read(one)
    else:
        raise TypeError(
            f"holders takes a chain (lm.lifetime.why_alive makes one), a buffer of a trace, or a "
            f"list of them, not {type(given).__name__}"
        )


def _held(name: str, chain: Chain, verdict: str, blame: str) -> Held:
    where, source = _source(chain)
    return Held(
        name,
        chain.nbytes,
        tuple(_links(chain)),
        chain.others,
        _verdict(chain, verdict, blame),
        style.clean(chain.line),
        where,
        source,
    )


def _links(chain: Chain) -> Iterator[Link]:
    """The hops, without the middle of a long chain; the cut, its neighbours and both ends stay."""
    last = len(chain.hops) - 1
    shown: Sequence[int] = range(last + 1)
    if last >= _MOST_HOPS:
        near = {*range(4), *range(chain.cut - 2, chain.cut + 2), *range(last - 2, last + 1)}
        shown = sorted(near & set(shown))
    before, above = -1, ""
    for at in shown:
        hop = chain.hops[at]
        what, how, by, where = map(style.clean, (hop.what, hop.how, hop.by, hop.where))
        # What a plain variable holds is let go of by `del`: no edge hides it.
        cut = at == chain.cut and not chain.is_plain
        by = "" if by and above.endswith(f" {by}") else by
        yield Link(_with_unit(what), how, by, where, cut, at - before - 1)
        before, above = at, what


def _with_unit(what: str) -> str:
    """`array (4, 3), 96 B`: bytes as every figure writes them."""
    return re.sub(r"(\d+) bytes$", lambda found: style.format_bytes(int(found[1])), what)


def _verdict(chain: Chain, verdict: str, blame: str) -> str:
    if not chain.hops and verdict in ("", "outside"):
        if chain.stopped:
            return "no chain was found before the search stopped"
        return "no name leads to it"
    words = _VERDICTS.get(verdict, verdict or "alive, and nobody asked why")
    stopped = "; the search for other names stopped early" if chain.stopped else ""
    return f"{words}{f': {blame}' if blame and verdict == 'cycle' else ''}{stopped}"


def _title(all_held: Sequence[Held]) -> str:
    if len(all_held) == 1:
        held = all_held[0]
        size = style.format_bytes(held.nbytes)
        return f"Who holds {held.name}, {size}" if held.name else f"Who holds these {size}"
    total = style.format_bytes(sum(held.nbytes for held in all_held))
    return f"Who holds these {total}: {style.count_of(len(all_held), 'chain')}"


def _heading(held: Held) -> str:
    return f"{held.name or 'memory'}, {style.format_bytes(held.nbytes)}"


def _summary(held: Held) -> str:
    return f"{held.verdict}, through {held.line}" if held.cut() else held.verdict


# ---------------------------------------------------------------- source


def _source(chain: Chain) -> tuple[str, tuple[Line, ...]]:
    """The lines of code behind the cut, where the code can still be read and says the name."""
    if not chain.hops or chain.is_plain:
        return "", ()
    hop = chain.hops[chain.cut]
    named = re.search(r"'([^']+)'|\.(\w+)$", hop.how)
    file, _, number = hop.where.rpartition(":")
    if named is None or not number.isdigit():
        return "", ()
    name = named[1] or named[2]
    # Two files can have one last name: if both could have done it, none is shown.
    whole = hop.how.startswith(("closure", "default", "attribute"))
    found = {_block(path, int(number), hop.by, name, whole) for path in _files(file)} - {()}
    return (hop.where, found.pop()) if len(found) == 1 else ("", ())


def _files(name: str) -> list[str]:
    """The paths of the files, and of the notebook's cells, that are called `name`."""
    paths = dict.fromkeys(linecache.cache)
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str):
            paths[path] = None
    code: Callable[[str], Any] = lambda path: SimpleNamespace(co_filename=path)  # noqa: E731
    return [path for path in paths if isinstance(path, str) and file_of(code(path)) == name]


def _block(path: str, number: int, by: str, name: str, whole: bool) -> tuple[Line, ...]:
    """Line `number`, or the `whole` function `by` that begins there; () unless it has `name`."""
    lines = linecache.getlines(path)[number - 1 :]
    if not lines:
        return ()
    function = by.rpartition(".")[2]
    block = lines[:1]
    if whole:
        if not re.search(r"^\s*(@|(async\s+)?def\s)|\blambda\b", lines[0]):
            return ()
        block = inspect.getblock(lines)
        if function.isidentifier() and not any(function in line for line in block[:8]):
            return ()
    marks = _marks(block, name)
    margin = min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0)
    rows = [
        Line(
            number + at,
            line.rstrip()[margin:].expandtabs(4),
            tuple((start - margin, end - margin) for start, end in marks.get(at, ())),
        )
        for at, line in enumerate(block)
    ]
    return _shortened(rows) if marks else ()


def _marks(block: list[str], name: str) -> dict[int, list[tuple[int, int]]]:
    """Where `name` stands in the code, by line; not in its strings and comments."""
    marks: dict[int, list[tuple[int, int]]] = {}
    margin = len(block[0]) - len(block[0].lstrip())
    code = "".join(line[margin:] if line.strip() else "\n" for line in block)
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.NAME and token.string == name:
                row, column = token.start
                marks.setdefault(row - 1, []).append((column + margin, token.end[1] + margin))
    except (tokenize.TokenError, SyntaxError):
        pass  # a piece of code, or a line in the middle of a bracket: what was read counts
    return marks


def _shortened(rows: list[Line]) -> tuple[Line, ...]:
    """The first line, and those with marks, as many as are read at a glance."""
    rows = [row for row in rows if row.text.strip()]
    if len(rows) <= _MOST_LINES:
        return tuple(rows)
    marked = [row for row in rows[1:] if row.marks]
    return (rows[0], *marked[: _MOST_LINES - 1])


# ---------------------------------------------------------------- text


def _text_lines(held: Held) -> list[str]:
    rows = []
    for depth, link in enumerate(held.links):
        if link.skipped:
            rows.append(("", f"{'  ' * depth}… {style.count_of(link.skipped, 'hop')}", "", ""))
        arrow = f"{'  ' * (depth - 1)}└ " if depth else ""
        how = f"{arrow}{style.shorten(_by(link) + link.how, _LONGEST)}"
        rows.append(("✂" if link.cut else "", how, style.shorten(link.what, 44), link.where))
    lines = style.table(rows, "<<<<", 120) if rows else []
    if cut := held.cut():
        lines += ["", f"✂ {cut}"]
    if held.source:
        lines += ["", f"{held.where}", *_text_source(held.source)]
    lines += ["", *style.wrap(f"verdict: {held.verdict}", indent="  ")]
    others = held.about_others()
    return [*lines, others] if others else lines


def _text_source(source: Sequence[Line]) -> Iterator[str]:
    width = len(str(source[-1].number))
    for row, after in zip(source, [*source[1:], None], strict=True):
        yield f"  {row.number:>{width}}  {style.clean(row.text)}"
        if row.marks:
            under = [" "] * row.marks[-1][1]
            for start, end in row.marks:
                under[start:end] = "^" * (end - start)
            yield f"  {'':>{width}}  {''.join(under)}"
        if after is not None and after.number > row.number + 1:
            yield f"  {'…':>{width}}"


def _by(link: Link) -> str:
    return f"{link.by}: " if link.by else ""


# ---------------------------------------------------------------- picture

_BOX, _ARROW = 22.0, 30.0
_LEFT = MARGIN + 6
_STEM = _LEFT + 22
_CODE_SIZE = 8.0
_CODE_LINE = 13.0
#: DejaVu Sans Mono: every letter is as wide as this, in units of its size.
_CODE_WIDTH = 0.602
_CUT = style.Stroke(style.RED_INK, 1.6, (4, 2.5))
_UNDER = style.Stroke("#D55E00", 2.0)
_STEM_STROKE = style.Stroke(style.OUTLINE, 1.1)


class _Plan:
    """Where one chain stands on the sheet. Measures texts, so it needs matplotlib."""

    def __init__(self, held: Held, *, headed: bool) -> None:
        self.held = held
        self.head = 18.0 if headed else 0.0
        self.verdict = style.wrap(f"{held.verdict}. {held.about_others()}".strip(), 110)
        self.tops: list[float] = []
        bottom = self.head + 6
        for at, link in enumerate(held.links):
            bottom += (_ARROW if link.skipped else 0) + (_ARROW if at else 0)
            self.tops.append(bottom)
            bottom += _BOX
        self.code_x, self.code_y = _LEFT, bottom + 34
        if held.source:
            bottom = max(bottom, self._place_code(bottom))
        self.foot = bottom + 22
        self.height = self.foot + 13 * len(self.verdict)

    def _place_code(self, bottom: float) -> float:
        """Beside the edge to cut if all of it fits there, else below; returns where it ends."""
        held = self.held
        lines = len(held.source) + sum(
            after.number > row.number + 1 for row, after in pairwise(held.source)
        )
        high = _CODE_LINE * lines
        cut = next((at for at, link in enumerate(held.links) if link.cut), 0)
        reach = max(map(self._reach, range(len(held.links)))) + 30
        wide = max(style.cells(row.text) for row in held.source) + _gutter(held.source)
        if cut and reach + wide * _CODE_SIZE * _CODE_WIDTH < WIDTH - MARGIN:
            middle = self.tops[cut] - _ARROW / 2
            self.code_x, self.code_y = reach, max(self.head + 34, middle - high / 2 + 10)
        return self.code_y + high - 10

    def _reach(self, at: int) -> float:
        """How far to the right a box and the words over it go."""
        link = self.held.links[at]
        over = (
            _STEM
            + 16
            + sum(
                style.text_width(words, bold=link.cut) + 10
                for words in (_by(link) + link.how, link.where)
                if words
            )
        )
        if link.cut:
            over += style.text_width(self.held.cut(), 8, bold=True)
        box = _LEFT + 46 + style.text_width(_box_text(self.held, at), 8.5, bold=True)
        return max(box, over if at else 0)

    def paint(self, sheet: style.Sheet, top: float) -> None:
        """Heading, chain, source, verdict."""
        if self.head:
            sheet.text(MARGIN, top + 12, style.shorten(_heading(self.held), 100), 9, bold=True)
        for at, link in enumerate(self.held.links):
            y = top + self.tops[at]
            if at:
                self._arrow(sheet, link, y - _ARROW)
            if link.skipped:
                skipped = f"… {style.count_of(link.skipped, 'hop')} …"
                sheet.text(_LEFT, y - _ARROW - 12, skipped, 8, ink=style.FAINT_INK)
            self._box(sheet, at, y)
        if self.held.source:
            self._code(sheet, top)
        ink = style.RED_INK if self.held.leaked else style.INK
        for at, line in enumerate(self.verdict):
            y = top + self.foot + 13 * at
            sheet.text(MARGIN, y, line, 8.5, ink=ink, bold=self.held.leaked)

    def _box(self, sheet: style.Sheet, at: int, y: float) -> None:
        """The name is blue as what is in use; the memory is marked as drag if it leaked."""
        text = style.fit(_box_text(self.held, at), 520, 8.5, bold=True)
        swatch = 20 if at == len(self.held.links) - 1 else 0
        right = _LEFT + max(96, swatch + style.text_width(text, 8.5, bold=True) + 16)
        sheet.bar(_LEFT, right, y, y + _BOX, "kept" if at else "use")
        if swatch:
            sheet.bar(_LEFT, _LEFT + swatch, y, y + _BOX, "drag" if self.held.leaked else "use")
        ink = style.INK if at else "#FFFFFF"
        sheet.text(_LEFT + swatch + 8, y + 14.4, text, 8.5, bold=True, ink=ink)

    def _arrow(self, sheet: style.Sheet, link: Link, y: float) -> None:
        """How the box above holds the one below; at the edge to cut, where and what it frees."""
        end = y + _ARROW
        sheet.line([(_STEM, y), (_STEM, end - 1)], _CUT if link.cut else _STEM_STROKE)
        for side in (-3.5, 3.5):
            sheet.line([(_STEM + side, end - 6), (_STEM, end - 0.5)], _STEM_STROKE)
        x, baseline = _STEM + 16, y + 18.5
        ink = style.RED_INK if link.cut else style.INK
        if link.cut:
            sheet.text(_STEM - 16, y + 20, "✂", 15, ink=ink)
        words = style.fit(style.shorten(_by(link) + link.how, _FITS), 300, 8, bold=link.cut)
        sheet.text(x, baseline, words, 8, bold=link.cut, ink=ink)
        x += style.text_width(words, 8, bold=link.cut) + 8
        if link.where:
            where = style.fit(link.where, 130)
            sheet.text(x, baseline, where, ink=style.FAINT_INK)
            x += style.text_width(where) + 10
        if link.cut:
            words = style.fit(self.held.cut(), WIDTH - MARGIN - x, 8, bold=True)
            sheet.text(x, baseline, words, 8, bold=True, ink=ink)

    def _code(self, sheet: style.Sheet, top: float) -> None:
        """The source, in letters of one width, the captured name underlined."""
        source, left, y = self.held.source, self.code_x, top + self.code_y
        letter = _CODE_SIZE * _CODE_WIDTH
        x = left + _gutter(source) * letter
        most = int((WIDTH - MARGIN - x) / letter)
        sheet.text(left, y - 16, self.held.where, ink=style.FAINT_INK)
        start_y, before = y - 10, source[0].number - 1
        for row in source:
            if row.number > before + 1:
                _write(sheet, x, y, "…", style.FAINT_INK)
                y += _CODE_LINE
            _write(sheet, left, y, f"{row.number:>{_gutter(source) - 2}}", style.FAINT_INK)
            _write(sheet, x, y, style.clean(row.text)[:most], style.INK)
            for start, end in row.marks:
                columns = style.cells(row.text[:start]), style.cells(row.text[: min(end, most)])
                ends = [x + column * letter for column in columns]
                if start < most:
                    sheet.line([(ends[0], y + 3.2), (ends[1], y + 3.2)], _UNDER)
            before = row.number
            y += _CODE_LINE
        sheet.line([(left - 7, start_y), (left - 7, y - 7)], style.Stroke("#DADADA", 2))


def _box_text(held: Held, at: int) -> str:
    link = held.links[at]
    return style.shorten(link.what if at else f"{link.how}: {link.what}", _FITS)


def _gutter(source: Sequence[Line]) -> int:
    """How many letters the line numbers need, with the space after them."""
    return len(str(source[-1].number)) + 2


def _write(sheet: style.Sheet, x: float, y: float, text: str, ink: str) -> None:
    """Code on the sheet, in the fixed-width letters that matplotlib ships."""
    import matplotlib
    from matplotlib.font_manager import FontProperties

    path = f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSansMono.ttf"
    sheet.figure.text(
        x / sheet.width,
        1 - y / sheet.height,
        text,
        color=ink,
        fontproperties=FontProperties(fname=path, size=_CODE_SIZE),
        va="baseline",
        parse_math=False,
    )
