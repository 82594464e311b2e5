"""Hooks and saved-tensor hooks, on both libraries: when, in which order, what they may return."""

import gc
import weakref

import pytest
from both import g, rule


def noting(log, name, result=None):
    """A hook that notes its name and the gradient."""

    def hook(grad):
        log.append((name, grad.tolist()))
        return result

    return hook


def test_a_hook_sees_the_complete_gradient_of_the_pass_once(lib):
    log = []
    x = lib.T(1)
    x.register_hook(noting(log, "x"))
    (3 * x + 4 * x).sum().backward()
    (1 * x).sum().backward()
    assert (log, g(x)) == ([("x", [7]), ("x", [1])], [8])


def test_hooks_run_in_the_order_of_registration(lib):
    log = []
    x = lib.T(1)
    x.register_hook(noting(log, "first"))
    x.register_hook(noting(log, "second"))
    (x * 2).sum().backward()
    assert [name for name, _ in log] == ["first", "second"]


def test_a_hook_sees_what_the_one_before_it_returned(lib):
    log = []
    x = lib.T(1)
    x.register_hook(lambda grad: grad * 10)
    x.register_hook(noting(log, "second"))
    (x * 2).sum().backward()
    assert (log, g(x)) == ([("second", [20])], [20])


def test_none_keeps_the_gradient(lib):
    x = lib.T(1)
    x.register_hook(lambda grad: None)
    (x * 2).sum().backward()
    assert g(x) == [2]


def test_a_hook_on_an_interior_tensor_changes_what_goes_on(lib):
    x = lib.T(1)
    h = x * 2
    h.register_hook(lambda grad: grad * 10)
    h.sum().backward()
    assert g(x) == [20]


def test_hooks_run_in_the_order_of_the_traversal(lib):
    log = []
    x = lib.T(1)
    a = x * 2
    b = a * 3
    x.register_hook(noting(log, "x"))
    a.register_hook(noting(log, "a"))
    b.register_hook(noting(log, "b"))
    b.sum().backward()
    assert log == [("b", [1]), ("a", [3]), ("x", [6])]


def test_a_hook_fires_though_its_tensor_is_gone(lib):
    log = []
    x = lib.T(1)
    h = x * 2
    h.register_hook(noting(log, "h"))
    y = h * 3
    del h
    y.sum().backward()
    assert log == [("h", [3])]


def test_a_hook_does_not_fire_in_a_pass_that_does_not_reach_it(lib):
    log = []
    a, b = lib.T(1), lib.T(1)
    a.register_hook(noting(log, "a"))
    (b * 2).sum().backward()
    assert log == []


def test_a_hook_of_a_leaf_fires_in_grad(lib):
    log = []
    x = lib.T(1)
    x.register_hook(lambda grad: (log.append("x"), grad * 10)[1])
    assert lib.grad((x * 2).sum(), x)[0].tolist() == [20]
    assert log == ["x"]


def test_a_hook_of_a_requested_interior_tensor_fires_in_grad(lib):
    x = lib.T(1)
    h = x * 2
    h.register_hook(lambda grad: grad * 10)
    assert lib.grad((h * 3).sum(), h)[0].tolist() == [30]


def test_a_hook_upstream_of_the_request_does_not_fire(lib):
    log = []
    x = lib.T(1)
    h = x * 2
    x.register_hook(noting(log, "x"))
    lib.grad((h * 3).sum(), h)
    assert log == []


def test_retain_grad_takes_what_the_hooks_made_of_the_gradient(lib):
    x = lib.T(1)
    h = x * 2
    h.retain_grad()
    h.register_hook(lambda grad: grad * 10)
    h.sum().backward()
    assert h.grad.tolist() == [10]


def test_removing_a_hook_takes_it_back(lib):
    log = []
    x = lib.T(1)
    handle = x.register_hook(noting(log, "x"))
    handle.remove()
    (x * 2).sum().backward()
    assert log == []


def test_removing_a_hook_twice_is_no_error(lib):
    handle = lib.T(1).register_hook(lambda grad: None)
    handle.remove()
    handle.remove()


def test_removing_takes_back_exactly_its_own_registration(lib):
    log = []
    x = lib.T(1)
    hook = noting(log, "x")
    first = x.register_hook(hook)
    x.register_hook(hook)
    first.remove()
    (x * 2).sum().backward()
    assert log == [("x", [2])]


