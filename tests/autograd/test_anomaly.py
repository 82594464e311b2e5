"""detect_anomaly: the first NaN or Inf, with node, argument and line (R102), and R67 for arrays."""

import numpy as np
import pytest
from functions import C, Square, T, g

import lucid_mini as lm
from lucid_mini import events
from lucid_mini.autograd import Function, detect_anomaly
from lucid_mini.errors import AnomalyError


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def test_the_first_inf_raises_with_node_argument_and_call_site():  # R102
    x = T(0, 4)
    with pytest.raises(AnomalyError) as caught, detect_anomaly():
        x.sqrt().sum().backward()
    text = str(caught.value)
    assert text.startswith("sqrt#1 gave a gradient for 'x' with 1 Inf among 2 elements; ")
    assert "was called at test_anomaly.py:" in text
    assert g(x) is None


def test_the_first_nan_raises_where_it_arises_not_where_it_arrives():  # R102
    x = T(0)
    with detect_anomaly():
        y = x * 2
        z = y**0.5 * 0 + y
        with pytest.raises(AnomalyError, match=r"pow_number#\d+ gave .* 1 NaN") as caught:
            z.backward()
    assert "test_anomaly.py" in str(caught.value)


def test_a_readers_own_rule_is_looked_at_too():  # R102
    class Bad(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, grad):
            return grad, grad * float("nan")

    with pytest.raises(AnomalyError, match="bad#1 gave a gradient for 'b' with 1 NaN"):  # noqa: SIM117
        with detect_anomaly():
            Bad.apply(T(1), T(2)).backward()


def test_a_call_made_outside_says_that_its_line_is_not_known():  # R102
    y = T(0).sqrt()
    with pytest.raises(AnomalyError, match="outside detect_anomaly"), detect_anomaly():
        y.backward()


def test_finite_gradients_pass_and_nothing_is_left_behind():  # R102
    x = T(3)
    with detect_anomaly():
        y = Square.apply(x)
        y.backward()
    assert g(x) == [6.0]
    assert events.recorder is None
    x.grad = None
    T(0).sqrt().backward()


@pytest.mark.parametrize("which", ["grad", "saved"])
def test_a_write_into_an_array_that_was_handed_out_fails_at_its_line(which):  # R67
    class Bad(Function):
        arrays = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            (target,) = (grad,) if which == "grad" else ctx.saved_tensors
            target *= 2
            return grad

    x = T(3)
    with pytest.raises(ValueError, match="read-only") as caught, detect_anomaly():
        Bad.apply(x).backward()
    assert "bad#1" in caught.value.__notes__[0]
    x.detach().add_(1)
    assert x.tolist() == [4.0]


def test_it_works_under_a_trace_and_around_one():  # R102, R105
    x = T(3)

    def run():
        Square.apply(x * 1).backward()

    lm.reset_names()
    with lm.lifetime.trace() as alone:
        run()
    x.grad = None
    lm.reset_names()
    with lm.lifetime.trace() as inside, detect_anomaly():
        run()
    kinds = [[(event.kind, event.node) for event in t.events] for t in (alone, inside)]
    assert kinds[0] == kinds[1]
    assert len(kinds[0]) > 10
    x.grad = None
    with detect_anomaly(), lm.lifetime.trace():
        (x * C(2)).backward()
    assert g(x) == [2.0]
    with pytest.raises(AnomalyError), detect_anomaly(), lm.lifetime.trace():
        T(0).sqrt().backward()
