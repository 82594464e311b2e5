"""One look for every picture, whoever looks, and bytes and names that read the same everywhere."""

import os
import subprocess
import sys
import warnings

import matplotlib
import pytest

from lucid_mini.draw import style
from lucid_mini.draw.figure import PictureError


class Poster(style.Painting):
    """A figure with every kind of bar, sign and line."""

    title = "A <poster>"

    def text(self):
        return "bars\nand <signs>"

    def size(self):
        return 200, 100

    def paint(self, sheet):
        for at, kind in enumerate(style.LOOKS):
            sheet.bar(10 + 30 * at, 35 + 30 * at, 10, 20, kind)
        for at, name in enumerate(("last use", "freed", "never")):
            sheet.sign(20 + 30 * at, 40, name)
        sheet.line([(10, 60), (190, 60)], style.BOUNDARY)
        sheet.text(10, 80, r"$\frac{$ <b>&", turn=style.SLANT, ground="white")


# ------------------------------------------------------------ words and numbers


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (20, "20 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (5 * 1024, "5 KiB"),
        (1536, "1.5 KiB"),
        (512 * 1024, "512 KiB"),
        (12_800, "12.5 KiB"),
        (1_605_632, "1.53 MiB"),
        (1024**2 - 1, "1 MiB"),  # not 1024 KiB
        (1000 * 1024, "1000 KiB"),
        (3 * 1024**3, "3 GiB"),
        (5000 * 1024**6, "5000 EiB"),
        (-1536, "-1.5 KiB"),
    ],
)
def test_bytes_have_three_digits_and_a_binary_unit(count, words):
    assert style.format_bytes(count) == words


def test_a_share_of_nothing_is_nothing():
    assert style.format_share(0, 0) == "0 %"
    assert style.format_share(21, 250) == "8.4 %"


def test_one_thing_is_singular():
    assert [style.count_of(n, "op") for n in (0, 1, 2)] == ["0 ops", "1 op", "2 ops"]


def test_a_long_name_loses_its_middle_and_keeps_its_number():
    assert style.shorten("grad of softmax_cross_entropy#12", 20) == "grad of so…ntropy#12"
    assert style.shorten("relu#2", 20) == "relu#2"


@pytest.mark.parametrize("name", ["a" * 50, "漢" * 50, "a漢" * 25, "é" * 50, "e\u0301" * 50])
@pytest.mark.parametrize("limit", [1, 2, 3, 10, 21])
def test_a_shortened_name_fits(name, limit):
    assert style.cells(style.shorten(name, limit)) <= limit


def test_a_name_is_one_line_of_signs_that_xml_may_contain():
    assert style.clean("a\nb\tc\x00d\u202ee\ud800f") == "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf"
    assert style.clean("grad of ∂x 漢字") == "grad of ∂x 漢字"


def test_the_columns_of_a_table_stand_under_each_other_and_the_last_one_is_wrapped():
    rows = [("漢", "10", "short"), ("name", "7", "one two three four five six seven")]
    assert style.table(rows, "<><", width=32) == [
        "漢    10  short",
        "name   7  one two three four",
        "          five six seven",
    ]


def test_a_list_is_wrapped_between_its_items():
    lines = style.wrap_items("marks: ", ["1 F a", "2 F b", "3 F c"], width=24)
    assert lines == ["marks: 1 F a · 2 F b ·", "       3 F c"]
    assert style.wrap_items("marks: ", []) == []


# ------------------------------------------------------------ axes


@pytest.mark.parametrize("highest", [1, 5, 7, 100, 1023, 1024, 1_605_632, 10**12])
def test_byte_ticks_are_a_power_of_two_apart_and_few(highest):
    ticks = style.byte_ticks(0, highest)
    step = ticks[1] - ticks[0]
    assert step & (step - 1) == 0
    assert ticks[0] == 0
    assert ticks[-1] <= highest < ticks[-1] + step
    assert len(ticks) <= 7
    assert len(ticks) >= min(4, highest + 1)


def test_byte_ticks_reach_below_zero():
    assert style.byte_ticks(-1024, 2048) == [-1024, -512, 0, 512, 1024, 1536, 2048]


@pytest.mark.parametrize(
    ("end", "ticks"),
    [(0, [0]), (3, [0, 1, 2, 3]), (20, list(range(0, 21, 2))), (99, list(range(0, 100, 10)))],
)
def test_clock_ticks_are_round(end, ticks):
    assert style.clock_ticks(end) == ticks


