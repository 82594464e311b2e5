"""Modes: whether calls are recorded, and tensors that never can be (rows R89 to R91)."""

import threading

import pytest
from functions import C, Square, T, g

import lucid_mini as lm
from lucid_mini.errors import InferenceTensorError


def test_no_grad_records_nothing():  # R89
    x = T(3)
    with lm.no_grad():
        y = x * 2
    assert not y.requires_grad
    assert y.is_leaf


def test_modes_nest():  # R89
    seen = []
    with lm.no_grad():
        seen.append(lm.is_grad_enabled())
        with lm.enable_grad():
            seen.append(lm.is_grad_enabled())
            with lm.no_grad():
                seen.append(lm.is_grad_enabled())
            seen.append(lm.is_grad_enabled())
        seen.append(lm.is_grad_enabled())
    seen.append(lm.is_grad_enabled())
    assert seen == [False, True, False, True, False, True]


def test_one_manager_may_be_used_again_and_inside_itself():  # R89
    off = lm.no_grad()
    for _ in range(2):
        with off:
            assert not lm.is_grad_enabled()
            with lm.enable_grad():
                with off:
                    assert not lm.is_grad_enabled()
                assert lm.is_grad_enabled()
            assert not lm.is_grad_enabled()
        assert lm.is_grad_enabled()


def test_the_mode_is_given_back_after_an_exception():  # R89
    for manager in (lm.no_grad, lm.inference_mode, lambda: lm.set_grad_enabled(False)):
        with pytest.raises(KeyError), manager():
            raise KeyError
        assert lm.is_grad_enabled()


def test_the_mode_belongs_to_a_thread():  # R89
    seen = []
    with lm.no_grad():
        thread = threading.Thread(target=lambda: seen.append(lm.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_modes_are_decorators():  # R89
    @lm.no_grad()
    def off(x):
        """Twice x."""
        return x * 2

    assert not off(T(3)).requires_grad
    assert off.__name__ == "off"
    assert off.__doc__ == "Twice x."
    assert lm.is_grad_enabled()


def test_in_a_decorated_generator_the_mode_holds_while_its_body_runs_and_not_between():  # R89
    inside = []

    @lm.no_grad()
    def numbers():
        try:
            for n in range(3):
                inside.append(lm.is_grad_enabled())
                got = yield n
                if got:
                    inside.append(got)
        except KeyError:
            inside.append(("thrown", lm.is_grad_enabled()))
            yield "caught"
        finally:
            inside.append(("closed", lm.is_grad_enabled()))

    walk = numbers()
    assert next(walk) == 0
    assert lm.is_grad_enabled()
    assert walk.send("sent") == 1
    assert walk.throw(KeyError) == "caught"
    assert lm.is_grad_enabled()
    walk.close()
    assert inside == [False, "sent", False, ("thrown", False), ("closed", False)]
    assert lm.is_grad_enabled()


def test_a_decorated_generator_returns_its_value():  # R89
    @lm.no_grad()
    def one():
        yield 1
        return "end"

    def outer():
        return (yield from one())

    walk = outer()
    next(walk)
    with pytest.raises(StopIteration) as stop:
        next(walk)
    assert stop.value.value == "end"


def test_set_grad_enabled_switches_as_a_call():  # R90
    lm.set_grad_enabled(False)
    try:
        assert not lm.is_grad_enabled()
        assert not (T(3) * 2).requires_grad
    finally:
        lm.set_grad_enabled(True)
    assert lm.is_grad_enabled()


def test_set_grad_enabled_is_a_context_manager_and_a_decorator():  # R90
    with lm.set_grad_enabled(False):
        assert not lm.is_grad_enabled()
        with lm.set_grad_enabled(True):
            assert lm.is_grad_enabled()
        assert not lm.is_grad_enabled()
    assert lm.is_grad_enabled()

    @lm.set_grad_enabled(False)
    def off():
        return lm.is_grad_enabled()

    assert lm.is_grad_enabled()
    assert off() is False
    assert lm.is_grad_enabled()


@pytest.mark.parametrize(
    "make",
    [
        lambda: C(1, 2) * 2,
        lambda: lm.tensor([1.0, 2.0]),
        lambda: lm.ones(2),
        lambda: (lm.ones(2) + 1)[0:1],
        lambda: T(1, 2).exp(),
    ],
    ids=["op", "tensor", "ones", "view", "of a parameter"],
)
def test_a_tensor_made_in_inference_mode_cannot_be_saved_later(make):  # R91
    with lm.inference_mode():
        made = make()
    x = lm.ones(made.shape, requires_grad=True)
    with pytest.raises(InferenceTensorError, match=r"made in inference_mode.*clone\(\)"):
        x * made
    (x * made.clone()).sum().backward()
    assert g(x) == made.tolist()


def test_an_inference_tensor_that_is_not_saved_may_be_used():  # R91
    with lm.inference_mode():
        made = C(1) * 2
    x = T(3)
    (x + made).backward()
    assert g(x) == [1.0]


def test_inside_inference_mode_functions_may_save_for_nobody():  # R91
    with lm.inference_mode():
        y = Square.apply(C(3) * 2)
        z = Square.apply(T(3))
    assert y.tolist() == [36.0]
    assert not z.requires_grad


def test_enable_grad_does_not_lift_inference_mode():  # R91
    x = T(3)
    with lm.inference_mode():
        with lm.enable_grad():
            assert not lm.is_grad_enabled()
            assert not (x * 2).requires_grad
        with lm.set_grad_enabled(True):
            assert not (x * 2).requires_grad
        lm.set_grad_enabled(True)
        assert not (x * 2).requires_grad
    with lm.inference_mode(), lm.inference_mode(False):
        assert (x * 2).requires_grad
    assert lm.is_grad_enabled()


def test_an_inference_tensor_may_be_written_only_in_inference_mode():  # R91
    with lm.inference_mode():
        made = C(1) * 2
        made.add_(1)
    with pytest.raises(InferenceTensorError, match="outside of it"):
        made.add_(1)
    assert made.tolist() == [3.0]
