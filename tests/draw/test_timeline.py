"""The timeline draws what the trace counted, in bars and in words."""

import gc
import itertools
import sys
import weakref
import xml.etree.ElementTree as ET
from math import cos, radians, sin
from types import SimpleNamespace

import pytest

from lucid_mini.draw import style
from lucid_mini.draw.figure import PictureError
from lucid_mini.draw.memory import memory
from lucid_mini.draw.timeline import Bar, timeline


class Tape:
    """A stand-in for a trace: a program told event by event, and the counts a trace would make."""

    def __init__(self, title=""):
        self.title, self.end, self.boundary = title, 0, None
        self.buffers, self.marks, self._named = [], [], {}

    def before(self, *sizes):
        for name, nbytes in sizes:
            self._add(name, nbytes, 0, existed=True)

    def alloc(self, name, nbytes):
        self._add(name, nbytes, self._tick(), existed=False)

    def use(self, *names):
        for name in names:
            buffer, step = self._named[name], self._tick()
            buffer.last_use, buffer.last_op = step, len(self.marks)
            if self.boundary is None:
                buffer.last_forward_use = step

    def save(self, name, slot):
        buffer, step = self._named[name], self._tick()
        buffer.saved = step if buffer.saved is None else buffer.saved
        buffer.saved_by = (*buffer.saved_by, slot)

    def release(self, name):
        self._named[name].released = self._tick()

    def free(self, name, by, late=False):
        buffer = self._named[name]
        buffer.late, buffer.death_op = late, len(self.marks)
        buffer.freed, buffer.freed_by, buffer.verdict = self._tick(), by, "refcount"

    def leak(self, name, verdict, holder=""):
        self._named[name].verdict, self._named[name].holder = verdict, holder

    def mark(self, label):
        self.marks.append((self.end, label))

    def backward(self):
        self.boundary = self.end

    def stop(self):
        """No more events: count the drag, in bytes times ops."""
        for buffer in self.buffers:
            if buffer.late or buffer.verdict in ("cycle", "outside"):
                death = len(self.marks) - 1 if buffer.freed is None else buffer.death_op
                buffer.drag = buffer.nbytes * max(0, death - buffer.last_op)
        return self

    def curve(self):
        return self._sums(self._death)

    def needed(self, by):
        return self._sums(self._needed_until if by == "program" else self._wanted_until)

    def peak(self):
        return max(self.curve(), default=0)

    def drag(self):
        return sum(buffer.drag for buffer in self.buffers if not buffer.existed)

    def live_bytes(self):
        return (self.curve() or [0])[-1]

    def _tick(self):
        self.end += 1
        return self.end - 1

    def _add(self, name, nbytes, step, existed):
        self._named[name] = SimpleNamespace(
            name=name, nbytes=nbytes, allocated=step, existed=existed, saved_by=(), saved=None,
            last_use=None, last_forward_use=step, released=None, freed=None, freed_by="",
            drag=0, verdict="expected", holder="", late=False, last_op=len(self.marks),
        )  # fmt: skip
        self.buffers.append(self._named[name])

    def _death(self, buffer):
        return self.end if buffer.freed is None else buffer.freed

    def _needed_until(self, buffer):
        """Without drag a buffer died within the op that used it last, and no sooner could it."""
        if not buffer.drag:
            return self._death(buffer)
        return self._over(buffer.allocated if buffer.last_use is None else buffer.last_use)

    def _over(self, step):
        return min([end for end, _ in self.marks if end > step], default=step + 1)

    def _wanted_until(self, buffer):
        """As if no algorithm had to save the input of a relu beside its output."""
        relu = [slot for slot in buffer.saved_by if slot.startswith("relu")]
        return self._over(buffer.last_forward_use) if relu else self._needed_until(buffer)

    def _sums(self, until):
        sums = [0] * self.end
        for buffer in self.buffers:
            if not buffer.existed:
                for step in range(buffer.allocated, min(until(buffer), self.end)):
                    sums[step] += buffer.nbytes
        return sums


KIB = 1024
SIZES = {"z1": 512 * KIB, "h2": 512 * KIB, "z3": 256 * KIB, "h4": 256 * KIB, "z5": 20 * KIB}
NAMES = {"z1": "linear#1", "h2": "relu#2", "z3": "linear#3", "h4": "relu#4", "z5": "linear#5"}


