"""The graph as a picture: what each node keeps stands inside its box, one row per saved value.

Saved values as nodes of their own turn a graph of 40 nodes into crossing lines. Here they are rows;
the same memory bears the same badge wherever it is kept.
"""

import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple

from lucid_mini.autograd.dump import (
    as_text,
    count,
    plural,
    quoted,
    read,
    row_name,
    row_notes,
    shape_text,
    sign_of,
)
from lucid_mini.autograd.node import reachable
from lucid_mini.autograd.tensor import Tensor
from lucid_mini.draw.figure import Figure, PictureError
from lucid_mini.draw.style import (
    FAINT_INK,
    LOOKS,
    OUTLINE,
    RED_INK,
    clean,
    format_bytes,
    shorten,
    wrap,
)
from lucid_mini.lifetime.poison import is_needed

#: A picture of a larger graph cannot be read, and takes dot longer than anybody waits.
MOST_NODES = 150
_SECONDS = 60
_LONGEST_NAME = 40
_CAPTION_WIDTH = 72
_FONT = "DejaVu Sans,Verdana,sans-serif"
_FONT_OF_PORT = "Arial,Helvetica,sans-serif"  # the one sans serif whose widths the port knows
_HEAD = "#ECEFF1"
_SWATCH_WIDTH = 40
_LEAF = LOOKS["use"].fill


class _Look(NamedTuple):
    """How a row is painted: the stripe with its sign, the ground, the letters."""

    stripe: str
    ground: str
    ink: str


_SAVED = _Look(LOOKS["saved"].fill, "#DDF0FB", "#000000")
_HELD = _Look(LOOKS["drag"].fill, "#FFFFFF", RED_INK)
_GONE = _Look("#FFFFFF", "#FFFFFF", FAINT_INK)
_HOW_TO_GET_PICTURES = (
    "Pictures of graphs need the program dot: install Graphviz, or pip install 'lucid-mini[book]'. "
    "The text says the same without it."
)


def graph(
    tensor_or_node: Any,
    *,
    names: Mapping[str, Any] | None = None,
    before: "GraphFigure | dict[str, Any] | None" = None,
    needed: bool = False,
) -> "GraphFigure":
    """Draw the graph upstream of `tensor_or_node`, with what each node has saved.

    `names` maps names to tensors; `locals()` will do. A released node remembers nothing of what it
    had saved: to see it struck through, pass the figure (or the `dump(..., "dict")`) that was made
    before backward as `before`. `needed` asks of each saved value whether its node's gradient
    depends on it (`lifetime.is_needed`, which runs the rules) and marks `▲ not needed`.

    Keeps: names and numbers, no tensor and no node.
    Raises: TypeError for what is neither tensor nor node, and for another `before`.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> lm.draw.graph(x.exp(), names={"x": x})
        x           (2,)  float64      16 B  leaf
        exp#1       (2,)  float64            from x: x
          ● output  (2,)  float64  b1  16 B  output
        1 node, 1 edge, 1 leaf; saved: 16 B in 1 buffer
    """
    now = read(tensor_or_node, names, "graph")
    if needed:
        _ask_for_need(now, tensor_or_node)
    if isinstance(before, GraphFigure):
        before = before.graph
    if isinstance(before, dict):
        _remember(now, before)
    elif before is not None:
        raise TypeError(
            f"graph takes as before a figure that graph returned, or a dict that dump returned, "
            f"not {type(before).__name__}"
        )
    return GraphFigure(now)


def _ask_for_need(graph: dict[str, Any], start: Any) -> None:
    """Note in each row of a saved value whether it was saved in vain, and what would do instead."""
    root = start._node if isinstance(start, Tensor) else start
    nodes = [] if root is None else reachable([root])[::-1]
    for node, entry in zip(nodes, graph["nodes"], strict=True):
        for row in entry["saved"]:
            is_slot = isinstance(row["slot"], int) and row["role"] not in ("attribute", "object")
            if is_slot and not entry["released"]:
                need = is_needed(node, row["slot"])
                row["needed"], row["instead"] = bool(need), need.instead


