"""The ctx: what it keeps, how it is read back, and when it lets go (rows R26 to R49)."""

import copy
import functools
import gc
import re
import warnings
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from functions import C, Exp, Mul, Split, Square, T, g

import lucid_mini as lm
from lucid_mini import events
from lucid_mini.autograd import AutogradContext, Function, FunctionCtx
from lucid_mini.errors import (
    CtxAttributeWarning,
    CtxUsageError,
    GraphFreedError,
    InferenceTensorError,
    LeafInPlaceError,
    LeakWarning,
    SavedTwiceWarning,
    VersionMismatchError,
)


def call(forward, *args, backward=None, name="Probe"):
    """Apply a Function of this forward to `args`; without a `backward` its rule gives nothing."""

    def nothing(ctx, *grads):
        return (None,) * len(ctx.needs_input_grad)

    body = {"forward": staticmethod(forward), "backward": staticmethod(backward or nothing)}
    return type(name, (Function,), body).apply(*args)


def in_forward(action):
    """Run `action(ctx, x)` inside the forward of a recorded call, and give back what it returns."""
    found = []

    def forward(ctx, x):
        found.append(action(ctx, x))
        return x * 1

    call(forward, T(1, 2))
    return found[0]


# -- made by hand ---------------------------------------------------------------------------------


def test_a_ctx_can_be_made_without_arguments():  # R26
    ctx = FunctionCtx()
    assert ctx.needs_input_grad == ()
    assert ctx.saved_tensors == ()
    assert len(ctx.saved_variables) == 0
    x = T(1)
    ctx.save_for_backward(x, n=3)
    assert ctx.saved_tensors == (x,)
    assert ctx.saved_variables.n == 3
    assert AutogradContext is FunctionCtx


def test_argument_names_and_flags_fill_needs_input_grad():  # R26
    ctx = FunctionCtx(argument_names=("a", "b"), argument_needs_grad=(True, False))
    assert ctx.needs_input_grad == (True, False)
    assert (ctx.needs_input_grad["a"], ctx.needs_input_grad.b) == (True, False)
    assert FunctionCtx((), (True,)).needs_input_grad == (True,)
    with pytest.raises(ValueError, match="2 argument names and 1 flags"):
        FunctionCtx(("a", "b"), (True,))


# -- needs_input_grad -----------------------------------------------------------------------------


def needs_of(forward, *args, **kwargs):
    found = []

    def keep(ctx, *args):
        found.append(ctx.needs_input_grad)

    body = {"forward": staticmethod(forward(keep)), "backward": staticmethod(keep)}
    type("Needs", (Function,), body).apply(*args, **kwargs)
    return found[0]


def two_arguments(keep):
    def forward(ctx, a, index=None):
        keep(ctx)
        return a * 1

    return forward


def test_needs_input_grad_is_read_by_position_and_by_name():  # R27
    needs = needs_of(two_arguments, T(1), C(1))
    assert (needs[0], needs[1], needs[-1]) == (True, False, False)
    assert (needs["a"], needs["index"], needs.a) == (True, False, True)
    assert needs[0:1] == (True,)
    assert "a=True, index=False" in repr(needs)


def test_needs_input_grad_equals_a_tuple_and_is_read_only():  # R27
    needs = needs_of(two_arguments, T(1), C(1))
    assert needs == (True, False)
    assert tuple(needs) == (True, False)
    assert needs in {(True, False)}
    a, index = needs
    assert (a, index) == (True, False)
    with pytest.raises(AttributeError, match="read-only"):
        needs.a = False
    with pytest.raises(TypeError):
        needs[0] = False
    with pytest.raises(AttributeError, match="reserved"):
        FunctionCtx().needs_input_grad = (True,)


def test_needs_input_grad_has_one_flag_per_parameter_also_for_those_left_at_default():  # R27
    assert needs_of(two_arguments, T(1)) == (True, False)
    assert needs_of(two_arguments, a=C(1), index=T(1)) == (False, True)
    assert needs_of(two_arguments, T(1), 7) == (True, False)

    def any_number(keep):
        def forward(ctx, first, *rest):
            keep(ctx)
            return first * 1

        return forward

    needs = needs_of(any_number, C(1), T(1), C(1))
    assert needs == (False, True, False)
    assert (needs["rest[0]"], needs["rest[1]"]) == (True, False)


def test_an_unknown_argument_name_is_answered_with_the_names_there_are():  # R27
    needs = needs_of(two_arguments, T(1))
    with pytest.raises(KeyError, match="no argument 'z'; forward has a, index"):
        needs["z"]
    with pytest.raises(AttributeError, match="no argument 'z'; forward has a, index"):
        _ = needs.z
    assert not hasattr(needs, "z")


def test_needs_input_grad_is_the_same_in_forward_in_backward_and_under_no_grad():  # R27
    seen = []

    class Watch(Function):
        @staticmethod
        def forward(ctx, a, b):
            seen.append(ctx.needs_input_grad)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.needs_input_grad)
            return grad, None

    Watch.apply(T(1), C(1)).sum().backward()
    with lm.no_grad():
        Watch.apply(T(1), C(1))
    assert seen == [(True, False)] * 3


# -- save_for_backward ----------------------------------------------------------------------------


def test_saved_tensors_is_a_tuple_in_the_order_of_the_save():  # R28
    def save(ctx, x):
        a, b = C(1), C(2)
        ctx.save_for_backward(b, x, a)
        return ctx.saved_tensors, (b, x, a)

    found, saved = in_forward(save)
    assert type(found) is tuple
    assert all(f is s for f, s in zip(found, saved, strict=True))


def test_saved_tensors_is_empty_when_nothing_was_saved():  # R28
    seen = []

    def backward(ctx, grad):
        seen.append((ctx.saved_tensors, len(ctx.saved_variables)))
        return grad

    y = call(lambda ctx, x: x * 1, T(1), backward=backward)
    assert y.grad_fn.ctx.saved_tensors == ()
    y.sum().backward()
    assert seen == [((), 0)]
    assert in_forward(lambda ctx, x: ctx.save_for_backward() or ctx.saved_tensors) == ()


def test_a_saved_tensor_is_held_strongly(no_gc):  # R28
    x = T(1)
    constant = C(5)
    y = Mul.apply(x, constant)
    alive = weakref.ref(constant)
    del constant
    assert alive() is not None
    y.sum().backward()
    assert g(x) == [5.0]


