"""Make the notebooks of the book from `book/src`: `python -m book.build [--check] [NAME ...]`.

    book/src/NN_name.py -> jupytext -> run from the first cell -> normalised -> book/NN_name.ipynb

The same for `book/src/solutions`. A second run changes no byte. `--check` writes nothing: it says
which cell differs from what the sources make, and ends with exit code 1 if one does. A chapter that
needs what is not installed is left out, and named.
"""

import argparse
import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from book.kernels import prepare
from book.needs import missing

BOOK = Path(__file__).resolve().parent
SOURCES = BOOK / "src"
SECONDS_PER_CELL = 120

#: What a picture's bytes depend on besides the sources; others are compared by their text.
PICTURES = ("text/html", "image/svg+xml", "image/png")
#: Two boxes, with the fonts that lm.draw asks for: another dot or other fonts draw them otherwise.
_PROBE = (
    'digraph { node [shape=box, fontname="DejaVu Sans,Verdana,sans-serif", fontsize=10]; '
    '"matmul#1 ● x (32, 128)" -> "tanh#2 ○ output 16 KiB" }'
)


class BuildError(Exception):
    """A chapter cannot be built; the message says which and why."""


def notebook_of(source: Path) -> Path:
    """Where the notebook of `source` lies."""
    return BOOK / source.relative_to(SOURCES).with_suffix(".ipynb")


def sources(names: list[str]) -> list[Path]:
    """The sources to build, chapters before solutions; `names` are beginnings of file names.

    Raises: BuildError for a name that fits no source.
    """
    found = [*sorted(SOURCES.glob("[0-9]*.py")), *sorted(SOURCES.glob("solutions/[0-9]*.py"))]
    for name in names:
        if not any(_fits(source, name) for source in found):
            known = ", ".join(source.stem for source in found if source.parent == SOURCES)
            raise BuildError(f"no chapter begins with '{name}'; there are {known}")
    return [s for s in found if not names or any(_fits(s, name) for name in names)]


def _fits(source: Path, name: str) -> bool:
    name = name.removesuffix(".py").removesuffix(".ipynb")
    path = source.relative_to(SOURCES).with_suffix("").as_posix()
    return path.startswith(name) or source.stem.startswith(name)


