"""`jacobian`, `hessian`, `vjp`, `jvp`, `hvp`: exact, and the caller's tensors as they were."""

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from functions import C, Square, T, g
from hypothesis import given, settings
from hypothesis import strategies as st

import lucid_mini as lm
from lucid_mini.transforms import hessian, hvp, jacobian, jvp, vjp


def pair(x):
    """[x0 x1, x1²]."""
    return lm.stack([x[0] * x[1], x[1] * x[1]])


def cubic(x):
    """x0² x1."""
    return x[0] * x[0] * x[1]


@pytest.fixture
def torch():
    """PyTorch, which says what is right."""
    return pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")


# -- the values of the row ------------------------------------------------------------------------


def test_the_jacobian_of_two_outputs_has_a_row_for_each():  # R100
    assert jacobian(pair, C(2, 3)).tolist() == [[3, 2], [0, 6]]


def test_vjp_is_the_vector_times_the_jacobian():  # R100
    output, product = vjp(pair, C(2, 3), C(1, 10))
    assert output.tolist() == [6, 9]
    assert product.tolist() == [3, 62]


def test_jvp_is_the_jacobian_times_the_vector():  # R100
    output, product = jvp(pair, C(2, 3), C(1, 0))
    assert output.tolist() == [6, 9]
    assert product.tolist() == [3, 0]


def test_the_hessian_holds_every_second_derivative():  # R100
    assert hessian(cubic, C(2, 3)).tolist() == [[6, 4], [4, 0]]


def test_hvp_is_the_hessian_times_the_vector():  # R100
    output, product = hvp(cubic, C(2, 3), C(1, 10))
    assert output.item() == 12
    assert product.tolist() == [46, 4]


def test_they_are_exact_where_differences_would_not_be():  # R100
    x = C(1e8)  # x ± 1e-6 is x
    assert jacobian(lambda x: x * x, x).tolist() == [[2e8]]
    assert hessian(lambda x: (x * x * x).sum(), x).tolist() == [[6e8]]


# -- the caller's tensors -------------------------------------------------------------------------

EACH = {
    "jacobian": lambda x: jacobian(pair, x),
    "hessian": lambda x: hessian(cubic, x),
    "vjp": lambda x: vjp(pair, x, C(1, 10)),
    "jvp": lambda x: jvp(pair, x, C(1, 0)),
    "hvp": lambda x: hvp(cubic, x, C(1, 0)),
}


@pytest.mark.parametrize("name", EACH)
def test_gradients_flags_and_values_of_the_caller_stay(name):  # R100
    leaf, constant = T(2, 3), C(2, 3)
    leaf.grad = C(7, 7)
    EACH[name](leaf), EACH[name](constant)
    assert g(leaf) == [7, 7]
    assert (leaf.requires_grad, constant.requires_grad) == (True, False)
    assert (leaf._version, leaf.tolist(), constant.tolist()) == (0, [2, 3], [2, 3])


@pytest.mark.parametrize("name", EACH)
def test_a_graph_that_the_caller_has_can_still_be_walked(name):  # R100
    w = T(1, 1)
    x = w * C(2, 3)
    before = x.grad_fn
    EACH[name](x)
    assert x.grad_fn is before
    assert not before.released
    x.sum().backward()
    assert g(w) == [2, 3]


@pytest.mark.parametrize("name", EACH)
def test_hooks_of_the_caller_do_not_fire(name):  # R100
    x, seen = T(2, 3), []
    x.register_hook(seen.append)
    EACH[name](x)
    assert seen == []


@pytest.mark.parametrize("name", EACH)
def test_nothing_is_kept_and_nothing_has_a_history(name, no_gc):  # R100
    made = []

    def watched(x):
        y = cubic(x) if name in ("hessian", "hvp") else pair(x)
        made.append(weakref.ref(y.grad_fn))
        return y

    call = {"jacobian": jacobian, "hessian": hessian, "vjp": vjp, "jvp": jvp, "hvp": hvp}[name]
    v = {"vjp": (C(1, 10),), "jvp": (C(1, 0),), "hvp": (C(1, 0),)}.get(name, ())
    results = call(watched, T(2, 3), *v)
    results = results if isinstance(results, tuple) else (results,)
    assert not any(result.requires_grad for result in results)
    assert [node() for node in made] == [None]


def test_a_parameter_that_the_function_reads_gets_no_gradient():  # R100
    w = T(4, 5)
    assert jacobian(lambda x: x * w, C(1, 1)).tolist() == [[4, 0], [0, 5]]
    assert w.grad is None


