"""The benchmarks run, and everybody in them computes the same. Nothing here looks at a time."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

# The benchmarks are no part of the package that is installed.
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import command, facts, measure
from benchmarks.frameworks import ADAPTERS, Framework, Program, load
from benchmarks.goals import PEERS, Goal
from benchmarks.page import page
from benchmarks.workloads import (
    WORKLOADS,
    chain,
    deep,
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
    keys = {"machine", "versions", "missing", "reps", "tiny", "facts", "workloads"}
    assert set(result) == keys
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


def test_a_framework_of_which_one_turn_takes_long_has_no_more(monkeypatch):
    calls = []
    monkeypatch.setattr(measure, "SLOW", -1.0)
    (row,) = measure.compare("case", {"floor": lambda: calls.append(1)}, 5)
    assert (len(calls), row.framework) == (2, "floor")  # one to warm up, one turn


def test_a_chain_that_is_too_long_for_recursion_is_noted():
    class Shallow(Framework):
        name = "shallow"
        distribution = "numpy"

        def start(self, program: Program) -> measure.Run:
            def forward() -> None:
                raise RecursionError

            return measure.Run(forward, lambda recorded: [])

    took: deep.Times = {}
    deep._time([Shallow()], 4, 2, took)
    assert took["backward", 4] == {"shallow": []}
    assert deep.length_rows("backward", 4, took) == [
        measure.Row("backward, 4 nodes", "shallow", "ns/node", note="RecursionError")
    ]


def test_what_is_left_to_the_collector_is_counted_and_then_gone():
    def ring():
        one = []
        one.append(one)

    assert deep.left_over(ring) == 1
    assert deep.left_over(list) == 0


# -- goals ----------------------------------------------------------------------------------------


def row(framework, ratio, median=1.0):
    return measure.Row("case", framework, "µs", median, median, median, ratio, ratio, ratio)


def test_a_goal_is_judged_by_the_figure_as_it_is_shown():
    assert Goal(1.0).verdict([row("lucid_mini", 1.004)]) == "met"
    assert Goal(1.0).verdict([row("lucid_mini", 1.1)]) == "10 % over"
    assert Goal(0.0, of="median").verdict([row("lucid_mini", None, 2.0)]) == "2 over"


def test_a_goal_can_be_set_by_others():
    rows = [row("floor", 1.0), row("bare stack", 1.5), row("lucid_mini", 3.0), row("A", 2.0)]
    assert Goal(3.0, {"A": 1.5}).verdict(rows) == "met"
    assert Goal(3.0, {"A": 1}).verdict(rows) == "50 % over A"
    assert Goal(2.0, {"A": 0.5}).verdict(rows) == "50 % over; 200 % over 0.50 × A"
    assert Goal(3.0, {PEERS: 1}).verdict([*rows, row("B", 4.0)]) == "50 % over A"


def test_who_did_not_take_part_sets_no_goal():
    assert Goal(3.0, {"A": 1}).verdict([row("lucid_mini", 3.0)]) == "met"
    assert Goal(3.0).verdict([row("A", 3.0)]) == "not measured"


def test_a_goal_says_its_bounds():
    assert str(Goal(6.0, {"PyTorch": 1, "A": 0.5})) == "≤ 6, ≤ PyTorch, ≤ 0.50 × A"


# -- facts ----------------------------------------------------------------------------------------


def test_the_facts_of_lucid_mini(frameworks):
    found = facts.facts(frameworks)
    assert {fact: answers["lucid_mini"] for fact, answers in found.items()} == {
        "left to the collector by a dropped graph of 1 000 nodes": "nothing",
        "backward twice through one graph": "error: GraphFreedError",
        "a saved value is written in place before backward": "error: VersionMismatchError",
        "backward of a chain of 5 000 ops": "right",
        "one of two outputs is never used": "right",
        "cost of a ladder with twice as many rungs": "linear",
        "tells by name who keeps a tensor alive": "yes",
    }


def test_a_fact_tells_a_wrong_gradient_from_none_and_from_an_error():
    def failing():
        raise ValueError("no")

    framework = Framework()
    assert facts._outcome(framework, lambda: [27.0], 27.0) == "right"
    assert facts._outcome(framework, lambda: [45.0], 27.0) == "silently wrong: 45 for 27"
    assert facts._outcome(framework, lambda: [None], 27.0) == "silently no gradient"
    assert facts._outcome(framework, failing, 27.0) == "error: ValueError"


def test_facts_are_a_table_of_markdown():
    found = {"one | two": {"A": "yes"}, "three": {"A": "no", "B": "–"}}
    assert facts.table(found).splitlines() == [
        "|  | A | B |",
        "| :-- | :-- | :-- |",
        "| one \\| two | yes | – |",
        "| three | no | – |",
    ]


# -- the adapters ---------------------------------------------------------------------------------


def test_what_is_lent_to_dezero_is_taken_back(frameworks):
    if "DeZero" not in {framework.name for framework in frameworks}:
        pytest.skip("DeZero is not installed")
    assert not hasattr(np, "int")


def test_the_depth_that_micrograd_needs_is_given_back(frameworks):
    micrograd = next((f for f in frameworks if f.name == "micrograd"), None)
    if micrograd is None:
        pytest.skip("micrograd is not installed")
    before = sys.getrecursionlimit()
    micrograd.start(chain.multiply_add(2_000)).step()
    assert sys.getrecursionlimit() == before


# -- the committed figures ------------------------------------------------------------------------


def committed():
    return json.loads(command.RESULTS.read_text(encoding="utf-8"))


def test_the_page_is_what_the_committed_figures_make():
    written = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert written == page(committed())


def test_the_page_is_written_without_measuring(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "load", None)
    assert command.main(["--page", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page(committed())


def test_the_page_names_what_was_left_out():
    text = page({**committed(), "missing": {"nowhere": "does not import: no module"}})
    assert "Left out: nowhere (does not import: no module)." in text


def test_the_committed_figures_are_all_there():
    result = committed()
    assert not result["tiny"]
    assert list(result["workloads"]) == list(WORKLOADS)
    for name, workload in WORKLOADS.items():
        cases = {row["case"] for row in result["workloads"][name]["rows"]}
        assert set(workload.GOALS) <= cases, name


def test_a_times_sign_in_a_title_of_the_page_is_no_emphasis():
    titles = [line for line in page(committed()).splitlines() if line.startswith("## ")]
    assert r"## 1 000 × x\*y+z on arrays of one element, ratio to the floor" in titles
