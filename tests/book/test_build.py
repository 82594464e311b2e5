"""From a source to a notebook: what is normalised, what is compared, what is said."""

import json
import os
import sys
from pathlib import Path

import nbformat
import pytest

from book import build, needs

SOURCE = """# %% [markdown]
# # A chapter

# %%
import os
x = 3
print(x)

# %% tags=["raises-exception"]
error = ValueError(f"of {x}")
error.add_note("and a note")
raise error

# %%
x
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book of one chapter, in a folder of its own, and the environment as it was afterwards."""
    before = dict(os.environ)
    monkeypatch.setattr(build, "BOOK", tmp_path)
    monkeypatch.setattr(build, "SOURCES", tmp_path / "src")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "04_a.py").write_text(SOURCE, encoding="utf-8")
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)


def test_building_checking_altering(book, capsys):
    target = book / "04_a.ipynb"

    assert build.main([]) == 0
    assert capsys.readouterr().out == "04_a.ipynb: written\n"
    first = target.read_bytes()

    cells = nbformat.reads(first.decode(), as_version=4).cells
    assert [cell.id for cell in cells] == ["04-001", "04-002", "04-003", "04-004"]
    assert [cell.get("execution_count") for cell in cells] == [None, 1, 2, 3]
    assert cells[2].outputs[0].traceback == ["ValueError: of 3\nand a note"]
    assert cells[2].metadata == {"tags": ["raises-exception"]}
    assert str(Path.home()).encode() not in first

    assert build.main(["--check", "04"]) == 0
    assert capsys.readouterr().out == "04_a.ipynb: the same\n"
    assert target.read_bytes() == first, "--check writes nothing"

    target.write_bytes(first.replace(b'"3\\n"', b'"4\\n"'))
    (book / "09_old.ipynb").write_bytes(first)
    assert build.main(["--check"]) == 1
    said = capsys.readouterr().out
    assert "04_a.ipynb: cell 04-002 has another output 0: text\n" in said
    assert "-4" in said
    assert "+3" in said
    assert "09_old.ipynb: has no source" in said
    assert "python -m book.build" in said


def test_a_cell_that_fails_ends_the_build_with_its_message_and_writes_nothing(book, capsys):
    (book / "src" / "04_a.py").write_text("# %%\n1 / 0\n", encoding="utf-8")
    assert build.main([]) == 2
    said = capsys.readouterr().err
    assert "04_a.py: a cell failed" in said
    assert "ZeroDivisionError" in said
    assert not (book / "04_a.ipynb").exists()


def test_a_chapter_that_needs_what_is_not_installed_is_left_out_and_named(
    book, monkeypatch, capsys
):
    monkeypatch.setattr(build, "missing", lambda source: "it needs a thing")
    assert build.main(["--check"]) == 0
    assert capsys.readouterr().out == "04_a.ipynb: left as it is, for it needs a thing\n"
    assert not (book / "04_a.ipynb").exists()


@pytest.mark.parametrize("text", ["import torch", '   "import torch\\n",'])
def test_what_imports_pytorch_needs_it(tmp_path, monkeypatch, text):
    path = tmp_path / "14_a"
    path.write_text(f"# a chapter\n{text}\n", encoding="utf-8")
    monkeypatch.setattr(needs, "_imports", lambda name: name != "torch")
    assert needs.missing(path).startswith("it needs PyTorch")
    path.write_text("# on PyTorch: import torch\n", encoding="utf-8")
    assert needs.missing(path) == ""


def test_a_name_that_fits_no_chapter_is_answered_with_those_there_are(book, capsys):
    assert build.main(["17"]) == 2
    assert "no chapter begins with '17'; there are 04_a" in capsys.readouterr().err


def test_names_choose_chapters_and_their_solutions(book):
    (book / "src" / "05_b.py").touch()
    (book / "src" / "solutions").mkdir()
    (book / "src" / "solutions" / "04_a.py").touch()

    def found(*names):
        return [s.relative_to(book / "src").as_posix() for s in build.sources(list(names))]

    assert found() == ["04_a.py", "05_b.py", "solutions/04_a.py"]
    assert found("04") == ["04_a.py", "solutions/04_a.py"]
    assert found("solutions/04") == ["solutions/04_a.py"]
    assert found("05_b.ipynb") == ["05_b.py"]


# -- differences ----------------------------------------------------------------------------------


def notebook(**changes):
    cell = {
        "cell_type": "code",
        "id": "04-001",
        "metadata": {},
        "source": "x",
        "execution_count": 1,
        "outputs": [
            {"output_type": "display_data", "data": {"text/plain": "t", "text/html": "picture"}}
        ],
        **changes,
    }
    metadata = {"lucid_mini": {"pictures": "abc"}}
    return {"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def compare(old, new):
    return list(build.differences(json.dumps(old), json.dumps(new)))


def test_equal_notebooks_have_no_differences():
    assert compare(notebook(), notebook()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source": "y"}, "cell 04-001 has another source"),
        ({"execution_count": 2}, "cell 04-001 has another execution_count"),
        ({"metadata": {"tags": ["a"]}}, "cell 04-001 has another metadata"),
        ({"outputs": []}, "cell 04-001 has 1 outputs, and the sources make 0"),
        ({"id": "04-002"}, "cell 04-002 is missing"),
    ],
)
def test_a_difference_names_the_cell_and_the_part(changes, said):
    assert any(line.startswith(said) for line in compare(notebook(), notebook(**changes)))


def with_data(**data):
    return {"outputs": [{"output_type": "display_data", "data": {"text/plain": "t", **data}}]}


def test_a_picture_counts_where_the_same_programs_drew_it():
    other = notebook(**with_data(**{"text/html": "another picture"}))
    assert compare(notebook(), other) == ["cell 04-001 has another output 0: text/html"]


def test_a_picture_that_other_programs_drew_does_not_count_and_its_text_does():
    other = notebook(**with_data(**{"text/html": "another picture"}))
    other["metadata"]["lucid_mini"]["pictures"] = "def"
    assert compare(notebook(), other) == []
    other["cells"][0]["outputs"][0]["data"]["text/plain"] = "u"
    assert compare(notebook(), other)[0].startswith("cell 04-001 has another output 0: text/plain")


def test_a_figure_that_could_not_be_drawn_counts_by_its_text():
    (output,) = with_data()["outputs"]
    output["data"] = {
        "text/plain": "t",
        "text/html": "<pre>t\n(Pictures of graphs need the program dot: install it.)</pre>",
    }
    other = notebook(outputs=[output])
    other["metadata"]["lucid_mini"]["pictures"] = "def"
    assert compare(notebook(), other) == []


def test_a_file_that_is_no_notebook_is_said_to_be_none():
    assert next(build.differences("{", json.dumps(notebook()))).startswith("is no notebook")


def test_cells_in_another_order_and_other_metadata_are_differences():
    two = notebook()
    two["cells"].append({**two["cells"][0], "id": "04-002"})
    turned = {**two, "cells": two["cells"][::-1]}
    assert compare(two, turned) == ["has its cells in another order"]
    assert compare(two, {**two, "nbformat_minor": 4}) == ["has other metadata"]


def test_what_draws_here_has_one_name():
    assert build.drawn_with() == build.drawn_with()
    assert len(build.drawn_with()) == 12


def test_without_dot_there_is_a_name_too(monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda *a, **k: None)
    assert len(build.drawn_with()) == 12
    assert sys.modules["book.build"].drawn_with() == build.drawn_with()
