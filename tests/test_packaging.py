"""What is built has what it must, and runs where nothing else of the checkout is.

The source distribution is built from a copy of the checkout, the wheel from the unpacked source
distribution, as pip would. Nothing is fetched: setuptools comes from the extra `test`, and the
environment that the wheel is installed into finds NumPy and the packages that draw in this one.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

import lucid_mini

pytest.importorskip("pip", reason="an environment without pip installs nothing")

INFO = f"lucid_mini-{lucid_mini.__version__}.dist-info"
ROOT = Path(__file__).resolve().parents[1]
NOT_BUILT_FROM = (
    ".*",
    "__pycache__",
    "*.egg-info",
    "build",
    "dist",
    "tour",
    "venv",
    "_build",
    "_output",
)
BUILD = (
    "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
)


def attempt(*command: Any, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """`command`, where nothing points to this checkout."""
    outside = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=outside, capture_output=True, text=True, check=False
    )


def run(*command: Any, cwd: Path) -> str:
    """What `command` prints; it must succeed."""
    done = attempt(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    shutil.copytree(ROOT, folder / "copy", ignore=shutil.ignore_patterns(*NOT_BUILT_FROM))
    run(sys.executable, "-c", BUILD, "build_sdist", folder, cwd=folder / "copy")
    (packed,) = folder.glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder / packed.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    run(sys.executable, "-c", BUILD, "build_wheel", sdist.parent, cwd=sdist)
    (built,) = sdist.parent.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of a new environment, in which the wheel is installed."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    scripts = home / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    options = ("--no-index", "--no-deps", "--disable-pip-version-check", "--quiet")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", *options)
    run(*pip, wheel, cwd=home)
    # A .pth file that adds a folder does not read the .pth files in it: NumPy is found there, and
    # an editable installation of this checkout is not.
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    where = Path(run(python, "-c", code, cwd=home).strip())
    (where / "outside.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return scripts


def names_in(sdist: Path) -> set[str]:
    return {p.relative_to(sdist).as_posix() for p in sdist.rglob("*") if p.is_file()}


def test_the_source_distribution_has_every_file_of_the_checkout(sdist: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: nothing says which files belong to it")
    listed = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    tracked = {name for name in run(*listed, cwd=ROOT).splitlines() if name[0] != "."}
    there = {name for name in tracked if (ROOT / name).exists()}
    assert there - names_in(sdist) == set()


def test_the_source_distribution_has_nothing_else(sdist: Path) -> None:
    made = {"PKG-INFO", "setup.cfg"}
    for name in names_in(sdist) - made:
        assert (ROOT / name).exists() or name.startswith("lucid_mini.egg-info/"), name
        assert "__pycache__" not in name


def test_the_wheel_has_the_package_and_nothing_beside_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert tops == {"lucid_mini", INFO}
    modules = {f"lucid_mini/{p.relative_to(ROOT / 'lucid_mini').as_posix()}" for p in sources()}
    assert {name for name in names if name.endswith(".py")} == modules
    others = {name for name in names if not name.endswith(".py") and "dist-info" not in name}
    assert others == {
        "lucid_mini/py.typed",
        "lucid_mini/data/README.md",
        "lucid_mini/data/digits.csv.gz",
    }
    assert f"{INFO}/licenses/LICENSE" in names


def sources() -> list[Path]:
    return [p for p in (ROOT / "lucid_mini").rglob("*.py") if "__pycache__" not in p.parts]


def test_the_wheel_says_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{INFO}/METADATA").decode()
        entries = archive.read(f"{INFO}/entry_points.txt").decode()
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert [line for line in required if "extra ==" not in line] == ["Requires-Dist: numpy>=2.0"]
    assert "License-Expression: MIT" in metadata
    assert "Description-Content-Type: text/markdown" in metadata
    assert "lucid-mini = lucid_mini.cli:main" in entries
    assert "lucid_mini = lucid_mini.pytest_plugin" in entries


def test_the_installed_package_is_the_one_of_the_wheel(programs: Path, tmp_path: Path) -> None:
    code = "import lucid_mini; print(lucid_mini.__file__, lucid_mini.__version__)"
    where, version = run(programs / "python", "-c", code, cwd=tmp_path).split()
    assert Path(where).is_relative_to(programs.parent)
    assert version == lucid_mini.__version__


def test_the_tour_runs_where_the_wheel_is_installed(programs: Path, tmp_path: Path) -> None:
    said = run(programs / "lucid-mini", "tour", "--out", "pictures", cwd=tmp_path)
    assert "HELD from outside" in said
    made = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"timeline.svg", "leak.svg", "stepper.html", "leak.txt"} <= made


def test_the_book_is_not_in_the_wheel_and_the_command_says_so(
    programs: Path, tmp_path: Path
) -> None:
    done = attempt(programs / "lucid-mini", "book", cwd=tmp_path)
    assert done.returncode == 2
    assert "the book is not installed with the package" in done.stderr