def test_they_record_under_no_grad_and_leave_it_on():  # R100
    with lm.no_grad():
        assert jacobian(pair, C(2, 3)).tolist() == [[3, 2], [0, 6]]
        assert not lm.is_grad_enabled()


def test_recording_is_given_back_where_the_function_raises():  # R100
    def fails(x):
        raise KeyError("mine")

    with lm.no_grad():
        with pytest.raises(KeyError, match="mine"):
            vjp(fails, C(1))
        assert not lm.is_grad_enabled()


def test_each_thread_has_its_own():  # R100
    results = {}

    def work(n):
        results[n] = [jacobian(lambda x: x * n, C(1)).item() for _ in range(50)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [n] * 50 for n in range(4)}


# -- shapes ---------------------------------------------------------------------------------------


def test_the_shape_of_a_jacobian_is_output_then_input():  # R100
    assert jacobian(lambda x: x.sum(0), lm.ones(2, 3)).shape == (3, 2, 3)
    assert jacobian(lambda x: x.sum(), lm.ones(2, 3)).shape == (2, 3)
    assert jacobian(lambda x: x * x, lm.tensor(2.0)).item() == 4


def test_tuples_of_inputs_and_outputs_give_tuples_of_tuples():  # R100
    made = jacobian(lambda a, b: (a * b, b.sum()), (C(2, 3), C(4, 5)))
    assert [[part.tolist() for part in row] for row in made] == [
        [[[4, 0], [0, 5]], [[2, 0], [0, 3]]],
        [[0, 0], [1, 1]],
    ]
    made = hessian(lambda a, b: (a * b * b).sum(), (C(2), C(3)))
    assert [[part.item() for part in row] for row in made] == [[0, 6], [6, 4]]
    assert isinstance(jacobian(lambda a: a, (C(1),)), tuple)


def test_a_tuple_of_inputs_gets_a_tuple_of_products():  # R100
    a, b = C(2, 3), C(4, 5)
    output, products = vjp(lambda a, b: (a * b, a), (a, b), (C(1, 1), C(10, 10)))
    assert [o.tolist() for o in output] == [[8, 15], [2, 3]]
    assert [p.tolist() for p in products] == [[14, 15], [2, 3]]
    output, products = jvp(lambda a, b: (a * b, a), (a, b), (C(1, 0), C(0, 1)))
    assert [p.tolist() for p in products] == [[4, 3], [1, 0]]
    _, products = hvp(lambda a, b: (a * a * b).sum(), (a, b), (C(1, 0), C(0, 1)))
    assert [p.tolist() for p in products] == [[8, 6], [4, 0]]


def test_the_same_tensor_given_twice_is_two_inputs():  # R100
    x = C(3)
    first, second = jacobian(lambda a, b: a * a * b, (x, x))
    assert (first.item(), second.item()) == (18, 9)


def test_no_elements_give_a_jacobian_without_elements():  # R100
    assert jacobian(lambda x: x * 2, lm.zeros(0)).shape == (0, 0)
    assert jacobian(lambda x: x.sum(1), lm.zeros(2, 0)).shape == (2, 2, 0)
    assert jacobian(lambda x: x[:0], C(1, 2)).shape == (0, 2)


def test_an_output_that_does_not_depend_on_the_input_has_derivative_zero():  # R100
    constant = C(5, 6)
    assert jacobian(lambda x: constant, C(1, 2, 3)).tolist() == [[0] * 3] * 2
    assert vjp(lambda x: constant, C(1), C(1, 1))[1].tolist() == [0]
    assert jvp(lambda x: constant, C(1), C(1))[1].tolist() == [0, 0]
    assert hessian(lambda x: x.sum(), C(1, 2)).tolist() == [[0, 0], [0, 0]]
    assert hvp(lambda x: x.sum(), C(1, 2), C(1, 1))[1].tolist() == [0, 0]


def test_strict_refuses_an_output_that_does_not_depend_on_an_input():  # R100
    with pytest.raises(lm.errors.UnusedInputError, match="input 1"):
        jacobian(lambda a, b: a * 2, (C(1), C(1)), strict=True)
    with pytest.raises(lm.errors.UnusedInputError, match=r"vjp: the outputs .* input 0"):
        vjp(lambda a: C(1), C(1), C(1), strict=True)
    with pytest.raises(lm.errors.UnusedInputError):
        hessian(lambda x: x.sum(), C(1, 2), strict=True)


def test_v_may_be_left_out_for_one_element():  # R100
    assert vjp(cubic, C(2, 3))[1].tolist() == [12, 4]
    assert jvp(lambda x: x * x, C(3))[1].tolist() == [6]


