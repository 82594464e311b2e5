"""The graph as a picture: what each node keeps stands inside its box, one row per saved value.

Saved values as nodes of their own turn a graph of 40 nodes into crossing lines. Here they are rows; the
same memory bears the same badge wherever it is kept.
"""

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from html import escape
from typing import Any

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
from lucid_mini.draw.figure import Figure, PictureError
from lucid_mini.draw.style import (
    FAINT_INK,
    LOOKS,
    OUTLINE,
    RED_INK,
    clean,
    format_bytes,
    shorten,
)

#: Of a larger graph a picture cannot be read, and dot needs minutes.
MOST_NODES = 200
_SECONDS = 60
_LONGEST_NAME = 36
_FONT = "DejaVu Sans,Verdana,sans-serif"
_PALE = "#DDF0FB"  # the colour of saved values, thinned for black text
_HEAD = "#ECEFF1"
_HOW_TO_GET_PICTURES = (
    "Pictures of graphs need the program dot: install Graphviz, or pip install 'lucid-mini[book]'. The text "
    "says the same without it."
)


def graph(
    tensor_or_node: Any,
    *,
    names: Mapping[str, Any] | None = None,
    before: "GraphFigure | dict[str, Any] | None" = None,
) -> "GraphFigure":
    """Draw the graph upstream of `tensor_or_node`, with what each node has saved.

    `names` maps names to tensors; `locals()` will do. A released node remembers nothing of what it had
    saved: to see it struck through, pass the figure (or the `dump(..., "dict")`) made before backward as
    `before`.

    Keeps: names and numbers, no tensor and no node.
    Raises: TypeError for what is neither tensor nor node.
    """
    now = read(tensor_or_node, names, "graph")
    if before is not None:
        _remember(now, before.graph if isinstance(before, GraphFigure) else before)
    return GraphFigure(now)


