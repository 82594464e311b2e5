"""The engine and `grad()`, on both libraries: roots, seeds, order, what is released, requests."""

import pytest
from both import g, rule


def noting(lib, log, name, factor=1):
    """A Function that notes when its rule runs."""

    def backward(ctx, grad):
        log.append(name)
        return grad * factor

    return rule(lib, backward, lambda ctx, x: x * factor, name)


def test_one_element_needs_no_seed(lib):
    x = lib.T(3)
    (x * x).backward()
    assert g(x) == [6]


def test_several_elements_need_a_seed(lib):
    with lib.refuses("NonScalarBackwardError"):
        (lib.T(1, 2) * 2).backward()


def test_no_elements_need_a_seed(lib):
    with lib.refuses("NonScalarBackwardError"):
        (lib.T() * 2).backward()


def test_a_seed_weighs_the_elements(lib):
    x = lib.T(1, 2)
    (x * x).backward(lib.C(1, 10))
    assert g(x) == [2, 40]


def test_a_seed_of_another_shape_is_refused(lib):
    with lib.refuses("ValueError"):
        (lib.T(1, 2) * 2).backward(lib.C(1))


def test_a_seed_of_a_shape_that_broadcasts_is_refused(lib):
    with lib.refuses("ValueError"):
        (lib.T(1, 2) * 2).backward(lib.tensor([[1.0, 1.0]]))


def test_an_output_without_dimensions_gives_a_gradient_without_dimensions(lib):
    x = lib.tensor(3.0, requires_grad=True)
    (x * x).backward()
    assert (x.grad.tolist(), tuple(x.grad.shape)) == (6, ())


def test_a_root_without_history_is_refused(lib):
    with lib.refuses("NoGradientError"):
        (lib.C(1) * 2).backward()


def test_a_leaf_may_be_the_root(lib):
    x = lib.T(5)
    x.backward()
    assert g(x) == [1]


def test_a_second_backward_is_refused(lib):
    x = lib.T(3)
    y = (x * x).sum()
    y.backward()
    with lib.refuses("GraphFreedError"):
        y.backward()
    assert g(x) == [6]


def test_retain_graph_allows_a_second_backward(lib):
    x = lib.T(3)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert g(x) == [12]


def test_a_second_backward_after_the_last_with_retain_graph_is_refused(lib):
    y = (lib.T(3) * lib.T(4)).sum()
    y.backward(retain_graph=True)
    y.backward()
    with lib.refuses("GraphFreedError"):
        y.backward()


def test_a_part_shared_by_two_losses_is_released_by_the_first(lib):
    x = lib.T(3)
    h = x * x
    (h * 2).sum().backward()
    with lib.refuses("GraphFreedError"):
        (h * 3).sum().backward()
    assert g(x) == [12]


def test_create_graph_retains_by_default(lib):
    x = lib.T(3)
    y = (x * x).sum()
    lib.grad(y, x, create_graph=True)
    assert lib.grad(y, x)[0].tolist() == [6]


def test_create_graph_without_retain_graph_releases(lib):
    x = lib.T(3)
    y = (x * x * x).sum()
    lib.grad(y, x, create_graph=True, retain_graph=False)
    with lib.refuses("GraphFreedError"):
        lib.grad(y, x)


def test_each_node_runs_once_with_the_sum_of_its_gradients(lib):
    log = []
    x = lib.T(1)
    y = noting(lib, log, "f", 2).apply(x)
    (y * 3 + y * 4).sum().backward()
    assert (log, g(x)) == (["f"], [14])


def test_nodes_run_latest_first(lib):
    log = []
    x = lib.T(1)
    a, b = noting(lib, log, "a").apply(x), noting(lib, log, "b").apply(x)
    c = noting(lib, log, "c").apply(a)
    (b + c).sum().backward()
    assert log == ["c", "b", "a"]


def test_a_ladder_of_diamonds_is_linear_in_its_depth(lib):
    log = []
    x = y = lib.T(1)
    step = noting(lib, log, "f")
    for _ in range(40):
        y = step.apply(y)
        y = y + y
    y.sum().backward()
    assert (len(log), g(x)) == (40, [2.0**40])


def test_a_chain_of_5000_ops_needs_no_recursion(lib):
    x = y = lib.T(1)
    for _ in range(5000):
        y = y + 1
    y.sum().backward()
    assert g(x) == [1]
    del y


