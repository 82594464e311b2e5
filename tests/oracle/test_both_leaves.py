"""Leaves, accumulation into `.grad`, and modes, on both libraries."""

import threading
import warnings

import pytest
from both import g


def test_a_tensor_made_by_the_user_is_a_leaf(lib):
    x = lib.T(2)
    y = x * 3
    assert (x.is_leaf, x.grad_fn, y.is_leaf) == (True, None, False)


def test_a_leaf_has_no_grad_fn_after_it_was_used(lib):
    x = lib.T(2)
    (x * 3).sum().backward()
    assert x.grad_fn is None


@pytest.mark.parametrize(
    "make", ["zeros", "ones", "full", "eye", "arange", "zeros_like", "ones_like"]
)
def test_every_constructor_gives_a_leaf(lib, make):
    arguments = {
        "full": ((2,), 3.0),
        "arange": (3.0,),
        "zeros_like": (lib.T(1),),
        "ones_like": (lib.T(1),),
    }
    x = getattr(lib, make)(*arguments.get(make, (2,)))
    assert (x.is_leaf, x.requires_grad, x.grad_fn) == (True, False, None)


def test_a_result_of_constants_is_a_leaf(lib):
    assert (lib.C(1) * 2).is_leaf


def test_integers_cannot_require_grad(lib):
    with pytest.raises((RuntimeError, TypeError), match="floating"):
        lib.tensor([1, 2], requires_grad=True)


def test_requires_grad_can_be_switched_on_a_leaf(lib):
    x = lib.C(1)
    assert x.requires_grad_() is x
    (x * 2).sum().backward()
    assert g(x) == [2]
    assert x.requires_grad_(False).requires_grad is False


def test_requires_grad_cannot_be_switched_off_on_a_result(lib):
    with lib.refuses("NotALeafError"):
        (lib.T(1) * 2).requires_grad_(False)


def test_requires_grad_may_be_switched_on_on_a_result(lib):
    y = lib.T(1) * 2
    assert y.requires_grad_() is y


def test_requires_grad_can_be_assigned(lib):
    x = lib.C(1)
    x.requires_grad = True
    (x * 2).sum().backward()
    assert g(x) == [2]


def test_a_leaf_that_no_longer_wants_a_gradient_gets_none(lib):
    x, w = lib.T(1), lib.T(1)
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    assert g(w) == [1]


def test_detach_has_no_history_and_shares_memory(lib):
    x = lib.T(1)
    d = x.detach()
    assert (d.requires_grad, d.is_leaf, d.grad_fn) == (False, True, None)
    d.add_(1)
    assert x.tolist() == [2]


def test_a_detached_tensor_stops_the_gradient(lib):
    x = lib.T(3)
    (x * x.detach()).sum().backward()
    assert g(x) == [3]


def test_clone_keeps_the_history_and_not_the_memory(lib):
    x = lib.T(3)
    y = x.clone()
    (y * y).sum().backward()
    assert g(x) == [6]
    with lib.no_grad():
        y.add_(1)
    assert x.tolist() == [3]


def test_to_another_dtype_keeps_the_history(lib):
    x = lib.T(3)
    y = x.to(lib.float32)
    (y * 2).sum().backward()
    assert (g(x), x.grad.dtype) == ([2], x.dtype)


# -- accumulation ----------------------------------------------------------------------------------


def test_gradients_accumulate_over_passes(lib):
    x = lib.T(1)
    (x * 3).sum().backward()
    (x * 4).sum().backward()
    assert g(x) == [7]


def test_none_clears_the_gradient(lib):
    x = lib.T(1)
    (x * 3).sum().backward()
    x.grad = None
    (x * 4).sum().backward()
    assert g(x) == [4]


def test_the_gradient_can_be_assigned_and_is_added_to(lib):
    x = lib.T(1)
    x.grad = lib.C(10)
    (x * 3).sum().backward()
    assert g(x) == [13]


def test_a_gradient_of_another_shape_cannot_be_assigned(lib):
    with lib.refuses("ValueError"):
        lib.T(1).grad = lib.C(1, 2)


def test_a_number_cannot_be_assigned_as_gradient(lib):
    with lib.refuses("TypeError"):
        lib.T(1).grad = 3.0


def test_a_gradient_with_history_and_one_without_add_up(lib):
    x = lib.T(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x**3).sum().backward(create_graph=True)
    (x * 2).sum().backward()
    assert g(x) == [29]
    x.grad = None


def test_two_leaves_do_not_share_the_gradient_of_a_sum(lib):
    a, b = lib.T(1), lib.T(1)
    (a + b).sum().backward()
    with lib.no_grad():
        a.grad.add_(5)
    assert g(b) == [1]


