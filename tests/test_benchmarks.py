"""The benchmarks run, and everybody in them computes the same. Nothing here looks at a time."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are no part of the package that is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import command, measure
from benchmarks.frameworks import ADAPTERS, Framework, Program, load
from benchmarks.workloads import (
    WORKLOADS,
    chain,
    double_backward,
    ladder,
    layer_norm,
    memory,
    mlp,
    own_function,
    wide,
)

PROGRAMS = {
    "chain": chain.multiply_add(3),
    "chain with a constant": chain.with_constant(3),
    **{word: own_function.tanh_chain(3, word) for word in own_function.CASES.values()},
    "mlp": mlp.network(2, (3, 4, 4, 2)),
    "memory": memory.layers(3, 1_024),
    "layer norm": layer_norm.layers(2, 3, 4),
    "uses": wide.uses(3),
    "cat": wide.joined(3, "cat"),
    "stack": wide.joined(3, "stack"),
    "slices": wide.slices(3),
    "embedding": wide.embedding(5, 2, 9),
    "ladder": ladder.ladder(3),
    "double backward": double_backward.product(2, (3, 4, 4, 2)),
}


@pytest.fixture(scope="module")
def frameworks():
    return load()[0]


def test_the_floor_comes_first_and_the_project_takes_part(frameworks):
    names = [framework.name for framework in frameworks]
    assert names[0] == "floor"
    assert "lucid_mini" in names


def test_what_does_not_import_is_named_with_its_reason(frameworks, monkeypatch):
    monkeypatch.setitem(ADAPTERS, "nowhere", ("nowhere", "Nowhere"))
    found, missing = load()
    assert [framework.name for framework in found] == [framework.name for framework in frameworks]
    assert "nowhere" in missing["nowhere"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_framework_gives_the_gradients_of_the_floor(frameworks, name):
    runs = measure.start(PROGRAMS[name], frameworks)
    assert {"floor", "lucid_mini"} <= set(runs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradients_of_the_floor_are_the_slopes_of_the_output(frameworks, name):
    program = PROGRAMS[name]
    lucid = next(framework for framework in frameworks if framework.name == "lucid_mini")
    function = program.write(lucid)

    def output(arrays):
        return function(*map(lucid.parameter, arrays)).item()

    gradients = program.backward(program.forward(*program.parameters))
    for index, gradient in enumerate(gradients):
        for place in ((0,) * gradient.ndim, (-1,) * gradient.ndim):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [array.copy() for array in program.parameters]
                moved[index][place] += step
                ends.append(output(moved))
            slope = (ends[0] - ends[1]) / 2e-6
            assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_a_framework_that_computes_something_else_is_refused(frameworks):
    class Wrong(Framework):
        name = "wrong"
        distribution = "numpy"

        def start(self, program: Program) -> measure.Run:
            run = frameworks[0].start(program)
            return measure.Run(
                run.forward, lambda recorded: [2 * g for g in run.backward(recorded)]
            )

    with pytest.raises(AssertionError, match="wrong: the gradient of parameter 0"):
        measure.start(chain.multiply_add(3), [frameworks[0], Wrong()])


def test_a_framework_without_a_word_is_left_out(frameworks):
    class Mute(Framework):
        name = "mute"
        distribution = "numpy"

    assert set(measure.start(chain.multiply_add(3), [frameworks[0], Mute()])) == {"floor"}


def test_ratios_are_taken_turn_by_turn():
    floor, twice = measure.rows("case", "µs", {"floor": [1.0, 10.0], "twice": [2.0, 20.0]})
    assert (floor.ratio, twice.ratio, twice.ratio_lower, twice.ratio_upper) == (1.0, 2.0, 2.0, 2.0)
    assert twice.median == 11.0


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    out = tmp_path_factory.mktemp("benchmarks") / "results.json"
    assert command.main(["--tiny", "--reps", "2", "--out", str(out)]) == 0
    return json.loads(out.read_text(encoding="utf-8"))


def test_the_json_has_the_documented_keys(result):
    assert set(result) == {"machine", "versions", "missing", "reps", "tiny", "workloads"}
    assert set(result["machine"]) == {"cpu", "cores", "os", "blas", "blas_threads"}
    assert {"python", "numpy", "lucid_mini"} <= set(result["versions"])
    assert set(result["workloads"]) == set(WORKLOADS)
    for workload in result["workloads"].values():
        assert set(workload) == {"title", "rows"}
        for row in workload["rows"]:
            assert set(row) == set(measure.Row._fields)


def test_every_workload_has_a_row_for_every_framework(result):
    for name, workload in result["workloads"].items():
        took_part = {row["framework"] for row in workload["rows"]}
        assert "lucid_mini" in took_part, name
        assert "floor" in took_part or name == "tracing"
        for case in {row["case"] for row in workload["rows"]}:
            rows = [row["framework"] for row in workload["rows"] if row["case"] == case]
            assert len(rows) == len(set(rows)), case


def test_no_figure_is_missing(result):
    for workload in result["workloads"].values():
        for row in workload["rows"]:
            if row["note"] is None:
                assert np.isfinite([row["lower"], row["median"], row["upper"]]).all()


def test_a_selection_runs_alone_and_an_unknown_name_is_refused(tmp_path, capsys):
    out = tmp_path / "some.json"
    command.main(["chain", "--tiny", "--reps", "1", "--out", str(out)])
    assert set(json.loads(out.read_text(encoding="utf-8"))["workloads"]) == {"chain"}
    with pytest.raises(SystemExit):
        command.main(["chian"])
    assert "no workload chian; there are chain" in capsys.readouterr().err