def test_x_plus_x_plus_x_plus_x_gives_four(lib):
    x = lib.T(3)
    (x + x + x + x).sum().backward()
    assert g(x) == [4]


def test_several_roots_are_one_traversal(lib):
    log = []
    x = lib.T(2)
    h = noting(lib, log, "h").apply(x * x)
    lib.backward([(3 * h).sum(), (h * h).sum()])
    assert (log, g(x)) == (["h"], [44])


def test_roots_and_seeds_must_be_as_many(lib):
    x = lib.T(1)
    with lib.refuses("ValueError"):
        lib.backward([x * 2, x * 3], [lib.C(1)])


def test_each_root_has_its_own_seed(lib):
    x = lib.T(1)
    lib.backward([x * 2, x * 3], [lib.C(10), lib.C(1)])
    assert g(x) == [23]


def test_a_root_given_twice_counts_twice(lib):
    x = lib.T(1)
    y = x * 2
    lib.backward([y, y], [lib.C(10), lib.C(1)])
    assert g(x) == [22]


def test_inputs_limit_who_gets_a_gradient(lib):
    a, b = lib.T(2), lib.T(3)
    (a * b).backward(inputs=[a])
    assert (g(a), g(b)) == ([3], None)


def test_an_interior_tensor_may_be_an_input_of_backward(lib):
    x = lib.T(2)
    h = x * 3
    (h * h).backward(inputs=[h])
    assert (g(x), h.grad.tolist()) == (None, [12])


def test_empty_inputs_are_refused(lib):
    with lib.refuses("ValueError"):
        (lib.T(1) * 2).backward(inputs=[])


# -- grad() ----------------------------------------------------------------------------------------


def test_grad_touches_no_grad_attribute(lib):
    x = lib.T(3)
    assert lib.grad((x * x).sum(), x)[0].tolist() == [6]
    assert g(x) is None


def test_grad_returns_a_tuple_in_the_order_of_the_inputs(lib):
    a, b = lib.T(2), lib.T(3)
    found = lib.grad((a * b).sum(), (b, a))
    assert isinstance(found, tuple)
    assert [f.tolist() for f in found] == [[2], [3]]


def test_grad_takes_interior_tensors(lib):
    x = lib.T(2)
    h = x * 3
    assert [f.tolist() for f in lib.grad((h * h).sum(), [h, x])] == [[12], [36]]


def test_grad_takes_an_input_twice(lib):
    x = lib.T(3)
    assert [f.tolist() for f in lib.grad((x * x).sum(), [x, x])] == [[6], [6]]


def test_grad_takes_several_outputs_of_one_node(lib, functions):
    x = lib.T(3)
    a, b = functions.Split.apply(x)
    assert [f.tolist() for f in lib.grad((a * 10 + b).sum(), [a, b, x])] == [[10], [1], [23]]


def test_an_output_may_be_an_input(lib):
    x = lib.T(3)
    y = x * 2
    assert lib.grad(y, y)[0].tolist() == [1]


def test_an_unused_input_is_refused(lib):
    with lib.refuses("UnusedInputError"):
        lib.grad((lib.T(1) * 2).sum(), lib.T(1))


def test_an_unused_input_gives_none_where_that_is_allowed(lib):
    x, y = lib.T(1), lib.T(1)
    found = lib.grad((x * 2).sum(), [x, y], allow_unused=True)
    assert (found[0].tolist(), found[1]) == ([2], None)


def test_an_unused_input_gives_zeros_where_they_are_asked_for(lib):
    x, y = lib.T(1), lib.T(1, 2)
    assert lib.grad((x * 2).sum(), [x, y], materialize_grads=True)[1].tolist() == [0, 0]


def test_an_input_that_does_not_require_grad_is_refused(lib):
    with lib.refuses("NoGradientError"):
        lib.grad((lib.T(1) * 2).sum(), lib.C(1))


def test_several_outputs_add_up_in_grad(lib):
    x = lib.T(2)
    assert lib.grad([(x * 2).sum(), (x * x).sum()], x)[0].tolist() == [6]


def test_a_seed_of_none_stands_for_one(lib):
    x = lib.T(2)
    assert lib.grad([x * 2, x * x], x, [None, lib.C(10)])[0].tolist() == [42]


