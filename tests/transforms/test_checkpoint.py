"""`checkpoint`: the same values and gradients, and nothing kept between forward and backward."""

import gc
import threading
import weakref
from collections import namedtuple

import numpy as np
import pytest
from functions import C, Exp, Split, Square, T, g
from hypothesis import given, settings
from hypothesis import strategies as st

import lucid_mini as lm
from lucid_mini import events
from lucid_mini.errors import CheckpointError
from lucid_mini.transforms import checkpoint, gradcheck, gradgradcheck

F = lm.autograd.Function


def wave(x):
    """Four ops, each with something to save."""
    return ((x * x).sin() * x.exp()).tanh()


def plain(fn, *args, **kwargs):
    """What checkpoint stands in for."""
    return fn(*args, **kwargs)


class Counted:
    """A function that counts its calls."""

    def __init__(self, fn):
        self.fn, self.calls = fn, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.fn(*args, **kwargs)


# -- values and gradients -------------------------------------------------------------------------


def test_value_and_gradient_are_those_of_the_function():  # R103
    x, y = T(0.5, -1, 2), T(0.5, -1, 2)
    a, b = checkpoint(wave, x), wave(y)
    assert a.tolist() == b.tolist()
    a.sum().backward(), b.sum().backward()
    assert g(x) == g(y)


def test_the_function_runs_once_in_forward_and_once_in_backward():  # R103
    fn, x = Counted(wave), T(1)
    y = checkpoint(fn, x)
    assert fn.calls == 1
    y.sum().backward()
    assert fn.calls == 2


def test_the_first_run_records_nothing_and_the_second_does():  # R103
    seen = []

    def fn(x):
        seen.append(lm.is_grad_enabled())
        return x * x

    checkpoint(fn, T(1)).sum().backward()
    assert seen == [False, True]
    assert lm.is_grad_enabled()


def test_one_node_stands_for_the_whole_function():  # R103
    x = T(1)
    node = checkpoint(wave, x).grad_fn
    assert node.name == "CheckpointBackward"
    assert [upstream for upstream, _ in node.next_functions if upstream] == [x._node]


def test_tuples_scalars_and_keywords_pass():  # R103
    def fn(pair, n, *, scale, names):
        a, (b,) = pair
        return a * b * n * scale["by"], names

    a, b, s = T(2), T(3), T(5)
    y, names = checkpoint(fn, (a, [b]), 7, scale={"by": s}, names=("x", None))
    assert (y.tolist(), names) == ([210], ("x", None))
    y.sum().backward()
    assert (g(a), g(b), g(s)) == ([105], [70], [42])


def test_outputs_keep_their_form():  # R103
    Pair = namedtuple("Pair", "first second")
    x = T(2)
    made = checkpoint(lambda x: {"a": Pair(x * 2, 3), "b": [x * x]}, x)
    assert isinstance(made["a"], Pair)
    assert made["a"].second == 3
    (made["a"].first + made["b"][0]).sum().backward()
    assert g(x) == [6]


def test_closed_over_parameters_get_their_gradients():  # R103
    w, x = T(3), C(2)
    y = checkpoint(lambda x: x * w, x)
    assert y.requires_grad
    y.sum().backward()
    assert g(w) == [2]


def test_parameters_of_an_object_get_their_gradients():  # R103
    class Layer:
        def __init__(self):
            self.weight, self.deep = T(3), {"bias": [T(1)]}

        def __call__(self, x):
            return x * self.weight + self.deep["bias"][0]

    layer, x = Layer(), T(2)
    checkpoint(layer, x).sum().backward()
    assert (g(x), g(layer.weight), g(layer.deep["bias"][0])) == ([3], [2], [1])


def test_a_closed_over_tensor_with_history_passes_its_gradient_on_once():  # R103
    w = T(3)
    h = w * 2
    checkpoint(lambda x: x * h * w, C(1)).sum().backward()  # 2 w²
    assert g(w) == [12]
    assert h.grad_fn.released


def test_an_argument_that_is_also_closed_over_gets_both_parts():  # R103
    x = T(3)
    checkpoint(lambda y: y * x, x).sum().backward()
    assert g(x) == [6]


def test_the_same_tensor_given_twice_gets_both_parts():  # R103
    x = T(3)
    checkpoint(lambda a, b: a * b, x, x).sum().backward()
    assert g(x) == [6]


def test_what_needs_no_gradient_gets_none():  # R103
    x, c = T(3), C(2)
    checkpoint(lambda a, b: a * b, x, c).sum().backward()
    assert c.grad is None


def test_an_unused_output_and_an_unused_input_are_no_trouble():  # R103
    x, unused = T(3), T(1)
    a, _ = checkpoint(lambda x, u: (x * x, x.exp()), x, unused)
    a.sum().backward()
    assert (g(x), unused.grad) == ([6], None)


