"""The tour: what a newcomer sees first."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: PLW1510 - the tests look at the exit code
        [sys.executable, "-m", "lucid_mini", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )


def without_times(text: str) -> str:
    return re.sub(r"The tour took \d+ s", "The tour took N s", text)


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("out") / "tour"
    result = run("tour", "--out", str(folder))
    assert result.returncode == 0, result.stderr
    return result.stdout, folder


def test_it_reads_at_least_95_percent_of_the_test_digits(tour: tuple[str, Path]) -> None:
    found = re.search(r"(\d+) of (\d+) test digits read right", tour[0])
    assert found is not None
    assert int(found.group(1)) / int(found.group(2)) >= 0.95


def test_it_names_the_planted_capture_with_variable_and_line(tour: tuple[str, Path]) -> None:
    source = (ROOT / "lucid_mini" / "tour.py").read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(source, 1) if "def backward(ctx" in text)
    assert "Never freed: 1 buffer, 16 KiB." in tour[0]
    assert re.search(rf"closure cell 'z' +tensor \(32, 64\) +tour\.py:{line}\n", tour[0])
    assert "function CapturingRelu.__call__.backward" in tour[0]
    assert "cut here: frees 16 KiB" in tour[0]


def test_it_leaves_the_text_of_each_picture(tour: tuple[str, Path]) -> None:
    names = {p.name for p in tour[1].glob("*.txt")}
    assert names == {"graph.txt", "timeline.txt", "leak.txt", "holders.txt"}
    assert (tour[1] / "stepper.html").stat().st_size > 10_000


def test_it_says_the_same_on_a_second_run(tour: tuple[str, Path], tmp_path: Path) -> None:
    again = run("tour", "--out", str(tmp_path / "tour"), PYTHONHASHSEED="7")
    first, second = without_times(tour[0]), without_times(again.stdout)
    assert second.replace(str(tmp_path / "tour"), str(tour[1])) == first
    for text in tour[1].iterdir():
        assert (tmp_path / "tour" / text.name).read_bytes() == text.read_bytes()


def test_the_picture_in_the_readme_is_what_the_tour_draws(tour: tuple[str, Path]) -> None:
    kept = (ROOT / "docs" / "images" / "leak.txt").read_text(encoding="utf-8")
    assert (tour[1] / "leak.txt").read_text(encoding="utf-8") == kept


def test_a_folder_that_cannot_be_written_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = run("tour", "--out", str(tmp_path / "file" / "tour"))
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("lucid-mini tour: cannot write to")


def test_without_the_packages_that_draw_it_gives_text_and_says_how_to_get_pictures(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("matplotlib", "graphviz"):
        (blocked / f"{name}.py").write_text(f"raise ImportError('no {name} here')\n")
    empty = tmp_path / "bin"
    empty.mkdir()
    result = run("tour", "--out", str(tmp_path / "tour"), PYTHONPATH=str(blocked), PATH=str(empty))
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert result.stdout.count("no picture:") >= 2
    assert "lucid-mini[book]" in result.stdout
    assert "closure cell 'z'" in result.stdout
