"""What a mistake is answered with: the class, the text to the letter, and no damage afterwards.

Each case sets up its mistake and returns the call that makes it. After the error recording is on,
no `.grad` has changed, and a clean backward works. `LINE` stands for a line number.
"""

import re
import tempfile
import warnings

import numpy as np
import pytest

import lucid_mini as lm
from lucid_mini.autograd import (
    Function,
    FunctionCtx,
    autograd_function,
    detect_anomaly,
    dump,
    once_differentiable,
    save_on_disk,
    saved_tensors_hooks,
)
from lucid_mini.autograd.mode import thread
from lucid_mini.errors import (
    AnomalyError,
    AutogradError,
    CheckpointError,
    CtxUsageError,
    GradcheckError,
    GradientCountError,
    GradientShapeError,
    GraphFreedError,
    InferenceTensorError,
    LeafInPlaceError,
    NoGradientError,
    NonScalarBackwardError,
    NotALeafError,
    PackError,
    UnusedInputError,
    VersionMismatchError,
)

CASES = []
LEAVES = []


def case(error, text):
    """Register a mistake: the class of its error, and the text."""

    def register(make):
        CASES.append(pytest.param(make, error, text, id=make.__name__))
        return make

    return register


def T(*values):
    """A leaf that requires grad, and is looked at afterwards."""
    LEAVES.append(lm.tensor([float(v) for v in values], requires_grad=True))
    return LEAVES[-1]


def C(*values):
    return lm.tensor([float(v) for v in values])


