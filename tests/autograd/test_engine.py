"""The loop: order, gradients on their way, what a rule may return, failures (R55 to R72, R80)."""

import gc
import warnings
import weakref

import numpy as np
import pytest
from functions import C, Exp, Mul, Split, Square, T, g

import lucid_mini as lm
from lucid_mini.autograd import Function, once_differentiable
from lucid_mini.errors import (
    AutogradError,
    GradientCountError,
    GradientShapeError,
    GraphFreedError,
    HookCaptureWarning,
    NoGradientError,
    NonScalarBackwardError,
    SecondDerivativeWarning,
)


def identity(backward, name="Identity"):
    """A Function of one argument with the given rule."""
    return type(
        name,
        (Function,),
        {"forward": staticmethod(lambda ctx, x: x * 1), "backward": staticmethod(backward)},
    )


def two(backward, name="Two"):
    """A Function `a + b` with the given rule."""
    return type(
        name,
        (Function,),
        {"forward": staticmethod(lambda ctx, a, b: a + b), "backward": staticmethod(backward)},
    )


def cube_at(x):
    return x * x * x


# -- order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [True, False], ids=["after backward", "without backward"])
def test_a_chain_of_100_000_ops_is_walked_and_freed_without_recursion(no_gc, run):  # R55
    x = T(1)
    h = x
    first = None
    for _ in range(100_000):
        h = h + 1
        first = first or weakref.ref(h.grad_fn)
    last = weakref.ref(h.grad_fn)
    if run:
        h.backward()
        assert g(x) == [1.0]
    del h
    assert first() is None
    assert last() is None
    assert gc.collect() < 100  # nothing of the 100 000 nodes was left for the collector


def test_each_node_runs_once_after_all_its_consumers_with_the_summed_gradient():  # R56
    runs = []

    def rule(ctx, grad):
        runs.append(grad.tolist())
        return grad

    x = T(3)
    y = identity(rule).apply(x)
    (y * 2 + y * 5 + y).backward()
    assert runs == [[8.0]]
    assert g(x) == [8.0]


def test_a_ladder_of_diamonds_is_linear_in_its_depth():  # R56
    runs = []

    def rule(ctx, grad):
        runs.append(None)
        return grad

    once, x = identity(rule), T(1)
    h = x
    for _ in range(17):
        h = once.apply(h)
        h = h + h
    h.backward()
    assert len(runs) == 17
    assert g(x) == [2.0**17]


def test_nodes_run_by_descending_sequence_number():  # R57
    order = []

    def named(name):
        def rule(ctx, grad):
            order.append(name)
            return grad

        return identity(rule, name).apply

    a, b, c = named("a"), named("b"), named("c")
    x = T(1)
    ax, bx = a(x), b(x)
    (bx + c(ax)).backward()
    assert order == ["c", "b", "a"]


def test_leaves_get_their_gradients_after_the_last_node():  # R57
    x, w, seen = T(3), T(4), []

    def look(ctx, grad):
        seen.append((g(x), g(w)))
        return grad

    first = identity(look).apply(x)
    (first * w).backward()
    assert seen == [(None, None)]
    assert (g(x), g(w)) == ([4.0], [3.0])


def test_leaf_hooks_come_first_then_all_writes_then_post_accumulate_hooks():  # R57
    x, w, seen = T(3), T(4), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HookCaptureWarning)
        for leaf in (x, w):
            leaf.register_hook(lambda grad: seen.append(("hook", g(x), g(w))))
            leaf.register_post_accumulate_grad_hook(
                lambda leaf: seen.append(("written", x.grad is not None, w.grad is not None))
            )
    (x * w).backward()
    assert seen == [("hook", None, None)] * 2 + [("written", True, True)] * 2


def test_a_leaf_hook_that_fails_leaves_no_gradient_written():  # R57
    x, w = T(3), T(4)

    def fail(grad):
        raise ValueError("stop")

    w.register_hook(fail)
    with pytest.raises(ValueError, match="stop") as caught:
        (x * w).backward()
    assert (g(x), g(w)) == (None, None)
    assert "at the leaves" in caught.value.__notes__[0]
    assert "No .grad was written" in caught.value.__notes__[0]


