"""Tensors: leaves, dtypes, `.grad`, what NumPy sees (rows R1 to R8c)."""

import copy
import re

import numpy as np
import pytest
from functions import C, T, g

import lucid_mini as lm
from lucid_mini.errors import NotALeafError

# -- leaves ---------------------------------------------------------------------------------------


def test_a_tensor_that_the_user_made_is_a_leaf_before_and_after_use():  # R1
    x = T(2)
    assert (x.is_leaf, x.grad_fn) == (True, None)
    y = x * 3
    assert (x.is_leaf, x.grad_fn, y.is_leaf) == (True, None, False)
    assert y.grad_fn.name == "MulBackward"
    y.sum().backward()
    assert (x.is_leaf, x.grad_fn) == (True, None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: lm.tensor([1.0, 2.0]),
        lambda: lm.tensor([1.0, 2.0], requires_grad=True),
        lambda: lm.Tensor([1.0, 2.0], requires_grad=True),
        lambda: lm.from_numpy(np.ones(2)),
        lambda: lm.as_tensor(np.ones(2)),
        lambda: lm.as_tensor([1.0, 2.0]),
        lambda: lm.zeros(2, requires_grad=True),
        lambda: lm.ones((2, 3), requires_grad=True),
        lambda: lm.full((2,), 7.0, requires_grad=True),
        lambda: lm.eye(2, requires_grad=True),
        lambda: lm.arange(0.0, 2.0, requires_grad=True),
        lambda: lm.rand(2, requires_grad=True),
        lambda: lm.randn(2, requires_grad=True),
        lambda: lm.zeros_like(T(1, 2) * 2, requires_grad=True),
        lambda: lm.ones_like(T(1, 2) * 2, requires_grad=True),
        lambda: lm.full_like(T(1, 2) * 2, 7.0, requires_grad=True),
        (T(1, 2) * 2).detach,
    ],
)
def test_every_constructor_gives_a_leaf(make):  # R1
    x = make()
    assert x.is_leaf
    assert x.grad_fn is None
    assert x.grad is None


# -- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [[1, 2], [True, False], [1 + 2j]])
def test_only_floating_dtypes_may_require_grad(data):  # R2
    with pytest.raises(TypeError, match="floating"):
        lm.tensor(data, requires_grad=True)
    x = lm.tensor(data)
    with pytest.raises(TypeError, match=r"floating.*\.to\(float\)"):
        x.requires_grad_()
    assert not x.requires_grad
    for dtype in (np.float16, np.float32, np.float64):
        assert lm.tensor([1], dtype=dtype, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    "make",
    [
        lambda: lm.tensor([1.0], dtype=object),
        lambda: lm.tensor([object()]),
        lambda: lm.tensor("text"),
        lambda: lm.tensor(None),
        lambda: lm.from_numpy(np.array([None, 1.0])),
        lambda: lm.as_tensor(np.array(["a"])),
        lambda: lm.zeros(2, dtype=object),
        lambda: C(1, 2).to(object),
        lambda: C(1, 2).to(str),
    ],
)
def test_objects_are_refused_because_a_cycle_through_them_is_never_collected(make):  # R2
    with pytest.raises(TypeError, match="numbers"):
        make()


def test_python_floats_become_float64():  # R2b
    assert lm.tensor(1.0).dtype == np.float64
    assert lm.tensor([1.0, 2]).dtype == np.float64
    assert lm.tensor([1, 2]).dtype == np.int64
    assert lm.tensor(np.ones(2, np.float32)).dtype == np.float32
    for made in (lm.zeros(2), lm.ones(2), lm.eye(2), lm.rand(2), lm.randn(2)):
        assert made.dtype == np.float64


SCALARS = {
    "float": 0.5,
    "int": 2,
    "bool": True,
    "0-d float64 tensor": lm.tensor(0.5),
    "0-d int64 tensor": lm.tensor(2),
    "NumPy float64": np.float64(0.5),
    "0-d float64 array": np.array(0.5),
}


