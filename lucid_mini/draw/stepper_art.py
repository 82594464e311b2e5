"""The pictures of the stepper as SVG: the graph, the small pictures of the filmstrip, the curve.

Letters are the reader's own fixed-width ones: nothing is fetched, and a name is as wide as its
count of letters says.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from lucid_mini.draw import style
from lucid_mini.draw.film import LONGEST_NAME, Film, Frame, flow, queue
from lucid_mini.draw.layers import Box, Layered, lay_out

_HEIGHT = 36
_PITCH = 72
_PILL = 16
_LETTER, _SMALL_LETTER = 7.3, 6.7
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

#: What an element can be, by the letter that the page uses. h and f are for leaves.
STATES = {
    "w": "waits: no gradient yet",
    "g": "has a gradient, more to come",
    "r": "ready: its gradient is complete",
    "x": "runs now",
    "d": "has run, and released what it saved",
    "h": "leaf with its gradient, until the end",
    "f": "leaf, .grad written",
}

#: The colours of the filmstrip, in the light; the page has its own for light and dark.
STRIP_STYLE = """
text{font-family:MONO;fill:#10202B}
.e{fill:none;stroke:#5B6B75;stroke-width:1.2}
.now{fill:none;stroke:#00805C;stroke-width:3}
.w{fill:#FFFFFF;stroke:#10202B}
.g{fill:#D9F2E8;stroke:#00805C;stroke-dasharray:4 2}
.r,.h{fill:#D9F2E8;stroke:#00805C;stroke-width:2.5}
.x{fill:#0072B2;stroke:#10202B}
.d{fill:#FFFFFF;stroke:#5B6B75;stroke-dasharray:3 2}
.f{fill:#D9F2E8;stroke:#10202B}
.l{font-size:12px;font-weight:600}
.m{font-size:11px;fill:#4D4D4D}
.on{fill:#FFFFFF}
.t{font:700 16px system-ui,'DejaVu Sans',sans-serif}
""".replace("MONO", MONO).strip()


class Plan(NamedTuple):
    """Where the elements of a film stand, what is written in them, and their order on the page."""

    names: tuple[str, ...]
    layered: Layered
    #: The text of the pill of each element that ever has a gradient: the widest that it will show.
    pills: dict[str, str]


def plan(film: Film) -> Plan:
    """Lay the graph out, values flowing downwards."""
    names = (*film.leaves, *film.nodes)
    pills: dict[str, str] = {}
    for frame in film.frames:
        for name, text, _ in held(film, frame):
            pills[name] = max(pills.get(name, ""), text, key=len)
    sizes = {}
    for name in names:
        label = style.cells(style.shorten(name, LONGEST_NAME)) * _LETTER
        small = max(style.cells(film.notes[name]), style.cells(pills.get(name, "")) + 2)
        sizes[name] = (max(76, round(max(label, small * _SMALL_LETTER)) + 26), _HEIGHT)
    downwards = [(upper, lower) for lower, upper in film.edges]
    return Plan(names, lay_out(sizes, downwards, pitch=_PITCH), pills)


def held(film: Film, frame: Frame) -> list[tuple[str, str, int]]:
    """Who has a gradient after `frame`, in what words, in how many bytes."""
    found: dict[str, list[tuple[str, int]]] = {}
    for gradient in frame.flight:
        found.setdefault(gradient.at, []).append((gradient.shape, gradient.nbytes))
    rows = []
    for name, parts in found.items():
        outputs = film.outputs.get(name, 1)
        text = parts[0][0] if outputs == 1 else f"{len(parts)} of {outputs}"
        rows.append((name, text, sum(nbytes for _, nbytes in parts)))
    return rows


def states(film: Film, at: int) -> str:
    """One letter of STATES for each element, leaves first, when frame `at` has happened."""
    frame = film.frames[at]
    run = {other.node for other in film.frames[:at]}
    counts = dict(frame.ready)
    having = {gradient.at for gradient in frame.flight}
    letters = ["fh"[frame.kind != "end"] if leaf in having else "w" for leaf in film.leaves]
    for node in film.nodes:
        if node == frame.node:
            letters.append("x")
        elif node in run:
            letters.append("d")
        elif node in counts:
            letters.append("g" if counts[node] else "r")
        else:
            letters.append("w")
    return "".join(letters)


# ---------------------------------------------------------------- the graph


def graph(film: Film, plan: Plan) -> str:
    """The graph once, for a script to toggle: every element with all it can ever show."""
    layered = plan.layered
    parts = [
        f'<svg id="graph" viewBox="0 0 {layered.width} {layered.height}" width="{layered.width}" '
        f'height="{layered.height}" role="group" aria-label="The graph. Values flow down, '
        f'gradients up.">',
        _DEFINITIONS,
    ]
    parts += [f'<path class="e" d="{_curve(points)}"/>' for points in layered.routes]
    for name in plan.names:
        parts.append(_element(film, plan, name))
    return "\n".join([*parts, "</svg>"])


_DEFINITIONS = (
    '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="hs" width="5" height="5"/>'
    '<rect class="hl" width="1.6" height="5"/></pattern>'
    '<marker id="down" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'markerUnits="userSpaceOnUse" orient="auto"><path class="fw" d="M0 0 8 4 0 8z"/></marker>'
    '<marker id="up" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="12" markerHeight="12" '
    'markerUnits="userSpaceOnUse" orient="auto"><path class="bw" d="M8 0 0 4 8 8z"/></marker>'
    "</defs>"
)


def _element(film: Film, plan: Plan, name: str) -> str:
    box = plan.layered.boxes[name]
    leaf = name in film.leaves
    label = escape(style.shorten(name, LONGEST_NAME))
    middle = box.width / 2
    stripe = ""
    if film.saves[name]:
        stripe = f'<rect class="s" x="1" y="1" width="9" height="{_HEIGHT - 2}"/>'
    pill = ""
    if name in plan.pills:
        wide = round((style.cells(plan.pills[name]) + 2) * _SMALL_LETTER + 6)
        pill = (
            f'<g class="p" transform="translate({middle - wide / 2:g} {_HEIGHT - 4})"><rect '
            f'width="{wide}" height="{_PILL}" rx="8"/><text x="{wide / 2:g}" y="12"></text></g>'
        )
    count = ""
    if not leaf:
        count = (
            f'<g class="c" transform="translate({box.width - 3} 2)"><circle r="8.5"/>'
            f'<text y="3.5"></text></g>'
        )
    kind = "leaf" if leaf else "node"
    note = "m gone" if film.saves[name] else "m"
    return (
        f'<g class="n {kind} w" transform="translate({box.x} {box.y})" tabindex="0" role="button" '
        f'aria-label="{escape(style.clean(name), quote=True)}"><rect class="b" width="{box.width}" '
        f'height="{_HEIGHT}" rx="{12 if leaf else 3}"/>{stripe}'
        f'<text class="l" x="{middle:g}" y="15">{label}</text>'
        f'<text class="{note}" x="{middle:g}" y="28">{escape(film.notes[name])}</text>'
        f"{pill}{count}</g>"
    )


def _curve(points: Sequence[tuple[int, int]]) -> str:
    """A path that leaves and arrives upright."""
    (x, y), *rest = points
    parts = [f"M{x} {y}"]
    for at, (right, below) in enumerate(rest):
        if at % 2 == 1:  # beside a box that it passes
            parts.append(f"V{below}")
        else:
            half = (y + below) // 2
            parts.append(f"C{x} {half} {right} {half} {right} {below}")
        x, y = right, below
    return "".join(parts)


# ---------------------------------------------------------------- small pictures

CELL_WIDTH = 272
_LOWEST, _WINDOW, _HIGHEST = 120, 230, 400
#: A name has letters of 12 pixels: smaller than 8 points they are not read at a glance.
_SMALLEST = 0.9


def view_height(plan: Plan) -> int:
    """How high the small pictures are: as high as the graph, or a window on it if it is high."""
    height = plan.layered.height
    return max(height, _LOWEST) if height <= _HIGHEST else _WINDOW


def mini(film: Film, plan: Plan, at: int, place: str = "") -> str:
    """The graph as it is in frame `at`: all of it, or what is near the node that runs.

    Uses the symbol that `mini_base` defines.
    """
    left, top, width, height = _window(film, plan, at)
    boxes = plan.layered.boxes
    by_state: dict[str, list[str]] = {}
    for name, letter in zip(plan.names, states(film, at), strict=True):
        box = boxes[name]
        if _meets(box, left, top, width, height):
            by_state.setdefault(letter, []).append(_outline(box, name in film.leaves))
    parts = [
        f'<path class="{letter}" d="{"".join(outlines)}"/>'
        for letter, outlines in sorted(by_state.items())
    ]
    frame = film.frames[at]
    now = "".join(_curve(plan.layered.routes[edge]) for edge in frame.carried)
    over = ""
    if frame.node:
        box = boxes[frame.node]
        label = escape(style.shorten(frame.node, LONGEST_NAME))
        over = (
            f'<path class="x" d="{_outline(box, False)}"/><text class="l on" x="{box.middle}" '
            f'y="{box.y + 22}" text-anchor="middle">{label}</text>'
        )
    return (
        f'<svg {place}width="{CELL_WIDTH}" height="{view_height(plan)}" viewBox="{left:g} {top:g} '
        f'{width:g} {height:g}" aria-hidden="true"><use href="#mini-e"/>'
        f'{f"""<path class="now" d="{now}"/>""" if now else ""}{"".join(parts)}'
        f'<use href="#mini-l"/>{over}</svg>'
    )


def mini_base(film: Film, plan: Plan) -> str:
    """What all small pictures share: arrows below the boxes, names above them."""
    edges = "".join(_curve(points) for points in plan.layered.routes)
    labels = "".join(
        f'<text class="l" x="{box.middle}" y="{box.y + 22}" text-anchor="middle">'
        f"{escape(style.shorten(name, LONGEST_NAME))}</text>"
        for name, box in plan.layered.boxes.items()
    )
    return f'<defs><path id="mini-e" class="e" d="{edges}"/><g id="mini-l">{labels}</g></defs>'


def _window(film: Film, plan: Plan, at: int) -> tuple[float, float, float, float]:
    """What part of the graph a small picture shows: left, top, width, height."""
    layered = plan.layered
    high = view_height(plan)
    scale = min(CELL_WIDTH / layered.width, high / layered.height, 1.0)
    if film.frames[at].kind != "end":  # the end shows the whole, however small
        scale = max(scale, _SMALLEST)
    width, height = round(CELL_WIDTH / scale), round(high / scale)
    frame = film.frames[at]
    centre = frame.node or (frame.flight[0].at if frame.flight else plan.names[0])
    box = layered.boxes[centre]
    return (
        _slide(box.middle, width, layered.width),
        _slide(box.y + _HEIGHT // 2, height, layered.height),
        width,
        height,
    )


def _slide(middle: int, length: int, whole: int) -> int:
    """Where a window begins that shows `middle` and no more of the margin than it must."""
    if whole <= length:
        return (whole - length) // 2
    return min(max(0, middle - length // 2), whole - length)


def _meets(box: Box, left: float, top: float, width: float, height: float) -> bool:
    return (
        left < box.x + box.width
        and box.x < left + width
        and top < box.y + box.height
        and box.y < top + height
    )


def _outline(box: Box, leaf: bool) -> str:
    x, y, width, height = box
    if not leaf:
        return f"M{x} {y}h{width}v{height}h{-width}z"
    across, down = width - 24, height - 24
    return (
        f"M{x + 12} {y}h{across}q12 0 12 12v{down}q0 12 -12 12h{-across}q-12 0 -12 -12v{-down}"
        f"q0 -12 12 -12z"
    )


# ---------------------------------------------------------------- the filmstrip

_COLUMNS = 3
_GAP = 14
_LINE = 13
_LETTERS = 40


def cell_lines(film: Film, at: int) -> list[str]:
    """What stands under a small picture: what flows, who is ready, what is freed."""
    frame = film.frames[at]
    lines = []
    if frame.kind == "run":
        lines.append(f"in {flow(frame.grads_in, named=False)}")
        lines.append(f"out {flow(frame.grads_out, named=True)}")
    elif frame.flight:
        what = "gradient of" if frame.kind == "start" else "written:"
        lines.append(f"{what} {flow(frame.flight, named=True)}")
    if frame.ready:
        lines.append(f"ready {queue(frame)}")
    if frame.kind == "run":
        lines.append(f"freed {style.format_bytes(frame.freed)}")
    amounts = style.format_bytes(frame.saved), style.format_bytes(frame.gradients)
    lines.append("saved {}, gradients {}".format(*amounts))
    # A shape stays with its name, and in one line.
    return [re.sub(r" (?=\(\d|\(\)|\d+\)|\d+, )", "\N{NO-BREAK SPACE}", line) for line in lines]


def strip(film: Film, plan: Plan, caption: str, text: str) -> str:
    """The filmstrip as one SVG: the steps row by row, from left to right."""
    cells = [_cell_text(film, at) for at in range(len(film.frames))]
    rows = [cells[at : at + _COLUMNS] for at in range(0, len(cells), _COLUMNS)]
    width = _COLUMNS * CELL_WIDTH + (_COLUMNS + 1) * _GAP
    captions = style.wrap(caption, 120)
    y = 34 + 14 * len(captions) + 38
    parts = [*_strip_head(film.title, captions, width)]
    high = view_height(plan)
    at, wide = 0, CELL_WIDTH + 8
    for row in rows:
        height = 22 + high + 8 + _LINE * max(len(lines) for _, lines in row) + 4
        for column, (heading, lines) in enumerate(row):
            x = _GAP + column * (CELL_WIDTH + _GAP)
            parts.append(
                f'<path class="card" d="M{x - 4} {y}h{wide}v{height}h-{wide}z"/>'
                f'<text class="l" x="{x}" y="{y + 15}">{escape(heading)}</text>'
            )
            parts.append(mini(film, plan, at, f'x="{x}" y="{y + 22}" '))
            parts += [
                f'<text class="m" x="{x}" y="{y + 22 + high + 14 + _LINE * number}">'
                f"{escape(line)}</text>"
                for number, line in enumerate(lines)
            ]
            at += 1
        y += height + 10
    desc = "\n".join(escape(style.clean(line), quote=False) for line in text.split("\n"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" '
            f'height="{y}" role="img">',
            f"<title>{escape(style.clean(film.title), quote=False)}</title>",
            f"<desc>{desc}</desc>",
            f"<style>{STRIP_STYLE}\n.card{{fill:#FFFFFF;stroke:#C4CDD2}}</style>",
            f'<path fill="#FFFFFF" d="M0 0h{width}v{y}h-{width}z"/>',
            mini_base(film, plan),
            *parts,
            "</svg>\n",
        ]
    )


def _cell_text(film: Film, at: int) -> tuple[str, list[str]]:
    lines = []
    for line in cell_lines(film, at):
        pieces = style.wrap(line, _LETTERS, "  ")
        pieces = pieces if len(pieces) <= 3 else [*pieces[:2], "  …"]
        lines += [piece.replace("\N{NO-BREAK SPACE}", " ") for piece in pieces]
    return style.shorten(film.heading(at), 31), lines


def _strip_head(title: str, captions: Sequence[str], width: int) -> list[str]:
    parts = [f'<text class="t" x="{_GAP}" y="22">{escape(title)}</text>']
    for number, line in enumerate(captions):
        parts.append(f'<text class="m" x="{_GAP}" y="{40 + 14 * number}">{escape(line)}</text>')
    x, y = _GAP, 42 + 14 * len(captions)
    for letter, words in (*SHORT_KEY.items(), ("", "(n) deliveries still to come")):
        swatch = 24 if letter else 0
        wide = swatch + round(len(words) * _SMALL_LETTER)
        if x + wide > width:
            x, y = _GAP, y + 16
        if letter:
            parts.append(f'<path class="{letter}" d="M{x} {y - 9}h18v11h-18z"/>')
        parts.append(f'<text class="m" x="{x + swatch}" y="{y}">{words}</text>')
        x += wide + 18
    return parts


SHORT_KEY = {
    "w": "waits for a gradient",
    "g": "has a gradient, more to come",
    "r": "ready: gradient complete",
    "x": "runs now",
    "d": "has run, released",
}


# ---------------------------------------------------------------- the curve

_CURVE_WIDTH, _CURVE_HEIGHT = 380, 150
_LEFT, _TOP, _BOTTOM = 74, 16, 126


def curve(film: Film) -> str:
    """Saved bytes and gradients on top of them, step by step, and a cursor for a script to move."""
    totals = [frame.total for frame in film.frames]
    highest, count = max(1, *totals), len(totals)
    room = _CURVE_WIDTH - _LEFT - 8

    def x(at: int) -> float:
        return round(_LEFT + room * at / count, 1)

    def y(nbytes: int) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * nbytes / highest, 1)

    def stairs(values: Sequence[int]) -> str:
        return "".join(f"L{x(at):g} {y(v):g}H{x(at + 1):g}" for at, v in enumerate(values))

    saved = [frame.saved for frame in film.frames]
    foot = f"L{x(count):g} {_BOTTOM}z"
    ticks = [
        f'<path class="grid" d="M{_LEFT} {y(tick):g}H{x(count):g}"/>'
        f'<text class="m" x="{_LEFT - 5}" y="{y(tick) + 3:g}" text-anchor="end">'
        f"{style.format_bytes(tick)}</text>"
        for tick in style.byte_ticks(0, highest)[-5:]
    ]
    numbers = [
        f'<text class="m" x="{(x(at) + x(at + 1)) / 2:g}" y="{_BOTTOM + 14}" text-anchor="middle">'
        f"{at}</text>"
        for at in style.clock_ticks(count - 1)
        if at < count
    ]
    peak, at = film.peak
    words = f"Most at once: {style.format_bytes(peak)} at step {at}."
    return "\n".join(
        [
            f'<svg id="curve" viewBox="0 0 {_CURVE_WIDTH} {_CURVE_HEIGHT}" role="img" '
            f'aria-label="Bytes saved, and of gradients, after each step. {words}">',
            '<defs><pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse"><rect '
            'class="gs" width="5" height="5"/><circle class="gl" cx="2.5" cy="2.5" r="1.1"/>'
            "</pattern></defs>",
            *ticks,
            f'<path fill="url(#dots)" d="M{_LEFT} {_BOTTOM}{stairs(totals)}{foot}"/>',
            f'<path fill="url(#hatch)" d="M{_LEFT} {_BOTTOM}{stairs(saved)}{foot}"/>',
            f'<path class="split" d="M{_LEFT} {y(saved[0]):g}{stairs(saved)}"/>',
            f'<path class="top" d="M{_LEFT} {y(totals[0]):g}{stairs(totals)}"/>',
            f'<path class="axis" d="M{_LEFT} {_TOP}V{_BOTTOM}H{x(count):g}"/>',
            *numbers,
            f'<rect id="cursor" x="{_LEFT}" y="{_TOP - 8}" width="{room / count:.1f}" '
            f'height="{_BOTTOM - _TOP + 8}"/>',
            "</svg>",
        ]
    )
