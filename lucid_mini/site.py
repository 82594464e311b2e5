"""The documentation as a folder of web pages, built without a network.

Pages stand in a clone at three places: `docs/`, `book/`, and a few files at the top. `stage` lays
them out as one tree, which Sphinx turns into pages as `docs/conf.py` says.
"""

import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Pages of a clone that have another place on the site. A folder is what its first page is.
_MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "book": "book/index.md",
    "book/README.md": "book/index.md",
    "book/solutions": "book/solutions/index.md",
    "docs/decisions": "decisions/index.md",
}
#: A link to a file: not to an address, not to a place on the same page.
_LINK = re.compile(r"\[([^\[\]]+)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_SHARE = re.compile(r"(reading sources|writing output)\.\.\. \S*\[ *(\d+)%\]")
_CHAPTERS = "\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"


def build(root: Path, folder: Path) -> bool:
    """Build the site of the clone `root` in `folder`: whether that went well.

    Whole or not at all: what `folder` had before is replaced once the new pages stand. The same
    clone gives the same pages.   Keeps: nothing.
    """
    with tempfile.TemporaryDirectory(prefix="lucid-mini-site-") as temporary:
        source, pages = Path(temporary, "source"), Path(temporary, "pages")
        stage(root, source)
        if not _render(source, pages, Path(temporary, "read")):
            return False
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(pages, folder)
    return True


def is_site(folder: Path) -> bool:
    """Whether `folder` holds what an earlier call has built."""
    return (folder / "objects.inv").is_file() and (folder / "searchindex.js").is_file()


def stage(root: Path, source: Path) -> None:
    """Lay out the pages of the clone `root` as one tree in `source`.

    A link to a page leads to where that page is staged; of a link to another file of the clone the
    name is left; a link to nothing stays as it is, and fails the build.
    """
    built = shutil.ignore_patterns("__pycache__", "_output", "_build", ".*")
    shutil.copytree(root / "docs", source, ignore=built)
    shutil.copytree(root / "lucid_mini", source / "lucid_mini", ignore=built)  # to quote from
    places = _places(root)
    for page, place in places.items():
        target = source / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (root / page).read_text(encoding="utf-8")
        if page.suffix == ".ipynb":
            text = _chapter(text, page, root, places)
        else:
            text = _relinked(text, page, root, places)
        if page == Path("book/README.md") and any(found.suffix == ".ipynb" for found in places):
            text += _CHAPTERS
        target.write_text(text, encoding="utf-8")


def _places(root: Path) -> dict[Path, Path]:
    """Where each page of the clone stands on the site, both relative."""
    found = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("book/*.md")]
    found += [*root.glob("book/[0-9]*.ipynb"), *root.glob("book/solutions/[0-9]*.ipynb")]
    places = {}
    for path in sorted(found):
        page = path.relative_to(root)
        # The site has a front page of its own; under `_output` and the like lies what was built.
        if page != Path("README.md") and not any(part.startswith("_") for part in page.parts):
            place = _MOVED.get(page.as_posix(), page.as_posix().removeprefix("docs/"))
            places[page] = Path(place)
    return places


def _chapter(text: str, page: Path, root: Path, places: Mapping[Path, Path]) -> str:
    """The notebook `text`, with a link to its solutions at the end where it has some."""
    notebook: dict[str, Any] = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _relinked("".join(cell["source"]), page, root, places)
    if page.parent / "solutions" / page.name in places:
        link = f"[Solutions of this chapter](solutions/{page.name})"
        cell = {"id": "solutions", "cell_type": "markdown", "metadata": {}, "source": link}
        notebook["cells"].append(cell)
    return json.dumps(notebook, ensure_ascii=False)


def _relinked(text: str, page: Path, root: Path, places: Mapping[Path, Path]) -> str:
    """The page `text` with links that lead to pages of the site."""
    here = places[page].parent

    def lead(link: re.Match[str]) -> str:
        name, path, anchor = link.groups(default="")
        found = Path(os.path.normpath(page.parent / path))
        place = places.get(found) or _MOVED.get(found.as_posix())
        if place is None and found.parts[:1] == ("docs",) and (root / found).is_file():
            place = found.relative_to("docs")  # a picture
        if place is not None:
            return f"[{name}]({Path(os.path.relpath(place, here)).as_posix()}{anchor})"
        if not (root / found).exists():
            return link[0]
        return name if "`" in name else f"`{name}`"

    return _LINK.sub(lead, text)


class _Progress(io.StringIO):
    """Of all that Sphinx says, how far it is: one line, which is written over."""

    def write(self, text: str) -> int:
        """Show a step and its share; wipe both when the step is over."""
        for step, share in _SHARE.findall(text):
            ends = "\r\x1b[K" if share == "100" else ""
            sys.stderr.write(f"\r{step} {share:>3} %{ends}")
            sys.stderr.flush()
        return len(text)


def _render(source: Path, pages: Path, cache: Path) -> bool:
    """Let Sphinx make `pages` from `source`; every warning is an error, all of them are shown."""
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.console import nocolor
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    if "NO_COLOR" in os.environ or not sys.stderr.isatty():
        nocolor()
    try:
        with patch_docutils(source), docutils_namespace():
            sphinx = Sphinx(
                source,
                source,
                pages,
                cache,
                "html",
                status=_Progress() if sys.stderr.isatty() else None,
                warning=sys.stderr,
                warningiserror=True,
            )
            sphinx.build()
            return bool(sphinx.statuscode == 0)
    except SphinxError as error:
        sys.stderr.write(f"{error}\n")
        return False
