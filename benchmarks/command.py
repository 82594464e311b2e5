"""The command line: which workloads, how often, where to."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from .frameworks import load
from .measure import unseen_by_the_collector
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
    given = parser.parse_args(arguments)
    unknown = [name for name in given.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}; there are {names}")

    frameworks, missing = load()
    result: dict[str, Any] = {
        "machine": machine(),
        "versions": versions(frameworks),
        "missing": missing,
        "reps": given.reps,
        "tiny": given.tiny,
        "workloads": {},
    }
    print(", ".join(f"{key}: {value}" for key, value in result["machine"].items()))
    print(", ".join(f"{name} {version}" for name, version in result["versions"].items()))
    for name, reason in missing.items():
        print(f"left out: {name} ({reason})")
    for name in given.workloads or WORKLOADS:
        workload = WORKLOADS[name]
        with unseen_by_the_collector():
            rows = workload.run(frameworks, given.reps, given.tiny)
        goals = {} if given.tiny else workload.GOALS
        shown = table(rows, workload.SHOWS, goals)
        print(f"\n{name}: {workload.TITLE}\n{shown}", flush=True)
        result["workloads"][name] = {
            "title": workload.TITLE,
            "rows": [row._asdict() for row in rows],
        }
    out = given.out or (None if given.workloads or given.tiny else RESULTS)
    if out is not None:
        text = json.dumps(result, indent=1, ensure_ascii=False)
        out.write_text(text + "\n", encoding="utf-8")
        print(f"\nwritten to {out.name}", file=sys.stderr)
    return 0