def test_a_leaf_does_not_share_its_gradient_with_the_seed(lib):
    x, seed = lib.T(1), lib.C(1)
    (x * 1).backward(seed)
    x.backward(seed)
    with lib.no_grad():
        x.grad.add_(5)
    assert seed.tolist() == [1]


def test_a_gradient_that_was_kept_from_pass_one_can_be_read_after_pass_two(lib):
    x = lib.T(1)
    (x * 3).sum().backward()
    first = x.grad.clone()
    (x * 4).sum().backward()
    assert (first.tolist(), g(x)) == ([3], [7])


def test_an_interior_tensor_keeps_no_gradient(lib):
    x = lib.T(1)
    h = x * 3
    (h * 2).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert h.grad is None


def test_retain_grad_keeps_the_gradient_of_an_interior_tensor(lib):
    x = lib.T(2)
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    assert (y.grad.tolist(), g(x)) == ([12], [36])


def test_retain_grad_on_a_leaf_changes_nothing(lib):
    x = lib.T(2)
    x.retain_grad()
    (x * 3).sum().backward()
    assert g(x) == [3]


def test_retain_grad_without_grad_is_refused(lib):
    with lib.refuses("NoGradientError"):
        lib.C(1).retain_grad()


def test_retain_grad_of_two_outputs_keeps_both(lib, functions):
    a, b = functions.Split.apply(lib.T(1))
    a.retain_grad()
    b.retain_grad()
    (a * 10 + b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([10], [1])


def test_a_gradient_of_no_elements_has_no_elements(lib):
    x = lib.tensor([], requires_grad=True)
    (x * 2).sum().backward()
    assert g(x) == []


# -- modes -----------------------------------------------------------------------------------------


def test_no_grad_records_nothing_and_gives_the_mode_back(lib):
    x = lib.T(1)
    with lib.no_grad():
        assert not lib.is_grad_enabled()
        y = x * 2
    assert not y.requires_grad
    assert lib.is_grad_enabled()


def test_no_grad_gives_the_mode_back_after_an_error(lib):
    with pytest.raises(KeyError), lib.no_grad():
        raise KeyError
    assert lib.is_grad_enabled()


def test_enable_grad_inside_no_grad_records(lib):
    x = lib.T(1)
    with lib.no_grad():
        with lib.enable_grad():
            y = x * 2
        z = x * 2
    assert (y.requires_grad, z.requires_grad) == (True, False)


def test_no_grad_is_a_decorator(lib):
    @lib.no_grad()
    def f(x):
        return x * 2

    assert not f(lib.T(1)).requires_grad
    assert lib.is_grad_enabled()


def test_no_grad_decorates_a_generator_for_its_own_steps_only(lib):
    @lib.no_grad()
    def f():
        yield lib.is_grad_enabled()
        yield lib.is_grad_enabled()

    found = []
    for inside in f():
        found.append((inside, lib.is_grad_enabled()))
    assert found == [(False, True), (False, True)]


def test_set_grad_enabled_is_a_context_manager(lib):
    with lib.set_grad_enabled(False):
        assert not lib.is_grad_enabled()
        with lib.set_grad_enabled(True):
            assert lib.is_grad_enabled()
    assert lib.is_grad_enabled()


def test_set_grad_enabled_works_as_a_call(lib):
    lib.set_grad_enabled(False)
    off = lib.is_grad_enabled()
    lib.set_grad_enabled(True)
    assert (off, lib.is_grad_enabled()) == (False, True)


def test_the_mode_of_a_thread_is_its_own(lib):
    seen = []
    with lib.no_grad():
        thread = threading.Thread(target=lambda: seen.append(lib.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_a_leaf_made_under_no_grad_may_require_grad(lib):
    with lib.no_grad():
        x = lib.T(1)
    (x * 2).sum().backward()
    assert g(x) == [2]


def test_a_part_made_under_no_grad_is_a_constant(lib):
    x = lib.T(3)
    with lib.no_grad():
        c = x * 2
    (x * c).sum().backward()
    assert g(x) == [6]


def test_backward_works_under_no_grad(lib):
    x = lib.T(3)
    y = (x * x).sum()
    with lib.no_grad():
        y.backward()
    assert g(x) == [6]


def test_inference_mode_records_nothing(lib):
    x = lib.T(1)
    with lib.inference_mode():
        assert not lib.is_grad_enabled()
        assert not (x * 2).requires_grad


def test_a_tensor_of_inference_mode_cannot_be_saved(lib):
    x = lib.T(1)
    with lib.inference_mode():
        c = lib.C(2) * 1
    with lib.refuses("InferenceTensorError"):
        x * c


def test_a_tensor_of_inference_mode_may_be_used_where_nothing_is_saved(lib):
    x = lib.T(1)
    with lib.inference_mode():
        c = lib.C(2) * 1
    y = x + c
    y.sum().backward()
    assert g(x) == [1]
