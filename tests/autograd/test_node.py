"""Nodes and edges: what a recorded call leaves behind, and who owns whom (rows R50 to R54b)."""

import gc
import weakref

import numpy as np
from functions import C, Exp, Mul, Split, Square, T, g

import lucid_mini as lm
from lucid_mini.autograd import AccumulateGrad, Edge, Function, Node


def test_a_node_is_named_after_its_function():  # R50
    assert Square.apply(T(3)).grad_fn.name == "SquareBackward"
    assert repr(Square.apply(T(3)).grad_fn) == "<SquareBackward>"
    assert (T(3) * 2).grad_fn.name == "MulBackward"


def test_sequence_numbers_rise_strictly_with_every_recorded_call():  # R50
    x = T(3)
    numbers = [(x * n).grad_fn.sequence_nr for n in range(5)]
    assert numbers == sorted(set(numbers))


def test_labels_count_from_reset_names_and_sequence_numbers_go_on():  # R50
    x = T(3)
    before = (x * 2).grad_fn
    lm.reset_names()
    after = (x * 2).grad_fn
    assert after.label == "mul#1"
    assert after.sequence_nr > before.sequence_nr


def test_the_ctx_of_a_node_is_the_object_that_forward_received():  # R50
    seen = []

    class Watch(Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(ctx)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx)
            return grad

    y = Watch.apply(T(1))
    assert y.grad_fn.ctx is seen[0]
    y.backward()
    assert seen[1] is seen[0]


def test_released_says_whether_a_backward_has_run_the_node():  # R50
    y = T(3) * T(4)
    node = y.grad_fn
    assert node.released is False
    y.backward()
    assert node.released is True


def test_a_node_never_refers_to_its_outputs(no_gc):  # R50
    x = T(3)
    y = Square.apply(x)
    node, dead = y.grad_fn, weakref.ref(y)
    del y
    assert dead() is None
    assert node.name == "SquareBackward"
    outputs = Split.apply(x)
    node, dead = outputs[0].grad_fn, [weakref.ref(o) for o in outputs]
    del outputs
    assert [ref() for ref in dead] == [None, None]


def test_one_edge_per_argument_and_invalid_where_no_gradient_is_needed():  # R51
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, c, factor):
            return x * c * factor

        @staticmethod
        def backward(ctx, grad):
            return grad, None, None

    edges = Scale.apply(T(3), C(4), 2.0).grad_fn.next_edges
    assert all(isinstance(edge, Edge) for edge in edges)
    assert [edge.is_valid() for edge in edges] == [True, False, False]


def test_an_edge_knows_which_output_of_its_node_it_leads_to():  # R51
    a, b = Split.apply(T(3))
    edges = Mul.apply(b, a).grad_fn.next_edges
    assert [edge.input_nr for edge in edges] == [1, 0]
    assert edges[0].node is edges[1].node is a.grad_fn


def test_next_functions_are_the_edges_as_pytorch_writes_them():  # R52
    x = T(3)
    y = x * 2
    z = y * 5
    assert y.grad_fn.next_functions[0][0].variable is x
    assert z.grad_fn.next_functions[0] == (y.grad_fn, 0)
    assert Mul.apply(x, C(2)).grad_fn.next_functions[1] == (None, 0)


def test_the_leaf_end_is_an_accumulate_grad_which_has_no_next_functions():  # R52
    end = (T(3) * 2).grad_fn.next_functions[0][0]
    assert isinstance(end, AccumulateGrad)
    assert end.name == "AccumulateGrad"
    assert end.next_functions == ()
    assert end.next_edges == ()


def test_one_accumulate_grad_per_leaf_across_ops_and_graphs():  # R53
    x = T(3)
    first = (x * 2).grad_fn.next_functions[0][0]
    second = (x + 1).grad_fn.next_functions[0][0]
    assert first is second
    gone = weakref.ref((x * 2).grad_fn)
    assert gone() is None
    assert Square.apply(x).grad_fn.next_functions[0][0] is first


def test_the_graph_does_not_keep_a_leaf_alive_and_its_gradient_is_dropped(no_gc):  # R53
    def build(kept):
        lost = T(4)
        return kept + lost, weakref.ref(lost)

    x = T(3)
    y, lost = build(x)
    assert lost() is None
    end = y.grad_fn.next_functions[1][0]
    assert end.variable is None
    y.backward()
    assert g(x) == [1.0]


def test_a_leaf_that_a_hook_lets_go_drops_its_gradient_too(no_gc):  # R53
    x, holder = T(3), [T(4)]
    x.register_hook(lambda grad: holder.clear())
    (holder[0] + x).backward()
    assert holder == []
    assert g(x) == [1.0]


def test_a_leaf_switched_off_after_its_use_drops_its_gradient():  # R53
    x, w = T(3), T(4)
    y = x + w
    w.requires_grad_(False)
    y.backward()
    assert g(x) == [1.0]
    assert g(w) is None


def test_the_gradient_has_the_dtype_of_its_leaf():  # R53
    x = lm.tensor([3.0], dtype=np.float32, requires_grad=True)
    w = T(2)
    (x.to(np.float64) * w).backward()
    assert x.grad.dtype == np.float32
    assert w.grad.dtype == np.float64

    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad.to(np.float64)

    x.grad = None
    Double.apply(x).backward()
    assert x.grad.dtype == np.float32


def test_metadata_is_a_dictionary_for_whoever_has_something_to_note():  # R50
    y = T(3) * 2
    y.grad_fn.metadata["layer"] = 4
    assert y.grad_fn.metadata == {"layer": 4}
    end = y.grad_fn.next_functions[0][0]
    end.metadata["name"] = "x"
    assert end.metadata == {"name": "x"}


def test_ownership_points_one_way_so_a_graph_dies_with_its_last_output(no_gc):  # R54b
    x = T(3)
    a = Square.apply(x)
    b = Exp.apply(a)
    c = Mul.apply(a, b)
    nodes = [weakref.ref(t.grad_fn) for t in (a, b, c)]
    contexts = [weakref.ref(t.grad_fn.ctx) for t in (a, b, c)]
    tensors = [weakref.ref(t) for t in (a, b, c)]
    del a, b
    assert all(ref() is not None for ref in nodes)
    del c
    assert [ref() for ref in (*nodes, *contexts, *tensors)] == [None] * 9


def test_an_output_owns_its_node_and_the_node_what_is_upstream(no_gc):  # R54b
    y = Square.apply(T(3))
    z = Square.apply(y)
    upstream = weakref.ref(y.grad_fn)
    del y
    assert z.grad_fn.next_functions[0][0] is upstream()
    assert isinstance(upstream(), Node)
    assert not any(isinstance(held, lm.Tensor) for held in gc.get_referents(z.grad_fn))
