"""Hooks on tensors and nodes: order, what they may return, how long they live (rows R92 to R98)."""

import functools
import warnings
import weakref

import pytest
from functions import C, Mul, Split, Square, T, g

import lucid_mini as lm
from lucid_mini.errors import (
    AutogradError,
    GradientCountError,
    GradientShapeError,
    HookCaptureWarning,
    NoGradientError,
    NotALeafError,
)


def noting(seen):
    """A hook that notes the gradient and changes nothing."""
    return lambda grad: seen.append(grad.tolist())


# -- hooks on tensors -----------------------------------------------------------------------------


def test_a_hook_runs_once_on_the_complete_gradient_of_this_pass():  # R92
    x, seen = T(1), []
    x.register_hook(noting(seen))
    (3 * x + 4 * x).backward()
    (1 * x).backward()
    assert seen == [[7.0], [1.0]]
    assert g(x) == [8.0]


def test_a_hook_on_an_interior_tensor_sees_its_complete_gradient_too():  # R92
    x, seen = T(1), []
    y = x * 2
    y.register_hook(noting(seen))
    (3 * y + 4 * y).backward()
    assert seen == [[7.0]]


def test_hooks_run_in_traversal_order_then_in_that_of_registration():  # R93
    x, seen = T(1), []
    y = x * 2
    z = y * 3
    for tensor, name in ((x, "x"), (z, "z1"), (y, "y"), (z, "z2")):
        tensor.register_hook(lambda grad, name=name: seen.append(name))
    z.backward()
    assert seen == ["z1", "z2", "y", "x"]


def test_each_hook_sees_the_result_of_the_one_before():  # R93
    x, seen = T(1), []
    x.register_hook(lambda grad: grad * 10)
    x.register_hook(noting(seen))
    x.register_hook(lambda grad: grad + 1)
    (x * 3).backward()
    assert seen == [[30.0]]
    assert g(x) == [31.0]


def test_a_returned_tensor_replaces_the_gradient_also_of_one_output_of_several():  # R94
    x = T(1)
    a, b = Split.apply(x)
    a.register_hook(lambda grad: grad * 10)
    b.register_hook(lambda grad: None)
    (a + b).backward()
    assert g(x) == [23.0]


def test_another_type_is_refused_and_the_hook_named():  # R94
    def triple(grad):
        return 3.0

    x = T(1)
    x.register_hook(triple)
    with pytest.raises(TypeError, match=r"triple returned a float; it must return a tensor"):
        (x * 2).backward()
    assert g(x) is None


def test_another_shape_is_refused_and_the_hook_named():  # R94
    x = T(1, 2)
    x.register_hook(lambda grad: grad.sum())
    with pytest.raises(
        GradientShapeError, match=r"lambda> returned .* shape \(\) for one of shape"
    ):
        (x * 2).sum().backward()
    assert g(x) is None


def test_hooks_fire_only_for_tensors_that_the_pass_reaches():  # R95
    x, other, seen = T(1), T(2), []
    x.register_hook(noting(seen))
    other.register_hook(noting(seen))
    unused = other * 5
    unused.register_hook(noting(seen))
    (x * 3).backward()
    assert seen == [[3.0]]


def test_a_hook_on_an_unused_output_does_not_fire():  # R95
    x, seen = T(1), []
    a, b = Split.apply(x)
    b.register_hook(noting(seen))
    a.backward()
    assert seen == []


def test_hooks_may_call_backward():  # R96
    x, other = T(1), T(2)

    def hook(grad):
        with lm.enable_grad():
            Square.apply(other).backward()

    x.register_hook(hook)
    (x * 3).backward()
    assert (g(x), g(other)) == ([3.0], [4.0])


def test_a_hook_may_register_and_remove_hooks():  # R96
    x, seen = T(1), []
    y = x * 2
    later = []

    def first(grad):
        seen.append("first")
        handle.remove()
        later.append(x.register_hook(noting(seen)))

    handle = y.register_hook(first)
    y.backward(retain_graph=True)
    y.backward()
    assert seen == ["first", [2.0], [2.0]]


def test_a_hook_on_one_output_may_register_on_another_output_of_its_node():  # R96
    x, seen = T(1), []
    a, b = Split.apply(x)
    reference = weakref.ref(b)
    a.register_hook(lambda grad: (reference().register_hook(noting(seen)), None)[1])
    (a + b).backward(retain_graph=True)
    seen.clear()
    (a + b).backward()
    assert [1.0] in seen


def test_a_hook_where_no_gradient_comes_is_refused():  # R97
    with pytest.raises(NoGradientError, match="does not require grad"):
        C(1).register_hook(print)
    with pytest.raises(NoGradientError, match="does not require grad"):
        C(1).register_post_accumulate_grad_hook(print)
    with pytest.raises(TypeError, match="takes a callable, not int"):
        T(1).register_hook(3)


def test_remove_is_idempotent_and_removes_its_own_registration_only():  # R97
    x, seen = T(1), []
    hook = noting(seen)
    first, second = x.register_hook(hook), x.register_hook(hook)
    first.remove()
    first.remove()
    (x * 3).backward()
    assert seen == [[3.0]]
    second.remove()
    (x * 3).backward()
    assert seen == [[3.0]]


