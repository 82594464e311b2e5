"""What a trace records, and what it leaves alone."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lucid_mini as lm
from lucid_mini import events
from lucid_mini.ops import elementwise, linalg, reduce


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    lm.reset_names()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def step(w: lm.Tensor, v: lm.Tensor) -> None:
    x = lm.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    ((x @ w).tanh() @ v).sum().backward()


@pytest.fixture
def leaves() -> tuple[lm.Tensor, lm.Tensor]:
    w = lm.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
    v = lm.tensor([[1.0], [2.0]], requires_grad=True)
    return w, v


def test_nothing_is_installed_while_no_trace_runs(leaves: Any) -> None:  # R105
    assert events.recorder is None
    with lm.lifetime.trace():
        assert events.recorder is not None
    assert events.recorder is None


def test_the_recorder_is_taken_away_when_the_block_raises() -> None:  # R105
    t = lm.lifetime.trace()

    def program() -> None:
        with t:
            lm.ones(2) * 2.0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        program()
    assert events.recorder is None
    assert [e.kind for e in t.events].count("alloc") == 3


def test_a_trace_changes_no_result(leaves: Any) -> None:  # R105
    w, v = leaves
    step(w, v)
    plain = w.grad.numpy().copy(), v.grad.numpy().copy()
    w.grad = v.grad = None
    with lm.lifetime.trace():
        step(w, v)
    assert np.array_equal(w.grad.numpy(), plain[0])
    assert np.array_equal(v.grad.numpy(), plain[1])


def test_two_runs_give_the_same_log(leaves: Any) -> None:  # R105
    logs = []
    for _ in range(2):
        lm.reset_names()
        with lm.lifetime.trace() as t:
            step(*leaves)
        for leaf in leaves:
            leaf.grad = None
        logs.append([tuple(e) for e in t.events])
    assert logs[0] == logs[1]
    assert len(logs[0]) > 30


def test_the_clock_counts_events(leaves: Any) -> None:  # R105
    with lm.lifetime.trace() as t:
        step(*leaves)
    assert [e.step for e in t.events] == list(range(len(t.events)))
    assert {e.kind for e in t.events} <= set(events.KINDS)


def test_a_trace_keeps_nothing_alive() -> None:  # R105
    with lm.lifetime.trace() as t:
        x = lm.ones(3, requires_grad=True)
        y = x.exp()
        dead = [weakref.ref(o) for o in (x, y, y._data, x._data, y.grad_fn, y.grad_fn.ctx)]
        del x, y
        assert [r() for r in dead] == [None] * 6
    assert t.live_bytes() == 0


def test_free_steps_are_the_same_with_and_without_a_trace(leaves: Any) -> None:  # R111
    """Bare weak references are the witness: which buffers are gone after each node of backward."""

    def witness() -> list[list[bool]]:
        w, v = leaves
        x = lm.tensor(np.ones((3, 2)))
        a = x @ w
        b = a.tanh()
        c = b @ v
        loss = c.sum()
        refs = [weakref.ref(t._data) for t in (x, a, b, c)]
        del x, a, b, c
        seen = [[r() is not None for r in refs]]
        for _ in lm.autograd.steps(loss):
            seen.append([r() is not None for r in refs])
        return seen

    plain = witness()
    with lm.lifetime.trace():
        traced = witness()
    assert traced == plain
    assert plain[0] == [True, False, True, False]
    assert plain[-1] == [False, False, False, False]


def test_one_row_per_owning_buffer_tells_its_life(leaves: Any) -> None:
    with lm.lifetime.trace() as t:
        step(*leaves)
    rows = {b.name: b for b in t.buffers}
    tanh = rows["tanh#2"]
    assert tanh.nbytes == 48
    assert tanh.saved_by == ("tanh#2 output", "matmul#3 a")
    assert tanh.freed_by == "engine after tanh#2"
    assert tanh.allocated < tanh.saved < tanh.last_use < tanh.released < tanh.freed  # type: ignore[operator]
    assert tanh.drag == 0
    assert tanh.verdict == "refcount"
    x = rows["x"]
    assert x.saved_by == ("matmul#1 a",)
    assert x.where.startswith("test_trace.py:")
    assert rows["matmul#1"].saved_by == ()
    assert rows["grad of w"].is_grad
    assert rows["grad of w"].freed is None


def test_views_own_no_bytes_and_are_no_rows() -> None:
    with lm.lifetime.trace() as t:
        x = lm.ones(4, 3)
        x.T.reshape(12), x[1:2], x.expand(5, 4, 3), x.detach()
    assert [(b.name, b.nbytes) for b in t.buffers if not b.name.startswith("reshape")] == [
        ("x", 96)
    ]


def test_what_was_there_before_is_told_apart_and_not_counted(leaves: Any) -> None:
    w, _ = leaves
    with lm.lifetime.trace() as t:
        (w * 2.0).sum()
    assert {b.name for b in t.buffers if b.existed} == {"w"}
    assert t.live_bytes() == 0
    assert t.peak() == 8 + 32 + 8  # the constant, the product, the sum


def test_an_empty_array_counts_the_byte_that_numpy_allocates() -> None:
    with lm.lifetime.trace() as t:
        x = lm.zeros(0, 3)
        assert t.live_bytes() == 1
        del x
    assert t.live_bytes() == 0


def test_foreign_memory_is_listed_and_not_counted() -> None:
    with lm.lifetime.trace() as t:
        x = lm.from_numpy(np.frombuffer(b"12345678", dtype=np.float64))
        y = x * 2.0
        assert t.live_bytes() == 8  # the product; nothing saved the constant
    assert [b.nbytes for b in t.buffers if b.foreign] == [8]
    del x, y


def test_the_curve_ends_at_what_is_alive_and_peaks_where_it_says(leaves: Any) -> None:
    with lm.lifetime.trace() as t:
        step(*leaves)
    curve = t.curve()
    assert len(curve) == len(t.events) == t.end
    assert max(curve) == t.peak()
    assert curve[-1] == t.live_bytes() == 32 + 16  # the two gradients
    assert max(t.needed("program")) <= t.peak()
    assert all(n <= c for n, c in zip(t.needed("algorithm"), t.needed("program"), strict=True))


def test_a_value_that_backward_reaches_by_capture_is_needed_by_the_program_only() -> None:
    def activation(z: lm.Tensor) -> lm.Tensor:
        return lm.autograd.autograd_function(
            lambda ctx, x: lm.relu(x), lambda ctx, grad: grad * (z > 0), "Captured"
        )(z)

    w = lm.ones(100, requires_grad=True)
    with lm.lifetime.trace() as t:
        activation(w * 2.0).sum().backward()
    at = t.boundary
    assert at is not None
    assert t.needed("program")[at] - t.needed("algorithm")[at] == 800


def test_needed_by_anything_else_is_refused() -> None:
    with lm.lifetime.trace() as t:
        pass
    with pytest.raises(ValueError, match="'program' or 'algorithm', not 'luck'"):
        t.needed("luck")


def test_a_trace_inside_a_trace_tells_both(leaves: Any) -> None:
    with lm.lifetime.trace() as outer:
        lm.ones(2)
        with lm.lifetime.trace() as inner:
            lm.ones(3)
        lm.ones(4)
    assert [b.nbytes for b in inner.buffers] == [24]
    assert [b.nbytes for b in outer.buffers] == [16, 24, 32]


def test_labels_stay_what_they_were_when_names_start_again(leaves: Any) -> None:
    with lm.lifetime.trace() as t:
        step(*leaves)
    before = [e.node for e in t.events]
    lm.reset_names()
    assert [e.node for e in t.events] == before


OPS = {
    "add": lambda x: x + x,
    "mul": lambda x: x * x.exp(),
    "div": lambda x: x / (x + 1.0),
    "pow": lambda x: x**3,
    "tanh": lambda x: x.tanh().sigmoid().relu(),
    "log": lambda x: (x + 1.0).log().sqrt(),
    "matmul": lambda x: x @ x.T,
    "softmax": lambda x: x.softmax(1).log_softmax(0),
    "max": lambda x: x.max(1)[0] * x.amax(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "index": lambda x: x[[0, 0]] + x[1:2],
    "cat": lambda x: lm.cat([x, x * x]),
    "split": lambda x: x.split(1)[0] * x.split(1)[1],
    "where": lambda x: lm.where(x > 1.0, x, x * x),
    "in place": lambda x: (x * 1.0).mul_(x).add_(x),
    "var": lambda x: x.var(1) + x.mean(1) + x.cumsum(1)[:, 0],
    "views": lambda x: x.reshape(4).unsqueeze(0).expand(3, 4).T,
    "cross entropy": lambda x: lm.cross_entropy(x, lm.tensor([0, 1])),
}


@pytest.mark.parametrize("name", OPS)
def test_drag_is_zero_for_built_in_ops(name: str) -> None:  # R108
    x = lm.tensor([[1.5, 2.0], [0.5, 3.0]], requires_grad=True)
    with lm.lifetime.trace() as t:
        OPS[name](x).sum().backward()
    dragging = {b.name: b.drag for b in t.buffers if b.drag}
    # The caller's loss lives until backward returns: eight bytes that nobody can free earlier.
    loss = t.marks[[m[1][0] for m in t.marks].index("B") - 1][1].removeprefix("F ")
    dragging.pop(loss, None)
    assert dragging == {}


def test_the_last_nodes_gradients_are_gone_before_the_next_node_runs() -> None:  # R108
    alive: list[bool] = []
    given: list[Any] = []

    class Watch(lm.autograd.Function):
        arrays = True

        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            alive.extend(ref() is not None for ref in given)
            result = grad * 1.0
            given[:] = [weakref.ref(grad)]
            return result

    x = lm.ones(3, requires_grad=True)
    Watch.apply(Watch.apply(Watch.apply(x))).sum().backward()
    assert alive == [False, False]


def test_peak_in_backward_is_what_is_saved_and_three_buffers() -> None:  # R108
    n, layers = 1000, 10
    x = lm.ones(n, requires_grad=True)
    with lm.lifetime.trace() as t:
        h = x * 1.0
        for _ in range(layers):
            h = h.tanh()
        loss = h.sum()
        held = t.live_bytes()
        del h
        loss.backward()
    assert held == layers * 8 * n + 8 + 8  # the layers, the loss, and the constant that mul saved
    assert t.peak() <= held + 3 * 8 * n


def test_saved_lists_node_slot_role_bytes_buffer_and_version(leaves: Any) -> None:  # R106
    w, v = leaves
    x = lm.tensor(np.ones((3, 2)))
    loss = ((x @ w).tanh() @ v).sum()
    rows = lm.lifetime.saved(loss)
    assert [(r.node, r.slot, r.role, r.shape, r.nbytes, r.buffer, r.version) for r in rows] == [
        ("matmul#1", "a", "input", (3, 2), 48, "b1", 0),
        ("tanh#2", "output", "output", (3, 2), 48, "b2", 0),
        ("matmul#3", "a", "input", (3, 2), 48, "b2", 0),
        ("matmul#3", "b", "input", (2, 1), 16, "b3", 0),
    ]
    assert rows.nbytes == 48 + 48 + 16
    assert "4 saved values in 3 buffers, 112 bytes" in repr(rows)


def test_bytes_of_a_saved_view_are_its_owners_counted_once() -> None:  # R106
    x = lm.ones(100, requires_grad=True)
    big = x * 2.0
    y = (big[:2] * big[2:4]).sum()
    rows = lm.lifetime.saved(y)
    assert [r.nbytes for r in rows if r.node.startswith("mul#") and r.shape == (2,)] == [800, 800]
    assert rows.nbytes == 800 + 8


def test_the_hot_path_calls_nothing_of_the_recorder_when_off() -> None:
    """What is off costs one read: no call, no event, no weak reference."""
    for cls in (elementwise.Mul, linalg.Matmul, reduce.Sum):
        assert "recorder" in cls.apply.__code__.co_names
    x = lm.ones(3, requires_grad=True)
    y = x * x
    assert weakref.getweakrefcount(y._data) == 0
    assert weakref.getweakrefcount(y) == 0


def test_a_write_that_no_counter_sees_is_caught_by_its_fingerprint() -> None:  # R88
    shared = np.ones(3)
    x = lm.from_numpy(shared).requires_grad_()
    with lm.lifetime.trace(check_writes=True):
        y = (x * x).sum()
        shared[0] = 9.0
        with pytest.raises(
            lm.errors.VersionMismatchError, match=r"mul#1 saved tensor 0 \(x\), and its bytes"
        ):
            y.backward()
    assert x.grad is None


def test_without_check_writes_it_passes_unseen() -> None:  # R88
    shared = np.ones(3)
    x = lm.from_numpy(shared).requires_grad_()
    with lm.lifetime.trace():
        y = (x * x).sum()
        shared[0] = 9.0
        y.backward()
    assert x.grad is not None


def test_check_writes_has_no_false_alarm(leaves: Any) -> None:  # R88
    with lm.lifetime.trace(check_writes=True):
        step(*leaves)
    assert leaves[0].grad is not None
