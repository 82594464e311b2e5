"""Every op of lucid_mini, taken to PyTorch: the same values, the same gradients, to second order.

The samples are those of tests/ops/test_gradients.py. What does not go over stands in OUTSIDE with
its reason, and is refused with a sentence.
"""

from itertools import zip_longest

import numpy as np
import pytest
import torch
from ops import test_gradients as samples

import lucid_mini as lm
from lucid_mini.ops.table import FUNCTIONS

to_torch = lm.bridge.torch.to_torch

_WRITES = "it computes where a view lies in memory, for histories after a write: PyTorch does that"
#: What stays here: an op, or one sample of it -> why.
OUTSIDE = {
    "AsStrided": _WRITES,
    "PutStrided": _WRITES,
    "CopySlices": _WRITES,
    "Index reversed": "PyTorch has no steps below 0",
    "PutBack reversed": "PyTorch has no steps below 0",
    "SetItem reversed": "PyTorch has no steps below 0",
    "To there and back": "PyTorch has no longdouble",
}


def named(at):
    return f"{at.of.__name__} {at.what}"


def is_outside(at):
    return at.of.__name__ in OUTSIDE or named(at) in OUTSIDE


INSIDE = [at for at in samples.SAMPLES if not is_outside(at)]
REFUSED = [at for at in samples.SAMPLES if is_outside(at)]


def in_torch(value):
    return torch.tensor(value.numpy()) if lm.is_tensor(value) else value


def over_the_bridge(at, monkeypatch):
    """The sample's own function, with the op under test taken to PyTorch."""
    taken, stays = to_torch(at.of).apply, at.of._apply

    def apply(*args):
        if any(isinstance(a, torch.Tensor) for a in args):
            return taken(*map(in_torch, args))
        return stays(*args)  # called by a rule, on what the bridge handed it

    if at.fn == at.of.apply:
        return apply
    monkeypatch.setattr(at.of, "_apply", staticmethod(apply))
    if "apply" in at.of.__dict__:
        monkeypatch.setattr(at.of, "apply", staticmethod(apply))
    return at.fn


