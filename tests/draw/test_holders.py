"""The holders' picture says what the chain says, with the line of code behind it."""

import functools
import linecache
import re
import sys
import weakref
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest

import lucid_mini as lm
from lucid_mini.draw import style
from lucid_mini.draw.holders import holders
from lucid_mini.lifetime.buffers import Buffer
from lucid_mini.lifetime.holders import Chain, Hop

SVG = "{http://www.w3.org/2000/svg}"


def make_scaler():
    captured = lm.ones(4, 2)

    def scale(x):
        # captured, in a comment and "captured" in a string do not count
        return x * captured + len("captured")

    return scale, weakref.ref(captured)


def test_a_closure_is_shown_with_its_lines_and_the_captured_name_underlined():
    kept, reference = make_scaler()
    (held,) = holders(lm.lifetime.why_alive(reference)).held()
    cut = next(link for link in held.links if link.cut)
    assert cut.how == "closure cell 'captured'"
    assert cut.what == "tensor (4, 2)"
    assert held.where == cut.where
    first = make_scaler.__code__.co_firstlineno + 3
    assert cut.where == f"test_holders.py:{first}"
    assert [(row.number - first, row.text.strip()) for row in held.source] == [
        (0, "def scale(x):"),
        (1, '# captured, in a comment and "captured" in a string do not count'),
        (2, 'return x * captured + len("captured")'),
    ]
    marked = [row.text[start:end] for row in held.source for start, end in row.marks]
    assert marked == ["captured"]
    assert held.source[2].marks == ((15, 23),)
    del kept


def test_the_text_marks_the_cut_says_what_it_frees_and_underlines():
    kept, reference = make_scaler()
    first = make_scaler.__code__.co_firstlineno + 3
    text = repr(holders(lm.lifetime.why_alive(reference)))
    assert text.startswith("Who holds these 64 B\n")
    (marked,) = [line for line in text.split("\n") if line.startswith("✂  ")]
    assert re.split(r" {2,}", marked) == [
        "✂", "└ closure cell 'captured'", "tensor (4, 2)", f"test_holders.py:{first}",
    ]  # fmt: skip
    assert "✂ cut here: frees 64 B" in text
    assert f'  {first + 2}      return x * captured + len("captured")' in text
    assert f"\n  {' ' * len(str(first))}                 ^^^^^^^^\n" in text
    assert "verdict: HELD from outside" in text
    assert text.endswith("No other name leads there.")
    del kept


def chain_of(*hows, where="", nbytes=64, others=0, by="f"):
    """A chain told hop by hop: the last is the array."""
    hops = [Hop("a thing", hows[0])]
    hops += [Hop("a thing", how, by, where) for how in hows[1:]]
    return Chain((*hops, Hop(f"array (8,), {nbytes} bytes", "its array")), nbytes, others)


def test_the_text_of_a_chain_word_for_word():
    chain = chain_of("global 'model'", "attribute .cache", others=2)
    assert repr(holders(chain)) == (
        "Who holds these 64 B\n"
        "\n"
        "   global 'model'         a thing\n"
        "✂  └ f: attribute .cache  a thing\n"
        "     └ its array          array (8,), 64 B\n"
        "\n"
        "✂ cut here and at 2 other names: frees 64 B\n"
        "\n"
        "verdict: HELD from outside: neither counting nor gc.collect() frees it\n"
        "2 other names lead there, too."
    )


def test_a_plain_name_has_nothing_to_cut():
    values = lm.ones(3)
    figure = holders(lm.lifetime.why_alive(weakref.ref(values)))
    (held,) = figure.held()
    assert not any(link.cut for link in held.links)
    assert held.cut() == ""
    assert held.source == ()
    assert held.verdict == "kept by a plain name, nothing hidden"
    assert not held.leaked
    assert "✂" not in figure.text()


def test_a_default_an_attribute_and_a_partial_are_named():
    class Model:
        pass

    def ask(thing):
        reference = weakref.ref(thing)
        return lambda: next(
            link.how
            for link in holders(lm.lifetime.why_alive(reference)).held()[0].links
            if link.cut
        )

    model, value = Model(), lm.ones(2)
    model.cache, found = value, ask(value)
    del value
    assert found() == "attribute .cache"
    del model

    value = lm.ones(2)

    def scale(x, factor=value):
        return x * factor

    found = ask(value)
    del value
    assert found() == "default of 'factor'"
    del scale

    value = lm.ones(2)
    bound, found = functools.partial(pow, value), ask(value)
    del value
    assert found() == "argument 0"
    del bound


