"""R113: is_needed swaps a saved value and runs the rule again."""

from typing import Any

import numpy as np
import pytest

import lucid_mini as lm
from lucid_mini.lifetime import is_needed


class SavesTooMuch(lm.autograd.Function):
    """Keeps x and its shape would do."""

    @staticmethod
    def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
        ctx.save_for_backward(x)
        return x.sum()

    @staticmethod
    def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
        (x,) = ctx.saved_tensors
        return grad * lm.ones(*x.shape)


class SavesInput(lm.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
        ctx.save_for_backward(x)
        return lm.relu(x)

    @staticmethod
    def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
        (x,) = ctx.saved_tensors
        return grad * (x > 0)


def leaf(*values: float) -> lm.Tensor:
    return lm.tensor(list(values), requires_grad=True)


def test_a_value_that_the_rule_reads_is_needed() -> None:
    x = leaf(1.0, 2.0)
    need = is_needed((x * x.exp()).grad_fn, 0)
    assert need
    assert need.by_argument == {"a": False, "b": True}


def test_a_value_of_which_only_the_shape_is_read_is_not_needed() -> None:
    need = is_needed(SavesTooMuch.apply(leaf(1.0, 2.0, 3.0)).grad_fn, 0)
    assert not need
    assert need.by_argument == {"x": False}
    assert need.nbytes == 24
    assert "not needed for this input: x" in repr(need)
    assert need.instead == "its shape would do, if anything"
    assert "Its shape would do, if anything." in repr(need)


def test_a_value_of_which_only_the_sign_matters_could_be_a_mask() -> None:
    need = is_needed(SavesInput.apply(leaf(-1.0, 2.0)).grad_fn, "x")
    assert need
    assert need.instead == "only its sign matters: 2 bytes would do"


def test_the_output_says_its_two_blind_spots() -> None:
    need = is_needed(leaf(1.0).exp().grad_fn, "output")
    assert "a branch that these values did not take" in repr(need)
    assert "a gradient that is zero" in repr(need)


def test_nothing_is_freed_or_changed_by_the_answer() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    node = y.grad_fn.next_functions[0][0]
    is_needed(node, 0)
    assert not node.released
    assert node.ctx.saved_tensors[0] is x
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_running_trace_is_not_told_of_the_trial() -> None:
    x = leaf(1.0, 2.0)
    with lm.lifetime.trace() as t:
        y = x.exp()
        before = t.end
        is_needed(y.grad_fn, 0)
        assert t.end == before


@pytest.mark.parametrize("slot", [5, "nothing"])
def test_a_slot_that_is_not_there_is_named_with_those_that_are(slot: Any) -> None:
    with pytest.raises(ValueError, match="it saved a, b"):
        is_needed((leaf(1.0) * leaf(2.0)).grad_fn, slot)


def test_a_node_that_was_released_has_nothing_to_test() -> None:
    y = leaf(1.0).exp()
    y.backward()
    with pytest.raises(ValueError, match="was released"):
        is_needed(y.grad_fn, 0)


def test_what_is_no_node_is_refused() -> None:
    with pytest.raises(TypeError, match="is_needed takes a node"):
        is_needed(leaf(1.0), 0)  # type: ignore[arg-type]


NODES = {
    "mul": lambda x: x * x.exp(),
    "div": lambda x: x / (x * x + 1.0),
    "pow": lambda x: x**3,
    "exp": lambda x: x.exp(),
    "log": lambda x: (x * x + 1.0).log(),
    "sqrt": lambda x: (x * x + 1.0).sqrt(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "relu": lambda x: x.relu(),
    "abs": abs,
    "maximum": lambda x: lm.maximum(x, x * x),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(0),
    "logsumexp": lambda x: x.logsumexp(0),
    "matmul": lambda x: x.reshape(1, 3) @ x.reshape(3, 1),
    "cross entropy": lambda x: lm.cross_entropy(x.reshape(1, 3), [1]),
    "prod": lambda x: x.prod(),
    "amax": lambda x: x.amax(0),
}


@pytest.mark.parametrize("name", NODES)
def test_built_in_ops_save_nothing_they_do_not_need(name: str) -> None:
    y = NODES[name](leaf(0.5, -1.5, 2.5))
    node = y.grad_fn
    for index, slot in enumerate(node.ctx._saved):
        if slot is not None:
            assert is_needed(node, index), f"{node.label} saves slot {index} in vain"
    assert np.isfinite(y.numpy()).all()