@pytest.mark.parametrize(
    ("again", "names"),
    [
        (lambda ctx, x: ctx.save_for_backward(x), [0]),
        (lambda ctx, x: ctx.save_for_backward(u=x), ["u"]),
    ],
    ids=["by position", "by name"],
)
def test_saving_twice_replaces_the_first_save_and_warns(again, names):  # R29
    x = T(2)

    def forward(ctx, x):
        ctx.save_for_backward(x, C(1), name=1)
        with pytest.warns(SavedTwiceWarning, match=r"Probe.*twice.*replaced.*one call") as caught:
            again(ctx, x)
        assert caught[0].filename == __file__
        assert len(ctx.saved_tensors) == 1
        assert list(ctx.saved_variables) == names
        return x * x

    y = call(forward, x, backward=lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad)
    y.sum().backward()
    assert g(x) == [4.0]


@pytest.mark.filterwarnings("ignore::lucid_mini.errors.SavedTwiceWarning")
def test_a_replaced_save_is_released_at_once(no_gc):  # R29
    alive = []

    def forward(ctx, x):
        first = C(1)
        ctx.save_for_backward(first, thing=SimpleNamespace(t=first))
        alive.append(weakref.ref(first))
        del first
        assert alive[0]() is not None
        ctx.save_for_backward(x)
        alive.append(alive[0]())
        return x * 1

    call(forward, T(1))
    assert alive[1] is None


@pytest.mark.filterwarnings("ignore::lucid_mini.errors.SavedTwiceWarning")
def test_replacing_a_save_is_an_event(monkeypatch):  # R29
    told = []

    class Recorder:
        def __getattr__(self, kind):
            return lambda *args: told.append((kind, args))

    def forward(ctx, x):
        ctx.save_for_backward(x)
        monkeypatch.setattr(events, "recorder", Recorder())
        ctx.save_for_backward(x)
        monkeypatch.setattr(events, "recorder", None)
        assert told == [("replaced", (ctx,))]
        return x * 1

    call(forward, T(1))


@pytest.mark.parametrize("value", [3, 2.5, "text", np.ones(2), [1], {"a": 1}, object()])
@pytest.mark.parametrize("recording", [True, False], ids=["recording", "no_grad"])
def test_only_tensors_and_none_are_saved_by_position(value, recording):  # R30
    def save(ctx, x):
        kind = type(value).__name__
        with pytest.raises(TypeError, match=rf"Probe.*argument 1 is an? {kind}.*keyword.*store"):
            ctx.save_for_backward(x, value)
        with pytest.raises(TypeError, match=rf"Probe.*argument 0 is an? {kind}"):
            ctx.save_for_backward(value, name=x)
        ctx.save_for_backward(x, None)
        return ctx.saved_tensors

    with lm.set_grad_enabled(recording):
        found = in_forward(save)
    assert found[1] is None


def test_a_bad_value_behind_a_tensor_that_was_written_is_found_too():  # R30
    written = C(1)
    written.add_(1)

    def save(ctx, x):
        with pytest.raises(TypeError, match="argument 1 is an int"):
            ctx.save_for_backward(written, 3)

    in_forward(save)


def test_what_r_torch_saves_by_position_goes_by_keyword_here():  # R30b
    def save(ctx, x):
        with pytest.raises(TypeError, match=r"save_for_backward\(name=value\)"):
            ctx.save_for_backward(x, 3)
        ctx.save_for_backward(x, factor=3)
        return ctx.saved_variables.factor

    assert in_forward(save) == 3


def test_named_saves_come_back_by_name():  # R31
    def save(ctx, x):
        double = 2 * x
        ctx.save_for_backward(var1=x, var2=double)
        saved = ctx.saved_variables
        assert saved.var1 is x
        assert saved["var2"] is double
        assert ctx.saved_tensors == (x, double)
        assert list(saved) == ["var1", "var2"]
        assert dict(**saved)["var1"] is x

    in_forward(save)


def test_positional_and_named_saves_keep_the_order_of_the_arguments():  # R31
    def save(ctx, x):
        a, b = C(1), C(2)
        ctx.save_for_backward(a, None, x, last=b, n=3, empty=None)
        found = ctx.saved_tensors
        assert [f is s for f, s in zip(found, (a, None, x, b), strict=True)] == [True] * 4
        saved = ctx.saved_variables
        assert list(saved) == [0, 1, 2, "last", "n", "empty"]
        assert saved[0] is a
        assert saved[1] is None
        assert saved.last is b
        assert (saved.n, saved.empty) == (3, None)

    in_forward(save)


@pytest.mark.parametrize(
    "name",
    ["saved_tensors", "save_for_backward", "store", "clone", "_x", "keys", "values", "items"],
)
def test_a_reserved_name_cannot_be_saved_under(name):  # R31
    def save(ctx, x):
        with pytest.raises(CtxUsageError, match=rf"Probe.*\({name}=.*reserved name"):
            ctx.save_for_backward(x, **{name: x})
        assert ctx.saved_tensors == ()

    in_forward(save)


def test_a_name_given_twice_is_refused_by_python_and_self_and_index_are_free():  # R31
    twice = {"a": 1}

    def save(ctx, x):
        with pytest.raises(TypeError, match="multiple values for keyword argument 'a'"):
            ctx.save_for_backward(a=x, **twice)
        ctx.save_for_backward(self=1, index=2, tensors=3, count=4)
        saved = ctx.saved_variables
        return saved.self, saved.index, saved.tensors, saved.count

    assert in_forward(save) == (1, 2, 3, 4)


def test_a_name_that_was_not_saved_is_answered_with_what_was():  # R31
    def save(ctx, x):
        ctx.save_for_backward(x, n=3)
        with pytest.raises(AttributeError, match="Probe saved no 'm'; it saved 0, n"):
            _ = ctx.saved_variables.m
        with pytest.raises(KeyError, match="Probe saved no 'm'"):
            ctx.saved_variables["m"]
        with pytest.raises(AttributeError, match="read-only"):
            ctx.saved_variables.n = 4
        assert "m" not in ctx.saved_variables
        assert ctx.saved_variables.get("m", 7) == 7

    in_forward(save)


