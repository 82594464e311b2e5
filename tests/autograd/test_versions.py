"""Versions: what was saved and written since is found out (rows R81 to R87, R99)."""

import gc
import weakref

import numpy as np
import pytest
from functions import C, Exp, Mul, Square, T, g

import lucid_mini as lm
from lucid_mini.autograd import (
    Function,
    allow_mutation_on_saved_tensors,
    save_on_disk,
    saved,
    saved_tensors_hooks,
)
from lucid_mini.errors import AutogradError, PackError, VersionMismatchError

# -- the counter ----------------------------------------------------------------------------------


def test_views_and_aliases_share_one_version_counter():  # R81
    x = C(1, 2)
    versions = [x._version]
    x.add_(1)
    versions.append(x._version)
    x[0] = 5
    versions.append(x._version)
    x.view(-1).mul_(2)
    versions.append(x._version)
    assert versions == [0, 1, 2, 3]
    x.detach().add_(1)
    assert x._version == x.view(-1)._version == x.detach()._version == 4
    assert x.clone()._version == 0


def test_every_way_to_write_counts_once():  # R81
    x = C(1, 2)
    writes = [
        lambda: x.sub_(1),
        lambda: x.div_(2),
        lambda: x.pow_(2),
        x.exp_,
        lambda: x.clamp_(0, 1),
        lambda: x.fill_(3),
        x.zero_,
        lambda: x.copy_(C(4, 5)),
    ]
    for count, write in enumerate(writes, 1):
        write()
        assert x._version == count
    assert x.tolist() == [4.0, 5.0]


def test_a_write_that_was_refused_does_not_count():  # R81
    x = T(1, 2)
    with pytest.raises(AutogradError):
        x.add_(1)
    with pytest.raises(ValueError, match="broadcast"):
        x.detach().add_(C(1, 2, 3))
    assert x._version == 0


# -- the check ------------------------------------------------------------------------------------


def test_a_saved_input_that_was_written_is_reported_with_who_and_where():  # R82
    x = T(3)
    z = x * 1
    y = Square.apply(z)
    z.add_(1)
    with pytest.raises(VersionMismatchError) as caught:
        y.backward()
    text = str(caught.value)
    assert text.startswith("square#2 saved tensor 0 at version 0, but it was changed in place by ")
    assert "add_in_place at test_versions.py:" in text
    assert "is at version 1 now" in text
    assert "clone()" in text
    assert g(x) is None


def test_the_check_is_the_same_under_no_grad():  # R82
    x = T(3)
    z = x * 1
    y = Square.apply(z)
    with lm.no_grad():
        z.add_(1)
    with pytest.raises(VersionMismatchError, match="version 1 now"):
        y.backward()


def test_a_write_through_a_view_or_an_alias_is_found_too():  # R82
    for alias in (lambda t: t.view(-1), lambda t: t[0:1], lambda t: t.detach()):
        x = T(3)
        z = x * 1
        y = Square.apply(z)
        with lm.no_grad():
            alias(z).add_(1)
        with pytest.raises(VersionMismatchError):
            y.backward()


