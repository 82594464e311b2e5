"""The Function contract, on both libraries: calls, the ctx, what forward and backward return."""

import copy
import warnings

import pytest
from both import g, rule


def test_a_function_of_one_argument_gives_value_and_gradient(lib, functions):
    x = lib.T(3)
    y = functions.Square.apply(x)
    y.sum().backward()
    assert (y.tolist(), g(x)) == ([9], [6])


def test_a_function_of_two_arguments_gives_each_its_gradient(lib, functions):
    a, b = lib.T(3), lib.T(4)
    functions.Mul.apply(a, b).sum().backward()
    assert (g(a), g(b)) == ([4], [3])


def test_the_same_tensor_passed_twice_gets_both_contributions(lib, functions):
    x = lib.T(3)
    functions.Mul.apply(x, x).sum().backward()
    assert g(x) == [6]


def test_a_saved_output_gives_first_and_second_derivative(lib, functions):
    x = lib.tensor([0.0], requires_grad=True)
    (first,) = lib.grad(functions.Exp.apply(x * 1).sum(), x, create_graph=True)
    (second,) = lib.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([1], [1])


def test_the_node_is_named_after_the_function(lib, functions):
    assert lib.name_of(functions.Square.apply(lib.T(3)).grad_fn) == "SquareBackward"


def test_each_call_has_a_ctx_of_its_own(lib):
    seen = []
    Keep = rule(lib, lambda ctx, grad: grad, lambda ctx, x: (seen.append(id(ctx)), x * 1)[1])
    x = lib.T(1)
    y, z = Keep.apply(x), Keep.apply(x)
    assert len(set(seen)) == 2
    (y + z).sum().backward()
    assert g(x) == [2]


def test_what_forward_puts_into_the_ctx_is_there_in_backward(lib):
    def forward(ctx, x, n):
        ctx.n = n
        return x * n

    x = lib.T(2)
    rule(lib, lambda ctx, grad: (grad * ctx.n, None), forward).apply(x, 5).sum().backward()
    assert g(x) == [5]


def test_an_attribute_that_was_never_set_is_an_attribute_error(lib):
    y = rule(lib, lambda ctx, grad: grad * ctx.nothing).apply(lib.T(1))
    with pytest.raises(AttributeError, match="nothing"):
        y.sum().backward()


def test_a_none_that_was_stored_is_a_value(lib):
    def forward(ctx, x):
        ctx.n = None
        return x * 1

    x = lib.T(1)
    rule(lib, lambda ctx, grad: grad if ctx.n is None else 2 * grad, forward).apply(
        x
    ).sum().backward()
    assert g(x) == [1]


def test_recording_is_off_in_forward(lib):
    seen = []
    Look = rule(
        lib, lambda ctx, grad: grad, lambda ctx, x: (seen.append(lib.is_grad_enabled()), x * 1)[1]
    )
    Look.apply(lib.T(1))
    assert seen == [False]
    assert lib.is_grad_enabled()


def test_recording_is_on_again_after_forward_raised(lib):
    def forward(ctx, x):
        raise KeyError("own text")

    with pytest.raises(KeyError, match="own text"):
        rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))
    assert lib.is_grad_enabled()


def test_what_is_made_in_forward_has_no_history(lib):
    seen = []

    def forward(ctx, x):
        y = x * 2
        seen.append((y.requires_grad, x.requires_grad))
        return y

    rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))
    assert seen == [(False, True)]


def test_a_call_on_constants_records_nothing(lib, functions):
    y = functions.Square.apply(lib.C(3))
    assert (y.requires_grad, y.grad_fn, y.is_leaf) == (False, None, True)


def test_a_call_under_no_grad_records_nothing(lib, functions):
    with lib.no_grad():
        y = functions.Square.apply(lib.T(3))
    assert (y.requires_grad, y.grad_fn) == (False, None)


def test_arguments_that_are_no_tensors_pass_through_and_get_none(lib):
    x = lib.T(1)
    Clamp = rule(lib, lambda ctx, grad: (grad, None, None), lambda ctx, x, lo, hi: x.clamp(lo, hi))
    Clamp.apply(x, 0, 2).sum().backward()
    assert g(x) == [1]


