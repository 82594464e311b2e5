"""The command line: which workloads, how often, where to."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from .facts import facts
from .frameworks import load
from .measure import unseen_by_the_collector
from .page import page
from .report import machine, table, versions
from .workloads import WORKLOADS

RESULTS = Path(__file__).with_name("results.json")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables, write the JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = ", ".join(WORKLOADS)
    add = parser.add_argument
    add("workloads", nargs="*", metavar="WORKLOAD", help=f"of {names}; all if left out")
    add("--reps", type=int, default=15, help="turns of every step (default: 15)")
    add("--tiny", action="store_true", help="the sizes of the tests: figures mean nothing")
    add("--out", type=Path, help=f"JSON file (all workloads: {RESULTS.name} beside this module)")
    add("--page", type=Path, help="measure nothing: write the JSON as a page of Markdown")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}; there are {names}")

    if given.page is not None:
        result = json.loads((given.out or RESULTS).read_text(encoding="utf-8"))
        given.page.write_text(page(result), encoding="utf-8")
        return 0
    result = measured(given.workloads or list(WORKLOADS), given.reps, given.tiny)
    out = given.out or (None if given.workloads or given.tiny else RESULTS)
    if out is not None:
        text = json.dumps(result, indent=1, ensure_ascii=False)
        out.write_text(text + "\n", encoding="utf-8")
        print(f"\nwritten to {out.name}", file=sys.stderr)
    return 0


def measured(names: list[str], reps: int, tiny: bool) -> dict[str, Any]:
    """What results.json holds, printed as it comes."""
    frameworks, missing = load()
    result: dict[str, Any] = {
        "machine": machine(),
        "versions": versions(frameworks),
        "missing": missing,
        "reps": reps,
        "tiny": tiny,
        "facts": facts(frameworks) if set(names) == set(WORKLOADS) else {},
        "workloads": {},
    }
    print(", ".join(f"{key}: {value}" for key, value in result["machine"].items()))
    print(", ".join(f"{name} {version}" for name, version in result["versions"].items()))
    for name, reason in missing.items():
        print(f"left out: {name} ({reason})")
    for name in names:
        workload = WORKLOADS[name]
        with unseen_by_the_collector():
            rows = workload.run(frameworks, reps, tiny)
        shown = table(rows, workload.SHOWS, {} if tiny else workload.GOALS)
        print(f"\n{name}: {workload.TITLE}\n{shown}", flush=True)
        result["workloads"][name] = {
            "title": workload.TITLE,
            "rows": [row._asdict() for row in rows],
        }
    return result
