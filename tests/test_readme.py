"""The README says what is true: its example runs, its links lead somewhere."""

import doctest
import json
import re
from pathlib import Path

import pytest

import lucid_mini as lm
from benchmarks.facts import table

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def test_the_example_gives_the_values_it_shows() -> None:
    lm.reset_names()
    result = doctest.testfile(str(README), module_relative=False, encoding="utf-8")
    assert result.attempted >= 7
    assert result.failed == 0


def test_the_error_it_shows_is_the_error_that_is_raised() -> None:
    shown = re.search(r"GraphFreedError: (.+)", README.read_text(encoding="utf-8"))
    assert shown is not None
    lm.reset_names()
    x = lm.ones(3, requires_grad=True)
    loss = (lm.exp(x) * x * 1.0).sum()
    loss.backward()
    with pytest.raises(lm.errors.GraphFreedError) as raised:
        loss.backward()
    assert shown.group(1).split("#", 1)[0] == str(raised.value).split("#", 1)[0]
    assert shown.group(1).split(" ", 1)[1] == str(raised.value).split(" ", 1)[1]


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README.read_text(encoding="utf-8")))
def test_every_link_leads_to_a_file(link: str) -> None:
    assert (ROOT / link).exists()


def test_the_map_names_what_is_there() -> None:
    house = re.search(r"## The house\n\n```\n(.+?)```", README.read_text(encoding="utf-8"), re.S)
    assert house is not None
    for line in house.group(1).splitlines()[1:]:
        for name in re.findall(r"\b([\w/]+(?:/|\.py))", line.split("   ")[0]):
            here = ROOT / name if not line.startswith("  ") else ROOT / "lucid_mini" / name
            assert here.exists(), f"{name} is in the map and not in the house"


def test_the_comparison_is_what_the_benchmarks_found() -> None:
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    assert table(results["facts"]).strip() in README.read_text(encoding="utf-8")
