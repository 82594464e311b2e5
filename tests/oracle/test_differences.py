"""Each row of docs/differences.md, shown on both libraries.

A row is found by its first column: the name of a test with spaces for underscores.
"""

import gc
import re
import warnings
import weakref
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from both import REFUSED, g, rule

TABLE = Path(__file__).parents[2] / "docs" / "differences.md"


def rows():
    """The first column of the table."""
    return re.findall(r"^\| (?!---|what \|)([^|]+?) \|", TABLE.read_text("utf-8"), re.MULTILINE)


def tests():
    """The tests of this file that show a row: those that take `ours`."""
    return [
        name.removeprefix("test_").replace("_", " ")
        for name, value in globals().items()
        if name.startswith("test_") and "ours" in value.__code__.co_varnames
    ]


def test_every_row_has_a_test_and_every_test_a_row():
    assert sorted(rows()) == sorted(tests())


def test_every_row_says_what_either_library_does_and_why():
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == 4, line
            assert all(cells), line


@pytest.fixture
def ours(lib):
    """Whether this is lucid_mini."""
    return lib.name == "lucid_mini"


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def refused_here(lib, *errors):
    """Raises on lucid_mini, and must not on PyTorch."""
    if lib.name == "lucid_mini":
        return lib.refuses(*errors)
    return nullcontext()


def refused_there(lib):
    """Raises on PyTorch, and must not on lucid_mini."""
    return pytest.raises(REFUSED) if lib.name == "torch" else nullcontext()


# -- tensors ---------------------------------------------------------------------------------------


def test_floats_are_float64(lib, ours):
    found = lib.default_dtype(lib.float32)
    made = lib.ones(1)
    lib.default_dtype(found)
    assert made.dtype == (lib.float64 if ours else lib.float32)


def test_numpy_is_always_allowed(lib, ours):
    with refused_there(lib):
        assert lib.T(1).numpy().tolist() == [1]


def test_numpy_is_read_only(lib, ours):
    x = lib.C(1)
    assert x.numpy().flags.writeable is not ours


def test_data_is_an_array(lib, ours):
    x = lib.T(1)
    assert isinstance(x.data, np.ndarray) is ours
    if ours:
        with pytest.raises(ValueError, match="read-only"):
            x.data[0] = 9


def test_ufuncs_of_numpy_are_refused(lib, ours):
    with refused_here(lib, "TypeError"):
        np.exp(lib.C(1))


def test_numpy_operands_give_tensors(lib, ours):
    with refused_there(lib):
        assert type(np.ones(1) * lib.C(2)) is type(lib.C(1))


def test_tensor_has_no_subclasses(lib, ours):
    with refused_here(lib, "TypeError"):
        type("Sub", (type(lib.C(1)),), {})


def test_a_view_made_under_no_grad_is_a_constant(lib, ours):
    x = lib.T(1, 2)
    with lib.no_grad():
        view = x[0]
    assert view.requires_grad is not ours
    (view * x[1]).backward()
    assert g(x) == [0, 1]


def test_pieces_of_a_split_may_be_written(lib, ours):
    x = lib.T(1, 2)
    z = x * 1
    first, _ = z.split(1)
    with refused_there(lib):
        first.mul_(5)
        z.sum().backward()
        assert g(x) == [5, 1]


def test_a_tensor_may_be_written_with_itself(lib, ours):
    x = lib.T(3)
    z = x * 1
    z.mul_(z)
    with refused_there(lib):
        z.sum().backward()
        assert g(x) == [6]


def test_an_operand_may_overlap_what_is_written(lib, ours):
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]])
    with refused_there(lib):
        x.add_(x.t())
        assert x.tolist() == [[2, 5], [5, 8]]


def test_an_expanded_tensor_is_not_written_in_part(lib, ours):
    x = lib.C(1, 2).expand(2, 2)
    with refused_here(lib):
        x[1:] = 5.0


