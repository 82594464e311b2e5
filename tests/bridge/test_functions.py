"""The Function contract over the bridge: what lucid_mini promises, on a graph that PyTorch owns."""

import doctest
import gc
import subprocess
import sys
import warnings
import weakref

import functions
import numpy as np
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import lucid_mini as lm
from lucid_mini.autograd import Function, once_differentiable

to_torch, from_torch = lm.bridge.torch.to_torch, lm.bridge.torch.from_torch


def T(*values):
    """A float64 tensor of PyTorch that requires grad."""
    return torch.tensor([float(v) for v in values], dtype=torch.float64, requires_grad=True)


def C(*values):
    return T(*values).detach()


def g(x):
    return None if x.grad is None else x.grad.tolist()


def rule(backward, forward=None, name="Rule", **more):
    """A Function of lucid_mini with the given rule, over the bridge; forward copies by default."""
    body = {
        "forward": staticmethod(forward or (lambda ctx, x, *rest: x * 1)),
        "backward": staticmethod(backward),
        **more,
    }
    return to_torch(type(name, (Function,), body))


# -- calls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Square", "Mul", "Exp", "Split"])
def test_a_function_of_the_tests_has_right_gradients_to_second_order_in_pytorch(name):
    apply = to_torch(getattr(functions, name)).apply
    inputs = (T(0.5, -1.5), T(2, 3)) if name == "Mul" else (T(0.5, -1.5),)
    assert torch.autograd.gradcheck(apply, inputs)
    assert torch.autograd.gradgradcheck(apply, inputs)


def test_the_function_of_the_readme_runs_as_it_is():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = lm.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    x = T(0, 1, 2)
    loss = (to_torch(Exp).apply(x) * x).sum()
    loss.backward()
    assert x.grad.tolist() == pytest.approx([1, 5.43656366, 22.1671683])


