"""The memory curve draws the numbers of the trace, and says them."""

import sys
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

import lucid_mini as lm
from lucid_mini.draw import style
from lucid_mini.draw.figure import PictureError
from lucid_mini.draw.memory import Column, memory

KIB = 1024


class Recorded:
    """A stand-in for a trace whose numbers were written down by hand: six steps, two ops."""

    title = "Six steps"
    end = 6
    boundary = 3
    marks = ((3, "F exp#1"), (6, "B exp#1"))

    def __init__(self, **changes):
        self.buffers = [
            buffer("w", 5 * KIB, 0, None, existed=True),
            buffer("x", 2 * KIB, 0, 4),
            buffer("exp#1", KIB, 1, None, verdict="cycle"),
            buffer("grad of exp#1", KIB, 3, 5),
        ]
        self.retained = [2 * KIB, 3 * KIB, 3 * KIB, 4 * KIB, 2 * KIB, KIB]
        self.program = [2 * KIB, 3 * KIB, 3 * KIB, 4 * KIB, KIB, 0]
        self.algorithm = [2 * KIB, KIB, KIB, 2 * KIB, KIB, 0]
        vars(self).update(changes)

    def curve(self):
        return self.retained

    def needed(self, by):
        return {"program": self.program, "algorithm": self.algorithm}[by]

    def drag(self):
        return KIB

    def peak(self):
        return max(self.retained)


class WithoutAlgorithm(Recorded):
    def needed(self, by):
        if by != "program":
            raise ValueError(f"not by={by!r}")
        return self.program


def buffer(name, nbytes, allocated, freed, existed=False, verdict="refcount", foreign=False):
    return SimpleNamespace(
        name=name,
        nbytes=nbytes,
        allocated=allocated,
        freed=freed,
        existed=existed,
        verdict=verdict,
        foreign=foreign,
    )


TWIN = """\
Six steps

step  after    retained  program  algorithm   drag
   3  F exp#1     3 KiB    3 KiB      1 KiB    0 B
   6  B exp#1     1 KiB      0 B        0 B  1 KiB

memory                    peak  at step  at the end
retained                 4 KiB        3  1 KiB
needed by this program   4 KiB        3  0 B
needed by the algorithm  2 KiB        0  0 B
after gc.collect(): 0 B retained
drag: 13.3 % of all byte·steps; 1 KiB·ops
at the peak: x 2 KiB, exp#1 1 KiB, grad of exp#1 1 KiB
The curve leaves out the 5 KiB that existed before."""


def test_the_layout_has_the_curves_of_the_trace():
    t = Recorded()
    layout = memory(t).layout()
    assert [list(curve.values) for curve in layout.lines.values()] == [
        t.retained,
        t.program,
        t.algorithm,
    ]
    assert list(layout.lines) == list(style.STROKES)
    assert layout.clock.columns == (Column(0, 3, "F exp#1"), Column(3, 6, "B exp#1"))
    assert (layout.clock.boundary, layout.clock.end) == (3, 6)


def test_the_peak_is_labelled_with_its_largest_buffers_and_without_what_existed_before():
    layout = memory(Recorded()).layout()
    assert layout.at_the_peak() == "peak 4 KiB at step 3"
    assert layout.peak_buffers() == "x 2 KiB, exp#1 1 KiB, grad of exp#1 1 KiB"


