"""The book is no part of the package that is installed: the tests find it beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