def test_named_gradients_of_r_torch_in_full():  # R32
    def forward(ctx, var1, i):
        ctx.save_for_backward(var1=var1, i=i)
        return var1**i

    def backward(ctx, grad):
        v = ctx.saved_variables
        return {"var1": v.i * v.var1 ** (v.i - 1) * grad}

    x = T(2)
    y = call(forward, x, 3, backward=backward)
    y.sum().backward()
    assert (y.tolist(), g(x)) == ([8.0], [12.0])


def test_a_keyword_value_may_be_any_object_and_is_kept_by_identity():  # R32
    thing, array, shape = object(), np.ones(2), (2, 3)

    def forward(ctx, x):
        ctx.save_for_backward(x, thing=thing, array=array, shape=shape, nothing=None)
        return x * 1

    def backward(ctx, grad):
        saved = ctx.saved_variables
        assert saved.thing is thing
        assert saved.array is array
        assert saved.shape is shape
        assert saved.nothing is None
        assert len(ctx.saved_tensors) == 1
        array[0] = 9  # no version check
        assert ctx.saved_variables.array[0] == 9
        return grad

    call(forward, T(1), backward=backward).sum().backward()


def test_named_objects_are_released_with_the_tensors(no_gc):  # R32, R49
    class Thing:
        pass

    refs = []

    def forward(ctx, x):
        thing = Thing()
        refs.append(weakref.ref(thing))
        ctx.save_for_backward(x, thing=thing)
        return x * 1

    y = call(forward, T(1), backward=lambda ctx, grad: grad)
    total = y.sum()
    total.backward(retain_graph=True)
    assert refs[0]() is not None
    total.backward()
    assert y.grad_fn is not None
    assert refs[0]() is None


# -- tensors kept in other ways -------------------------------------------------------------------


class Held:
    """A callable with an attribute."""

    def __init__(self, value):
        self.value = value

    def __call__(self):
        return self.value


WAYS = {
    "list": (lambda t: [0, t], "[1]"),
    "tuple": (lambda t: (t,), "[0]"),
    "dict": (lambda t: {"k": t}, "['k']"),
    "nested": (lambda t: {"k": [(1, t)]}, "['k'][0][1]"),
    "set": (lambda t: {t}, " (an element)"),
    "partial": (lambda t: functools.partial(max, t), ".args[0]"),
    "partial keyword": (lambda t: functools.partial(max, key=t), ".keywords['key']"),
    "closure": (lambda t: lambda: t, " (closure cell 't')"),
    "default": (lambda t: lambda u=t: u, ".__defaults__[0]"),
    "keyword default": (lambda t: lambda *, u=t: u, ".__kwdefaults__['u']"),
    "bound method": (lambda t: Held(t).__call__, ".__self__.value"),
    "callable object": (Held, ".value"),
    "object array": (lambda t: np.array([t, None], dtype=object)[::1], ".flat[0]"),
}


def keep_in_bag(ctx, value):
    ctx.kept = value
    return "ctx.kept"


def keep_by_keyword(ctx, value):
    ctx.save_for_backward(kept=value)
    return "saved_variables.kept"


@pytest.mark.parametrize("keep", [keep_in_bag, keep_by_keyword])
@pytest.mark.parametrize(("way", "path"), WAYS.values(), ids=WAYS.keys())
def test_a_container_or_callable_with_a_tensor_made_here_warns_with_the_path(
    way, path, keep
):  # R33
    paths = []

    def forward(ctx, x):
        paths.append(keep(ctx, way(x * 2)) + path)
        return x * 1

    with pytest.warns(CtxAttributeWarning) as caught:
        call(forward, T(1))
    (text,) = [str(w.message) for w in caught]
    assert re.match(
        rf"Probe keeps a tensor of 8 bytes in {re.escape(paths[0])}: .*save_for_backward", text
    )
    assert caught[0].filename == __file__


@pytest.mark.parametrize("keep", [keep_in_bag, keep_by_keyword])
@pytest.mark.parametrize(("way", "path"), WAYS.values(), ids=WAYS.keys())
def test_constants_and_parameters_in_containers_and_callables_stay_silent(way, path, keep):  # R33
    constant, parameter = C(1), T(2)
    of_constant, of_parameter = way(constant), way(parameter)
    shared = [C(3)]
    del constant

    def forward(ctx, x):
        keep(ctx, [of_constant, of_parameter, shared, x])
        return x * 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(forward, T(1))
        call(forward, C(1))


@pytest.mark.parametrize("keep", [keep_in_bag, keep_by_keyword])
def test_a_tensor_with_history_in_a_container_warns_also_if_others_hold_it(keep):  # R33
    here = SimpleNamespace(z=T(1) * 2)

    def forward(ctx, x):
        keep(ctx, {"z": here.z})
        return x * 1

    with pytest.warns(CtxAttributeWarning, match=r"keeps a tensor of 8 bytes in .*kept\['z'\]"):
        call(forward, T(1))


@pytest.mark.parametrize("keep", [keep_in_bag, keep_by_keyword])
def test_an_output_in_a_container_warns_and_shows_the_cycle(keep):  # R33
    def forward(ctx, x):
        y = x * 1
        keep(ctx, [y])
        return y

    with pytest.warns(CtxAttributeWarning, match=r"(\S*kept\[0\]) -> output -> grad_fn -> ctx"):
        call(forward, T(1))


@pytest.mark.parametrize(
    "value",
    [3, 2.5, "text", None, (2, 3), ((1, 2), (3,)), slice(1), np.float64(2), np.ones(3), np.float32,
     np.dtype("f8"), [1, 2], {"a": 1}, max, Held(3), gc, Square],
)  # fmt: skip
def test_what_holds_no_tensor_stays_silent(value):  # R33
    def forward(ctx, x):
        ctx.value = value
        ctx.save_for_backward(x, value=value)
        return x * 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(forward, T(1))


# -- reading back ---------------------------------------------------------------------------------


def test_saved_tensors_can_be_read_in_forward():  # R34
    def save(ctx, x):
        y = x * 2
        ctx.save_for_backward(x, y)
        return ctx.saved_tensors[0] is x and ctx.saved_tensors[1] is y

    assert in_forward(save)


