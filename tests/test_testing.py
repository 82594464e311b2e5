"""The assertions about lifetimes: clean code passes; the message is the holder chain."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import lucid_mini as lm
from lucid_mini.lifetime import holders
from lucid_mini.testing import assert_freed, assert_gradients, assert_no_drag, assert_no_leaks


@pytest.fixture(autouse=True)
def without_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(holders, "SEARCH_LIMIT", 20_000)  # not the whole test run
    monkeypatch.setattr(holders, "FOREIGN_LIMIT", 5_000)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class KeepsOutput(lm.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
        y = lm.exp(x)
        ctx.y = y
        return y

    @staticmethod
    def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
        return grad * ctx.y


def hold(t: lm.Tensor) -> Any:
    def held() -> lm.Tensor:
        return t

    return held


def test_a_tensor_that_only_its_own_name_holds_counts_as_freed() -> None:  # R107
    x = lm.ones(3, requires_grad=True)
    y = x * 2.0
    assert_freed(y)
    assert_freed(x * 3.0)


def test_a_dead_weak_reference_counts_as_freed() -> None:  # R107
    x = lm.ones(3)
    reference = weakref.ref(x)
    del x
    assert_freed(reference)


def test_an_outside_holder_fails_with_its_chain() -> None:  # R107
    x = lm.ones(3)
    keeper = hold(x)
    with pytest.raises(AssertionError, match="argument 0 is held from outside") as raised:
        assert_freed(x)
    assert "closure cell 't'" in str(raised.value)
    assert "local 'keeper'" in str(raised.value)
    del keeper


@pytest.mark.filterwarnings("ignore::lucid_mini.errors.LeakWarning")
def test_a_cycle_fails_and_says_so() -> None:  # R107
    y = KeepsOutput.apply(lm.ones(3, requires_grad=True))
    with pytest.raises(AssertionError, match="argument 0 is held by a cycle"):
        assert_freed(y)
    reference = weakref.ref(y)
    del y
    with pytest.raises(AssertionError, match="was held by a cycle: only a collection frees it"):
        assert_freed(reference)


def test_something_else_than_a_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="assert_freed takes tensors and weak references, not int"):
        assert_freed(3)


def test_a_clean_training_step_leaves_nothing_behind() -> None:
    w = lm.ones(3, requires_grad=True)
    with assert_no_leaks():
        (w * lm.tensor([1.0, 2.0, 3.0])).tanh().sum().backward()


def test_a_plain_variable_is_no_leak() -> None:
    with assert_no_leaks():
        kept = lm.ones(3)
    assert kept.numel() == 3


def test_a_capture_is_a_leak_and_the_message_names_bytes_and_chain() -> None:
    with (
        pytest.raises(AssertionError, match="24 bytes are left behind") as raised,
        assert_no_leaks(),
    ):
        keeper = hold(lm.ones(3))
    assert "closure cell 't'" in str(raised.value)
    assert "test_testing.py" in str(raised.value)
    del keeper


@pytest.mark.filterwarnings("ignore::lucid_mini.errors.LeakWarning")
def test_a_cycle_is_a_leak() -> None:
    with (
        pytest.raises(AssertionError, match="held by a cycle, only a collection frees it"),
        assert_no_leaks(),
    ):
        KeepsOutput.apply(lm.ones(3, requires_grad=True))


def test_an_exception_of_the_block_passes_through() -> None:
    def program() -> None:
        with assert_no_leaks():
            hold(lm.ones(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        program()


def test_built_in_ops_do_not_drag() -> None:
    x = lm.ones(2, 2, requires_grad=True)
    assert_no_drag(lambda a: (a @ a).tanh().exp(), x)


@pytest.mark.filterwarnings("ignore::lucid_mini.errors.LeakWarning")
def test_a_function_that_keeps_a_value_in_its_bag_drags() -> None:
    class Bag(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            ctx.x = x
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
            return grad * 2.0

    x = lm.ones(4, requires_grad=True)
    with pytest.raises(
        AssertionError, match=r"held beyond their last use:\nmul#\d+, 32 bytes, drag"
    ):
        assert_no_drag(lambda a: Bag.apply(a * 1.0).exp().sin(), x)


def test_right_gradients_pass_and_wrong_ones_fail_with_what_gradcheck_says() -> None:
    class Wrong(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
            return grad * 3.0

    x = lm.tensor([1.0, 2.0], requires_grad=True)
    assert_gradients(lambda a: a.exp() * a, x)
    with pytest.raises(AssertionError, match="3"):
        assert_gradients(Wrong.apply, x)


def test_the_fixture_is_there() -> None:
    from lucid_mini.pytest_plugin import no_leaks

    assert no_leaks is not None


def test_the_fixture_lets_a_clean_test_pass(no_leaks: Any) -> None:
    (lm.ones(3, requires_grad=True) * 2.0).sum().backward()
    assert no_leaks.peak() > 0