def test_a_handle_is_a_context_manager():  # R97
    x, seen = T(1), []
    with x.register_hook(noting(seen)):
        (x * 3).backward()
    (x * 4).backward()
    assert seen == [[3.0]]


# -- how long hooks live --------------------------------------------------------------------------


class Payload:
    """Something whose death can be watched."""


def holding(payload):
    def hook(grad):
        assert payload is not None

    return hook


def test_a_hook_dies_with_its_removal(no_gc):  # R98
    x, payload = T(1), Payload()
    handle, dead = x.register_hook(holding(payload)), weakref.ref(payload)
    del payload
    assert dead() is not None
    handle.remove()
    assert dead() is None


@pytest.mark.parametrize("interior", [True, False])
def test_a_hook_dies_with_its_node_although_the_handle_lives(no_gc, interior):  # R98
    x, payload = T(1), Payload()
    target = x * 2 if interior else x
    handles = [target.register_hook(holding(payload))]
    if interior:
        handles.append(target.grad_fn.register_hook(lambda gi, go, p=payload: None))
        handles.append(target.grad_fn.register_prehook(lambda go, p=payload: None))
    else:
        handles.append(x.register_post_accumulate_grad_hook(lambda leaf, p=payload: None))
    dead = weakref.ref(payload)
    del payload, target
    if not interior:
        del x
    assert dead() is None
    for handle in handles:
        handle.remove()


def test_a_hook_fires_although_its_tensor_is_gone(no_gc):  # R98
    x, seen = T(1), []
    y = x * 2
    y.register_hook(noting(seen))
    z, dead = y * 3, weakref.ref(y)
    del y
    assert dead() is None
    z.backward()
    assert seen == [[3.0]]


def test_a_hook_that_captures_its_tensor_warns_and_names_the_cell():  # R98
    y = T(1) * 2
    with pytest.warns(
        HookCaptureWarning, match=r"cell 'y'\) holds the tensor it is .*weakref\.ref"
    ):
        y.register_hook(lambda grad: grad * y.detach())


def test_a_leaf_captured_by_its_own_hook_is_a_cycle_too(no_gc):  # R98
    def registered():
        x = T(1)
        x.register_post_accumulate_grad_hook(lambda leaf: x)
        return weakref.ref(x)

    with pytest.warns(HookCaptureWarning, match="closure cell 'x'"):
        dead = registered()
    assert dead() is not None


@pytest.mark.parametrize(
    ("hook", "where"),
    [
        (lambda y: lambda grad, kept=None: y, r"closure cell 'y'"),
        (lambda y: lambda grad, kept=y: None, r"__defaults__\[0\]"),
        (lambda y: lambda grad, *, kept=y: None, r"__kwdefaults__\['kept'\]"),
        (lambda y: functools.partial(lambda y, grad: None, y), r"\.args\[0\]"),
        (lambda y: (lambda held: lambda grad: held)([{"k": y}]), r"cell 'held'\)\[0\]\['k'\]"),
    ],
    ids=["cell", "default", "keyword default", "partial", "container"],
)
def test_every_form_of_capture_is_named(hook, where):  # R98
    y = T(1) * 2
    with pytest.warns(HookCaptureWarning, match=where):
        y.register_hook(hook(y))


def test_a_hook_that_captures_its_node_warns():  # R98
    y = T(1) * 2
    node = y.grad_fn
    with pytest.warns(HookCaptureWarning, match=r"cell 'node'\) holds its own node"):
        y.register_hook(lambda grad: node)
    with pytest.warns(HookCaptureWarning, match=r"cell 'node'\) holds its own node"):
        node.register_hook(lambda gi, go: node)


def test_a_hook_that_captures_something_downstream_warns():  # R98
    x = T(1)
    y = x * 2
    loss = (y * 3 + x).exp()
    for target in (y, x):
        with pytest.warns(HookCaptureWarning, match=r"cell 'loss'\) holds what exp#4 made"):
            target.register_hook(lambda grad: loss)


def test_the_warning_points_at_the_registration():  # R98
    y = T(1) * 2
    with pytest.warns(HookCaptureWarning) as caught:
        y.register_hook(lambda grad: y)
    assert caught[0].filename == __file__


def test_harmless_captures_are_silent():  # R98
    x, other = T(1), T(2)
    y = x * 2
    upstream, reference, elsewhere, constant = x, weakref.ref(y), other * 3, C(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HookCaptureWarning)
        y.register_hook(lambda grad: print(upstream, reference, elsewhere, constant))


# -- post-accumulate hooks ------------------------------------------------------------------------


def test_a_post_accumulate_hook_sees_the_leaf_with_its_gradient():  # R57, R92
    x, seen = T(1), []
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(g(leaf)))
    (x * 3).backward()
    (x * 4).backward()
    assert seen == [[3.0], [7.0]]