def test_defaults_of_forward_are_honoured(lib):
    def forward(ctx, x, factor=3):
        ctx.factor = factor
        return x * factor

    def backward(ctx, grad):
        return grad * ctx.factor, None

    x = lib.T(1)
    rule(lib, lambda ctx, grad: grad * ctx.factor, forward).apply(x).sum().backward()
    rule(lib, backward, forward).apply(x, 5).sum().backward()
    assert g(x) == [8]


def test_forward_may_take_any_number_of_arguments(lib):
    def forward(ctx, *tensors):
        ctx.count = len(tensors)
        return sum(tensors[1:], tensors[0] * 1)

    Sum = rule(lib, lambda ctx, grad: (grad,) * ctx.count, forward)
    tensors = [lib.T(1), lib.T(2), lib.T(3)]
    Sum.apply(*tensors).sum().backward()
    assert [g(t) for t in tensors] == [[1], [1], [1]]


def test_a_constant_argument_gets_no_gradient(lib, functions):
    a, b = lib.T(3), lib.C(4)
    functions.Mul.apply(a, b).sum().backward()
    assert (g(a), g(b)) == ([4], None)


def test_needs_input_grad_has_a_flag_for_each_argument(lib):
    seen = []

    def backward(ctx, grad):
        seen.append(tuple(ctx.needs_input_grad))
        return grad, None, None

    rule(lib, backward).apply(lib.T(1), lib.C(1), 5).sum().backward()
    assert seen == [(True, False, False)]


def test_needs_input_grad_can_be_read_in_forward(lib):
    seen = []

    def forward(ctx, a, b):
        seen.append(tuple(ctx.needs_input_grad))
        return a * 1

    rule(lib, lambda ctx, grad: (grad, None), forward).apply(lib.C(1), lib.T(1))
    assert seen == [(False, True)]


def test_a_tuple_returned_is_a_tuple_of_outputs(lib, functions):
    x = lib.T(1)
    outputs = functions.Split.apply(x)
    assert isinstance(outputs, tuple)
    (outputs[0] + outputs[1]).sum().backward()
    assert g(x) == [5]


def test_a_tuple_of_one_stays_a_tuple(lib):
    outputs = rule(lib, lambda ctx, grad: grad, lambda ctx, x: (x * 1,)).apply(lib.T(1))
    assert isinstance(outputs, tuple)
    assert len(outputs) == 1


def test_outputs_are_numbered(lib, functions):
    a, b = functions.Split.apply(lib.T(1))
    assert (a.output_nr, b.output_nr) == (0, 1)
    assert a.grad_fn is b.grad_fn


def test_an_output_nobody_used_gets_zeros(lib, functions):
    x = lib.T(1)
    functions.Split.apply(x)[1].sum().backward()
    assert g(x) == [3]


def test_an_output_nobody_used_gets_none_where_that_is_asked_for(lib):
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, a, b):
        seen.append((a, b is None))
        return 2 * a

    x = lib.T(1)
    rule(lib, backward, forward).apply(x)[0].sum().backward()
    assert seen[0][1]
    assert g(x) == [2]


def test_the_zeros_have_the_shape_of_their_output(lib):
    seen = []

    def backward(ctx, a, b):
        seen.append((tuple(a.shape), tuple(b.shape)))
        return a

    x = lib.T(1, 2)
    rule(lib, backward, lambda ctx, x: (x * 2, x.sum())).apply(x)[0].sum().backward()
    assert seen == [((2,), ())]


def test_weights_of_several_outputs_add_up(lib, functions):
    x = lib.T(1)
    a, b = functions.Split.apply(x)
    (a * 10 + b * 1).sum().backward()
    assert g(x) == [23]


def test_outputs_that_are_no_tensors_pass_through(lib):
    seen = []

    def backward(ctx, a, b):
        seen.append(b)
        return a

    y, n = rule(lib, backward, lambda ctx, x: (x * 1, "text")).apply(lib.T(1))
    y.sum().backward()
    assert (n, seen) == ("text", [None])