def test_a_buffer_of_a_trace_brings_its_name_its_verdict_and_its_chain():
    kept = []

    def keep(grad):
        kept.append(grad)

    with lm.lifetime.trace() as trace:
        x = lm.ones(4, requires_grad=True)
        y = x * 2.0
        y.register_hook(keep)
        y.sum().backward()
        del y
    buffer = next(b for b in trace.survivors() if b.verdict == "outside")
    figure = holders(buffer)
    (held,) = figure.held()
    assert figure.title == f"Who holds {buffer.name}, {buffer.nbytes} B"
    assert held.leaked
    assert held.line == buffer.holder
    assert buffer.holder in figure.caption


@pytest.mark.parametrize(
    ("verdict", "words", "leaked"),
    [
        ("cycle", "CYCLE: counting does not free it, gc.collect() does: a -> b -> a", True),
        ("refcount", "freed by counting", False),
        ("outside", "no name leads to it", False),
        ("", "no name leads to it", False),
    ],
)
def test_a_buffer_without_a_chain_has_a_verdict_all_the_same(verdict, words, leaked):
    buffer = Buffer("mul#1", 64, 3, verdict=verdict, holder="a -> b -> a")
    (held,) = holders(buffer).held()
    assert (held.verdict, held.leaked, held.links) == (words, leaked, ())


def test_a_search_that_stopped_says_so():
    (held,) = holders(Chain((), 8, stopped=True)).held()
    assert held.verdict == "no chain was found before the search stopped"
    (held,) = holders(Chain((Hop("a list", "global 'x'"), Hop("t", "[0]")), 8, 0, True)).held()
    assert held.verdict.endswith("; the search for other names stopped early")


def test_a_list_of_chains_is_drawn_one_under_the_other():
    one, two = chain_of("global 'a'", "[0]"), chain_of("global 'b'", "[1]", nbytes=2048)
    figure = holders([one, two])
    assert figure.title == "Who holds these 2.06 KiB: 2 chains"
    assert [held.nbytes for held in figure.held()] == [64, 2048]
    assert figure.size()[1] > holders(one).size()[1]


def test_nothing_to_show_is_no_error():
    assert repr(holders([])) == "Who holds these 0 B: 0 chains"


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match="why_alive"):
        holders(lm.ones(2))


def test_the_middle_of_a_long_chain_is_left_out():
    chain = chain_of("global 'x'", *[f"[{at}]" for at in range(5000)])
    (held,) = holders(chain).held()
    assert len(held.links) == 8
    assert sum(link.skipped for link in held.links) == 5002 - 8
    assert [link.how for link in held.links if link.cut] == ["[4999]"]
    assert "… 4994 hops" in repr(holders(chain))