def test_steps_may_be_negative(lib, ours):
    x = lib.T(1, 2)
    with refused_there(lib):
        (x[::-1] * lib.C(1, 10)).sum().backward()
        assert g(x) == [10, 1]


def test_results_lie_in_memory_as_numpy_lays_them(lib, ours):
    x = lib.zeros(2, 3)[:, lib.tensor([0, 1])]
    if ours:
        with pytest.raises(ValueError, match="reshape"):
            x.view(-1)
    else:
        x.view(-1)
    assert x.reshape(-1).tolist() == [0] * 4


def test_the_sign_is_a_constant(lib, ours):
    x = lib.T(-2)
    (first,) = lib.grad(abs(x).sum(), x, create_graph=True)
    assert first.requires_grad is not ours


# -- Function.apply --------------------------------------------------------------------------------


def test_a_tensor_hidden_in_a_list_is_refused(lib, ours):
    x = lib.T(1)
    Sum = rule(lib, lambda ctx, grad: None, lambda ctx, tensors: sum(tensors) * 1)
    with refused_here(lib, "TypeError"):
        assert not Sum.apply([x, x]).requires_grad


def test_a_list_of_outputs_is_a_tuple_of_outputs(lib, ours):
    x = lib.T(1)
    Two = rule(lib, lambda ctx, a, b: 2 * a + 3 * b, lambda ctx, x: [2 * x, 3 * x])
    a, b = Two.apply(x)
    assert a.requires_grad is ours
    if ours:
        (a + b).sum().backward()
        assert g(x) == [5]


def test_a_call_without_a_tensor_output_is_refused(lib, ours):
    with refused_here(lib, "TypeError"):
        rule(lib, lambda ctx, grad: grad, lambda ctx, x: 3.0).apply(lib.T(1))


def test_an_array_returned_by_forward_is_refused(lib, ours):
    def forward(ctx, x):
        return x.detach().numpy() * 2

    with refused_here(lib, "TypeError"):
        assert isinstance(rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1)), np.ndarray)


def test_methods_are_checked_where_the_class_is_made(lib, ours):
    with refused_here(lib, "TypeError"):
        type("Odd", (lib.Function,), {"forward": lambda self, x: x})


def test_an_unmarked_write_into_an_input_is_refused(lib, ours):
    def forward(ctx, x):
        x.mul_(2)
        return x * 1

    with refused_here(lib, "CtxUsageError"):
        rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1) * 1)


# -- the ctx ---------------------------------------------------------------------------------------


def test_the_ctx_is_not_the_node(lib, ours):
    seen = []
    Look = rule(lib, lambda ctx, grad: grad, lambda ctx, x: (seen.append(id(ctx)), x * 1)[1])
    y = Look.apply(lib.T(1))
    assert (id(y.grad_fn) == seen[0]) is not ours
    assert id(lib.ctx_of(y.grad_fn)) == seen[0]


def test_a_ctx_outlives_its_node(lib, ours):
    seen = []

    def forward(ctx, x):
        seen.append(ctx)
        return x * 1

    y = rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))
    node = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert (node() is None) is ours
    seen.clear()


def test_values_are_saved_by_name(lib, ours):
    def forward(ctx, x):
        ctx.save_for_backward(x=x, n=3)
        return x * 3

    def backward(ctx, grad):
        return ctx.saved_variables.n * grad

    x = lib.T(1)
    with refused_there(lib):
        rule(lib, backward, forward).apply(x).sum().backward()
        assert g(x) == [3]


def test_the_ctx_has_a_bag(lib, ours):
    def forward(ctx, x):
        ctx.store("n", 3)
        return x * ctx.load("n")

    try:
        y = rule(lib, lambda ctx, grad: ctx.n * grad, forward).apply(lib.T(1))
    except AttributeError:
        assert not ours
    else:
        assert (ours, y.tolist()) == (True, [3])