@pytest.mark.parametrize("name", ["to_torch", "from_torch"])
def test_a_promised_name_is_there_and_documented(name):
    found = getattr(lm.bridge.torch, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(found, name, globs={})
    assert len(example.examples) > 3
    assert doctest.DocTestRunner().run(example).failed == 0
    assert "bridge" in dir(lm)
    assert dir(lm.bridge) == ["torch"]


def test_the_class_is_made_once_and_leads_back():
    made = to_torch(functions.Square)
    assert made is to_torch(functions.Square)
    assert issubclass(made, torch.autograd.Function)
    assert from_torch(made) is functions.Square
    assert (made.__name__, made.__doc__) == ("Square", functions.Square.__doc__)


def test_the_node_bears_the_name_of_the_function():
    assert to_torch(functions.Square).apply(T(3)).grad_fn.name() == "SquareBackward"


def test_a_third_derivative_is_right():
    x = T(2)
    y = to_torch(functions.Square).apply(x) * x
    for wanted in ([12], [12], [6]):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert y.tolist() == wanted


def test_keywords_bind_to_the_parameters_of_forward():
    def forward(ctx, x, factor=3, *, shift=0):
        ctx.factor = factor
        return x * factor + shift

    x = T(1)
    Line = rule(lambda ctx, grad: {"x": grad * ctx.factor}, forward)
    assert Line.apply(x).tolist() == [3]
    y = Line.apply(shift=7, x=x, factor=5)
    y.sum().backward()
    assert (y.tolist(), g(x)) == ([12], [5])
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'; forward takes"):
        Line.apply(x, wrong=1)


def test_setup_context_is_called_with_inputs_and_output():
    class Cube(Function):
        @staticmethod
        def forward(x, n):
            return x**n

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.n = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return ctx.n * x ** (ctx.n - 1) * grad, None

    x = T(2)
    to_torch(Cube).apply(x, 3).sum().backward()
    assert g(x) == [12]


def test_a_call_under_no_grad_or_on_constants_has_no_history():
    Square = to_torch(functions.Square)
    with torch.no_grad():
        assert Square.apply(T(3)).grad_fn is None
    assert not Square.apply(C(3)).requires_grad


def test_lucid_mini_records_nothing_meanwhile():
    seen = []

    def forward(ctx, x):
        y = x * 2
        seen.append((y.requires_grad, x.requires_grad, lm.is_grad_enabled()))
        return y

    rule(lambda ctx, grad: 2 * grad, forward).apply(T(1)).sum().backward()
    assert seen == [(False, True, False)]
    assert lm.is_grad_enabled()


def test_several_outputs_that_nobody_used_get_zeros_or_none():
    seen = []

    def forward(ctx, x, zeros):
        ctx.set_materialize_grads(zeros)
        return x * 2, x * 3, "text"

    def backward(ctx, a, b, text):
        seen.append((None if b is None else b.tolist(), text))
        return 2 * a, None

    for zeros in (True, False):
        rule(backward, forward).apply(T(1), zeros)[0].sum().backward()
    assert seen == [([0], None), (None, None)]


def test_a_list_of_outputs_is_a_tuple_and_one_returned_twice_has_two_slots():
    def forward(ctx, x):
        y = 2 * x
        return [y, y]

    x = T(1)
    a, b = rule(lambda ctx, a, b: [2 * a + 20 * b], forward).apply(x)
    (a + b).sum().backward()
    assert a is not b
    assert g(x) == [22]


def test_an_input_handed_out_again_is_a_tensor_of_its_own():
    x = T(3)
    y = rule(lambda ctx, grad: 7 * grad, lambda ctx, x: x).apply(x)
    y.sum().backward()
    assert y is not x
    assert g(x) == [7]


def test_what_forward_makes_with_numpy_or_by_itself_goes_over():
    def forward(ctx, x):
        return lm.tensor(np.floor(x.numpy())) + lm.ones(2)

    assert rule(lambda ctx, grad: grad, forward).apply(T(1.5, 2.5)).tolist() == [2, 3]


# -- the ctx ---------------------------------------------------------------------------------------


def test_a_named_save_reaches_torch():
    def forward(ctx, x, i):
        ctx.save_for_backward(x, double=2 * x, i=i, words={"a": 1})
        assert ctx.saved_variables.i == i
        return x * i

    seen = []

    def backward(ctx, grad):
        kept = ctx.saved_variables
        seen.append((kept[0].tolist(), kept.double.tolist(), kept["words"], list(kept)))
        seen.append([t.tolist() for t in ctx.saved_tensors])
        return grad * kept.i, None

    x = T(2)
    y = rule(backward, forward).apply(x, 3)
    assert [t.tolist() for t in y.grad_fn.saved_tensors] == [[2], [4]]
    y.sum().backward()
    assert seen == [([2], [4], {"a": 1}, [0, "double", "i", "words"]), [[2], [4]]]
    assert g(x) == [3]


def test_the_bag_has_three_ways_in_and_a_none_is_a_value():
    def forward(ctx, x):
        ctx.n = None
        ctx.store("k", 5)
        return x * 1

    def backward(ctx, grad):
        assert ctx.load("n", 7) is None
        assert ctx.load("nothing", 7) == 7
        return grad * ctx.k

    x = T(1)
    rule(backward, forward).apply(x).sum().backward()
    assert g(x) == [5]


def test_a_missing_key_of_the_bag_is_told_with_what_there_is():
    y = rule(lambda ctx, grad: ctx.nothing, lambda ctx, x: setattr(ctx, "n", 1) or x * 1).apply(
        T(1)
    )
    with pytest.raises(AttributeError, match=r"nothing is stored under 'nothing'.*it holds n"):
        y.sum().backward()


def test_needs_input_grad_answers_by_position_and_by_name_in_both_methods():
    seen = []

    def forward(ctx, a, b, index=0):
        seen.append((tuple(ctx.needs_input_grad), ctx.needs_input_grad.b))
        return a * b

    def backward(ctx, grad):
        seen.append((tuple(ctx.needs_input_grad), ctx.needs_input_grad["b"]))
        return None, grad

    rule(backward, forward).apply(C(1), T(2)).sum().backward()
    assert seen == [((False, True, False), True)] * 2


def test_an_output_may_be_marked_as_one_without_a_gradient():
    def forward(ctx, x):
        sign, twice = x > 0, x * 2
        ctx.mark_non_differentiable(twice)
        return x * 3, twice, sign

    x = T(1)
    y, twice, sign = rule(lambda ctx, a, b, c: 3 * a, forward).apply(x)
    assert (twice.requires_grad, sign.requires_grad) == (False, False)
    y.sum().backward()
    assert g(x) == [3]


def test_an_input_may_be_written_in_place():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    x = T(5)
    z = x * 1
    y = rule(lambda ctx, grad: 2 * grad, forward).apply(z)
    assert y is z
    assert z._version == 2  # the write and the mark, each counted by PyTorch
    y.sum().backward()
    assert (z.tolist(), g(x)) == ([10], [2])


def test_a_write_that_was_not_marked_is_refused():
    with pytest.raises(lm.errors.CtxUsageError, match="'x' was modified in place but not marked"):
        rule(lambda ctx, grad: grad, lambda ctx, x: x.mul_(2)).apply(T(5) * 1)


def test_a_leaf_is_not_written_and_keeps_its_value():
    x = T(5)

    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    Double = rule(lambda ctx, grad: 2 * grad, forward)
    with pytest.raises(lm.errors.LeafInPlaceError):
        Double.apply(x)
    assert x.tolist() == [5]
    with torch.no_grad():
        Double.apply(x)
    assert x.tolist() == [10]


@pytest.mark.parametrize("method", ["save_for_backward", "mark_dirty", "set_materialize_grads"])
def test_what_belongs_into_forward_is_refused_in_backward(method):
    y = rule(lambda ctx, grad: getattr(ctx, method)(True)).apply(T(1))
    with pytest.raises(lm.errors.CtxUsageError, match="works only inside forward"):
        y.sum().backward()


def test_saving_a_number_by_position_is_refused_with_the_way_to_do_it():
    with pytest.raises(TypeError, match=r"argument 1 is an int. Save it by keyword"):
        rule(lambda ctx, grad: grad, lambda ctx, x: ctx.save_for_backward(x, 3) or x * 1).apply(
            T(1)
        )


def test_a_tensor_in_the_bag_warns_once():
    def forward(ctx, x):
        ctx.y = x * 2
        return ctx.y

    Keep = rule(lambda ctx, grad: 2 * grad, forward)
    with pytest.warns(lm.errors.CtxAttributeWarning, match=r"Rule keeps an output in ctx\.y"):
        Keep.apply(T(1))


def test_a_ctx_that_is_kept_says_that_pytorch_gives_saved_tensors_in_backward_only():
    kept = []

    def forward(ctx, x):
        ctx.save_for_backward(x)
        kept.append(ctx)
        return x * 1

    y = rule(lambda ctx, grad: grad, forward).apply(T(1))
    with pytest.raises(lm.errors.GraphFreedError, match="read while its backward does not run"):
        kept[0].saved_tensors  # noqa: B018 - reading it is what raises
    y.sum().backward()


# -- what the rule returns -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (
            lambda grad: grad.sum(),
            "GradientShapeError",
            r"shape \(\) for 'x', which has shape \(2,",
        ),
        (lambda grad: grad.numpy(), "TypeError", "an ndarray as the gradient of 'x'"),
        (lambda grad: 1.0, "TypeError", "a float as the gradient of 'x'"),
        (lambda grad: (grad, grad), "GradientCountError", r"2 gradients.*1 argument \(x\)"),
        (lambda grad: {"y": grad}, "GradientCountError", "a gradient for y.*Valid names: x"),
    ],
)
def test_a_wrong_gradient_is_refused_as_in_lucid_mini(returned, error, text):
    kind = getattr(lm.errors, error, None) or TypeError
    x = T(1, 2)
    y = rule(lambda ctx, grad: returned(grad)).apply(x)
    with pytest.raises(kind, match=text):
        y.sum().backward()
    assert x.grad is None


