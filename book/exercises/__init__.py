"""The exercises of the book, and what `check("2.1", answer)` says to an answer.

`core` prints, `compare` holds what several chapters need, and each chapter has a file of its own.
"""

from importlib import import_module
from pathlib import Path

from .core import CHECKS, check, reveal

for _path in sorted(Path(__file__).parent.glob("chapter_*.py")):
    import_module(f"{__name__}.{_path.stem}")  # its checkers enter CHECKS

__all__ = ["CHECKS", "check", "reveal"]
