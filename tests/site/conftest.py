"""One site for all tests, and one browser."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from browser import chromium

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def sites(tmp_path_factory):
    """The pages, built twice: at the same time, each in a process of its own."""
    for package in ("sphinx", "myst_nb", "sphinx_book_theme"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    folders = [tmp_path_factory.mktemp("site") / "pages" for _ in range(2)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "lucid_mini", "site", "--out", str(folder)],
            cwd=folder.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for folder in folders
    ]
    for process, folder in zip(running, folders, strict=True):
        said, complaints = process.communicate()
        assert (process.returncode, complaints) == (0, ""), complaints
        assert said == f"→ {folder / 'index.html'}\n"
    return folders


@pytest.fixture(scope="session")
def site(sites):
    """The folder of the built pages."""
    return sites[0]


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser that remembers what it asked for."""
    with chromium(tmp_path_factory.mktemp("profile"), log="performance") as opened:
        yield opened


@pytest.fixture(scope="session", autouse=True)
def _extensions():
    """What Sphinx loads from docs/_ext can be imported."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    yield
    sys.path.remove(str(ROOT / "docs" / "_ext"))
