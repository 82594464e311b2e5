"""The page of the documentation: results.json in Markdown. It measures nothing.

Titles, explanations and goals are those of the code; the figures are those of the JSON.
"""

import inspect
from typing import Any

from .facts import table
from .measure import Row
from .report import markdown_table
from .workloads import WORKLOADS

HEAD = """\
# How fast, how lean, and how it behaves

<!-- Made by `python -m benchmarks --page docs/benchmarks.md` from benchmarks/results.json. -->

Everything here is a ratio within one run, because absolute times differ from machine to machine.
The *floor* is the same arithmetic in plain NumPy with a backward written by hand. The *bare stack*
is a ctx, Functions and an engine in as few instructions as pure Python allows, with nothing that
protects a user: what a complete stack cannot go much below. Before anything is timed, every
framework has to give the floor's gradients.

The frameworks take turns, in another order each time; what is read is processor time, with one
BLAS thread for everybody. A cell is the median of {reps} turns (three for chains of many nodes, one
for whoever takes seconds, and one where bytes are counted) of the ratio that each turn gave; the
floor's own column is its time. The quartiles are in `benchmarks/results.json`. A dash means that a
framework has no such thing. The goals are for lucid_mini: {met} of {goals} are met.

Measured on {cpu}, {cores} cores, {os}, {blas}, with {versions}.{missing}

To measure it on your machine, which takes about five minutes:

```
pip install -c constraints.txt -e '.[bench,torch]'
python -m benchmarks
python -m benchmarks --page docs/benchmarks.md
```

A framework that is not installed is named and left out.
"""

FACTS = """\
## Yes or no

What no machine changes. `python -m benchmarks.facts` prints this table, and each line of it is a
function of `benchmarks/facts.py`.
"""


def page(result: dict[str, Any]) -> str:
    """The whole page; the same text for the same JSON."""
    sections = [_head(result)]
    if result["facts"]:
        sections.append(f"{FACTS}\n{table(result['facts'])}\n")
    for name, rows in _rows(result).items():
        workload = WORKLOADS[name]
        title = (workload.TITLE[0].upper() + workload.TITLE[1:]).replace("*", r"\*")
        about = inspect.cleandoc(workload.__doc__ or "")
        figures = markdown_table(rows, workload.SHOWS, workload.GOALS)
        sections.append(f"## {title}\n\n{about}\n\n{figures}\n")
    return "\n".join(sections)


def _rows(result: dict[str, Any]) -> dict[str, list[Row]]:
    return {
        name: [Row(**row) for row in result["workloads"][name]["rows"]]
        for name in WORKLOADS
        if name in result["workloads"]
    }


def _head(result: dict[str, Any]) -> str:
    verdicts = [
        goal.verdict([row for row in rows if row.case == case])
        for name, rows in _rows(result).items()
        for case, goal in WORKLOADS[name].GOALS.items()
    ]
    missing = "".join(f" Left out: {name} ({why})." for name, why in result["missing"].items())
    return HEAD.format(
        reps=result["reps"],
        met=verdicts.count("met"),
        goals=len(verdicts),
        versions=", ".join(f"{name} {version}" for name, version in result["versions"].items()),
        missing=missing,
        **{key: result["machine"][key] for key in ("cpu", "cores", "os", "blas")},
    )