@pytest.mark.parametrize("scalar", SCALARS.values(), ids=SCALARS.keys())
def test_a_number_does_not_raise_the_dtype_of_a_tensor_with_dimensions(scalar):  # R2b
    x = lm.tensor([1.0, 2.0], dtype=np.float32, requires_grad=True)
    results = [
        x + scalar,
        scalar + x,
        x - scalar,
        scalar - x,
        x * scalar,
        scalar * x,
        x / scalar,
        scalar / x,
        x**scalar,
        scalar**x,
        lm.maximum(x, scalar),
        lm.minimum(x, scalar),
        lm.where(x > 1, x, scalar),
        lm.where(x > 1, scalar, x),
        x.clamp(float(scalar), None),
        (x * 1).add_(scalar),
        (x * 1).mul_(scalar),
    ]
    assert [r.dtype for r in results] == [np.dtype(np.float32)] * len(results)
    sum(r.sum() for r in results).backward()
    assert x.grad.dtype == np.float32


def test_a_python_number_takes_the_dtype_of_the_tensor_it_meets():  # R2b
    for dtype in (np.float32, np.float64):
        zero_d = lm.tensor(2.0, dtype=dtype)
        assert (zero_d * 0.5).dtype == (2 - zero_d).dtype == (zero_d**2).dtype == dtype
        assert lm.where(zero_d > 1, 1.0, zero_d).dtype == dtype
    for dtype in (np.uint8, np.int32):
        assert (lm.tensor([1, 2], dtype=dtype) + 1).dtype == dtype
        assert (lm.tensor(1, dtype=dtype) + 1).dtype == dtype


def test_numpy_scalars_as_bounds_and_exponents_do_not_raise_the_dtype_either():  # R2b
    x = lm.tensor([1.0, 2.0], dtype=np.float32)
    assert x.clamp(np.float64(0.1), np.float64(0.9)).dtype == np.float32
    assert (x ** np.float64(2.0)).dtype == np.float32
    assert x.pow(np.float64(2.0)).dtype == np.float32
    assert (x * 1).pow_(np.float64(2.0)).dtype == np.float32
    assert x.masked_fill(x > 1, np.float64(0.1)).dtype == np.float32