def rule(backward, forward=lambda ctx, x: x * 1, **body):
    """A Function called Rule."""
    body |= {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Rule", (Function,), body)


def keep(ctx, grad):
    """A backward that hands on what it got."""
    return grad


def saving(ctx, x):
    """A forward that saves its argument."""
    ctx.save_for_backward(x)
    return x * x


def in_forward(act):
    """A Function whose forward does `act(ctx, x)` first."""

    def forward(ctx, x):
        act(ctx, x)
        return x * 1

    return rule(keep, forward)


def in_backward(act, forward=lambda ctx, x: x * 1):
    """The call of a backward whose rule does `act(ctx, grad)` first."""

    def backward(ctx, grad):
        act(ctx, grad)
        return grad

    y = rule(backward, forward).apply(T(1) * 1)
    return y.sum().backward


def returning(value, forward=lambda ctx, x: x * 1, args=()):
    """The call of a backward whose rule returns `value(grad)`."""
    y = rule(lambda ctx, grad: value(grad), forward).apply(T(1, 2), *args)
    return y.sum().backward


#: Stands for the words of NumPy, which change with its version; the note below them is ours.
NUMPY = "NumPy: "


def text_of(error, wanted=""):
    """What a reader is shown: the message without line numbers, or the note under NumPy's."""
    if wanted.startswith(NUMPY):
        return NUMPY + error.__notes__[0]
    return re.sub(r"(\.py):\d+", r"\1:LINE", str(error))


# -- tensors --------------------------------------------------------------------------------------


@case(
    TypeError,
    "only tensors of a floating dtype can require grad, and this one is int64. Use .to(float).",
)
def integers_that_require_grad():
    return lambda: lm.tensor([1, 2], requires_grad=True)


@case(
    TypeError,
    "a tensor holds numbers, and this data has dtype object. Pass numbers of one kind, or "
    "rows of one length.",
)
def objects():
    return lambda: lm.tensor([object()])


@case(
    TypeError,
    "a tensor holds numbers, and this data has dtype object. Pass numbers of one kind, or "
    "rows of one length.",
)
def an_array_of_objects():
    return lambda: lm.from_numpy(np.array([None]))


@case(
    TypeError,
    "a tensor holds numbers, and this data has dtype <U1. Pass numbers of one kind, or "
    "rows of one length.",
)
def texts():
    return lambda: lm.tensor(["a"])


@case(TypeError, "from_numpy takes a NumPy array, not list; use lm.tensor")
def from_numpy_of_a_list():
    return lambda: lm.from_numpy([1.0])


@case(
    TypeError,
    "a tensor holds numbers, and this data has dtype object. Pass numbers of one kind, or "
    "rows of one length.",
)
def another_dtype_of_objects():
    return lambda: C(1).to(object)


@case(
    NotALeafError,
    "requires_grad of a tensor made by mul#1 cannot be switched off: it is not a leaf. Use "
    ".detach() for a tensor without that history.",
)
def switching_requires_grad_off_on_a_result():
    y = T(1) * 2
    return lambda: y.requires_grad_(False)


@case(
    NotALeafError,
    "requires_grad of a tensor made by mul#1 cannot be switched off: it is not a leaf. Use "
    ".detach() for a tensor without that history.",
)
def assigning_requires_grad_on_a_result():
    y = T(1) * 2
    return lambda: setattr(y, "requires_grad", False)


@case(
    TypeError,
    "only tensors of a floating dtype can require grad, and this one is int64. Use .to(float).",
)
def requiring_grad_of_integers_later():
    return lambda: lm.tensor([1]).requires_grad_()


@case(TypeError, ".grad takes a tensor or None, not float")
def a_number_as_gradient_of_a_leaf():
    return lambda: setattr(C(1), "grad", 3.0)


@case(
    ValueError,
    ".grad of a tensor of shape (1,) cannot have shape (2,); give it the shape of its tensor",
)
def a_gradient_of_another_shape():
    return lambda: setattr(C(1), "grad", C(1, 2))


@case(
    NoGradientError,
    "retain_grad: this tensor does not require grad; nothing will be computed for it. Call "
    "requires_grad_() on a leaf it is computed from.",
)
def retaining_the_gradient_of_a_constant():
    return lambda: C(1).retain_grad()


@case(TypeError, "len() of a 0-d tensor; use numel() for the number of elements")
def the_length_of_a_number():
    return lambda: len(lm.tensor(1.0))


@case(TypeError, "iteration over a 0-d tensor; use item() for its number")
def iterating_over_a_number():
    return lambda: iter(lm.tensor(1.0))


@case(
    ValueError,
    "a tensor of 2 elements has no single truth value; use (x > 0).numpy().all() or .any()",
)
def the_truth_of_several_elements():
    return lambda: bool(C(1, 2))


@case(ValueError, "a tensor of 2 elements is not one number; use tolist(), or index the element")
def the_item_of_several_elements():
    return lambda: C(1, 2).item()


@case(TypeError, "Tensor cannot be subclassed; put what you need beside it, or into a Function")
def a_subclass_of_tensor():
    return lambda: type("Sub", (lm.Tensor,), {})


@case(
    TypeError,
    "np.exp on a tensor would compute without recording. Use lm.exp(x), or "
    "np.exp(x.numpy()) for an array without history.",
)
def a_ufunc_with_a_function_of_lm():
    return lambda: np.exp(T(1))


@case(
    TypeError,
    "np.arctan on a tensor would compute without recording. Use an operator or a function "
    "of lm (lm.exp, …), or np.arctan(x.numpy()) for an array without history.",
)
def a_ufunc_without_one():
    return lambda: np.arctan(T(1))


@case(
    TypeError,
    "np.add.reduce on a tensor would compute without recording. Use lm.sum(x), or "
    "np.add.reduce(x.numpy()) for an array without history.",
)
def a_reduction_of_numpy():
    return lambda: np.add.reduce(T(1))


# -- ops ------------------------------------------------------------------------------------------


@case(TypeError, "Add: argument 'b' is a str; it must be a tensor, an array or a number")
def adding_a_text():
    return lambda: T(1) + "a"


@case(TypeError, "Mul: argument 'b' is None; it must be a tensor, an array or a number")
def multiplying_by_none():
    return lambda: T(1) * None


@case(ValueError, "NumPy: Raised in Add.forward, called with (a: float64 (2,), b: float64 (3,)).")
def adding_shapes_that_do_not_broadcast():
    return lambda: T(1, 2) + T(1, 2, 3)


@case(
    ValueError,
    "NumPy: Raised in Matmul.forward, called with (a: float64 (2, 3), b: float64 (2, 3)).",
)
def multiplying_matrices_that_do_not_fit():
    return lambda: lm.ones(2, 3) @ lm.ones(2, 3)


@case(IndexError, "dimension 3 is out of range for a tensor of 1 dimensions; use one from -1 to 0")
def a_dimension_out_of_range():
    return lambda: T(1).sum(3)


@case(ValueError, "dimension named twice in (0, 0); name each once")
def a_dimension_named_twice():
    return lambda: T(1).sum((0, 0))


@case(ValueError, "permute: (0, 0) does not name each of 2 dimensions once")
def a_permutation_that_is_none():
    return lambda: lm.ones(2, 3).permute(0, 0)


@case(ValueError, "t() takes at most 2 dimensions, and this tensor has 3; use permute")
def the_transpose_of_three_dimensions():
    return lambda: lm.ones(2, 3, 4).t()


@case(
    ValueError, "view: a tensor of shape (3, 2) with these strides cannot be viewed so; use reshape"
)
def a_view_that_is_none():
    return lambda: lm.ones(2, 3).t().view(6)


@case(ValueError, "NumPy: Raised in Reshape.forward, called with (x: float64 (2,), shape: tuple).")
def a_reshape_to_another_number_of_elements():
    return lambda: T(1, 2).reshape(3)


@case(ValueError, "NumPy: Raised in Expand.forward, called with (x: float64 (2,), shape: tuple).")
def expanding_what_cannot_be_expanded():
    return lambda: T(1, 2).expand(3)


@case(
    ValueError,
    "split: the lengths (1, 5) add up to 6, but dimension 0 has 2; they must add up to that",
)
def splitting_into_lengths_that_do_not_add_up():
    return lambda: T(1, 2).split([1, 5])


@case(ValueError, "split: the length of a piece must be positive, not 0")
def splitting_into_nothing():
    return lambda: T(1, 2).split(0)


@case(ValueError, "clamp needs min or max")
def clamping_to_nothing():
    return lambda: T(1).clamp()


@case(ValueError, "cross_entropy takes logits (n, classes) and targets (n,), not (2,) and (2,)")
def cross_entropy_of_a_vector():
    return lambda: lm.cross_entropy(T(1, 2), [0, 1])


@case(TypeError, "cross_entropy takes class numbers (integers) as target, not float64")
def cross_entropy_with_float_targets():
    return lambda: lm.cross_entropy(lm.ones(1, 2), C(0))


@case(TypeError, "gather takes a tensor of integers as index, not float64")
def gathering_by_floats():
    return lambda: T(1).gather(0, C(0))


@case(
    ValueError,
    "gather takes an index of as many dimensions as the tensor, 2, and this one has 1; "
    "broadcast it with unsqueeze and expand",
)
def gathering_by_an_index_of_fewer_dimensions():
    return lambda: lm.ones(2, 2).gather(0, lm.tensor([0]))


@case(IndexError, "a tensor used as an index must hold integers or booleans, not float64")
def indexing_by_floats():
    return lambda: T(1, 2)[C(0, 1)]


@case(IndexError, "NumPy: Raised in Index.forward, called with (x: float64 (2,), index: int).")
def an_index_out_of_range():
    return lambda: T(1, 2)[5]


@case(ValueError, "cat needs at least one tensor")
def concatenating_nothing():
    return lambda: lm.cat([])


@case(ValueError, "stack: item 1 has shape (2,), and item 0 has (1,); all must have one shape")
def stacking_shapes_that_differ():
    return lambda: lm.stack([T(1), T(1, 2)])


# -- writes in place ------------------------------------------------------------------------------


@case(
    LeafInPlaceError,
    "AddInPlace would write in place into a leaf that requires grad; the value that "
    "earlier ops saw would be lost. Write under `with lm.no_grad():`, or into a clone.",
)
def adding_in_place_to_a_leaf():
    return lambda: T(1).add_(1)


@case(
    LeafInPlaceError,
    "SetItem would write in place into a leaf that requires grad; the value that earlier "
    "ops saw would be lost. Write under `with lm.no_grad():`, or into a clone.",
)
def assigning_to_an_element_of_a_leaf():
    return lambda: T(1, 2).__setitem__(0, 5.0)


@case(
    LeafInPlaceError,
    "MulInPlace would write in place into a view of a leaf that requires grad; the value "
    "that earlier ops saw would be lost. Write under `with lm.no_grad():`, or into a clone.",
)
def writing_a_view_of_a_leaf():
    return lambda: T(1, 2)[0].mul_(2)


@case(
    AutogradError,
    "add_in_place would write into memory that is read-only: in an expanded tensor several "
    "elements lie on one place. Call clone() first and write into the copy.",
)
def writing_an_expanded_tensor():
    return lambda: (T(1) * 1).expand(3).add_(1)


@case(
    ValueError,
    "a tensor of shape (2,) does not broadcast into one of shape (1,); use the op that is "
    "not in place",
)
def adding_a_larger_tensor_in_place():
    return lambda: (T(1) * 1).add_(C(1, 2))


@case(
    TypeError,
    "a float64 result cannot be written into a tensor of int64; use the op that is not in "
    "place, or x.to(float) first",
)
def adding_floats_to_integers_in_place():
    return lambda: lm.tensor([1]).add_(C(0.5))


@case(
    ValueError,
    "a tensor of shape (2,) does not broadcast into x[index] of shape (); it must have "
    "that shape or broadcast to it",
)
def assigning_a_shape_that_does_not_fit():
    return lambda: (T(1, 2) * 1).__setitem__(0, C(1, 2))


@case(
    AutogradError,
    "add_in_place would write in place into a view that was made under no_grad, and the "
    "tensor it is a view of requires grad; the write would have no history. Make the view "
    "with recording on, or write under `with lm.no_grad():` too.",
)
def writing_a_view_made_under_no_grad():
    z = T(1, 2) * 1
    with lm.no_grad():
        view = z[0]
    return lambda: view.add_(1)


@case(
    AutogradError,
    "mul_in_place would write into a gradient that the backward pass handed out; others "
    "may be about to read it. Call clone() first and write into the copy.",
)
def writing_a_gradient_in_backward():
    return in_backward(lambda ctx, grad: grad.mul_(2))


@case(
    AutogradError,
    "mul_in_place would write into a tensor that rule#2 saved, while its backward runs; "
    "others may be about to read it. Call clone() first and write into the copy.",
)
def writing_a_saved_tensor_in_backward():
    return in_backward(lambda ctx, grad: ctx.saved_tensors[0].mul_(2), saving)


@case(
    AutogradError,
    "mul_in_place would write into a gradient that the backward pass handed out; others "
    "may be about to read it. Call clone() first and write into the copy.",
)
def writing_a_gradient_in_a_hook():
    x = T(1)
    x.register_hook(lambda grad: grad.mul_(2))
    return (x * 2).sum().backward


@case(
    InferenceTensorError,
    "add_in_place would write into a tensor made in inference_mode, outside of it. Call "
    "clone() first and write into the copy.",
)
def writing_a_tensor_of_inference_mode():
    with lm.inference_mode():
        c = C(1) * 2
    return lambda: c.add_(1)


@case(
    VersionMismatchError,
    "mul#2 saved tensor 0 at version 0, but it was changed in place by add_in_place at "
    "test_messages.py:LINE and is at version 1 now. Save a copy (`x.clone()`), or use an "
    "out-of-place op instead of the one that changed it.",
)
def changing_a_saved_input():
    z = T(3) * 1
    y = (z * z).sum()
    z.add_(1)
    return y.backward


@case(
    VersionMismatchError,
    "exp#1 saved tensor 0 at version 0, but it was changed in place by mul_in_place at "
    "test_messages.py:LINE and is at version 1 now. Save a copy (`x.clone()`), or use an "
    "out-of-place op instead of the one that changed it.",
)
def changing_a_saved_output():
    y = T(3).exp()
    y.mul_(2)
    return y.sum().backward


@case(
    VersionMismatchError,
    "mul#2 saved tensor 0 at version 0, but it was changed in place by fill at "
    "test_messages.py:LINE and is at version 1 now. Save a copy (`x.clone()`), or use an "
    "out-of-place op instead of the one that changed it.",
)
def changing_a_saved_leaf_under_no_grad():
    x = T(3)
    y = rule(keep, saving).apply(x)
    y = (x * x).sum()
    with lm.no_grad():
        x.zero_()
    return y.backward


# -- Functions ------------------------------------------------------------------------------------


@case(
    TypeError,
    "Function.apply works on a subclass; Function itself has no forward. Define one in a subclass.",
)
def a_call_on_the_base():
    return lambda: Function.apply(T(1))


@case(TypeError, "Rule is not instantiated; call Rule.apply(...)")
def an_instance():
    return rule(keep)


@case(TypeError, "Odd.forward must be a static method: put @staticmethod above it")
def a_forward_that_is_not_static():
    return lambda: type("Odd", (Function,), {"forward": lambda ctx, x: x})


@case(TypeError, "Odd.backward must be a static method: put @staticmethod above it")
def a_backward_that_is_not_static():
    return lambda: type("Odd", (Function,), {"backward": lambda ctx, g: g})


@case(TypeError, "Odd.setup_context must be a static method: put @staticmethod above it")
def a_setup_context_that_is_not_static():
    return lambda: type("Odd", (Function,), {"setup_context": lambda ctx, i, o: None})


@case(NotImplementedError, "Half has no forward; define `@staticmethod def forward(ctx, ...)`")
def no_forward():
    Half = type("Half", (Function,), {"backward": staticmethod(keep)})
    return lambda: Half.apply(T(1))


@case(NotImplementedError, "Half has no backward; define `@staticmethod def backward(ctx, ...)`")
def no_backward():
    Half = type("Half", (Function,), {"forward": staticmethod(lambda ctx, x: x * 1)})
    return Half.apply(T(1)).sum().backward


@case(
    TypeError,
    "Rule.forward returned no tensor, but a float; it must return a tensor or a tuple with "
    "one in it. Wrap it: lm.tensor(...).",
)
def a_forward_that_returns_a_number():
    return lambda: rule(keep, lambda ctx, x: 3.0).apply(T(1))


@case(
    TypeError,
    "Rule.forward returned no tensor, but an ndarray; it must return a tensor or a tuple "
    "with one in it. Wrap it: lm.tensor(...).",
)
def a_forward_that_returns_an_array():
    return lambda: rule(keep, lambda ctx, x: x.numpy() * 2).apply(T(1))


@case(
    TypeError,
    "Rule.forward returned no tensor, but a dict; it must return a tensor or a tuple with "
    "one in it.",
)
def a_forward_that_returns_a_dict():
    return lambda: rule(keep, lambda ctx, x: {"y": x * 1}).apply(T(1))


@case(
    TypeError,
    "Rule.forward returned no tensor, but None; it must return a tensor or a tuple with one in it.",
)
def a_forward_that_returns_nothing():
    return lambda: rule(keep, lambda ctx, x: None).apply(T(1))


@case(
    TypeError,
    "Rule.forward returned a list as output 1 that holds a tensor (output[1][0]), and its "
    "gradient would be lost. Return each tensor as an output of its own.",
)
def a_forward_that_nests_its_outputs():
    return lambda: rule(keep, lambda ctx, x: (x * 1, [x * 2])).apply(T(1))


@case(
    TypeError,
    "Rule.apply: argument 'parts' is a list that holds a tensor which requires grad "
    "(parts[0]), and its gradient would be lost. Pass tensors as separate arguments.",
)
def a_list_with_a_tensor_as_argument():
    return lambda: rule(keep, lambda ctx, parts: parts[0] * 1).apply([T(1)])


@case(
    TypeError,
    "Rule.apply: argument 'parts' is a dict that holds a tensor which requires grad "
    "(parts['w']), and its gradient would be lost. Pass tensors as separate arguments.",
)
def a_dict_with_a_tensor_as_argument():
    return lambda: rule(keep, lambda ctx, parts: parts["w"] * 1).apply({"w": T(1)})


@case(TypeError, "Rule.apply: got an unexpected keyword argument 'factor'; forward takes (x)")
def an_unknown_keyword():
    return lambda: rule(keep).apply(T(1), factor=3)


@case(TypeError, "Rule.apply: multiple values for argument 'x'; forward takes (x)")
def an_argument_given_twice():
    return lambda: rule(keep).apply(T(1), x=T(1))


@case(TypeError, "Rule.apply: missing a required argument: 'x'; forward takes (x, n)")
def a_keyword_without_the_argument_before_it():
    return lambda: rule(keep, lambda ctx, x, n: x * n).apply(n=3)


@case(TypeError, "autograd_function: backward must be callable, and None is not")
def two_functions_of_which_one_is_none():
    return lambda: autograd_function(lambda ctx, x: x * 1, None)


@case(
    AutogradError,
    "Rule.backward (rule#1) is marked once_differentiable, and its gradient was "
    "differentiated. Write the rule with tensor ops and take the mark away, or do not ask "
    "for a second derivative through this Function.",
)
def differentiating_twice_what_is_once_differentiable():
    x = T(3)
    y = rule(once_differentiable(lambda ctx, g: 2 * ctx.saved_tensors[0] * g), saving).apply(x)
    (first,) = lm.autograd.grad((y * y).sum(), x, create_graph=True)
    return first.sum().backward


@case(
    CtxUsageError,
    "Rule.forward: argument 'x' was modified in place but not marked. Call "
    "ctx.mark_dirty(x) before writing, and return it.",
)
def an_unmarked_write_into_an_input():
    return lambda: in_forward(lambda ctx, x: x.mul_(2)).apply(T(1) * 1)


# -- the ctx --------------------------------------------------------------------------------------


@case(
    TypeError,
    "Rule: save_for_backward takes tensors by position, and argument 1 is an int. Save it "
    "by keyword, save_for_backward(name=value), or keep it with ctx.store.",
)
def saving_a_number_by_position():
    return lambda: in_forward(lambda ctx, x: ctx.save_for_backward(x, 3)).apply(T(1))


@case(
    TypeError,
    "Rule: save_for_backward takes tensors by position, and argument 0 is a list. Save it "
    "by keyword, save_for_backward(name=value), or keep it with ctx.store.",
)
def saving_a_list_by_position():
    return lambda: in_forward(lambda ctx, x: ctx.save_for_backward([x])).apply(T(1))


@case(
    TypeError,
    "Rule: save_for_backward takes tensors by position, and argument 0 is an ndarray. Save "
    "it by keyword, save_for_backward(name=value), or keep it with ctx.store.",
)
def saving_an_array_by_position():
    return lambda: in_forward(lambda ctx, x: ctx.save_for_backward(x.numpy())).apply(T(1))


@case(
    CtxUsageError,
    "Rule: save_for_backward(keys=…) uses a reserved name, that of something which ctx or "
    "saved_variables has already. Use another name.",
)
def saving_under_a_reserved_name():
    return lambda: in_forward(lambda ctx, x: ctx.save_for_backward(keys=x)).apply(T(1))


@case(
    CtxUsageError,
    "rule#2: save_for_backward works only inside forward (or setup_context). To hand a "
    "value to a later backward, save it in forward.",
)
def saving_in_backward():
    return in_backward(lambda ctx, grad: ctx.save_for_backward(grad))


@case(
    CtxUsageError,
    "rule#2: mark_dirty works only inside forward (or setup_context). To hand a value to a "
    "later backward, save it in forward.",
)
def marking_dirty_in_backward():
    return in_backward(lambda ctx, grad: ctx.mark_dirty(grad))


@case(
    CtxUsageError,
    "rule#2: mark_non_differentiable works only inside forward (or setup_context). To hand "
    "a value to a later backward, save it in forward.",
)
def marking_non_differentiable_in_backward():
    return in_backward(lambda ctx, grad: ctx.mark_non_differentiable(grad))


@case(
    CtxUsageError,
    "rule#2: set_materialize_grads works only inside forward (or setup_context). To hand a "
    "value to a later backward, save it in forward.",
)
def materializing_in_backward():
    return in_backward(lambda ctx, grad: ctx.set_materialize_grads(True))


@case(TypeError, "Rule: set_materialize_grads takes True or False, not 1")
def materializing_by_a_number():
    return lambda: in_forward(lambda ctx, x: ctx.set_materialize_grads(1)).apply(T(1))


@case(CtxUsageError, "Rule: mark_dirty takes tensors, and argument 0 is an int")
def marking_a_number_dirty():
    return lambda: in_forward(lambda ctx, x: ctx.mark_dirty(3)).apply(T(1))


@case(
    CtxUsageError,
    "Rule: mark_dirty was given a tensor that is not an input of forward. Mark the "
    "argument itself, not a copy or a view of it.",
)
def marking_a_copy_dirty():
    return lambda: in_forward(lambda ctx, x: ctx.mark_dirty(x.clone())).apply(T(1) * 1)


@case(
    CtxUsageError,
    "Rule: an input that is marked dirty must be returned by forward, or the write has no "
    "history. Return it, or write into a clone.",
)
def marking_dirty_what_is_not_returned():
    return lambda: in_forward(lambda ctx, x: ctx.mark_dirty(x)).apply(T(1) * 1)


@case(
    LeafInPlaceError,
    "Rule would write in place into a leaf that requires grad; the value that earlier ops "
    "saw would be lost. Write under `with lm.no_grad():`, or into a clone.",
)
def marking_a_leaf_dirty():
    return lambda: in_forward(lambda ctx, x: ctx.mark_dirty(x)).apply(T(1))


@case(
    CtxUsageError,
    "Rule: mark_non_differentiable was given a tensor that is not an output of forward. "
    "Mark the very tensor that forward returns.",
)
def marking_an_input_non_differentiable():
    return lambda: in_forward(lambda ctx, x: ctx.mark_non_differentiable(x)).apply(T(1))


@case(CtxUsageError, "Rule: mark_non_differentiable takes tensors, and argument 0 is an int")
def marking_a_number_non_differentiable():
    return lambda: in_forward(lambda ctx, x: ctx.mark_non_differentiable(3)).apply(T(1))


@case(
    AttributeError,
    "Rule: 'saved_tensors' is a reserved name of the ctx. Store the value under another name.",
)
def assigning_a_reserved_name():
    return lambda: in_forward(lambda ctx, x: setattr(ctx, "saved_tensors", x)).apply(T(1))


@case(
    AttributeError, "Rule: '_x' is a reserved name of the ctx. Store the value under another name."
)
def assigning_a_private_name():
    return lambda: in_forward(lambda ctx, x: setattr(ctx, "_x", 3)).apply(T(1))


@case(
    AttributeError,
    "Rule: 'clone' is a reserved name of the ctx. Store the value under another name.",
)
def storing_under_a_reserved_name():
    return lambda: in_forward(lambda ctx, x: ctx.store("clone", 3)).apply(T(1))


@case(TypeError, "Rule: store takes a string as key, not an int")
def storing_under_a_number():
    return lambda: in_forward(lambda ctx, x: ctx.store(3, 3)).apply(T(1))


@case(TypeError, "Rule: load takes a string as key, not an int")
def loading_by_a_number():
    return lambda: in_forward(lambda ctx, x: ctx.load(3)).apply(T(1))


@case(
    AttributeError,
    "rule#2: nothing is stored under 'factor' in this ctx; it holds nothing. Set "
    "ctx.factor in forward, or ask with ctx.load('factor', default).",
)
def an_attribute_that_was_never_stored():
    return in_backward(lambda ctx, grad: ctx.factor)


@case(
    AttributeError,
    "rule#2: nothing is stored under 'factor' in this ctx; it holds nothing. Set "
    "ctx.factor in forward, or ask with ctx.load('factor', default).",
)
def deleting_what_was_never_stored():
    return in_backward(lambda ctx, grad: delattr(ctx, "factor"))


@case(KeyError, "\"no argument 'weight'; forward has x\"")
def the_need_of_an_unknown_argument():
    return lambda: in_forward(lambda ctx, x: ctx.needs_input_grad["weight"]).apply(T(1))


@case(AttributeError, "no argument 'weight'; forward has x")
def the_need_of_an_unknown_argument_as_attribute():
    return lambda: in_forward(lambda ctx, x: ctx.needs_input_grad.weight).apply(T(1))


@case(AttributeError, "Rule saved no 'weight'; it saved 0")
def a_saved_name_that_was_not_saved():
    return in_backward(lambda ctx, grad: ctx.saved_variables.weight, saving)


@case(
    GraphFreedError,
    "rule#1 was used by backward 1, which released what it had saved. Pass "
    "retain_graph=True to the first backward to keep it.",
)
def reading_what_was_released():
    y = rule(keep, saving).apply(T(1))
    node = y.grad_fn
    y.sum().backward()
    return lambda: node.ctx.saved_tensors


@case(
    GraphFreedError,
    "rule#1 has nothing to give back: nothing was ever saved, and backward 1 has released it.",
)
def reading_where_nothing_was_saved():
    y = rule(keep).apply(T(1))
    node = y.grad_fn
    y.sum().backward()
    return lambda: node.ctx.saved_tensors


@case(
    GraphFreedError,
    "Rule: this ctx belongs to no live graph; the output that owned its node is gone, or "
    "the call was not recorded. Keep the output, not the ctx.",
)
def reading_a_ctx_without_a_graph():
    seen = []
    in_forward(lambda ctx, x: (seen.append(ctx), ctx.save_for_backward(x))).apply(T(1))
    return lambda: seen.pop().saved_tensors


@case(
    InferenceTensorError,
    "Mul cannot save a tensor made in inference_mode. Make it outside, or save `x.clone()` of it.",
)
def saving_a_tensor_of_inference_mode():
    with lm.inference_mode():
        c = C(1) * 2
    return lambda: T(1) * c


@case(
    TypeError,
    "FunctionCtx: save_for_backward takes tensors by position, and argument 0 is an int. "
    "Save it by keyword, save_for_backward(name=value), or keep it with ctx.store.",
)
def saving_in_a_ctx_of_ones_own_by_position():
    return lambda: FunctionCtx().save_for_backward(3)


# -- backward and grad() --------------------------------------------------------------------------


@case(
    GraphFreedError,
    "sum#2 was used by backward 1, which released what it had saved. Pass "
    "retain_graph=True to the first backward to keep it.",
)
def a_second_backward():
    y = (T(3) * T(4)).sum()
    y.backward()
    return y.backward


@case(
    GraphFreedError,
    "mul#1 was used by backward 1, which released what it had saved. Pass "
    "retain_graph=True to the first backward to keep it.",
)
def a_backward_through_a_part_that_was_released():
    h = T(3) * T(4)
    (h * 2).sum().backward()
    return (h * 3).sum().backward


@case(
    GraphFreedError,
    "mul#2 belongs to a backward that failed at rule#1 after it had released this. Run "
    "forward again.",
)
def a_backward_through_what_failed():
    y = rule(lambda ctx, grad: grad[5]).apply(T(1)) * 2
    with pytest.raises(IndexError):
        y.sum().backward()
    return (y * 1).sum().backward


@case(
    NonScalarBackwardError,
    "backward() without a gradient starts at 1 and needs one element; this tensor has "
    "shape (2,). Sum it first, or pass a gradient of that shape.",
)
def a_backward_of_several_elements():
    return (T(1, 2) * 2).backward


@case(
    ValueError, "the gradient given has shape (1,), but the root has shape (2,); they must be equal"
)
def a_seed_of_another_shape():
    return lambda: (T(1, 2) * 2).backward(C(1))


@case(TypeError, "the gradient of a root must be a tensor or None, not float")
def a_seed_that_is_a_number():
    return lambda: (T(1, 2) * 2).backward(3.0)


@case(
    NoGradientError,
    "root 0 of backward does not require grad and has no history. Call requires_grad_() on "
    "a leaf it is computed from, and compute it outside no_grad.",
)
def a_root_without_history():
    return lambda: C(1).backward()


@case(TypeError, "root 0 is no tensor but float; pass tensors")
def a_root_that_is_no_tensor():
    return lambda: lm.autograd.backward([3.0])


@case(ValueError, "1 roots and 2 gradients were given; pass one gradient (or None) a root")
def more_seeds_than_roots():
    return lambda: lm.autograd.backward([T(1) * 2], [C(1), C(1)])


@case(
    NoGradientError,
    "backward(inputs=…): input 0 does not require grad. Call requires_grad_() on it before "
    "the outputs are computed.",
)
def backward_into_a_constant():
    return lambda: (T(1) * 2).backward(inputs=[C(1)])


@case(ValueError, "backward(inputs=…): no inputs were given; pass at least one tensor")
def backward_into_nothing():
    return lambda: (T(1) * 2).backward(inputs=[])


@case(
    NoGradientError,
    "grad(): input 0 does not require grad. Call requires_grad_() on it before the outputs "
    "are computed.",
)
def grad_by_a_constant():
    return lambda: lm.autograd.grad((T(1) * 2).sum(), C(1))


@case(TypeError, "grad(): input 0 is no tensor but float; pass tensors")
def grad_by_a_number():
    return lambda: lm.autograd.grad((T(1) * 2).sum(), [3.0])


@case(
    UnusedInputError,
    "grad(): input 0 was not used by the outputs. Pass allow_unused=True for None in its "
    "place, or materialize_grads=True for zeros.",
)
def grad_by_an_unused_input():
    return lambda: lm.autograd.grad((T(1) * 2).sum(), [T(1)])


@case(
    NoGradientError,
    "root 0 of backward does not require grad and has no history. Call requires_grad_() on "
    "a leaf it is computed from, and compute it outside no_grad.",
)
def steps_from_a_constant():
    return lambda: next(lm.autograd.steps(C(1)))


# -- what a rule returns --------------------------------------------------------------------------


@case(
    GradientCountError,
    "Rule.backward returned 1 gradient, but forward was called with 2 arguments (x, w). "
    "Return one gradient for each argument, in that order, and None where there is none.",
)
def one_gradient_too_few():
    return returning(lambda grad: grad, lambda ctx, x, w: x * w, (C(3),))


@case(
    GradientCountError,
    "Rule.backward returned 2 gradients, but forward was called with 1 argument (x). "
    "Return one gradient for each argument, in that order, and None where there is none.",
)
def one_gradient_too_many():
    return returning(lambda grad: (grad, grad))


@case(
    GradientCountError,
    "Rule.backward returned a gradient for 'n', which is not a tensor. Return None for it.",
)
def a_gradient_for_a_number():
    return returning(lambda grad: (grad, grad), lambda ctx, x, n: x * n, (3,))


@case(
    GradientCountError,
    "Rule.backward returned a gradient for weight, which is no argument of forward. Valid "
    "names: x.",
)
def a_gradient_under_an_unknown_name():
    return returning(lambda grad: {"weight": grad})


@case(
    TypeError,
    "Rule.backward returned a float as the gradient of 'x'; it must be a tensor of shape "
    "(2,) or None.",
)
def a_gradient_that_is_a_number():
    return returning(lambda grad: 3.0)


@case(
    TypeError,
    "Rule.backward returned an ndarray as the gradient of 'x'; it must be a tensor of "
    "shape (2,) or None.",
)
def a_gradient_that_is_an_array():
    return returning(lambda grad: grad.numpy())


@case(
    GradientShapeError,
    "Rule.backward returned a gradient of shape (1,) for 'x', which has shape (2,). Return "
    "one of that shape.",
)
def a_gradient_of_a_shape_that_does_not_fit():
    return returning(lambda grad: grad[:1])


@case(
    GradientShapeError,
    "Rule.backward returned a gradient of shape (3, 2) for 'x', which has shape (2,). "
    "Forward broadcast it; sum the gradient over axis (0,).",
)
def a_gradient_that_was_not_summed():
    return returning(lambda grad: grad, lambda ctx, x: x * lm.ones(3, 2))


@case(
    TypeError,
    "Rule.backward returned a list as the gradient of 'x'; it must be an array of shape "
    "(2,) or None.",
)
def a_list_from_a_rule_on_arrays():
    y = rule(lambda ctx, grad: [[1.0, 2.0]], arrays=True).apply(T(1, 2))
    return y.sum().backward


@case(
    TypeError,
    "Rule.backward returned a Tensor as the gradient of 'x'; it must be an array of shape "
    "(2,) or None.",
)
def a_tensor_from_a_rule_on_arrays():
    y = rule(lambda ctx, grad: C(1, 2), arrays=True).apply(T(1, 2))
    return y.sum().backward


@case(
    TypeError,
    "Rule.backward returned a float as the gradient of 'x'; it must be a tensor of shape "
    "(1,) or None.",
)
def a_number_under_create_graph():
    x = T(1)
    y = rule(lambda ctx, grad: 3.0).apply(x)
    return lambda: lm.autograd.grad(y.sum(), x, create_graph=True)


# -- hooks ----------------------------------------------------------------------------------------


@case(TypeError, "register_hook takes a callable, not int")
def a_hook_that_is_no_callable():
    return lambda: T(1).register_hook(3)


@case(
    NoGradientError,
    "register_hook: this tensor does not require grad, so the hook would never run. Call "
    "requires_grad_() on it, or hook a tensor computed from one that requires grad.",
)
def a_hook_on_a_constant():
    return lambda: C(1).register_hook(print)


@case(
    NotALeafError,
    "register_post_accumulate_grad_hook is for leaves, and mul#1 made this tensor. Use "
    "register_hook.",
)
def a_post_accumulate_hook_on_a_result():
    return lambda: (T(1) * 2).register_post_accumulate_grad_hook(print)


@case(
    NoGradientError,
    "register_post_accumulate_grad_hook: this tensor does not require grad, so the hook "
    "would never run. Call requires_grad_() on it, or hook a tensor computed from one that "
    "requires grad.",
)
def a_post_accumulate_hook_on_a_constant():
    return lambda: C(1).register_post_accumulate_grad_hook(print)


@case(TypeError, "register_hook takes a callable, not int")
def a_node_hook_that_is_no_callable():
    return lambda: (T(1) * 2).grad_fn.register_hook(3)


@case(
    TypeError,
    "hook a_hook_that_returns_a_number.<locals>.<lambda> returned a float; it must return "
    "a tensor, which replaces the gradient, or None, which keeps it.",
)
def a_hook_that_returns_a_number():
    x = T(1)
    x.register_hook(lambda grad: 3.0)
    return (x * 2).sum().backward


@case(
    GradientShapeError,
    "hook a_hook_that_returns_another_shape.<locals>.<lambda> returned a gradient of shape "
    "(1,) for one of shape (2,). Return one of that shape.",
)
def a_hook_that_returns_another_shape():
    x = T(1, 2)
    x.register_hook(lambda grad: grad[:1])
    return (x * 2).sum().backward


@case(
    TypeError,
    "hook a_node_hook_that_returns_a_number.<locals>.<lambda> returned a float; a hook of "
    "a node must return a tuple of gradients, which replace those given, or None, which "
    "keeps them.",
)
def a_node_hook_that_returns_a_number():
    y = T(1) * 2
    y.grad_fn.register_hook(lambda inputs, outputs: 3.0)
    return y.sum().backward


@case(
    GradientCountError,
    "hook a_node_hook_that_returns_too_few.<locals>.<lambda> returned 1 gradients for 2; "
    "return one for each, None where there is none.",
)
def a_node_hook_that_returns_too_few():
    y = T(1) * T(2)
    y.grad_fn.register_hook(lambda inputs, outputs: inputs[:1])
    return y.sum().backward


@case(
    GradientCountError,
    "hook a_prehook_that_returns_too_many.<locals>.<lambda> returned 2 gradients for 1; "
    "return one for each, None where there is none.",
)
def a_prehook_that_returns_too_many():
    y = T(1) * T(2)
    y.grad_fn.register_prehook(lambda outputs: outputs * 2)
    return y.sum().backward


# -- saved-tensor hooks ---------------------------------------------------------------------------


@case(TypeError, "saved_tensors_hooks: pack must be a callable, not an int")
def a_pack_that_is_no_callable():
    return lambda: saved_tensors_hooks(3, print)


@case(TypeError, "saved_tensors_hooks: unpack must be a callable, not None")
def an_unpack_that_is_no_callable():
    return lambda: saved_tensors_hooks(print, None)


@case(
    PackError,
    "mul_in_place would write into a tensor that is being packed for backward; others may "
    "be about to read it. Call clone() first and write into the copy.",
)
def a_pack_that_writes():
    x = T(3)

    def act():
        with saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
            x.exp()

    return act


@case(
    PackError,
    "exp#1: unpack returned float, not a tensor. It must give back what pack was given: a "
    "tensor of shape (1,) and dtype float64.",
)
def an_unpack_that_returns_a_number():
    with saved_tensors_hooks(lambda t: t, lambda t: 3.0):
        y = T(3).exp()
    return y.sum().backward


@case(
    PackError,
    "exp#1: unpack returned a tensor of shape (2,) and dtype float64, and what was saved "
    "had shape (1,) and dtype float64. It must give back what pack was given.",
)
def an_unpack_that_returns_another_shape():
    with saved_tensors_hooks(lambda t: t, lambda t: C(1, 2)):
        y = T(3).exp()
    return y.sum().backward


@case(
    PackError,
    "exp#1: unpack returned a tensor of shape (1,) and dtype float32, and what was saved "
    "had shape (1,) and dtype float64. It must give back what pack was given.",
)
def an_unpack_that_returns_another_dtype():
    with saved_tensors_hooks(lambda t: t, lambda t: t.to("float32")):
        y = T(3).exp()
    return y.sum().backward


@case(
    PackError,
    "save_on_disk: saved_1.npy cannot be read back (No such file or directory). Keep the "
    "folder until backward has run.",
)
def a_file_that_is_gone():
    folder = tempfile.TemporaryDirectory()
    with save_on_disk(folder.name):
        y = T(3).exp()
    folder.cleanup()
    return y.sum().backward


# -- around the stack -----------------------------------------------------------------------------


@case(
    AnomalyError,
    "sqrt#1 gave a gradient for 'x' with 1 NaN among 1 elements; its forward was called at "
    "test_messages.py:LINE. Look at the values that reach this call.",
)
def a_gradient_that_is_no_number():
    x = T(0)

    def act():
        with detect_anomaly(), np.errstate(all="ignore"):
            (x.sqrt() * 0).sum().backward()

    return act


@case(
    GradcheckError,
    "gradcheck of Rule: d output 0[0] / d input 0[0]: analytic 3, numeric 2. The analytic "
    "gradient is 1.5 times the numeric one, everywhere.",
)
def a_rule_that_gradcheck_finds_wrong():
    return lambda: lm.gradcheck(
        rule(lambda ctx, grad: 3 * grad, lambda ctx, x: 2 * x).apply, (T(1),)
    )


@case(
    CheckpointError,
    "checkpoint: <lambda> gave other values for output 0 when run again. It must do the "
    "same both times: draw random numbers from lm.rand or lm.randn only, and let nothing "
    "it reads change between forward and backward.",
)
def a_checkpoint_that_does_something_else():
    numbers = iter([1.0, 2.0])
    y = lm.checkpoint(lambda x: x * next(numbers), T(1))
    return y.sum().backward


@case(
    TypeError,
    "checkpoint takes a function and its arguments, and the first argument is Tensor; "
    "write checkpoint(fn, x), not checkpoint(fn(x))",
)
def a_checkpoint_of_a_result():
    return lambda: lm.checkpoint(T(1) * 2)


@case(
    ValueError, "hessian: the function must return one element, not a tensor of shape (2,). Sum it."
)
def a_hessian_of_several_elements():
    return lambda: lm.hessian(lambda x: x * x, C(1, 2))


@case(
    TypeError,
    "jacobian: input 0 is int64, and only floating tensors have derivatives. Bind the "
    "others into the function, or use .to(float).",
)
def a_jacobian_by_integers():
    return lambda: lm.jacobian(lambda x: x * 1.0, lm.tensor([1]))


@case(
    TypeError, "dump takes a tensor or a node of its graph, not int. Pass the loss, or its grad_fn."
)
def a_dump_of_a_number():
    return lambda: dump(3)


@case(
    TypeError,
    "dump takes a tensor or a node of its graph, not None. A leaf has no grad_fn: pass the "
    "tensor itself.",
)
def a_dump_of_a_leafs_grad_fn():
    return lambda: dump(T(1).grad_fn)


@case(ValueError, "dump knows no format 'xml'; use one of text, dict, dot")
def a_dump_in_an_unknown_format():
    return lambda: dump(T(1) * 2, format="xml")


# -- the test -------------------------------------------------------------------------------------

#: One of these words offers the way out, or says what is right.
WAY_OUT = re.compile(
    r"\b(use|pass|call|return|save|write|wrap|sum|make|mark|store|set|define|put|name|ask|keep|run|"
    r"take|look|give|must|takes|needs|valid|for leaves|called with|forward has|it saved|"
    r"times the numeric one)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize(("make", "error", "text"), CASES)
def test_a_mistake_is_answered_and_does_no_damage(make, error, text):
    LEAVES.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = make()
        before = [leaf.grad for leaf in LEAVES]
        with pytest.raises(error) as raised:
            call()
    assert type(raised.value) is error
    assert text_of(raised.value, text) == text
    assert WAY_OUT.search(text), "the text offers no way out"

    assert lm.is_grad_enabled()
    assert thread.mode.running == ()
    assert all(leaf.grad is grad for leaf, grad in zip(LEAVES, before, strict=False))
    assert all(leaf.grad is None for leaf in LEAVES[len(before) :])
    x = lm.tensor([3.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [6]


def test_there_are_a_hundred_of_them():
    assert len(CASES) >= 100


def test_every_class_of_error_has_a_case():
    shown = {param.values[1] for param in CASES}
    classes = {
        value
        for value in vars(lm.errors).values()
        if isinstance(value, type) and issubclass(value, AutogradError)
    }
    assert classes <= shown
