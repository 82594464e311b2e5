"""The tables, and what the machine is. No host names, no paths."""

import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .frameworks import Framework
from .goals import Goal
from .measure import Row, figure

Shows = Literal["ratio", "value"]


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "os": f"{platform.system()} {platform.machine()}",
        "blas": f"{blas['name']} {blas['version']}",
        "blas_threads": int(os.environ.get("OPENBLAS_NUM_THREADS", "0")) or "default",
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions(frameworks: list[Framework]) -> dict[str, str]:
    """Of the interpreter, NumPy and whoever took part."""
    found = {"python": platform.python_version(), "numpy": np.__version__}
    for framework in frameworks:
        if framework.distribution != "numpy":
            found[framework.name] = framework.version()
    return found


def table(rows: list[Row], shows: Shows, goals: Mapping[str, Goal]) -> str:
    """For a terminal: the medians, and the quartiles in brackets."""
    lines = _lines(rows, shows, goals, spread=True)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in lines
    )


def markdown_table(rows: list[Row], shows: Shows, goals: Mapping[str, Goal]) -> str:
    """For a page: the medians alone."""
    return markdown(_lines(rows, shows, goals, spread=False))


def markdown(lines: list[list[str]], side: str = "--:") -> str:
    """A Markdown table; the first line is its head, `side` is that of all columns but the first."""
    head, *body = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    rule = [":--", *[side] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *body])


def _lines(
    rows: list[Row], shows: Shows, goals: Mapping[str, Goal], spread: bool
) -> list[list[str]]:
    """A line a case, a column a framework.

    With "ratio" the floor's column is its time, and the others' are multiples of it. The last
    columns are lucid_mini's goal and whether it is met.
    """
    cases = list(dict.fromkeys(row.case for row in rows))
    frameworks = list(dict.fromkeys(row.framework for row in rows))
    cells = {(row.case, row.framework): _cell(row, shows, spread) for row in rows}
    lines = [["", *frameworks]]
    for case in cases:
        lines.append([case, *(cells.get((case, name), "–") for name in frameworks)])
    if goals:
        lines[0] += ["goal", "met?"]
        for case, line in zip(cases, lines[1:], strict=True):
            line.extend(_goal(case, rows, shows, goals))
    return lines


def _goal(case: str, rows: list[Row], shows: Shows, goals: Mapping[str, Goal]) -> list[str]:
    goal = goals.get(case)
    if goal is None:
        return ["", ""]
    text = f"{goal} × floor" if shows == "value" and goal.of == "ratio" else str(goal)
    return [text, goal.verdict([row for row in rows if row.case == case])]


def _cell(row: Row, shows: Shows, spread: bool) -> str:
    if row.median is None:
        return row.note or "–"
    if shows == "ratio" and row.framework != "floor" and row.ratio is not None:
        return _spread(
            f"{row.ratio:.2f}", row.ratio_lower, row.ratio_upper, spread, "{:.2f}".format
        )
    text = f"{figure(row.median)} {row.unit}".rstrip()
    return _spread(text, row.lower, row.upper, spread, figure)


def _spread(
    text: str, lower: float | None, upper: float | None, spread: bool, digits: Callable[..., str]
) -> str:
    if not spread or lower == upper:
        return text
    return f"{text} ({digits(lower)}–{digits(upper)})"