FLOAT32_OPS = {
    "exp": lambda x: x.exp(),
    "log": lambda x: x.log(),
    "sqrt": lambda x: x.sqrt(),
    "sin": lambda x: x.sin(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "relu": lambda x: x.relu(),
    "abs": lambda x: x.abs(),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(1),
    "prod": lambda x: x.prod(0),
    "max": lambda x: x.max(1)[0],
    "amax": lambda x: x.amax(),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(),
    "cumsum": lambda x: x.cumsum(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "cross_entropy": lambda x: lm.cross_entropy(x, [0, 1]),
    "matmul": lambda x: x @ x.T,
    "index": lambda x: x[0],
    "cat": lambda x: lm.cat([x, x]),
    "gather": lambda x: x.gather(1, lm.tensor([[0], [1]])),
}


@pytest.mark.parametrize("op", FLOAT32_OPS.values(), ids=FLOAT32_OPS.keys())
def test_float32_stays_float32_through_an_op_and_its_gradient(op):  # R2b
    x = lm.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=np.float32, requires_grad=True)
    y = op(x)
    assert y.dtype == np.float32
    y.sum().backward(retain_graph=True)
    assert x.grad.dtype == np.float32
    (second_order,) = lm.autograd.grad(y.sum(), x, create_graph=True)
    assert second_order.dtype == np.float32


def test_the_higher_kind_wins_between_dtypes():  # R2b
    ints, halves = lm.tensor([1, 2]), lm.tensor(0.5, dtype=np.float32)
    assert (ints * halves).dtype == np.float32
    assert (ints * 0.5).dtype == np.float64
    assert (lm.tensor([True, False]) * 2).dtype == np.int64
    assert (lm.tensor([1.0], dtype=np.float32) * lm.tensor([1.0])).dtype == np.float64


# -- requires_grad, detach ------------------------------------------------------------------------


def test_requires_grad_underscore_gives_back_the_same_tensor():  # R3
    x = C(1)
    assert x.requires_grad_(True) is x
    assert x.requires_grad
    assert x.requires_grad_(False) is x
    assert not x.requires_grad
    x.requires_grad = True
    assert x.requires_grad


def test_requires_grad_of_a_tensor_with_history_cannot_be_switched_off():  # R3
    y = T(1) * 2
    with pytest.raises(NotALeafError, match=r"mul#1 .*not a leaf.*\.detach\(\)"):
        y.requires_grad_(False)
    with pytest.raises(NotALeafError, match="leaf"):
        y.requires_grad = False
    assert y.requires_grad_(True) is y  # as PyTorch: it changes nothing


def test_detach_shares_memory_and_version_counter_and_has_no_history():  # R4
    x = T(1, 2)
    y = x * 3
    d = y.detach()
    assert (d.requires_grad, d.is_leaf, d.grad_fn) == (False, True, None)
    assert np.shares_memory(d.numpy(), y.numpy())
    d.add_(1)
    assert y.tolist() == [4.0, 7.0]
    assert (y._version, d._version) == (1, 1)


# -- .grad ----------------------------------------------------------------------------------------


def test_grad_is_one_slot_that_can_be_assigned_and_cleared():  # R5
    x = T(1, 2)
    x.grad = C(5, 6)
    (x * 2).sum().backward()
    assert g(x) == [7.0, 8.0]
    x.grad = None
    (x * 2).sum().backward()
    assert g(x) == [2.0, 2.0]


def test_a_grad_of_another_shape_or_type_is_refused():  # R5
    x = T(1, 2)
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        x.grad = C(1, 2, 3)
    with pytest.raises(TypeError, match="ndarray"):
        x.grad = np.ones(2)
    with pytest.raises(TypeError, match="float"):
        x.grad = 1.0
    assert x.grad is None


@pytest.mark.filterwarnings("ignore::lucid_mini.errors.LeakWarning")
def test_a_grad_with_history_goes_on_accumulating():  # R5
    x = T(3)
    (x**3).sum().backward(create_graph=True)
    (x * 2).sum().backward()
    assert g(x) == [29.0]
    x.grad = None


def test_gradients_accumulate_over_backward_calls():  # R6
    x = T(1)
    (x * 3).sum().backward()
    (x * 4).sum().backward()
    assert g(x) == [7.0]


def test_broadcasting_is_undone_in_the_gradient():  # R7
    b = T(1, 2, 3)
    (lm.ones(2, 3) + b).sum().backward()
    assert g(b) == [2.0, 2.0, 2.0]
    column = lm.tensor([[1.0], [2.0]], requires_grad=True)
    (lm.ones(2, 3) * column).sum().backward()
    assert g(column) == [[3.0], [3.0]]
    scalar = lm.tensor(2.0, requires_grad=True)
    (lm.ones(2, 3) * scalar).sum().backward()
    assert g(scalar) == 6.0


# -- what is printed ------------------------------------------------------------------------------


def test_repr_shows_history_or_requires_grad_and_never_an_address():  # R8
    x = T(1, 2)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(C(1, 2)) == "tensor([1., 2.])"
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<MulBackward>)"
    assert repr(lm.tensor(1.5)) == "tensor(1.5)"
    assert repr(lm.tensor([1.0], dtype=np.float32)) == "tensor([1.], dtype=float32)"
    y = x.exp().sum()
    for thing in (x, y, y.grad_fn, y.grad_fn.ctx, y.grad_fn.next_functions, lm.zeros(50, 50)):
        assert not re.search(r"0x[0-9a-f]{6}", repr(thing))


# -- NumPy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [lambda x: x.data, lambda x: x.numpy(), np.asarray])
def test_what_numpy_gets_is_a_read_only_view(view):  # R8b
    x = C(2, 4)
    array = view(x)
    assert np.shares_memory(array, x._data)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 9
    assert x.tolist() == [2.0, 4.0]