class GraphFigure(Figure):
    """The picture of a graph. `graph` has its facts, as `lm.autograd.dump(..., "dict")` describes them."""

    def __init__(self, graph: dict[str, Any]) -> None:
        self.graph = graph
        start = graph["start"]
        self.title = f"Graph of {start['tensor'] or start['name']}"
        self.caption = _caption(graph)

    def text(self) -> str:
        """The table: one line per leaf, node and saved value, in the order of the calls."""
        return as_text(self.graph, nbytes=format_bytes, most=MOST_NODES)

    def dot(self) -> str:
        """The DOT source, with a table for each node."""
        return _dot(self.graph, self.title)

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
                f"A picture of {nodes} nodes cannot be read, and is not drawn. Draw a part of it: pass a node or "
                f"a tensor further up. lm.autograd.dump lists all of them."
            )
        program = _program()
        try:
            done = subprocess.run(
                [program, f"-T{form}", *options],
                input=self.dot().encode(),
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise PictureError(f"dot could not draw this graph: {type(error).__name__}.") from None
        if done.returncode or not done.stdout:
            said = clean(done.stderr.decode(errors="replace").strip().split("\n")[0])
            raise PictureError(f"dot could not draw this graph: {said or 'it said nothing'}.")
        return done.stdout


def _program() -> str:
    """Graphviz's dot, or the port of it that pip installs.

    Raises: PictureError where there is neither.
    """
    found = (
        shutil.which("dot")
        or shutil.which("graphviz-pure", path=sysconfig.get_path("scripts"))
        or shutil.which("graphviz-pure")
    )
    if found is None:
        raise PictureError(_HOW_TO_GET_PICTURES)
    return found


def _caption(graph: dict[str, Any]) -> str:
    sums = count(graph)
    parts = [
        f"{plural(sums['nodes'], 'node')}, {plural(sums['leaves'], 'leaf', 'leaves')}",
        f"{format_bytes(sums['saved_bytes'])} saved in {plural(sums['buffers'], 'buffer')}",
    ]
    if sums["attribute_bytes"]:
        parts.append(f"{format_bytes(sums['attribute_bytes'])} in ctx attributes, which backward does not release")
    if sums["released"]:
        every = sums["released"] == sums["nodes"]
        parts.append("all nodes released" if every else f"{plural(sums['released'], 'node')} released")
    return "; ".join(parts)


def _remember(now: dict[str, Any], before: dict[str, Any]) -> None:
    """Give released nodes the rows they had `before`, marked as released, under the badges of that time."""
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


def _dot(graph: dict[str, Any], title: str) -> str:
    """DOT source: the tables of leaves and nodes, and arrows as forward ran."""
    badges = [row["buffer"] for node in graph["nodes"] for row in node["saved"] if row["buffer"]]
    shared = {badge for badge in badges if badges.count(badge) > 1}
    shared |= {leaf["buffer"] for leaf in graph["leaves"] if leaf["buffer"]}
    usual = {leaf["dtype"] for leaf in graph["leaves"]}
    lines = [
        f"digraph {quoted(title)} {{",
        f"  graph [rankdir=TB, ordering=in, nodesep=0.3, ranksep=0.35, pad=0.15, bgcolor=white, labelloc=t, "
        f'labeljust=l, fontname="{_FONT}", label=<{_key(graph, title)}>]',
        f'  node [shape=plain, fontname="{_FONT}", fontsize=10]',
        f'  edge [color="{OUTLINE}", fontcolor="{FAINT_INK}", fontname="{_FONT}", fontsize=8.5, arrowsize=0.6]',
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
        lines.append(f"  {source} -> {quoted(edge['from'])} [label={quoted(label)}]")
    start = graph["start"]
    if start["name"] in outputs and start["shape"] is not None:
        name = shorten(start["tensor"] or "output", _LONGEST_NAME)
        label = f"{name} {shape_text(start['shape'])}"
        lines.append(f'  "the output" [shape=plaintext, margin="0.05,0.02", label={quoted(label)}]')
        lines.append(f'  {quoted(start["name"])} -> "the output"')
    return "\n".join([*lines, "}", ""])


def _edge_label(source: str, output_nr: int, outputs: dict[str, Any]) -> str:
    """Name and shape of what flows; nothing at a leaf, whose box says so."""
    if source not in outputs:
        return ""
    output = outputs[source][output_nr]
    which = f"output {output_nr}: " if len(outputs[source]) > 1 else ""
    name = f"{shorten(output['tensor'], _LONGEST_NAME)} " if output["tensor"] else ""
    return f" {which}{name}{shape_text(output['shape'])}"


def _key(graph: dict[str, Any], title: str) -> str:
    """The head of the picture: title, sums, and what the signs in it mean."""
    rows = [row for node in graph["nodes"] for row in node["saved"]]
    signs = {sign_of(row) for row in rows}
    meanings = {"●": "saved", "○": "the same buffer again", "×": "released"}
    key = [f"{sign} {meaning}" for sign, meaning in meanings.items() if sign in signs]
    lines = [f'<FONT POINT-SIZE="13"><B>{_text(title)}</B></FONT>', _text(_caption(graph))]
    if key:
        lines.append(_text("   ".join(key)))
    cells = "".join(f'<TR><TD ALIGN="LEFT">{line}</TD></TR>' for line in lines)
    return (
        f'<FONT POINT-SIZE="9.5"><TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">{cells}'
        f"</TABLE></FONT>"
    )


def _leaf_table(leaf: dict[str, Any], shared: set[str]) -> str:
    """The box of a leaf, with round corners: name and badge, shape and bytes, its gradient."""
    fill, ink = (LOOKS["use"].fill, "#FFFFFF") if leaf["alive"] else ("#FFFFFF", FAINT_INK)
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
    badge = _badge(leaf["buffer"], shared)
    rows = [f'<TR><TD>{_ink(lines[0], ink)}</TD><TD ROWSPAN="{len(lines)}">{badge}</TD></TR>']
    if not badge:
        rows = [f"<TR><TD>{_ink(lines[0], ink)}</TD></TR>"]
    rows += [f"<TR><TD>{_ink(line, ink)}</TD></TR>" for line in lines[1:]]
    style = "ROUNDED" if leaf["alive"] else "ROUNDED,DASHED"
    return (
        f'<TABLE STYLE="{style}" BORDER="1" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2" COLOR="{OUTLINE}" '
        f'BGCOLOR="{fill}">{"".join(rows)}</TABLE>'
    )


def _node_table(node: dict[str, Any], shared: set[str], usual: set[str]) -> str:
    """The box of an op: its name, then a row per saved value. Dashed and white once released."""
    name = f"<B>{_text(node['name'])}</B>"
    style = "SOLID"
    if node["released"]:
        name, style = f"{_ink(name, FAINT_INK)} {_ink('released', FAINT_INK)}", "DASHED"
    fill = "#FFFFFF" if node["released"] else _HEAD
    rows = [f'<TR><TD COLSPAN="5" BGCOLOR="{fill}" CELLPADDING="3">{name}</TD></TR>']
    rows += [_row(row, node["released"], shared, usual) for row in node["saved"]]
    return (
        f'<TABLE STYLE="{style}" BORDER="1" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2" COLOR="{OUTLINE}" '
        f'BGCOLOR="#FFFFFF">{"".join(rows)}</TABLE>'
    )


def _row(row: dict[str, Any], node_released: bool, shared: set[str], usual: set[str]) -> str:
    """A saved value: sign, name, shape, bytes, badge; below it what is unusual."""
    gone = bool(row.get("released"))
    held = node_released and not gone
    if gone:
        stripe, fill, ink = "#FFFFFF", "#FFFFFF", FAINT_INK
    elif held:
        stripe, fill, ink = LOOKS["drag"].fill, "#FFFFFF", RED_INK
    else:
        stripe, fill, ink = LOOKS["saved"].fill, _PALE, "#000000"
    name = row_name(row)
    if row["role"] in ("alias of output", "intermediate", "packed", "unknown"):
        name = f"{name}, {row['role']}"
    kind = "" if row["dtype"] in usual else f" {row['dtype'] or row['type']}"
    size = "" if row["again"] or not row["buffer"] else format_bytes(row["nbytes"])
    cells = [name, f"{shape_text(row['shape'])}{kind}".strip(), size]
    notes = [note for note in row_notes(row, node_released, format_bytes) if note != "released"]
    shown = [_ink(f"<S>{_text(cell)}</S>" if gone and cell else _text(cell), ink) for cell in cells]
    aligns = ("LEFT", "LEFT", "RIGHT")
    line = f'<TD BGCOLOR="{stripe}">{_ink(sign_of(row), ink if gone else "#000000")}</TD>' + "".join(
        f'<TD ALIGN="{align}" BGCOLOR="{fill}">{cell}</TD>' for cell, align in zip(shown, aligns, strict=True)
    )
    line += f'<TD BGCOLOR="{fill}">{_badge(row["buffer"], shared)}</TD>'
    more = "".join(
        f'<TR><TD BGCOLOR="{stripe}"></TD><TD COLSPAN="4" ALIGN="LEFT" BGCOLOR="{fill}">{_ink(_text(note), RED_INK)}'
        f"</TD></TR>"
        for note in notes
    )
    return f"<TR>{line}</TR>{more}"


def _badge(badge: str | None, shared: set[str]) -> str:
    """The badge of a buffer: dark where it stands at more than one place."""
    if badge is None:
        return ""
    fill, ink = (OUTLINE, "#FFFFFF") if badge in shared else ("#FFFFFF", "#000000")
    return (
        f'<TABLE STYLE="ROUNDED" BORDER="1" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1" COLOR="{OUTLINE}" '
        f'BGCOLOR="{fill}"><TR><TD><FONT POINT-SIZE="8.5" COLOR="{ink}">{_text(badge)}</FONT></TD></TR></TABLE>'
    )


def _ink(markup: str, ink: str) -> str:
    # dot refuses a FONT with nothing in it.
    return f'<FONT COLOR="{ink}">{markup}</FONT>' if markup else ""


def _text(text: str) -> str:
    """Any text as text of a DOT table: shortened, on one line, nothing in it is markup."""
    return escape(shorten(text, 4 * _LONGEST_NAME), quote=True)
