"""The graph is drawn with what each node keeps inside its box, and says the same in words."""

import base64
import gc
import re
import shutil
import subprocess
import sys
import weakref
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import lucid_mini as lm
from lucid_mini.autograd.dump import dump
from lucid_mini.draw.figure import PictureError
from lucid_mini.draw.graph import MOST_NODES, GraphFigure, graph

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = 'a<b>&"c"'

needs_dot = pytest.mark.skipif(
    shutil.which("dot") is None, reason="there is no dot on this machine: no picture to look at"
)


class Leaky(lm.autograd.Function):
    """A relu that keeps its input in the bag, where backward releases nothing."""

    @staticmethod
    def forward(ctx, x):
        ctx.z = x
        y = lm.tensor(np.maximum(x.numpy(), 0.0))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (y > 0).to(float)


@pytest.fixture(autouse=True)
def _names_from_one():
    lm.reset_names()


@pytest.fixture
def without_dot(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))


def step():
    """Loss and named tensors of one step of a network with one hidden layer."""
    x, target = lm.ones(32, 64), lm.tensor(np.arange(32) % 10)
    w1, b1 = lm.ones(64, 16).requires_grad_(), lm.ones(16).requires_grad_()
    w2 = lm.ones(16, 10).requires_grad_()
    h = (x @ w1 + b1).tanh()
    loss = lm.cross_entropy(h @ w2, target)
    return loss, {"x": x, "target": target, "w1": w1, "b1": b1, "w2": w2, "h": h, "loss": loss}


def texts(svg):
    """What is written in the picture itself, title and description left out."""
    return [element.text for element in ET.fromstring(svg).iter(f"{SVG}text")]


def box_of(svg, node):
    """The group of the picture that draws `node`."""
    for group in ET.fromstring(svg).iter(f"{SVG}g"):
        if group.get("class") == "node" and group.findtext(f"{SVG}title") == node:
            return group
    raise AssertionError(f"no box of {node}")


def written_in(box):
    return [element.text for element in box.iter(f"{SVG}text")]


# -- in words, without dot ------------------------------------------------------------------------


@pytest.mark.usefixtures("without_dot")
def test_the_text_twin_says_who_keeps_which_bytes():
    loss, names = step()
    assert repr(graph(loss, names=names)) == (
        "w1               (64, 16)  float64         8 KiB  leaf\n"
        "b1               (16,)     float64         128 B  leaf\n"
        "w2               (16, 10)  float64  b3  1.25 KiB  leaf\n"
        "matmul#1         (32, 16)  float64                from b: w1\n"
        "  ● a = x        (32, 64)  float64  b1    16 KiB  input\n"
        "add#2            (32, 16)  float64                from a: matmul#1, b: b1\n"
        "tanh#3           (32, 16)  float64                from x: add#2\n"
        "  ● output = h   (32, 16)  float64  b2     4 KiB  output\n"
        "matmul#4         (32, 10)  float64                from a: tanh#3, b: w2\n"
        "  ○ a = h        (32, 16)  float64  b2            input\n"
        "  ● b = w2       (16, 10)  float64  b3  1.25 KiB  input\n"
        "cross_entropy#5  ()        float64                from logits: matmul#4\n"
        "  ● logits       (32, 10)  float64  b4   2.5 KiB  input\n"
        "  ● target       (32,)     int64    b5     256 B  input\n"
        "5 nodes, 7 edges, 3 leaves; saved: 24 KiB in 5 buffers"
    )


@pytest.mark.usefixtures("without_dot")
def test_title_and_caption_give_the_name_and_the_sums():
    loss, names = step()
    figure = graph(loss, names=names)
    assert figure.title == "Graph of loss"
    assert figure.caption == "5 nodes, 3 leaves; saved: 24 KiB in 5 buffers"
    assert graph(loss).title == "Graph of cross_entropy#5"


