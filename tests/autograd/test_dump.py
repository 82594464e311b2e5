"""The dump says what is upstream and what it keeps, in names and numbers."""

import gc
import json
import re
import shutil
import subprocess
import weakref

import numpy as np
import pytest

import lucid_mini as lm
from lucid_mini.autograd.dump import dump, stats


class Scale(lm.autograd.Function):
    """a * b for whole tensors. Saves b before a: slots need not stand in the order of arguments."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(b, a)
        return lm.tensor(a.numpy() * b.numpy())

    @staticmethod
    def backward(ctx, grad):
        b, a = ctx.saved_tensors
        return grad * b, grad * a


class Keeper(lm.autograd.Function):
    """Keeps something in every way there is."""

    @staticmethod
    def forward(ctx, x, table, factor):
        squares = lm.tensor(x.numpy() ** 2)
        ctx.save_for_backward(x, squares, table=table, factor=factor, mask=np.ones(7))
        ctx.bag = lm.tensor(np.zeros(50))
        return lm.tensor(x.numpy() * factor)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class Halves(lm.autograd.Function):
    """Two outputs; keeps the second."""

    @staticmethod
    def forward(ctx, x):
        top, bottom = lm.tensor(x.numpy()[:2]), lm.tensor(x.numpy()[2:])
        ctx.save_for_backward(bottom)
        return top, bottom

    @staticmethod
    def backward(ctx, top, bottom):
        return lm.cat([top, bottom])


@pytest.fixture(autouse=True)
def _names_from_one():
    lm.reset_names()


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leaf(*shape):
    return lm.ones(*shape).requires_grad_()


def rows_of(graph, node):
    (found,) = (entry for entry in graph["nodes"] if entry["name"] == node)
    return found["saved"]


def small():
    a, b = leaf(3, 4), leaf(3, 4)
    loss = (Scale.apply(a, b) + a).sum()
    return loss, a, b


BEFORE = """\
leaf#1   (3, 4)  float64  b2  96 B  leaf
leaf#2   (3, 4)  float64  b1  96 B  leaf
scale#1  (3, 4)  float64            from a: leaf#1, b: leaf#2
  ● b    (3, 4)  float64  b1  96 B  input
  ● a    (3, 4)  float64  b2  96 B  input