def test_float32_stays_float32():  # R100
    x = lm.tensor([2.0, 3.0], dtype=np.float32)
    assert jacobian(pair, x).dtype == np.float32
    assert hessian(cubic, x).dtype == np.float32
    assert jvp(pair, x, C(1, 0))[1].dtype == np.float32
    assert jacobian(lambda x: x.sum(1), lm.zeros(0, 0, dtype=np.float32)).dtype == np.float32


# -- derivatives of derivatives -------------------------------------------------------------------


def test_create_graph_leads_back_to_the_inputs():  # R100
    x = T(2, 3)
    made = jacobian(pair, x, create_graph=True)
    (made * made).sum().backward()  # d(x1² + x0² + 4 x1²)
    assert g(x) == [4, 30]


def test_create_graph_differentiates_products_by_the_vector_too():  # R100
    x, v = T(2, 3), T(1, 0)
    _, product = jvp(pair, x, v, create_graph=True)
    product.sum().backward()  # v0 x1 + v1 x0 + 2 x1 v1
    assert (g(x), g(v)) == ([0, 1], [3, 8])
    x, v = T(2, 3), T(1, 10)
    _, product = vjp(pair, x, v, create_graph=True)
    product.sum().backward()  # v0 x1 + v0 x0 + 2 v1 x1
    assert (g(x), g(v)) == ([1, 21], [5, 6])
    x, v = T(2, 3), T(1, 0)
    _, product = hvp(cubic, x, v, create_graph=True)
    product.sum().backward()  # 2 x1 v0 + 2 x0 v1 + 2 x0 v0
    assert (g(x), g(v)) == ([2, 2], [10, 4])


def test_an_input_without_grad_is_differentiated_under_create_graph_too():  # R100
    # PyTorch answers with zeros there.
    assert jacobian(pair, C(2, 3), create_graph=True).tolist() == [[3, 2], [0, 6]]
    assert hessian(cubic, C(2, 3), create_graph=True).tolist() == [[6, 4], [4, 0]]


def test_they_nest():  # R100
    def row(x):
        return jacobian(lambda y: y * y * x, x, create_graph=True).sum(0)

    assert jacobian(row, C(2, 3)).tolist() == [[8, 0], [0, 12]]  # row(x) = 2 x²
    third = jacobian(lambda x: hessian(cubic, x, create_graph=True), C(2, 3))
    assert third.tolist() == [[[0, 2], [2, 0]], [[2, 0], [0, 0]]]


def test_jvp_goes_through_a_function_of_the_readers_own():  # R100
    assert jvp(Square.apply, C(2, 3), C(1, 10))[1].tolist() == [4, 60]