def test_a_write_through_data_fails_at_its_line_and_the_gradient_stays_right():  # R8b
    x = T(1, 2)
    y = x * x
    with pytest.raises(ValueError, match="read-only"):
        x.data[0] = 100
    y.sum().backward()
    assert g(x) == [2.0, 4.0]


def test_numpy_arrays_are_operands_on_either_side():  # R8c
    t = T(2, 3)
    one = np.ones(2)
    for result, value in [
        (one * t, [2.0, 3.0]),
        (t * one, [2.0, 3.0]),
        (one - t, [-1.0, -2.0]),
        (one / t, [0.5, 1 / 3]),
        ((one * 2) ** t, [4.0, 8.0]),
        (one @ t, 5.0),
        (np.float64(2) * t, [4.0, 6.0]),
        (np.add(one, t), [3.0, 4.0]),
        (np.multiply(t, t), [4.0, 9.0]),
    ]:
        assert type(result) is lm.Tensor
        assert result.requires_grad
        assert result.tolist() == value
    assert (one < t).tolist() == [True, True]
    assert (one == t).tolist() == [False, False]
    (one * 5 * t).sum().backward()
    assert g(t) == [5.0, 5.0]


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (np.exp, "lm.exp"),
        (np.abs, "lm.abs"),
        (lambda t: np.maximum(t, 1.0), "lm.maximum"),
        (np.floor, "lm."),
        (np.add.reduce, "lm.sum"),
        (lambda t: np.multiply(t, t, out=np.zeros(2)), "lm."),
        (lambda t: np.add(t, 1.0, where=np.array([True, False])), "lm."),
    ],
)
def test_any_other_ufunc_is_refused_with_the_way_out(call, names):  # R8c
    with pytest.raises(TypeError, match=re.escape(names)) as error:
        call(T(1, 2))
    assert ".numpy()" in str(error.value)


def test_a_tensor_never_ends_up_inside_an_object_array():  # R8c
    t = T(1, 2)
    assert (np.ones(2) + t).dtype == np.float64
    array = np.ones(2)
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        array += t
    assert array.dtype == np.float64
    assert np.array(t).dtype == np.float64
    assert np.array([lm.tensor(1.0), lm.tensor(2.0)]).dtype == np.float64


# -- copies ---------------------------------------------------------------------------------------


def test_tensor_of_a_tensor_copies_and_warns():  # R1
    x = T(1, 2)
    with pytest.warns(UserWarning, match="clone"):
        y = lm.tensor(x * 2)
    assert y.is_leaf
    with pytest.warns(UserWarning, match=r"lm\.stack"):
        y = lm.tensor([lm.tensor(1.0, requires_grad=True), 2.0])
    assert y.tolist() == [1.0, 2.0]
    assert y.is_leaf


def test_a_deep_copy_has_its_own_array_and_the_same_history():  # R48
    x = T(1, 2)
    twin = copy.deepcopy(x)
    assert (twin.requires_grad, twin.is_leaf) == (True, True)
    assert not np.shares_memory(twin.numpy(), x.numpy())
    (twin * 3).sum().backward()
    assert (g(twin), g(x)) == ([3.0, 3.0], None)
    y = copy.deepcopy(x * 5)
    (y * 2).sum().backward()
    assert g(x) == [10.0, 10.0]


def test_a_shallow_copy_shares_memory_and_version_counter():  # R48
    x = T(1, 2)
    z = x * 1
    twin = copy.copy(z)
    assert np.shares_memory(twin.numpy(), z.numpy())
    twin.add_(1)
    assert z._version == 1
    alias = copy.copy(x)
    (alias * 3).sum().backward()
    assert (g(alias), g(x)) == ([3.0, 3.0], None)


def test_repr_of_an_empty_tensor_tells_its_shape():
    assert repr(lm.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert repr(lm.zeros(0)) == "tensor([])"
