"""docs/lite: the book as static files has what its chapters need, and nothing that makes them."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
LITE = ROOT / "docs" / "lite"
CHAPTERS = sorted(path.name for path in (ROOT / "book").glob("[0-9]*.ipynb"))


@pytest.fixture(scope="module")
def builder() -> Any:
    spec = importlib.util.spec_from_file_location("lite_build", LITE / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def staged(builder: Any, tmp_path: Path) -> Path:
    builder.stage(tmp_path / "book")
    return tmp_path / "book"


def test_every_chapter_is_there_and_what_makes_them_is_not(staged: Path) -> None:
    assert sorted(path.name for path in staged.glob("[0-9]*.ipynb")) == CHAPTERS
    assert sorted(path.name for path in staged.glob("solutions/*.ipynb")) == CHAPTERS
    assert not [path for path in staged.rglob("*") if path.name in ("src", "__pycache__")]
    assert not (staged / "build.py").exists()


def test_what_the_chapters_import_is_found_beside_them(staged: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, ''); import exercises, show, lucid_mini; "
        "from lucid_mini import data; show.start('01'); print(len(data.load_digits()[1])); "
        "print(lucid_mini.__file__)"
    )
    outside = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=staged, env=outside, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert said[0] == "1797"
    assert Path(said[1]).is_relative_to(staged)


def test_the_packages_that_make_it_are_pinned() -> None:
    lines = (LITE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z-]+==[\d.]+", pin) for pin in pins)
    assert {pin.split("==")[0] for pin in pins} >= {
        "jupyterlite-core",
        "jupyterlite-pyodide-kernel",
    }


def test_numpy_is_there_before_the_first_import_of_the_package() -> None:
    settings = json.loads((LITE / "jupyter-lite.json").read_text(encoding="utf-8"))
    plugins = settings["jupyter-config-data"]["litePluginSettings"]
    (kernel,) = plugins.values()
    assert "numpy" in kernel["loadPyodideOptions"]["packages"]


@pytest.mark.skipif(
    find_spec("jupyterlite_core") is None, reason="jupyterlite: see docs/lite/requirements.txt"
)
def test_the_site_is_built_with_every_chapter_in_it(builder: Any, tmp_path: Path) -> None:
    assert builder.build(tmp_path / "site") == 0
    listed = json.loads((tmp_path / "site/api/contents/all.json").read_text(encoding="utf-8"))
    assert set(CHAPTERS) <= {item["name"] for item in listed["content"]}
    assert (tmp_path / "site/files/lucid_mini/data/digits.csv.gz").exists()
    assert (tmp_path / "site/lab/index.html").exists()