add#2    (3, 4)  float64            from a: scale#1, b: leaf#1
sum#3    ()      float64            from x: add#2
3 nodes, 5 edges, 2 leaves; saved: 192 B in 2 buffers"""

AFTER = """\
leaf#1   (3, 4)  float64    96 B  leaf, .grad 96 B
leaf#2   (3, 4)  float64    96 B  leaf, .grad 96 B
scale#1  (3, 4)  float64          released; from a: leaf#1, b: leaf#2
add#2    (3, 4)  float64          released; from a: scale#1, b: leaf#1
sum#3    ()      float64          released; from x: add#2
3 nodes, 5 edges, 2 leaves; saved: 0 B in 0 buffers; released: 3 nodes"""


def test_the_text_lists_leaves_nodes_and_slots_before_and_after_backward():
    loss, *_leaves = small()
    assert dump(loss) == BEFORE
    loss.backward()
    assert dump(loss) == AFTER


def test_a_node_says_the_same_as_the_tensor_it_made():
    loss, *_leaves = small()
    assert dump(loss.grad_fn) == dump(loss)


def test_the_dict_has_the_facts_of_a_slot():
    loss, *_leaves = small()
    assert rows_of(dump(loss, "dict"), "scale#1")[0] == {
        "slot": 0,
        "name": "b",
        "tensor": None,
        "role": "input",
        "type": "tensor",
        "shape": [3, 4],
        "dtype": "float64",
        "nbytes": 96,
        "version": 0,
        "version_now": 0,
        "buffer": "b1",
        "again": False,
        "owner_nbytes": 96,
    }


def test_the_dict_has_nodes_edges_leaves_and_where_it_starts():
    loss, *_leaves = small()
    graph = dump(loss, "dict")
    assert [node["name"] for node in graph["nodes"]] == ["scale#1", "add#2", "sum#3"]
    assert [node["sequence_nr"] for node in graph["nodes"]] == [1, 2, 3]
    assert graph["nodes"][0]["function"] == "Scale"
    assert graph["nodes"][0]["outputs"] == [{"shape": [3, 4], "dtype": "float64", "tensor": None}]
    assert graph["edges"][:3] == [
        {"from": "scale#1", "to": "leaf#1", "argument": "a", "output_nr": 0},
        {"from": "scale#1", "to": "leaf#2", "argument": "b", "output_nr": 0},
        {"from": "add#2", "to": "scale#1", "argument": "a", "output_nr": 0},
    ]
    assert graph["leaves"][1] == {
        "name": "leaf#2",
        "label": "leaf#2",
        "shape": [3, 4],
        "dtype": "float64",
        "nbytes": 96,
        "requires_grad": True,
        "alive": True,
        "buffer": "b1",
        "grad_nbytes": None,
    }
    assert graph["start"] == {"name": "sum#3", "output_nr": 0, "tensor": None, "shape": []}


@pytest.mark.filterwarnings("ignore:Keeper keeps a tensor")
def test_the_dict_survives_json():
    x = leaf(4, 2)
    for tensor in (Keeper.apply(x, lm.ones(3), 2.0), Halves.apply(x)[1], x):
        graph = dump(tensor, "dict")
        assert json.loads(json.dumps(graph)) == graph
        numbers = stats(tensor)
        assert json.loads(json.dumps(numbers)) == numbers


# -- names and roles ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Keeper keeps a tensor")
def test_every_way_to_keep_a_value_has_its_role():
    x, table = leaf(4, 2), lm.ones(3)
    rows = rows_of(dump(Keeper.apply(x, table, 2.0), "dict"), "keeper#1")
    said = [(row["slot"], row["name"], row["role"], row["type"], row["nbytes"]) for row in rows]
    assert said == [
        (0, "x", "input", "tensor", 64),
        (1, "squares", "intermediate", "tensor", 64),
        ("table", "table", "input", "tensor", 24),
        ("factor", "factor", "object", "float", 0),
        ("mask", "mask", "object", "array", 56),
        ("bag", "ctx.bag", "attribute", "tensor", 400),
    ]


def test_a_saved_output_is_called_output_with_its_number_where_there_are_several():
    y = leaf(2, 2).exp()
    assert rows_of(dump(y, "dict"), "exp#1")[0]["name"] == "output"
    top, _ = Halves.apply(leaf(4, 2))
    row = rows_of(dump(top, "dict"), top.grad_fn.label)[0]
    assert (row["name"], row["role"]) == ("output 1", "output")


def test_a_saved_view_of_an_output_is_an_alias_of_it():
    class Flat(lm.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = lm.tensor(x.numpy() * 2.0)
            flat = y.reshape(-1)
            ctx.save_for_backward(flat)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * 2.0

    (row,) = rows_of(dump(Flat.apply(leaf(2, 3)), "dict"), "flat#1")
    assert (row["name"], row["role"], row["shape"]) == ("flat", "alias of output", [6])


def test_a_packed_value_keeps_its_name_and_weighs_what_pack_made_of_it():
    x = leaf(4, 2)
    with lm.autograd.saved_tensors_hooks(
        lambda tensor: tensor.numpy().astype(np.float32), lambda array: lm.tensor(array).to(float)
    ):
        y = (x * x).exp()
    rows = [row for node in dump(y, "dict")["nodes"] for row in node["saved"]]
    assert [(row["name"], row["role"], row["nbytes"], row["type"]) for row in rows] == [
        ("a", "packed", 32, "array"),
        ("b", "packed", 32, "array"),
        ("output", "packed", 32, "array"),
    ]
    assert rows[0]["shape"] == [4, 2]
    with lm.autograd.saved_tensors_hooks(lambda tensor: "on disk", lambda held: lm.ones(4, 2)):
        y = x.exp()
    (row,) = rows_of(dump(y, "dict", names={"y": y}), y.grad_fn.label)
    assert (row["type"], row["nbytes"], row["buffer"], row["tensor"]) == ("str", 0, None, "y")


def test_a_tensor_passed_twice_takes_both_names():
    x = leaf(3)
    rows = rows_of(dump(x * x, "dict"), "mul#1")
    assert [(row["name"], row["buffer"], row["again"]) for row in rows] == [
        ("a", "b1", False),
        ("b", "b1", True),
    ]


def test_equal_shapes_do_not_make_an_intermediate_an_argument():
    class Shifted(lm.autograd.Function):
        @staticmethod
        def forward(ctx, x, offset):
            shifted = lm.tensor(x.numpy() + offset.numpy())
            ctx.save_for_backward(shifted)
            return lm.tensor(shifted.numpy() ** 2)

        @staticmethod
        def backward(ctx, grad):
            (shifted,) = ctx.saved_tensors
            return grad * shifted * 2.0, None

    (row,) = rows_of(dump(Shifted.apply(leaf(3), lm.ones(3)), "dict"), "shifted#1")
    assert (row["name"], row["role"]) == ("shifted", "intermediate")


def test_an_argument_that_forward_binds_anew_is_not_said_to_be_the_argument():
    class Rebound(lm.autograd.Function):
        @staticmethod
        def forward(ctx, x, table):
            table = lm.tensor(table.numpy() + 1.0)
            ctx.save_for_backward(table)
            return lm.tensor(x.numpy() * table.numpy())

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    (row,) = rows_of(dump(Rebound.apply(leaf(3), lm.ones(3)), "dict"), "rebound#1")
    assert (row["name"], row["role"]) == ("table", "unknown")


def test_without_source_an_edge_still_names_an_argument_and_the_rest_is_numbered():
    space = {"lm": lm}
    exec(
        "class Hidden(lm.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, table):\n"
        "        ctx.save_for_backward(table, x)\n"
        "        return lm.tensor(x.numpy() * table.numpy())\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return grad, None\n",
        space,
    )
    rows = rows_of(dump(space["Hidden"].apply(leaf(3), lm.ones(3)), "dict"), "hidden#1")
    assert [(row["name"], row["role"]) for row in rows] == [("saved 0", "unknown"), ("x", "input")]
    x = leaf(3)
    twice = space["Hidden"].apply(x, x)
    rows = rows_of(dump(twice, "dict"), "hidden#2")
    assert [row["name"] for row in rows] == ["x", "table"]


def test_setup_context_names_its_arguments_too():
    class Split(lm.autograd.Function):
        @staticmethod
        def forward(x, table):
            return lm.tensor(x.numpy() * table.numpy())

        @staticmethod
        def setup_context(ctx, inputs, output):
            first, second = inputs
            ctx.save_for_backward(second, first)

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    rows = rows_of(dump(Split.apply(leaf(3), lm.ones(3)), "dict"), "split#1")
    assert [(row["name"], row["role"]) for row in rows] == [("table", "input"), ("x", "input")]


def test_names_are_given_to_leaves_to_saved_tensors_and_to_outputs():
    loss, a, b = small()
    graph = dump(loss, "dict", names={"A": a, "B": b, "loss": loss, "number": 3})
    assert [entry["name"] for entry in graph["leaves"]] == ["A", "B"]
    assert [row["tensor"] for row in rows_of(graph, "scale#1")] == ["B", "A"]
    assert graph["nodes"][-1]["outputs"][0]["tensor"] == graph["start"]["tensor"] == "loss"
    assert "  ● b = B  (3, 4)" in dump(loss, names={"B": b})


def test_names_of_a_notebook_are_passed_over_and_taken_names_are_primed():
    loss, a, b = small()
    graph = dump(loss, "dict", names={"_": a, "_17": a, "add#2": a, "B": b})
    assert [entry["name"] for entry in graph["leaves"]] == ["add#2'", "B"]
    assert {edge["to"] for edge in graph["edges"]} == {"add#2'", "B", "scale#1", "add#2"}


def test_a_function_called_leaf_is_not_taken_for_a_leaf():
    class Leaf(Scale):
        pass

    graph = dump(Leaf.apply(leaf(2), leaf(2)), "dict")
    assert graph["nodes"][0]["name"] == "leaf#1"
    assert [entry["name"] for entry in graph["leaves"]] == ["leaf#1'", "leaf#2"]


def test_a_name_with_line_breaks_forges_no_row():
    loss, a, _b = small()
    text = dump(loss, names={"a\nsum#9  ()\x00": a})
    assert len(text.split("\n")) == len(BEFORE.split("\n"))
    assert text.startswith("a\N{REPLACEMENT CHARACTER}sum#9  ()\N{REPLACEMENT CHARACTER}   ")


# -- buffers --------------------------------------------------------------------------------------


def test_one_buffer_has_one_badge_wherever_it_is_kept_and_a_view_has_that_of_its_owner():
    w = leaf(1000, 4)
    y = w[:2] * w[2:4]
    rows = rows_of(dump(y, "dict"), y.grad_fn.label)
    assert [(row["buffer"], row["again"]) for row in rows] == [("b1", False), ("b1", True)]
    assert [(row["nbytes"], row["owner_nbytes"]) for row in rows] == [(64, 32000), (64, 32000)]
    assert dump(y, "dict")["leaves"][0]["buffer"] == "b1"
    assert stats(y)["saved_bytes"] == 32000
    assert "keeps all 32000 B of its buffer" in dump(y)


def test_a_change_in_place_shows_as_two_versions():
    x, scale = leaf(3), lm.ones(3)
    y = x * scale
    with lm.no_grad():
        scale.add_(1.0)
    (row,) = rows_of(dump(y, "dict"), "mul#1")
    assert (row["version"], row["version_now"]) == (0, 1)
    assert "changed in place, version 0 -> 1" in dump(y)


def test_what_was_changed_before_it_was_saved_has_not_changed_since():
    x, scale = leaf(3), lm.ones(3)
    scale.add_(1.0)
    y = x * scale
    (row,) = rows_of(dump(y, "dict"), "mul#1")
    assert (row["version"], row["version_now"]) == (1, 1)
    assert "changed in place" not in dump(y)


@pytest.mark.filterwarnings("ignore:Keeper keeps a tensor")
def test_the_bag_of_a_ctx_is_still_held_after_backward():
    y = Keeper.apply(leaf(4, 2), lm.ones(3), 2.0).sum()
    y.backward()
    assert re.search(r"● ctx.bag +\(50,\) +float64 +b\d +400 B  attribute; still held", dump(y))
    assert "in ctx attributes, never released: 400 B" in dump(y)


def test_a_leaf_that_is_gone_is_listed_as_gone():
    a, b = leaf(3), leaf(3)
    y = a + b
    del b
    entry = dump(y, "dict")["leaves"][1]
    assert (entry["alive"], entry["nbytes"], entry["buffer"]) == (False, 24, None)
    assert "leaf#2  (3,)  float64    24 B  leaf, gone" in dump(y)


# -- the numbers ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Keeper keeps a tensor")
def test_the_stats_count_each_buffer_once():
    x = leaf(4, 2)
    y = Keeper.apply(x * x, lm.ones(3), 2.0)
    assert stats(y) == {
        "nodes": 2,
        "edges": 3,
        "leaves": 1,
        "depth": 2,
        "released": 0,
        "slots": 8,
        "buffers": 5,  # x, x * x, squares, table, mask
        "saved_bytes": 64 + 64 + 64 + 24 + 56,
        "attribute_bytes": 400,
    }


def test_the_stats_after_backward_count_what_is_left():
    loss, *_leaves = small()
    loss.backward()
    after = stats(loss)
    assert (after["released"], after["saved_bytes"], after["slots"], after["nodes"]) == (3, 0, 0, 3)


def test_the_depth_is_that_of_the_longest_way():
    x = leaf(2)
    long = x.exp().exp().exp()
    assert stats(x + long)["depth"] == stats(long + x)["depth"] == 4
    assert stats(x)["depth"] == 0


def test_shared_nodes_are_listed_once():
    x = leaf()
    y = x
    for _ in range(17):
        y = y + y  # 2 ** 17 ways to x
    assert (stats(y)["nodes"], stats(y)["edges"], stats(y)["leaves"]) == (17, 34, 1)
    assert dump(y).count("add#9 ") == 1


def test_a_graph_of_100_000_nodes_is_dumped():
    x = leaf()
    y = x
    for _ in range(100_000):
        y = -y
    text = dump(y)
    assert text.count("\n") == 100_001
    assert "neg#100000  ()  float64         from x: neg#99999" in text
    assert stats(y)["depth"] == 100_000


# -- no side effects ------------------------------------------------------------------------------


def test_two_runs_give_the_same_text():
    texts = []
    for _ in range(2):
        lm.reset_names()
        loss, *_leaves = small()
        texts.append([dump(loss), dump(loss, "dot"), json.dumps(dump(loss, "dict"))])
    assert texts[0] == texts[1]


def test_no_address_and_no_id_is_in_a_dump():
    loss, a, b = small()
    text = dump(loss) + dump(loss, "dot") + json.dumps(dump(loss, "dict"))
    assert " at 0x" not in text
    for thing in (loss, a, b, loss.grad_fn, a._data):
        assert str(id(thing)) not in text
        assert f"{id(thing):x}" not in text


@pytest.mark.usefixtures("no_collector")
def test_a_dump_keeps_nothing_alive():
    loss, a, b = small()
    kept = [dump(loss, form, names={"a": a}) for form in ("text", "dict", "dot")]
    kept.append(stats(loss))
    watched = [
        weakref.ref(thing) for thing in (loss, a, b, loss.grad_fn, loss.grad_fn.ctx, a._data)
    ]
    del loss, a, b
    assert [ref() for ref in watched] == [None] * len(watched)
    assert len(kept) == 4


@pytest.mark.usefixtures("no_collector")
def test_a_dump_keeps_the_function_class_no_longer_than_it_lasts():
    class Passing(Scale):
        pass

    y = Passing.apply(leaf(2), leaf(2))
    before = len(gc.get_referrers(Passing))
    dump(y)
    assert len(gc.get_referrers(Passing)) == before


def test_a_dump_changes_nothing_for_backward():
    loss, a, b = small()
    dump(loss)
    stats(loss)
    loss.backward()
    assert a.grad.tolist() == [[2.0] * 4] * 3
    assert b.grad.tolist() == [[1.0] * 4] * 3


# -- what has no graph ----------------------------------------------------------------------------


def test_a_tensor_without_history_is_an_empty_graph_with_one_leaf():
    assert dump(lm.ones(2, 3)) == (
        "leaf#1  (2, 3)  float64    48 B  leaf, requires no grad\n"
        "0 nodes, 0 edges, 1 leaf; saved: 0 B in 0 buffers"
    )
    x = leaf(2, 3)
    assert dump(x).startswith("leaf#1  (2, 3)  float64    48 B  leaf\n")
    y = x.exp()
    accumulate = y.grad_fn.next_edges[0].node
    assert dump(accumulate) == dump(x)
    assert dump(x, "dict", names={"x": x})["leaves"][0]["name"] == "x"


@pytest.mark.parametrize("wrong", [3, "loss", [], np.ones(3), lm.Tensor])
def test_what_is_neither_tensor_nor_node_is_refused_in_one_sentence(wrong):
    name = type(wrong).__name__
    for function in (dump, stats):
        with pytest.raises(
            TypeError,
            match=f"^{function.__name__} takes a tensor or a node of its graph, not {name}. Pass",
        ):
            function(wrong)


def test_the_grad_fn_of_a_leaf_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match=r"not None. A leaf has no grad_fn: pass the tensor itself"):
        dump(leaf(3).grad_fn)


def test_an_unknown_format_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no format 'json'; use one of text, dict, dot"):
        dump(leaf(3), "json")


# -- DOT ------------------------------------------------------------------------------------------


def test_the_dot_source_has_a_box_per_node_and_arrows_as_forward_ran():
    loss, *_leaves = small()
    source = dump(loss, "dot")
    assert '"leaf#1" [shape=ellipse, label="leaf#1\\n(3, 4)"]' in source
    assert '"scale#1" [label="scale#1\\n● b (3, 4) b1 96 B\\n● a (3, 4) b2 96 B"]' in source
    assert '"scale#1" -> "add#2" [label="a"]' in source
    loss.backward()
    assert '"scale#1" [label="scale#1 released"]' in dump(loss, "dot")


HOSTILE = 'a<b>&"c"\\'


def test_a_hostile_name_is_escaped_in_dot():
    loss, a, _b = small()
    assert '"a<b>&amp;\\"c\\"\\\\" -> "scale#1" [label="a"]' in dump(
        loss, "dot", names={HOSTILE: a}
    )


@pytest.mark.skipif(shutil.which("dot") is None, reason="there is no dot on this machine")
def test_dot_reads_the_source_as_it_was_meant():
    loss, a, _b = small()
    source = dump(loss, "dot", names={HOSTILE: a})
    done = subprocess.run(
        ["dot", "-Tsvg"], input=source.encode(), capture_output=True, check=True, timeout=60
    )
    assert b">a&lt;b&gt;&amp;&quot;c&quot;\\</text>" in done.stdout


def test_stats_tell_the_time_of_each_node_when_asked_and_change_nothing():  # R104
    lm.reset_names()
    x = lm.ones(3, requires_grad=True)
    y = x.exp() * x
    assert "nanoseconds" not in stats(y)
    numbers = stats(y, timed=True)
    assert list(numbers["nanoseconds"]) == ["mul#2", "exp#1"]
    assert all(ns > 0 for ns in numbers["nanoseconds"].values())
    assert json.loads(json.dumps(numbers)) == numbers
    assert x.grad is None
    y.sum().backward()
    assert x.grad is not None


def test_a_leaf_has_no_backward_to_time():  # R104
    with pytest.raises(TypeError, match="takes a tensor with a history"):
        stats(lm.ones(3, requires_grad=True), timed=True)
