"""`gradcheck` says True of what is right, and of what is wrong it says what is wrong."""

import gc
import threading
import weakref

import numpy as np
import pytest
from functions import C, Mul, Split, Square, T
from hypothesis import given, settings
from hypothesis import strategies as st

import lucid_mini as lm
from lucid_mini import events
from lucid_mini.errors import GradcheckError
from lucid_mini.transforms import gradcheck, gradgradcheck

F = lm.autograd.Function


def square(ctx, x):
    ctx.save_for_backward(x)
    return x * x


def add(ctx, a, b):
    return a + b


def function(forward, backward, **attributes):
    """A Function of these two, as deliberately wrong as the test wants it."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Wrong", (F,), body | attributes).apply


def complaint(fn, *inputs, check=gradcheck, **options):
    """What the check says of `fn`."""
    with pytest.raises(GradcheckError) as caught:
        check(fn, inputs, **options)
    return str(caught.value)


# -- what is right --------------------------------------------------------------------------------


def test_a_right_rule_gives_true():  # R101
    assert gradcheck(Square.apply, T(1, -2)) is True
    assert gradgradcheck(Square.apply, T(1, -2)) is True


def test_one_tensor_and_a_tuple_are_both_taken():  # R101
    assert gradcheck(Square.apply, (T(1, 2),))
    assert gradcheck(Mul.apply, (T(1, 2), T(3, 4)))


def test_several_outputs_are_checked():  # R101
    assert gradcheck(Split.apply, T(1, 2))
    assert gradcheck(lambda x: [x * x, x.sum()], T(1, 2))
    wrong = function(lambda ctx, x: (2 * x, 3 * x), lambda ctx, a, b: 2 * a + 4 * b)
    assert "d output 1[0] / d input 0[0]: analytic 4, numeric 3" in complaint(wrong, T(1))


def test_outputs_that_are_no_floating_tensors_are_left_out():  # R101
    assert gradcheck(lambda x: (x * x, 3, x.argmax(), x > 0), T(1, 2))


def test_arguments_that_are_no_tensors_are_passed_through():  # R101
    seen = []

    def fn(x, n, options):
        seen.append((n, options["k"]))
        return x**n

    assert gradcheck(fn, (T(1, 2), 3, {"k": None}))
    assert set(seen) == {(3, None)}


def test_inputs_that_require_no_grad_are_passed_through():  # R101
    index = lm.tensor([0, 1])
    constant = C(3, 4)
    assert gradcheck(lambda x, c, i: x[i] * c, (T(1, 2), constant, index))


def test_scalars_and_tensors_without_elements_are_checked():  # R101
    assert gradcheck(lambda x: x * x, lm.tensor(2.0, requires_grad=True))
    assert gradcheck(lambda x: x * x, lm.zeros(0, 3, requires_grad=True))
    assert gradcheck(lambda x: x.sum(0), lm.zeros(0, 3, requires_grad=True))


def test_an_output_that_does_not_depend_on_an_input_is_right():  # R101
    assert gradcheck(lambda x, y: x * 2, (T(1), T(2)))


def test_float32_is_right_with_tolerances_to_match():  # R101
    x = lm.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
    assert gradcheck(lambda x: x * x, x, eps=1e-2, atol=1e-2)


def test_every_layout_of_an_input_is_right():  # R101
    base = np.arange(1.0, 13.0).reshape(3, 4)
    for view in (base.T, base[:, ::2], base[::-1], np.broadcast_to(base[:1], (3, 4))):
        assert gradcheck(lambda x: x.exp() * x, lm.from_numpy(view).requires_grad_())


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=4),
    st.floats(0.1, 3) | st.floats(-3, -0.1),
)
def test_a_wrong_factor_is_found_wherever_the_input_lies(values, factor):  # R101
    right = function(square, lambda ctx, g: 2 * ctx.saved_tensors[0] * g)
    wrong = function(square, lambda ctx, g: (2 + factor) * ctx.saved_tensors[0] * g)
    assert gradcheck(right, T(*values))
    if max(map(abs, values)) > 0.1:
        assert "times the numeric" in complaint(wrong, T(*values)) or abs(factor + 3) < 1e-3


# -- the caller's things --------------------------------------------------------------------------


def test_the_inputs_are_as_before():  # R101
    x = T(1, 2)
    x.grad = C(5, 5)
    h = x * 2
    before, memory = h.grad_fn, h._memory
    gradcheck(Square.apply, x), gradgradcheck(Square.apply, h)
    assert (x.grad.tolist(), x.tolist(), x._version) == ([5, 5], [1, 2], 0)
    assert h.grad_fn is before
    assert h._memory is memory
    assert not before.released


def test_the_collector_is_off_meanwhile_and_then_as_it_was():  # R101
    seen = []

    def fn(x):
        seen.append(gc.isenabled())
        return x * x

    for was_on in (True, False):
        gc.enable() if was_on else gc.disable()
        try:
            gradcheck(fn, T(1))
            assert gc.isenabled() is was_on
            complaint(lambda x: x.detach(), T(1))
            assert gc.isenabled() is was_on
        finally:
            gc.enable()
    assert set(seen) == {False}


def test_mode_and_recorder_are_given_back():  # R101
    with lm.no_grad():
        assert gradcheck(Square.apply, T(1))
        complaint(function(square, lambda ctx, g: g), T(1))
        assert not lm.is_grad_enabled()
    assert events.recorder is None


def test_arrays_can_be_written_again_after_the_check():  # R67, R101
    base = np.ones((2, 3))
    x = lm.from_numpy(base).requires_grad_()
    gradcheck(lambda x: x.T.exp() * x.T, x)
    complaint(function(square, lambda ctx, g: g.add_(1)), x)
    assert base.flags.writeable
    constant, parameter = C(1, 2), T(3, 4)
    gradcheck(lambda x, c: x * c * parameter, (T(1, 2), constant))
    with lm.no_grad():
        constant.add_(1), parameter.add_(1)
    with lm.no_grad():
        x.mul_(2)
    y = (x * x).sum()
    y.backward()
    with lm.no_grad():
        x.grad.mul_(2)


def test_the_check_keeps_nothing(no_gc):  # R101
    x = T(1, 2)
    gradcheck(lambda x: (x * x).sin(), x), gradgradcheck(lambda x: (x * x).sin(), x)
    ref = weakref.ref(x)
    del x
    assert ref() is None


def test_checks_may_run_in_several_threads():  # R101
    results = []

    def work():
        results.extend(gradcheck(lambda x: x.exp(), T(0.1, 0.2)) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 30
    assert events.recorder is None


# -- the explanations -----------------------------------------------------------------------------


def test_a_failure_names_input_element_analytic_and_numeric():  # R101
    weights = lm.tensor([[1.0, 1, 1], [1, 1, 3]])
    apply = function(lambda ctx, a, b: a + b, lambda ctx, grad: (grad, (grad * weights).sum(0)))

    def layer(a, bias):
        return apply(a, bias)

    assert complaint(layer, lm.zeros(2, 3, requires_grad=True), T(4, 5, 6)) == (
        "gradcheck of layer: d output 0[1, 2] / d input 1 'bias'[2]: analytic 3, numeric 1. "
        "The rule and the function do not agree."
    )


def test_ignoring_grad_output_is_said():  # R101
    wrong = function(square, lambda ctx, grad: 2 * ctx.saved_tensors[0])
    assert "backward ignores grad_output" in complaint(wrong, T(1, 2))
    # Of one element, the seed 1 alone would not show it.
    assert "backward ignores grad_output" in complaint(wrong, T(1))


def test_a_rule_that_is_not_linear_in_grad_output_is_said():  # R101
    wrong = function(square, lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad * grad)
    assert "backward is not linear in grad_output" in complaint(wrong, T(1, 2))


def test_the_wrong_axis_of_a_broadcast_is_said():  # R101
    wrong = function(add, lambda ctx, grad: (grad, grad.sum(1)))
    text = complaint(wrong, lm.zeros(3, 3, requires_grad=True), T(1, 2, 3))
    assert "d input 1" in text
    assert (
        "wrong axis of a broadcast: backward sums over axis 1, but broadcasting from (3,) to "
        "(3, 3) stretched axis 0"
    ) in text


def test_the_wrong_axis_is_said_of_a_product_too():  # R101
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, (grad * a).sum(0).reshape(2, 1)

    a = lm.tensor([[1.0, 2], [3, 5]], requires_grad=True)
    text = complaint(function(forward, backward), a, lm.ones(2, 1, requires_grad=True))
    assert "sums over axis 0, but broadcasting from (2, 1) to (2, 2) stretched axis 1" in text


@pytest.mark.parametrize(
    ("layout", "backward"),
    [
        ("transposed", lambda ctx, g: np.frombuffer(g.tobytes("A")).reshape(g.shape)),
        ("sliced", lambda ctx, g: np.lib.stride_tricks.as_strided(g, g.shape, (24, 8)).copy()),
        ("expanded", lambda ctx, g: g * (0 not in g.strides)),
    ],
)
def test_assuming_contiguous_gradients_is_said(layout, backward):  # R101
    wrong = function(lambda ctx, x: x * 1, backward, arrays=True)
    if layout == "sliced":
        right_when_fortran = function(
            lambda ctx, x: x * 1,
            lambda ctx, g: g if g.flags.f_contiguous else backward(ctx, g),
            arrays=True,
        )
        wrong = right_when_fortran
    text = complaint(wrong, lm.ones(2, 3, requires_grad=True))
    assert "backward assumes contiguous gradients" in text
    assert f"{layout} one (strides" in text


def test_an_error_that_only_some_layouts_raise_is_said():  # R101
    def backward(ctx, grad):
        if not grad.flags.c_contiguous:
            raise RuntimeError("view size is not compatible")
        return grad

    text = complaint(
        function(lambda ctx, x: x * 1, backward, arrays=True), lm.ones(2, 3, requires_grad=True)
    )
    assert "backward assumes contiguous gradients" in text
    assert "raises RuntimeError: view size is not compatible" in text


def test_a_function_that_is_not_deterministic_is_said():  # R101
    text = complaint(lambda x: x * lm.rand(2), T(1, 2))
    assert "not deterministic: output 0 differs between two calls" in text


def test_a_rule_that_is_not_deterministic_is_said():  # R101
    wrong = function(square, lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad + 1e-9 * lm.rand(2))
    text = complaint(wrong, T(1, 2))
    assert "not deterministic: the gradient of input 0 differs between two backward passes" in text
    assert gradcheck(wrong, T(1, 2), nondet_tol=1e-8)


def test_float32_is_said():  # R101
    x = lm.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
    assert "input is float32, whose precision is too low" in complaint(lambda x: x.exp(), x)


def test_a_kink_is_said_with_both_slopes():  # R101
    text = complaint(lambda x: x.relu(), T(1, 0))
    assert "d output 0[1] / d input 0 'x'[1]: analytic 0, numeric 0.5" in text
    assert "kink here: the slope is 0 from the left and 1 from the right" in text


def test_a_wrong_rule_is_not_excused_by_a_kink_elsewhere():  # R101
    wrong = function(
        lambda ctx, x: (ctx.save_for_backward(x), x.relu())[1],
        lambda ctx, grad: grad * 1.2 * (ctx.saved_tensors[0] > 0),
    )
    text = complaint(wrong, T(0, 1))
    assert "kink" not in text
    assert "[1] / d input 0[1]: analytic 1.2, numeric 1" in text


def test_a_function_that_is_not_finite_here_is_said():  # R101
    with np.errstate(all="ignore"):
        text = complaint(lambda x: x.log(), T(0, 1))
    assert "not finite within eps" in text


def test_a_lost_gradient_is_said():  # R101
    assert "No gradient arrives at all" in complaint(lambda x: x.detach() * 2, T(1))
    assert "No gradient arrives at all" in complaint(function(square, lambda ctx, g: None), T(1))


def test_a_wrong_sign_and_a_wrong_factor_are_said():  # R101
    wrong = function(square, lambda ctx, grad: -2 * ctx.saved_tensors[0] * grad)
    assert "The sign is wrong, everywhere." in complaint(wrong, T(1, 2))
    wrong = function(square, lambda ctx, grad: ctx.saved_tensors[0] * grad)
    assert "0.5 times the numeric one, everywhere" in complaint(wrong, T(1, 2))


def test_an_argument_changed_by_forward_is_said_and_restored():  # R101
    c = C(1, 2)

    def fn(x, c):
        c._data[0] += 1
        return x * c

    assert "forward changed input 1 'c', an argument" in complaint(fn, T(1, 2), c)
    assert c.tolist() == [1, 2]

    def writes(ctx, x):
        x._data[0] += 1
        return x * 2

    x = T(1, 2)
    assert "forward changed input 0" in complaint(function(writes, lambda ctx, g: 2 * g), x)
    assert x.tolist() == [1, 2]


def test_an_array_argument_changed_by_forward_is_said_and_restored():  # R101
    table = np.ones(2)

    def fn(x, table):
        table[0] += 1
        return x * 2

    assert "forward changed input 1 'table'" in complaint(fn, T(1, 2), table)
    assert table.tolist() == [1, 1]


def test_a_gradient_changed_by_a_rule_on_arrays_is_said():  # R67, R101
    def backward(ctx, grad):
        grad *= 2
        return grad * ctx.saved_tensors[0]

    text = complaint(function(square, backward, arrays=True), T(1, 2))
    assert "Wrong.backward changed a gradient or a saved value" in text


def test_a_gradient_changed_inside_a_graph_is_said():  # R67, R101
    def backward(ctx, grad):
        grad *= 2
        return grad * ctx.saved_tensors[0]

    inner = function(square, backward, arrays=True)
    text = complaint(lambda x: inner(x * 3).exp() * 2, T(0.1, 0.2))
    assert "Wrong.backward changed a gradient" in text


def test_a_saved_value_changed_by_a_rule_on_arrays_is_said():  # R67, R101
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        x *= 2
        return grad * x

    text = complaint(function(square, backward, arrays=True), T(1, 2))
    assert "Wrong.backward changed a gradient or a saved value" in text


def test_a_gradient_changed_by_a_rule_on_tensors_is_said():  # R67, R101
    wrong = function(square, lambda ctx, grad: grad.mul_(2) * ctx.saved_tensors[0])
    assert "Wrong.backward changed a gradient or a saved value" in complaint(wrong, T(1, 2))


def test_an_output_in_a_ctx_attribute_is_still_alive_afterwards():  # R101
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y

    wrong = function(forward, lambda ctx, grad: grad * ctx.y)
    with pytest.warns(lm.errors.CtxAttributeWarning):
        text = complaint(wrong, T(1, 2))
    assert "still alive afterwards: the node of Wrong; a cycle holds it" in text
    assert "ctx.y of Wrong holds an output of its own node" in text


def test_an_output_in_a_list_is_still_alive_afterwards():  # R101
    kept = []

    def fn(x):
        kept.append(x * 2)
        return x * 2

    text = complaint(fn, T(1, 2))
    assert "still alive afterwards: the node of Mul; something outside holds it" in text


def test_an_argument_in_a_list_is_still_alive_afterwards():  # R101
    kept = []

    def fn(x):
        kept.append(x)
        return x * 2

    assert "the argument given as input 0 'x'; something outside" in complaint(fn, T(1, 2))


@pytest.mark.parametrize("arrays", [False, True])
def test_a_gradient_in_a_list_is_still_alive_afterwards(arrays):  # R101
    kept = []
    wrong = function(
        square, lambda ctx, g: (kept.append(g), g * 2 * ctx.saved_tensors[0])[1], arrays=arrays
    )
    assert "still alive afterwards: a gradient given to Wrong.backward" in complaint(wrong, T(1))


# -- the second derivative ------------------------------------------------------------------------


def test_a_lost_second_derivative_is_said():  # R101, R69
    wrong = function(square, lambda ctx, g: 2 * lm.tensor(ctx.saved_tensors[0].numpy()) * g)
    assert gradcheck(wrong, T(1, 2))
    text = complaint(wrong, T(1, 2), check=gradgradcheck)
    assert text.startswith("gradgradcheck of the gradient of Wrong: d output 0[")
    assert "No gradient arrives at all" in text


def test_second_derivatives_by_the_seeds_are_checked_too():  # R101
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad.detach()

    text = complaint(function(square, backward), T(1, 2), check=gradgradcheck)
    assert "grad_outputs[0]" in text


def test_seeds_may_be_given():  # R101
    assert gradgradcheck(Split.apply, T(1, 2), (C(1, 2), C(3, 4)))
    with pytest.raises(ValueError, match="grad_outputs have the shapes"):
        gradgradcheck(Split.apply, T(1, 2), C(1, 2))


def test_second_derivatives_pass_numbers_and_constants_through():  # R101
    assert gradgradcheck(lambda x, n, c: x**n * c, (T(1, 2), 3, C(4, 5)))


# -- misuse ---------------------------------------------------------------------------------------


def test_nothing_to_check_is_a_value_error():  # R101
    with pytest.raises(ValueError, match="no input requires grad"):
        gradcheck(Square.apply, C(1))
    with pytest.raises(ValueError, match="gradgradcheck: no input requires grad"):
        gradgradcheck(Square.apply, C(1))


def test_a_function_without_a_floating_output_is_a_type_error():  # R101
    with pytest.raises(TypeError, match="returned no floating tensor, but NoneType"):
        gradcheck(lambda x: None, T(1))
    with pytest.raises(TypeError, match="returned no floating tensor"):
        gradcheck(lambda x: x > 0, T(1))


def test_an_error_of_the_function_comes_through():  # R101, R25
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gradcheck(fails, T(1))
    assert gc.isenabled()


def test_an_answer_in_place_of_an_error_may_be_asked_for():  # R101
    wrong = function(square, lambda ctx, grad: grad)
    assert gradcheck(wrong, T(1), raise_exception=False) is False
    lost = function(square, lambda ctx, g: 2 * lm.tensor(ctx.saved_tensors[0].numpy()) * g)
    assert gradgradcheck(lost, T(1), raise_exception=False) is False


# -- PyTorch says the same ------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [2.0, 1.0, -2.0, 2.001, 2.1])
def test_verdicts_agree_with_pytorch(factor):  # R101
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")

    class Theirs(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return factor * ctx.saved_tensors[0] * grad

    ours = function(square, lambda ctx, grad: factor * ctx.saved_tensors[0] * grad)
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    want = torch.autograd.gradcheck(Theirs.apply, x, raise_exception=False)
    assert gradcheck(ours, T(1, 2), raise_exception=False) is want