def test_a_gradient_for_what_is_no_tensor_is_refused():
    y = rule(lambda ctx, grad: (grad, grad)).apply(T(1), 5)
    with pytest.raises(lm.errors.GradientCountError, match=r"'rest\[0\]', which is not a tensor"):
        y.sum().backward()


def test_surplus_nones_and_a_missing_gradient_are_no_error():
    x, y = T(1), T(2)
    rule(lambda ctx, grad: (grad, None, None, None)).apply(x, y).sum().backward()
    assert (g(x), g(y)) == ([1], None)


def test_a_function_without_backward_says_so():
    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            return x / 2

    y = to_torch(Half).apply(T(1))
    with pytest.raises(NotImplementedError, match="Half has no backward"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (lambda ctx, grad: grad.mul_(2), "a gradient that the backward pass handed out"),
        (lambda ctx, grad: ctx.saved_tensors[0].mul_(2), "saved, while its backward runs"),
    ],
)
def test_what_a_rule_was_given_cannot_be_written(write, text):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    y = rule(write, forward).apply(T(1))
    with pytest.raises(lm.errors.AutogradError, match=text):
        y.sum().backward()


def test_a_rule_marked_once_differentiable_raises_when_differentiated_in_a_chain_too():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return lm.tensor(2 * x.numpy() * grad.numpy())

    x = T(3)
    Square = rule(backward, forward, name="Square")
    (first,) = torch.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
    assert first.tolist() == [6]
    with pytest.raises(lm.errors.AutogradError, match=r"Square\.backward is marked once_differ"):
        torch.autograd.grad((first * x).sum(), x)
    Square.apply(x).sum().backward()
    assert g(x) == [6]