def test_grad_outputs_are_the_seeds(lib):
    x = lib.T(1, 2)
    assert lib.grad(x * x, x, lib.C(1, 10))[0].tolist() == [2, 40]


def test_seeds_of_grad_are_checked_for_shape(lib):
    x = lib.T(1, 2)
    with lib.refuses("ValueError"):
        lib.grad(x * x, x, lib.C(1))


def test_grad_runs_only_nodes_on_a_path_to_a_request(lib):
    log = []
    a, b = lib.T(1), lib.T(1)
    left, right = noting(lib, log, "left").apply(a), noting(lib, log, "right").apply(b)
    lib.grad((left * right).sum(), a)
    assert log == ["left"]


def test_grad_releases_the_graph(lib):
    x = lib.T(3)
    y = (x * x).sum()
    lib.grad(y, x)
    with lib.refuses("GraphFreedError"):
        lib.grad(y, x)


def test_grad_of_a_root_without_history_is_refused(lib):
    with lib.refuses("NoGradientError"):
        lib.grad(lib.C(1).sum(), lib.T(1))


def test_first_second_and_third_derivative_of_a_power(lib):
    x = lib.T(2)
    y = (x**4).sum()
    found = []
    for _ in range(3):
        (d,) = lib.grad(y, x, create_graph=True)
        found.append(d.tolist())
        y = d.sum()
    assert found == [[32], [48], [48]]


def test_a_gradient_without_create_graph_has_no_history(lib):
    x = lib.T(2)
    (d,) = lib.grad((x * x).sum(), x)
    assert (d.requires_grad, d.is_leaf) == (False, True)


def test_a_gradient_with_create_graph_has_a_history(lib):
    x = lib.T(2)
    (d,) = lib.grad((x * x).sum(), x, create_graph=True)
    assert (d.requires_grad, d.is_leaf) == (True, False)


def test_a_gradient_penalty_reaches_the_weights(lib):
    w, x = lib.T(3), lib.T(2)
    (d,) = lib.grad((w * x * x).sum(), x, create_graph=True)
    (d * d).sum().backward()
    assert g(w) == [2 * 12 * 4]


def test_mixed_second_derivatives(lib):
    a, b = lib.T(2), lib.T(3)
    (da,) = lib.grad((a * a * b).sum(), a, create_graph=True)
    assert [d.tolist() for d in lib.grad(da.sum(), (a, b))] == [[6], [4]]


def test_backward_may_run_inside_backward(lib):
    def backward(ctx, grad):
        with lib.enable_grad():
            z = lib.T(5)
            (z * z).sum().backward()
        return grad * z.grad

    x = lib.T(1)
    rule(lib, backward).apply(x).sum().backward()
    assert g(x) == [10]


def test_grad_may_run_inside_backward(lib):
    def backward(ctx, grad):
        with lib.enable_grad():
            z = lib.T(5)
            (d,) = lib.grad((z * z).sum(), z)
        return grad * d

    x = lib.T(1)
    rule(lib, backward).apply(x).sum().backward()
    assert g(x) == [10]


def test_an_error_in_a_rule_leaves_the_engine_usable(lib):
    def backward(ctx, grad):
        raise LookupError("no")

    x = lib.T(3)
    with pytest.raises(LookupError):
        (rule(lib, backward).apply(x) * x).sum().backward()
    x.grad = None
    (x * x).sum().backward()
    assert g(x) == [6]


def test_float32_leaves_get_float32_gradients(lib):
    x = lib.ones(2, requires_grad=True)
    half = lib.tensor([1.0, 2.0])
    small = half.to(lib.float32).requires_grad_()
    (small * x).sum().backward()
    assert small.grad.dtype == lib.float32
    assert x.grad.dtype == x.dtype


def test_broadcasting_is_undone(lib):
    b = lib.T(1, 2, 3)
    (lib.ones(2, 3) + b).sum().backward()
    assert g(b) == [2, 2, 2]


def test_broadcasting_of_a_column_is_undone(lib):
    b = lib.tensor([[1.0], [2.0]], requires_grad=True)
    (lib.ones(2, 3) * b).sum().backward()
    assert g(b) == [[3], [3]]


def test_broadcasting_of_a_scalar_is_undone(lib):
    b = lib.tensor(2.0, requires_grad=True)
    (lib.ones(2, 3) * b).sum().backward()
    assert g(b) == 6