def test_of_many_buffers_at_the_peak_three_are_named_and_the_others_counted():
    t = Recorded()
    t.buffers += [buffer("y", KIB // 2, 2, 4), buffer("a file", 9 * KIB, 0, None, foreign=True)]
    layout = memory(t).layout()
    assert layout.peak_buffers() == "x 2 KiB, exp#1 1 KiB, grad of exp#1 1 KiB and 1 more"


def test_the_hatched_area_is_what_the_program_did_not_need():
    layout = memory(Recorded()).layout()
    assert layout.area == 2 * KIB
    assert layout.share == "13.3 %"


def test_a_cycle_is_gone_after_the_collection():
    layout = memory(Recorded()).layout()
    assert (layout.retained.last, layout.collected) == (KIB, 0)


def test_the_text_says_what_the_picture_shows():
    figure = memory(Recorded())
    assert figure.text() == repr(figure) == TWIN


def test_the_caption_has_the_numbers_that_matter():
    assert memory(Recorded()).caption == (
        "peak 4 KiB at step 3; needed by this program 4 KiB, needed by the algorithm 2 KiB; "
        "drag 13.3 % of all byte·steps; 1 KiB retained at the end"
    )


def test_a_trace_that_does_not_know_the_least_of_the_algorithm_is_drawn_without_it():
    figure = memory(WithoutAlgorithm())
    assert list(figure.layout().lines) == ["retained", "needed by this program"]
    assert "algorithm" not in figure.text() + figure.svg()


def test_a_curve_may_fall_below_what_was_there_at_the_start():
    t = Recorded(retained=[KIB, -KIB, -KIB], program=[KIB, -KIB, -KIB], algorithm=[0, 0, 0], end=3)
    t.marks, t.buffers = [(3, "F add#1")], []
    figure = memory(t)
    assert "-1 KiB" in figure.text()
    assert ET.fromstring(figure.svg()) is not None


def test_many_marks_are_listed_up_to_a_limit_and_the_others_counted():
    t = Recorded(marks=[(1 + step % 6, f"F op#{step}") for step in range(100)])
    text = memory(t).text()
    assert "F op#59" in text
    assert "F op#60" not in text
    assert "and 40 more marks" in text
    assert "(the end)" in text


def test_the_svg_has_title_and_description_and_hostile_names_stay_names():
    t = Recorded(title='<b>&"', marks=[(3, '<b>&"')])
    t.buffers[1].name = '<b>&"$x^2$'
    figure = memory(t)
    root = ET.fromstring(figure.svg())
    assert [root[0].text, root[1].text] == ['<b>&"', figure.text()]
    assert not [element for element in root.iter() if element.tag.endswith("}b")]
    assert "<b>" not in figure.html()


def test_the_same_trace_gives_the_same_bytes_twice():
    assert memory(Recorded()).svg() == memory(Recorded()).svg()
    assert memory(Recorded()).png() == memory(Recorded()).png()


def test_another_curve_is_another_picture():
    # Same peak, end and sum: no word of the picture differs.
    other = Recorded(retained=[3 * KIB, 2 * KIB, 3 * KIB, 4 * KIB, 2 * KIB, KIB])
    assert memory(Recorded()).png() != memory(other).png()


def test_a_trace_of_nothing_is_drawn_as_such():
    t = Recorded(title="", end=0, boundary=None, marks=[], buffers=[])
    t.retained = t.program = t.algorithm = []
    figure = memory(t)
    assert figure.text() == "Memory, event by event\nno events were recorded"
    assert figure.caption == "No events were recorded"
    assert ET.fromstring(figure.svg()) is not None


def test_a_trace_of_one_step_is_drawn():
    t = Recorded(end=1, boundary=None, marks=[], retained=[8], program=[8], algorithm=[8])
    assert "(the end)" in memory(t).text()
    assert ET.fromstring(memory(t).svg()) is not None


def test_it_is_saved_in_each_way_that_a_picture_can_be(tmp_path):
    figure = memory(Recorded())
    for ending, start in {".svg": "<?xml", ".html": "<!doctype html>", ".txt": "Six steps"}.items():
        assert figure.save(tmp_path / f"m{ending}").read_text("utf-8").startswith(start)
    assert figure.save(tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(PictureError, match="is no graph"):
        figure.save(tmp_path / "m.dot")


def test_without_matplotlib_the_text_is_there_and_the_picture_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    figure = memory(Recorded())
    assert figure.text() == TWIN
    with pytest.raises(PictureError, match=r"pip install 'lucid-mini\[book\]'"):
        figure.svg()


@pytest.mark.parametrize("draw", [lm.draw.memory, lm.draw.timeline])
def test_what_is_no_trace_is_refused_with_the_way_to_get_one(draw):
    with pytest.raises(TypeError, match="takes a trace, not int"):
        draw(3)
