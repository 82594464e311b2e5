"""The tables, and what the machine is. No host names, no paths."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .frameworks import Framework
from .goals import Goal
from .measure import Row, figure


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


def table(
    rows: list[Row], shows: Literal["ratio", "value"], goals: Mapping[str, Goal] | None = None
) -> str:
    """A line a case, a column a framework: the median, and the quartiles in brackets.

    With "ratio" the floor's column is its time, and the others' are multiples of it. The last
    columns are lucid_mini's goal and whether it is met.
    """
    cases = list(dict.fromkeys(row.case for row in rows))
    frameworks = list(dict.fromkeys(row.framework for row in rows))
    cells = {(row.case, row.framework): _cell(row, shows) for row in rows}
    lines = [["", *frameworks, "goal", ""]]
    for case in cases:
        texts = [cells.get((case, name), "–") for name in frameworks]
        lines.append([case, *texts, *goal_and_verdict(case, rows, shows, goals or {})])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in lines
    )


def goal_and_verdict(
    case: str, rows: list[Row], shows: str, goals: Mapping[str, Goal]
) -> tuple[str, str]:
    """What lucid_mini has to reach in a case, and whether it does."""
    goal = goals.get(case)
    if goal is None:
        return "", ""
    text = f"{goal} × floor" if shows == "value" and goal.of == "ratio" else str(goal)
    return text, goal.verdict([row for row in rows if row.case == case])


def _cell(row: Row, shows: str) -> str:
    if row.median is None or row.lower is None or row.upper is None:
        return row.note or "–"
    if shows == "ratio" and row.framework != "floor" and row.ratio is not None:
        return f"{row.ratio:.2f} ({row.ratio_lower:.2f}–{row.ratio_upper:.2f})"
    text = f"{figure(row.median)} {row.unit}".rstrip()
    if row.lower == row.upper:
        return text
    return f"{text} ({figure(row.lower)}–{figure(row.upper)})"