def test_jvp_does_not_warn_of_saved_intermediates(recwarn):  # R100, R70
    class Sigmoid(lm.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            e = (-x).exp()
            ctx.save_for_backward(e)
            return 1 / (1 + e)

        @staticmethod
        def backward(ctx, grad):
            (e,) = ctx.saved_tensors
            return grad * e / (1 + e) ** 2

    x = C(0.3, -2)
    got = jvp(Sigmoid.apply, x, C(1, 1))[1]
    assert recwarn.list == []
    s = x.sigmoid()
    assert np.allclose(got, s * (1 - s), atol=1e-15)


# -- misuse ---------------------------------------------------------------------------------------


def test_an_integer_input_is_a_type_error_that_names_it():  # R100
    with pytest.raises(TypeError, match=r"jacobian: input 1 is int64, .*floating"):
        jacobian(lambda a, b: a * b, (C(1), lm.tensor([1])))


def test_an_input_that_is_no_tensor_is_a_type_error_that_names_it():  # R100
    with pytest.raises(TypeError, match="vjp: input 0 is no tensor but float"):
        vjp(pair, 2.0)


def test_an_output_that_is_no_tensor_is_a_type_error_that_names_the_function():  # R100
    with pytest.raises(TypeError, match=r"pair_of_numbers must return .* output 1 is int"):
        jacobian(_pair_of_numbers(), C(1))


def _pair_of_numbers():
    def pair_of_numbers(x):
        return x, 3

    return pair_of_numbers


def test_a_vector_that_does_not_fit_is_a_value_error_with_both_shapes():  # R100
    with pytest.raises(ValueError, match=r"vjp: v\[0\] has shape \(3,\), but output 0 .* \(2,\)"):
        vjp(pair, C(2, 3), C(1, 2, 3))
    with pytest.raises(ValueError, match=r"jvp: v has 2 tensors, and there are 1 inputs"):
        jvp(pair, C(2, 3), (C(1, 2), C(1, 2)))
    with pytest.raises(ValueError, match=r"hvp: v may be left out only"):
        hvp(cubic, C(2, 3))
    with pytest.raises(TypeError, match=r"jvp: v\[0\] is no tensor but list"):
        jvp(pair, C(2, 3), ([1, 2],))


def test_a_hessian_wants_one_element():  # R100
    with pytest.raises(ValueError, match=r"hessian: .* one element, not a tensor of shape \(2,\)"):
        hessian(pair, C(2, 3))
    with pytest.raises(TypeError, match="hvp: the function must return one tensor, not tuple"):
        hvp(lambda x: (x, x), C(1), C(1))


def test_inference_mode_is_refused_with_the_way_out():  # R100
    with lm.inference_mode(), pytest.raises(lm.errors.AutogradError, match="Leave that mode"):
        jacobian(pair, C(2, 3))


# -- names and examples ---------------------------------------------------------------------------


def test_each_is_also_a_name_of_the_package():  # R100
    for name in lm.transforms.__all__:
        assert getattr(lm, name) is getattr(lm.transforms, name)
        assert name in lm.__all__
        assert name in dir(lm)


def test_they_are_not_loaded_before_they_are_asked_for():
    code = "import sys, lucid_mini as lm; n = 'lucid_mini.transforms'; a = n in sys.modules; "
    code += "lm.jacobian; print(a, n in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


# -- PyTorch says the same ------------------------------------------------------------------------

BODIES = {
    "quotient": lambda k, x, y: x / (y * y + 1.5),
    "mixed": lambda k, x, y: (x.sin() * y.exp()).cumsum(0),
    "product": lambda k, x, y: x * x * y,
    "sums": lambda k, x, y: k.stack([(x * y).sum(), (x - y).tanh().sum()]),
    "softmax": lambda k, x, y: (x + y).softmax(-1),
}


def both(torch, rows):
    arrays = [np.array(row) for row in rows]
    return [lm.tensor(a) for a in arrays], [torch.tensor(a) for a in arrays]


def flat(nested):
    if isinstance(nested, tuple):
        return [item for part in nested for item in flat(part)]
    return [np.asarray(nested.detach().numpy())]


def same(ours, theirs):
    ours, theirs = flat(ours), flat(theirs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("body", BODIES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_all_five_agree_with_pytorch(body, data):  # R100
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")
    theirs = torch.autograd.functional
    n = data.draw(st.integers(2, 4))
    rows = [data.draw(st.lists(st.floats(-2, 2), min_size=n, max_size=n)) for _ in range(4)]
    (x, y, u, w), (tx, ty, tu, tw) = both(torch, rows)
    f = lambda x, y: BODIES[body](lm, x, y)  # noqa: E731
    tf = lambda x, y: BODIES[body](torch, x, y)  # noqa: E731
    same(jacobian(f, (x, y)), theirs.jacobian(tf, (tx, ty)))
    same(jvp(f, (x, y), (u, w)), theirs.jvp(tf, (tx, ty), (tu, tw)))
    v = np.arange(f(x, y).numel()) - 0.5
    same(vjp(f, (x, y), lm.tensor(v)), theirs.vjp(tf, (tx, ty), torch.tensor(v)))
    total = lambda x, y: (f(x, y) * f(x, y)).sum()  # noqa: E731
    ttotal = lambda x, y: (tf(x, y) * tf(x, y)).sum()  # noqa: E731
    same(hessian(total, (x, y)), theirs.hessian(ttotal, (tx, ty)))
    same(hvp(total, (x, y), (u, w)), theirs.hvp(ttotal, (tx, ty), (tu, tw)))


def test_shapes_and_nesting_are_those_of_pytorch(torch):  # R100
    theirs = torch.autograd.functional
    x, tx = lm.ones(2, 3), torch.ones(2, 3, dtype=torch.float64)
    for f in (lambda x: x.sum(0), lambda x: (x.sum(), x), lambda x: (x,)):
        same(jacobian(f, x), theirs.jacobian(f, tx))
        same(jacobian(f, (x,)), theirs.jacobian(f, (tx,)))
    same(hessian(lambda x: (x * x).sum(), (x,)), theirs.hessian(lambda x: (x * x).sum(), (tx,)))


def test_the_collector_finds_nothing_left_of_them(no_gc):  # R100
    gc.collect()
    jacobian(pair, C(2, 3)), hessian(cubic, C(2, 3)), jvp(pair, C(2, 3), C(1, 0))
    found = [o for o in _cyclic() if type(o) in (lm.Tensor, lm.autograd.Node)]
    assert found == []


def _cyclic():
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
