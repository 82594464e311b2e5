"""The book as static files, with Python in the browser: `python docs/lite/build.py [FOLDER]`.

Needs the packages of `requirements.txt` beside it, and no other than those. What a reader's browser
fetches when the pages are opened is in README.md.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: What makes and tests the chapters is of no use to who reads them.
LEFT_OUT = ("src", "build.py", "conftest.py", "kernels.py", "__pycache__", ".*")


def stage(folder: Path) -> None:
    """Put into `folder` what a reader needs: the chapters, their helpers, and the package.

    The package lies beside the chapters, where their `import lucid_mini` finds it.
    """
    shutil.copytree(ROOT / "book", folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    package = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "lucid_mini", folder / "lucid_mini", ignore=package)


def build(output: Path) -> int:
    """Write the site to `output`; the result is the exit code of `jupyter lite`."""
    with tempfile.TemporaryDirectory() as temporary:
        stage(Path(temporary, "book"))
        shutil.copy(HERE / "jupyter-lite.json", temporary)
        command = [sys.executable, "-m", "jupyter", "lite", "build", "--apps", "lab"]
        options = ["--contents", "book", "--output-dir", str(output.resolve())]
        return subprocess.run([*command, *options], cwd=temporary, check=False).returncode


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "_output")))