def test_reading_after_release_says_which_backward_released_it():  # R35
    x = T(3)
    y = Square.apply(x)
    loss = y.sum()
    loss.backward(retain_graph=True)
    y.grad_fn.ctx.saved_tensors  # noqa: B018 - still there
    loss.backward()
    for read in ("saved_tensors", "saved_variables"):
        with pytest.raises(
            GraphFreedError, match=r"square#1 .*backward 2, which released.*retain_graph=True"
        ):
            getattr(y.grad_fn.ctx, read)


def test_reading_after_release_where_nothing_had_been_saved_says_so():  # R35
    y, _ = Split.apply(T(1))
    y.sum().backward()
    with pytest.raises(
        GraphFreedError, match=r"split#1 .*nothing was ever saved.*backward 1 has released"
    ):
        y.grad_fn.ctx.saved_tensors  # noqa: B018


def test_reading_after_a_backward_that_failed_says_where_it_failed():  # R35
    def fail(ctx, grad):
        raise ValueError("no")

    x = T(1)
    h = call(lambda ctx, x: x * 1, x, backward=fail, name="Bad")
    y = Square.apply(h)
    with pytest.raises(ValueError, match="no"):
        y.sum().backward()
    with pytest.raises(GraphFreedError, match=r"square#2 .*backward that failed at bad#1"):
        y.grad_fn.ctx.saved_tensors  # noqa: B018


def test_a_ctx_without_a_live_graph_says_so(no_gc):  # R35, R48b
    kept = []

    def forward(ctx, x):
        kept.append(ctx)
        ctx.save_for_backward(x)
        ctx.note = "mine"
        return x * x

    y = call(forward, T(1))
    (ctx,) = kept
    assert ctx.saved_tensors[0] is not None
    del y
    for read in ("saved_tensors", "saved_variables"):
        with pytest.raises(GraphFreedError, match=r"Probe: this ctx belongs to no live graph"):
            getattr(ctx, read)
    assert ctx.note == "mine"
    with lm.no_grad():
        call(forward, T(1))
    with pytest.raises(
        GraphFreedError, match=r"Probe: this ctx belongs to no live graph.*recorded"
    ):
        kept[1].saved_tensors  # noqa: B018


def test_a_kept_ctx_of_a_released_node_answers_as_the_node_does_while_that_lives(no_gc):  # R48b
    kept = []

    def forward(ctx, x):
        kept.append(ctx)
        ctx.save_for_backward(x)
        return x * x

    y = call(forward, T(1))
    y.sum().backward()
    with pytest.raises(GraphFreedError, match=r"probe#1 .*backward 1"):
        kept[0].saved_tensors  # noqa: B018
    del y
    with pytest.raises(GraphFreedError, match="belongs to no live graph"):
        kept[0].saved_tensors  # noqa: B018


def test_a_saved_input_comes_back_as_the_identical_tensor():  # R40
    seen = []

    def forward(ctx, a, b, c):
        ctx.save_for_backward(a, b, c)
        return a * b * c

    def backward(ctx, grad):
        seen.extend(ctx.saved_tensors)
        return grad, None, grad

    a, b, c = T(1), C(2), T(3) * 1
    y = call(forward, a, b, c, backward=backward)
    assert [s is t for s, t in zip(y.grad_fn.ctx.saved_tensors, (a, b, c), strict=True)] == [
        True
    ] * 3
    y.sum().backward()
    assert [s is t for s, t in zip(seen, (a, b, c), strict=True)] == [True] * 3


def test_a_saved_constant_stays_identical_beside_an_output_on_its_memory():  # R40
    def forward(ctx, constant, x):
        ctx.save_for_backward(constant)
        return constant.view(2, 1), x * 1

    constant = C(1, 2)
    _, z = call(forward, constant, T(1), backward=lambda ctx, a, b: (None, b))
    assert z.grad_fn.ctx.saved_tensors[0] is constant


def test_a_tensor_changed_in_place_after_the_save_is_refused():  # R28
    z = T(1, 2) * 1
    y = Square.apply(z)
    z.add_(1)
    with pytest.raises(
        VersionMismatchError, match=r"square#2 saved tensor 0 at version 0.*add.*version 1"
    ):
        y.sum().backward()


def test_a_tensor_of_inference_mode_cannot_be_saved_outside_of_it():  # R28
    with lm.inference_mode():
        x = lm.ones(2).exp().log()  # inside, ops may save as they like
    with pytest.raises(InferenceTensorError, match=r"Mul cannot save.*inference_mode.*clone"):
        T(1, 2) * x


def test_inference_mode_leaves_a_tensor_from_outside_what_it_is():  # R28
    x = C(1, 2)
    with lm.inference_mode():
        x.add_(1)
        view = x.view(2, 1)
    assert (x._version, view._version) == (1, 1)
    w = T(1, 1)
    (w * x).sum().backward()
    assert g(w) == [2.0, 3.0]

    class Writes(Square):
        @staticmethod
        def forward(ctx, x):
            y = x * 1
            ctx.save_for_backward(x)
            y.add_(1)  # no write into x, though all that is made here shares one counter
            return ctx.saved_tensors[0] * y

    with lm.inference_mode():
        assert Writes.apply(lm.ones(2)).tolist() == [2.0, 2.0]


# -- at the right time ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("save_for_backward", C(1)),
        ("mark_dirty", C(1)),
        ("mark_non_differentiable", C(1)),
        ("set_materialize_grads", True),
    ],
)
def test_saving_and_marking_work_only_inside_forward(method, argument):  # R36
    kept = []

    def forward(ctx, x):
        kept.append(ctx)
        return x * 1

    def backward(ctx, grad):
        with pytest.raises(CtxUsageError, match=rf"probe#1: {method} works only inside forward"):
            getattr(ctx, method)(argument)
        return grad

    def refused(ctx):
        with pytest.raises(CtxUsageError, match=f"{method} works only inside forward"):
            getattr(ctx, method)(argument)

    y = call(forward, T(1), backward=backward)
    refused(y.grad_fn.ctx)
    y.sum().backward()
    refused(y.grad_fn.ctx)
    with lm.no_grad():
        call(forward, T(1))
        call(lambda ctx, x: (forward(ctx, x), x), T(1))
    refused(kept[1])
    refused(kept[2])

    def failing(ctx, x):
        kept.append(ctx)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        call(failing, T(1))
    refused(kept[3])


