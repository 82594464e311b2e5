"""What a chapter needs beyond the packages of the book, and what is said where that is missing."""

import functools
import importlib
import re
from pathlib import Path


def missing(path: Path) -> str:
    """Why the chapter at `path`, a source or a notebook, cannot run here; "" if it can."""
    wants = re.search(r'^\s*"?import torch\b', path.read_text(encoding="utf-8"), re.MULTILINE)
    if wants and not _imports("torch"):
        return "it needs PyTorch, which does not import here: pip install 'lucid-mini[torch]'"
    return ""


@functools.cache
def _imports(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
