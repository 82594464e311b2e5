"""What `import` costs, in a fresh interpreter whose bytecode is compiled already.

The interpreters take turns. What is read is the processor time of the import statement alone, with
that of all it imports in turn; the floor is `import numpy`.
"""

import os
import subprocess
import sys
from pathlib import Path

from ..frameworks import Framework
from ..goals import Goal
from ..measure import Row, in_turn, rows

TITLE = "import in a fresh interpreter, ratio to `import numpy`"
SHOWS = "ratio"
CASE = "import"
GOALS = {CASE: Goal(1.2)}

_ROOT = Path(__file__).resolve().parents[2]
_CODE = """
from time import process_time_ns
begin = process_time_ns()
{}
print(process_time_ns() - begin)
"""


def run(frameworks: list[Framework], reps: int, tiny: bool) -> list[Row]:
    """Microseconds; whoever is no package is left out."""
    statements = {f.name: f.importing for f in frameworks if f.importing}
    for statement in () if tiny else statements.values():
        _took(statement)  # whatever is not compiled yet
    values: dict[str, list[float]] = {name: [] for name in statements}
    for turn in range(1 if tiny else reps):
        for name in in_turn(statements, turn):
            values[name].append(_took(statements[name]))
    return rows(CASE, "µs", values)


def _took(statement: str) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    # The checkout goes first: what is measured is what stands beside these benchmarks.
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    )
    done = subprocess.run(
        [sys.executable, "-c", _CODE.format(statement)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout.split()[-1]) / 1e3