def test_saving_and_marking_work_in_setup_context():  # R36
    class Probe(Function):
        @staticmethod
        def forward(x):
            return x * 2, lm.tensor([1])

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable(output[1])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx, grad, none):
            assert none is None
            return 2 * grad

    x = T(1)
    y, _ = Probe.apply(x)
    y.sum().backward()
    assert g(x) == [2.0]


# -- the bag --------------------------------------------------------------------------------------


def test_store_load_and_attributes_are_one_bag():  # R37
    def use(ctx, x):
        ctx.store("a", 1)
        ctx.b = 2
        return ctx.a, ctx.load("b"), ctx.load("c"), ctx.load("c", 7), getattr(ctx, "c", 8)

    assert in_forward(use) == (1, 2, None, 7, 8)


def test_the_bag_goes_from_forward_to_backward():  # R37
    def forward(ctx, x):
        ctx.store("factor", 3)
        ctx.shape = x.shape
        return x * 3

    def backward(ctx, grad):
        assert ctx.shape == (1,)
        ctx.factor += 1
        return ctx.load("factor") * grad

    x = T(1)
    call(forward, x, backward=backward).sum().backward()
    assert g(x) == [4.0]


def test_a_missing_key_is_an_attribute_error_that_names_function_and_key():  # R37
    def forward(ctx, x):
        ctx.there = 1
        return ctx.missing

    with pytest.raises(
        AttributeError,
        match=r"Probe.*'missing'.*it holds there\. Set ctx\.missing in forward.*load",
    ) as error:
        call(forward, T(1))
    assert (error.value.name, type(error.value.obj)) == ("missing", FunctionCtx)

    y = call(lambda ctx, x: x * 1, T(1), backward=lambda ctx, grad: ctx.missing)
    with pytest.raises(AttributeError, match=r"probe#\d: .*'missing'.*it holds nothing"):
        y.sum().backward()


def test_a_missing_attribute_of_another_object_keeps_its_own_text():  # R37
    def forward(ctx, x):
        return x.nothing_like_this

    with pytest.raises(
        AttributeError, match="'Tensor' object has no attribute 'nothing_like_this'"
    ):
        call(forward, T(1))


def test_a_stored_none_is_a_value():  # R37
    def use(ctx, x):
        ctx.store("nothing", None)
        return ctx.nothing, ctx.load("nothing", 5), hasattr(ctx, "nothing"), hasattr(ctx, "other")

    assert in_forward(use) == (None, None, True, False)


def test_a_key_can_be_deleted_once():  # R37
    def use(ctx, x):
        ctx.k = 1
        del ctx.k
        assert not hasattr(ctx, "k")
        with pytest.raises(AttributeError, match=r"Probe.*'k'"):
            del ctx.k

    in_forward(use)


@pytest.mark.parametrize("key", [1, None, ("a",), 2.5, b"k"])
def test_a_key_is_a_string(key):  # R37
    def use(ctx, x):
        with pytest.raises(TypeError, match="Probe: store takes a string as key, not") as error:
            ctx.store(key, 1)
        assert "NoneType" not in str(error.value)
        with pytest.raises(TypeError, match="Probe: load takes a string as key, not"):
            ctx.load(key)

    in_forward(use)


RESERVED = [
    "save_for_backward", "saved_tensors", "saved_variables", "needs_input_grad", "mark_dirty",
    "mark_non_differentiable", "set_materialize_grads", "store", "load", "clone", "_saved", "_mine",
    "__class__", "__dict__",
]  # fmt: skip


@pytest.mark.parametrize("name", RESERVED)
def test_a_reserved_name_can_be_neither_assigned_nor_stored(name):  # R38
    def use(ctx, x):
        with pytest.raises(AttributeError, match=rf"Probe: '{name}' is a reserved name"):
            setattr(ctx, name, 1)
        with pytest.raises(AttributeError, match="reserved"):
            ctx.store(name, 1)
        assert ctx.load(name, 7) == 7

    in_forward(use)


def test_every_public_name_of_the_ctx_is_reserved():  # R38
    public = {name for name in dir(FunctionCtx) if not name.startswith("_")}
    assert public == {name for name in RESERVED if not name.startswith("_")}


