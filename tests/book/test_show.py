"""What the chapters show with."""

import gc
import re
import warnings
import weakref
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
import pytest
from nbclient import NotebookClient

import lucid_mini as lm
from book import show

BOOK = Path(__file__).resolve().parents[2] / "book"


@pytest.fixture(autouse=True)
def _own_style():
    with mpl.rc_context():
        yield
    plt.close("all")


# -- attempt --------------------------------------------------------------------------------------


def test_an_error_is_shown_as_class_and_message_and_the_program_goes_on(capsys):
    with show.attempt():
        raise ValueError("no such thing")
    assert capsys.readouterr().out == "ValueError: no such thing\n"


def test_notes_of_an_error_are_shown_under_it(capsys):
    with show.attempt():
        error = ValueError("no")
        error.add_note("a note")
        raise error
    assert capsys.readouterr().out == "ValueError: no\n  a note\n"


def test_a_long_message_is_broken_at_spaces(capsys):
    with show.attempt():
        raise ValueError("word " * 40 + "end")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(len(line) <= 84 for line in lines)
    assert " ".join(line.strip() for line in lines) == "ValueError: " + "word " * 40 + "end"


def test_warnings_are_shown_before_the_error_and_not_on_stderr(capsys):
    with show.attempt():
        warnings.warn("mind", UserWarning, stacklevel=1)
        warnings.warn("mind", UserWarning, stacklevel=1)
        raise KeyError("k")
    out, err = capsys.readouterr()
    assert out == "UserWarning: mind\nUserWarning: mind\nKeyError: 'k'\n"
    assert err == ""


def test_a_block_that_raises_nothing_says_so(capsys):
    with show.attempt():
        pass
    assert capsys.readouterr().out == "nothing was raised\n"


def test_the_variables_of_the_frames_die_with_the_error(no_gc):
    watched = []

    def fail():
        inside = lm.ones(3)
        watched.append(weakref.ref(inside))
        raise ValueError(inside.shape)

    with show.attempt():
        fail()
    assert watched[0]() is None


def test_the_variables_of_a_failed_backward_die_with_the_error(no_gc):
    x = lm.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    watched = weakref.ref(y.grad_fn)
    with show.attempt():
        y.backward()
    del y
    assert watched() is None


def test_an_interrupt_is_not_swallowed():
    with pytest.raises(KeyboardInterrupt), show.attempt():
        raise KeyboardInterrupt


# -- a cell that was skipped ----------------------------------------------------------------------

CELLS = [
    "# a comment\nimport numpy as np\nimport os.path",
    "def step(W):\n    h = W\n    return h",
    "with open('x') as file:\n    inner = 1",
    "not python )",
    "class Op:\n    field = 1\nfor i in range(3):\n    total = i",
]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("np", "import numpy as np"),
        ("os", "import numpy as np"),
        ("step", "def step(W):"),
        ("file", "with open('x') as file:"),
        ("inner", "with open('x') as file:"),
        ("Op", "class Op:"),
        ("total", "class Op:"),
    ],
)
def test_a_missing_name_is_answered_with_the_cell_that_makes_it(name, first):
    assert f"`{name}` is missing. The cell that begins with `{first}`" in show.missing(name, CELLS)


@pytest.mark.parametrize("name", ["h", "field", "W"])
def test_a_name_inside_a_function_or_class_is_not_made_by_the_cell(name):
    assert "no cell of this chapter makes it" in show.missing(name, CELLS)


def test_a_name_that_is_spelt_alike_is_offered():
    assert "Did you mean `loss`?" in show.missing("los", CELLS, ["loss", "_los"])
    assert "Did you mean" not in show.missing("zzz", CELLS, ["loss"])


def test_of_two_cells_that_begin_alike_the_second_line_says_which():
    cells = ["reset()\nx = 1", "reset()\n# a comment\ny = 2", "z = 3"]
    assert "begins with `reset()`, then `y = 2` makes it" in show.missing("y", cells)
    assert "begins with `z = 3` makes it" in show.missing("z", cells)


def test_a_skipped_cell_is_named_where_errors_are_printed_too(capsys, monkeypatch):
    monkeypatch.setattr(show, "_CELLS", ["# first\nloss = 1"])
    with show.attempt():
        loss  # noqa: B018, F821
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("NameError: `loss` is missing. The cell that begins with `loss = 1`")


def test_outside_a_chapter_a_name_error_is_printed_as_it_is(capsys, monkeypatch):
    monkeypatch.setattr(show, "_CELLS", [])
    with show.attempt():
        loss  # noqa: B018, F821
    assert capsys.readouterr().out == "NameError: name 'loss' is not defined\n"