def test_a_handle_is_a_context_manager(lib):
    log = []
    x = lib.T(1)
    with x.register_hook(noting(log, "x")):
        (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert log == [("x", [2])]


def test_a_hook_on_a_constant_is_refused(lib):
    with lib.refuses("NoGradientError"):
        lib.C(1).register_hook(lambda grad: None)


def test_a_hook_that_returns_a_number_is_refused(lib):
    x = lib.T(1)
    x.register_hook(lambda grad: 5.0)
    with lib.refuses("TypeError"):
        (x * 2).sum().backward()


def test_a_hook_that_returns_another_shape_is_refused(lib):
    x = lib.T(1, 2)
    x.register_hook(lambda grad: grad[:1])
    with lib.refuses("GradientShapeError"):
        (x * 2).sum().backward()


def test_an_error_in_a_hook_comes_through_and_leaves_the_engine_usable(lib):
    def hook(grad):
        raise LookupError("own text")

    x = lib.T(1)
    handle = x.register_hook(hook)
    with pytest.raises(LookupError, match="own text"):
        (x * 2).sum().backward()
    assert g(x) is None
    handle.remove()
    (x * 2).sum().backward()
    assert g(x) == [2]


def test_a_hook_may_call_backward(lib):
    x, z = lib.T(1), lib.T(3)

    def hook(grad):
        with lib.enable_grad():
            (z * z).sum().backward()

    x.register_hook(hook)
    (x * 2).sum().backward()
    assert (g(x), g(z)) == ([2], [6])


def test_a_hook_may_remove_itself(lib):
    log = []
    x = lib.T(1)
    handles = []

    def hook(grad):
        log.append("x")
        handles[0].remove()

    handles.append(x.register_hook(hook))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert log == ["x"]


def test_hooks_of_two_outputs_see_each_its_own_gradient(lib, functions):
    log = []
    a, b = functions.Split.apply(lib.T(1))
    a.register_hook(noting(log, "a"))
    b.register_hook(noting(log, "b"))
    (a * 10 + b * 3).sum().backward()
    assert sorted(log) == [("a", [10]), ("b", [3])]


def test_a_hook_under_create_graph_can_be_differentiated(lib):
    x = lib.T(2)
    y = x * x
    y.register_hook(lambda grad: grad * 3)
    (first,) = lib.grad(y.sum(), x, create_graph=True)
    (second,) = lib.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([12], [6])


def test_the_hook_of_a_tensor_written_in_place_stays_with_the_old_value(lib):
    log = []
    z = lib.T(1) * 1
    z.register_hook(noting(log, "before"))
    z.mul_(5)
    z.register_hook(noting(log, "after"))
    z.sum().backward()
    assert log == [("after", [1]), ("before", [5])]


def test_a_post_accumulate_hook_sees_the_leaf_with_its_gradient(lib):
    log = []
    x = lib.T(1)
    same = id(x)
    x.register_post_accumulate_grad_hook(
        lambda leaf: log.append((id(leaf) == same, leaf.grad.tolist()))
    )
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert log == [(True, [2]), (True, [5])]


def test_a_post_accumulate_hook_may_clear_the_gradient(lib):
    def hook(leaf):
        leaf.grad = None

    x = lib.T(1)
    x.register_post_accumulate_grad_hook(hook)
    (x * 2).sum().backward()
    assert g(x) is None


def test_a_post_accumulate_hook_is_for_leaves(lib):
    with lib.refuses("NotALeafError"):
        (lib.T(1) * 2).register_post_accumulate_grad_hook(lambda leaf: None)


def test_a_post_accumulate_hook_does_not_fire_in_grad(lib):
    log = []
    x = lib.T(1)
    x.register_post_accumulate_grad_hook(lambda leaf: log.append("x"))
    lib.grad((x * 2).sum(), x)
    assert log == []


def test_tensor_hooks_of_a_leaf_run_before_its_post_accumulate_hooks(lib):
    log = []
    x = lib.T(1)
    x.register_post_accumulate_grad_hook(lambda leaf: log.append("post"))
    x.register_hook(lambda grad: log.append("tensor"))
    (x * 2).sum().backward()
    assert log == ["tensor", "post"]


def test_a_node_hook_sees_gradients_of_inputs_and_outputs(lib, functions):
    log = []
    a, b = lib.T(3), lib.T(4)
    y = functions.Mul.apply(a, b)
    y.grad_fn.register_hook(
        lambda inputs, outputs: log.append(([t.item() for t in inputs], [outputs[0].item()]))
    )
    y.sum().backward()
    assert log == [([4, 3], [1])]


def test_a_node_hook_may_replace_the_gradients(lib, functions):
    a, b = lib.T(3), lib.T(4)
    y = functions.Mul.apply(a, b)
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(t * 10 for t in inputs))
    y.sum().backward()
    assert (g(a), g(b)) == ([40], [30])


