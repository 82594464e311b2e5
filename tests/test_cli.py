"""The command `lucid-mini`: what each subcommand needs, and what it says where that is missing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lucid_mini import cli, site

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


@pytest.fixture
def built(monkeypatch):
    """Folders that the site was built in; nothing is built."""
    folders: list[Path] = []

    def build(root, folder):
        assert root == ROOT
        folders.append(folder)
        return True

    monkeypatch.setattr(cli, "find_spec", lambda name: object())
    monkeypatch.setattr(site, "build", build)
    return folders


def test_site_builds_where_it_is_told_and_says_where_to_look(built, tmp_path, capsys):
    folder = tmp_path / "new" / "pages"
    assert cli.main(["site", "--out", str(folder)]) == 0
    assert built == [folder]
    assert capsys.readouterr().out == f"→ {folder / 'index.html'}\n"


def test_site_does_not_replace_what_it_did_not_make(built, tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    assert cli.main(["site", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "has something else in it" in said
    assert not built
    (tmp_path / "thesis.txt").unlink()
    for name in ("objects.inv", "searchindex.js"):
        (tmp_path / name).touch()
    assert cli.main(["site", "--out", str(tmp_path)]) == 0


def test_site_says_in_one_line_what_is_not_installed(built, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "sphinx" else object())
    assert cli.main(["site", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == "lucid-mini site: sphinx not installed: pip install 'lucid-mini[site]'\n"
    assert not built


def test_site_says_in_one_line_that_an_installed_package_has_no_pages(
    built, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "site-packages/lucid_mini/cli.py"))
    assert cli.main(["site", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "not installed with the package" in said
    assert not built


def test_site_says_in_one_line_where_it_cannot_write(built, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.main(["site", "--out", str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cannot write to" in said
    assert not built


def test_site_that_was_interrupted_or_not_built_says_so(built, monkeypatch, tmp_path, capsys):
    def interrupted(root, folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(site, "build", interrupted)
    assert cli.main(["site", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "stopped\n"
    monkeypatch.setattr(site, "build", lambda root, folder: False)
    assert cli.main(["site", "--out", str(tmp_path)]) == 2
    assert "not built" in capsys.readouterr().err


def test_what_site_asks_for_is_what_the_extra_installs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = " ".join(project["optional-dependencies"]["site"])
    assert all(name in extra for name in ("sphinx", "myst-nb", "sphinx-book-theme"))


def test_other_subcommands_refuse_arguments_they_do_not_know(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["tour", "--speed", "9"])
    assert ended.value.code == 2
    assert "--speed" in capsys.readouterr().err


def test_the_command_runs_as_a_module_and_lists_the_subcommands():
    done = subprocess.run(
        [sys.executable, "-m", "lucid_mini", "--help"], capture_output=True, text=True, check=True
    )
    assert {"tour", "book", "site"} <= set(done.stdout.split())