def build(source: Path, pictures: str) -> str:
    """The notebook of `source`, run and normalised, as the text of its file.

    Raises: BuildError where a cell fails.
    """
    notebook = jupytext.reads(source.read_text(encoding="utf-8"), fmt="py:percent")
    number = source.stem.split("_")[0]
    for index, cell in enumerate(notebook.cells, 1):
        cell["id"] = f"{number}-{index:03d}"
    folder = notebook_of(source).parent
    folder.mkdir(exist_ok=True)
    client = NotebookClient(
        notebook,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise BuildError(f"{source.name}: a cell failed\n{_plain(str(error))}") from None
    normalise(notebook, pictures)
    return nbformat.writes(notebook, indent=1) + "\n"


def normalise(notebook: Any, pictures: str) -> None:
    """Take out what differs between runs or machines: times, versions, paths in tracebacks."""
    notebook["nbformat"], notebook["nbformat_minor"] = 4, 5
    notebook["metadata"] = {
        "kernelspec": {
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
        "lucid_mini": {"pictures": pictures},
    }
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell["metadata"] = {"tags": tags} if tags else {}
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                output["traceback"] = [_message(output)]


def _message(error: Any) -> str:
    """The end of a traceback: class, message and notes, without lines and paths."""
    text = _plain("\n".join(error.traceback))
    at = text.rfind(f"{error.ename}: {error.evalue}".rstrip())
    return text[at:].rstrip() if at >= 0 else f"{error.ename}: {error.evalue}"


def _plain(text: str) -> str:
    """`text` without the colours of a terminal."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def drawn_with() -> str:
    """A short word for what draws here: the same word, the same bytes of a picture."""
    port = shutil.which("graphviz-pure", path=sysconfig.get_path("scripts"))
    program = shutil.which("dot") or port or shutil.which("graphviz-pure")
    drawn = b"no dot"
    if program:
        run = subprocess.run(
            [program, "-Tsvg"], input=_PROBE.encode(), capture_output=True, check=False
        )
        drawn = run.stdout
    facts = [drawn, *(version(name).encode() for name in ("matplotlib", "numpy"))]
    return hashlib.sha256(b"\0".join(facts)).hexdigest()[:12]


# -- comparing ------------------------------------------------------------------------------------


def differences(stored: str, built: str) -> Iterator[str]:
    """In words, what differs between the text of a stored notebook and of the one just built.

    Pictures count where both were drawn by the same programs; where not, their text twins do.
    """
    if stored == built:
        return
    try:
        old, new = json.loads(stored), json.loads(built)
    except json.JSONDecodeError as error:
        yield f"is no notebook: {error}"
        return
    words = [n.get("metadata", {}).pop("lucid_mini", {}).get("pictures") for n in (old, new)]
    if words[0] != words[1]:
        _without_pictures(old), _without_pictures(new)
    if old == new:
        if words[0] == words[1]:
            yield "has the same cells, written in another way (spaces, order of keys)"
        return
    olds = {cell.get("id"): cell for cell in old["cells"]}
    news = {cell["id"]: cell for cell in new["cells"]}
    before = len(olds)
    for name, cell in news.items():
        if name not in olds:
            yield f"cell {name} is missing"
        elif olds[name] != cell:
            yield f"cell {name} {_difference(olds[name], cell)}"
    for name in olds.keys() - news.keys():
        yield f"cell {name} is not in the sources"
    if [*olds] != [*news] and before == len(news):
        yield "has its cells in another order"
    if {k: v for k, v in old.items() if k != "cells"} != {
        k: v for k, v in new.items() if k != "cells"
    }:
        yield "has other metadata"


def _without_pictures(notebook: Any) -> None:
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            for kind in PICTURES:
                data.pop(kind, None)


def _difference(old: Any, new: Any) -> str:
    """Which part of a cell differs, and how."""
    for key in ("cell_type", "source", "metadata", "execution_count"):
        if old.get(key) != new.get(key):
            return f"has another {key}{_lines(old.get(key), new.get(key))}"
    for at, (was, now) in enumerate(
        zip(old.get("outputs", ()), new.get("outputs", ()), strict=False)
    ):
        for key in sorted({*was, *now} - {"data"}):
            if was.get(key) != now.get(key):
                return f"has another output {at}: {key}{_lines(was.get(key), now.get(key))}"
        datas = was.get("data", {}), now.get("data", {})
        for kind in sorted({*datas[0], *datas[1]}, key=lambda k: (k in PICTURES, k)):
            if datas[0].get(kind) != datas[1].get(kind):
                shown = "" if kind in PICTURES else _lines(datas[0].get(kind), datas[1].get(kind))
                return f"has another output {at}: {kind}{shown}"
    return f"has {len(old.get('outputs', ()))} outputs, and the sources make {len(new['outputs'])}"


def _lines(old: Any, new: Any) -> str:
    texts = ["".join(t) if isinstance(t, list) else str(t) for t in (old, new)]
    pair = (t.splitlines() for t in texts)
    lines = difflib.unified_diff(*pair, "stored", "built", lineterm="", n=1)
    shown = [f"    {line}" for line in lines][:14]
    return "\n" + "\n".join(shown)


# -- the command ----------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Build or compare; the result is the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m book.build", description="Make the notebooks of the book from book/src."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a chapter: 05, or 05_when")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        # The kernels run in book/, and find the package where this process found it.
        found = [str(BOOK.parent), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, found))
        try:
            return _run(sources(options.names), options.check, complete=not options.names)
        except BuildError as error:
            print(f"book.build: {error}", file=sys.stderr)
            return 2


def _run(chosen: list[Path], check: bool, *, complete: bool) -> int:
    pictures = drawn_with()
    stale = 0
    for source in chosen:
        target = notebook_of(source)
        name = target.relative_to(BOOK).as_posix()
        if reason := missing(source):
            print(f"{name}: left as it is, for {reason}")
            continue
        built = build(source, pictures)
        stored = target.read_text(encoding="utf-8") if target.exists() else ""
        if check:
            said = list(differences(stored, built)) if stored else ["is not there"]
            for line in said:
                print(f"{name}: {line}")
            stale += bool(said)
            if not said:
                same = stored == built
                print(f"{name}: the same" + ("" if same else ", pictures drawn by other programs"))
        else:
            target.write_text(built, encoding="utf-8")
            print(f"{name}: {'unchanged' if stored == built else 'written'}")
    if complete:
        made = {notebook_of(source) for source in chosen}
        for path in sorted({*BOOK.glob("*.ipynb"), *BOOK.glob("solutions/*.ipynb")} - made):
            print(f"{path.relative_to(BOOK).as_posix()}: has no source in book/src")
            stale += 1
    if check and stale:
        print(f"{stale} to build anew: python -m book.build")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