def test_a_post_accumulate_hook_that_fails_comes_when_all_are_written():  # R57
    x, w = T(3), T(4)

    def fail(leaf):
        raise ValueError("stop")

    x.register_post_accumulate_grad_hook(fail)
    with pytest.raises(ValueError, match="stop") as caught:
        (x * w).backward()
    assert (g(x), g(w)) == ([4.0], [3.0])
    assert caught.value.__notes__ == [
        "Raised in a hook that runs when every .grad has been written."
    ]


# -- seeds ----------------------------------------------------------------------------------------


def test_one_element_needs_no_seed_and_more_do():  # R58
    x = T(1, 2)
    with pytest.raises(
        NonScalarBackwardError, match=r"shape \(2,\).*pass a gradient of that shape"
    ):
        (x * 2).backward()
    assert g(x) is None
    y = lm.tensor([[3.0]], requires_grad=True)
    (y * 2).backward()
    assert g(y) == [[2.0]]


def test_a_seed_must_have_the_shape_of_the_root():  # R58
    x = T(1, 2)
    y = x * 2
    with pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
        y.backward(C(1, 2, 3))
    with pytest.raises(TypeError, match="ndarray"):
        y.backward(np.ones(2))
    y.backward(C(1, 10))
    assert g(x) == [2.0, 20.0]


def test_an_output_without_dimensions_gets_a_gradient_without_dimensions():  # R58
    x = T(1, 2)
    shapes = []
    total = x.sum()
    total.register_hook(lambda grad: shapes.append(grad.shape))
    total.backward()
    assert shapes == [()]
    assert g(x) == [1.0, 1.0]


def test_a_root_without_history_is_refused():  # R59
    with pytest.raises(NoGradientError, match="does not require grad"):
        C(1).backward()
    with lm.no_grad():
        y = T(1) * 2
    with pytest.raises(NoGradientError, match="requires_grad_"):
        y.backward()


def test_a_leaf_may_be_the_root():  # R59
    x, seen = T(3), []
    x.register_hook(lambda grad: seen.append(grad.tolist()))
    x.backward()
    assert g(x) == [1.0]
    assert seen == [[1.0]]


# -- release --------------------------------------------------------------------------------------


def test_a_second_backward_meets_a_released_node_and_says_the_way_out():  # R60
    x = T(3)
    y = Square.apply(x)
    y.backward()
    with pytest.raises(GraphFreedError) as caught:
        y.backward()
    assert str(caught.value) == (
        "square#1 was used by backward 1, which released what it had saved. Pass "
        "retain_graph=True to the first backward to keep it."
    )
    assert g(x) == [6.0]


def test_a_released_node_is_met_also_where_nothing_had_been_saved():  # R60
    x = T(3)
    y = x + 1
    y.backward()
    with pytest.raises(GraphFreedError, match="backward 1"):
        y.backward()
    assert g(x) == [1.0]


def test_a_walk_that_reaches_a_released_node_says_what_had_run_and_writes_nothing():  # R60
    x, w = T(3), T(5)
    shared = Square.apply(x)
    (shared * 2).backward()
    later = Mul.apply(shared, w)
    with pytest.raises(GraphFreedError, match="square#1 was used by backward 1") as caught:
        later.backward()
    assert caught.value.__notes__ == [
        "Raised in backward at square#1. Already run, and released: mul#3. No .grad was written."
    ]
    assert (g(x), g(w)) == ([12.0], None)


def test_each_node_is_released_as_it_finishes_between_its_hooks_and_the_next_node():  # R60
    x = T(3)
    y = Square.apply(x)
    z = Exp.apply(y)
    seen = []

    def released(when):
        seen.append((when, z.grad_fn.released, y.grad_fn.released))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HookCaptureWarning)
        z.grad_fn.register_hook(lambda gi, go: released("after exp"))
        y.grad_fn.register_prehook(lambda go: released("before square"))
        y.grad_fn.register_hook(lambda gi, go: released("after square"))
    z.backward()
    assert seen == [
        ("after exp", False, False),
        ("before square", True, False),
        ("after square", True, False),
    ]


def test_saved_values_die_with_their_node_during_the_pass(no_gc):  # R60
    alive = []

    def look(ctx, grad):
        alive.append(saved() is not None)
        return grad

    x = T(3)
    y = identity(look).apply(x)
    big = y * 1
    z = Square.apply(big)
    saved = weakref.ref(big)
    del big
    z.backward()
    assert alive == [False]


