"""Ops in place: what is refused, and what they do to histories (rows R85 and R86)."""

import weakref

import numpy as np
import pytest
from functions import C, Split, Square, T, g

import lucid_mini as lm
from lucid_mini.autograd import Function
from lucid_mini.errors import AutogradError, LeafInPlaceError

WRITES = {
    "add_": lambda x: x.add_(1),
    "sub_": lambda x: x.sub_(1),
    "mul_": lambda x: x.mul_(2),
    "div_": lambda x: x.div_(2),
    "pow_": lambda x: x.pow_(2),
    "exp_": lambda x: x.exp_(),
    "clamp_": lambda x: x.clamp_(0, 1),
    "fill_": lambda x: x.fill_(3),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(lm.ones(2)),
    "[]": lambda x: x.__setitem__(0, 3.0),
    "+=": lambda x: x.__iadd__(1),
    "-=": lambda x: x.__isub__(1),
    "*=": lambda x: x.__imul__(2),
    "/=": lambda x: x.__itruediv__(2),
}


class Double(Function):
    """A reader's own op in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class Into(Function):
    """A reader's own op that writes one argument into the other."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x.copy_(y)
        return x

    @staticmethod
    def backward(ctx, grad):
        return None, grad


# -- leaves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_leaf_that_requires_grad_is_not_written_while_recording(write):  # R85
    x = T(1, 2)
    with pytest.raises(LeafInPlaceError, match=r"into a leaf that requires grad.*lm.no_grad\(\)"):
        write(x)
    assert (x.tolist(), x._version, x.is_leaf) == ([1.0, 2.0], 0, True)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_view_of_a_leaf_that_requires_grad_is_not_written_either(write):  # R85, R86
    x = T(1, 2)
    for view in (x.view(-1), x.reshape(2, 1).view(2), x[0:2]):
        with pytest.raises(LeafInPlaceError, match="a view of a leaf"):
            write(view)
    assert (x.tolist(), x.is_leaf) == ([1.0, 2.0], True)


def test_a_leaf_is_refused_also_after_it_was_used():  # R85
    x = T(1, 2)
    y = Square.apply(x)
    with pytest.raises(LeafInPlaceError):
        x.add_(1)
    y.sum().backward()
    assert g(x) == [2.0, 4.0]


def test_a_leaf_is_refused_where_only_the_other_operand_has_a_history():  # R85
    x, w = T(1), T(2)
    with pytest.raises(LeafInPlaceError):
        x.add_(w * 2)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_leaf_may_be_written_under_no_grad(write):  # R85
    x = T(1, 2)
    with lm.no_grad():
        write(x)
    assert (x._version, x.is_leaf, x.requires_grad) == (1, True, True)


def test_a_leaf_without_grad_gets_the_history_of_what_is_written_into_it():  # R86
    a, b = C(2), T(3)
    a.add_(b)
    assert (a.tolist(), a.is_leaf) == ([5.0], False)
    Square.apply(a).backward()
    assert g(b) == [10.0]


# -- tensors with a history -----------------------------------------------------------------------


def test_a_write_gives_a_tensor_the_history_of_the_op():  # R86
    x, y = T(3), T(4)
    z = x * 1
    z.mul_(y)
    z.backward()
    assert (g(x), g(y)) == ([4.0], [3.0])


def test_what_was_computed_before_the_write_keeps_its_history():  # R86
    x = T(3)
    z = x * 1
    before = z * 5
    z.mul_(2)
    (before + z).backward()
    assert g(x) == [7.0]


def test_an_op_in_place_returns_the_tensor_itself():  # R86
    z = T(3) * 1
    assert z.mul_(2) is z
    assert Double.apply(z) is z
    assert z.tolist() == [12.0]


def test_the_operand_may_be_the_tensor_itself():  # R86
    for write, slope in ((lambda z: z.mul_(z), 6.0), (lambda z: z.add_(z), 2.0)):
        x = T(3)
        z = x * 1
        write(z)
        z.backward()
        assert g(x) == [slope]
    x = T(3)
    z = x * 1
    z.div_(z)
    z.backward()
    assert g(x) == [0.0]


def test_the_operand_may_lie_in_the_memory_that_is_written():  # R86
    x = T(2, 3)
    z = x * 1
    z[0:1].mul_(z[1:2])
    z.sum().backward()
    assert z.tolist() == [6.0, 3.0]
    assert g(x) == [3.0, 3.0]


def test_what_is_overwritten_gets_a_gradient_of_zero_even_of_infinity():  # R86
    for write in (
        lambda z: z.zero_(),
        lambda z: z.fill_(2),
        lambda z: z.copy_(C(1, 1)),
        lambda z: z.__setitem__(slice(None), 3.0),
        lambda z: z[0:2].zero_(),
    ):
        x = T(1, 2)
        z = x * 1
        write(z)
        z.backward(C(np.inf, 1))
        assert g(x) == [0.0, 0.0]