def test_in_a_chapter_a_skipped_cell_is_named_and_other_errors_are_left_alone():
    """The first cell of chapter 5, and then cells that come too early."""
    (path,) = BOOK.glob("05_*.ipynb")
    chapter = nbformat.read(path, as_version=4)
    first = next(cell for cell in chapter.cells if cell.cell_type == "code")
    exercise = next(cell for cell in chapter.cells if 'check("5.1"' in cell.source)
    sources = [
        first.source,
        exercise.source,
        "def halve(x):\n    return lm.ones(2).reshape(3)\n\nhalve(1)",
        "def f():\n    return gues\n\nf()",
    ]
    chapter.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    NotebookClient(
        chapter,
        allow_errors=True,
        kernel_name="python3",
        timeout=120,
        resources={"metadata": {"path": str(BOOK)}},
    ).execute()
    _, skipped, inside, misspelt = ([*cell.outputs] for cell in chapter.cells)
    (error,) = skipped
    assert error.ename == "NameError"
    assert "`careless` is missing. The cell that begins with `def careless_step" in error.evalue
    assert error.traceback == [f"NameError: {error.evalue}"]
    assert inside[0].ename == "ValueError"
    assert "halve(1)" in (text := re.sub(r"\x1b\[[\d;]*m", "", "\n".join(inside[0].traceback)))
    assert "lm.ones(2).reshape(3)" in text
    assert "lucid_mini" not in text
    assert "`gues` is missing, and no cell of this chapter makes it." in misspelt[0].evalue


def test_start_works_outside_a_notebook():
    show.start("01")


# -- tables and plots -----------------------------------------------------------------------------


def test_a_table_puts_numbers_to_the_right_and_words_to_the_left(capsys):
    show.table(["op", "bytes"], [["exp", "8,000"], ["a sum", 0]])
    assert capsys.readouterr().out == "op     bytes\nexp    8,000\na sum      0\n"


def test_a_table_without_rows_is_its_head(capsys):
    show.table(["op", "bytes"], [])
    assert capsys.readouterr().out == "op  bytes\n"


@pytest.fixture
def plot():
    return show.curves(
        {"a <b>": [1.0, 2000.0, 3.0], "c": [0.0, 0.0, 0.0]},
        x="n",
        y="bytes",
        title="T & co",
        caption="3 of them.",
    )


def test_a_plot_has_a_text_twin_with_its_data(plot):
    assert repr(plot) == (
        "T & co\n\nbytes, over n\n       1      2  3\na <b>  1  2,000  3\nc      0      0  0"
        "\n\n3 of them."
    )


def test_a_plot_is_html_that_shows_in_an_untrusted_notebook_with_an_alternative_text(plot):
    bundle = plot._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert 'alt="T &amp; co. 3 of them."' in bundle["text/html"]
    assert "<svg" not in bundle["text/html"]


def test_the_svg_of_a_plot_is_one_document_with_title_and_description(plot):
    import xml.etree.ElementTree as ET

    root = ET.fromstring(plot.svg())
    assert root[0].text == "T & co"
    assert "2,000" in root[1].text


def test_a_plot_leaves_no_figure_behind_that_would_be_shown_twice(plot):
    assert plt.get_fignums() == []


def test_the_same_plot_has_the_same_bytes():
    def draw():
        plt.style.use(show._HERE / "style.mplstyle")
        return show.curves({"a": [1, 2]}, x="x", y="y", title="t", caption="c").svg()

    assert draw() == draw()


def test_bars_of_saved_values_count_a_buffer_once():
    x = lm.ones(4, 4, requires_grad=True)
    saved = {"square": lm.lifetime.saved(x * x), "sine": lm.lifetime.saved(lm.sin(x))}
    bars = show.saved_bars(saved, title="t")
    assert bars.caption == "square: 128 bytes; sine: 128 bytes."
    assert "(again)" in repr(bars)
    gc.collect()


def test_versions_tell_who_wrote_and_who_reads_another_version():
    lm.reset_names()
    with lm.lifetime.trace() as trace:
        w = lm.ones(3, requires_grad=True)
        h = w * 2
        y = h * h
        h += 1
        with pytest.raises(lm.errors.VersionMismatchError):
            y.sum().backward()
    figure = show.versions(trace, "mul#1", title="Versions")
    assert "written by add_in_place        1" in figure.text()
    assert "read by mul#2                  1  saved at 0, now 1" in figure.text()
    assert figure.caption == "mul#1 was written once."
    assert "<svg" in figure.svg()


def test_versions_of_what_was_not_written_are_all_the_same():
    lm.reset_names()
    with lm.lifetime.trace() as trace:
        h = lm.ones(3, requires_grad=True) * 2
        (h * h).sum().backward()
    figure = show.versions(trace, "mul#1", title="Versions")
    assert "saved at 0, the same" in figure.text()
    assert figure.caption == "mul#1 was written 0 times."