def test_a_post_accumulate_hook_may_update_the_leaf_and_clear_its_gradient():  # R57
    x = T(1)

    def update(leaf):
        leaf.sub_(leaf.grad * 0.5)
        leaf.grad = None

    x.register_post_accumulate_grad_hook(update)
    (x * 3).backward()
    assert (x.tolist(), g(x)) == ([-0.5], None)


def test_post_accumulate_hooks_are_for_leaves():  # R97
    with pytest.raises(NotALeafError, match=r"mul#1 made this tensor. Use register_hook"):
        (T(1) * 2).register_post_accumulate_grad_hook(print)


# -- hooks on nodes -------------------------------------------------------------------------------


def test_a_node_hook_gets_the_gradients_of_arguments_and_outputs():  # R50, R93
    x, seen = T(2), []
    y = Mul.apply(x, C(5))
    y.grad_fn.register_hook(
        lambda grads_in, grads_out: seen.append(
            ([t and t.tolist() for t in grads_in], [t.tolist() for t in grads_out])
        )
    )
    (y * 3).backward()
    assert seen == [([[15.0], None], [[3.0]])]


def test_a_node_hook_may_replace_the_gradients_of_arguments():  # R94
    x, w = T(2), T(5)
    y = x * w
    y.grad_fn.register_hook(lambda grads_in, grads_out: (grads_in[0] * 10, None))
    y.backward()
    assert (g(x), g(w)) == ([50.0], None)


def test_a_prehook_may_replace_the_gradients_of_outputs():  # R94
    x = T(2)
    a, b = Split.apply(x)
    a.grad_fn.register_prehook(lambda grads_out: (grads_out[0] * 10, grads_out[1]))
    (a + b).backward()
    assert g(x) == [23.0]


def test_tensor_hooks_and_retained_gradients_come_before_prehooks():  # R93
    x, order = T(1), []
    y = x * 2
    y.grad_fn.register_prehook(lambda grads_out: (grads_out[0] * 100,))
    y.grad_fn.register_hook(lambda gi, go: order.append(("post", go[0].tolist())))
    y.register_hook(lambda grad: grad * 10)
    y.retain_grad()
    y.backward()
    assert order == [("post", [1000.0])]
    assert (g(y), g(x)) == ([10.0], [2000.0])


def test_what_a_request_gets_is_not_touched_by_prehooks():  # R76, R93
    x = T(1)
    y = x * 2
    y.grad_fn.register_prehook(lambda grads_out: (grads_out[0] * 100,))
    of_y, of_x = lm.autograd.grad(y * 3, [y, x])
    assert (of_y.tolist(), of_x.tolist()) == ([3.0], [600.0])


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (lambda g: (g[0],), GradientCountError, "returned 1 gradients for 2"),
        (lambda g: 3, TypeError, "returned an int; a hook of a node must return a tuple"),
        (lambda g: (3.0, None), TypeError, "returned a float; it must return a tensor"),
        (lambda g: (C(1, 2), None), GradientShapeError, r"shape \(2,\) for one of shape \(1,\)"),
    ],
    ids=["count", "type", "item", "shape"],
)
def test_what_a_node_hook_returns_is_checked(result, error, text):  # R94
    x = T(2)
    y = x * T(5)
    y.grad_fn.register_hook(lambda grads_in, grads_out: result(grads_in))
    with pytest.raises(error, match=text):
        y.backward()
    assert g(x) is None


def test_hooks_on_the_node_of_a_leaf_run_around_its_write():  # R93
    x, seen = T(1), []
    y = x * 3
    end = y.grad_fn.next_functions[0][0]
    end.register_prehook(lambda grads_out: seen.append(("pre", grads_out[0].tolist())))
    end.register_hook(lambda gi, go: seen.append(("post", gi, go[0].tolist())))
    x.register_hook(lambda grad: seen.append(("tensor", grad.tolist())))
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(("written", g(leaf))))
    y.backward()
    assert seen == [("tensor", [3.0]), ("pre", [3.0]), ("written", [3.0]), ("post", (), [3.0])]


def test_gradients_given_to_node_hooks_cannot_be_written():  # R67
    y = T(2) * 3
    y.grad_fn.register_hook(lambda grads_in, grads_out: grads_in[0].mul_(2))
    with pytest.raises(AutogradError, match=r"clone\(\) first"):
        y.backward()


def test_hooks_record_under_create_graph():  # R68, R92
    x, seen = T(2), []
    y = Square.apply(x)
    y.register_hook(lambda grad: seen.append(lm.is_grad_enabled()))
    with x.register_hook(lambda grad: grad * grad):
        (first,) = lm.autograd.grad(y, x, create_graph=True)
    (second,) = lm.autograd.grad(first, x)
    assert (first.tolist(), second.tolist()) == ([16.0], [16.0])
    assert seen == [True]


def test_removed_node_hooks_do_not_run():  # R97
    x, seen = T(2), []
    y = x * 3
    handles = [
        y.grad_fn.register_hook(lambda gi, go: seen.append("post")),
        y.grad_fn.register_prehook(lambda go: seen.append("pre")),
    ]
    for handle in handles:
        handle.remove()
    y.backward()
    assert seen == []