def training_step(title="A training step", leaks=()):
    """A step of an MLP, 512 × 784-256-128-10 in float32, as a trace would tell it.

    `leaks` are those of `linear#1` and `linear#3` that something holds, each with its verdict.
    """
    t, leaks = Tape(title), dict(leaks)
    weights = {"W0": 784 * KIB, "W1": 128 * KIB, "W2": 5 * KIB}
    t.before(("x", 1568 * KIB), *weights.items(), ("b0", KIB), ("b1", 512), ("b2", 40))
    layers = [("x", "W0", "b0", 1), ("relu#2", "W1", "b1", 3), ("relu#4", "W2", "b2", 5)]
    sizes = dict(zip(NAMES.values(), SIZES.values(), strict=True))
    for value, weight, bias, number in layers:
        op = f"linear#{number}"
        t.use(value, weight, bias)
        t.alloc(op, sizes[op])
        t.save(value, f"{op} x")
        t.save(weight, f"{op} w")
        t.mark(f"F {op}")
        if number < 5:
            out = f"relu#{number + 1}"
            t.use(op)
            t.alloc(out, sizes[out])
            t.save(op, f"{out} x")
            t.mark(f"F {out}")
    t.use("linear#5")
    t.alloc("softmax", 20 * KIB)
    t.use("linear#5", "softmax")
    t.free("linear#5", "end of cross_entropy#6")
    t.alloc("loss", 4)
    t.save("softmax", "cross_entropy#6 p")
    t.mark("F cross_entropy#6")
    t.backward()
    t.alloc("seed", 4)
    t.use("seed", "softmax")
    t.alloc("grad of linear#5", 20 * KIB)
    t.free("seed", "engine after cross_entropy#6")
    t.release("softmax")
    t.free("softmax", "engine after cross_entropy#6")
    t.mark("B cross_entropy#6")
    for value, weight, _, number in reversed(layers):
        op, grad = f"linear#{number}", f"grad of linear#{number}"
        t.use(grad, value)
        t.alloc(f"grad of {weight}", weights[weight])
        if number > 1:
            t.use(grad, weight)
            t.alloc(f"grad of {value}", sizes[value])
        t.use(grad)
        t.release(value)
        t.release(weight)
        if value != "x":
            t.free(value, f"engine after {op}")
        t.free(grad, f"engine after {op}")
        t.mark(f"B {op}")
        if number > 1:
            before = f"linear#{number - 2}"
            t.use(f"grad of {value}", before)
            t.alloc(f"grad of {before}", sizes[before])
            t.release(before)
            if before not in leaks:
                t.free(before, f"engine after {value}")
            t.free(f"grad of {value}", f"engine after {value}")
            t.mark(f"B {value}")
    for weight in weights:
        t.use(weight, f"grad of {weight}")
        t.free(f"grad of {weight}", "end of SGD")
    t.mark("SGD")
    t.use("loss")
    for name, verdict in leaks.items():
        t.leak(name, verdict, f"{name.replace('linear#1', 'relu#2').replace('linear#3', 'relu#4')}"
                              f".backward, closure cell 'z' (tour.py:41)")  # fmt: skip
    return t.stop()


HOSTILE = '<b>&"$x^2$\n\x00\u202e-->'
LEAKS = {"linear#1": "outside", "linear#3": "cycle"}


def row_of(figure, name):
    [row] = [row for row in figure.layout().rows if row.name == name]
    return row


def hostile_step():
    t = training_step(f"title {HOSTILE}", LEAKS)
    for buffer in t.buffers:
        buffer.name, buffer.freed_by = f"{HOSTILE}{buffer.name}", f"engine after {HOSTILE}"
        buffer.holder = HOSTILE
    t.marks = [(step, f"{label[:2]}{HOSTILE}") for step, label in t.marks]
    return t


