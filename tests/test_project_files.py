"""CITATION.cff, CHANGELOG.md and CONTRIBUTING.md say what is so."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml

import lucid_mini as lm
from lucid_mini.ops import elementwise

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_citation_has_what_the_format_demands() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    known = {
        *("cff-version", "message", "title", "type", "abstract", "authors", "version", "license"),
        *("keywords", "date-released", "doi", "repository-code", "url", "references"),
    }
    assert CITATION.keys() <= known
    assert all(author.keys() == {"name"} for author in CITATION["authors"])


def test_the_citation_agrees_with_the_package() -> None:
    assert CITATION["version"] == PROJECT["version"] == lm.__version__
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["authors"] == PROJECT["authors"] == [{"name": "The lucid_mini authors"}]
    assert CITATION["keywords"] == PROJECT["keywords"]


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    assert re.findall(r"^## (\S+)", CHANGELOG, flags=re.MULTILINE)[0] == PROJECT["version"]


@pytest.mark.parametrize("line", re.findall(r"^- (.+?)(?=^- |\Z)", CHANGELOG, flags=re.M | re.S))
def test_every_name_in_the_changelog_exists(line: str) -> None:
    places = [lm, lm.autograd, lm.autograd.FunctionCtx, lm.autograd.Function, lm.transforms]
    places += [lm.lifetime, lm.draw, lm.testing]
    other = {
        "tour",
        "book",
        "doctor",
        "site",
        # of PyTorch, which need not be here: tests/bridge has them
        "lm.bridge.torch",
        "to_torch",
        "from_torch",
        "no_leaks",
        "lucid-mini",
        "%%lifetimes",
        "forward",
        "backward",
    }
    for name in re.findall(r"`([^`]+)`", line):
        assert (
            name in other
            or (ROOT / name).exists()
            or any(hasattr(p, name.removeprefix("lm.")) for p in places)
        ), name


@pytest.mark.parametrize(
    ("page", "link"),
    [
        (page, link)
        for page in ("CONTRIBUTING.md", "CHANGELOG.md")
        for link in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    ],
)
def test_every_link_leads_to_a_file(page: str, link: str) -> None:
    assert link.startswith("https://") or (ROOT / link.split("#")[0]).exists()


def test_the_op_of_the_guide_is_right_and_its_example_too() -> None:
    (code,) = re.findall(r"```python\n(.+?)```", CONTRIBUTING, flags=re.DOTALL)
    names = dict(vars(elementwise))
    exec(code, names)
    softplus = names["Softplus"].apply
    x = lm.tensor([-1000.0, 0.0, 1000.0], requires_grad=True)
    softplus(x).sum().backward()
    assert x.grad is not None
    assert repr(x.grad) in code
    assert lm.gradgradcheck(softplus, lm.randn(3, requires_grad=True))
    assert np.isfinite(softplus(x).numpy()).all()


@pytest.mark.parametrize("path", re.findall(r"(?:tests|lucid_mini|docs)/[\w./]+", CONTRIBUTING))
def test_every_file_of_the_guide_is_there(path: str) -> None:
    assert (ROOT / path.rstrip(".")).exists()
