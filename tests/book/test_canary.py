"""The canary: a chapter whose stored outputs are altered must turn `pytest --nbval` red."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

BOOK = Path(__file__).resolve().parents[2] / "book"


def alter(path):
    """Change a printed number, the message of an error and a text twin, in a cell each."""
    notebook = nbformat.read(path, as_version=4)
    wanted = {"stream": "text", "error": "evalue", "execute_result": "data"}
    altered = []
    for index, cell in enumerate(c for c in notebook.cells if c.cell_type == "code"):
        for output in cell.outputs:
            key = wanted.get(output.output_type)
            where = output[key] if key == "data" else output
            key = "text/plain" if key == "data" else key
            if key and re.search(r"\d", where[key]):
                where[key] = re.sub(r"\d", lambda d: str((int(d[0]) + 1) % 10), where[key], count=1)
                wanted.pop(output.output_type)
                altered.append(index)
                break
    assert not wanted
    nbformat.write(notebook, path)
    return altered


def test_altered_outputs_fail_where_they_were_altered_and_the_chapter_itself_passes(tmp_path):
    book = tmp_path / "book"
    shutil.copytree(BOOK, book, ignore=shutil.ignore_patterns("*.ipynb", "src", "__pycache__"))
    (chapter,) = BOOK.glob("01_*.ipynb")
    good = shutil.copy(chapter, book / "01_good.ipynb")
    bad = shutil.copy(chapter, book / "01_altered.ipynb")
    altered = alter(bad)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(BOOK.parent / "pyproject.toml"),
            f"--rootdir={tmp_path}",
            "-p",
            "no:cacheprovider",
            "-q",
            str(good),
            str(bad),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    failed = re.findall(r"^FAILED .*?01_(\w+)\.ipynb::Cell (\d+)", done.stdout, flags=re.MULTILINE)
    assert failed == [("altered", str(index)) for index in altered], done.stdout
    assert f"{len(altered)} failed" in done.stdout
