"""One site for all tests, and one browser."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from browser import chromium

ROOT = Path(__file__).resolve().parents[2]


class Build(NamedTuple):
    """A folder, and what the command said that built the site there."""

    folder: Path
    code: int
    said: str
    complaints: str


@pytest.fixture(scope="session")
def builds(tmp_path_factory):
    """The site, built twice: at the same time, each in a process of its own."""
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
    said = [process.communicate() for process in running]
    return [
        Build(folder, process.returncode, *texts)
        for folder, process, texts in zip(folders, running, said, strict=True)
    ]


@pytest.fixture(scope="session")
def site(builds):
    """The folder of the built pages."""
    if builds[0].code:
        pytest.fail("the site was not built: test_the_site_builds says why", pytrace=False)
    return builds[0].folder


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