def test_a_node_prehook_may_replace_the_gradient_before_the_rule(lib, functions):
    x = lib.T(3)
    y = functions.Square.apply(x)
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    y.sum().backward()
    assert g(x) == [60]


def test_tensor_hook_then_prehook_then_rule_then_node_hook(lib):
    log = []
    Look = rule(lib, lambda ctx, grad: (log.append("rule"), grad)[1])
    y = Look.apply(lib.T(1))
    y.grad_fn.register_hook(lambda inputs, outputs: log.append("post"))
    y.grad_fn.register_prehook(lambda outputs: log.append("pre"))
    y.register_hook(lambda grad: log.append("tensor"))
    y.sum().backward()
    assert log == ["tensor", "pre", "rule", "post"]


def test_a_removed_node_hook_does_not_fire(lib):
    log = []
    y = lib.T(1) * 2
    y.grad_fn.register_hook(lambda inputs, outputs: log.append("post")).remove()
    y.grad_fn.register_prehook(lambda outputs: log.append("pre")).remove()
    y.sum().backward()
    assert log == []


def test_a_hook_dies_with_its_removal(lib, no_gc):
    class Big:
        pass

    big = Big()
    seen = weakref.ref(big)
    x = lib.T(1)
    handle = x.register_hook(lambda grad, big=big: None)
    del big
    gc.collect()
    assert seen() is not None
    handle.remove()
    assert seen() is None


# -- saved-tensor hooks ----------------------------------------------------------------------------


def test_what_is_saved_is_packed_and_unpacked_when_read(lib, functions):
    log = []

    def pack(t):
        log.append(("pack", t.tolist()))
        return t.tolist()

    def unpack(kept):
        log.append(("unpack", kept))
        return lib.tensor(kept)

    x = lib.T(3)
    with lib.saved_tensors_hooks(pack, unpack):
        y = functions.Square.apply(x)
    y.sum().backward()
    assert (log, g(x)) == ([("pack", [3]), ("unpack", [3])], [6])


def test_packing_ends_with_the_block(lib, functions):
    log = []
    with lib.saved_tensors_hooks(lambda t: (log.append(1), t.detach())[1], lambda t: t):
        pass
    functions.Square.apply(lib.T(3)).sum().backward()
    assert log == []


def test_the_innermost_hooks_win(lib, functions):
    log = []

    def hooks(name):
        return lib.saved_tensors_hooks(lambda t: (log.append(name), t.detach())[1], lambda t: t)

    with hooks("outer"):
        with hooks("inner"):
            a = functions.Square.apply(lib.T(3))
        b = functions.Square.apply(lib.T(3))
    (a + b).sum().backward()
    assert log == ["inner", "outer"]


def test_what_unpack_returns_is_what_backward_uses(lib, functions):
    x = lib.T(3)
    with lib.saved_tensors_hooks(lambda t: t.detach(), lambda t: t * 10):
        y = functions.Square.apply(x)
    y.sum().backward()
    assert g(x) == [60]


def test_a_saved_output_is_packed_too(lib, functions):
    log = []
    x = lib.tensor([0.0], requires_grad=True)
    with lib.saved_tensors_hooks(lambda t: (log.append(t.tolist()), t.detach())[1], lambda t: t):
        y = functions.Exp.apply(x)
    y.sum().backward()
    assert (log, g(x)) == ([[1]], [1])


def test_second_derivatives_go_through_packed_tensors(lib, functions):
    x = lib.T(3)
    with lib.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), lib.from_numpy):
        y = functions.Square.apply(x)
    (first,) = lib.grad(y.sum(), x, create_graph=True)
    (second,) = lib.grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([6], [2])


def test_unpacking_something_that_is_no_tensor_is_refused(lib):
    with lib.saved_tensors_hooks(lambda t: 3, lambda kept: kept):
        y = lib.T(3).exp()
    with lib.refuses("PackError"):
        y.sum().backward()


def test_pack_must_not_write_what_it_is_given(lib):
    x = lib.T(3)
    with lib.refuses("PackError"), lib.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        x.exp()


def test_hooks_that_are_no_callables_are_refused(lib):
    with lib.refuses("TypeError"), lib.saved_tensors_hooks(1, 2):
        lib.T(3).exp()