def deep(buffers=200):
    """A chain of multiplications; every seventeenth product is held from outside."""
    t = Tape("deep")
    t.before(("x", 1 << 20))
    names = [f"mul#{number}" for number in range(1, buffers // 2 + 1)]
    for number, name in enumerate(names):
        t.use(names[number - 1] if number else "x")
        t.alloc(name, 1 + number * 7919 % 1009 * KIB)
        t.save(name, f"{name} b")
        t.mark(f"F {name}")
    t.backward()
    for number, name in reversed([*enumerate(names)]):
        t.use(name)
        t.alloc(f"grad of {name}", 4 * KIB)
        t.use(f"grad of {name}")
        if number % 17:
            t.free(name, f"engine after {name}")
        else:
            t.leak(name, "outside", "Wave.backward, ctx attribute 'history' (waves.py:12)")
        t.free(f"grad of {name}", f"engine after {name}")
        t.mark(f"B {name}")
    return t.stop()


def short():
    """Five buffers, one for each way to live."""
    t = Tape("Five lives")
    t.before(("w", 100))
    t.alloc("a", 1024)
    t.use("a", "w")
    t.save("a", "mul#1 a")
    t.mark("F mul#1")
    t.backward()
    t.alloc("unused", 10)
    t.use("a")
    t.alloc("late", 2048)
    t.use("late")
    t.free("a", "engine after mul#1")
    t.alloc("kept", 4)
    t.mark("B mul#1")
    t.use("kept")
    t.free("late", "", late=True)
    t.mark("update")
    t.leak("unused", "cycle", "a list in itself")
    return t.stop()


# ------------------------------------------------------------ the bars


def test_a_saved_buffer_is_in_use_until_its_last_forward_use_then_saved_until_it_is_freed():
    t = training_step()
    row, buffer = row_of(timeline(t), "relu#2"), t._named["relu#2"]
    assert row.bars == (
        Bar(buffer.allocated, buffer.saved, "use"),
        Bar(buffer.saved, buffer.freed, "saved"),
    )
    assert (row.last_use, row.freed, row.drag) == (buffer.last_use, buffer.freed, 0)
    assert buffer.last_forward_use < buffer.saved < buffer.last_use < buffer.freed


def test_use_in_forward_after_the_save_delays_the_wait():
    t = Tape()
    t.alloc("a", 8)
    t.save("a", "exp#1 result")
    t.use("a")
    t.backward()
    t.use("a")
    t.free("a", "engine after exp#1")
    assert row_of(timeline(t.stop()), "a").bars == (Bar(0, 3, "use"), Bar(3, 4, "saved"))


def test_a_gradient_is_in_use_all_its_life():
    t = training_step()
    buffer = t._named["grad of W1"]
    row = row_of(timeline(t), "grad of W1")
    assert row.bars == (Bar(buffer.allocated, buffer.freed, "use"),)
    assert row.note == f"freed: step {buffer.freed} at the end of SGD"


def test_a_buffer_held_from_outside_drags_from_the_op_of_its_last_use_past_the_collection():
    t = training_step(leaks=LEAKS)
    figure = timeline(t)
    row, buffer, clock = row_of(figure, "linear#1"), t._named["linear#1"], figure.layout().clock
    [op] = [column for column in clock.columns if column.label == "B relu#2"]
    assert op.start <= buffer.last_use < op.end
    assert row.bars[-2:] == (
        Bar(buffer.saved, op.end, "saved"),
        Bar(op.end, clock.after.end, "drag"),
    )
    assert row.freed is None
    assert row.leaked
    assert row.note == "HELD by relu#2.backward, closure cell 'z' (tour.py:41)"


def test_a_cycle_drags_until_the_collection_and_ends_there():
    figure = timeline(training_step(leaks=LEAKS))
    row, clock = row_of(figure, "linear#3"), figure.layout().clock
    [op] = [column for column in clock.columns if column.label == "B relu#4"]
    assert row.bars[-1] == Bar(op.end, clock.collected, "drag")
    assert row.freed == clock.collected
    assert clock.end < clock.collected < clock.after.end
    assert row.note.startswith("CYCLE, freed by gc.collect(): relu#4.backward")


def test_what_the_caller_keeps_is_no_drag():
    figure = timeline(training_step())
    for name in ("loss", "x"):
        row = row_of(figure, name)
        assert row.bars[-1] == Bar(row.last_use + 1, figure.layout().clock.after.end, "kept")
    assert not row.leaked
    assert row.note == "kept by the caller"


def test_a_buffer_that_nobody_uses_is_void_all_its_life():
    figure = timeline(short())
    row = row_of(figure, "unused")
    assert row.bars == (Bar(4, figure.layout().clock.collected, "void"),)


def test_a_buffer_freed_late_drags_from_its_last_use_to_the_free():
    row = row_of(timeline(short()), "late")
    assert row.bars == (Bar(6, 10, "use"), Bar(10, 11, "drag"))
    assert row.drag == 1 * 2048
    assert row.note == "freed: step 11"


@pytest.mark.parametrize("trace", [training_step(), training_step(leaks=LEAKS), deep(30)])
def test_the_drag_in_the_bars_is_the_hatched_area_under_them(trace):
    layout = timeline(trace).layout()
    drawn = sum(
        (min(bar.end, trace.end) - bar.start) * row.nbytes
        for row in layout.rows
        for bar in row.bars
        if bar.kind == "drag"
    )
    assert drawn == layout.curves.area
    assert (drawn > 0) == any(row.drag for row in layout.rows)


@pytest.mark.parametrize("later", [[], [(5, "F exp#1")]])
def test_where_no_mark_says_that_an_op_is_over_drag_begins_at_the_next_step(later):
    t = Tape()
    t.alloc("a", 8)
    t.use("a")
    t.alloc("b", 8)
    t.alloc("c", 8)
    t.free("a", "the caller", late=True)
    t.marks = later
    t.stop()
    t._named["a"].drag = 8
    assert row_of(timeline(t), "a").bars == (Bar(0, 2, "use"), Bar(2, 4, "drag"))


def test_a_holder_that_was_not_found_is_said_to_be_unknown():
    t = Tape()
    t.alloc("a", 8)
    t.leak("a", "outside")
    assert row_of(timeline(t.stop()), "a").note == "HELD, by whom was not found"


def test_no_drag_is_counted_within_the_op_of_the_last_use():
    row = row_of(timeline(training_step()), "grad of relu#4")
    assert row.freed > row.last_use + 1
    assert [bar.kind for bar in row.bars] == ["use"]


def test_what_nobody_looked_at_is_asked_for_and_else_called_alive():
    t = training_step()
    t._named["loss"].verdict = ""
    t.survivors = lambda: None
    row = row_of(timeline(t), "loss")
    assert (row.note, row.bars[-1].kind) == ("alive at the end", "kept")
    t.survivors = lambda: t.leak("loss", "outside", "a list 'losses'")
    assert row_of(timeline(t), "loss").note == "HELD by a list 'losses'"


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("engine after mul#1", "freed: step 1 by engine after mul#1"),
        ("the caller, after backward", "freed: step 1 by the caller, after backward"),
        ("after mul#1", "freed: step 1 after mul#1"),
        ("during mul#1", "freed: step 1 during mul#1"),
        ("end of mul#1", "freed: step 1 at the end of mul#1"),
        ("", "freed: step 1"),
    ],
)
def test_who_freed_a_buffer_is_said_in_a_phrase(phase, words):
    t = Tape()
    t.alloc("a", 8)
    t.free("a", phase)
    assert row_of(timeline(t.stop()), "a").note == words