@pytest.mark.usefixtures("without_dot")
def test_after_backward_the_rows_are_gone_unless_the_figure_before_is_at_hand():
    loss, names = step()
    before = graph(loss, names=names)
    loss.backward()
    bare = graph(loss, names=names)
    assert bare.caption == "5 nodes, 3 leaves; released: every node"
    assert "●" not in repr(bare)
    assert "×" not in repr(bare)
    after = graph(loss, names=names, before=before)
    assert after.caption == "5 nodes, 3 leaves; released: 24 KiB in 5 buffers"
    assert "  × a = x        (32, 64)  float64  b1    16 KiB  input; released" in repr(after)
    assert "w2               (16, 10)  float64      1.25 KiB  leaf, .grad 1.25 KiB" in repr(after)
    assert "saved: 0 B in 0 buffers; released: 5 nodes" in repr(after)


@pytest.mark.usefixtures("without_dot")
def test_the_dict_of_a_dump_serves_as_before():
    loss, names = step()
    as_dict = dump(loss, "dict", names=names)
    figure = graph(loss, names=names)
    loss.backward()
    assert repr(graph(loss, before=as_dict)) == repr(graph(loss, before=figure))


@pytest.mark.usefixtures("without_dot")
def test_a_released_node_has_a_gap_between_its_name_and_the_word():
    x = lm.ones(4, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    assert "</B>&#160;&#160;released" in graph(y).dot()  # dot drops plain blanks there


def test_a_partly_released_graph_keeps_its_badges():
    x, w = lm.ones(4).requires_grad_(), lm.ones(4)
    shared = x * w  # keeps w, b1
    left = shared.exp()  # keeps its output, b2
    right = shared.sin()  # keeps shared, b3
    both = left + right
    before = graph(both)
    left.sum().backward()
    after = repr(graph(both, before=before))
    assert re.search(r"× b +\(4,\) +float64 +b1 +32 B  input; released", after)
    assert re.search(r"× output +\(4,\) +float64 +b2 +32 B  output; released", after)
    assert re.search(r"● x +\(4,\) +float64 +b3 +32 B  input\n", after)
    assert graph(both, before=before).caption == (
        "4 nodes, 1 leaf; saved: 32 B in 1 buffer; released: 64 B in 2 buffers"
    )


@pytest.mark.usefixtures("without_dot")
def test_a_buffer_that_another_node_still_keeps_is_not_counted_as_released():
    x, w = lm.ones(4).requires_grad_(), lm.ones(4)
    left, right = x * w, x * w
    both = left + right
    before = graph(both)
    left.sum().backward()
    caption = "3 nodes, 1 leaf; saved: 32 B in 1 buffer; released: 1 node"
    assert graph(both, before=before).caption == caption


@pytest.mark.usefixtures("without_dot")
def test_another_before_is_refused():
    loss, _ = step()
    with pytest.raises(TypeError, match=r"a figure that graph returned, or a dict .* not Tensor"):
        graph(loss, before=loss)


@pytest.mark.usefixtures("without_dot")
def test_what_is_neither_tensor_nor_node_is_refused():
    with pytest.raises(TypeError, match=r"^graph takes a tensor or a node of its graph, not int"):
        graph(3)


@pytest.mark.usefixtures("without_dot")
@pytest.mark.filterwarnings("ignore:Leaky keeps a tensor")
def test_what_backward_does_not_release_is_said_to_be_held():
    w = lm.ones(8, 4).requires_grad_()
    loss = Leaky.apply(w * 2.0).sum()
    before = graph(loss)
    loss.backward()
    after = graph(loss, before=before)
    assert re.search(r"● ctx.z +\(8, 4\) +float64 +b\d +256 B  attribute; still held", repr(after))
    assert after.caption.endswith("in ctx attributes, never released: 256 B")


@pytest.mark.usefixtures("without_dot")
def test_without_dot_there_is_the_text_and_one_line_on_how_to_get_pictures():
    loss, _ = step()
    figure = graph(loss)
    for draw in (figure.svg, figure.png, figure.html):
        with pytest.raises(PictureError, match="need the program dot: install Graphviz"):
            draw()
    bundle = figure._repr_mimebundle_()
    assert bundle["text/plain"] == figure.text()
    assert "(Pictures of graphs need the program dot" in bundle["text/html"]


@pytest.mark.usefixtures("without_dot")
def test_the_dot_source_is_there_without_dot(tmp_path):
    loss, _ = step()
    path = graph(loss).save(tmp_path / "loss.dot")
    assert path.read_text(encoding="utf-8").startswith('digraph "Graph of cross_entropy#5" {')


@pytest.mark.usefixtures("without_dot")
def test_a_large_graph_has_words_and_a_reason_for_no_picture():
    y = lm.ones(2).requires_grad_()
    for _ in range(MOST_NODES + 50):
        y = -y
    figure = graph(y)
    lines = figure.text().split("\n")
    assert len(lines) == MOST_NODES + 2
    assert lines[0] == "… 50 earlier nodes"
    assert lines[1].startswith("neg#51 ")
    with pytest.raises(PictureError, match="A picture of 200 nodes cannot be read"):
        figure.svg()


@pytest.mark.usefixtures("without_dot")
def test_the_figure_keeps_nothing_alive():
    loss, names = step()
    gc.collect()
    gc.disable()
    try:
        figure = graph(loss, names=names)
        node = loss.grad_fn
        watched = [weakref.ref(thing) for thing in (*names.values(), node, node.ctx)]
        watched.append(weakref.ref(names["x"]._data))
        del loss, names, node
        assert [ref() for ref in watched] == [None] * len(watched)
    finally:
        gc.enable()
    assert figure.title == "Graph of loss"


@pytest.mark.usefixtures("without_dot")
def test_a_hostile_name_is_escaped_in_dot():
    loss, names = step()
    source = graph(loss, names={HOSTILE: names["w1"], HOSTILE + "2": names["h"]}).dot()
    assert "<B>a&lt;b&gt;&amp;&quot;c&quot;</B>" in source
    assert 'label="\N{NO-BREAK SPACE}a<b>&amp;\\"c\\"2 (32, 16)"' in source
    assert "<b>" not in source.replace("a<b>&amp;", "")  # outside of quotes


@pytest.mark.usefixtures("without_dot")
def test_a_row_that_is_neither_input_nor_output_says_what_it_is():
    class Shifted(lm.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            shifted = lm.tensor(x.numpy() + 1.0)
            ctx.save_for_backward(x, shifted)
            return lm.tensor(shifted.numpy() ** 2)

        @staticmethod
        def backward(ctx, grad):
            return grad

    source = graph(Shifted.apply(lm.ones(3).requires_grad_())).dot()
    assert ">shifted, intermediate<" in source
    assert ">x<" in source


@pytest.mark.usefixtures("without_dot")
def test_a_name_that_goes_on_and_on_is_shortened_in_the_box_and_whole_in_the_text():
    loss, names = step()
    figure = graph(loss, names={"w" * 300: names["w1"]})
    assert "w" * 300 in figure.text()
    assert "w" * 30 not in figure.dot()
    assert "w" * 19 + "…" + "w" * 19 in figure.dot()


# -- in a picture ---------------------------------------------------------------------------------


@needs_dot
def test_saved_values_stand_inside_the_box_of_their_node():
    loss, names = step()
    svg = graph(loss, names=names).svg()
    assert written_in(box_of(svg, "matmul#4")) == [
        "matmul#4",
        *("○", "a = h", "(32, 16)", "b2"),
        *("●", "b = w2", "(16, 10)", "1.25 KiB", "b3"),
    ]
    assert written_in(box_of(svg, "add#2")) == ["add#2"]
    target = ["●", "target", "(32,) int64", "256 B", "b5"]
    assert written_in(box_of(svg, "cross_entropy#5"))[-5:] == target


@needs_dot
def test_a_leaf_has_name_shape_bytes_and_badge():
    loss, names = step()
    svg = graph(loss, names=names).svg()
    assert [text.replace("\xa0", " ") for text in written_in(box_of(svg, "leaf#3"))] == [
        "w2",
        "(16, 10)  1.25 KiB",
        "b3",
    ]


@needs_dot
def test_every_node_and_leaf_has_one_box_and_every_edge_one_arrow():
    loss, names = step()
    root = ET.fromstring(graph(loss, names=names).svg())
    groups = [group.get("class") for group in root.iter(f"{SVG}g")]
    assert groups.count("node") == 5 + 3 + 1  # and one for the output
    assert groups.count("edge") == 7 + 1


@needs_dot
def test_an_edge_is_labelled_with_the_shape_of_what_flows():
    loss, names = step()
    labels = [text.strip() for text in texts(graph(loss, names=names).svg())]
    assert "h (32, 16)" in labels
    assert "loss ()" in labels


@needs_dot
def test_an_edge_from_one_of_several_outputs_says_which():
    class Halves(lm.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return lm.tensor(x.numpy()[:1]), lm.tensor(x.numpy()[1:])

        @staticmethod
        def backward(ctx, top, bottom):
            return lm.cat([top, bottom])

    top, bottom = Halves.apply(lm.ones(4, 2).requires_grad_())
    labels = [text.strip() for text in texts(graph(top * bottom).svg())]
    assert "output 0: (1, 2)" in labels
    assert "output 1: (3, 2)" in labels


@needs_dot
@pytest.mark.filterwarnings("ignore:Leaky keeps a tensor")
def test_released_rows_are_struck_through_and_held_ones_are_not():
    x = lm.ones(8, 4).requires_grad_()
    loss = Leaky.apply(x.exp()).sum()
    before = graph(loss)
    loss.backward()
    box = box_of(graph(loss, before=before).svg(), "leaky#2")
    struck = {
        element.text.strip(): element.get("text-decoration") == "line-through"
        for element in box.iter(f"{SVG}text")
    }
    assert struck["output"] is True
    assert struck["ctx.z"] is False
    assert {"×", "●", "still held"} <= set(struck)


@needs_dot
def test_the_picture_has_a_title_and_the_text_twin_as_description():
    loss, names = step()
    figure = graph(loss, names=names)
    root = ET.fromstring(figure.svg())
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text == "Graph of loss"
    assert root[1].text == figure.text()


@needs_dot
def test_a_hostile_name_is_shown_as_it_is_and_is_no_markup():
    loss, names = step()
    figure = graph(loss, names={HOSTILE: names["w1"], "h": names["h"], HOSTILE + " loss": loss})
    svg = figure.svg()
    assert HOSTILE in written_in(box_of(svg, "leaf#1"))
    assert ET.fromstring(svg)[0].text == f"Graph of {HOSTILE} loss"
    html = figure._repr_mimebundle_()["text/html"]
    assert "a&lt;b&gt;&amp;&quot;c&quot; loss" in html
    assert "<b>" not in html
    data = re.search('base64,([^"]+)', html)[1]
    assert base64.b64decode(data).decode() == svg


@needs_dot
@pytest.mark.parametrize(
    "name", ["\\", "\\N", '\\\\n"', "]]>", "-->", "<!--", "&lt;", "%s{|}", "名前", " ", "'"]
)
def test_no_name_breaks_the_picture(name):
    loss, names = step()
    svg = graph(loss, names={name: names["w1"], "h" + name: names["h"], "l" + name: loss}).svg()
    shown = [text.replace("\xa0", " ") for text in written_in(box_of(svg, "leaf#1"))]
    assert shown[0].strip() == name.strip()
    assert any(text.replace("\xa0", " ").strip() == f"h{name} (32, 16)" for text in texts(svg))


@needs_dot
def test_the_same_graph_gives_the_same_bytes():
    drawn = []
    for _ in range(2):
        lm.reset_names()
        loss, names = step()
        figure = graph(loss, names=names)
        drawn.append([figure.svg(), figure.png(), figure.dot(), figure.text(), figure.html()])
    assert drawn[0] == drawn[1]


@needs_dot
def test_the_same_graph_gives_the_same_bytes_in_another_process():
    code = (
        "import lucid_mini as lm; from lucid_mini.draw.graph import graph\n"
        "x = lm.ones(3).requires_grad_(); y = x * x.exp(); print(graph(y, names={'x': x}).svg())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, env=None, timeout=120
        ).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert b"exp#1" in runs[0]


@needs_dot
def test_nothing_of_the_machine_is_in_the_picture():
    loss, _ = step()
    svg = graph(loss).svg()
    assert "<!--" not in svg
    assert "<!DOCTYPE" not in svg
    assert "graphviz" not in svg.lower()


@needs_dot
def test_every_kind_of_file_can_be_saved(tmp_path):
    loss, _ = step()
    figure = graph(loss)
    starts = {
        ".svg": b"<svg",
        ".png": b"\x89PNG",
        ".html": b"<!doctype",
        ".dot": b"digraph",
        ".txt": b"leaf#1",
    }
    for ending, start in starts.items():
        assert figure.save(tmp_path / f"loss{ending}").read_bytes().startswith(start)


@needs_dot
def test_a_failure_of_dot_is_a_picture_error(monkeypatch):
    loss, _ = step()
    figure = graph(loss)
    monkeypatch.setattr(sys.modules["lucid_mini.draw.graph"], "_dot", lambda *_: "digraph {")
    with pytest.raises(
        PictureError, match="dot could not draw this graph: Error: <stdin>: syntax error"
    ):
        figure.svg()


@needs_dot
def test_a_tensor_without_history_is_one_box():
    svg = graph(lm.ones(2, 3), names={}).svg()
    shown = [text.replace("\xa0", " ") for text in written_in(box_of(svg, "leaf#1"))]
    assert shown == ["leaf#1", "(2, 3)  48 B", "requires no grad"]


@needs_dot
def test_a_leaf_that_a_hundred_nodes_use_is_drawn_in_reasonable_time():
    x = lm.ones(2).requires_grad_()
    y = x
    for index in range(100):
        y = y * x if index % 3 else y.tanh()
    svg = graph(y).svg()  # without nslimit this takes a minute, and dot is stopped
    assert svg.count('class="node"') == 102


def test_the_port_of_dot_is_used_where_there_is_no_dot(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    port = tmp_path / "graphviz-pure"
    port.write_text(
        "#!/bin/sh\n/bin/cat > " + str(tmp_path / "given.dot") + "; echo '<svg></svg>'\n"
    )
    port.chmod(0o755)
    loss, _ = step()
    figure = graph(loss)
    assert isinstance(figure, GraphFigure)
    assert figure.svg().startswith('<svg role="img">\n<title>Graph of cross_entropy#5</title>')
    given = (tmp_path / "given.dot").read_text(encoding="utf-8")
    assert 'fontname="Arial,Helvetica,sans-serif"' in given  # the port knows no other widths


class KeepsInVain(lm.autograd.Function):
    """Saves x, of which its rule reads the shape, and the mask that it could do with."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * lm.ones(*x.shape)


def test_what_was_saved_in_vain_is_marked_when_it_is_asked_for():
    x = lm.ones(3, requires_grad=True)
    loss = KeepsInVain.apply(x * x.exp())
    assert "▲" not in graph(loss).text()
    text = graph(loss, needed=True).text()
    (line,) = [line for line in text.split("\n") if "▲" in line]
    assert "not needed" in line
    assert "24 B" in line
    assert text.count("●") == 2  # x and exp(x), which mul reads


@needs_dot
def test_the_mark_of_what_was_saved_in_vain_stands_in_the_picture():
    loss = KeepsInVain.apply(lm.ones(3, requires_grad=True) * 2.0)
    svg = graph(loss, needed=True).svg()
    assert "▲" in svg
    assert "not needed" in svg
