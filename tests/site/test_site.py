"""The site is whole: the same pages each time, every public name, no link that leads nowhere."""

import importlib
import json
import re
from functools import cache
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import test_public_names as promised

import lucid_mini as lm
from lucid_mini import site as building

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(path.stem for path in (ROOT / "book").glob("[0-9]*.ipynb"))


class Page(HTMLParser):
    """What a page refers to, and what can be referred to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.places.add(value)
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif (name == "href" and tag == "link") or name in ("src", "srcset", "data", "poster"):
                self.loads.append(value or "")


@cache
def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def contents(folder: Path) -> dict[Path, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder): path.read_bytes() for path in files}


def test_the_site_builds_and_warns_of_nothing(builds):
    for build in builds:
        assert build.complaints == ""
        assert (build.code, build.said) == (0, f"→ {build.folder / 'index.html'}\n")


def test_a_second_build_gives_the_same_pages(builds):
    first, second = (contents(build.folder) for build in builds)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_every_page_loads_only_what_lies_beside_it(site):
    for path in site.rglob("*.html"):
        for load in page(path).loads:
            assert urlsplit(load).scheme in ("", "data"), f"{path.name} loads {load}"
            assert not load.startswith("//"), f"{path.name} loads {load}"


def test_every_link_leads_to_a_page_and_to_a_place_on_it(site):
    for path in site.rglob("*.html"):
        for link in page(path).links:
            parts = urlsplit(link)
            if parts.scheme or link in ("", "#"):
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            assert target.exists(), f"{path.relative_to(site)} leads to {link}"
            if parts.fragment and target.suffix == ".html":
                assert unquote(parts.fragment) in page(target).places, f"{path.name}: {link}"


def test_every_link_to_another_machine_is_safe_to_follow(site):
    for path in site.rglob("*.html"):
        links = [urlsplit(link) for link in page(path).links]
        assert all(
            link.scheme in ("", "https") or link.hostname == "localhost" for link in links
        ), path.name


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_stands_there_with_its_figures_and_its_solutions(site, chapter):
    text = (site / "book" / f"{chapter}.html").read_text(encoding="utf-8")
    notebook = (ROOT / "book" / f"{chapter}.ipynb").read_text(encoding="utf-8")
    assert text.count("data:image/svg+xml;base64,") == notebook.count("data:image/svg+xml;base64,")
    assert f"solutions/{chapter}.html" in page(site / "book" / f"{chapter}.html").links
    assert (site / "book" / "solutions" / f"{chapter}.html").exists()


def test_every_page_can_be_reached_from_the_front_page(site):
    met, pending = set(), [site / "index.html"]
    while pending:
        path = pending.pop()
        if path in met or path.suffix != ".html":
            continue
        met.add(path)
        for link in page(path).links:
            parts = urlsplit(link)
            if parts.path and not parts.scheme:
                pending.append((path.parent / unquote(parts.path)).resolve())
    left = {path.relative_to(site).as_posix() for path in site.rglob("*.html") if path not in met}
    tools = {name for name in left if name.startswith(("search", "_static/", "_modules/index"))}
    assert left - tools == set()


# ---------------------------------------------------------------- the reference


def entries(site: Path) -> set[str]:
    from sphinx.util.inventory import InventoryFile

    found = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    return {name for kind, items in found.data.items() if kind.startswith("py:") for name in items}


def names() -> set[str]:
    """What is promised, and what the package offers beyond."""
    found = {f"lucid_mini.{name}" for name in lm.__all__} - {"lucid_mini.transforms"}
    for place, (_, members) in promised.PLACES.items():
        found |= {f"{place.replace('lm', 'lucid_mini', 1)}.{name}" for name in members}
    found |= {f"lucid_mini.Tensor.{name}" for name in promised.PROPERTIES.split()}
    found |= {f"lucid_mini.Tensor.{name}" for name in vars(lm.Tensor) if not name.startswith("_")}
    from prose import public

    modules = [lm.autograd, lm.lifetime, lm.draw, lm.testing, lm.errors]
    if find_spec("lucid_mini.bridge") is not None and find_spec("torch") is not None:
        modules.append(importlib.import_module("lucid_mini.bridge.torch"))
    for module in modules:
        found |= {f"{module.__name__}.{name}" for name in public(module)}
    return found


def test_every_public_name_has_an_entry(site):
    assert names() - entries(site) == set()


def test_an_entry_shows_the_labels_of_its_docstring_and_leads_to_the_errors_it_names(site):
    text = (site / "api" / "tensor.html").read_text(encoding="utf-8")
    start = text.index('id="lucid_mini.Tensor.retain_grad"')
    entry = re.split(r'<dt class="sig', text[start:])[0]
    assert '<dt class="field-odd">Raises' in entry
    assert 'href="errors.html#lucid_mini.errors.NoGradientError"' in entry


def test_an_op_has_its_arguments_and_its_words(site):
    text = (site / "api" / "functions.html").read_text(encoding="utf-8")
    start = text.index('id="lucid_mini.maximum"')
    entry = re.sub(r"<[^>]+>", "", text[start:])
    assert entry.split(">", 1)[1].lstrip().startswith("lm.maximum(a, b)#\n")
    assert "Equal ones share the gradient." in entry[:600]


def test_every_command_has_its_help(site):
    text = (site / "api" / "commands.html").read_text(encoding="utf-8")
    for command in ("tour", "book", "site"):
        assert f"usage: lucid-mini {command}" in text


# ---------------------------------------------------------------- laying out, and refusing


@pytest.fixture
def clone(tmp_path):
    """A clone with two pages, one of a chapter, and a file that has no page."""
    root = tmp_path / "clone"
    for folder in ("docs", "book/solutions", "lucid_mini"):
        (root / folder).mkdir(parents=True)
    (root / "docs" / "conf.py").write_text("extensions = ['myst_parser']\nhtml_theme = 'basic'\n")
    (root / "docs" / "index.md").write_text("# Front\n\n```{toctree}\nbook/index\n```\n")
    (root / "book" / "README.md").write_text(
        "# The book\n\n[one](1.ipynb) [answers](solutions) [show.py](show.py) [top](../README.md)\n"
    )
    (root / "book" / "show.py").write_text("")
    (root / "README.md").write_text("# Read me\n")
    notebook = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    (root / "book" / "1.ipynb").write_text(notebook)
    (root / "book" / "solutions" / "1.ipynb").write_text(notebook)
    return root


def test_a_link_leads_to_the_page_and_a_file_without_page_is_named(clone, tmp_path):
    building.stage(clone, tmp_path / "source")
    text = (tmp_path / "source" / "book" / "index.md").read_text(encoding="utf-8")
    line = "[one](1.ipynb) [answers](solutions/index.md) `show.py` [top](../index.md)"
    assert text.splitlines()[2] == line


def test_a_picture_is_found_from_any_page_and_the_top_of_the_clone_is_only_named(clone, tmp_path):
    (clone / "docs" / "images").mkdir()
    (clone / "docs" / "images" / "leak.svg").write_text("<svg/>")
    (clone / "CONTRIBUTING.md").write_text("# How\n\n![leak](docs/images/leak.svg) [here](.)\n")
    (clone / "docs" / "more.md").write_text("# More\n\n![leak](images/leak.svg)\n")
    building.stage(clone, tmp_path / "source")
    how = (tmp_path / "source" / "contributing.md").read_text(encoding="utf-8")
    assert how.splitlines()[2] == "![leak](images/leak.svg) `here`"
    more = (tmp_path / "source" / "more.md").read_text(encoding="utf-8")
    assert more.splitlines()[2] == "![leak](images/leak.svg)"


def test_a_chapter_leads_to_pages_too(clone, tmp_path):
    (clone / "docs" / "differences.md").write_text("# Differences\n")
    cell = {
        "cell_type": "markdown",
        "metadata": {},
        "source": ["[a](../docs/differences.md)\n", "b"],
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (clone / "book" / "1.ipynb").write_text(json.dumps(notebook))
    building.stage(clone, tmp_path / "source")
    staged = json.loads((tmp_path / "source" / "book" / "1.ipynb").read_text(encoding="utf-8"))
    assert staged["cells"][0]["source"] == "[a](../differences.md)\nb"


def test_a_chapter_ends_with_the_way_to_its_solutions(clone, tmp_path):
    building.stage(clone, tmp_path / "source")
    chapter = (tmp_path / "source" / "book" / "1.ipynb").read_text(encoding="utf-8")
    assert "[Solutions of this chapter](solutions/1.ipynb)" in chapter
    answers = (tmp_path / "source" / "book" / "solutions" / "1.ipynb").read_text(encoding="utf-8")
    assert "Solutions of this chapter" not in answers


def test_a_link_to_nothing_fails_the_build_and_leaves_the_former_pages(clone, tmp_path, capfd):
    pytest.importorskip("myst_parser", reason="myst_parser is not installed")
    out = tmp_path / "out"
    out.mkdir()
    (out / "index.html").write_text("former")
    readme = clone / "book" / "README.md"
    readme.write_text("# The book\n\n[lost](nowhere.md)\n")
    assert not building.build(clone, out)
    said = capfd.readouterr().err
    assert "nowhere.md" in said
    assert "\x1b" not in said
    assert (out / "index.html").read_text() == "former"
    readme.write_text("# The book\n")
    for notebook in clone.glob("book/**/*.ipynb"):
        notebook.unlink()
    assert building.build(clone, out), capfd.readouterr().err
    assert "Front" in (out / "index.html").read_text(encoding="utf-8")


def test_on_a_terminal_progress_is_one_line_that_is_wiped(capsys):
    progress = building._Progress()
    progress.write("\x1b[01mreading sources... \x1b[39;49;00m[ 33%] \x1b[35mindex\x1b[39;49;00m\r")
    progress.write("myst v5.2.0: MdParserConfig()\n")
    progress.write("writing output... [100%] stepper\r")
    shown = capsys.readouterr().err
    assert shown == "\rreading sources  33 %\rwriting output 100 %\r\x1b[K"