def test_a_buffer_that_lived_between_two_events_has_a_bar_all_the_same():
    t = Tape()
    t.alloc("a", 8)
    t.use("a")
    t.free("a", "")
    t._named["a"].freed = 0
    assert row_of(timeline(t), "a").bars == (Bar(0, 0, "use"),)
    assert timeline(t).svg()


# ------------------------------------------------------------ which rows


def test_a_parameter_has_a_row_only_if_it_is_saved_or_held():
    t = training_step()
    layout = timeline(t).layout()
    assert [row.name for row in layout.rows if row.existed] == ["x", "W0", "W1", "W2"]
    assert layout.excluded == (("b0", 1024), ("b1", 512), ("b2", 40))
    t.leak("b1", "outside", "a list")
    assert [row.name for row in timeline(t).layout().rows if row.leaked] == ["b1"]


def test_of_200_buffers_40_have_rows_in_order_of_birth_and_the_leaks_are_among_them():
    layout = timeline(deep()).layout()
    assert len(layout.rows) == 40
    assert layout.folded == 160
    assert [row.born for row in layout.rows] == sorted(row.born for row in layout.rows)
    leaks = [row.name for row in layout.rows if row.leaked]
    assert leaks == ["mul#1", "mul#18", "mul#35", "mul#52", "mul#69", "mul#86"]


def test_the_folded_buffers_are_counted_in_number_bytes_and_leaks():
    t = deep()
    layout = timeline(t, top=4).layout()
    everything = sum(buffer.nbytes for buffer in t.buffers if not buffer.existed)
    assert layout.folded_bytes + sum(row.nbytes for row in layout.rows) == everything
    assert (len(layout.rows), layout.folded, layout.folded_leaks) == (4, 196, 2)
    size = style.format_bytes(layout.folded_bytes)
    assert f"and 196 smaller buffers, {size}, 2 of them leaked" in timeline(t, top=4).text()
    assert timeline(t, top=4).caption.startswith("6 of 200 buffers leaked")


