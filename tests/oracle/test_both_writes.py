"""Writes in place, views, versions and indexing, on both libraries."""

import numpy as np
import pytest
from both import g, rule

# -- in place --------------------------------------------------------------------------------------


def test_a_leaf_that_requires_grad_cannot_be_written(lib):
    x = lib.T(1)
    with lib.refuses("LeafInPlaceError"):
        x.add_(1)
    assert x.tolist() == [1]


def test_a_leaf_cannot_be_written_after_its_first_use(lib):
    x = lib.T(1)
    y = (x * x).sum()
    with lib.refuses("LeafInPlaceError"):
        x += 1
    y.backward()
    assert g(x) == [2]


def test_a_leaf_may_be_written_under_no_grad(lib):
    x = lib.T(1)
    with lib.no_grad():
        x.sub_(0.5)
    (x * x).sum().backward()
    assert (x.tolist(), x.is_leaf, g(x)) == ([0.5], True, [1])


def test_a_view_of_a_leaf_cannot_be_written(lib):
    x = lib.T(1, 2)
    with lib.refuses("LeafInPlaceError"):
        x[0].add_(1)
    assert x.tolist() == [1, 2]


def test_an_element_of_a_leaf_cannot_be_assigned(lib):
    x = lib.T(1, 2)
    with lib.refuses("LeafInPlaceError"):
        x[0] = 5.0
    assert x.tolist() == [1, 2]


def test_a_write_returns_the_tensor_itself(lib):
    z = lib.T(1) * 1
    assert z.add_(1) is z
    assert z.mul_(2) is z


