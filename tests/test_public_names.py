"""The public names are a contract: what is promised is there, and says what it is."""
# ruff: noqa: SIM905 - lists of names read best as text

import inspect

import pytest

import lucid_mini as lm

FUNCTIONS = """
tensor from_numpy zeros ones full eye arange rand randn zeros_like ones_like full_like as_tensor
is_tensor manual_seed no_grad enable_grad set_grad_enabled inference_mode is_grad_enabled
reset_names exp log sqrt sin cos tanh sigmoid relu clamp pow maximum minimum where sum mean prod max
min amax amin argmax argmin var std cumsum logsumexp softmax log_softmax reshape transpose permute t
squeeze unsqueeze flatten cat stack split chunk unbind matmul mm gather index_select masked_fill
cross_entropy jacobian hessian vjp jvp hvp checkpoint gradcheck gradgradcheck
""".split()

METHODS = """
numpy item tolist size numel requires_grad_ detach clone to retain_grad backward register_hook
register_post_accumulate_grad_hook exp log sqrt sin cos tanh sigmoid relu clamp pow maximum minimum
sum mean prod max min amax amin argmax argmin var std cumsum logsumexp softmax log_softmax reshape
view transpose permute t squeeze unsqueeze expand flatten split chunk unbind matmul mm gather
index_select masked_fill where add_ sub_ mul_ div_ pow_ exp_ clamp_ fill_ zero_ copy_
""".split()

PROPERTIES = "data shape ndim dtype requires_grad is_leaf grad grad_fn output_nr T _version _base"

AUTOGRAD = """
Function autograd_function FunctionCtx AutogradContext once_differentiable Node Edge AccumulateGrad
dump stats backward grad steps saved_tensors_hooks save_on_disk allow_mutation_on_saved_tensors
detect_anomaly
""".split()

LIFETIME = "trace why_alive scan saved is_needed".split()
DRAW = "graph timeline memory holders stepper".split()
TESTING = "assert_freed assert_no_leaks assert_no_drag assert_gradients".split()

ERRORS = """
AutogradError CtxUsageError GraphFreedError VersionMismatchError GradientCountError
GradientShapeError LeafInPlaceError UnusedInputError NonScalarBackwardError NoGradientError
NotALeafError InferenceTensorError PackError AnomalyError GradcheckError CheckpointError LeakWarning
CtxAttributeWarning ClosureCaptureWarning HookCaptureWarning SavedTwiceWarning
SecondDerivativeWarning
""".split()

PLACES = {
    "lm": (lm, FUNCTIONS),
    "lm.Tensor": (lm.Tensor, METHODS),
    "lm.autograd": (lm.autograd, AUTOGRAD),
    "lm.lifetime": (lm.lifetime, LIFETIME),
    "lm.draw": (lm.draw, DRAW),
    "lm.testing": (lm.testing, TESTING),
    "lm.errors": (lm.errors, ERRORS),
}
NAMES = [(place, name) for place, (_, names) in PLACES.items() for name in names]


@pytest.mark.parametrize(("place", "name"), NAMES)
def test_a_promised_name_is_there_and_documented(place: str, name: str) -> None:
    found = getattr(PLACES[place][0], name)
    assert callable(found)
    assert inspect.getdoc(found), f"{place}.{name} has no docstring"


@pytest.mark.parametrize("name", PROPERTIES.split())
def test_a_promised_property_is_there(name: str) -> None:
    getattr(lm.ones(2), name)


def test_where_as_a_method_keeps_the_tensor_where_the_condition_holds() -> None:
    x = lm.tensor([1.0, -2.0], requires_grad=True)
    y = x.where(x > 0, lm.tensor([10.0, 20.0]))
    y.sum().backward()
    assert y.tolist() == [1.0, 20.0]
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 0.0]


def test_every_error_of_the_stack_is_an_autograd_error_and_every_leak_a_leak_warning() -> None:
    errors = [getattr(lm.errors, name) for name in ERRORS if name.endswith("Error")]
    assert all(issubclass(error, lm.errors.AutogradError) for error in errors)
    assert issubclass(lm.errors.AutogradError, RuntimeError)
    kinds = ("CtxAttributeWarning", "ClosureCaptureWarning", "HookCaptureWarning")
    assert all(issubclass(getattr(lm.errors, k), lm.errors.LeakWarning) for k in kinds)
