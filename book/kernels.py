"""The surroundings in which the book's notebooks run, the same for the build and for the tests."""

import os
import subprocess
import sys
from pathlib import Path

#: One thread: two runs add in the same order. A fixed hash seed: sets have one order.
FIXED = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}


def prepare(folder: Path) -> None:
    """Set the environment variables that kernels inherit; nobody's own settings reach a chapter.

    Keeps: the settings of IPython and matplotlib in `folder`, which is the caller's to remove.
    """
    os.environ.update(FIXED)
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    os.environ["MPLCONFIGDIR"] = str(folder / "matplotlib")
    # The first import of matplotlib writes a font cache, and says so on stderr: not in a chapter.
    subprocess.run(
        [sys.executable, "-c", "import matplotlib.font_manager"],
        capture_output=True,
        check=False,
    )
