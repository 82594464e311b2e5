"""Introspection, lifetimes, anomaly, gradcheck and checkpoint, on both libraries."""

import gc
import warnings
import weakref

import numpy as np
import pytest
from both import g, rule

# -- introspection ---------------------------------------------------------------------------------


def test_next_functions_lead_to_the_leaves(lib, functions):
    a, b = lib.T(1), lib.C(1)
    ((end, nr), nothing) = functions.Mul.apply(a, b).grad_fn.next_functions
    assert (lib.name_of(end).endswith("AccumulateGrad"), nr, nothing) == (True, 0, (None, 0))
    assert end.variable is a


def test_next_functions_name_the_output_they_use(lib, functions):
    a, b = functions.Split.apply(lib.T(1))
    assert functions.Square.apply(b).grad_fn.next_functions == ((b.grad_fn, 1),)
    assert a.grad_fn is b.grad_fn


def test_a_leaf_has_one_accumulator_for_all_its_uses(lib, functions):
    x = lib.T(1)
    first, second = functions.Square.apply(x), functions.Square.apply(x)
    assert first.grad_fn.next_functions[0][0] is second.grad_fn.next_functions[0][0]


def test_an_accumulator_leads_nowhere(lib, functions):
    end = functions.Square.apply(lib.T(1)).grad_fn.next_functions[0][0]
    assert tuple(end.next_functions) == ()


def test_numbers_of_nodes_increase(lib):
    x = lib.T(1)
    numbers = []
    for _ in range(5):
        x = x * 2
        numbers.append(lib.number_of(x.grad_fn))
    assert numbers == sorted(set(numbers))


def test_grad_fn_is_the_same_object_whenever_it_is_asked_for(lib):
    y = lib.T(1) * 2
    assert y.grad_fn is y.grad_fn


def test_metadata_of_a_node_is_a_dictionary_of_its_own(lib):
    y = lib.T(1) * 2
    y.grad_fn.metadata["note"] = 5
    assert y.grad_fn.metadata == {"note": 5}
    assert (lib.T(1) * 2).grad_fn.metadata == {}


def test_the_repr_shows_the_node_or_that_a_gradient_is_wanted(lib, functions):
    assert "grad_fn=<SquareBackward>" in repr(functions.Square.apply(lib.T(1)))
    assert "requires_grad=True" in repr(lib.T(1))
    assert "grad" not in repr(lib.C(1))


def test_shape_size_and_numel(lib):
    x = lib.zeros(2, 3)
    assert (tuple(x.shape), tuple(x.size()), x.size(1), x.ndim, x.numel()) == (
        (2, 3),
        (2, 3),
        3,
        2,
        6,
    )


def test_item_wants_one_element(lib):
    assert lib.C(3).item() == 3
    with pytest.raises((ValueError, RuntimeError)):
        lib.C(1, 2).item()


def test_the_truth_of_several_elements_is_refused(lib):
    with pytest.raises((ValueError, RuntimeError)):
        bool(lib.C(1, 2))


def test_a_tensor_is_hashed_by_identity(lib):
    x = lib.C(1)
    assert {x: 1}[x] == 1
    assert hash(x) != hash(lib.C(1))


def test_comparisons_are_boolean_and_have_no_gradient(lib):
    y = lib.T(1, 5) > 2
    assert (y.tolist(), y.requires_grad) == ([False, True], False)


# -- lifetimes -------------------------------------------------------------------------------------


def test_the_graph_dies_with_its_last_output(lib, functions, no_gc):
    x = lib.T(1)
    h = functions.Square.apply(x)
    seen = weakref.ref(h.grad_fn)
    y = h * 2
    del h
    assert seen() is not None
    del y
    assert seen() is None


def test_a_saved_intermediate_dies_with_the_output(lib, functions, no_gc):
    h = lib.T(1) * 2
    seen = weakref.ref(h)
    y = functions.Square.apply(h)
    del h
    assert (y.tolist(), seen() is not None) == ([4], True)
    del y
    assert seen() is None


def test_what_was_saved_dies_with_backward(lib, functions, no_gc):
    h = lib.T(1) * 2
    seen = weakref.ref(h)
    y = functions.Square.apply(h)
    del h
    y.sum().backward()
    assert seen() is None


def test_a_saved_output_makes_no_cycle(lib, functions, no_gc):
    y = functions.Exp.apply(lib.T(1))
    seen = weakref.ref(y)
    del y
    assert seen() is None


def test_an_output_in_a_ctx_attribute_is_a_cycle(lib, no_gc):
    def forward(ctx, x):
        ctx.y = x * 2
        return ctx.y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))
    seen = weakref.ref(y)
    del y
    assert seen() is not None
    gc.collect()
    assert seen() is None


def test_a_graph_does_not_keep_its_leaf_alive_unless_it_was_saved(lib, no_gc):
    x = lib.T(1)
    seen = weakref.ref(x)
    y = rule(lib, lambda ctx, grad: grad).apply(x)
    node = y.grad_fn
    del y
    node = None  # noqa: F841 - the last reference
    del x
    assert seen() is None


def test_the_ctx_of_an_unrecorded_call_dies_when_apply_returns(lib, no_gc):
    seen = []

    class Mark:
        pass

    def forward(ctx, x):
        ctx.mark = Mark()
        seen.append(weakref.ref(ctx.mark))
        return x * 1

    y = rule(lib, lambda ctx, grad: grad, forward).apply(lib.C(1))
    assert (y.tolist(), seen[0]()) == ([1], None)