def test_the_ctx_has_neither_ptr_nor_env(lib, ours):
    seen = []

    def forward(ctx, x):
        seen.append((hasattr(ctx, "ptr"), hasattr(ctx, "env")))
        return x * 1

    rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))
    assert seen == [(False, False)]


def test_names_of_the_ctx_are_reserved(lib, ours):
    def forward(ctx, x):
        ctx.needs_input_grad = (False,)
        return x * 1

    with refused_here(lib, "AttributeError"):
        rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))


def test_saving_twice_warns(lib, ours):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_backward(x)
        return x * 1

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))
    assert len(seen) == ours


def test_a_tensor_in_a_ctx_attribute_warns(lib, ours):
    def forward(ctx, x):
        ctx.x = x
        return x * 1

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))
    assert len(seen) == ours


def test_saving_after_forward_is_refused(lib, ours):
    def backward(ctx, grad):
        ctx.save_for_backward(grad)
        return grad

    with refused_here(lib, "CtxUsageError"):
        rule(lib, backward).apply(lib.T(1)).sum().backward()


def test_only_outputs_are_marked_non_differentiable(lib, ours):
    def forward(ctx, x):
        ctx.mark_non_differentiable(x * 2)
        return x * 2

    with refused_here(lib, "CtxUsageError"):
        rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))


# -- what backward returns -------------------------------------------------------------------------


def test_a_gradient_has_exactly_the_shape_of_its_input(lib, ours):
    x = lib.T(1)
    Wide = rule(lib, lambda ctx, grad: grad, lambda ctx, x: x * lib.ones(2))
    y = Wide.apply(x)
    with refused_here(lib, "GradientShapeError"):
        y.sum().backward()
    assert g(x) == (None if ours else [2])


def test_gradients_may_be_named(lib, ours):
    x = lib.T(1)
    with refused_there(lib):
        rule(lib, lambda ctx, grad: {"x": 3 * grad}).apply(x).sum().backward()
        assert g(x) == [3]


def test_gradients_may_come_in_a_list(lib, ours):
    x = lib.T(1)
    with refused_there(lib):
        rule(lib, lambda ctx, grad: [3 * grad]).apply(x).sum().backward()
        assert g(x) == [3]


def test_the_gradient_given_to_backward_is_not_written(lib, ours):
    y = rule(lib, lambda ctx, grad: grad.mul_(2)).apply(lib.T(1))
    with refused_here(lib):
        y.sum().backward()


def test_the_gradient_given_to_a_hook_is_not_written(lib, ours):
    x = lib.T(1)
    x.register_hook(lambda grad: grad.mul_(2))
    with refused_here(lib):
        (x * 1).sum().backward()


def test_what_was_saved_is_not_written_in_backward(lib, ours):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    def backward(ctx, grad):
        ctx.saved_tensors[0].mul_(2)
        return grad

    y = rule(lib, backward, forward).apply(lib.T(1) * 1)
    with refused_here(lib):
        y.sum().backward()


def test_once_differentiable_refuses_in_a_chain_too(lib, ours):
    @lib.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    x = lib.T(3)
    y = rule(lib, backward, forward).apply(x)
    (first,) = lib.grad(y.sum() + (x * x * x).sum(), x, create_graph=True)
    with refused_here(lib):
        assert lib.grad(first.sum(), x)[0].tolist() == [18]  # and 20 would be right


