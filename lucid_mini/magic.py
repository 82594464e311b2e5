"""`%load_ext lucid_mini` and `%%lifetimes`: the cell's timeline under the cell.

In one cell `%load_ext lucid_mini`; then, with a title after the name or without:

```
%%lifetimes one training step
loss = step(batch)
loss.backward()
```
"""

from typing import Any

from . import draw
from .lifetime import trace


def load_ipython_extension(shell: Any) -> None:
    """Register `%%lifetimes` with the running IPython."""
    shell.register_magic_function(_lifetimes_in(shell), magic_kind="cell", magic_name="lifetimes")


def _lifetimes_in(shell: Any) -> Any:
    def lifetimes(line: str, cell: str) -> Any:
        """Run the cell in a trace and show its timeline: `%%lifetimes [TITLE]`."""
        with trace() as t:
            result = shell.run_cell(cell, store_history=False)
        failed = result.error_before_exec or result.error_in_exec
        if failed is not None:
            return None  # IPython has shown the error
        t.title = line.strip() or "Lifetimes of this cell"
        t.survivors()
        return draw.timeline(t)

    return lifetimes