class KeepsInput(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.x * grad


def test_a_tensor_in_the_bag_works_and_warns_once_per_class_and_key():  # R39
    class Two(KeepsInput):
        @staticmethod
        def forward(ctx, x):
            ctx.first = ctx.x = x
            return x * x

    x = T(3)
    with pytest.warns(CtxAttributeWarning) as caught:
        y = Two.apply(x)
    assert [re.search(r"in (\S+):", str(w.message)).group(1) for w in caught] == [
        "ctx.first",
        "ctx.x",
    ]
    for w in caught:
        assert re.match(
            r"Two keeps a tensor of 8 bytes in ctx\.\w+: it is not version-checked and not "
            r"released by backward\. Use ctx\.save_for_backward\.$",
            str(w.message),
        )
        assert w.filename == __file__
    y.sum().backward()
    assert g(x) == [6.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Two.apply(x)

    class Other(Two):
        pass

    with pytest.warns(CtxAttributeWarning, match="Other keeps"):
        Other.apply(x)


def test_strictness_is_pythons_own_and_holds_at_every_call():  # R39
    class Strict(KeepsInput):
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("error", LeakWarning)
        for _ in range(2):
            with pytest.raises(CtxAttributeWarning, match="Strict"):
                Strict.apply(T(1))
    assert lm.is_grad_enabled()


def test_a_tensor_put_into_the_bag_in_backward_warns_as_well():  # R39
    def backward(ctx, grad):
        ctx.grad = grad
        return grad

    y = call(lambda ctx, x: x * 1, T(1), backward=backward)
    with pytest.warns(CtxAttributeWarning, match=r"keeps a tensor of 8 bytes in ctx\.grad"):
        y.sum().backward()


@pytest.mark.filterwarnings("ignore::lucid_mini.errors.CtxAttributeWarning")
def test_a_tensor_in_the_bag_is_not_version_checked():  # R39
    class Unchecked(KeepsInput):
        pass

    x = T(3)
    z = x * 1
    y = Unchecked.apply(z)
    with lm.no_grad():
        z.add_(1)
    y.sum().backward()
    assert g(x) == [8.0]  # wrong, and that is what the warning is for


def test_an_output_in_the_bag_is_a_cycle_and_the_warning_shows_it(no_gc):  # R39, R41
    class KeepsOutput(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.y = x.exp()
            return ctx.y

        @staticmethod
        def backward(ctx, grad):
            return ctx.y * grad

    x = T(1)
    path = r"KeepsOutput keeps an output in ctx\.y: ctx\.y -> output -> grad_fn -> ctx is a cycle"
    with pytest.warns(CtxAttributeWarning, match=path):
        y = KeepsOutput.apply(x)
    ref = weakref.ref(y)
    del y
    assert ref() is not None
    gc.collect()
    assert ref() is None


def test_storing_what_may_hold_a_tensor_is_an_event(monkeypatch):  # R39
    told = []

    class Recorder:
        def __getattr__(self, kind):
            return lambda *args: told.append((kind, *args[1:]))

    def use(ctx, x):
        monkeypatch.setattr(events, "recorder", Recorder())
        ctx.n, ctx.shape = 3, (1, 2)
        ctx.things = [1]
        monkeypatch.setattr(events, "recorder", None)

    in_forward(use)
    assert told == [("stored", "things")]


# -- saved outputs --------------------------------------------------------------------------------


def view_of_output(ctx, x):
    y = x.exp()
    ctx.save_for_backward(y.view(1, -1))
    return y


def slice_of_output(ctx, x):
    y = x.exp()
    ctx.save_for_backward(x, y[:1])
    return y


def two_outputs(ctx, x):
    y = x.exp()
    ctx.save_for_backward(y)
    return y, y.view(1, -1), y.detach()


def view_that_is_the_output(ctx, x):
    y = x.exp().view(1, -1)
    ctx.save_for_backward(y)
    return y


def same_twice(ctx, x):
    y = x.exp()
    ctx.save_for_backward(y, y)
    return y, y


SAVE_OUTPUTS = [
    Exp.forward,
    view_of_output,
    slice_of_output,
    two_outputs,
    view_that_is_the_output,
    same_twice,
]


@pytest.mark.parametrize("forward", SAVE_OUTPUTS)
def test_saving_an_output_or_a_view_of_one_makes_no_cycle(no_gc, forward):  # R41
    y = call(forward, T(1, 2))
    outputs = y if type(y) is tuple else (y,)
    refs = [weakref.ref(t) for t in outputs] + [weakref.ref(outputs[0].grad_fn)]
    refs += [weakref.ref(outputs[0].grad_fn.ctx), weakref.ref(outputs[0]._data)]
    del y, outputs
    assert [ref() for ref in refs] == [None] * len(refs)


def test_saving_a_dirty_input_makes_no_cycle(no_gc):  # R41
    def forward(ctx, z, view):
        ctx.mark_dirty(z)
        z.mul_(2)
        ctx.save_for_backward(z, view)
        return z

    z = T(1, 2) * 1
    y = call(forward, z, z.view(-1))
    assert y is z
    refs = weakref.ref(z), weakref.ref(z.grad_fn)
    del y, z
    assert [ref() for ref in refs] == [None, None]


def returned_from_a_flat_view(ctx, x):
    flat = x.view(-1)
    ctx.save_for_backward(flat)
    return flat[:2]


def returned_from_the_array_itself(ctx, x):
    ctx.save_for_backward(x.detach())
    return lm.from_numpy(x.numpy().reshape(-1)[:2])


@pytest.mark.parametrize(
    "forward", [returned_from_a_flat_view, returned_from_the_array_itself], ids=lambda f: f.__name__
)
def test_what_is_saved_and_lies_under_the_output_is_an_alias_of_it(forward):  # R41, R106
    function = lm.autograd.autograd_function(forward, lambda ctx, grad: lm.zeros(2, 2))
    x = lm.ones(2, 2, requires_grad=True)
    y = function(x * 1)
    (slot,) = [slot for slot in lm.lifetime.saved(y) if slot.nbytes == 32]
    assert slot.role == "alias of output"
    assert y._base.shape == (2, 2)


def test_a_saved_output_comes_back_with_its_history():  # R41
    seen = []

    class Watch(Exp):
        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.saved_tensors[0])
            return Exp.backward(ctx, grad)

    x = T(1)
    y = Watch.apply(x)
    node = y.grad_fn
    y.sum().backward()
    assert seen[0] is not y
    assert np.shares_memory(seen[0].numpy(), y.numpy())
    assert (seen[0].grad_fn, seen[0].output_nr) == (node, 0)


def test_a_saved_output_without_gradient_comes_back_without_history():  # R41, R42
    def forward(ctx, x):
        order, plain, y = lm.tensor([0]), x * 2, x * 3
        ctx.mark_non_differentiable(plain)
        ctx.save_for_backward(order, plain, y)
        return order, plain, y

    y = call(forward, T(1))[2]
    assert [t.requires_grad for t in y.grad_fn.ctx.saved_tensors] == [False, False, True]
    assert y.grad_fn.ctx.saved_tensors[2].output_nr == 2


def test_second_derivatives_go_through_a_saved_output():  # R41
    x = T(1)
    y = Exp.apply(x)
    (first,) = lm.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = lm.autograd.grad(first.sum(), x)
    assert second.item() == pytest.approx(np.e)


def test_a_saved_output_is_version_checked():  # R41
    y = Exp.apply(T(1))
    y.detach().add_(1)
    with pytest.raises(VersionMismatchError, match=r"exp#1 saved tensor 0 at version 0.*version 1"):
        y.sum().backward()


# -- marks ----------------------------------------------------------------------------------------


def test_a_non_differentiable_output_has_no_history_and_backward_gets_zeros_for_it():  # R42
    got = []

    def forward(ctx, x):
        y, z = x * 2, x.sum()
        ctx.mark_non_differentiable(z)
        return y, z

    def backward(ctx, grad_y, grad_z):
        got.append((grad_z.shape, grad_z.tolist()))
        return 2 * grad_y

    x = T(1, 2)
    y, z = call(forward, x, backward=backward)
    assert (z.requires_grad, z.grad_fn, z.is_leaf) == (False, None, True)
    (y.sum() * 3).backward()
    assert got == [((), 0.0)]
    assert g(x) == [6.0, 6.0]


def test_a_non_differentiable_output_gets_none_where_grads_are_not_materialized():  # R42
    got = []

    def forward(ctx, x):
        y, z = x * 2, x * 3
        ctx.mark_non_differentiable(z)
        ctx.set_materialize_grads(False)
        return y, z

    def backward(ctx, grad_y, grad_z):
        got.append(grad_z)
        return 2 * grad_y

    y, _ = call(forward, T(1), backward=backward)
    y.sum().backward()
    assert got == [None]


def test_the_only_output_may_be_non_differentiable():  # R42
    def forward(ctx, x):
        y = x * 2
        ctx.mark_non_differentiable(y)
        return y

    assert not call(forward, T(1)).requires_grad


@pytest.mark.parametrize("x", [T(1), C(1)], ids=["recorded", "not recorded"])
def test_what_is_marked_non_differentiable_must_be_an_output(x):  # R42
    def forward(ctx, x):
        ctx.mark_non_differentiable(x * 3)
        return x * 2

    with pytest.raises(CtxUsageError, match=r"Probe: mark_non_differentiable .*not an output"):
        call(forward, x)
    with pytest.raises(CtxUsageError, match="argument 0 is None"):
        call(lambda ctx, x: ctx.mark_non_differentiable(None), x)


class DoubleInPlace(Function):
    @staticmethod
    def forward(ctx, z):
        ctx.mark_dirty(z)
        z.mul_(2)
        return z

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


def test_a_dirty_input_comes_back_as_the_same_tensor_with_a_new_history():  # R43
    x = T(5)
    z = x * 1
    before = z.grad_fn
    y = DoubleInPlace.apply(z)
    assert y is z
    assert (z.tolist(), z._version) == ([10.0], 1)
    assert z.grad_fn.name == "DoubleInPlaceBackward"
    assert z.grad_fn.next_functions == ((before, 0),)
    y.sum().backward()
    assert g(x) == [2.0]


def test_a_constant_that_is_dirty_gets_a_history():  # R43
    def forward(ctx, a, b):
        ctx.mark_dirty(a)
        a.add_(b)
        return a, b + 2

    def backward(ctx, grad_a, grad_b):
        return grad_a, grad_a + grad_b

    a, b = C(2), T(3)
    r0, r1 = call(forward, a, b, backward=backward)
    assert r0 is a
    assert (a.requires_grad, a.tolist(), r1.tolist()) == (True, [5.0], [5.0])
    r0.sum().backward()
    assert g(b) == [1.0]


def test_a_write_past_the_ops_is_counted_when_it_is_marked():  # R43
    class ThroughNumPy(DoubleInPlace):
        @staticmethod
        def forward(ctx, z):
            ctx.mark_dirty(z)
            z._data *= 2
            return z

    z = T(5) * 1
    y = Square.apply(z)
    ThroughNumPy.apply(z)
    assert (z.tolist(), z._version) == ([10.0], 1)
    with pytest.raises(VersionMismatchError, match="through_num_py"):
        y.sum().backward()
    with lm.no_grad():
        ThroughNumPy.apply(z)
    assert z._version == 2


def test_a_leaf_that_requires_grad_cannot_be_dirty_and_keeps_its_value():  # R44
    x = T(5)
    with pytest.raises(LeafInPlaceError, match=r"DoubleInPlace .*leaf.*no_grad.*clone"):
        DoubleInPlace.apply(x)
    assert (x.tolist(), x._version) == ([5.0], 0)
    view = x.view(1, 1)
    with pytest.raises(LeafInPlaceError, match=r"DoubleInPlace .*a view of a leaf"):
        DoubleInPlace.apply(view)
    with lm.no_grad():
        assert DoubleInPlace.apply(x) is x
    assert x.tolist() == [10.0]


@pytest.mark.parametrize("recording", [True, False], ids=["recording", "no_grad"])
def test_a_dirty_tensor_must_be_an_input_that_is_returned(recording):  # R44
    def not_returned(ctx, z):
        ctx.mark_dirty(z)
        z.mul_(2)
        return z * 1

    def no_input(ctx, z):
        y = z * 1
        ctx.mark_dirty(y)
        return y

    with lm.set_grad_enabled(recording):
        with pytest.raises(CtxUsageError, match=r"Probe: .*dirty must be returned"):
            call(not_returned, T(1) * 1)
        with pytest.raises(CtxUsageError, match=r"Probe: mark_dirty .*not an input"):
            call(no_input, T(1) * 1)
        with pytest.raises(CtxUsageError, match=r"Probe: mark_dirty .*argument 0 is an int"):
            call(lambda ctx, z: ctx.mark_dirty(3), T(1) * 1)


@pytest.mark.parametrize(
    "write",
    [
        lambda ctx, z: z.mul_(2),
        lambda ctx, z: z.view(-1).mul_(2),
        lambda ctx, z: z.detach().mul_(2),
        lambda ctx, z: z.__setitem__(0, 9),
    ],
)
def test_an_unmarked_write_into_an_input_that_requires_grad_is_refused(write):  # R45
    def forward(ctx, z):
        write(ctx, z)
        return z * 1

    with pytest.raises(
        CtxUsageError, match=r"Probe\.forward: argument 'z' was modified in place but not marked"
    ):
        call(forward, T(1) * 1)


@pytest.mark.parametrize("save", [lambda c: c, lambda c: c.view(-1), lambda c: c.detach()])
def test_an_unmarked_write_into_a_saved_input_is_refused(save):  # R45
    def forward(ctx, x, c):
        c.add_(1)
        ctx.save_for_backward(save(c))
        return x * c

    with pytest.raises(CtxUsageError, match="argument 'c' was modified in place but not marked"):
        call(forward, T(1), C(2))


def test_a_running_statistic_may_be_updated():  # R45
    def forward(ctx, x, mean):
        mean.mul_(0.9).add_(0.1 * x.mean())
        return x * 1

    mean = C(0)
    call(forward, T(1, 3), mean)
    assert mean.item() == pytest.approx(0.2)
    assert mean._version == 2


def materialized(flag):
    def forward(ctx, x):
        if flag is not None:
            ctx.set_materialize_grads(flag)
        return x * 2, x * 3

    return forward


@pytest.mark.parametrize(("flag", "got"), [(None, [0.0, 0.0]), (True, [0.0, 0.0]), (False, None)])
def test_missing_gradients_arrive_as_zeros_or_as_none(flag, got):  # R46
    seen = []

    def backward(ctx, grad_a, grad_b):
        seen.append(None if grad_b is None else grad_b.tolist())
        return 2 * grad_a

    a, _ = call(materialized(flag), T(1, 2), backward=backward)
    a.sum().backward()
    assert seen == [got]


@pytest.mark.parametrize("flag", [0, 1, "yes", None, np.bool_(True)])
def test_set_materialize_grads_takes_a_bool(flag):  # R46
    def use(ctx, x):
        with pytest.raises(
            TypeError, match="Probe: set_materialize_grads takes True or False, not"
        ):
            ctx.set_materialize_grads(flag)

    in_forward(use)


def test_a_mark_made_twice_replaces_the_first_and_warns():  # R47
    def forward(ctx, z):
        a, b = z * 1, z * 2
        ctx.mark_non_differentiable(a)
        with pytest.warns(SavedTwiceWarning, match="Probe called mark_non_differentiable twice"):
            ctx.mark_non_differentiable(b)
        ctx.mark_dirty()
        with pytest.warns(SavedTwiceWarning, match="Probe called mark_dirty twice") as caught:
            ctx.mark_dirty(z)
        assert caught[0].filename == __file__
        return a, b, z

    a, b, z = call(forward, T(1) * 1)
    assert [t.requires_grad for t in (a, b, z)] == [True, False, True]


# -- clone ----------------------------------------------------------------------------------------


def test_a_clone_shares_what_was_saved_and_is_independent():  # R48
    x, thing = T(1), [1]
    ctx = FunctionCtx(("x",), (True,))
    ctx.save_for_backward(x, thing=thing)
    ctx.k = thing
    twin = ctx.clone()
    assert twin.needs_input_grad == ctx.needs_input_grad
    assert twin.needs_input_grad.x
    assert twin.saved_tensors[0] is x
    assert twin.saved_variables.thing is thing
    assert twin.k is thing
    twin.k, twin.more = 2, 3
    with pytest.warns(SavedTwiceWarning):
        twin.save_for_backward(C(5), C(6))
    del twin.more
    assert ctx.k is thing
    assert not hasattr(ctx, "more")
    assert ctx.saved_tensors == (x,)
    ctx.only_here = 1
    assert not hasattr(twin, "only_here")


def test_a_deep_clone_copies_arrays_and_bag():  # R48
    x, thing = C(1, 2), {"a": [1]}
    ctx = FunctionCtx()
    ctx.save_for_backward(x, thing=thing)
    ctx.bag = [np.ones(2), x]
    twin = ctx.clone(deep=True)
    assert twin.saved_tensors[0] is not x
    x.add_(1)
    thing["a"].append(2)
    ctx.bag[0][0] = 9
    assert twin.saved_tensors[0].tolist() == [1.0, 2.0]
    assert twin.saved_variables.thing == {"a": [1]}
    assert twin.bag[0].tolist() == [1.0, 1.0]
    assert twin.bag[1].tolist() == [1.0, 2.0]
    with pytest.raises(VersionMismatchError):
        ctx.saved_tensors  # noqa: B018


def test_a_clone_inside_forward_takes_the_marks_along():  # R48
    def use(ctx, x):
        ctx.set_materialize_grads(False)
        twin = ctx.clone()
        twin.set_materialize_grads(True)
        return ctx._marks.materialize, twin._marks.materialize, repr(twin)

    assert in_forward(use) == (False, True, "<ctx of Probe: nothing saved>")


def test_a_clone_of_a_live_ctx_outlives_the_release():  # R48
    x = T(3)
    y = Square.apply(x)
    twin, deep = y.grad_fn.ctx.clone(), y.grad_fn.ctx.clone(deep=True)
    y.sum().backward()
    assert twin.saved_tensors[0] is x
    assert deep.saved_tensors[0].tolist() == [3.0]
    with pytest.raises(GraphFreedError):
        y.grad_fn.ctx.saved_tensors  # noqa: B018
    with pytest.raises(GraphFreedError, match=r"Square .*backward 1"):
        y.grad_fn.ctx.clone().saved_tensors  # noqa: B018


def test_no_node_owns_a_clone_and_a_clone_closes_no_cycle(no_gc):  # R48
    y = Exp.apply(T(1))
    twin = y.grad_fn.ctx.clone()
    assert y.grad_fn.ctx is not twin
    ref = weakref.ref(y)
    del y
    assert ref() is None
    assert twin.saved_tensors[0].item() == pytest.approx(np.e)
    node = weakref.ref(twin.saved_tensors[0].grad_fn)
    del twin
    assert node() is None


def test_copy_of_a_ctx_is_clone():  # R48
    ctx = FunctionCtx()
    ctx.save_for_backward(C(1))
    ctx.k = [1]
    assert copy.copy(ctx).k is ctx.k
    assert copy.deepcopy(ctx).k is not ctx.k
    assert copy.deepcopy(ctx).saved_tensors[0].tolist() == [1.0]


# -- lifetime -------------------------------------------------------------------------------------


def test_saved_tensors_live_until_the_node_is_released(no_gc):  # R49
    def forward(ctx, x):
        inside = x * 2
        refs.append(weakref.ref(inside._data))
        ctx.save_for_backward(inside)
        return x * 1

    refs = []
    y = call(forward, T(1), backward=lambda ctx, grad: grad)
    node, total = y.grad_fn, y.sum()
    assert refs[0]() is not None
    total.backward(retain_graph=True)
    assert refs[0]() is not None
    total.backward()
    assert refs[0]() is None
    assert node.released


@pytest.mark.filterwarnings("ignore::lucid_mini.errors.CtxAttributeWarning")
def test_what_lies_in_the_bag_lives_until_the_node_dies(no_gc):  # R49
    def forward(ctx, x):
        inside = x * 2
        refs.append(weakref.ref(inside._data))
        ctx.inside = inside
        return x * 1

    refs = []
    y = call(forward, T(1), backward=lambda ctx, grad: grad)
    y.sum().backward()
    assert y.grad_fn.released
    assert refs[0]() is not None
    del y
    assert refs[0]() is None


def test_the_repr_of_a_ctx_says_what_it_keeps():  # R49
    y = Square.apply(T(1))
    assert repr(y.grad_fn.ctx) == "<ctx of square#1: 1 saved>"
    y.sum().backward()
    assert repr(y.grad_fn.ctx) == "<ctx of square#1: released>"
    ctx = FunctionCtx()
    ctx.k = 1
    assert repr(ctx) == "<ctx of FunctionCtx: nothing saved, k>"
