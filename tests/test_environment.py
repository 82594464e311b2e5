"""environment.yml and constraints.txt say what pyproject.toml says."""

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")

# What conda calls by another name than PyPI does.
ON_PYPI = {"matplotlib-base": "matplotlib", "python-graphviz": "graphviz"}
# What only conda has: dot itself, which no wheel of the Python package graphviz brings, and pip.
ONLY_CONDA = {"graphviz", "pip"}
# What only PyPI has: the stand-in for dot.
ONLY_PYPI = {"graphviz-pure"}


def extras(*names: str) -> dict[str, SpecifierSet]:
    lines = [*PROJECT["dependencies"]]
    for name in names:
        lines += PROJECT["optional-dependencies"][name]
    requirements = [Requirement(line) for line in lines]
    return {requirement.name: requirement.specifier for requirement in requirements}


def conda() -> dict[str, SpecifierSet]:
    """The conda lines under their conda names."""
    lines = [line for line in ENVIRONMENT["dependencies"] if isinstance(line, str)]
    requirements = [Requirement(line) for line in lines]
    assert len({r.name for r in requirements}) == len(requirements), "a name stands there twice"
    return {requirement.name: requirement.specifier for requirement in requirements}


def conda_as_on_pypi() -> dict[str, SpecifierSet]:
    found = {name: spec for name, spec in conda().items() if name not in ONLY_CONDA}
    del found["python"]
    return {ON_PYPI.get(name, name): spec for name, spec in found.items()}


def test_conda_installs_what_the_book_and_the_tests_need_and_nothing_else():
    wanted = extras("book", "test").keys() - ONLY_PYPI
    assert conda_as_on_pypi().keys() == wanted


def test_conda_and_pip_ask_for_the_same_versions():
    wanted = extras("book", "test")
    found = conda_as_on_pypi()
    assert found == {name: wanted.get(name) for name in found}


def test_conda_and_pip_ask_for_the_same_python():
    assert conda()["python"] == SpecifierSet(PROJECT["requires-python"])


def test_conda_brings_dot_and_not_only_the_package_that_calls_it():
    assert {"graphviz", "python-graphviz"} <= conda().keys()


def test_conda_lets_pip_install_the_checkout_itself_and_nothing_more():
    assert [line for line in ENVIRONMENT["dependencies"] if isinstance(line, dict)] == [
        {"pip": ["-e ."]}
    ]
    assert "pip" in conda()


def test_the_channels_need_no_account():
    assert ENVIRONMENT["channels"] == ["conda-forge"]


def test_all_is_book_and_test_and_site():
    assert PROJECT["optional-dependencies"]["all"] == ["lucid-mini[book,test,site]"]


def pins() -> list[Requirement]:
    lines = [line.split("#")[0].strip() for line in CONSTRAINTS.splitlines()]
    return [Requirement(line) for line in lines if line]


def test_constraints_pin_every_package_to_one_version_per_python():
    for pin in pins():
        assert re.fullmatch(r"==[^,*]+", str(pin.specifier)), f"{pin} is not pinned"
        twins = [other for other in pins() if other.name == pin.name]
        assert len(twins) == 1 or all(twin.marker for twin in twins), f"{pin.name} is pinned twice"


def test_constraints_pin_what_pyproject_asks_for_within_its_bounds():
    wanted = extras("book", "test", "site", "bench")
    pinned = {pin.name for pin in pins()}
    assert wanted.keys() <= pinned
    for pin in pins():
        version = str(pin.specifier).removeprefix("==")
        assert wanted.get(pin.name, SpecifierSet()).contains(version), f"{pin} is out of bounds"


def test_constraints_name_no_url_and_no_path():
    assert "://" not in CONSTRAINTS
    assert not re.search(r"(?:^|[\s=@])[~/]", CONSTRAINTS, flags=re.MULTILINE)


def test_constraints_leave_torch_and_its_libraries_alone():
    names = {pin.name for pin in pins()}
    assert not {name for name in names if name.startswith(("torch", "nvidia", "triton"))}