def test_labels_that_would_touch_are_thinned_out_and_some_choose_first():
    positions = [0, 4, 8, 12, 16, 20]
    assert style.thin(positions, 8) == [0, 2, 4]
    assert style.thin(positions, 8, first=[5, 1]) == [1, 3, 5]
    assert style.thin(positions, 4) == [0, 1, 2, 3, 4, 5]
    assert style.thin([], 4) == []


# ------------------------------------------------------------ the look


def test_the_colours_are_those_that_every_kind_of_colour_vision_tells_apart():
    fills = {kind: look.fill for kind, look in style.LOOKS.items()}
    assert (fills["use"], fills["saved"], fills["drag"]) == ("#0072B2", "#56B4E9", "#D55E00")
    assert style.LOOKS["void"].dashed
    assert style.RED_INK == "#8A3800"


def test_no_two_kinds_of_bar_look_alike_in_grey():
    def grey(colour):
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    looks = [(look.hatch, look.dashed, grey(look.fill)) for look in style.LOOKS.values()]
    for at, (hatch, dashed, light) in enumerate(looks):
        for other_hatch, other_dashed, other_light in looks[at + 1 :]:
            told_by_lines = (hatch, dashed) != (other_hatch, other_dashed)
            assert told_by_lines or abs(light - other_light) > 60


def test_a_measured_text_is_as_wide_as_its_letters():
    assert style.text_width("iiii") < style.text_width("MMMM")
    assert style.text_width("MM", 16) == pytest.approx(2 * style.text_width("MM", 8), rel=0.01)
    assert style.text_width("MM", bold=True) > style.text_width("MM")


def test_a_text_that_does_not_fit_is_shortened_until_it_does():
    text = "HELD by a_function_with_a_long_name"
    assert style.fit(text, 500) == text
    assert "…" in style.fit(text, 80)
    assert style.text_width(style.fit(text, 80)) <= 80


def test_the_svg_has_title_and_description_escaped_and_neither_date_nor_version():
    svg = Poster().svg()
    assert "<title>A &lt;poster&gt;</title>\n<desc>bars\nand &lt;signs&gt;</desc>" in svg
    assert 'role="img"' in svg
    assert "date" not in svg
    assert matplotlib.__version__ not in svg
    assert b"Matplotlib" not in Poster().png()


def test_what_looks_like_a_formula_is_written_as_it_stands():
    class Formula(Poster):
        def __init__(self, text):
            self.written = text

        def paint(self, sheet):
            sheet.text(10, 50, self.written)

    assert Formula(r"$\frac{$").svg()  # no formula at all, and no error
    assert Formula("$x$").svg().count("<use ") == 3


def test_a_users_settings_change_nothing_and_are_left_alone():
    svg, png = Poster().svg(), Poster().png()
    theirs = {
        "font.size": 30,
        "text.color": "red",
        "hatch.color": "green",
        "hatch.linewidth": 9,
        "axes.facecolor": "black",
        "savefig.facecolor": "black",
        "savefig.bbox": "tight",
        "savefig.transparent": True,
        "lines.linewidth": 7,
        "path.sketch": (1, 100, 2),
        "svg.fonttype": "none",
        "svg.hashsalt": "theirs",
        "text.usetex": True,
    }
    with matplotlib.rc_context(theirs):
        before = dict(matplotlib.rcParams)
        assert Poster().svg() == svg
        assert Poster().png() == png
        assert dict(matplotlib.rcParams) == before


def test_a_letter_that_the_font_lacks_is_no_warning():
    class Foreign(Poster):
        def paint(self, sheet):
            sheet.text(10, 50, style.fit("漢字" * 9, 60))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Foreign().svg()
        assert style.text_width("漢字") > 0


def run(program, **environment):
    """What a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_another_process_gives_the_same_bytes():
    program = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); " + (
        "import hashlib, test_style as t; p = t.Poster(); "
        "print(hashlib.sha256(p.svg().encode() + p.png()).hexdigest())"
    )
    first, second = (run(program, PYTHONHASHSEED=seed, TZ=seed) for seed in ("1", "2"))
    assert len(first) == 65
    assert first == second


def test_matplotlib_is_imported_when_something_is_painted_and_pyplot_never():
    program = (
        "import sys; from lucid_mini.draw import memory, style, timeline; "
        "print('matplotlib' in sys.modules); style.text_width('a'); "
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    assert run(program).split() == ["False", "True", "False"]


def test_without_matplotlib_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for attempt in (Poster().svg, Poster().png, lambda: style.text_width("a")):
        with pytest.raises(PictureError) as caught:
            attempt()
        assert "pip install 'lucid-mini[book]'" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is None
