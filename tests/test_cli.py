"""The command `lucid-mini`: what each subcommand needs, and what it says where that is missing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lucid_mini import cli

ROOT = Path(__file__).resolve().parents[1]


class Lab:
    """Stands for the process that JupyterLab runs in."""

    started: list[list[str]]
    interrupts = 0

    def __init__(self, command: list[str]) -> None:
        Lab.started.append(command)
        self.left = Lab.interrupts

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self) -> int:
        if self.left:
            self.left -= 1
            raise KeyboardInterrupt
        return 7


@pytest.fixture
def lab(monkeypatch):
    Lab.started, Lab.interrupts = [], 0
    monkeypatch.setattr(cli.subprocess, "Popen", Lab)
    monkeypatch.setattr(cli, "find_spec", lambda name: object())
    return Lab


def test_book_opens_jupyterlab_on_the_folder_of_the_chapters_from_anywhere(
    lab, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["book"]) == 7
    assert lab.started == [[sys.executable, "-m", "jupyterlab", str(ROOT / "book")]]


def test_book_hands_further_arguments_to_jupyterlab(lab):
    cli.main(["book", "--no-browser", "--port=9999"])
    assert lab.started[0][-2:] == ["--no-browser", "--port=9999"]


def test_book_leaves_an_interrupt_to_jupyterlab_which_asks_first(lab):
    lab.interrupts = 2
    assert cli.main(["book"]) == 7


@pytest.mark.parametrize("absent", [("jupyterlab",), ("jupyterlab", "matplotlib")])
def test_book_says_in_one_line_what_is_not_installed(lab, monkeypatch, capsys, absent):
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name in absent else object())
    assert cli.main(["book"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(name in said for name in absent)
    assert "pip install 'lucid-mini[book]'" in said
    assert not lab.started


def test_book_says_in_one_line_that_an_installed_package_has_no_book(
    lab, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "site-packages/lucid_mini/cli.py"))
    assert cli.main(["book"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "not installed with the package" in said
    assert not lab.started


def test_what_book_asks_for_is_what_the_extra_installs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = " ".join(project["optional-dependencies"]["book"])
    assert "jupyterlab" in extra
    assert "matplotlib" in extra


def test_other_subcommands_refuse_arguments_they_do_not_know(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["tour", "--speed", "9"])
    assert ended.value.code == 2
    assert "--speed" in capsys.readouterr().err


def test_the_command_runs_as_a_module_and_lists_the_subcommands():
    done = subprocess.run(
        [sys.executable, "-m", "lucid_mini", "--help"], capture_output=True, text=True, check=True
    )
    assert {"tour", "book"} <= set(done.stdout.split())