def test_an_integer_output_has_no_gradient(lib):
    def forward(ctx, x):
        return x * 2, x.argmax()

    x = lib.T(1, 5)
    y, at = rule(lib, lambda ctx, a, b: 2 * a, forward).apply(x)
    assert (at.requires_grad, at.item()) == (False, 1)
    y.sum().backward()
    assert g(x) == [2, 2]


def test_returning_an_input_gives_a_new_tensor(lib):
    x = lib.T(1)
    y = rule(lib, lambda ctx, grad: 7 * grad, lambda ctx, x: x).apply(x)
    assert y is not x
    y.sum().backward()
    assert (g(x), x.grad_fn) == ([7], None)


def test_an_input_returned_unchanged_shares_memory(lib):
    x = lib.T(1)
    y = rule(lib, lambda ctx, grad: grad, lambda ctx, x: x).apply(x)
    with lib.no_grad():
        x.fill_(5)
    assert y.tolist() == [5]


def test_one_tensor_returned_twice_has_two_gradients(lib):
    def forward(ctx, x):
        y = 2 * x
        return y, y

    x = lib.T(1)
    a, b = rule(lib, lambda ctx, g1, g2: 2 * g1 + 2 * g2, forward).apply(x)
    (a + b).sum().backward()
    assert g(x) == [4]


def test_gradients_returned_twice_do_not_share_memory(lib):
    a, b = lib.T(1), lib.T(1)
    rule(lib, lambda ctx, grad: (grad, grad), lambda ctx, a, b: a + b).apply(a, b).sum().backward()
    with lib.no_grad():
        a.grad.fill_(9)
    assert g(b) == [1]


def test_a_gradient_of_none_leaves_grad_none(lib):
    x = lib.T(1)
    rule(lib, lambda ctx, grad: None).apply(x).sum().backward()
    assert g(x) is None


def test_surplus_nones_are_tolerated(lib):
    x = lib.T(1)
    rule(lib, lambda ctx, grad: (grad, None, None)).apply(x).sum().backward()
    assert g(x) == [1]


def test_too_few_gradients_are_refused(lib):
    y = rule(lib, lambda ctx, grad: grad).apply(lib.T(1), lib.T(1))
    with lib.refuses("GradientCountError"):
        y.sum().backward()


def test_too_many_gradients_are_refused(lib):
    y = rule(lib, lambda ctx, grad: (grad, grad)).apply(lib.T(1))
    with lib.refuses("GradientCountError"):
        y.sum().backward()


def test_a_gradient_of_a_shape_that_cannot_fit_is_refused(lib):
    y = rule(lib, lambda ctx, grad: grad[:2]).apply(lib.T(1, 2, 3))
    with lib.refuses("GradientShapeError"):
        y.sum().backward()


def test_a_gradient_that_is_a_number_is_refused(lib):
    y = rule(lib, lambda ctx, grad: 3.0).apply(lib.T(1))
    with lib.refuses("TypeError"):
        y.sum().backward()


def test_a_gradient_for_an_argument_that_is_no_tensor_is_refused(lib):
    y = rule(lib, lambda ctx, grad: (grad, grad)).apply(lib.T(1), 5)
    with lib.refuses("GradientCountError"):
        y.sum().backward()


def test_without_backward_it_is_a_not_implemented_error_at_backward(lib):
    Half = type("Half", (lib.Function,), {"forward": staticmethod(lambda ctx, x: x * 1)})
    y = Half.apply(lib.T(1))
    with pytest.raises(NotImplementedError):
        y.sum().backward()


def test_without_forward_it_is_a_not_implemented_error_at_apply(lib):
    Half = type("Half", (lib.Function,), {"backward": staticmethod(lambda ctx, grad: grad)})
    with pytest.raises(NotImplementedError):
        Half.apply(lib.T(1))


def test_an_error_of_backward_keeps_type_and_text(lib):
    def backward(ctx, grad):
        raise LookupError("own text")

    x = lib.T(1)
    with pytest.raises(LookupError, match="own text"):
        rule(lib, backward).apply(x).sum().backward()
    assert lib.is_grad_enabled()
    (x * 2).sum().backward()
    assert g(x) == [2]