def test_an_unused_output_is_not_differentiated():  # R103, R46
    x = T(0)
    a, _ = checkpoint(lambda x: (x * 2, x.sqrt()), x)
    a.sum().backward()  # through sqrt, 0 * inf would be nan
    assert g(x) == [2]


def test_an_output_that_is_the_input_is_a_new_tensor():  # R103, R20
    x = T(3)
    y, z = checkpoint(lambda x: (x, x * 2), x)
    assert y is not x
    (y + z).sum().backward()
    assert g(x) == [3]


def test_integer_outputs_have_no_gradient():  # R103, R23
    x = T(3, 1)
    values, places = checkpoint(lambda x: (x * 2, x.argmax()), x)
    assert (places.item(), places.requires_grad) == (0, False)
    values.sum().backward()
    assert g(x) == [2, 2]


def test_without_anything_to_differentiate_nothing_is_recorded():  # R103
    assert not checkpoint(wave, C(1)).requires_grad
    fn = Counted(wave)
    with lm.no_grad():
        assert not checkpoint(fn, T(1)).requires_grad
    assert fn.calls == 1
    assert checkpoint(lambda: 3) == 3


def test_several_outputs_and_functions_of_the_readers_own_work_inside():  # R103
    x = T(2)
    checkpoint(lambda x: sum(Split.apply(Exp.apply(Square.apply(x)))), x).sum().backward()
    assert np.allclose(g(x), [5 * 4 * np.exp(4)])


def test_grad_touches_no_grad_attribute():  # R103, R75
    w, x = T(3), T(2)
    made = lm.autograd.grad(checkpoint(lambda x: x * w, x).sum(), [x, w])
    assert [m.tolist() for m in made] == [[3], [2]]
    assert (x.grad, w.grad) == (None, None)


def test_hooks_of_a_closed_over_parameter_fire_once_on_the_complete_gradient():  # R103, R92
    w, seen = T(3), []
    w.register_hook(lambda grad: seen.append(grad.tolist()) or grad * 10)
    y = checkpoint(lambda x: x * w, C(2)) + w
    y.sum().backward()
    assert (seen, g(w)) == ([[3]], [30])


def test_a_second_backward_runs_the_function_a_third_time():  # R103, R61
    fn, x = Counted(lambda x: x * x), T(3)
    y = checkpoint(fn, x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert (fn.calls, g(x)) == (3, [12])


def test_a_backward_after_the_last_is_an_error():  # R103, R60
    y = checkpoint(wave, T(1))
    y.backward()
    with pytest.raises(lm.errors.GraphFreedError, match="checkpoint#"):
        y.backward()


# -- nested, and higher order ---------------------------------------------------------------------


def test_checkpoints_nest():  # R103
    w, x = T(3), T(2)

    def outer(x):
        return checkpoint(lambda y: y * y * w, x) * w

    checkpoint(outer, x).sum().backward()  # x² w²
    assert (g(x), g(w)) == ([36], [24])


def test_checkpoints_stand_in_a_chain():  # R103
    x, y = T(0.3), T(0.3)
    a, b = x, y
    for _ in range(5):
        a, b = checkpoint(wave, a), wave(b)
    a.sum().backward(), b.sum().backward()
    assert g(x) == g(y)


def test_first_and_second_derivatives_agree_with_differences():  # R103, R101
    w = T(0.7, 1.1)
    fn = lambda x, y: checkpoint(lambda a, b: (a * b).sin() * w, x, y)  # noqa: E731
    assert gradcheck(fn, (T(0.4, -1), T(2, 0.5)))
    assert gradgradcheck(fn, (T(0.4, -1), T(2, 0.5)))


def test_derivatives_of_every_order_reach_closed_over_tensors():  # R103
    def orders(run):
        x, w = T(0.4, -1), T(2, 0.5)
        h = w * w
        made = [run(lambda x: (x * x * h * w).sin(), x).sum()]
        for _ in range(3):
            first = lm.autograd.grad(made[-1], [x, w], create_graph=True)
            made.append(sum((part * part).sum() for part in first))
        return [m.item() for m in made]

    assert np.allclose(orders(checkpoint), orders(plain), rtol=1e-12)


def test_a_function_that_differentiates_inside_works():  # R103
    def slope(x):
        y = x.detach().requires_grad_()
        with lm.enable_grad():
            (grad,) = lm.autograd.grad((y * y * y).sum(), [y])
        return grad * x

    x = T(2)
    checkpoint(slope, x).sum().backward()
    assert g(x) == [12]


def test_a_leaf_that_the_function_makes_for_itself_is_no_input():  # R103
    def slope(x):
        y = x.detach().requires_grad_()
        with lm.enable_grad():
            (grad,) = lm.autograd.grad((y * y * y).sum(), [y], create_graph=True)
        return grad * x

    x = T(2)
    made = checkpoint(slope, x)
    assert [t is x for t in made.grad_fn.ctx.saved_tensors] == [True]
    made.sum().backward()
    assert g(x) == [12]


# -- memory ---------------------------------------------------------------------------------------


def test_no_intermediate_buffer_lives_between_forward_and_backward(no_gc):  # R103
    made = []

    def fn(x):
        a = (x * x).exp()
        b = a.tanh()
        made.extend(weakref.ref(t._data) for t in (a, b))
        return b.sin()

    x = T(1, 2)
    y = checkpoint(fn, x)
    assert [buffer() for buffer in made] == [None, None]
    y.sum().backward()
    assert [buffer() for buffer in made] == [None] * 4
    # Without the checkpoint both are kept.
    made.clear()
    y = fn(x)
    assert all(buffer() is not None for buffer in made)
    del y


def test_only_the_inputs_are_saved():  # R103
    x, w = T(1, 2), T(3, 4)
    y = checkpoint(lambda x: (x * w).exp().sin(), x)
    assert all(a is b for a, b in zip(y.grad_fn.ctx.saved_tensors, (x, w), strict=True))


def test_everything_dies_by_its_reference_count(no_gc):  # R103, R109
    x, w = T(1, 2), T(3, 4)
    box = [w]
    y = checkpoint(lambda x: (x * box[0]).exp().sin(), x)
    refs = [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.ctx)]
    y.sum().backward()
    del y
    assert [ref() for ref in refs] == [None] * 3
    refs = [weakref.ref(x), weakref.ref(w)]
    box.clear()
    del x, w
    assert [ref() for ref in refs] == [None] * 2