def test_attributes_of_the_ctx_live_as_long_as_the_node(lib, no_gc):
    seen = []

    class Mark:
        pass

    def forward(ctx, x):
        ctx.mark = Mark()
        seen.append(weakref.ref(ctx.mark))
        return x * 1

    y = rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))
    y.sum().backward()
    assert seen[0]() is not None
    del y
    assert seen[0]() is None


def test_gradients_with_a_history_in_a_leaf_are_a_cycle_until_they_are_cleared(lib, no_gc):
    x = lib.T(3)
    seen = weakref.ref(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * x).sum().backward(create_graph=True)
    x.grad = None
    del x
    assert seen() is None


# -- anomaly ---------------------------------------------------------------------------------------


def test_a_nan_in_a_gradient_is_an_error_under_anomaly_detection(lib):
    x = lib.T(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.detect_anomaly():
            y = (x.sqrt() * 0).sum()
            with lib.refuses("AnomalyError"):
                y.backward()
    assert g(x) is None


def test_without_a_nan_anomaly_detection_changes_nothing(lib):
    x = lib.T(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.detect_anomaly():
            (x * x).sum().backward()
    assert g(x) == [6]


def test_without_anomaly_detection_a_nan_passes(lib):
    x = lib.T(0)
    with np.errstate(all="ignore"):
        (x.sqrt() * 0).sum().backward()
    assert g(x)[0] != g(x)[0]


# -- gradcheck -------------------------------------------------------------------------------------


def test_gradcheck_agrees_with_a_right_rule(lib, functions):
    assert lib.gradcheck(functions.Square.apply, (lib.T(1, 2),))


def test_gradcheck_raises_for_a_wrong_rule(lib):
    Wrong = rule(lib, lambda ctx, grad: 3 * grad, lambda ctx, x: 2 * x)
    with lib.refuses("GradcheckError"):
        lib.gradcheck(Wrong.apply, (lib.T(1, 2),))


def test_gradcheck_returns_false_where_no_error_is_wanted(lib):
    Wrong = rule(lib, lambda ctx, grad: 3 * grad, lambda ctx, x: 2 * x)
    assert lib.gradcheck(Wrong.apply, (lib.T(1, 2),), raise_exception=False) is False


def test_gradcheck_takes_several_inputs_and_constants(lib, functions):
    assert lib.gradcheck(functions.Mul.apply, (lib.T(1, 2), lib.C(3, 4)))
    assert lib.gradcheck(functions.Mul.apply, (lib.T(1, 2), lib.T(3, 4)))


def test_gradcheck_takes_several_outputs(lib, functions):
    assert lib.gradcheck(functions.Split.apply, (lib.T(1, 2),))


def test_gradcheck_leaves_the_gradients_alone(lib, functions):
    x = lib.T(1, 2)
    lib.gradcheck(functions.Square.apply, (x,))
    assert g(x) is None


def test_gradgradcheck_agrees_with_a_right_rule(lib, functions):
    assert lib.gradgradcheck(functions.Square.apply, (lib.T(1, 2),))


def test_gradgradcheck_finds_a_lost_second_derivative(lib):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x.detach() * grad

    with warnings.catch_warnings(), lib.refuses("GradcheckError"):
        warnings.simplefilter("ignore")
        lib.gradgradcheck(rule(lib, backward, forward).apply, (lib.T(1, 2),))


# -- checkpoint ------------------------------------------------------------------------------------


def test_checkpoint_gives_value_and_gradient_of_the_function(lib):
    x = lib.T(3)
    y = lib.checkpoint(lambda x: x * x * x, x)
    y.sum().backward()
    assert (y.tolist(), g(x)) == ([27], [27])


def test_checkpoint_runs_the_function_again_in_backward(lib):
    log = []

    def f(x):
        log.append(1)
        return x.exp() * x

    y = lib.checkpoint(f, lib.T(3))
    assert len(log) == 1
    y.sum().backward()
    assert len(log) == 2


def test_checkpoint_reaches_parameters_that_the_function_closes_over(lib):
    w, x = lib.T(3), lib.T(2)
    lib.checkpoint(lambda x: w * x * x, x).sum().backward()
    assert (g(w), g(x)) == ([4], [12])


def test_checkpoint_takes_several_arguments_and_numbers(lib):
    a, b = lib.T(2), lib.T(3)
    lib.checkpoint(lambda a, b, n: a * b * n, a, b, 5).sum().backward()
    assert (g(a), g(b)) == ([15], [10])


def test_checkpoint_gives_several_outputs(lib):
    x = lib.T(2)
    a, b = lib.checkpoint(lambda x: (x * x, x * 3), x)
    (a * 10 + b).sum().backward()
    assert g(x) == [43]


def test_checkpoints_nest(lib):
    x = lib.T(2)

    def inner(x):
        return x * x

    lib.checkpoint(lambda x: lib.checkpoint(inner, x) * x, x).sum().backward()
    assert g(x) == [12]


def test_checkpoint_under_no_grad_records_nothing(lib):
    with lib.no_grad():
        assert not lib.checkpoint(lambda x: x * x, lib.T(2)).requires_grad


def test_a_checkpoint_can_be_differentiated_twice(lib):
    x = lib.T(2)
    (first,) = lib.grad(lib.checkpoint(lambda x: x**3, x).sum(), x, create_graph=True)
    assert lib.grad(first.sum(), x)[0].tolist() == [12]


def test_an_error_of_a_checkpointed_function_comes_through(lib):
    def f(x):
        raise LookupError("own text")

    with pytest.raises(LookupError, match="own text"):
        lib.checkpoint(f, lib.T(1))
    assert lib.is_grad_enabled()