def test_of_two_values_written_to_one_place_the_last_gets_the_gradient():  # R86
    x, y = T(1, 2), T(5, 6)
    z = x * 1
    z[[0, 0]] = y
    assert z.tolist() == [6.0, 2.0]
    z.sum().backward()
    assert (g(x), g(y)) == ([0.0, 1.0], [0.0, 1.0])


def test_an_expanded_tensor_is_not_written():  # R86
    z = (T(1) * 1).expand(3)
    with pytest.raises(AutogradError, match=r"add_in_place would write into memory.*clone\(\)"):
        z.add_(1)
    assert z._version == 0


# -- views ----------------------------------------------------------------------------------------


def test_a_write_through_a_view_changes_the_history_of_its_base():  # R86
    x, y = T(1, 2, 3), T(4)
    z = x * 1
    z[0:1].mul_(y)
    assert z.grad_fn.name == "CopySlicesBackward"
    (z * C(1, 10, 100)).sum().backward()
    assert (z.tolist(), g(x), g(y)) == ([4.0, 2.0, 3.0], [4.0, 10.0, 100.0], [1.0])


def test_a_view_taken_before_its_base_was_written_gets_a_new_history():  # R86
    x = T(1, 2)
    z = x * 1
    v = z[0:1]
    z.mul_(3)
    assert v.grad_fn.name == "AsStridedBackward"
    (v * v).sum().backward()
    assert (v.tolist(), g(x)) == ([3.0], [18.0, 0.0])


def test_a_view_of_a_constant_gets_a_history_when_its_base_gets_one():  # R86
    c, w = C(1, 2), T(3, 4)
    v = c[1:2]
    assert not v.requires_grad
    c.mul_(w)
    assert v.requires_grad
    v.backward()
    assert (v.tolist(), g(w)) == ([8.0], [0.0, 2.0])


def test_a_constant_written_through_a_view_gets_a_history():  # R86
    c, w = C(1, 2), T(3)
    c[0:1].mul_(w)
    assert not c.is_leaf
    c.sum().backward()
    assert g(w) == [1.0]


def test_views_see_writes_through_one_another():  # R86
    x, y = T(1, 2, 3, 4), T(5)
    z = x * 1
    v = z.view(2, 2)
    row, column = v[0], v.T[0]
    row.mul_(y)
    assert column.tolist() == [5.0, 3.0]
    (column * C(1, 10)).sum().backward()
    assert (g(x), g(y)) == ([5.0, 0.0, 10.0, 0.0], [1.0])


def test_a_view_written_twice_and_its_base_after_it():  # R86
    x = T(1, 2)
    z = x * 1
    v = z[0:1]
    v.mul_(3)
    v.add_(1)
    z.mul_(2)
    v.mul_(5)
    assert z.tolist() == [40.0, 4.0]
    z.sum().backward()
    assert g(x) == [30.0, 2.0]


def test_the_value_under_a_view_before_the_write_keeps_its_history():  # R86
    x = T(1, 2)
    z = x * 1
    v = z[0:1]
    before = v + 0
    v.zero_()
    (before + z.sum()).backward()
    assert g(x) == [1.0, 1.0]