def test_an_inherited_forward_is_fine(lib, functions):
    class Twice(functions.Square):
        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 4 * x * grad

    x = lib.T(3)
    Twice.apply(x).sum().backward()
    assert g(x) == [12]


def test_setup_context_does_the_saving(lib):
    class Square(lib.Function):
        @staticmethod
        def forward(x, n):
            return x * x * n

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.n = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * ctx.n * grad, None

    x = lib.T(3)
    Square.apply(x, 2).sum().backward()
    assert g(x) == [12]


def test_a_function_called_in_another_functions_forward_records_nothing_of_its_own(lib, functions):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return functions.Square.apply(x)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 20 * x * grad

    x = lib.T(3)
    rule(lib, backward, forward).apply(x).sum().backward()
    assert g(x) == [60]


# -- the ctx ---------------------------------------------------------------------------------------


def test_a_saved_input_comes_back_with_its_values_and_history(lib):
    seen = []

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        seen.append((x.tolist(), x.requires_grad, x.is_leaf))
        return grad

    rule(lib, backward, forward).apply(lib.T(4)).sum().backward()
    assert seen == [([4], True, True)]


def test_saved_tensors_are_a_tuple_in_the_order_of_the_save(lib):
    seen = []

    def forward(ctx, a, b):
        ctx.save_for_backward(b, a)
        return a + b

    def backward(ctx, grad):
        seen.append((type(ctx.saved_tensors), [t.item() for t in ctx.saved_tensors]))
        return grad, grad

    rule(lib, backward, forward).apply(lib.T(1), lib.T(2)).sum().backward()
    assert seen == [(tuple, [2, 1])]


def test_saved_tensors_are_empty_where_nothing_was_saved(lib):
    seen = []
    Nothing = rule(lib, lambda ctx, grad: (seen.append(ctx.saved_tensors), grad)[1])
    Nothing.apply(lib.T(1)).sum().backward()
    assert seen == [()]


def test_none_may_be_saved(lib):
    seen = []

    def forward(ctx, x):
        ctx.save_for_backward(x, None)
        return x * 1

    def backward(ctx, grad):
        seen.append(ctx.saved_tensors[1])
        return grad

    rule(lib, backward, forward).apply(lib.T(1)).sum().backward()
    assert seen == [None]


def test_a_number_is_not_saved_by_position(lib):
    def forward(ctx, x):
        ctx.save_for_backward(x, 3)
        return x * 1

    with lib.refuses("TypeError"):
        rule(lib, lambda ctx, grad: grad, forward).apply(lib.T(1))


def test_the_last_save_counts(lib):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ctx.save_for_backward(x, x)
        return x * 1

    seen = []
    rule(lib, lambda ctx, grad: (seen.append(len(ctx.saved_tensors)), grad)[1], forward).apply(
        lib.T(1)
    ).sum().backward()
    assert seen == [2]


def test_saved_tensors_are_gone_after_backward(lib, functions):
    y = functions.Square.apply(lib.T(3))
    node = y.grad_fn
    y.sum().backward()
    with lib.refuses("GraphFreedError"):
        _ = lib.ctx_of(node).saved_tensors


def test_saved_tensors_stay_with_retain_graph(lib, functions):
    y = functions.Square.apply(lib.T(3))
    y.sum().backward(retain_graph=True)
    assert [t.item() for t in lib.ctx_of(y.grad_fn).saved_tensors] == [3]


def test_a_non_differentiable_output_has_no_history(lib):
    def forward(ctx, x):
        a, b = x * 2, x * 3
        ctx.mark_non_differentiable(b)
        return a, b

    x = lib.T(1)
    a, b = rule(lib, lambda ctx, ga, gb: 2 * ga, forward).apply(x)
    assert (a.requires_grad, b.requires_grad, b.grad_fn) == (True, False, None)
    a.sum().backward()
    assert g(x) == [2]


def test_backward_gets_zeros_for_a_non_differentiable_output(lib):
    seen = []

    def forward(ctx, x):
        a, b = x * 2, x * 3
        ctx.mark_non_differentiable(b)
        return a, b

    def backward(ctx, ga, gb):
        seen.append(gb.tolist())
        return ga

    rule(lib, backward, forward).apply(lib.T(1))[0].sum().backward()
    assert seen == [[0]]