def test_an_intermediate_that_was_saved_and_is_differentiated_twice_warns():
    def forward(ctx, x):
        double = 2 * x
        ctx.save_for_backward(double)
        return x * x

    x = T(3)
    y = rule(lambda ctx, grad: grad * ctx.saved_tensors[0], forward).apply(x)
    with pytest.warns(lm.errors.SecondDerivativeWarning, match=r"Rule saved an intermediate") as w:
        torch.autograd.grad(y.sum(), x, create_graph=True)
    assert w[0].filename == __file__


def test_a_rule_on_arrays_gets_numpy_s_dialect_and_may_return_an_array():
    seen = []

    def backward(ctx, grad):
        seen.append((grad.size, grad.dtype, grad.T.shape))
        return np.where(grad > 0, grad, 0.0), np.zeros((2, 1))

    a, b = C(1, 2).reshape(1, 2).requires_grad_(), C(1, 1).reshape(2, 1).requires_grad_()
    rule(backward, arrays=True).apply(a, b).sum().backward()
    assert seen == [(2, np.dtype(float), (2, 1))]
    assert (g(a), g(b)) == ([[1, 1]], [[0], [0]])


@pytest.mark.parametrize(
    "constant", [lambda x: x.detach(), lm.no_grad()(lambda x: x * 1)], ids=["detach", "no_grad"]
)
def test_what_a_rule_takes_for_a_constant_is_one_for_pytorch(constant):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * constant(x) * grad

    x = T(2)
    (first,) = torch.autograd.grad(rule(backward, forward).apply(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([12], [6])  # and not 12: one x is a constant
    assert torch.is_grad_enabled()


def test_a_constant_that_was_saved_has_no_history():
    def forward(ctx, x):
        ctx.save_for_backward(x.detach())
        return x * x

    x = T(2)
    y = rule(lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad, forward).apply(x)
    assert not y.grad_fn.saved_tensors[0].requires_grad


def test_a_tensor_shows_its_numbers_in_forward():
    seen = []
    Look = rule(lambda ctx, grad: grad, lambda ctx, x: (seen.append(repr(x)), x * 1)[1])
    Look.apply(T(3))
    Look.apply(T(3) * 1)
    assert seen == ["tensor([3.], requires_grad=True)", "tensor([3.], grad_fn=<PyTorchBackward>)"]


def test_an_error_of_a_rule_says_whose_it_is():
    y = rule(lambda ctx, grad: grad.sum(), name="Half").apply(T(1, 2))
    with pytest.raises(lm.errors.GradientShapeError) as info:
        y.sum().backward()
    assert info.value.__notes__ == ["Raised in Half.backward, which PyTorch's engine runs."]


def in_place(write):
    """A rule that computes exp(x) * grad, and then writes into what it has made."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        made = x.exp()
        write(made)
        return made * grad

    return rule(backward, forward)


@pytest.mark.parametrize(
    ("write", "first", "second"),
    [
        (lambda made: made.mul_(made), np.exp(1), 2 * np.exp(1)),
        (lambda made: made.__setitem__(0, 5.0), 5, 0),
    ],
)
def test_a_recorded_rule_may_write_into_what_it_has_made(write, first, second):
    x = T(0.5)
    (one,) = torch.autograd.grad(in_place(write).apply(x).sum(), x, create_graph=True)
    (two,) = torch.autograd.grad(one.sum(), x)
    assert (one.tolist(), two.tolist()) == (pytest.approx([first]), pytest.approx([second]))


def test_a_recorded_write_through_a_view_reaches_its_base_and_is_refused_where_it_spoils():
    x = T(0.5)
    Written = in_place(lambda made: made.reshape(1, 1)[0].mul_(3))
    (one,) = torch.autograd.grad(Written.apply(x).sum(), x, create_graph=True)
    assert one.tolist() == pytest.approx([3 * np.exp(0.5)])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(one.sum(), x)


def test_a_capture_is_warned_of_in_pytorch_too():
    def forward(ctx, x):
        nonlocal z
        z = x * 2
        return z * 1

    z = None
    Leak = rule(lambda ctx, grad: grad * z, forward, name="Leak")
    with pytest.warns(lm.errors.ClosureCaptureWarning, match=r"Leak.*closure cell 'z'"):
        Leak.apply(T(1))


# -- the arguments ---------------------------------------------------------------------------------


def test_a_tensor_hidden_in_a_list_is_refused():
    with pytest.raises(TypeError, match="'xs' is a list that holds a tensor which requires grad"):
        rule(lambda ctx, grad: grad, lambda ctx, x, xs: x * 1).apply(T(1), [{"a": T(1)}])


def test_a_tensor_of_the_wrong_library_is_refused_on_either_side():
    with pytest.raises(TypeError, match="'x' is a tensor of lucid_mini"):
        to_torch(functions.Square).apply(lm.ones(2))
    with pytest.raises(
        TypeError, match=r"'x' of Square is a tensor of PyTorch.*to_torch\(Square\)"
    ):
        functions.Square.apply(T(1))
    with pytest.raises(TypeError, match="'b' of Mul is a tensor of PyTorch"):
        lm.ones(1) * torch.nn.Parameter(T(1))
    with pytest.raises(TypeError, match="'a' of Mul is a tensor of PyTorch"):
        T(1) * lm.ones(1)
    with pytest.raises(TypeError, match="was given tensors of both libraries"):
        torch.maximum(T(1), lm.ones(1))


def test_a_name_of_numpy_that_pytorch_has_not_is_a_sentence():
    Sort = rule(lambda ctx, grad: grad, lambda ctx, x: lm.tensor(np.sort(x._data)))
    with pytest.raises(TypeError, match=r"np\.sort does not reach PyTorch.*torch\.sort"):
        Sort.apply(T(1))


def test_bfloat16_is_refused_because_numpy_has_no_such_dtype():
    with pytest.raises(TypeError, match=r"torch\.bfloat16 has no dtype in NumPy"):
        to_torch(functions.Square).apply(torch.ones(2, dtype=torch.bfloat16))


def test_float32_stays_float32():
    x = torch.ones(3, requires_grad=True)
    y = to_torch(functions.Mul).apply(x, x)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype) == (torch.float32, torch.float32)


def test_a_gradient_has_the_dtype_of_its_argument():
    x = torch.ones(2, requires_grad=True)
    rule(lambda ctx, grad: grad.to(float), lambda ctx, x: x.to(float)).apply(x).sum().backward()
    assert x.grad.dtype == torch.float32


def test_tensors_need_not_be_contiguous():
    x = torch.arange(12.0, dtype=torch.float64).reshape(3, 4).t()[::2].requires_grad_()
    to_torch(functions.Square).apply(x).sum().backward()
    assert torch.equal(x.grad, 2 * x.detach())


def test_shapes_are_found_without_numbers_on_the_meta_device():
    x = torch.empty(2, 3, device="meta", requires_grad=True)
    y = to_torch(lm.ops.reduce.Softmax).apply(x, 1)
    y.sum().backward()
    assert (y.device.type, tuple(y.shape), tuple(x.grad.shape)) == ("meta", (2, 3), (2, 3))


# -- PyTorch's own business ------------------------------------------------------------------------


def test_pytorch_releases_what_was_saved_and_refuses_a_second_backward():
    x = T(3)
    y = to_torch(functions.Square).apply(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert g(x) == [12]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


def test_pytorch_notices_a_write_into_what_was_saved():
    z = T(3) * 1
    y = to_torch(functions.Square).apply(z)
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_on_saved_tensors_see_what_was_saved():
    packed = []

    def pack(t):
        packed.append(t.tolist())
        return t.numpy().copy() if not t.requires_grad else t.detach().numpy().copy()

    x = T(3)
    with saved_tensors_hooks(pack, torch.from_numpy):
        y = to_torch(functions.Exp).apply(x * 1)
    y.sum().backward()
    assert packed[-1] == y.tolist()
    assert x.grad.tolist() == pytest.approx(y.tolist())


def test_a_checkpoint_runs_the_function_again():
    calls = []

    def forward(ctx, x):
        calls.append(1)
        ctx.save_for_backward(x)
        return x * x

    Square = rule(lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad, forward)
    x = T(3)
    checkpoint(Square.apply, x, use_reentrant=False).sum().backward()
    assert (g(x), len(calls)) == ([6], 2)


def test_parameters_of_a_module_are_trained():
    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, x):
            return to_torch(functions.Mul).apply(self.w, x)

    line = Line()
    optimizer = torch.optim.SGD(line.parameters(), lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        ((line(C(2)) - 6) ** 2).sum().backward()
        optimizer.step()
    assert line.w.item() == pytest.approx(3)


def test_nothing_of_the_bridge_keeps_an_output_alive():
    gc.collect()
    gc.disable()
    try:
        y = to_torch(functions.Exp).apply(T(1))
        node = weakref.ref(y.grad_fn)
        kept = weakref.ref(y)
        y.sum().backward()
        del y
        assert kept() is None
        assert node() is None
    finally:
        gc.enable()


def test_a_trace_of_lucid_mini_does_not_count_what_pytorch_owns():
    with lm.lifetime.trace() as t:
        to_torch(functions.Square).apply(T(3)).sum().backward()
    assert t.events == []


def test_an_error_in_a_rule_keeps_its_type_and_lucid_mini_its_mode():
    def backward(ctx, grad):
        raise KeyError("own text")

    y = rule(backward).apply(T(1))
    with pytest.raises(KeyError, match="own text"):
        y.sum().backward()
    assert lm.is_grad_enabled()


# -- the other way ---------------------------------------------------------------------------------


class TorchTanh(torch.autograd.Function):
    """tanh, as one writes it for PyTorch."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        ctx.set_materialize_grads(False)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y**2)


def test_a_function_of_pytorch_runs_in_lucid_mini():
    Tanh = from_torch(TorchTanh)
    x = lm.tensor([0.5, -1.0], requires_grad=True)
    assert issubclass(Tanh, Function)
    assert Tanh.apply(x).grad_fn.name == "TorchTanhBackward"
    assert lm.gradcheck(Tanh.apply, (x,))
    assert lm.gradgradcheck(Tanh.apply, (x,))
    assert to_torch(Tanh) is TorchTanh


def test_setup_context_vjp_and_once_differentiable_come_along():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def vjp(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    x = lm.tensor([2.0], requires_grad=True)
    (first,) = lm.autograd.grad(from_torch(Cube).apply(x), x, create_graph=True)
    assert first.tolist() == [12]
    with pytest.raises(lm.errors.AutogradError, match="once_differentiable"):
        lm.autograd.grad(first, x)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (torch.erf, r"torch\.erf has no like in lucid_mini"),
        (lambda x: x.erf(), r"Erf\.forward uses x\.erf, which tensors of lucid_mini have not"),
        (lambda x: x + torch.ones(1), "tensors of both libraries|is a tensor of PyTorch"),
    ],
)
def test_a_body_that_uses_a_name_of_pytorch_alone_is_refused_with_it(body, text):
    made = type(
        "Erf", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: body(x))}
    )
    with pytest.raises(TypeError, match=text):
        from_torch(made).apply(lm.ones(1))