def test_drag_makes_a_small_buffer_large():
    t = Tape()
    for name, nbytes in [("small", 60), ("large", 100)]:
        t.alloc(name, nbytes)
        t.use(name)
    for number in range(6):
        t.use("large")
        t.mark(f"F op#{number}")
    t.free("large", "")
    t.free("small", "", late=True)
    assert [row.name for row in timeline(t, top=1).layout().rows] == ["large"]
    assert [row.name for row in timeline(t.stop(), top=1).layout().rows] == ["small"]


def test_a_top_below_1_is_refused():
    with pytest.raises(ValueError, match="top=0 shows no buffer"):
        timeline(short(), top=0)


# ------------------------------------------------------------ the clock


def test_columns_reach_from_mark_to_mark_and_the_last_one_is_for_the_collector():
    t = short()
    clock = timeline(t).layout().clock
    assert clock.columns == ((0, 4, "F mul#1"), (4, 10, "B mul#1"), (10, 12, "update"))
    assert (clock.boundary, clock.end) == (4, 12)
    assert clock.after == (12, 13, "after gc.collect()")


# ------------------------------------------------------------ the text twin


TWIN = """\
Five lives

buffer  bytes  born  saved  last use  freed  drag  how it ended
a       1 KiB     0      3         5      8        by engine after mul#1
unused   10 B     4            never     gc  1 op  CYCLE, freed by gc.collect(): a list in itself
late    2 KiB     6                7     11  1 op
kept      4 B     9               10               kept by the caller
parameters excluded (neither saved nor held): w, 100 B

marks: 4 F mul#1 · 10 B mul#1 · 12 update
clock: 12 steps, backward begins at 4

memory                       peak  at step  at the end
retained                 3.01 KiB        6  14 B
needed by this program   3.01 KiB        6  4 B
needed by the algorithm  3.01 KiB        6  4 B
after gc.collect(): 4 B retained
drag: 11.2 % of all byte·steps; 2.01 KiB·ops
at the peak: late 2 KiB, a 1 KiB, unused 10 B
The curve leaves out the 100 B that existed before."""


def test_the_text_says_what_the_picture_shows():
    assert timeline(short()).text() == TWIN


@pytest.mark.parametrize("trace", [training_step(leaks=LEAKS), deep(), hostile_step(), short()])
def test_the_text_fits_100_columns(trace):
    assert max(style.cells(line) for line in timeline(trace).text().split("\n")) <= 100


def test_every_row_is_a_line_with_its_numbers():
    figure = timeline(training_step(leaks=LEAKS))
    lines = figure.text().split("\n")
    for row in figure.layout().rows:
        [line] = [line for line in lines if line.startswith(f"{row.name}  ")]
        born = "before" if row.existed else str(row.born)
        numbers = [style.format_bytes(row.nbytes), born, row.saved, row.last_use]
        for number in numbers:
            assert number is None or f" {number}  " in line
        if row.ending == "freed":
            assert f" {row.freed}  " in line


def test_repr_is_the_text_and_the_caption_has_the_numbers_that_matter():
    figure = timeline(training_step(leaks=LEAKS))
    assert repr(figure) == figure.text()
    assert figure.caption.startswith("2 of 20 buffers leaked; peak 2.15 MiB at step 72; ")


def test_a_step_without_leaks_says_so():
    assert timeline(training_step()).caption.startswith("20 buffers, none leaked; peak 1.88 MiB")


# ------------------------------------------------------------ the picture


def test_a_name_cannot_become_markup_or_a_formula():
    figure = timeline(hostile_step())
    svg, text = figure.svg(), figure.text()
    root = ET.fromstring(svg)
    assert "b" not in {element.tag.rpartition("}")[2] for element in root.iter()}
    assert root[0].text == 'title <b>&"$x^2$\ufffd\ufffd\ufffd-->'
    assert "<b>" not in figure.html()
    assert "\u202e" not in text + svg


def test_the_svg_has_the_text_as_its_description():
    figure = timeline(training_step(leaks=LEAKS))
    root = ET.fromstring(figure.svg())
    assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"]
    assert root[0].text == "A training step"
    assert root[1].text == figure.text()


def test_the_same_trace_gives_the_same_bytes_twice():
    first, second = timeline(short()), timeline(short())
    assert first.svg() == first.svg() == second.svg()
    assert first.png() == second.png()


