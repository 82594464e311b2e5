"""The ways in: `backward`, `grad`, `steps` (rows R73 to R80b, R109)."""

import gc
import warnings
import weakref

import numpy as np
import pytest
from functions import C, Exp, Mul, Split, Square, T, g

import lucid_mini as lm
from lucid_mini.autograd import Function, backward, grad, steps
from lucid_mini.errors import GraphFreedError, LeakWarning, NoGradientError, UnusedInputError


def cube(x):
    return x * x * x


# -- backward -------------------------------------------------------------------------------------


def test_several_roots_are_one_traversal():  # R73
    x, a = T(1), T(1)
    backward([2 * x, 3 * a], [C(1), C(1)])
    assert (g(x), g(a)) == ([2.0], [3.0])


def test_a_root_upstream_of_another_gets_both_gradients_before_it_runs():  # R73
    x = T(2)
    h = x * x
    backward([3 * h, h * h])
    assert g(x) == [44.0]


def test_as_many_gradients_as_roots():  # R73
    with pytest.raises(ValueError, match="2 roots and 1 gradients"):
        backward([T(1) * 2, T(1) * 3], [C(1)])


def test_roots_of_other_types_are_refused():  # R73
    with pytest.raises(TypeError, match="root 1 is no tensor but float"):
        backward([T(1) * 2, 3.0])


def test_inputs_name_the_only_tensors_that_get_a_gradient():  # R74
    a, b = T(1), T(2)
    (a * b).backward(inputs=[a])
    assert (g(a), g(b)) == ([2.0], None)


def test_inputs_may_be_interior_and_accumulate_too():  # R74
    x = T(2)
    y = 3 * x
    for _ in range(2):
        (y * y).backward(inputs=[y], retain_graph=True)
    assert (g(y), g(x)) == ([24.0], None)


def test_hooks_of_a_named_leaf_run_its_post_accumulate_hooks_too():  # R74
    a, b, seen = T(1), T(2), []
    a.register_post_accumulate_grad_hook(lambda leaf: seen.append(g(leaf)))
    (a * b).backward(inputs=[a])
    assert seen == [[2.0]]


def test_backward_fills_grad_of_a_tensor_that_retains_it():  # R79
    x = T(2)
    y = 3 * x
    y.retain_grad()
    (y * y).sum().backward()
    assert (g(y), g(x)) == ([12.0], [36.0])


def test_a_retained_gradient_accumulates_and_is_a_tensor_of_its_own():  # R79
    x = T(2)
    y = x + 0
    z = y + 0
    y.retain_grad()
    z.retain_grad()
    z.backward(retain_graph=True)
    grads = [t.grad.numpy() for t in (x, y, z)]
    assert not any(np.shares_memory(grads[i], grads[i - 1]) for i in range(3))
    z.backward()
    assert (grads[1].tolist(), g(y), g(x)) == ([1.0], [2.0], [2.0])


def test_a_retained_gradient_is_what_the_hooks_made_of_it():  # R79
    x = T(2)
    y = 3 * x
    y.retain_grad()
    y.register_hook(lambda grad: grad * 10)
    y.backward()
    assert (g(y), g(x)) == ([10.0], [30.0])


def test_a_retained_gradient_is_not_written_by_a_pass_that_fails():  # R79
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ZeroDivisionError

    y = Broken.apply(T(2)) * 1
    y.retain_grad()
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert g(y) is None


def test_retain_grad_means_the_value_after_a_later_write_in_place():  # R79
    x = T(1, 2)
    z = x * 1
    z.retain_grad()
    z.mul_(2)
    z.sum().backward()
    assert (g(z), g(x)) == ([1.0, 1.0], [2.0, 2.0])


def test_retain_grad_of_a_leaf_changes_nothing_and_without_grad_it_is_refused():  # R79
    x = T(2)
    x.retain_grad()
    (x * 3).backward()
    assert g(x) == [3.0]
    with pytest.raises(NoGradientError):
        C(1).retain_grad()


# -- grad -----------------------------------------------------------------------------------------


def test_grad_touches_no_grad():  # R75
    x = T(3)
    y = x * 2
    y.retain_grad()
    (found,) = grad(Square.apply(y), x)
    assert found.tolist() == [24.0]
    assert (g(x), g(y)) == (None, None)


def test_grad_of_the_same_input_twice_gives_it_twice():  # R76
    x = T(3)
    first, second = grad(x * x, [x, x])
    assert (first.tolist(), second.tolist()) == ([6.0], [6.0])