def test_a_version_of_pytorch_that_hides_the_mark_gets_one_sentence(monkeypatch):
    monkeypatch.setattr("lucid_mini.bridge.from_torch._ONCE", None)
    with pytest.warns(
        RuntimeWarning, match=r"does not show whether TorchTanh\.backward is once"
    ) as w:
        Tanh = from_torch(TorchTanh)
    assert [warning.filename for warning in w] == [__file__]
    assert Tanh.apply(lm.tensor([0.0])).tolist() == [0]


def test_only_classes_of_the_right_kind_are_taken():
    call = lm.autograd.autograd_function(lambda ctx, x: x * 1, lambda ctx, grad: grad)
    with pytest.raises(TypeError, match=r"to_torch takes a subclass.*not Lambda.*\.function"):
        to_torch(call)
    assert to_torch(call.function).apply(T(1)).tolist() == [1]
    with pytest.raises(TypeError, match="to_torch takes a subclass"):
        to_torch(TorchTanh)
    with pytest.raises(TypeError, match="from_torch takes a subclass"):
        from_torch(functions.Square)


# -- where PyTorch is not --------------------------------------------------------------------------


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_pytorch_is_imported_only_when_the_bridge_is_asked_for():
    code = "import sys, lucid_mini as lm; lm.bridge; print('torch' in sys.modules)"
    assert run(code) == "False"
    assert run("import lucid_mini as lm; print(lm.bridge.torch.to_torch.__name__)") == "to_torch"


def test_without_pytorch_one_sentence_says_how_to_get_it():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import lucid_mini as lm\n"
        "try: lm.bridge.torch\n"
        "except ImportError as error: print(error)"
    )
    assert "pip install 'lucid-mini[torch]'" in run(code)


def test_the_calls_of_this_file_warn_of_nothing_else():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = T(3)
        to_torch(functions.Square).apply(x).sum().backward()
    assert g(x) == [6]