def test_a_figure_keeps_neither_the_trace_nor_what_it_showed_before():
    t = training_step()
    figure, trace = timeline(t), weakref.ref(t)
    text = figure.text()
    t.buffers.clear()
    t.title = "another"
    assert figure.text() == text
    del t
    gc.collect()
    assert trace() is None


def test_a_trace_of_nothing_is_drawn_as_such():
    figure = timeline(Tape())
    assert figure.text() == "Buffers, from birth to free\nno events were recorded"
    assert figure.layout().rows == ()
    assert ET.fromstring(figure.svg()) is not None
    assert figure.png().startswith(b"\x89PNG")
    assert figure.alt() == "Buffers, from birth to free. No events were recorded."


def test_a_trace_in_which_only_parameters_were_used_has_no_row_and_a_picture():
    t = Tape("reads")
    t.before(("w", 100))
    t.use("w")
    figure = timeline(t.stop())
    assert "no buffers were recorded" in figure.text()
    assert ET.fromstring(figure.svg()) is not None


def test_without_matplotlib_the_picture_says_how_to_get_it_and_the_text_is_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    figure = timeline(short())
    for draw in (figure.svg, figure.png, figure.html):
        with pytest.raises(PictureError) as caught:
            draw()
        assert "pip install 'lucid-mini[book]'" in str(caught.value)
        assert "\n" not in str(caught.value)
    bundle = figure._repr_mimebundle_()
    assert bundle["text/plain"] == figure.text()
    assert "(Pictures need matplotlib" in bundle["text/html"]


PICTURES = {
    "clean": (training_step(), None),
    "leaky": (training_step(leaks=LEAKS), None),
    "deep": (deep(), None),
    "few rows": (deep(), 3),
    "hostile": (hostile_step(), None),
    "short": (short(), None),
}


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_of_a_picture_touches_another_or_leaves_the_sheet(name):
    trace, top = PICTURES[name]
    figure = timeline(trace, top=top)
    with style.own_settings():
        sheet = style.Sheet(*figure.size())
        figure.paint(sheet)
        painted = texts_on(sheet)
    width, height = figure.size()
    for text, corners in painted.items():
        assert all(-0.5 <= x <= width + 0.5 and 0 <= y <= height for x, y in corners), text
    for (one, here), (other, there) in itertools.combinations(painted.items(), 2):
        assert apart(here, there), f"{one[1]} touches {other[1]}"


@pytest.mark.parametrize("name", PICTURES)
def test_every_letter_has_8_points_at_the_width_of_a_notebook(name):
    trace, top = PICTURES[name]
    for figure in (timeline(trace, top=top), memory(trace)):
        with style.own_settings():
            sheet = style.Sheet(*figure.size())
            figure.paint(sheet)
        assert figure.size()[0] <= 675  # 900 pixels
        assert min(text.get_fontsize() for text in sheet.figure.axes[0].texts) >= 8


def texts_on(sheet):
    """The corners of each text, turned as it is."""
    renderer = sheet.figure.canvas.get_renderer()
    found = {}
    for number, text in enumerate(sheet.figure.axes[0].texts):
        if text.get_text():
            turn, (x0, y0) = radians(text.get_rotation()), text.get_position()
            y0 = sheet.height - y0
            text.set_rotation(0)
            box = text.get_window_extent(renderer)
            # What ink needs: lines may be set as tight as letters are high.
            low, high = box.y0 + 0.15 * box.height, box.y1 - 0.1 * box.height
            corners = [(box.x0, low), (box.x1, low), (box.x1, high), (box.x0, high)]
            found[number, text.get_text()] = [
                (
                    x0 + (x - x0) * cos(turn) - (y - y0) * sin(turn),
                    y0 + (x - x0) * sin(turn) + (y - y0) * cos(turn),
                )
                for x, y in corners
            ]
            text.set_rotation(turn * 180 / 3.141592653589793)
    return found


def apart(one, other):
    """Whether a line separates two rectangles; it is parallel to an edge of one of them."""
    for corners in (one, other):
        for (x0, y0), (x1, y1) in itertools.pairwise(corners[:3]):
            here = [(y1 - y0) * x - (x1 - x0) * y for x, y in one]
            there = [(y1 - y0) * x - (x1 - x0) * y for x, y in other]
            if max(here) <= min(there) or max(there) <= min(here):
                return True
    return False