def test_grad_accepts_interior_tensors_and_several_outputs_of_one_node():  # R76
    x = T(1)
    y = x * 2
    a, b = Split.apply(y)
    found = grad(10 * a + b, [y, a, b, x])
    assert [t.tolist() for t in found] == [[23.0], [10.0], [1.0], [46.0]]


def test_grad_of_the_output_itself_is_the_seed():  # R76
    y = T(3) * 2
    (found,) = grad(y, y, C(5))
    assert found.tolist() == [5.0]


def test_hooks_upstream_of_the_request_do_not_fire_and_those_on_it_do():  # R76
    x, seen = T(3), []
    y = x * 2
    z = y * 5
    x.register_hook(lambda grad: seen.append("x"))
    y.register_hook(lambda grad: seen.append("y"))
    (found,) = grad(z, y)
    assert seen == ["y"]
    assert found.tolist() == [5.0]
    assert (z.grad_fn.released, y.grad_fn.released) == (True, False)


def test_an_unused_input_is_an_error_that_gives_its_index():  # R77
    x, unused = T(3), T(4)
    with pytest.raises(UnusedInputError, match="input 1 was not used"):
        grad(x * 2, [x, unused])


def test_an_unused_input_gives_none_or_zeros_if_asked():  # R77
    x, unused = T(3), T(4, 5)
    assert grad(x * 2, [x, unused], allow_unused=True)[1] is None
    assert grad(x * 2, [x, unused], materialize_grads=True)[1].tolist() == [0.0, 0.0]


def test_seeds_of_grad_are_checked_for_count_and_shape():  # R77
    x = T(3, 4)
    y = x * 2
    with pytest.raises(ValueError, match="1 roots and 2 gradients"):
        grad(y, x, [C(1, 1), C(1, 1)])
    with pytest.raises(ValueError, match=r"\(1,\).*\(2,\)"):
        grad(y, x, C(1))


def test_a_seed_of_grad_may_be_none_for_one_element():  # R77
    x = T(3)
    (found,) = grad([x * 2, x * 5], x, [None, C(10)])
    assert found.tolist() == [52.0]


def test_an_input_that_does_not_require_grad_is_refused():  # R77
    with pytest.raises(NoGradientError, match="input 0 does not require grad"):
        grad(T(3) * 2, C(1))
    with pytest.raises(ValueError, match="no inputs"):
        grad(T(3) * 2, [])


def test_grad_runs_only_nodes_on_a_path_to_a_request():  # R78
    x, w = T(3), T(4)
    left, right = Square.apply(x), Square.apply(w)
    z = Mul.apply(left, right)
    (found,) = grad(z, x)
    assert found.tolist() == [96.0]
    assert left.grad_fn.released
    assert z.grad_fn.released
    assert not right.grad_fn.released


def test_the_results_of_grad_share_memory_with_nothing():  # R66, R75
    x, seed = lm.ones(3, requires_grad=True), lm.ones(3)
    y = x + 0
    first, second = grad(y, [x, y], seed)
    assert not np.shares_memory(first.numpy(), seed.numpy())
    assert not np.shares_memory(first.numpy(), second.numpy())


# -- steps ----------------------------------------------------------------------------------------


def test_steps_is_the_same_traversal_one_node_at_a_time():  # R80b
    x = T(3)
    y = Square.apply(x)
    z = Exp.apply(y)
    labels = [step.node.label for step in steps(z)]
    assert labels == ["exp#2", "square#1"]
    expected = T(3)
    Exp.apply(Square.apply(expected)).backward()
    assert g(x) == g(expected)


def test_a_step_tells_gradients_what_waits_and_what_was_released():  # R80b
    x = T(3)
    a, b = Square.apply(x), Exp.apply(x)
    z = Mul.apply(a, b)
    first, second, third = steps(z)
    assert (first.node.label, second.node.label, third.node.label) == ("mul#3", "exp#2", "square#1")
    assert [t.tolist() for t in first.grads_in] == [[1.0]]
    assert [t.tolist() for t in first.grads_out] == [b.tolist(), [9.0]]
    assert first.ready == ("exp#2", "square#1")
    assert first.counts == {"exp#2": 0, "square#1": 0}
    assert first.released == 16
    assert third.ready == ()