def test_what_was_saved_by_name_dies_with_its_node_too(no_gc):  # R60, R49
    class Table:
        """Something whose death can be watched."""

    class Look(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(table=Table())
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            kept.append(weakref.ref(ctx.saved_variables.table))
            return grad

    kept = []
    y = Look.apply(T(3))
    y.backward()
    assert y.grad_fn.released
    assert kept[0]() is None


def test_retain_graph_lets_a_second_pass_accumulate():  # R61
    x = T(3)
    y = Square.apply(x)
    y.backward(retain_graph=True)
    assert not y.grad_fn.released
    y.backward()
    assert g(x) == [12.0]
    assert y.grad_fn.released


def test_retain_graph_defaults_to_create_graph():  # R61
    x = T(3)
    y = Square.apply(x)
    (first,) = lm.autograd.grad(y, x, create_graph=True)
    (second,) = lm.autograd.grad(y, x)
    assert first.tolist() == second.tolist() == [6.0]
    with pytest.raises(GraphFreedError):
        lm.autograd.grad(y, x)


# -- what a rule may return -----------------------------------------------------------------------


def test_surplus_trailing_nones_are_tolerated_and_a_list_is_a_tuple():  # R62
    a, b = T(1), T(2)
    two(lambda ctx, grad: [grad * 3, grad * 5, None, None]).apply(a, b).backward()
    assert (g(a), g(b)) == ([3.0], [5.0])


@pytest.mark.parametrize(
    ("returned", "count"),
    [((1,), "1 gradient,"), ((1, 1, 1), "3 gradients,"), ((), "0 gradients,")],
)
def test_a_wrong_number_of_gradients_is_refused_beside_the_names(returned, count):  # R62
    a, b = T(1), T(2)
    rule = two(lambda ctx, grad: tuple(grad for _ in returned))
    with pytest.raises(GradientCountError, match=rf"Two.backward returned {count}") as caught:
        rule.apply(a, b).backward()
    assert "2 arguments (a, b)" in str(caught.value)
    assert (g(a), g(b)) == (None, None)


def test_a_gradient_for_an_argument_that_is_no_tensor_is_refused():  # R62
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    with pytest.raises(GradientCountError, match="'factor', which is not a tensor"):
        Scale.apply(T(1), 2.0).backward()


@pytest.mark.parametrize("wrong", [1.0, np.ones(2), "g"], ids=["float", "ndarray", "str"])
def test_a_gradient_is_a_tensor_and_nothing_else(wrong):  # R63
    x = T(1, 2)
    with pytest.raises(TypeError, match=r"Identity.backward returned .* as the gradient of 'x'"):
        identity(lambda ctx, grad: wrong).apply(x).sum().backward()
    assert g(x) is None


def test_a_gradient_has_exactly_the_shape_of_its_argument():  # R63
    x = lm.ones(3, requires_grad=True)

    class Rows(Function):
        @staticmethod
        def forward(ctx, x):
            return x + lm.zeros(2, 3)

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(GradientShapeError) as caught:
        Rows.apply(x).sum().backward()
    assert str(caught.value) == (
        "Rows.backward returned a gradient of shape (2, 3) for 'x', which has shape (3,). Forward "
        "broadcast it; sum the gradient over axis (0,)."
    )
    assert g(x) is None


def test_the_dtype_of_a_gradient_is_cast_to_that_of_its_argument():  # R63
    x = lm.tensor([1.0], dtype=np.float32, requires_grad=True)
    seen = []
    y = x * 1
    y.register_hook(lambda grad: seen.append(grad.dtype))
    identity(lambda ctx, grad: grad.to(np.float64)).apply(y).backward()
    assert seen == [np.dtype(np.float32)]


def test_none_is_no_contribution():  # R64
    a, b = T(1), T(2)
    two(lambda ctx, grad: (grad, None)).apply(a, b).backward()
    assert (g(a), g(b)) == ([1.0], None)


def test_gradients_may_be_named_in_any_order():  # R65
    a, b = T(1), T(2)
    two(lambda ctx, grad: {"b": grad * 5, "a": grad * 3}).apply(a, b).backward()
    assert (g(a), g(b)) == ([3.0], [5.0])


def test_an_unknown_name_is_refused_with_the_valid_ones():  # R65
    with pytest.raises(GradientCountError, match=r"for c, which is no argument.*names: a, b"):
        two(lambda ctx, grad: {"a": grad, "c": grad}).apply(T(1), T(2)).backward()


def test_a_missing_name_warns_and_counts_as_none():  # R65
    a, b = T(1), T(2)
    y = two(lambda ctx, grad: {"a": grad}).apply(a, b)
    with pytest.warns(UserWarning, match="returned no gradient for 'b', which needs one"):
        y.backward()
    assert (g(a), g(b)) == ([1.0], None)


def test_a_gradient_returned_twice_is_not_shared():  # R66
    a, b = T(1), T(2)
    y = two(lambda ctx, grad: (grad, grad)).apply(a, b)
    y.backward(retain_graph=True)
    y.backward()
    assert (g(a), g(b)) == ([2.0], [2.0])
    assert not np.shares_memory(a.grad.numpy(), b.grad.numpy())


def test_accumulation_puts_a_new_tensor_into_grad():  # R66
    x = lm.ones(2000, requires_grad=True)
    (x * 3).sum().backward()
    before = x.grad
    (x * 4).sum().backward()
    assert before.numpy()[0] == 3.0
    assert x.grad.numpy()[0] == 7.0
    assert not np.shares_memory(before.numpy(), x.grad.numpy())


@pytest.mark.parametrize("size", [3, 5000])
def test_sums_on_the_way_never_write_into_an_array_that_user_code_saw(size):  # R66
    kept = []

    def keep(ctx, grad):
        kept.append(grad)
        return grad

    x = lm.ones(size, requires_grad=True)
    y = x * 1
    (identity(keep).apply(y) + y * 3 + y * 4).sum().backward()
    assert x.grad.numpy()[0] == 8.0
    assert kept[0].numpy()[0] == 1.0
    assert not np.shares_memory(kept[0].numpy(), x.grad.numpy())


def test_the_seed_of_the_caller_is_never_written_nor_shared():  # R66
    seed = lm.ones(5000)
    x = lm.ones(5000, requires_grad=True)
    y = x + 0
    lm.autograd.backward([y, y], [seed, seed])
    assert seed.numpy()[0] == 1.0
    assert x.grad.numpy()[0] == 2.0
    x.backward(seed)
    assert not np.shares_memory(seed.numpy(), x.grad.numpy())


@pytest.mark.parametrize("write", [lambda t: t.add_(1), lambda t: t.view(-1).mul_(2)])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_rule_cannot_write_the_gradient_it_is_given(write, create_graph):  # R67
    def rule(ctx, grad):
        write(grad)
        return grad

    x = T(1)
    y = identity(rule).apply(x)
    with pytest.raises(
        AutogradError, match=r"gradient that the backward pass handed out.*clone\(\)"
    ):
        y.backward(create_graph=create_graph)
    assert g(x) is None


def test_a_hook_cannot_write_the_gradient_it_is_given():  # R67
    x = T(1)
    x.register_hook(lambda grad: grad.mul_(2))
    with pytest.raises(AutogradError, match=r"clone\(\) first"):
        (x * 3).backward()
    assert g(x) is None


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_rule_cannot_write_what_it_saved(create_graph):  # R67
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            with lm.no_grad():
                x.mul_(2)
            return grad

    x = T(3)
    y = Bad.apply(x)
    with pytest.raises(AutogradError, match=r"a tensor that bad#1 saved.*clone\(\)"):
        y.backward(create_graph=create_graph)
    assert x.tolist() == [3.0]


def test_a_copy_of_a_gradient_may_be_written():  # R67
    x = T(1)
    identity(lambda ctx, grad: grad.clone().mul_(5)).apply(x).backward()
    assert g(x) == [5.0]


# -- recording and higher order -------------------------------------------------------------------


def test_recording_is_off_in_a_rule_unless_create_graph():  # R68
    seen = []

    def rule(ctx, grad):
        seen.append(lm.is_grad_enabled())
        return grad

    x = T(1)
    y = identity(rule).apply(x)
    y.backward(retain_graph=True)
    lm.autograd.grad(y, x, create_graph=True)
    assert seen == [False, True]


def test_a_rule_made_of_tensor_ops_differentiates_twice():  # R69
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    x = T(2)
    (first,) = lm.autograd.grad(Cube.apply(x), x, create_graph=True)
    (second,) = lm.autograd.grad(first, x)
    assert (first.tolist(), second.tolist()) == ([12.0], [12.0])


def test_built_in_ops_differentiate_to_any_order():  # R69
    x = T(2)
    y = x**5
    found = []
    for _ in range(6):
        (y,) = lm.autograd.grad(y, x, create_graph=True, materialize_grads=True)
        found.append(y.item())
        if not y.requires_grad:
            break
    assert found[:5] == [80.0, 160.0, 240.0, 240.0, 120.0]


def test_a_second_derivative_through_a_saved_output_is_exact():  # R69
    x = T(1)
    y = Exp.apply(2 * x)
    (first,) = lm.autograd.grad(y, x, create_graph=True)
    (second,) = lm.autograd.grad(first, x)
    assert second.item() == pytest.approx(4 * np.exp(2.0), rel=1e-14)


class OnceCube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


def test_once_differentiable_gives_the_first_derivative():  # R70
    x = T(2)
    OnceCube.apply(x).backward()
    assert g(x) == [12.0]
    (first,) = lm.autograd.grad(OnceCube.apply(x), x, create_graph=True)
    assert first.tolist() == [12.0]


@pytest.mark.parametrize(
    "program",
    [
        OnceCube.apply,
        lambda x: OnceCube.apply(x * 1),
        lambda x: OnceCube.apply(x) * 1,
        lambda x: (OnceCube.apply(x * x) * x).sum(),
    ],
    ids=["alone", "something before", "something after", "in a chain"],
)
def test_once_differentiable_refuses_a_second_derivative(program):  # R70
    x = T(2)
    (first,) = lm.autograd.grad(program(x), x, create_graph=True)
    with pytest.raises(AutogradError, match=r"OnceCube.backward \(once_cube#\d+\) is marked once"):
        lm.autograd.grad(first, x)


def test_once_differentiable_refuses_where_only_the_gradient_has_a_history():  # R70
    class Thrice(Function):
        @staticmethod
        def forward(ctx, x):
            return 3 * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return 3 * grad

    x, seed = T(2), T(1)
    (first,) = lm.autograd.grad(Thrice.apply(x), x, seed, create_graph=True)
    with pytest.raises(AutogradError, match=r"Thrice\.backward"):
        lm.autograd.grad(first, seed)


def test_once_differentiable_runs_a_rule_on_arrays_with_numpy_alone():  # R70
    class Once(Function):
        arrays = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert type(x) is type(grad) is np.ndarray
            return np.exp(x) * grad

    x = T(0)
    (first,) = lm.autograd.grad(Once.apply(x), x, create_graph=True)
    assert first.tolist() == [1.0]
    with pytest.raises(AutogradError, match="once_differentiable"):
        lm.autograd.grad(first, x)


def test_a_saved_intermediate_warns_before_it_gives_a_wrong_second_derivative():  # R70
    class Sixth(Function):
        @staticmethod
        def forward(ctx, x):
            square = x * x
            ctx.save_for_backward(x, square)
            return square * square * square

        @staticmethod
        def backward(ctx, grad):
            x, square = ctx.saved_tensors
            return 6 * x * square * square * grad

    x = T(1, 2)
    y = Sixth.apply(x).sum()
    with pytest.warns(SecondDerivativeWarning, match=r"sixth#1 saved an intermediate \(shape \(2,"):
        lm.autograd.grad(y, x, create_graph=True)


def test_saved_arguments_constants_and_outputs_do_not_warn():  # R70
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, c):
            y = (x * c).exp()
            ctx.save_for_backward(x, c, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            _, c, y = ctx.saved_tensors
            return grad * y * c, None

    x = T(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SecondDerivativeWarning)
        (first,) = lm.autograd.grad(Scale.apply(x, C(2)), x, create_graph=True)
        (second,) = lm.autograd.grad(first, x)
    assert second.item() == pytest.approx(4 * np.exp(2.0))


# -- inside a pass --------------------------------------------------------------------------------


def test_a_rule_may_run_backward_and_grad_of_its_own():  # R71
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            with lm.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                cube_at(x).backward()
                (again,) = lm.autograd.grad(cube_at(x), x)
            assert again.tolist() == x.grad.tolist()
            return x.grad * grad

    x = T(2)
    (Inner.apply(x) * 2).backward()
    assert g(x) == [24.0]
    assert lm.is_grad_enabled()


def test_a_hook_may_run_backward_of_its_own():  # R71
    x, other = T(2), T(5)

    def hook(grad):
        with lm.enable_grad():
            (other * 7).backward()

    x.register_hook(hook)
    (x * 3).backward()
    assert (g(x), g(other)) == ([3.0], [7.0])


def test_a_node_of_several_outputs_runs_once_with_zeros_for_an_unused_one():  # R72
    x = T(1)
    a, _ = Split.apply(x)
    a.backward()
    assert g(x) == [2.0]


def test_a_node_of_several_outputs_weighs_each_of_them():  # R72
    x = T(1)
    a, b = Split.apply(x)
    (10 * a + b).backward()
    assert g(x) == [23.0]


def test_one_output_by_two_paths_is_summed_before_its_node_runs():  # R72
    seen = []

    class Watch(Split):
        @staticmethod
        def backward(ctx, grad_a, grad_b):
            seen.append((grad_a.tolist(), grad_b.tolist()))
            return 2 * grad_a + 3 * grad_b

    x = T(1)
    a, _ = Watch.apply(x)
    (a + 4 * a).backward()
    assert g(x) == [10.0]
    assert seen == [([5.0], [0.0])]


# -- failures -------------------------------------------------------------------------------------


def test_a_rule_that_fails_leaves_the_engine_usable_and_no_gradient_written():  # R80
    def fail(ctx, grad):
        raise ZeroDivisionError("in the rule")

    x, w = T(3), T(4)
    y = identity(fail, "Broken").apply(x)
    z = Mul.apply(y, w)
    with pytest.raises(ZeroDivisionError, match="in the rule") as caught:
        z.backward()
    assert caught.value.__notes__ == [
        "Raised in backward at broken#1. Already run, and released: mul#2. No .grad was written."
    ]
    assert (g(x), g(w)) == (None, None)
    assert lm.is_grad_enabled()
    (x * w).backward()
    assert (g(x), g(w)) == ([4.0], [3.0])


def test_a_failure_at_the_first_node_says_that_nothing_was_released():  # R80
    def fail(ctx, grad):
        raise ZeroDivisionError

    y = identity(fail, "Broken").apply(T(3))
    with pytest.raises(ZeroDivisionError) as caught:
        y.backward()
    assert caught.value.__notes__ == [
        "Raised in backward at broken#1. Nothing had been released. No .grad was written."
    ]
    assert not y.grad_fn.released


def test_a_failure_drops_the_pending_gradients_while_the_error_lives(no_gc):  # R80
    kept = []

    def keep(ctx, grad):
        of_w = grad * 2
        kept.append(weakref.ref(of_w.numpy().base))
        return grad, of_w

    def fail(ctx, grad):
        assert kept[0]() is not None
        raise ZeroDivisionError

    x, w = T(3), T(4)
    z = two(keep).apply(identity(fail).apply(x), w + 0)
    error = None
    try:
        z.backward()
    except ZeroDivisionError as caught:
        error = caught
    assert error is not None
    assert kept[0]() is None


def test_what_a_failed_pass_released_says_so():  # R80, R35
    def fail(ctx, grad):
        raise ZeroDivisionError

    z = Square.apply(identity(fail, "Broken").apply(T(3)))
    with pytest.raises(ZeroDivisionError):
        z.backward()
    with pytest.raises(
        GraphFreedError, match="square#2 belongs to a backward that failed at broken#1"
    ):
        z.backward()


def test_a_hook_that_fails_is_a_failure_like_any_other():  # R80
    x = T(3)
    y = x * 2
    y.register_hook(lambda grad: 1 / 0)
    z = Square.apply(y)
    with pytest.raises(ZeroDivisionError) as caught:
        z.backward()
    assert "Already run, and released: square#2" in caught.value.__notes__[0]
    assert g(x) is None
    assert lm.is_grad_enabled()


def test_an_error_keeps_its_cause():  # R80
    def fail(ctx, grad):
        try:
            _ = 1 / 0
        except ZeroDivisionError as error:
            raise ValueError("told") from error

    with pytest.raises(ValueError, match="told") as caught:
        identity(fail).apply(T(3)).backward()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_ctx_attribute_that_was_never_stored_is_named_with_its_function():  # R37, R80
    x = T(3)
    y = identity(lambda ctx, grad: grad * ctx.factor, "Forgetful").apply(x)
    with pytest.raises(AttributeError, match=r"forgetful#1: nothing is stored under 'factor'"):
        y.backward()