def test_shapes_tell_which_axes_are_repeated_and_summed():
    inputs = {"x": lm.ones(4, 3), "b": lm.ones(3), "s": lm.ones(4, 1), "c": lm.ones(1, 1)}
    figure = show.shapes(inputs, (4, 3), title="Shapes")
    lines = [" ".join(line.split()) for line in figure.text().splitlines()]
    assert "x (4, 3) nothing (4, 3) nothing" in lines
    assert "b (3,) axis 0: 4 times (4, 3) axis 0, gone" in lines
    assert "s (4, 1) axis 1: 3 times (4, 3) axis 1, kept as 1" in lines
    both = "axis 0: 4 times, axis 1: 3 times (4, 3) axis 0, kept as 1, axis 1, kept as 1"
    assert f"c (1, 1) {both}" in lines
    assert figure.caption == "3 of 4 gradients are summed."


def test_a_curve_that_ends_early_has_no_number_after_its_end():
    figure = show.curves(
        {"long": [1, 2, 3, 4], "short": [5]}, x="x", y="y", title="t", caption="c."
    )
    (row,) = [line for line in figure.text().splitlines() if line.startswith("short")]
    assert row.split() == ["short", "5"]


# -- how plots look -------------------------------------------------------------------------------


@pytest.fixture
def axes(monkeypatch):
    """The axes of what is drawn in a test, and the figure, laid out as it is saved."""
    drawn = []
    monkeypatch.setattr(plt, "close", drawn.append)

    def last():
        figure = drawn[-1]
        figure.canvas.draw()
        return figure.axes[0]

    yield last
    monkeypatch.undo()
    plt.close("all")


def boxes(axes):
    """The words beside and in the lines, and where they stand."""
    renderer = axes.figure.canvas.get_renderer()
    extent = plt.Text.get_window_extent  # of the letters, without the line that leads there
    return {text.get_text(): extent(text, renderer) for text in axes.texts}


def test_a_curve_is_named_at_its_end_and_names_that_would_touch_move_apart(axes):
    show.curves({"a": [1, 50], "b": [1, 51], "c": [9, 0]}, x="n", y="y", title="t", caption="c.")
    found = boxes(axes())
    assert axes().get_legend() is None
    assert list(found) == ["c", "a", "b"]
    assert found["c"].y1 < found["a"].y0
    assert found["a"].y1 < found["b"].y0
    assert all(box.x0 > axes().get_window_extent().x1 for box in found.values())
    assert all(box.x1 < axes().figure.bbox.x1 for box in found.values())


def test_curves_that_lie_on_each_other_are_one_line_with_all_their_names(axes):
    lines = {"a": [1, 2], "b": [2, 1], "c": [1, 2]}
    plot = show.curves(lines, x="n", y="y", title="t", caption="c.")
    assert len(axes().lines) == 2
    assert set(boxes(axes())) == {"a\nc", "b"}
    assert "c  1  2" in plot.text()  # the twin names each


def test_lines_differ_without_colour_and_steps_have_no_halves(axes):
    lines = {name: [at, 1] for at, name in enumerate("abcd")}
    show.curves(lines, x="n", y="y", title="t", caption="c.")
    assert len({line.get_linestyle() for line in axes().lines}) == 4
    assert all(tick == int(tick) for tick in axes().get_xticks())


def test_a_logarithmic_axis_has_plain_numbers(axes):
    show.curves({"a": [1, 100_000]}, x="n", y="y", title="t", caption="c.", log=True)
    assert "100,000" in [label.get_text() for label in axes().get_yticklabels()]


def test_an_axis_of_bytes_begins_at_nothing(axes):
    show.curves({"a": [90, 100]}, x="n", y="y", title="t", caption="c.")
    assert axes().get_ylim()[0] == 0


def test_stacked_areas_add_up_and_are_named_inside_or_beside(axes):
    parts = {"first": [10, 10, 10, 0], "second": [0, 20, 20, 0], "third": [0, 0, 5, 5]}
    plot = show.stacked(
        parts, x="event", y="bytes", title="t", caption="c.", beside={"third": (1.5, 30)}
    )
    assert "together  10  30  35  5" in plot.text()
    at = {text.get_text(): text.xyann for text in axes().texts}
    assert at == {"first": (2.5, 5.0), "second": (3.0, 20.0), "third": (1.5, 30)}
    grey, saved, blue = axes().collections
    assert saved.get_hatch() == "////"
    # Told apart without colour: the two plain ones are light and dark.
    assert grey.get_facecolor()[0][:3].mean() > 0.8 > 0.5 > blue.get_facecolor()[0][:3].mean()


def test_bars_of_saved_values_are_hatched_as_saved_is_everywhere(axes):
    x = lm.ones(4, 4, requires_grad=True)
    show.saved_bars({"square": lm.lifetime.saved(x * x)}, title="t")
    assert {bar.get_hatch() for bar in axes().patches if bar.get_fill()} == {"////"}