@pytest.mark.parametrize(
    "look",
    [
        lambda z: z[0],
        lambda z: z[1:, ::2],
        lambda z: z.T,
        lambda z: z.T[1:],
        lambda z: z.reshape(3, 2),
        lambda z: z.view(-1)[::-1],
        lambda z: z.permute(1, 0).unsqueeze(0),
        lambda z: z[0].split(2)[0],
        lambda z: z.unbind(1)[2],
        lambda z: z.unsqueeze(0).expand(2, 2, 3),
    ],
)
def test_every_kind_of_view_follows_its_base(look):  # R86
    def program(x, through_view):
        z = x * 1
        v = look(z) if through_view else None
        z.mul_(w)
        return z, v if through_view else look(z)

    w = lm.tensor([[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]])
    found = []
    for through_view in (True, False):
        x = lm.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        z, v = program(x, through_view)
        loss = (v * v * v).sum() + z.sum()
        (first,) = lm.autograd.grad(loss, x, create_graph=True)
        (second,) = lm.autograd.grad((first * first).sum(), x)
        found.append((v.tolist(), first.tolist(), second.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "look",
    [
        lambda z: z[0],
        lambda z: z[1:, ::2],
        lambda z: z.T[1:],
        lambda z: z.view(-1)[::-1],
        lambda z: z.unbind(1)[2],
        lambda z: z.split(1)[1],
    ],
)
def test_every_kind_of_view_may_be_written(look):  # R86
    y = T(3)
    x = lm.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    z = x * 1
    look(z).mul_(y).mul_(2)
    mask = np.ones((2, 3))
    look(lm.from_numpy(mask)).mul_(6)
    loss = (z * z).sum()
    (first, of_y) = lm.autograd.grad(loss, [x, y], create_graph=True)
    assert first.tolist() == (2 * mask * mask * x.numpy()).tolist()
    under = np.where(mask == 6, x.numpy(), 0)
    assert of_y.item() == (2 * 4 * 3 * under * under).sum()
    (mixed,) = lm.autograd.grad(of_y, x)
    assert mixed.tolist() == (2 * 2 * 4 * 3 * under).tolist()


def test_float32_keeps_its_dtype_through_views():  # R86
    x = lm.ones(4, dtype=np.float32, requires_grad=True)
    z = x * 1
    v = z[1:3]
    v.mul_(3)
    z.add_(1)
    (v * v).sum().backward()
    assert x.grad.dtype == np.float32
    assert g(x) == [0.0, 24.0, 24.0, 0.0]


def test_a_base_that_does_not_lie_in_order_works_too():  # R86
    x = lm.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    z = lm.from_numpy(np.zeros((3, 4))[:, ::2].T)
    z.copy_(x)
    v = z[0]
    v.mul_(10)
    z[1, 1] = 0.0
    (v.sum() + z.sum()).backward()
    assert g(x) == [[20.0, 20.0, 20.0], [1.0, 0.0, 1.0]]


def test_a_readers_own_op_in_place_works_through_views():  # R86
    x = T(1, 2)
    z = x * 1
    v = z[0:1]
    Double.apply(v)
    z.sum().backward()
    assert (z.tolist(), g(x)) == ([2.0, 2.0], [2.0, 1.0])


def test_a_readers_own_view_may_be_written_and_keeps_its_rule():  # R86
    class Reverse(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return -7 * grad

    x = T(1, 2)
    z = x * 1
    y = Reverse.apply(z)
    y.mul_(3)
    z.sum().backward()
    assert (z.tolist(), g(x)) == ([3.0, 6.0], [-21.0, -21.0])


@pytest.mark.parametrize("look", [lambda x: x, lambda x: x.view(-1)], ids=["itself", "a view"])
def test_a_readers_own_view_cannot_be_differentiated_after_its_base_was_written(look):  # R86
    class Reverse(Function):
        @staticmethod
        def forward(ctx, x):
            return look(x)

        @staticmethod
        def backward(ctx, grad):
            return -7 * grad

    x = T(1, 2)
    z = x * 1
    y = Reverse.apply(z)
    z.mul_(3)
    with pytest.raises(
        AutogradError, match="reverse#2 had made a view of, and Reverse has a backw"
    ):
        y.sum().backward()
    assert g(x) is None


def test_a_view_made_under_no_grad_of_a_tensor_with_a_history_is_not_written():  # R86
    x, w = T(1, 2), T(3)
    z = x * 1
    with lm.no_grad():
        v = z[0:1]
    with pytest.raises(AutogradError, match="made under no_grad"):
        v.mul_(2)
    with pytest.raises(AutogradError, match="made under no_grad"):
        v.mul_(w)
    assert (z.tolist(), z._version) == ([1.0, 2.0], 0)
    with pytest.raises(AutogradError, match=r"Into would write .* made under no_grad"):
        Into.apply(v, w)
    assert (z.tolist(), z._version) == ([1.0, 2.0], 0)
    with lm.no_grad():
        v.mul_(2)
    assert z.tolist() == [2.0, 2.0]


def test_a_detached_alias_has_no_history_and_changes_none():  # R86
    x = T(1, 2)
    z = x * 1
    z.detach().mul_(3)
    z.sum().backward()
    assert (z.tolist(), g(x)) == ([3.0, 6.0], [1.0, 1.0])


def test_views_die_when_nobody_holds_them_and_bases_when_their_views_are_gone(no_gc):  # R86
    x = T(1, 2)
    z = x * 1
    v = z[0:1]
    v.mul_(2)
    w = z[1:2]
    z.add_(1)
    dead = [weakref.ref(t) for t in (z, v, w, z.grad_fn, v.grad_fn)]
    del v, w
    assert [ref() is None for ref in dead] == [False, True, True, False, True]
    del z
    assert [ref() is None for ref in dead] == [True] * 5


def test_many_views_that_are_gone_leave_no_list_behind():  # R86
    z = T(*range(100)) * 1
    for i in range(1000):
        z[i % 100 : i % 100 + 1]
    assert len(z._memory.views) < 64
    keep = [z[i : i + 1] for i in range(100)]
    z.mul_(2)
    assert all(v.grad_fn.name == "AsStridedBackward" for v in keep)


def test_outputs_of_one_op_that_are_both_written():  # R86
    x = T(1, 2, 3, 4)
    z = x * 1
    a, b = z.split(2)

    class Swap(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a, b)
            a.mul_(2)
            b.mul_(3)
            return a, b

        @staticmethod
        def backward(ctx, grad_a, grad_b):
            return 2 * grad_a, 3 * grad_b

    Swap.apply(a, b)
    (z * C(1, 10, 100, 1000)).sum().backward()
    assert g(x) == [2.0, 20.0, 300.0, 3000.0]


def test_a_node_of_several_outputs_is_followed_after_a_write():  # R86
    x = T(3)
    a, b = Split.apply(x)
    b.mul_(a)
    (a + b).backward()
    assert g(x) == [2.0 + 2 * 2 * 3 * 3]