class GraphFigure(Figure):
    """The picture of a graph; `graph` has its facts, as `lm.autograd.dump(..., "dict")` does."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self.graph = graph
        start = graph["start"]
        self.title = f"Graph of {start['tensor'] or start['name']}"
        self.caption = _caption(graph)
        self.caption_is_drawn = True

    def text(self) -> str:
        """The table: one line per leaf, node and saved value, in the order of the calls."""
        return as_text(self.graph, nbytes=format_bytes, most=MOST_NODES)

    def dot(self) -> str:
        """The DOT source, with a table for each node."""
        return _dot(self.graph, self.title, _FONT)

    def svg(self) -> str:
        """The picture as SVG.

        Raises: PictureError without dot, and for more than MOST_NODES nodes.
        """
        drawn = self._draw("svg").decode()
        # Comments and the doctype tell the version of dot, and each node's name a second time.
        drawn = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->", "", drawn, flags=re.DOTALL)
        drawn = re.sub(r"\n\s*\n+", "\n", drawn).strip() + "\n"
        desc = "\n".join(escape(clean(line)) for line in self.text().split("\n"))
        words = f"<title>{escape(clean(self.title))}</title>\n<desc>{desc}</desc>"
        return re.sub(
            r"<svg\b([^>]*)>", lambda tag: f'<svg role="img"{tag[1]}>\n{words}', drawn, count=1
        )

    def png(self) -> bytes:
        """The picture as PNG.

        Raises: PictureError without dot, and for more than MOST_NODES nodes.
        """
        return self._draw("png", "-Gdpi=144")

    def _draw(self, form: str, *options: str) -> bytes:
        nodes = len(self.graph["nodes"])
        if nodes > MOST_NODES:
            raise PictureError(
                f"A picture of {nodes} nodes cannot be read, and is not drawn. Draw a part of it: "
                f"pass a node or a tensor further up. lm.autograd.dump lists all of them."
            )
        program, font = _program()
        try:
            done = subprocess.run(
                [program, f"-T{form}", *options],
                input=_dot(self.graph, self.title, font).encode(),
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise PictureError(f"dot could not draw this graph: {type(error).__name__}.") from None
        if not done.stdout:  # a mere warning ends some versions of dot with an error code, too
            said = clean(done.stderr.decode(errors="replace").strip().split("\n")[0])
            raise PictureError(f"dot could not draw this graph: {said or 'it said nothing'}.")
        return done.stdout


def _program() -> tuple[str, str]:
    """Graphviz's dot, or the port of it that pip installs, and the font to use with it.

    Raises: PictureError where there is neither.
    """
    if dot := shutil.which("dot"):
        return dot, _FONT
    scripts = sysconfig.get_path("scripts")
    if port := shutil.which("graphviz-pure", path=scripts) or shutil.which("graphviz-pure"):
        return port, _FONT_OF_PORT
    raise PictureError(_HOW_TO_GET_PICTURES)


def _caption(graph: dict[str, Any]) -> str:
    sums = count(graph)
    struck = {
        row["buffer"]: row["owner_nbytes"]
        for node in graph["nodes"]
        for row in node["saved"]
        if row.get("released") and row["buffer"]
    }
    for node in graph["nodes"]:
        for row in node["saved"]:
            if not row.get("released"):
                struck.pop(row["buffer"], None)  # kept by another slot
    parts = [f"{plural(sums['nodes'], 'node')}, {plural(sums['leaves'], 'leaf', 'leaves')}"]
    if sums["saved_bytes"] or not sums["released"]:
        parts.append(_amount(sums["saved_bytes"], sums["buffers"], "saved"))
    if struck:
        parts.append(_amount(sum(struck.values()), len(struck), "released"))
    elif sums["released"]:
        every = sums["released"] == sums["nodes"]
        parts.append(f"released: {'every node' if every else plural(sums['released'], 'node')}")
    if sums["attribute_bytes"]:
        parts.append(f"in ctx attributes, never released: {format_bytes(sums['attribute_bytes'])}")
    return "; ".join(parts)


def _amount(nbytes: int, buffers: int, done: str) -> str:
    return f"{done}: {format_bytes(nbytes)} in {plural(buffers, 'buffer')}"


def _remember(now: dict[str, Any], before: dict[str, Any]) -> None:
    """Give released nodes the rows they had `before`, as released, under the badges of then."""
    old = {node["name"]: node for node in before["nodes"]}
    badges: dict[str, str] = {}
    for node in now["nodes"]:
        rows = {row["slot"]: row["buffer"] for row in old.get(node["name"], {"saved": ()})["saved"]}
        for row in node["saved"]:
            if row["buffer"] and rows.get(row["slot"]):
                badges.setdefault(row["buffer"], rows[row["slot"]])
    used = {row["buffer"] for node in before["nodes"] for row in node["saved"] if row["buffer"]}
    fresh = (f"b{number}" for number in range(len(used) + 1, 1 << 62))
    holders = [*now["leaves"], *(row for node in now["nodes"] for row in node["saved"])]
    for holder in holders:
        if holder["buffer"]:
            if holder["buffer"] not in badges:
                badges[holder["buffer"]] = next(fresh)
            holder["buffer"] = badges[holder["buffer"]]
    for node in now["nodes"]:
        if node["released"] and node["name"] in old:
            held = {row["slot"] for row in node["saved"]}
            gone = [row for row in old[node["name"]]["saved"] if row["slot"] not in held]
            node["saved"] = [{**row, "released": True} for row in gone] + node["saved"]


# -- DOT ------------------------------------------------------------------------------------------


def _dot(graph: dict[str, Any], title: str, font: str) -> str:
    """DOT source: the tables of leaves and nodes, and arrows as forward ran."""
    met = Counter(row["buffer"] for node in graph["nodes"] for row in node["saved"])
    shared = {badge for badge, times in met.items() if times > 1}
    shared |= {leaf["buffer"] for leaf in graph["leaves"] if leaf["buffer"]}
    usual = {leaf["dtype"] for leaf in graph["leaves"]}
    lines = [
        f"digraph {quoted(title)} {{",
        "  rankdir=TB; ordering=in; nodesep=0.3; ranksep=0.35; pad=0.15; bgcolor=white",
        "  nslimit=2  // a leaf that a hundred nodes use: 1 s in place of 60",
        f'  labelloc=t; labeljust=l; fontname="{font}"; label=<{_key(graph, title)}>',
        f'  node [shape=plain, fontname="{font}", fontsize=10]',
        f'  edge [color="{OUTLINE}", fontcolor="{FAINT_INK}", fontname="{font}"]',
        "  edge [fontsize=8.5, arrowsize=0.6]",
    ]
    ids = {leaf["name"]: leaf["label"] for leaf in graph["leaves"]}
    for leaf in graph["leaves"]:
        lines.append(f"  {quoted(leaf['label'])} [label=<{_leaf_table(leaf, shared)}>]")
    outputs = {}
    for node in graph["nodes"]:
        outputs[node["name"]] = node["outputs"]
        lines.append(f"  {quoted(node['name'])} [label=<{_node_table(node, shared, usual)}>]")
    for edge in graph["edges"]:
        label = _edge_label(edge["to"], edge["output_nr"], outputs)
        source = quoted(ids.get(edge["to"], edge["to"]))
        # A heavy edge is drawn straight: ops form a spine, leaves stand beside it.
        weight = 1 if edge["to"] in ids else 8
        user = quoted(edge["from"])
        lines.append(f"  {source} -> {user} [label={quoted(label)}, weight={weight}]")
    start = graph["start"]
    if start["name"] in outputs and start["shape"] is not None:
        name = shorten(start["tensor"] or "output", _LONGEST_NAME)
        cell = f"<TR><TD>{_text(name)} {shape_text(start['shape'])}</TD></TR>"
        lines.append(f'  "the output" [label=<{_table("ROUNDED", "#FFFFFF", cell)}>]')
        lines.append(f'  {quoted(start["name"])} -> "the output" [weight=8]')
    return "\n".join([*lines, "}", ""])


def _edge_label(source: str, output_nr: int, outputs: dict[str, Any]) -> str:
    """Name and shape of what flows; nothing at a leaf, whose box says so."""
    if source not in outputs:
        return ""
    output = outputs[source][output_nr]
    which = f"output {output_nr}: " if len(outputs[source]) > 1 else ""
    name = f"{shorten(output['tensor'], _LONGEST_NAME)} " if output["tensor"] else ""
    # A plain blank at the beginning is dropped, and the line runs through the first letter.
    return f"\N{NO-BREAK SPACE}{which}{name}{shape_text(output['shape'])}"


def _key(graph: dict[str, Any], title: str) -> str:
    """The head of the picture: title, sums, and what the signs and colours in it mean."""
    rows = [(row, node["released"]) for node in graph["nodes"] for row in node["saved"]]
    signs = {(sign_of(row), _look(row, released)) for row, released in rows}
    meanings = ["leaf"]
    key = [_swatch("ROUNDED", _LEAF, "#FFFFFF", "leaf")]
    for look, sign, meaning in (
        (_SAVED, "●", "saved"),
        (_SAVED, "○", "the same buffer again"),
        (_SAVED, "▲", "not needed"),
        (_HELD, "●", "still held"),
        (_HELD, "○", "still held, the same buffer"),
        (_GONE, "×", "released"),
    ):
        if (sign, look) in signs:
            ink = look.ink if look is _GONE else "#000000"
            key.append(_swatch("SOLID", look.stripe, ink, meaning, sign))
            meanings.append(meaning)
    # dot stretches an inner table to the width of the outer one: an empty cell takes up the slack.
    caption = wrap(_caption(graph), _CAPTION_WIDTH)
    slack = 6 * max(map(len, caption)) - sum(_SWATCH_WIDTH + 6 * len(words) for words in meanings)
    key.append(f'<TD WIDTH="{max(1, slack)}"></TD>')
    lines = [
        f'<FONT POINT-SIZE="13"><B>{_text(title, _CAPTION_WIDTH)}</B></FONT>',
        *(f'<FONT POINT-SIZE="9.5">{_text(line, _CAPTION_WIDTH)}</FONT>' for line in caption),
        _table("", "", f"<TR>{''.join(key)}</TR>", border=0, padding=2),
    ]
    cells = "".join(f'<TR><TD ALIGN="LEFT">{line}</TD></TR>' for line in lines)
    return _table("", "", f'{cells}<TR><TD HEIGHT="6"></TD></TR>', border=0, padding=1)


def _swatch(style: str, fill: str, ink: str, meaning: str, sign: str = " ") -> str:
    """A small box as it looks in the picture, and what it means."""
    cell = f'<TD WIDTH="16" HEIGHT="12"><FONT POINT-SIZE="9" COLOR="{ink}">{sign}</FONT></TD>'
    box = _table(style, fill, f"<TR>{cell}</TR>", padding=0)
    words = f'<FONT POINT-SIZE="9">{_text(meaning)}   </FONT>'
    return f'<TD>{box}</TD><TD ALIGN="LEFT">{words}</TD>'


def _leaf_table(leaf: dict[str, Any], shared: set[str]) -> str:
    """The box of a leaf, with round corners: name and badge, shape and bytes, its gradient."""
    fill, ink = (_LEAF, "#FFFFFF") if leaf["alive"] else ("#FFFFFF", FAINT_INK)
    lines = [
        f"<B>{_text(leaf['name'])}</B>",
        _text(f"{shape_text(leaf['shape'])}  {format_bytes(leaf['nbytes'])}"),
    ]
    if not leaf["alive"]:
        lines.append("gone")
    elif leaf["grad_nbytes"] is not None:
        lines.append(_text(f".grad {format_bytes(leaf['grad_nbytes'])}"))
    elif not leaf["requires_grad"]:
        lines.append("requires no grad")
    words = "<BR/>".join(_ink(line, ink) for line in lines)
    cells = f'<TD CELLPADDING="6">{words}</TD>'
    if leaf["buffer"]:
        cells += f'<TD CELLPADDING="4">{_badge(leaf["buffer"], shared)}</TD>'
    style = "ROUNDED" if leaf["alive"] else "ROUNDED,DASHED"
    return _table(style, fill, f"<TR>{cells}</TR>")


def _node_table(node: dict[str, Any], shared: set[str], usual: set[str]) -> str:
    """The box of an op: its name, then a row per saved value. Dashed and white once released."""
    name, style, fill = f"<B>{_text(node['name'])}</B>", "SOLID", _HEAD
    if node["released"]:
        name = _ink(f"{name}&#160;&#160;released", FAINT_INK)
        style, fill = "DASHED", "#FFFFFF"
    rows = [f'<TR><TD COLSPAN="5" BGCOLOR="{fill}" CELLPADDING="4">{name}</TD></TR>']
    rows += [_row(row, node["released"], shared, usual) for row in node["saved"]]
    if node["saved"] and not node["released"]:
        fill = _SAVED.ground  # else a white line would show between border and rows
    return _table(style, fill, "".join(rows))


def _table(style: str, fill: str, rows: str, *, border: int = 1, padding: int = 3) -> str:
    look = f'STYLE="{style}" COLOR="{OUTLINE}" BGCOLOR="{fill}"' if border else ""
    measures = f'BORDER="{border}" CELLBORDER="0" CELLSPACING="0" CELLPADDING="{padding}"'
    return f"<TABLE {measures} {look}>{rows}</TABLE>"


def _look(row: dict[str, Any], node_released: bool) -> _Look:
    if row.get("released"):
        return _GONE
    return _HELD if node_released else _SAVED


def _row(row: dict[str, Any], node_released: bool, shared: set[str], usual: set[str]) -> str:
    """A saved value: sign, name, shape, bytes, badge; below it what is unusual."""
    look = _look(row, node_released)
    name = row_name(row)
    if row["role"] in ("alias of output", "intermediate", "packed", "unknown"):
        name = f"{name}, {row['role']}"
    kind = "" if row["dtype"] in usual else f" {row['dtype'] or row['type']}"
    size = "" if row["again"] or not row["buffer"] else format_bytes(row["nbytes"])
    shape = f"{shape_text(row['shape'])}{kind}".strip()
    sign = _ink(sign_of(row), look.ink if look is _GONE else "#000000")
    line = f'<TD BGCOLOR="{look.stripe}">{sign}</TD>'
    for cell, align in ((name, "LEFT"), (shape, "LEFT"), (size, "RIGHT")):
        words = _text(cell) if cell else ""
        words = _ink(f"<S>{words}</S>" if words and look is _GONE else words, look.ink)
        line += f'<TD ALIGN="{align}" BGCOLOR="{look.ground}">{words}</TD>'
    line += f'<TD BGCOLOR="{look.ground}">{_badge(row["buffer"], shared)}</TD>'
    ground = f'COLSPAN="4" ALIGN="LEFT" BGCOLOR="{look.ground}"'
    lines = [line]
    for note in row_notes(row, node_released, format_bytes):
        if note != "released":
            # A blank at the end: fonts are a little wider than dot takes them to be.
            words = _ink(f"{_text(note, _CAPTION_WIDTH)}&#160;&#160;", RED_INK)
            lines.append(f'<TD BGCOLOR="{look.stripe}"></TD><TD {ground}>{words}</TD>')
    return "".join(f"<TR>{line}</TR>" for line in lines)


def _badge(badge: str | None, shared: set[str]) -> str:
    """The badge of a buffer: dark where it stands at more than one place."""
    if badge is None:
        return ""
    fill, ink = (OUTLINE, "#FFFFFF") if badge in shared else ("#FFFFFF", "#000000")
    words = f'<FONT POINT-SIZE="8.5" COLOR="{ink}">{_text(badge)}</FONT>'
    return _table("ROUNDED", fill, f"<TR><TD>{words}</TD></TR>", padding=1)


def _ink(markup: str, ink: str) -> str:
    # dot refuses a FONT with nothing in it.
    return f'<FONT COLOR="{ink}">{markup}</FONT>' if markup else ""


def _text(text: str, limit: int = _LONGEST_NAME) -> str:
    """Any text as text of a DOT table: shortened, on one line, nothing in it is markup."""
    # dot puts the name of the node in place of \N, in tables as in strings.
    return escape(shorten(text, limit), quote=True).replace("\\", "\\\\")
