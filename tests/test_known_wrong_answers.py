"""Wrong answers that frameworks are known to give, mostly in silence, and what is given here."""

import warnings

import numpy as np
import pytest
from functions import C, Square, T, g

import lucid_mini as lm
from lucid_mini.autograd import Function, grad, once_differentiable, saved_tensors_hooks
from lucid_mini.errors import (
    AutogradError,
    CtxAttributeWarning,
    GradientCountError,
    GraphFreedError,
    LeafInPlaceError,
    SecondDerivativeWarning,
    VersionMismatchError,
)


def rule(backward, forward=lambda ctx, x: x * 1, **body):
    """A Function with the given rule."""
    body |= {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Rule", (Function,), body)


# -- values changed behind the rule's back --------------------------------------------------------


def test_a_tensor_kept_as_attribute_and_mutated_was_warned_of_when_it_was_kept():
    def forward(ctx, x):
        ctx.x = x
        return x * x

    Keeps = rule(lambda ctx, grad: 2 * ctx.x * grad, forward)
    z = T(3) * 1
    with pytest.warns(CtxAttributeWarning, match=r"ctx\.x.*save_for_backward"):
        y = Keeps.apply(z)
    z.mul_(10)
    y.sum().backward()  # 60 in place of 6: no version is checked, and that is what was warned of


def test_a_saved_tensor_that_is_mutated_is_an_error():
    z = T(3) * 1
    y = Square.apply(z)
    z.mul_(10)
    with pytest.raises(VersionMismatchError):
        y.sum().backward()


def test_no_array_is_handed_out_through_which_a_saved_value_can_be_written():
    x = T(2, 4)
    y = (x * x).sum()
    for array in (x.numpy(), x.data, np.asarray(x), np.array(x, copy=None), x.detach().numpy()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 100
    y.backward()
    assert g(x) == [4, 8]


def test_an_array_that_made_a_tensor_is_not_its_memory():
    array = np.array([3.0])
    x = lm.tensor(array, requires_grad=True)
    y = (x * x).sum()
    array[0] = 100
    y.backward()
    assert g(x) == [6]


@pytest.mark.parametrize("arrays", [False, True])
def test_a_rule_that_writes_its_incoming_gradient_changes_it_for_nobody(arrays):
    def backward(ctx, grad):
        grad *= 100
        return grad

    x = T(1)
    h = x * 1
    y = rule(backward, arrays=arrays).apply(h)
    if arrays:  # arrays are protected where a check runs
        with lm.autograd.detect_anomaly(), pytest.raises(ValueError, match="read-only"):
            (y + h).sum().backward()
    else:
        with pytest.raises(AutogradError, match=r"clone\(\)"):
            (y + h).sum().backward()
    assert g(x) is None


def test_packing_does_not_switch_the_version_check_off():
    z = T(3) * 1
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = Square.apply(z)
    z.mul_(10)
    with pytest.raises(VersionMismatchError):
        y.sum().backward()


def test_a_leaf_cannot_be_written_after_its_first_use():
    x = T(3)
    y = (x * x).sum()
    with pytest.raises(LeafInPlaceError):
        x.mul_(10)
    y.backward()
    assert (x.tolist(), g(x)) == ([3], [6])


# -- second derivatives ---------------------------------------------------------------------------


def test_an_intermediate_that_was_saved_is_warned_of_when_it_is_differentiated_twice():
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(x, square)
        return square * x

    def backward(ctx, grad):
        _, square = ctx.saved_tensors
        return 3 * square * grad

    x = T(2)
    with pytest.warns(SecondDerivativeWarning, match="intermediate"):
        grad(rule(backward, forward).apply(x).sum(), x, create_graph=True)


@pytest.mark.parametrize("chain", [lambda y: y, lambda y: y * y, lambda y: y + 1])
def test_once_differentiable_refuses_wherever_it_stands_in_a_chain(chain):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    x = T(3)
    y = chain(rule(backward, forward).apply(x * 1)).sum()
    (first,) = grad(y + (x * x * x).sum(), x, create_graph=True)
    with pytest.raises(AutogradError, match="once_differentiable"):
        grad(first.sum(), x)


# -- gradients that get lost ----------------------------------------------------------------------


def test_a_list_of_outputs_keeps_its_gradients():
    x = T(1)
    a, b = rule(lambda ctx, a, b: 2 * a + 3 * b, lambda ctx, x: [2 * x, 3 * x]).apply(x)
    (a + b).sum().backward()
    assert g(x) == [5]


def test_a_tensor_given_by_keyword_keeps_its_gradient():
    def forward(ctx, x, *, w):
        ctx.save_for_backward(x, w)
        return x * w

    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad * w, grad * x

    x, w = T(2), T(5)
    rule(backward, forward).apply(x, w=w).sum().backward()
    assert (g(x), g(w)) == ([5], [2])


def test_a_tensor_in_a_list_is_refused_rather_than_lost():
    with pytest.raises(TypeError, match="separate arguments"):
        rule(lambda ctx, grad: None, lambda ctx, parts: parts[0] * 1).apply([T(1)])


def test_a_misnamed_gradient_is_an_error_and_no_zero():
    x = T(1)
    y = rule(lambda ctx, grad: {"X": grad}).apply(x)
    with pytest.raises(GradientCountError, match=r"X.*Valid names: x"):
        y.sum().backward()
    assert g(x) is None


def test_a_bias_of_one_dimension_gets_its_gradient_summed():
    x, w, b = lm.ones(4, 2), lm.ones(2, 3, requires_grad=True), lm.zeros(3, requires_grad=True)
    (x @ w + b).sum().backward()
    assert (g(b), g(w)) == ([4, 4, 4], [[4, 4, 4]] * 2)


@pytest.mark.parametrize(
    "take",
    [
        lambda x, at: x[at],
        lambda x, at: x.gather(0, at),
        lambda x, at: x.index_select(0, at),
        lambda x, at: x[at.tolist()],
    ],
)
def test_an_index_that_repeats_adds_its_gradients(take):
    x = T(1, 2, 3)
    take(x, lm.tensor([0, 0, 0, 2])).sum().backward()
    assert g(x) == [3, 0, 1]


def test_only_the_last_of_equal_indices_gets_the_gradient_of_a_write():
    x, y = T(1, 2, 3) * 1, T(10, 20)
    x[lm.tensor([1, 1])] = y
    x.sum().backward()
    assert (x.tolist(), g(y)) == ([1, 20, 3], [0, 1])


# -- gradients that are counted twice, or too early -----------------------------------------------


def test_x_plus_x_plus_x_plus_x_has_the_derivative_four():
    x = T(3)
    (x + x + x + x).sum().backward()
    assert g(x) == [4]
    (h := x * 1).retain_grad()
    (h + h + h + h).sum().backward()
    assert h.grad.tolist() == [4]


def test_a_gradient_returned_for_two_arguments_is_not_shared():
    a, b = T(1), T(1)
    add = rule(lambda ctx, grad: (grad, grad), lambda ctx, a, b: a + b)
    for _ in range(2):
        add.apply(a, b).sum().backward()
    assert not np.shares_memory(a.grad.numpy(), b.grad.numpy())
    a.grad.mul_(100)
    assert (g(a), g(b)) == ([200], [2])


def test_a_second_backward_is_an_error_and_neither_wrong_nor_silent():
    x = T(3)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(GraphFreedError, match="retain_graph=True"):
        y.backward()
    assert g(x) == [6]


def test_a_hook_is_not_fired_by_a_backward_that_does_not_reach_it():
    seen = []
    x, other = T(1), T(1)
    h = x * 2
    for t in (x, h):
        t.register_hook(seen.append)
    (other * 2).sum().backward()
    assert seen == []


def test_what_is_marked_non_differentiable_has_no_gradient():
    def forward(ctx, x):
        a, b = x * 2, x * 3
        ctx.mark_non_differentiable(b)
        return a, b

    x = T(1)
    a, b = rule(lambda ctx, ga, gb: 2 * ga + 3 * gb, forward).apply(x)
    assert (b.requires_grad, b.grad_fn) == (False, None)
    (a + b).sum().backward()
    assert g(x) == [2]


# -- numbers --------------------------------------------------------------------------------------

CUTS = {
    "relu": lambda x: x.relu(),
    "clamp": lambda x: x.clamp(0.5, None),
    "clamp_": lambda x: (x * 1).clamp_(0.5, None),
    "where": lambda x: lm.where(x > 0, x, lm.zeros_like(x)),
    "masked_fill": lambda x: x.masked_fill(x <= 0, 0.0),
    "maximum": lambda x: lm.maximum(x, lm.full_like(x, 0.5)),
    "amax": lambda x: lm.stack([x, lm.full_like(x, 0.5)]).amax(0),
    "write": lambda x: zeroed(x * 1),
}


def zeroed(z):
    z[z.detach() <= 0] = 0.0
    return z


@pytest.mark.parametrize("count", [2, 10_000])
@pytest.mark.parametrize("cut", CUTS)
def test_an_infinite_gradient_that_is_cut_off_leaves_zero_and_no_nan(cut, count):
    x = lm.tensor([-1.0, 1.0] * (count // 2), requires_grad=True)
    seed = lm.tensor([np.inf, 1.0] * (count // 2))
    y = CUTS[cut](x)
    (second_way,) = grad(y, x, seed, create_graph=True)
    y.backward(seed)
    assert g(x) == [0, 1] * (count // 2)
    assert second_way.tolist() == g(x)


def test_equal_elements_have_no_nan_as_gradient_of_their_deviation():
    x = T(1, 1, 1)
    x.std().backward()
    assert g(x) == [0, 0, 0]


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x * 2.5,
        lambda x: x / 3,
        lambda x: x**2.0,
        lambda x: 1.0 - x,
        lambda x: x * lm.tensor(2.5),
        lambda x: x.mean(),
        lambda x: x.var(),
        lambda x: x.relu() + x.clamp(0.0, 1.0),
        lambda x: lm.where(x > 0, x, 0.0),
        lambda x: x.softmax(0),
        lambda x: x.masked_fill(x > 0, 1.5),
        lambda x: (x * 1).add_(lm.ones(2)),
        lambda x: lm.cat([x, x]),
        lambda x: x[lm.tensor([0, 0])],
    ],
)
def test_float32_stays_float32_in_value_and_gradient(compute):
    x = lm.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
    y = compute(x)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype) == (np.float32, np.float32)


def many(n):
    return [lm.ones(100, requires_grad=True) for _ in range(n)]


SPREAD = {
    "cat": lambda n: (lm.cat, many(n)),
    "stack": lambda n: (lm.stack, many(n)),
    "split": lambda n: (lambda parts: sum(parts[0].split(100)), [lm.cat(many(n))]),
    "unbind": lambda n: (lambda parts: sum(parts[0].unbind()), [lm.stack(many(n))]),
    "iterating": lambda n: (lambda parts: sum(parts[0]), [lm.stack(many(n))]),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", SPREAD)
def test_the_gradient_of_n_parts_costs_n_and_not_n_squared(kind, order):
    def bytes_made(n):
        join, parts = SPREAD[kind](n)
        y = join(parts)
        y = (y * y * y).sum()
        with lm.lifetime.trace() as t:
            first = grad(y, parts, create_graph=order == 2)
            if order == 2:
                grad([(d * d).sum() for d in first], parts)
        return sum(event.nbytes for event in t.events if event.kind == "alloc")

    assert bytes_made(80) < 16 * bytes_made(10)


def test_building_a_cat_from_parts_one_after_another_gives_each_its_gradient():
    parts = [T(i) for i in range(5)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (lm.cat(parts) * C(0, 1, 2, 3, 4)).sum().backward()
    assert [g(p) for p in parts] == [[0], [1], [2], [3], [4]]
