"""Part: what a slice gives back is added to the gradient of its vector where that lies."""

import numpy as np
import pytest

import lucid_mini as lm
from lucid_mini.autograd.part import Part


def test_slices_that_overlap_add_up():
    x = lm.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    (x[0:2] * 10 + x[1:3] * 100 + x[2:] * 1000).sum().backward()
    assert x.grad.tolist() == [10.0, 110.0, 1100.0, 1000.0]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (2, [0, 0, 5, 0]),
        (np.int64(-1), [0, 0, 0, 5]),
        (slice(None, None, -2), [0, 5, 0, 5]),
        (..., [5, 5, 5, 5]),
        (None, [5, 5, 5, 5]),
        ([0, 0, 3], [10, 0, 0, 5]),
        (np.array([True, False, False, True]), [5, 0, 0, 5]),
    ],
)
def test_what_was_chosen_twice_by_an_index_gets_both(index, expected):
    x = lm.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    y = x * 1
    ((y[index] * 2).sum() + (y[index] * 3).sum()).backward()
    assert x.grad.tolist() == expected


def test_a_slice_after_another_use_does_not_write_into_a_gradient_that_a_rule_kept():
    kept = []

    def keep(ctx, grad):
        kept.append(grad)
        return grad

    x = lm.ones(4, requires_grad=True)
    y = x * 1
    early = y[0:2]
    other = lm.autograd.autograd_function(lambda ctx, t: t * 1, keep)(y)
    (other.sum() + early.sum() * 5).backward()
    assert x.grad.tolist() == [6.0, 6.0, 1.0, 1.0]
    assert kept[0].tolist() == [1.0] * 4


def test_the_seed_of_the_caller_stays_as_it_was():
    x = lm.ones(4, requires_grad=True)
    seed = lm.ones(4)
    y = x * 1
    part = y[1:2]
    lm.autograd.backward([y, part], [seed, lm.ones(1)])
    assert x.grad.tolist() == [1.0, 2.0, 1.0, 1.0]
    assert seed.tolist() == [1.0] * 4


def test_hooks_steps_and_a_request_see_the_gradient_whole():
    seen = []
    x = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x[1:]
    y.grad_fn.register_hook(lambda grads, _: seen.append(grads[0].tolist()))
    (step, *_) = list(lm.autograd.steps(y, lm.tensor([5.0, 6.0])))
    assert seen == [[0.0, 5.0, 6.0]]
    assert step.grads_out[0].tolist() == [0.0, 5.0, 6.0]
    (grad,) = lm.autograd.grad(x[1:] * 2, [x], [lm.tensor([5.0, 6.0])])
    assert grad.tolist() == [0.0, 10.0, 12.0]


def test_2_000_slices_of_one_vector_make_one_vector_of_zeros():
    x = lm.tensor(np.arange(2_000.0), requires_grad=True)
    total = lm.stack([x[i] for i in range(2_000)]).sum()
    with lm.lifetime.trace() as t:
        total.backward()
    assert x.grad.tolist() == [1.0] * 2_000
    made = [buffer for buffer in t.buffers if buffer.nbytes == x.nbytes and not buffer.existed]
    assert [buffer.name for buffer in made] == ["grad of x"]


def test_another_dtype_than_that_of_the_tensor_is_cast():
    whole = Part(np.array([1.0, 2.0]), slice(0, 2), (3,)).whole()
    assert whole.tolist() == [1.0, 2.0, 0.0]
    x = lm.tensor([1.0, 2.0, 3.0], dtype=np.float32, requires_grad=True)
    (x[0:2] + x[1:3]).sum().backward()
    assert x.grad.dtype == np.float32
    assert x.grad.tolist() == [1.0, 2.0, 1.0]
