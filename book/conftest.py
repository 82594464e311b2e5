"""How pytest runs the notebooks: what is compared, and in which surroundings."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from book.kernels import prepare
from book.needs import missing

#: Pictures are compared by their text twins, which every figure has: the programs that draw differ
#: between machines.
NOT_COMPARED = ("text/html", "image/svg+xml")

collect_ignore_glob = ["src/*", "*/.ipynb_checkpoints/*"]

_settings: list[tempfile.TemporaryDirectory[str]] = []


def pytest_collectstart(collector: Any) -> None:
    """Before a notebook is read: leave out its pictures, and set what its kernel inherits."""
    if type(collector).__name__ != "IPyNbFile":
        return
    collector.skip_compare = (*collector.skip_compare, *NOT_COMPARED)
    # nbval runs every cell as the first of its kernel: which cell a line is in cannot be compared.
    collector.sanitize_patterns[r"In\[\d+\]"] = "In[n]"
    if not _settings:
        _settings.append(tempfile.TemporaryDirectory())
        prepare(Path(_settings[0].name))


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Leave out the cells of a chapter that needs what is not installed; the reason is printed."""
    reasons: dict[Path, str] = {}
    for item in items:
        if type(item).__name__ == "IPyNbCell":
            if item.path not in reasons:
                reasons[item.path] = missing(item.path)
            if reasons[item.path]:
                item.add_marker(pytest.mark.skip(reason=reasons[item.path]))