def test_backward_lets_go_of_the_function_and_its_inputs(no_gc):  # R103, R49
    h = T(1) * 2
    ref, y = weakref.ref(h), checkpoint(lambda x: x * 3, h)
    del h
    assert ref() is not None
    y.sum().backward()
    assert ref() is None


# -- random numbers -------------------------------------------------------------------------------


def dropout(x):
    return x * (lm.rand(*x.shape) > 0.5)


def test_the_second_run_draws_the_numbers_of_the_first():  # R103
    lm.manual_seed(1)
    x = lm.ones(50, requires_grad=True)
    y = checkpoint(dropout, x)
    lm.rand(7)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    assert 0 < y.sum().item() < 50


def test_the_second_run_leaves_the_generator_where_it_was():  # R103
    draws = []
    for run in (plain, checkpoint):
        lm.manual_seed(1)
        y = run(dropout, lm.ones(5, requires_grad=True))
        y.sum().backward()
        draws.append(lm.rand(3).tolist())
    assert draws[0] == draws[1]


def test_a_generator_nobody_has_seeded_is_replayed_too(monkeypatch):  # R103
    monkeypatch.setattr("lucid_mini.ops.create._generator", None)
    x = lm.ones(20, requires_grad=True)
    y = checkpoint(dropout, x)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


# -- a function that does something else ----------------------------------------------------------


def changing(*functions):
    """A function that is another one at each call."""
    rest = iter(functions)

    def changing(*args):
        return next(rest)(*args)

    return changing


def test_another_number_of_outputs_is_an_error():  # R103
    fn = changing(lambda x: (x, x * 2), lambda x: x * 2)
    a, b = checkpoint(fn, T(1))
    with pytest.raises(CheckpointError, match="changing gave 1 tensors when run again, and 2 at"):
        (a + b).sum().backward()


def test_another_shape_or_dtype_is_an_error():  # R103
    fn = changing(lambda x: x * 2, lambda x: x.sum())
    with pytest.raises(CheckpointError, match=r"output 0 of shape \(\) .* of shape \(2,\)"):
        checkpoint(fn, T(1, 2)).sum().backward()
    fn = changing(lambda x: x * 2, lambda x: x.to(np.float32))
    with pytest.raises(CheckpointError, match=r"float32 when run again, and .* float64 at first"):
        checkpoint(fn, T(1, 2)).sum().backward()


def test_other_values_are_an_error():  # R103
    fn = changing(lambda x: x * 2, lambda x: x * 3)
    with pytest.raises(CheckpointError, match="other values for output 0"):
        checkpoint(fn, T(1, 2)).sum().backward()


def test_numbers_from_another_generator_are_an_error_and_not_a_wrong_gradient():  # R103
    rng = np.random.default_rng(0)
    fn = lambda x: x * lm.tensor(rng.random(1000))  # noqa: E731
    with pytest.raises(CheckpointError, match=r"lm\.rand"):
        checkpoint(fn, lm.ones(1000, requires_grad=True)).sum().backward()