# ---------------------------------------------------------------- source


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Writes a module that the picture can find by its last name."""

    def write(text, folder="one", name="leaky_model.py"):
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        module = ModuleType(folder)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, f"made_by_test_{folder}", module)
        return path

    linecache.clearcache()
    yield write
    linecache.clearcache()


def source_of(how, where, by="Net.forward"):
    (held,) = holders(chain_of("global 'net'", how, where=where, by=by)).held()
    return held.source


def test_of_a_long_function_the_first_line_and_the_marked_ones_are_shown(file):
    body = "".join(f"    a{at} = {at}\n" for at in range(20))
    file(f"def forward(x):\n    z = x\n{body}    return z\n")
    rows = source_of("closure cell 'z'", "leaky_model.py:1")
    assert [row.number for row in rows] == [1, 2, 23]
    assert "\n   …\n" in repr(
        holders(
            chain_of("global 'net'", "closure cell 'z'", where="leaky_model.py:1", by="forward")
        )
    )


def test_a_ctx_attribute_is_marked_in_its_own_line(file):
    file("def forward(ctx, x):\n    ctx.mask = x > 0\n    return x\n")
    (row,) = source_of("ctx attribute 'mask'", "leaky_model.py:2", by="Relu")
    assert row.text == "ctx.mask = x > 0"
    assert row.marks == ((4, 8),)


def test_two_files_of_one_name_that_could_both_have_done_it_show_neither(file):
    file("def forward(x):\n    return z\n")
    assert source_of("closure cell 'z'", "leaky_model.py:1") != ()
    file("def forward(x):\n    return z + 1\n", "two")
    assert source_of("closure cell 'z'", "leaky_model.py:1") == ()


def test_a_file_of_that_name_in_which_the_name_does_not_occur_is_not_shown(file):
    file("def forward(x):\n    return y\n")
    assert source_of("closure cell 'z'", "leaky_model.py:1") == ()
    file("def other(x):\n    return z\n")
    assert source_of("closure cell 'z'", "leaky_model.py:1") == ()


def test_where_there_is_no_source_there_is_no_complaint():
    for where in ("", "gone_for_good.py:3", "leaky_model.py:", "<stdin>:1", "In[3]:1"):
        (held,) = holders(chain_of("global 'net'", "closure cell 'z'", where=where)).held()
        assert (held.where, held.source) == ("", ())


def test_a_cell_of_a_notebook_has_its_source():
    cell = "def forward(x):\n    return x * z\n"
    name = "<ipython-input-3-0123456789ab>"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    try:
        rows = source_of("closure cell 'z'", f"{name}:1")
    finally:
        del linecache.cache[name]
    assert [row.text for row in rows] == ["def forward(x):", "    return x * z"]
    assert rows[1].marks == ((15, 16),)


def test_a_piece_of_code_that_is_cut_off_is_read_as_far_as_it_goes(file):
    file("f = [\n    lambda x: (x * z,\n    3),\n]\n")
    rows = source_of("closure cell 'z'", "leaky_model.py:2", by="<lambda>")
    assert rows[0].text.startswith("lambda x: (x * z")
    assert rows[0].marks == ((15, 16),)


# ---------------------------------------------------------------- picture


def test_the_same_chain_gives_the_same_bytes():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    kept, reference = make_scaler()
    chain = lm.lifetime.why_alive(reference)
    figures = holders(chain), holders(chain)
    assert figures[0].svg() == figures[1].svg()
    assert figures[0].png() == figures[1].png()
    assert figures[0].text() == figures[1].text()
    del kept


def test_the_svg_has_the_text_and_escapes_what_users_wrote():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    hostile = "global '<script>&\"$x_1$\u202e\n'"
    figure = holders(chain_of(hostile, "[<b>]", where="<a>.py:1"))
    root = ET.fromstring(figure.svg())
    assert root.find(f"{SVG}title").text == figure.title
    assert root.find(f"{SVG}desc").text == figure.text()
    assert "<script>" not in figure.svg()
    assert "<script>" not in figure.html()
    assert "\u202e" not in figure.text()
    assert len(figure.text().split("\n")) == 10


def test_no_address_is_in_the_text():
    class Holder:
        pass

    holder = Holder()
    holder.items = {("k", 1): [lm.ones(2)]}
    reference = weakref.ref(holder.items["k", 1][0])
    text = repr(holders(lm.lifetime.why_alive(reference)))
    assert "[('k', 1)]" in text
    assert "0x" not in text


def test_very_long_names_stay_on_the_sheet():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    figure = holders(chain_of(f"global '{'x' * 300}'", f"attribute .{'y' * 300}", where="f.py:1"))
    assert max(len(line) for line in figure.text().split("\n")) <= 130
    assert figure.svg()


def test_every_letter_has_8_points_at_the_width_of_a_notebook():
    kept, reference = make_scaler()
    figure = holders(lm.lifetime.why_alive(reference))
    with style.own_settings():
        sheet = style.Sheet(*figure.size())
        figure.paint(sheet)
    texts = [*sheet.figure.axes[0].texts, *sheet.figure.texts]
    assert figure.size()[0] <= 675  # 900 pixels
    assert min(text.get_fontsize() for text in texts) >= 8
    del kept


def test_the_figure_keeps_nothing_alive(no_gc):
    kept, reference = make_scaler()
    figure = holders(lm.lifetime.why_alive(reference))
    repr(figure)
    del kept
    assert reference() is None