def test_the_check_comes_when_a_saved_tensor_is_read_not_before():  # R82
    class Careless(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = T(3)
    z = x * 1
    y = Careless.apply(z)
    with lm.no_grad():
        z.add_(1)
    y.backward()
    assert g(x) == [1.0]


def test_the_version_counts_from_the_save():  # R82
    x = T(3)
    z = x * 1
    z.add_(1)
    y = Square.apply(z)
    y.backward()
    assert g(x) == [8.0]
    z = T(3) * 1
    z.add_(1)
    y = Square.apply(z)
    z.add_(1)
    with pytest.raises(VersionMismatchError, match=r"at version 1, .* at version 2 now"):
        y.backward()


def test_built_in_ops_check_the_same():  # R82
    x = T(3)
    z = x * 1
    y = z * z
    z.mul_(2)
    with pytest.raises(VersionMismatchError, match="mul#2 saved tensor 0"):
        y.backward()


def test_a_saved_output_that_was_written_is_reported_too():  # R83
    for exp in (Exp.apply, lm.exp):
        x = T(1)
        y = exp(x)
        z = y * 1
        y.add_(1)
        with pytest.raises(VersionMismatchError, match="exp#"):
            z.backward()


def test_operands_that_were_not_saved_raise_no_false_alarm():  # R84
    x, w = T(3), T(4)
    z = x * 1
    y = z + w
    z.mul_(2)
    y.backward()
    assert (g(x), g(w)) == ([1.0], [1.0])
    x, c = T(3), C(5)
    z = x * 1
    y = Mul.apply(z, c)  # saves both, so a write to either counts
    c.add_(1)
    with pytest.raises(VersionMismatchError, match="saved tensor 1"):
        y.backward()
    z = x * 1
    y = z * C(5)  # saves only what x needs
    z.mul_(2)
    y.backward()
    assert g(x) == [5.0]


# -- writes allowed by a copy ---------------------------------------------------------------------


def test_allowed_mutation_copies_before_the_write():  # R87
    x = T(1)
    z = x * 1
    with allow_mutation_on_saved_tensors():
        y = z * z
        z.add_(1)
        y.backward()
    assert z.tolist() == [2.0]
    assert g(x) == [2.0]


def test_allowed_mutation_covers_saved_outputs_and_writes_through_views():  # R87
    x = T(0, 1)
    with allow_mutation_on_saved_tensors():
        y = x.exp()
        saved = y.detach().clone()
        z = y * 3
        y[0] = 100.0
        y.detach().add_(7)
        z.sum().backward()
    assert g(x) == (3 * saved).tolist()


def test_allowed_mutation_copies_only_what_is_saved_and_only_once():  # R87
    x = lm.ones(1000, requires_grad=True)
    z, other = x * 1, lm.ones(1000)
    with allow_mutation_on_saved_tensors():
        y = Square.apply(z)
        (slot,) = y.grad_fn.ctx._saved
        assert np.shares_memory(slot.held, z.numpy())
        other.add_(1)
        assert np.shares_memory(slot.held, z.numpy())
        z.add_(1)
        first = slot.held
        assert not np.shares_memory(first, z.numpy())
        z.add_(1)
        assert slot.held is first
        y.sum().backward()
    assert x.grad.numpy()[0] == 2.0


def test_what_is_written_after_the_block_is_reported_again():  # R87
    x = T(3)
    z = x * 1
    with allow_mutation_on_saved_tensors():
        kept = Square.apply(z)
        z.add_(1)
        late = Square.apply(z)
    z.add_(1)
    kept.backward()
    assert g(x) == [6.0]
    with pytest.raises(VersionMismatchError):
        late.backward()


def test_the_copy_dies_with_the_node(no_gc):  # R87
    x = T(3)
    z = x * 1
    with allow_mutation_on_saved_tensors():
        y = Square.apply(z)
        z.add_(1)
        copy = weakref.ref(y.grad_fn.ctx._saved[0].held)
        y.backward()
        assert copy() is None


# -- saved-tensor hooks ---------------------------------------------------------------------------


def test_pack_runs_when_saved_and_unpack_when_read():  # R99
    events = []

    def pack(tensor):
        events.append(("pack", tensor.tolist()))
        return tensor.numpy().copy()

    def unpack(kept):
        events.append(("unpack", kept.tolist()))
        return lm.tensor(kept)

    x = T(3)
    with saved_tensors_hooks(pack, unpack):
        y = Square.apply(x)
    assert events == [("pack", [3.0])]
    y.backward()
    assert events == [("pack", [3.0]), ("unpack", [3.0])]
    assert g(x) == [6.0]


def test_packing_covers_built_in_ops_outputs_several_slots_and_names():  # R99
    packed = []

    def pack(tensor):
        packed.append(tensor.tolist())
        return tensor.numpy() * 10

    class Named(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b=b, n=2)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            kept = ctx.saved_variables
            return grad * kept.b * kept.n, grad * kept[0]

    a, b = T(2), T(5)
    with saved_tensors_hooks(pack, lambda kept: lm.tensor(kept / 10)):
        y = Named.apply(a, b)
        z = y.exp() * C(7)
    assert packed[:2] == [[2.0], [5.0]]
    assert len(packed) == 4
    (z * 0).backward(retain_graph=True)
    a.grad = b.grad = None
    y.backward()
    assert (g(a), g(b)) == ([10.0], [2.0])


def test_the_innermost_hooks_win():  # R99
    log = []

    def hooks(name):
        return saved_tensors_hooks(lambda t: (log.append(name), t)[1], lambda t: t)

    x = T(3)
    with hooks("outer"):
        with hooks("inner"):
            Square.apply(x)
        Square.apply(x)
    Square.apply(x)
    assert log == ["inner", "outer"]


def test_packing_keeps_the_version_check_on():  # R99
    x = T(3)
    z = x * 1
    with saved_tensors_hooks(lambda t: t.numpy().copy(), lm.tensor):
        y = Square.apply(z)
    z.add_(1)
    with pytest.raises(VersionMismatchError, match="square#2 saved tensor 0 at version 0"):
        y.backward()


def test_packing_keeps_history_so_second_derivatives_are_right():  # R99
    x = T(2)
    with saved_tensors_hooks(lambda t: t.numpy().copy(), lm.tensor):
        y = Exp.apply(x * 3) * Square.apply(x)
    (first,) = lm.autograd.grad(y, x, create_graph=True)
    (second,) = lm.autograd.grad(first, x)
    assert first.item() == pytest.approx(np.exp(6) * (3 * 4 + 2 * 2))
    assert second.item() == pytest.approx(np.exp(6) * (9 * 4 + 2 * 3 * 4 + 2))


def test_a_write_in_pack_is_refused():  # R99
    x = T(3)
    with pytest.raises(PackError, match=r"being packed for backward.*clone\(\)"):  # noqa: SIM117
        with saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
            Square.apply(x)
    assert x.tolist() == [3.0]
    Square.apply(x).backward()
    assert g(x) == [6.0]


@pytest.mark.parametrize(
    ("unpack", "text"),
    [
        (lambda kept: kept, "unpack returned ndarray, not a tensor"),
        (lambda kept: lm.tensor([1.0, 2.0]), r"shape \(2,\) and dtype float64, .* shape \(1,\)"),
        (lambda kept: lm.tensor(kept, dtype=np.float32), "dtype float32"),
    ],
    ids=["type", "shape", "dtype"],
)
def test_unpack_must_give_back_what_pack_was_given(unpack, text):  # R99
    x = T(3)
    with saved_tensors_hooks(lambda t: t.numpy().copy(), unpack):
        y = Square.apply(x)
    with pytest.raises(PackError, match="square#1: .*" + text):
        y.backward()
    assert g(x) is None


def test_outside_their_blocks_packing_and_copying_are_off():  # R99, R87
    with saved_tensors_hooks(lambda t: t, lambda t: t), allow_mutation_on_saved_tensors():
        assert saved.packer is not None
        assert saved.before_write is not None
    assert saved.packer is None
    assert saved.before_write is None


def test_hooks_that_cannot_be_called_are_refused_at_once():  # R99
    with pytest.raises(TypeError, match="unpack must be a callable, not an int"):
        saved_tensors_hooks(lambda t: t, 3)


def test_nothing_is_packed_where_nothing_is_recorded():  # R99
    packed = []
    with saved_tensors_hooks(packed.append, lambda t: t), lm.no_grad():
        Square.apply(T(3))
    with saved_tensors_hooks(packed.append, lambda t: t):
        Square.apply(C(3))
    assert packed == []


def test_packing_frees_the_tensor_and_release_frees_what_was_packed(no_gc):  # R99
    class Kept:
        def __init__(self, tensor):
            self.data = tensor.tolist()

    x = T(3)
    with saved_tensors_hooks(Kept, lambda kept: lm.tensor(kept.data)):
        z = x * 1
        y = Square.apply(z)
    dead, kept = weakref.ref(z.numpy().base), weakref.ref(y.grad_fn.ctx._saved[0].held)
    del z
    assert dead() is None
    assert kept() is not None
    y.backward()
    assert kept() is None
    assert g(x) == [6.0]


def test_what_is_packed_away_is_held_by_nobody_an_output_neither(tmp_path):
    weight = lm.full((8, 8), 0.1, requires_grad=True)

    def loss():
        h = lm.ones(4, 8)
        with lm.autograd.save_on_disk(tmp_path):
            for _ in range(3):
                h = (h @ weight).tanh()
        return h.sum()

    with lm.lifetime.trace() as trace:
        y = loss()
        assert trace.live_bytes() == y.numpy().nbytes
        y.backward()
    packed, weight.grad = weight.grad.tolist(), None
    h = lm.ones(4, 8)
    for _ in range(3):
        h = (h @ weight).tanh()
    h.sum().backward()
    assert packed == weight.grad.tolist()


def test_saved_tensors_may_lie_on_disk_and_the_files_go_with_their_nodes(tmp_path):  # R99
    folder = tmp_path / "saved"
    x = T(1, 2)
    with save_on_disk(folder):
        y = Square.apply(x).exp()
        other = Square.apply(x)
    assert len(list(folder.iterdir())) == 3
    y.sum().backward()
    assert len(list(folder.iterdir())) == 1
    assert g(x) == pytest.approx([2 * np.e, 4 * np.exp(4)])
    del other
    assert list(folder.iterdir()) == []


def test_two_contexts_may_share_a_folder(tmp_path):  # R99
    x = T(3)
    with save_on_disk(tmp_path):
        a = Square.apply(x)
    with save_on_disk(tmp_path):
        b = Square.apply(x * 2)
    (a + b).backward()
    assert g(x) == [30.0]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_gone_is_named(tmp_path):  # R99
    x = T(3)
    with save_on_disk(tmp_path):
        y = Square.apply(x)
    (file,) = tmp_path.iterdir()
    file.unlink()
    with pytest.raises(PackError, match=f"{file.name} cannot be read back"):
        y.backward()
    gc.collect()