def test_an_intermediate_saved_and_differentiated_twice_warns(lib, ours):
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return x * y

    def backward(ctx, grad):
        _, y = ctx.saved_tensors
        return 3 * y * grad

    x = lib.T(2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        lib.grad(rule(lib, backward, forward).apply(x).sum(), x, create_graph=True)
    assert len(seen) == ours


# -- the engine ------------------------------------------------------------------------------------


def test_leaves_get_their_gradients_last(lib, ours):
    log = []
    early, late = lib.T(1), lib.T(1)
    first = rule(lib, lambda ctx, grad: (log.append(g(late)), grad)[1]).apply(early)
    (first * 1 + late).sum().backward()
    assert log == [None if ours else [1]]


def test_leaves_get_their_gradients_all_or_none(lib, ours):
    def backward(ctx, grad):
        raise LookupError

    early, late = lib.T(1), lib.T(1)
    broken = rule(lib, backward).apply(early)
    with pytest.raises(LookupError):
        (broken * 1 + late).sum().backward()
    assert g(late) == (None if ours else [1])


def test_accumulating_puts_a_new_tensor_into_grad(lib, ours):
    x = lib.T(1)
    (x * 3).sum().backward()
    first = x.grad
    (x * 4).sum().backward()
    assert first.tolist() == ([3] if ours else [7])
    assert g(x) == [7]


def test_a_second_backward_is_refused_where_nothing_was_saved_too(lib, ours):
    x = lib.T(1)
    y = (x + 1).sum()
    y.backward()
    with refused_here(lib, "GraphFreedError"):
        y.backward()
    assert g(x) == ([1] if ours else [2])


def test_seeds_are_counted_in_grad(lib, ours):
    x = lib.T(1)
    with refused_here(lib, "ValueError"):
        lib.grad([x * 2], [x], [lib.C(1), lib.C(1)])


def test_grad_fills_no_retained_grad(lib, ours):
    x = lib.T(1)
    h = x * 2
    h.retain_grad()
    lib.grad((h * 3).sum(), x)
    assert (h.grad is None) is ours


def test_hooks_are_not_called_without_a_gradient(lib, ours):
    seen = []
    x = lib.T(1)
    y = x * 3
    y.register_hook(lambda grad: seen.append(grad is None))
    z = abs(y)
    (first,) = lib.grad(z.sum(), x, create_graph=True)
    if first.requires_grad:
        lib.grad(first.sum(), x, allow_unused=True)
    assert not any(seen) or not ours


def test_a_hook_on_a_view_stays_when_the_view_is_written(lib, ours):
    x = lib.T(1, 2)
    view = (x * 1)[:1]
    view.register_hook(lambda grad: grad * 10)
    view.mul_(3)
    view.sum().backward()
    assert g(x) == ([30, 0] if ours else [3, 0])


def test_a_product_reads_its_factors_alone(lib, ours):
    x = lib.T(2, 3)
    y = x.prod()
    y.register_hook(lambda grad: grad * 10)
    (first,) = lib.grad(y, x, create_graph=True)
    (second,) = lib.grad(first.sum(), x)
    assert first.tolist() == [30, 20]
    assert (second.tolist() == [10, 10]) is ours


def test_the_version_check_stays_on_under_saved_tensor_hooks(lib, ours, functions):
    z = lib.T(3) * 1
    with lib.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = functions.Square.apply(z)
    with lib.no_grad():
        z.add_(1)
    with refused_here(lib, "VersionMismatchError"):
        y.sum().backward()


def test_an_infinity_is_an_anomaly_too(lib, ours):
    x = lib.T(0)
    with lib.detect_anomaly(), refused_here(lib, "AnomalyError"):
        x.sqrt().sum().backward()


def test_an_op_saves_what_its_own_rule_needs(lib, ours):
    x, n = lib.T(2), lib.C(3)
    y = x**n
    y.add_(1)
    with refused_there(lib):
        y.sum().backward()
        assert g(x) == [12]


def test_one_over_x_saves_x(lib, ours):
    z = lib.T(2) * 1
    y = 1.0 / z
    z.add_(1)
    with refused_here(lib, "VersionMismatchError"):
        y.sum().backward()


def test_a_mode_may_be_nested_in_itself(lib, ours):
    off = lib.no_grad()
    with off, off:
        assert not lib.is_grad_enabled()
    assert lib.is_grad_enabled() is ours


def test_the_name_of_a_node_is_a_property(lib, ours):
    assert callable((lib.T(1) * 2).grad_fn.name) is not ours