def test_another_closed_over_tensor_is_an_error():  # R103
    box = [T(2)]
    y = checkpoint(lambda x: x * box[0], T(1))
    box[0] = T(2)
    with pytest.raises(CheckpointError, match="used a tensor that requires grad"):
        y.sum().backward()


def test_nan_in_the_output_is_no_other_value():  # R103
    x = T(-1, 4)
    with np.errstate(invalid="ignore"):
        checkpoint(lambda x: x.sqrt(), x).sum().backward()
    assert g(x)[1] == 0.25


def test_an_input_changed_in_between_is_an_error():  # R103, R82
    x = T(1)
    h = x * 1
    y = checkpoint(lambda h: h * h, h)
    h.mul_(2)
    with pytest.raises(lm.errors.VersionMismatchError, match="checkpoint#"):
        y.sum().backward()


def test_a_closed_over_parameter_changed_in_between_is_an_error():  # R103, R82
    w = T(1)
    y = checkpoint(lambda x: x * w, T(1))
    with lm.no_grad():
        w.add_(1)
    with pytest.raises(lm.errors.VersionMismatchError, match="checkpoint#"):
        y.sum().backward()


def test_writing_an_input_that_requires_grad_is_an_error():  # R103
    with pytest.raises(CheckpointError, match="wrote in place into a tensor of shape"):
        checkpoint(lambda x: x.mul_(2), T(1) * 1)


def test_an_error_writes_no_gradient_and_leaves_the_engine_usable():  # R103, R80
    x, w = T(1, 2), T(3, 4)
    fn = changing(lambda x: x * w, lambda x: x * w * 2)
    with pytest.raises(CheckpointError):
        (checkpoint(fn, x) * x).sum().backward()
    assert (x.grad, w.grad) == (None, None)
    assert lm.is_grad_enabled()
    checkpoint(lambda x: x * w, x).sum().backward()
    assert (g(x), g(w)) == ([3, 4], [1, 2])


def test_what_the_function_raises_comes_through():  # R103, R25
    def fails(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        checkpoint(fails, T(1))
    assert lm.is_grad_enabled()
    y = checkpoint(changing(lambda x: x * 2, fails), T(1))
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()
    assert lm.is_grad_enabled()
    assert events.recorder is None


def test_a_result_in_place_of_a_function_is_a_type_error():  # R103
    x = T(1)
    with pytest.raises(TypeError, match=r"write checkpoint\(fn, x\), not checkpoint\(fn\(x\)\)"):
        checkpoint(wave(x))


# -- beside others --------------------------------------------------------------------------------


def test_a_trace_sees_what_happens_inside():  # R103, R105
    x = T(1, 2)
    with lm.lifetime.trace() as trace:
        checkpoint(wave, x).sum().backward()
    kinds = {event.node.partition("#")[0] for event in trace.events}
    assert {"checkpoint", "sin", "tanh"} <= kinds


def test_what_another_thread_uses_meanwhile_is_no_input():  # R103
    other, x = T(5), T(3)

    def fn(x):
        thread = threading.Thread(target=lambda: other * 2)
        thread.start()
        thread.join()
        return x * x

    y = checkpoint(fn, x)
    assert [t is x for t in y.grad_fn.ctx.saved_tensors] == [True]


def test_two_threads_do_not_disturb_each_other():  # R103
    w, wrong = T(2), []

    def work():
        for _ in range(100):
            x = T(3)
            got = lm.autograd.grad(checkpoint(lambda x: (x * w).exp() * w, x).sum(), [x, w])
            if not np.allclose([p.item() for p in got], [4 * np.exp(6), 7 * np.exp(6)]):
                wrong.append(got)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert events.recorder is None


# -- PyTorch says the same ------------------------------------------------------------------------

OPS = ["sin", "cos", "tanh", "sigmoid"]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(OPS), min_size=1, max_size=4),
    st.lists(st.floats(-2, 2), min_size=1, max_size=4),
    st.integers(1, 3),
)
def test_gradients_agree_with_pytorch(names, values, depth):  # R103
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")
    from torch.utils.checkpoint import checkpoint as theirs

    def through(run, make):
        x, w = make(values), make(values[::-1])

        def body(x):
            for name in names:
                x = getattr(x * w, name)()
            return x

        y = x
        for _ in range(depth):
            y = run(body, y)
        y.sum().backward()
        return [np.asarray(t.grad.tolist()) for t in (x, w)]

    ours = through(checkpoint, lambda v: lm.tensor(v, dtype=float, requires_grad=True))
    want = through(
        lambda f, x: theirs(f, x, use_reentrant=False),
        lambda v: torch.tensor(v, dtype=torch.float64, requires_grad=True),
    )
    for a, b in zip(ours, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    gc.collect(0)
