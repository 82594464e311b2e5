"""The drawings of who owns whom are read off living objects."""

import xml.etree.ElementTree as ET

import pytest

import lucid_mini as lm

pytest.importorskip("sphinx", reason="sphinx is not installed")


def arrows(figure):
    return {(arrow.holder, arrow.how, arrow.held) for arrow in figure.arrows}


def test_before_backward_the_saved_slots_hold_the_output_that_no_variable_names():
    from ownership import before_and_after

    waiting, _ = before_and_after()
    held = "array of output of exp#1"
    assert {holder for holder, _, thing in arrows(waiting) if thing == held} == {
        "output of exp#1",
        "SavedOutput of ctx of exp#1",
    }
    assert ("ctx of mul#2", "saved 0", "output of exp#1") in arrows(waiting)
    assert ("ctx of mul#2", "saved 1", "x") in arrows(waiting)


def test_after_backward_the_nodes_stand_and_what_they_had_saved_is_gone():
    from ownership import before_and_after

    waiting, done = before_and_after()
    assert waiting.boxes.keys() - done.boxes.keys() == {
        "output of exp#1",
        "array of output of exp#1",
        "SavedOutput of ctx of exp#1",
    }
    assert done.boxes.keys() - waiting.boxes.keys() == {"x.grad", "array of x.grad"}
    assert not any(how.startswith("saved") for _, how, _ in arrows(done))


def test_the_leaf_is_known_weakly_and_no_node_knows_its_output():
    from ownership import before_and_after

    for figure in before_and_after():
        weak = {(a.holder, a.held) for a in figure.arrows if a.weak}
        assert weak == {("AccumulateGrad", "x")}
        assert not any(a.held == "loss" for a in figure.arrows)


def test_what_the_collector_does_not_find_is_not_drawn(monkeypatch):
    import ownership

    monkeypatch.setattr(ownership.gc, "get_referents", lambda *things: [])
    with pytest.raises(RuntimeError, match="x does not hold what its array is"):
        ownership.read("", "", x=lm.ones(2))


def test_the_drawing_is_the_same_each_time_and_says_its_facts_as_text():
    from ownership import before_and_after

    first, again = before_and_after(), before_and_after()
    for one, other in zip(first, again, strict=True):
        assert one.svg() == other.svg()
        root = ET.fromstring(one.svg())
        words = {child.tag.rpartition("}")[2]: child.text for child in root}
        assert words["title"] == one.title
        assert words["desc"] == one.text()
