"""The trace changes nothing: the same results, bit for bit, the same errors, the same hooks."""

import contextlib
import gc
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch", reason="the bridge needs PyTorch")
from torch import nn
from torch.utils.checkpoint import checkpoint

import lucid_mini as lm


def ones(*shape):
    return torch.linspace(0.5, 1.5, torch.Size(shape).numel()).reshape(shape).requires_grad_()


class Odd(Exception):
    pass


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, fail):
        z = x * y
        ctx.save_for_backward(x, y, z)
        ctx.fail = fail
        return z, z.argmax()

    @staticmethod
    def backward(ctx, grad, _):
        if ctx.fail:
            raise Odd("from the rule")
        x, y, z = ctx.saved_tensors
        return grad * y + z, grad * x, None


def shared_input():
    x = ones(4)
    (x * x + x.exp() * x.sin()).sum().backward()
    (x * 3).sum().backward()
    return x.grad


def network():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten())
    net.append(nn.Dropout(0.5)).append(nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(torch.randn(5, 1, 4, 4)), torch.arange(5) % 3).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return [*net.parameters(), *net.buffers()]


def recurrent():
    torch.manual_seed(2)
    lstm, embedding = nn.LSTM(4, 3, num_layers=2), nn.Embedding(7, 4, sparse=True)
    out, (h, c) = lstm(embedding(torch.arange(6).reshape(3, 2)))
    (out.sum() + (h * c).sum()).backward()
    return [*(p.grad for p in lstm.parameters()), embedding.weight.grad.to_dense()]


def custom():
    x, y = ones(5), ones(5)
    z, index = Custom.apply(x, y, False)
    (z[index] * z.sum()).backward()
    return x.grad, y.grad


def custom_that_fails():
    x = ones(5)
    Custom.apply(x, x, True)[0].sum().backward()


def higher_order():
    x = ones(5)
    (first,) = torch.autograd.grad((x**4).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    return torch.autograd.grad(second.sum(), x)


def views_and_writes():
    x = ones(4, 4)
    y = x * 2
    y[1] = y[0] * 3
    y.t()[2].mul_(2)
    y.view(-1)[::3].add_(1)
    (y * y).sum().backward()
    return x.grad


def double(leaf):
    leaf.grad.mul_(2)


def hooks_that_change_gradients():
    x, seen = ones(3), []
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda grad: grad * 10)
    y.grad_fn.register_prehook(lambda grads: (grads[0] + 1,))
    y.grad_fn.register_hook(lambda given, _: seen.append(given[0].clone()))
    x.register_post_accumulate_grad_hook(double)
    (y * y).sum().backward()
    return x.grad, y.grad, *seen


def packed():
    calls = []

    def pack(t):
        calls.append(1.0)
        return t.double()

    def unpack(t):
        calls.append(2.0)
        return t.float()

    x = ones(5)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x.exp() * x).tanh().sum()
    y.backward()
    return x.grad, torch.tensor(calls)


def recomputed():
    x, layer = ones(2, 3), nn.Linear(3, 3)
    nn.init.constant_(layer.weight, 0.3)
    nn.init.constant_(layer.bias, 0.1)
    y = checkpoint(lambda t: layer(t).tanh(), x, use_reentrant=True)
    z = checkpoint(lambda t: layer(t).sin(), y, use_reentrant=False)
    z.sum().backward()
    return x.grad, layer.weight.grad


def a_pass_inside_of_a_pass():
    x, w = ones(3), ones(3)

    def inner(grad):
        with torch.enable_grad():
            (w * w).sum().backward()
        return grad * 2

    y = x * 2
    y.register_hook(inner)
    (y * y).sum().backward()
    return x.grad, w.grad


def modes():
    x = ones(3)
    with torch.no_grad():
        a = x * 2
    with torch.inference_mode():
        b = x * 3
    return a, b.clone(), x.detach() + 1


def a_saved_value_changed():
    x = ones(3)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def a_saved_input_changed():
    x = ones(3)
    y = x * 1
    z = y * y
    y.mul_(2)
    z.sum().backward()


def a_second_backward():
    y = (ones(3) ** 2).sum()
    y.backward()
    y.backward()


def a_leaf_written():
    ones(3).add_(1)


def shapes_that_do_not_fit():
    return ones(2, 3) @ ones(2, 3)


def an_index_out_of_range():
    return ones(3)[5]


def no_gradient():
    torch.ones(3).sum().backward()


def an_unused_input():
    return torch.autograd.grad(ones(3).sum(), ones(2))


def an_anomaly():
    x = torch.zeros(1, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=True):
            (x.sqrt() * 0).sum().backward()


def saving_is_forbidden():
    with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        return ones(3).exp().sum()


RESULTS = [
    shared_input,
    network,
    recurrent,
    custom,
    higher_order,
    views_and_writes,
    hooks_that_change_gradients,
    packed,
    recomputed,
    a_pass_inside_of_a_pass,
    modes,
    saving_is_forbidden,
]
ERRORS = [
    custom_that_fails,
    a_saved_value_changed,
    a_saved_input_changed,
    a_second_backward,
    a_leaf_written,
    shapes_that_do_not_fit,
    an_index_out_of_range,
    no_gradient,
    an_unused_input,
    an_anomaly,
]


def flat(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


@pytest.mark.parametrize("program", RESULTS, ids=lambda f: f.__name__)
def test_a_traced_program_computes_the_same_bits(program):
    plain = flat(program())
    with lm.bridge.torch.trace() as t:
        traced = flat(program())
    assert t.failure is None
    assert t.end > 0
    assert len(plain) == len(traced)
    for a, b in zip(plain, traced, strict=True):
        assert torch.equal(a, b)
        assert a.dtype == b.dtype
        assert a.requires_grad == b.requires_grad


@pytest.mark.parametrize("program", ERRORS, ids=lambda f: f.__name__)
def test_a_traced_program_fails_with_the_same_error(program):
    def error_of():
        try:
            program()
        except Exception as error:
            return type(error), str(error)
        raise AssertionError(f"{program.__name__} did not fail")

    plain = error_of()
    with lm.bridge.torch.trace() as t:
        traced = error_of()
    assert t.failure is None
    assert traced == plain


def test_an_error_that_is_kept_keeps_no_more_than_without_the_trace():
    def alive(mode):
        kept, watch = [], []

        def made(*shape):
            t = torch.ones(*shape)
            watch.append(weakref.ref(t.untyped_storage()))
            return t

        with mode:
            try:
                torch.mm(made(2, 2), made(3, 3))
            except RuntimeError as error:
                kept.append(error)
        gc.collect()
        return [ref() is not None for ref in watch]

    assert alive(contextlib.nullcontext()) == [False, False]
    assert alive(lm.bridge.torch.trace()) == [False, False]


def test_after_the_trace_nothing_listens_and_the_graph_runs_on():
    x = ones(3)
    with lm.bridge.torch.trace() as t:
        y = (x.exp() * x).sum()
    steps = t.end
    y.backward()
    assert t.end == steps
    assert torch.equal(x.grad, x.exp() * x + x.exp())


def test_gradients_are_handed_over_and_not_copied_as_without_the_trace():
    """A hook that held a gradient would make AccumulateGrad copy it."""
    x = ones(1000)
    with lm.bridge.torch.trace() as t:
        (x * 2).sum().backward()
    assert "clone" not in {event.node for event in t.events}
    assert [b.name for b in t.buffers if b.is_grad] == ["grad of x"]