def double(lib):
    """Doubles its argument in place."""

    def forward(ctx, x):
        ctx.mark_dirty(x)
        with lib.no_grad():
            x.mul_(2)
        return x

    return rule(lib, lambda ctx, grad: 2 * grad, forward, "Double")


def test_a_dirty_input_comes_back_as_itself_with_a_new_history(lib):
    x = lib.T(5)
    z = x * 1
    before = z._version
    y = double(lib).apply(z)
    assert y is z
    assert z.tolist() == [10]
    assert z._version > before
    z.sum().backward()
    assert g(x) == [2]


def test_a_dirty_leaf_that_requires_grad_is_refused(lib):
    with lib.refuses("LeafInPlaceError"):
        double(lib).apply(lib.T(5))


def test_a_dirty_constant_may_be_written(lib):
    x = lib.C(5)
    assert double(lib).apply(x) is x
    assert x.tolist() == [10]


def test_a_constant_written_in_place_with_a_gradient_gets_a_history(lib):
    def forward(ctx, a, b):
        ctx.mark_dirty(a)
        a.add_(b)
        return a, b + 2

    a, b = lib.C(2), lib.T(3)
    first, _ = rule(lib, lambda ctx, ga, gb: (ga, ga + gb), forward).apply(a, b)
    assert first is a
    assert a.requires_grad
    first.sum().backward()
    assert g(b) == [1]


def test_once_differentiable_works_once(lib):
    @lib.once_differentiable
    def backward(ctx, grad):
        return 3 * grad

    x = lib.T(1)
    rule(lib, backward).apply(x).sum().backward()
    assert g(x) == [3]


def test_once_differentiable_refuses_a_second_derivative(lib):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @lib.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    x = lib.T(3)
    y = rule(lib, backward, forward).apply(x)
    (first,) = lib.grad((y * y).sum(), x, create_graph=True)
    with lib.refuses():
        lib.grad(first.sum(), x)


def test_a_rule_of_tensor_ops_can_be_differentiated_twice(lib):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad

    x = lib.T(2)
    (first,) = lib.grad(rule(lib, backward, forward).apply(x).sum(), x, create_graph=True)
    (second,) = lib.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([12], [12])


def test_recording_is_off_in_backward_and_on_under_create_graph(lib):
    seen = []
    Look = rule(lib, lambda ctx, grad: (seen.append(lib.is_grad_enabled()), grad)[1])
    x = lib.T(1)
    Look.apply(x).sum().backward()
    lib.grad(Look.apply(x).sum(), x, create_graph=True)
    assert seen == [False, True]


def test_the_gradient_given_to_backward_does_not_require_grad_in_a_first_pass(lib):
    seen = []
    Look = rule(lib, lambda ctx, grad: (seen.append(grad.requires_grad), grad)[1])
    Look.apply(lib.T(1)).sum().backward()
    assert seen == [False]


def test_a_function_cannot_be_applied_on_the_base(lib):
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        lib.Function.apply(lib.T(1))


def test_no_gradient_is_computed_for_an_argument_that_needs_none(lib):
    seen = []

    def backward(ctx, grad):
        seen.append(tuple(ctx.needs_input_grad))
        return (grad if ctx.needs_input_grad[0] else None), grad

    a, b = lib.C(1), lib.T(1)
    rule(lib, backward, lambda ctx, a, b: a + b).apply(a, b).sum().backward()
    assert (seen, g(a), g(b)) == ([(False, True)], None, [1])


def test_a_gradient_for_a_constant_is_dropped(lib):
    a, b = lib.C(1), lib.T(1)
    rule(lib, lambda ctx, grad: (grad, grad), lambda ctx, a, b: a + b).apply(a, b).sum().backward()
    assert (g(a), g(b)) == (None, [1])


def test_a_deep_copy_of_a_leaf_is_a_leaf_of_its_own(lib):
    x = lib.T(1)
    twin = copy.deepcopy(x)
    assert (twin.tolist(), twin.requires_grad, twin.is_leaf) == ([1], True, True)
    (twin * 2).sum().backward()
    assert (g(x), g(twin)) == (None, [2])
