"""R110: what a trace says is alive is what NumPy has allocated, to the byte, at every boundary."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lucid_mini as lm
from lucid_mini.lifetime.trace import Trace

NUMPY_DOMAIN = 389047


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def numpy_bytes() -> int:
    only = tracemalloc.DomainFilter(inclusive=True, domain=NUMPY_DOMAIN)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([only]).traces)


class Checked(Trace):
    """A trace that compares itself with NumPy's allocations at every boundary."""

    def __enter__(self) -> "Checked":
        self.before = numpy_bytes()
        self.compared = 0
        super().__enter__()
        return self

    def compare(self) -> None:
        assert self.live_bytes() + self.untracked_bytes() == numpy_bytes() - self.before
        self.compared += 1

    def applied(self, node: Any, function: Any, args: Any, outputs: Any) -> None:
        super().applied(node, function, args, outputs)
        self.compare()

    def ran(self, node: Any, grads: Any) -> None:
        super().ran(node, grads)
        self.compare()

    def running(self, node: Any, grads: Any) -> None:
        super().running(node, grads)
        self.compare()


def t(*shape: int) -> lm.Tensor:
    return lm.randn(*shape, requires_grad=True)


PROGRAMS: dict[str, tuple[Callable[..., lm.Tensor], list[lm.Tensor]]] = {
    "mlp": (
        lambda x, w, b: ((x @ w + b).relu() @ w.T + 1.0).tanh().sum(),
        [t(5, 4), t(4, 3), t(3)],
    ),
    "views": (lambda x: (x.reshape(2, 6).T[1:3] * x.flatten()[:4].reshape(2, 2)).sum(), [t(3, 4)]),
    "broadcast": (
        lambda x, y: (x.expand(4, 3) * y + x.sum(0, keepdim=True)).mean(),
        [t(1, 3), t(4, 3)],
    ),
    "reuse": (lambda x: (x * x + x * x.exp() + x).sum(), [t(40, 50)]),
    "several outputs": (lambda x: (x.split(2)[0] * x.unbind(1)[0].sum()).sum(), [t(6, 2)]),
    "in place": (lambda x, y: (x * 1.0).mul_(y).add_(x).exp_().sum(), [t(3, 2), t(3, 2)]),
    "indexing": (lambda x: (x[[0, 0, 2]] * x[1]).sum() + x[x > 0].sum(), [t(3, 4)]),
    "reductions": (lambda x: x.logsumexp(1).sum() + x.max(0)[0].sum() + x.var(), [t(3, 4)]),
    "cat": (
        lambda x, y: (lm.cat([x, y]) * lm.stack([x, y]).reshape(4, 3)).sum(),
        [t(2, 3), t(2, 3)],
    ),
    "empty": (lambda x: (x * 2.0).sum(), [t(0, 3)]),
    "cross entropy": (lambda x: lm.cross_entropy(x, [0, 2, 1]), [t(3, 3)]),
    "large sums": (lambda x: sum(x * float(i) for i in range(4)).sum(), [t(64, 64)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_live_bytes_equal_what_numpy_allocated_at_every_boundary(name: str) -> None:
    program, leaves = PROGRAMS[name]
    program(*leaves).backward()  # NumPy's own caches are filled now, the leaves have a .grad
    for leaf in leaves:
        leaf.grad = None
    with Checked() as trace:
        loss = program(*leaves)
        trace.compare()
        loss.backward()
        trace.compare()
        del loss
        trace.compare()
    assert trace.compared >= 6
    assert trace.live_bytes() == sum(
        max(leaf.grad.nbytes, 1) for leaf in leaves if leaf.grad is not None
    )


def test_a_second_backward_into_grad_is_exact_as_well() -> None:
    x = t(8, 8)
    (x * 2.0).sum().backward()
    with Checked() as trace:
        (x * 3.0).sum().backward()
        trace.compare()


def test_higher_order_gradients_are_exact_as_well() -> None:
    x = t(3, 3)

    def program() -> None:
        (g,) = lm.autograd.grad((x**3).sum(), [x], create_graph=True)
        (g * g).sum().backward()

    program()
    x.grad = None
    with Checked() as trace:
        program()
        trace.compare()
    assert trace.live_bytes() == x.nbytes


def test_a_users_function_on_tensors_is_exact_as_well() -> None:
    class Cube(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            square = x * x
            ctx.save_for_backward(x, square)
            return square * x

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
            _, square = ctx.saved_tensors
            return 3.0 * square * grad

    x = t(4, 4)
    with Checked() as trace:
        y = Cube.apply(x).sum()
        trace.compare()
        y.backward()
        trace.compare()
        del y
        trace.compare()
    assert np.allclose(x.grad.numpy(), 3 * x.numpy() ** 2)