def test_counts_say_how_many_consumers_have_yet_to_deliver():  # R80b
    x = T(3)
    a = Square.apply(x)
    b = Exp.apply(a)
    c = Mul.apply(a, b)
    first = next(steps(c, retain_graph=True))
    assert first.counts == {"exp#2": 0, "square#1": 1}


def test_between_two_steps_the_mode_of_the_caller_holds():  # R80b
    z = Square.apply(T(3) * 2)
    with lm.no_grad():
        walk = steps(z)
        next(walk)
        assert not lm.is_grad_enabled()
    assert lm.is_grad_enabled()
    next(walk)
    assert lm.is_grad_enabled()


def test_closing_the_steps_leaves_the_mode_of_the_caller_alone():  # R80b
    z = Square.apply(T(3) * 2)
    with lm.no_grad():
        walk = steps(z)
        next(walk)
    walk.close()
    assert lm.is_grad_enabled()
    walk = steps(Square.apply(T(3)))
    next(walk)
    with lm.no_grad():
        walk.close()
        assert not lm.is_grad_enabled()
    assert lm.is_grad_enabled()


def test_abandoned_steps_write_nothing_and_drop_what_was_pending(no_gc):  # R80b
    x = T(3)
    y = x * 2
    z = Square.apply(y)
    walk = steps(z)
    step = next(walk)
    pending = weakref.ref(walk.gi_frame.f_locals["pending"][y.grad_fn])
    del step
    del walk
    assert pending() is None
    assert g(x) is None
    (x * 2).backward()
    assert g(x) == [2.0]


def test_what_abandoned_steps_had_released_says_so():  # R80b, R35
    z = Square.apply(T(3) * 2)
    walk = steps(z)
    next(walk)
    walk.close()
    with pytest.raises(GraphFreedError, match="backward that failed at the step after square#2"):
        z.backward()


def test_steps_that_were_never_begun_change_nothing():  # R80b
    x = T(3)
    y = x * 2
    steps(y).close()
    y.backward()
    assert g(x) == [2.0]


def test_steps_check_their_root_at_once():  # R80b
    with pytest.raises(NoGradientError):
        steps(C(1))


# -- the one cycle --------------------------------------------------------------------------------


def test_create_graph_into_grad_warns_of_the_cycle_and_the_way_out():  # R109
    x = T(3)
    text = (
        r"Leaf -> .grad -> its history -> mul#\d+ -> saved tensor -> leaf is a cycle.*grad\(\), or"
    )
    with pytest.warns(LeakWarning, match=text):
        cube(x).backward(create_graph=True)


def test_the_cycle_may_lead_over_two_leaves():  # R109
    class Crossed(Mul):
        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return grad * b.sin(), grad * a.sin()

    class OneWay(Mul):
        @staticmethod
        def backward(ctx, grad):
            _, b = ctx.saved_tensors
            return grad * b.sin(), grad * 2

    with pytest.warns(LeakWarning, match="sin#"):
        Crossed.apply(T(3), T(4)).backward(create_graph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakWarning)
        Crossed.apply(T(3), C(4)).backward(create_graph=True)
        OneWay.apply(T(3), T(4)).backward(create_graph=True)


def test_a_graph_that_does_not_hold_the_leaf_is_no_cycle(no_gc):  # R109
    x = T(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakWarning)
        Square.apply(x).backward(create_graph=True)
    assert x.grad.requires_grad
    dead = weakref.ref(x)
    del x
    assert dead() is None


def test_the_warning_points_at_the_line_of_the_user():  # R109
    x = T(3)
    for call in (lambda y: y.backward(create_graph=True), lambda y: backward(y, create_graph=True)):
        with pytest.warns(LeakWarning) as caught:
            call(cube(x))
        assert caught[0].filename == __file__
        x.grad = None


def test_the_cycle_is_real_and_the_ways_out_work(no_gc):  # R109
    def leaf_after(use):
        x = T(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeakWarning)
            use(x)
        return weakref.ref(x)

    def cleared(x):
        cube(x).backward(create_graph=True)
        x.grad = None

    assert leaf_after(lambda x: cube(x).backward(create_graph=True))() is not None
    assert leaf_after(cleared)() is None
    assert leaf_after(lambda x: grad(cube(x), x, create_graph=True))() is None
    gc.collect()


def test_a_gradient_without_a_history_does_not_warn():  # R109
    x = T(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakWarning)
        (x * 3).backward(create_graph=True)
        cube(x).backward()
        grad(cube(x), x, create_graph=True)
    assert g(x) == [30.0]