WRITES = {
    "add_": (lambda z, y: z.add_(y), [1], [1]),
    "sub_": (lambda z, y: z.sub_(y), [1], [-1]),
    "mul_": (lambda z, y: z.mul_(y), [4], [3]),
    "div_": (lambda z, y: z.div_(y), [0.25], [-3 / 16]),
    "copy_": (lambda z, y: z.copy_(y), [0], [1]),
    "pow_": (lambda z, y: z.pow_(2), [6], None),
    "exp_": (lambda z, y: z.exp_(), [float(np.exp(3))], None),
    "clamp_": (lambda z, y: z.clamp_(0, 2), [0], None),
    "fill_": (lambda z, y: z.fill_(7), [0], None),
    "zero_": (lambda z, y: z.zero_(), [0], None),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_has_the_gradients_of_its_op(lib, name):
    write, dx, dy = WRITES[name]
    x, y = lib.T(3), lib.T(4)
    z = x * 1
    write(z, y)
    z.sum().backward()
    assert g(x) == pytest.approx(dx)
    assert g(y) == (None if dy is None else pytest.approx(dy))


@pytest.mark.parametrize("name", ["add_", "sub_", "mul_", "div_", "copy_"])
def test_a_write_of_a_broadcast_operand_sums_its_gradient(lib, name):
    write = WRITES[name][0]
    y = lib.T(4)
    z = lib.C(1, 2, 3) * 1
    write(z, y)
    z.sum().backward()
    expected = {"add_": 3, "sub_": -3, "mul_": 6, "div_": -6 / 16, "copy_": 3}[name]
    assert g(y) == pytest.approx([expected])


def test_augmented_assignment_writes_in_place(lib):
    x = lib.T(3)
    z = x * 1
    alias = z
    z += 1
    z *= 2
    z -= 1
    z /= 2
    assert alias is z
    z.sum().backward()
    assert (z.tolist(), g(x)) == ([3.5], [1])


def test_a_write_makes_a_constant_depend_on_what_was_written(lib):
    c, y = lib.C(2), lib.T(3)
    c.mul_(y)
    assert c.requires_grad
    c.sum().backward()
    assert g(y) == [2]


def test_a_write_cannot_make_a_tensor_larger(lib):
    z = lib.T(1) * 1
    with lib.refuses("ValueError"):
        z.add_(lib.C(1, 2))
    assert z.tolist() == [1]


def test_a_float_cannot_be_written_into_integers(lib):
    z = lib.tensor([1, 2])
    with lib.refuses("TypeError"):
        z.add_(lib.C(0.5))
    assert z.tolist() == [1, 2]


def test_an_expanded_tensor_cannot_be_written(lib):
    z = lib.tensor([[1.0]]).expand(2, 3)
    with lib.refuses():
        z.add_(1)


# -- versions --------------------------------------------------------------------------------------


def test_every_write_counts(lib):
    x = lib.C(1, 2)
    seen = [x._version]
    x.add_(1)
    seen.append(x._version)
    x[0] = 5.0
    seen.append(x._version)
    x.view(-1).mul_(2)
    seen.append(x._version)
    assert seen == [0, 1, 2, 3]


def test_a_view_and_a_detached_alias_share_the_version(lib):
    x = lib.C(1, 2)
    view, alias = x[0], x.detach()
    x.add_(1)
    assert (view._version, alias._version) == (1, 1)
    alias.add_(1)
    assert (x._version, view._version) == (2, 2)


def test_a_clone_has_a_version_of_its_own(lib):
    x = lib.C(1)
    y = x.clone()
    x.add_(1)
    assert (x._version, y._version) == (1, 0)


def test_a_write_into_what_was_saved_is_refused_at_backward(lib, functions):
    z = lib.T(3) * 1
    y = functions.Square.apply(z)
    z.add_(1)
    with lib.refuses("VersionMismatchError"):
        y.sum().backward()


def test_a_write_under_no_grad_into_what_was_saved_is_refused_too(lib, functions):
    x = lib.T(3)
    y = functions.Square.apply(x)
    with lib.no_grad():
        x.add_(1)
    with lib.refuses("VersionMismatchError"):
        y.sum().backward()
    assert g(x) is None


def test_a_write_through_a_view_into_what_was_saved_is_refused(lib, functions):
    z = lib.T(3, 4) * 1
    y = functions.Square.apply(z)
    z[0].add_(1)
    with lib.refuses("VersionMismatchError"):
        y.sum().backward()


def test_a_write_through_a_detached_alias_into_what_was_saved_is_refused(lib, functions):
    z = lib.T(3, 4) * 1
    y = functions.Square.apply(z)
    z.detach().zero_()
    with lib.refuses("VersionMismatchError"):
        y.sum().backward()


def test_a_write_into_a_saved_output_is_refused_at_backward(lib):
    y = lib.T(0).exp()
    y.add_(1)
    with lib.refuses("VersionMismatchError"):
        y.sum().backward()


def test_a_write_into_an_operand_that_was_not_saved_is_no_error(lib):
    x = lib.T(3)
    z = x * 1
    y = z + 1
    z.mul_(2)
    (y + z).sum().backward()
    assert g(x) == [3]


def test_a_write_before_the_save_is_no_error(lib):
    x = lib.T(3)
    z = x * 1
    z.add_(1)
    (z * z).sum().backward()
    assert g(x) == [8]


def test_a_write_after_backward_is_no_error(lib):
    x = lib.T(3)
    (x * x).sum().backward()
    with lib.no_grad():
        x.add_(1)
    (x * x).sum().backward()
    assert g(x) == [14]


def test_mutation_may_be_allowed_and_then_backward_sees_what_was_saved(lib):
    x = lib.T(1)
    with lib.allow_mutation():
        z = x * 1
        y = z * z
        z.add_(1)
        y.sum().backward()
    assert g(x) == [2]


# -- views -----------------------------------------------------------------------------------------

VIEWS = {
    "an element": (lambda z: z[0, 1], [[0, 2], [0, 0]]),
    "a row": (lambda z: z[0], [[2, 2], [0, 0]]),
    "a column": (lambda z: z[:, 1], [[0, 2], [0, 2]]),
    "every second": (lambda z: z[::2], [[2, 2], [0, 0]]),
    "view": (lambda z: z.view(4), [[2, 2], [2, 2]]),
    "reshape": (lambda z: z.reshape(1, 4), [[2, 2], [2, 2]]),
    "transpose": (lambda z: z.transpose(0, 1), [[2, 2], [2, 2]]),
    "permute": (lambda z: z.permute(1, 0), [[2, 2], [2, 2]]),
    "t": (lambda z: z.t(), [[2, 2], [2, 2]]),
    "T": (lambda z: z.T, [[2, 2], [2, 2]]),
    "unsqueeze": (lambda z: z.unsqueeze(0), [[2, 2], [2, 2]]),
    "flatten": (lambda z: z.flatten(), [[2, 2], [2, 2]]),
    "squeeze": (lambda z: z.unsqueeze(0).squeeze(0), [[2, 2], [2, 2]]),
    "view of a view": (lambda z: z.view(4)[1:3].view(2, 1)[0], [[0, 2], [0, 0]]),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_the_gradient_of_a_view_goes_where_it_was_taken(lib, kind):
    take, expected = VIEWS[kind]
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (take(x * 1) * 2).sum().backward()
    assert g(x) == expected


@pytest.mark.parametrize("kind", VIEWS)
def test_a_write_through_a_view_changes_value_and_history_of_its_base(lib, kind):
    take, expected = VIEWS[kind]
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = lib.tensor(5.0, requires_grad=True)
    z = x * 1
    take(z).mul_(y)
    z.sum().backward()
    here = (np.array(expected) > 0).astype(float)
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert g(x) == (1 - here + 5 * here).tolist()
    assert g(y) == float((values * here).sum())


@pytest.mark.parametrize("kind", VIEWS)
def test_a_write_into_a_base_changes_value_and_history_of_its_views(lib, kind):
    take, expected = VIEWS[kind]
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = lib.tensor(5.0, requires_grad=True)
    z = x * 1
    view = take(z)
    z.mul_(y)
    view.sum().backward()
    here = (np.array(expected) > 0).astype(float)
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert g(x) == (5 * here).tolist()
    assert g(y) == float((values * here).sum())


def test_two_views_of_one_base_see_each_others_writes(lib):
    x = lib.T(1, 2)
    z = x * 1
    a, b = z[:1], z.view(2, 1)
    a.mul_(10)
    b.mul_(3)
    (z + b.view(2)).sum().backward()
    assert (a.tolist(), z.tolist(), g(x)) == ([30], [30, 6], [60, 6])


def test_after_a_write_through_a_view_the_view_is_a_part_of_its_base(lib):
    x = lib.T(1, 2)
    z = x * 1
    view = z[:1]
    view.mul_(3)
    loss = (z * lib.C(1, 2)).sum() + (view * 10).sum()
    assert [d.tolist() for d in lib.grad(loss, [z, view], retain_graph=True)] == [[11, 2], [10]]
    z.retain_grad()
    view.retain_grad()
    loss.backward()
    assert (z.grad.tolist(), view.grad.tolist(), g(x)) == ([11, 2], [10], [33, 2])


def test_a_hook_on_a_base_sees_what_arrives_through_a_written_view(lib):
    log = []
    z = lib.T(1, 2) * 1
    view = z[:1]
    view.mul_(3)
    z.register_hook(lambda grad: log.append(grad.tolist()))
    (z.sum() + view.sum()).backward()
    assert log == [[2, 1]]


def test_an_expanded_tensor_that_repeats_nothing_may_be_written(lib):
    x = lib.T(1, 2)
    z = x * 1
    z.expand(1, 2).mul_(3)
    z.sum().backward()
    assert (z.tolist(), g(x)) == ([3, 6], [3, 3])


def test_a_value_may_have_more_dimensions_of_length_one_than_its_place(lib):
    z, y = lib.T(1, 2) * 1, lib.tensor([[[5.0]]], requires_grad=True)
    z[:1] = y
    z[1] = y
    z.sum().backward()
    assert (z.tolist(), g(y)) == ([5, 5], [[[2]]])


def test_a_view_knows_its_base(lib):
    x = lib.C(1, 2)
    assert x[0]._base is x
    assert x.view(2, 1)[0]._base is x
    assert x._base is None


def test_a_view_that_its_strides_do_not_allow_is_refused(lib):
    with lib.refuses("ValueError"):
        lib.zeros(2, 3).t().view(6)


def test_a_reshape_that_cannot_be_a_view_is_a_copy(lib):
    x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x.t().reshape(4)
    (y * lib.C(1, 2, 3, 4)).sum().backward()
    assert (y.tolist(), g(x)) == ([1, 3, 2, 4], [[1, 3], [2, 4]])


def test_expand_sums_its_gradient(lib):
    x = lib.tensor([[1.0], [2.0]], requires_grad=True)
    x.expand(2, 3).sum().backward()
    assert g(x) == [[3], [3]]


def test_a_view_of_a_custom_function_shares_memory_and_version(lib):
    View = rule(lib, lambda ctx, grad: grad.view(2), lambda ctx, x: x.view(2, 1))
    z = lib.T(1, 2) * 1
    y = View.apply(z)
    before = z._version
    z.detach().add_(1)
    assert (y.tolist(), y._version) == ([[2], [3]], before + 1)


def test_a_view_made_under_no_grad_cannot_be_written_where_its_base_has_a_history(lib):
    z = lib.T(1, 2) * 1
    with lib.no_grad():
        view = z[0]
    with lib.refuses():
        view.mul_(2)


# -- indexing --------------------------------------------------------------------------------------

INDICES = {
    "an integer": lambda lib: 1,
    "a negative integer": lambda lib: -1,
    "a slice": lambda lib: slice(0, 2),
    "a step": lambda lib: slice(None, None, 2),
    "None": lambda lib: None,
    "dots": lambda lib: (..., 0),
    "two integers": lambda lib: (1, 2),
    "an integer and a slice": lambda lib: (slice(None), 1),
    "integers": lambda lib: lib.tensor([2, 0]),
    "the same integer twice": lambda lib: lib.tensor([1, 1, 0]),
    "a list": lambda lib: [0, 0, 2],
    "a mask": lambda lib: lib.tensor([True, False, True]),
    "a mask of all": lambda lib: lib.tensor(
        [[True, False, True], [False, False, False], [True, True, True]]
    ),
    "two lists of integers": lambda lib: (lib.tensor([0, 0, 2]), lib.tensor([1, 1, 2])),
    "a slice and integers": lambda lib: (slice(1, None), lib.tensor([2, 2])),
    "integers that broadcast": lambda lib: (lib.tensor([[0], [1]]), lib.tensor([[0, 2]])),
    "an integer tensor without dimensions": lambda lib: lib.tensor(1),
    "an empty slice": lambda lib: slice(3, None),
}
DATA = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]


def as_numpy(index):
    if isinstance(index, tuple):
        return tuple(as_numpy(part) for part in index)
    return index.numpy() if hasattr(index, "numpy") else index


@pytest.mark.parametrize("kind", INDICES)
def test_reading_elements_gives_those_of_numpy_and_adds_their_gradients(lib, kind):
    index = INDICES[kind](lib)
    x = lib.tensor(DATA, requires_grad=True)
    y = x[index]
    weights = np.arange(1.0, 1 + np.array(DATA)[as_numpy(index)].size)
    assert y.tolist() == np.array(DATA)[as_numpy(index)].tolist()
    (y.reshape(-1) * lib.tensor(weights.tolist())).sum().backward()
    expected = np.zeros((3, 3))
    np.add.at(expected, as_numpy(index), weights.reshape(tuple(y.shape)))
    assert g(x) == expected.tolist()


@pytest.mark.parametrize("kind", [k for k in INDICES if "twice" not in k and "list" not in k])
def test_writing_elements_moves_their_gradient_to_what_was_written(lib, kind):
    index = INDICES[kind](lib)
    if kind == "a slice and integers":
        index = (slice(1, None), lib.tensor([2, 1]))
    x, y = lib.tensor(DATA, requires_grad=True), lib.tensor(5.0, requires_grad=True)
    z = x * 1
    z[index] = y
    z.sum().backward()
    expected = np.ones((3, 3))
    expected[as_numpy(index)] = 0
    assert (g(x), g(y)) == (expected.tolist(), float((expected == 0).sum()))


def test_an_index_out_of_range_is_an_index_error(lib):
    with pytest.raises(IndexError):
        lib.T(1, 2)[5]


def test_too_many_indices_are_an_index_error(lib):
    with pytest.raises(IndexError):
        lib.T(1, 2)[0, 0]


def test_floats_are_no_index(lib):
    with pytest.raises(IndexError):
        lib.T(1, 2)[lib.C(0, 1)]


def test_a_mask_of_another_length_is_an_index_error(lib):
    with pytest.raises(IndexError):
        lib.T(1, 2)[lib.tensor([True, False, True])]


def test_iterating_gives_the_rows_with_their_gradients(lib):
    x = lib.T(1, 2, 3)
    total = 0
    for i, row in enumerate(x):
        total = total + row * i
    total.backward()
    assert g(x) == [0, 1, 2]


def test_gather_adds_the_gradients_of_repeated_indices(lib):
    x = lib.tensor(DATA, requires_grad=True)
    lib.gather(x, 1, lib.tensor([[0, 0], [1, 2], [2, 2]])).sum().backward()
    assert g(x) == [[2, 0, 0], [0, 1, 1], [0, 0, 2]]


def test_index_select_adds_the_gradients_of_repeated_indices(lib):
    x = lib.tensor(DATA, requires_grad=True)
    lib.index_select(x, 0, lib.tensor([1, 1, 0])).sum().backward()
    assert g(x) == [[1, 1, 1], [2, 2, 2], [0, 0, 0]]


def test_masked_fill_takes_the_gradient_of_what_it_covers(lib):
    x = lib.T(1, 2, 3)
    lib.masked_fill(x, lib.tensor([True, False, True]), 0.0).sum().backward()
    assert g(x) == [0, 1, 0]


def test_cat_and_stack_hand_each_part_its_gradient(lib):
    a, b = lib.T(1, 2), lib.T(3, 4)
    (lib.cat([a, b]) * lib.C(1, 2, 3, 4)).sum().backward()
    lib.stack([b, a])[0].sum().backward()
    assert (g(a), g(b)) == ([1, 2], [4, 5])


def test_the_largest_of_equal_elements_shares_or_takes_the_gradient(lib):
    x = lib.T(2, 2, 1)
    lib.amax(x).backward()
    values, at = lib.max(x, 0)
    (values * 10).backward()
    assert (at.item(), g(x)) == (0, [10.5, 0.5, 0])


def test_where_splits_the_gradient(lib):
    a, b = lib.T(1, 2), lib.T(3, 4)
    lib.where(lib.tensor([True, False]), a, b).sum().backward()
    assert (g(a), g(b)) == ([1, 0], [0, 1])