def two_orders(grad, fn, inputs, of):
    """Outputs, first gradients for seeds 1, 2, 3 …, and gradients of a weighted sum of those."""
    outputs = fn(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    seeds = [of(seed_of(o.shape, 1)) for o in outputs]
    first = grad(outputs, inputs, seeds, create_graph=True, allow_unused=True)
    weighted = [(g * of(seed_of(g.shape, 3))).sum() for g in first if g is not None]
    total = sum(weighted[1:], weighted[0])
    second = grad(total, inputs, allow_unused=True) if total.requires_grad else ()
    return [*outputs, *first, *[None if g is None else g * 1 for g in second]]


def seed_of(shape, start):
    return np.cos(np.arange(start, start + int(np.prod(shape)))).reshape(tuple(shape)) + 1.5


def numbers(values):
    return [None if v is None else np.asarray(v.detach().tolist(), float) for v in values]


@pytest.mark.parametrize("at", INSIDE, ids=named)
def test_an_op_gives_the_same_values_and_gradients_in_pytorch(at, monkeypatch):
    inputs = samples.made(at, samples.contiguous)
    ours = numbers(two_orders(lm.autograd.grad, at.fn, inputs, lm.tensor))
    inputs = [torch.tensor(x.numpy(), requires_grad=True) for x in inputs]
    fn = over_the_bridge(at, monkeypatch)
    theirs = numbers(two_orders(torch.autograd.grad, fn, inputs, torch.tensor))
    for a, b in zip_longest(ours, theirs):
        if a is None or b is None:
            assert not np.any(a), "PyTorch has no gradient, and lucid_mini has one"
            assert not np.any(b), "lucid_mini has no gradient, and PyTorch has one"
        else:
            np.testing.assert_allclose(b.reshape(a.shape), a, rtol=1e-12, atol=1e-12)


#: Where there are no elements, there are no differences to compare with.
WITH_ELEMENTS = [at for at in INSIDE if all(0 not in shape for shape in at.shapes)]


@pytest.mark.parametrize("at", WITH_ELEMENTS, ids=named)
def test_pytorch_finds_the_gradients_of_an_op_right_to_second_order(at, monkeypatch):
    inputs = samples.made(at, samples.contiguous)
    inputs = [torch.tensor(x.numpy(), requires_grad=True) for x in inputs]
    fn = over_the_bridge(at, monkeypatch)
    assert torch.autograd.gradcheck(fn, inputs)
    assert torch.autograd.gradgradcheck(fn, inputs, atol=1e-4)


@pytest.mark.parametrize("at", REFUSED, ids=named)
def test_what_does_not_go_over_is_refused_with_a_sentence(at, monkeypatch):
    inputs = samples.made(at, samples.contiguous)
    inputs = [torch.tensor(x.numpy(), requires_grad=True) for x in inputs]
    fn = over_the_bridge(at, monkeypatch)

    def forward_and_backward():
        fn(*inputs).sum().backward()

    with pytest.raises(TypeError, match="does not reach PyTorch over the bridge"):
        forward_and_backward()


@pytest.mark.parametrize("name", sorted(samples.DISCRETE))
def test_an_op_without_a_derivative_gives_the_same_values(name, monkeypatch):
    of = samples.every_function()[name]
    a, b = [1.0, -2.0], [1.0, 3.0]
    ours = samples.DISCRETE[name](lm.tensor(a), lm.tensor(b))
    monkeypatch.setattr(of, "_apply", to_torch(of).apply)
    theirs = samples.DISCRETE[name](torch.tensor(a, requires_grad=True), torch.tensor(b))
    assert theirs.tolist() == ours.tolist()
    assert not theirs.requires_grad


def test_no_op_is_left_out():
    taken = {at.of.__name__ for at in INSIDE} | set(samples.DISCRETE)
    stays = {name for name in OUTSIDE if " " not in name} | samples.REFUSING
    assert set(samples.every_function()) == taken | stays
    assert not taken & stays
    assert {name for name in OUTSIDE if " " in name} <= {named(at) for at in samples.SAMPLES}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_of_lm_refuses_a_tensor_of_pytorch_and_says_the_way(name):
    x = torch.ones(2, 2)
    more = {
        **dict.fromkeys(("pow", "maximum", "minimum", "matmul", "mm"), (x,)),
        **dict.fromkeys(("cumsum", "unsqueeze", "index_select"), (0,)),
        "clamp": (0, 1),
        "reshape": (4,),
        "permute": (1, 0),
        "transpose": (0, 1),
        "split": (1,),
        "chunk": (2,),
        "gather": (1, lm.tensor([[0], [1]])),
        "index_select": (0, lm.tensor([0])),
        "masked_fill": (x > 0, 1.0),
        "cross_entropy": ([0, 1],),
        "where": (x, x),
    }.get(name, ())
    first = [x, x] if name in ("cat", "stack") else x
    with pytest.raises(TypeError, match=r"tensor of PyTorch.*lm\.bridge\.torch\.to_torch"):
        getattr(lm, name)(first, *more)


#: For each op one sample with a matrix.
MATRICES = list({at.of: at for at in WITH_ELEMENTS if len(at.shapes[0]) == 2}.values())


def first_order(at, inputs, monkeypatch):
    """Outputs and gradients of the op over the bridge, for seeds of ones."""
    outputs = over_the_bridge(at, monkeypatch)(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    seeds = [torch.ones_like(o) for o in outputs]
    grads = torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)
    return [*outputs, *[g for g in grads if g is not None]]


def leaves(at, change):
    inputs = samples.made(at, samples.contiguous)
    return [change(torch.tensor(x.numpy())).requires_grad_() for x in inputs]


def across(x):
    """The same numbers, in memory column after column."""
    return x.mT.contiguous().mT if x.ndim > 1 else x.repeat_interleave(2)[::2] if x.ndim else x


@pytest.mark.parametrize("at", MATRICES, ids=named)
def test_an_op_takes_tensors_in_any_layout(at, monkeypatch):
    wanted = first_order(at, leaves(at, lambda x: x), monkeypatch)
    monkeypatch.undo()
    for a, b in zip(wanted, first_order(at, leaves(at, across), monkeypatch), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("at", [at for at in MATRICES if at.of.__name__ != "To"], ids=named)
def test_an_op_on_float32_gives_float32(at, monkeypatch):
    wanted = first_order(at, leaves(at, lambda x: x), monkeypatch)
    monkeypatch.undo()
    made = first_order(at, leaves(at, lambda x: x.float()), monkeypatch)
    assert {value.dtype for value in made} == {torch.float32}
    for a, b in zip(wanted, made, strict=True):
        torch.testing.assert_close(a.float(), b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("at", MATRICES, ids=named)
def test_an_op_finds_shapes_on_the_meta_device(at, monkeypatch):
    wanted = first_order(at, leaves(at, lambda x: x), monkeypatch)
    monkeypatch.undo()
    made = first_order(at, leaves(at, lambda x: x.to("meta")), monkeypatch)
    assert [(v.device.type, v.shape) for v in made] == [("meta", v.shape) for v in wanted]
