"""R112b: a Function that captures a tensor is warned of, once, by name and line."""

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import lucid_mini as lm
from lucid_mini.errors import ClosureCaptureWarning, LeakWarning


def leaf(*values: float) -> lm.Tensor:
    return lm.tensor(list(values), requires_grad=True)


def relu_of(z: lm.Tensor) -> Callable[..., Any]:
    def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
        return lm.relu(x)

    def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
        return grad * (z > 0)

    return lm.autograd.autograd_function(forward, backward, "Capturing")


def test_a_captured_tensor_with_history_is_warned_of_with_method_name_bytes_and_line() -> None:
    z = leaf(1.0, -2.0) * 1.0
    line = relu_of.__code__.co_firstlineno + 4
    with pytest.warns(
        ClosureCaptureWarning,
        match="Capturing.backward captures a tensor with history of 16 bytes in a "
        rf"closure cell 'z' \(test_captures.py:{line}\)",
    ):
        relu_of(z)(z)


def test_it_is_a_leak_warning_so_that_one_filter_makes_all_of_them_errors() -> None:
    z = leaf(1.0) * 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakWarning)
        with pytest.raises(ClosureCaptureWarning):
            relu_of(z)(z)
    assert lm.is_grad_enabled()


def test_the_warning_comes_once_per_class_and_name() -> None:
    z = leaf(1.0) * 1.0
    function = relu_of(z)
    with pytest.warns(ClosureCaptureWarning) as caught:  # noqa: PT031 - both calls count
        function(z)
        function(z)
    assert len(caught) == 1


def test_a_default_is_a_capture_as_well() -> None:
    z = leaf(1.0) * 1.0

    class Defaulted(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            return lm.relu(x)

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor, z: lm.Tensor = z) -> lm.Tensor:
            return grad * (z > 0)

    with pytest.warns(ClosureCaptureWarning, match="default of 'z'"):
        Defaulted.apply(z)


def test_an_output_bound_to_the_name_after_apply_is_seen_when_the_node_runs() -> None:
    class Late(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            return lm.exp(x)

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
            return grad * y

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = Late.apply(leaf(1.0))
    with pytest.warns(
        ClosureCaptureWarning,
        match="Late.backward captures a tensor with history .* closure cell 'y'",
    ):
        y.sum().backward()


def test_a_tensor_that_forward_puts_into_the_cell_is_seen() -> None:
    kept = None

    class Puts(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            nonlocal kept
            kept = x * 2.0
            return kept * 1.0

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
            assert kept is not None
            return grad * 2.0

    with pytest.warns(ClosureCaptureWarning, match="a tensor made during this call"):
        Puts.apply(leaf(1.0))


@pytest.mark.parametrize("captured", ["a constant", "a parameter", "a number", "a function"])
def test_constants_parameters_numbers_and_functions_are_silent(captured: str) -> None:
    value: Any = {
        "a constant": lm.ones(2),
        "a parameter": leaf(1.0, 2.0),
        "a number": 3.0,
        "a function": lm.exp,
    }[captured]

    class Quiet(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            assert value is not None
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
            assert value is not None
            return grad * 2.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Quiet.apply(leaf(1.0, 2.0)).sum().backward()


def test_captured_batch_data_is_silent_at_apply_and_found_by_scan() -> None:
    batch = lm.ones(100)

    class Batch(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            return x * batch

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
            return grad * batch

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Batch.apply(lm.ones(100, requires_grad=True)).sum().backward()
    found = lm.lifetime.scan(Batch)
    assert {(f.holder, f.how, f.nbytes) for f in found} == {
        ("Batch.forward", "closure cell 'batch'", 800)
    }


def test_looking_keeps_nothing_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        z = leaf(1.0) * 1.0
        function = relu_of(z)
        with pytest.warns(ClosureCaptureWarning):
            function(z)
        reference = weakref.ref(z)
        del z, function
        gc.collect()
        assert reference() is None
    finally:
        gc.enable()


def test_a_function_without_captures_is_not_looked_at() -> None:
    assert lm.ones(1) is not None
    from lucid_mini.ops.elementwise import Mul

    assert Mul._captures == ()
