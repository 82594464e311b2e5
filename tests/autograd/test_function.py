"""`Function.apply`: what goes in, what comes out, what is refused (rows R9 to R25)."""

import contextlib
import functools
import gc
import weakref
from collections import namedtuple

import numpy as np
import pytest
from functions import C, Exp, Mul, Split, Square, T, g

import lucid_mini as lm
from lucid_mini.autograd import Function, autograd_function

# -- one call -------------------------------------------------------------------------------------


def test_apply_computes_and_backward_runs_the_rule():  # R9
    x = T(3)
    y = Square.apply(x)
    y.sum().backward()
    assert y.tolist() == [9.0]
    assert g(x) == [6.0]
    assert y.grad_fn.name == "SquareBackward"


def test_each_apply_has_a_ctx_of_its_own_and_backward_gets_the_one_that_forward_had():  # R10
    seen = {"forward": [], "backward": []}

    class Watch(Function):
        @staticmethod
        def forward(ctx, x):
            seen["forward"].append(id(ctx))
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            seen["backward"].append(id(ctx))
            return grad

    a, b = Watch.apply(T(1)), Watch.apply(T(2))
    assert a.grad_fn.ctx is not b.grad_fn.ctx
    assert [id(a.grad_fn.ctx), id(b.grad_fn.ctx)] == seen["forward"]
    (a + b).sum().backward()
    assert seen["backward"] == seen["forward"][::-1]


def test_forward_runs_with_recording_off_and_the_mode_comes_back():  # R11
    modes = []

    class Watch(Function):
        @staticmethod
        def forward(ctx, x, fail):
            modes.append((lm.is_grad_enabled(), (x * 2).requires_grad))
            if fail:
                raise ValueError("no")
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    Watch.apply(T(1), False)
    assert lm.is_grad_enabled()
    with pytest.raises(ValueError, match="no"):
        Watch.apply(T(1), True)
    assert lm.is_grad_enabled()
    with lm.no_grad():
        Watch.apply(T(1), False)
        assert not lm.is_grad_enabled()
        with pytest.raises(ValueError, match="no"):
            Watch.apply(T(1), True)
        assert not lm.is_grad_enabled()
    assert modes == [(False, False)] * 4


def test_a_node_exists_only_where_recording_is_on_and_an_argument_requires_grad():  # R12
    assert Square.apply(T(3)).grad_fn is not None
    assert Square.apply(C(3)).grad_fn is None
    with lm.no_grad():
        y = Square.apply(T(3))
    assert (y.requires_grad, y.is_leaf, y.grad_fn) == (False, True, None)
    assert Mul.apply(C(2), T(3)).grad_fn is not None


def test_an_unrecorded_call_leaves_nothing_behind(no_gc):  # R12
    refs = []

    class Watch(Function):
        @staticmethod
        def forward(ctx, x):
            refs.append(weakref.ref(ctx))
            y = x * 1
            ctx.save_for_backward(x, y)
            ctx.note = "kept"
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = T(1)
    recorded = Watch.apply(x)
    with lm.no_grad():
        plain = Watch.apply(x)
    constant = Watch.apply(C(1))
    assert refs[0]() is recorded.grad_fn.ctx
    assert [refs[1](), refs[2]()] == [None, None]
    assert plain.tolist() == constant.tolist() == [1.0]


# -- arguments ------------------------------------------------------------------------------------


def test_arguments_that_are_no_tensors_pass_through_and_get_none():  # R13
    given = []

    class Clamp(Function):
        @staticmethod
        def forward(ctx, x, low, high):
            given.append((low, high))
            return x.clamp(low, high)

        @staticmethod
        def backward(ctx, grad):
            return grad, None, None

    x = T(1)
    Clamp.apply(x, 0, 2).sum().backward()
    assert given == [(0, 2)]
    assert g(x) == [1.0]


class Sums(Function):
    """a² + b³."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a**2 + b**3

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return 2 * a * grad, 3 * b**2 * grad


def test_keywords_bind_to_the_parameters_of_forward():  # R14
    x = T(3)
    Square.apply(x=x).sum().backward()
    assert g(x) == [6.0]
    a, b = T(3), T(4)
    y = Sums.apply(b=b, a=a)
    y.sum().backward()
    assert y.tolist() == [73.0]
    assert (g(a), g(b)) == ([6.0], [48.0])


def test_an_unknown_keyword_is_named():  # R14
    with pytest.raises(TypeError, match=r"Square\.apply.*'z'.*forward takes \(x\)"):
        Square.apply(T(1), z=1)
    with pytest.raises(TypeError, match=r"Square\.apply.*'x'"):
        Square.apply(T(1), x=T(2))
    with pytest.raises(TypeError, match=r"Sums\.apply.*'a'"):
        Sums.apply(b=T(1))


class Scale(Function):
    """x · scale + shift, both by keyword only."""

    @staticmethod
    def forward(ctx, x, *, scale, shift=0.0):
        ctx.save_for_backward(x, scale=scale)
        return x * scale + shift

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return {"x": grad * scale, "scale": grad * x, "shift": grad}


def test_keyword_only_parameters_are_arguments_too():  # R14
    x, scale, shift = T(2), T(5), T(7)
    y = Scale.apply(x, shift=shift, scale=scale)
    y.sum().backward()
    assert y.tolist() == [17.0]
    assert (g(x), g(scale), g(shift)) == ([5.0], [2.0], [1.0])
    assert y.grad_fn.name == "ScaleBackward"
    assert Scale.apply(x, scale=scale).tolist() == [10.0]
    with pytest.raises(TypeError, match="scale"):
        Scale.apply(x)


def test_a_forward_may_take_any_keywords():  # R14
    class Total(Function):
        @staticmethod
        def forward(ctx, *terms, **named):
            ctx.save_for_backward(needs=ctx.needs_input_grad)
            return sum((*terms, *named.values()))

        @staticmethod
        def backward(ctx, grad):
            needs = ctx.saved_variables.needs
            assert [needs["terms[0]"], needs["u"], needs["v"]] == [True, True, False]
            return grad, 10 * grad, None

    x, u, v = T(1), T(2), C(3)
    y = Total.apply(x, u=u, v=v)
    y.sum().backward()
    assert y.tolist() == [6.0]
    assert (g(x), g(u)) == ([1.0], [10.0])


def test_keywords_work_where_setup_context_saves():  # R14
    class Scaled(Function):
        @staticmethod
        def forward(x, *, scale):
            return x * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, scale = inputs
            ctx.save_for_backward(x, scale)

        @staticmethod
        def backward(ctx, grad):
            x, scale = ctx.saved_tensors
            return grad * scale, grad * x

    x, scale = T(2), T(5)
    Scaled.apply(x, scale=scale).sum().backward()
    assert (g(x), g(scale)) == ([5.0], [2.0])


def test_forward_with_star_args_gets_one_gradient_per_actual_argument():  # R14b
    class AddAll(Function):
        @staticmethod
        def forward(ctx, *args):
            ctx.save_for_backward(count=len(args))
            return sum(args)

        @staticmethod
        def backward(ctx, grad):
            return tuple((i + 1) * grad for i in range(ctx.saved_variables.count))

    xs = [T(1) for _ in range(4)]
    AddAll.apply(*xs).sum().backward()
    assert [g(x) for x in xs] == [[1.0], [2.0], [3.0], [4.0]]
    y = T(1)
    AddAll.apply(y).sum().backward()
    assert g(y) == [1.0]


class Linear(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        out = x @ weight.T
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            grad @ weight if needs.x else None,
            grad.T @ x if needs.weight else None,
            grad.sum(0) if needs.bias else None,
        )


def test_a_parameter_left_at_its_default_is_honoured():  # R15
    x, target = lm.ones(2, 2), lm.tensor([[2.0], [2.0]])
    weight = lm.tensor([[2.0, 3.0]], requires_grad=True)
    ((Linear.apply(x, weight) - target) ** 2).mean().backward()
    assert g(weight) == [[6.0, 6.0]]
    weight.grad, bias = None, T(0)
    ((Linear.apply(x, weight, bias) - target) ** 2).mean().backward()
    assert (g(weight), g(bias)) == ([[6.0, 6.0]], [6.0])
    weight.grad = bias.grad = None
    ((Linear.apply(weight=weight, bias=bias, x=x) - target) ** 2).mean().backward()
    assert (g(weight), g(bias)) == ([[6.0, 6.0]], [6.0])


def test_a_parameter_between_those_given_gets_its_default():  # R15
    given = []

    class Poly(Function):
        @staticmethod
        def forward(ctx, x, factor=3.0, offset=0.0, unused=None):
            given.append((factor, offset, ctx.needs_input_grad))
            ctx.save_for_backward(factor=factor)
            return x * factor + offset

        @staticmethod
        def backward(ctx, grad):
            return ctx.saved_variables.factor * grad, None, grad

    x, offset = T(1), T(5)
    y = Poly.apply(x, offset=offset)
    y.sum().backward()
    assert given == [(3.0, offset, (True, False, True, False))]
    assert (y.tolist(), g(x), g(offset)) == ([8.0], [3.0], [1.0])
    assert len(y.grad_fn.next_functions) == 3


@pytest.mark.parametrize(
    ("wrap", "kind", "path"),
    [
        (lambda x: [x], "a list", r"xs\[0\]"),
        (lambda x: (1, x), "a tuple", r"xs\[1\]"),
        (lambda x: {"k": x}, "a dict", r"xs\['k'\]"),
        (lambda x: {x}, "a set", "an element"),
        (lambda x: [[], {"k": (x,)}], "a list", r"xs\[1\]\['k'\]\[0\]"),
    ],
)
def test_a_container_that_hides_a_tensor_which_requires_grad_is_refused(wrap, kind, path):  # R16
    class Sum(Function):
        @staticmethod
        def forward(ctx, y, xs):
            return y * 1

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    with pytest.raises(TypeError, match=rf"Sum\.apply.*'xs' is {kind}.*{path}.*separate arguments"):
        Sum.apply(T(1), wrap(T(2)))
    Sum.apply(T(1), wrap(C(2)))  # a constant has no gradient to lose
    Sum.apply(T(1), lambda: wrap(T(2)))  # nor is a function a container


def test_a_container_that_holds_itself_is_no_endless_search():  # R16
    class Keep(Function):
        @staticmethod
        def forward(ctx, x, items):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    items = []
    items.append(items)
    Keep.apply(T(1), items)
    items.append(T(1))
    with pytest.raises(TypeError, match=r"items\[1\]"):
        Keep.apply(T(1), items)
    items.clear()


# -- outputs --------------------------------------------------------------------------------------


def returning(make):
    """A Function whose forward returns `make(x)` and whose rule adds up what it gets."""

    class Returning(Function):
        @staticmethod
        def forward(ctx, x):
            return make(x)

        @staticmethod
        def backward(ctx, *grads):
            Returning.got = grads
            return sum((2 + i) * grad for i, grad in enumerate(grads) if grad is not None)

    return Returning


def test_one_tensor_or_a_tuple_comes_back_as_such_and_a_list_as_a_tuple():  # R17
    x = T(1)
    assert type(returning(lambda x: x * 2).apply(x)) is lm.Tensor
    single = returning(lambda x: (x * 2,)).apply(x)
    assert type(single) is tuple
    assert len(single) == 1
    pair = returning(lambda x: [x * 2, x * 3]).apply(x)
    assert type(pair) is tuple
    sum(y.sum() for y in pair).backward()
    assert g(x) == [5.0]
    with lm.no_grad():
        assert type(returning(lambda x: [x * 2, x * 3]).apply(x)) is tuple


def test_a_namedtuple_counts_as_a_tuple():  # R17
    Pair = namedtuple("Pair", "a b")
    x = T(1)
    a, b = returning(lambda x: Pair(x * 2, x * 3)).apply(x)
    (a + b).sum().backward()
    assert g(x) == [5.0]


def test_a_dict_is_no_output():  # R17
    with pytest.raises(TypeError, match=r"Returning\.forward returned no tensor, but a dict"):
        returning(lambda x: {"y": x * 2}).apply(T(1))


def test_outputs_that_are_no_tensors_pass_through_and_backward_gets_none_for_them():  # R18
    F = returning(lambda x: (x * 2, "text", 7))
    x = T(1)
    y, text, seven = F.apply(x)
    assert (text, seven) == ("text", 7)
    y.sum().backward()
    assert F.got[1:] == (None, None)
    assert g(x) == [2.0]


def test_a_tensor_hidden_in_a_list_among_the_outputs_is_refused():  # R18
    with pytest.raises(TypeError, match=r"a list as output 1.*output\[1\]\[0\].*of its own"):
        returning(lambda x: (x * 2, [x * 3])).apply(T(1))
    _, indices = returning(lambda x: (x * 2, [lm.tensor([1, 2])])).apply(T(1))
    assert indices[0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("make", "given", "hint"),
    [
        (lambda x: None, "None", False),
        (lambda x: (), "a tuple", False),
        (lambda x: (None, "text"), "a tuple", False),
        (lambda x: x.numpy() * 2, "an ndarray", True),
        (lambda x: 3.0, "a float", True),
        (lambda x: x.numpy().sum(), "a float64", True),
        (lambda x: (x.numpy(), 3), "a tuple", True),
    ],
)
@pytest.mark.parametrize("x", [T(1), C(1)], ids=["recorded", "not recorded"])
def test_a_forward_without_a_tensor_among_its_outputs_is_refused(make, given, hint, x):  # R19
    with pytest.raises(
        TypeError, match=rf"Returning\.forward returned no tensor, but {given}"
    ) as e:
        returning(make).apply(x)
    assert ("lm.tensor(...)" in str(e.value)) == hint
    assert "NoneType" not in str(e.value)


def test_an_input_that_is_returned_comes_back_as_a_new_tensor_on_the_same_memory():  # R20
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return 7 * grad

    x = T(3)
    y = Identity.apply(x)
    assert y is not x
    assert np.shares_memory(y.numpy(), x.numpy())
    assert y._base is x
    assert (x.is_leaf, x.grad_fn, y.grad_fn.name) == (True, None, "IdentityBackward")
    y.sum().backward()
    assert g(x) == [7.0]
    constant = C(3)
    with lm.no_grad():
        assert Identity.apply(x) is not x
    assert Identity.apply(constant) is not constant
    z = x * 1
    assert Identity.apply(z).grad_fn.next_functions == ((z.grad_fn, 0),)


def test_the_same_tensor_returned_twice_has_two_gradient_slots():  # R21
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            y = 2 * x
            return y, y

        @staticmethod
        def backward(ctx, g1, g2):
            return 2 * g1 + 2 * g2

    x = T(1)
    a, b = Twice.apply(x)
    assert a is not b
    assert (a.output_nr, b.output_nr) == (0, 1)
    (a + b).sum().backward()
    assert g(x) == [4.0]
    x.grad = None
    a, b = Twice.apply(x)
    (a * 10 + b).sum().backward()
    assert g(x) == [22.0]


def test_the_same_tensor_passed_twice_gets_the_sum():  # R22
    x = T(3)
    Mul.apply(x, x).sum().backward()
    assert g(x) == [6.0]
    x.grad = None
    (x + x + x + x).sum().backward()
    assert g(x) == [4.0]


def test_integer_and_boolean_outputs_have_no_gradient():  # R23
    class Sort(Function):
        @staticmethod
        def forward(ctx, x):
            order = lm.tensor(np.argsort(x.numpy()))
            ctx.save_for_backward(order)
            return x[order], order, order > 0

        @staticmethod
        def backward(ctx, grad, *rest):
            (order,) = ctx.saved_tensors
            assert not order.requires_grad
            assert [r.shape for r in rest] == [(3,), (3,)]
            back = np.empty(3, int)
            back[order.numpy()] = np.arange(3)
            return grad[lm.tensor(back)]

    x = T(3, 1, 2)
    y, order, mask = Sort.apply(x)
    assert [t.requires_grad for t in (y, order, mask)] == [True, False, False]
    assert [t.grad_fn for t in (order, mask)] == [None, None]
    (y * C(1, 10, 100)).sum().backward()
    assert g(x) == [100.0, 1.0, 10.0]
    only = returning(lambda x: lm.tensor([1, 2])).apply(x)
    assert not only.requires_grad


# -- the class ------------------------------------------------------------------------------------


def test_a_function_without_backward_says_so_when_backward_runs():  # R24
    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            return x / 2

    y = Half.apply(T(4))
    assert y.tolist() == [2.0]
    with pytest.raises(NotImplementedError, match="Half has no backward"):
        y.sum().backward()

    class Quarter(Half):
        pass

    with pytest.raises(NotImplementedError, match="Quarter has no backward"):
        Quarter.apply(T(4)).sum().backward()

    class Empty(Function):
        pass

    with pytest.raises(NotImplementedError, match="Empty has no forward"):
        Empty.apply(T(4))


def test_the_base_class_cannot_be_applied():  # R24
    with pytest.raises(TypeError, match=r"Function\.apply works on a subclass"):
        Function.apply(T(1))


@pytest.mark.parametrize("cls", [Function, Square])
def test_a_function_is_not_instantiated(cls):  # R24
    with pytest.raises(TypeError, match=rf"{cls.__name__} .*{cls.__name__}\.apply"):
        cls()


@pytest.mark.parametrize("name", ["forward", "backward", "setup_context"])
@pytest.mark.parametrize("decorate", [lambda f: f, classmethod], ids=["method", "classmethod"])
def test_a_method_that_is_not_static_is_refused_where_the_class_is_defined(name, decorate):  # R24
    with pytest.raises(TypeError, match=rf"Wrong\.{name} must be a static method: .*@staticmethod"):
        type("Wrong", (Square,), {name: decorate(lambda ctx, *args: args)})


def test_forward_and_backward_may_be_inherited():  # R24
    class Cube(Square):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

    class Same(Square):
        pass

    x = T(3)
    y = Same.apply(x)
    assert (y.tolist(), y.grad_fn.name) == ([9.0], "SameBackward")
    y.sum().backward()
    assert g(x) == [6.0]
    assert Cube.apply(x).tolist() == [27.0]


def test_a_subclass_may_have_an_apply_of_its_own():  # R24
    class Doubled(Square):
        @classmethod
        def apply(cls, x):
            return super().apply(2 * x)

    class Tripled(Square):
        @staticmethod
        def apply(x):
            return Square.apply(3 * x)

    assert Doubled.apply(T(3)).tolist() == [36.0]
    assert Doubled.apply(T(3)).grad_fn.name == "DoubledBackward"
    assert Tripled.apply(T(3)).tolist() == [81.0]


def test_setup_context_may_do_the_saving():  # R24
    class Split3(Function):
        @staticmethod
        def forward(x, y=None):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = T(3)
    Split3.apply(x).sum().backward()
    assert g(x) == [6.0]


# -- errors of user code --------------------------------------------------------------------------


class Failing(Function):
    @staticmethod
    def forward(ctx, x, where):
        ctx.where = where
        if where == "forward":
            raise KeyError("mine")
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        raise KeyError("mine")


@pytest.mark.parametrize(
    ("where", "note"),
    [
        ("forward", r"Raised in Failing.forward, called with (x: float64 (1,), where: str)."),
        ("backward", "failing#1"),
    ],
)
def test_an_exception_of_user_code_keeps_type_and_text_and_gets_a_note(where, note):  # R25
    x = T(2)
    with pytest.raises(KeyError) as error:
        Failing.apply(x, where).sum().backward()
    assert error.value.args == ("mine",)
    assert any(note in text for text in error.value.__notes__)
    assert lm.is_grad_enabled()
    assert x.grad is None
    Square.apply(x).sum().backward()
    assert g(x) == [4.0]


def test_shapes_that_do_not_fit_are_told_with_the_op_and_its_arguments():  # R25
    with pytest.raises(ValueError, match="broadcast") as error:
        lm.ones(2) * lm.ones(3)
    assert error.value.__notes__ == [
        "Raised in Mul.forward, called with (a: float64 (2,), b: float64 (3,))."
    ]


def test_an_error_in_forward_leaves_no_graph_behind(no_gc):  # R25
    x = T(1)
    node_count = sum(isinstance(o, lm.autograd.Node) for o in gc.get_objects())
    with contextlib.suppress(KeyError):
        Failing.apply(x * 1, "forward")
    assert sum(isinstance(o, lm.autograd.Node) for o in gc.get_objects()) == node_count


# -- autograd_function ----------------------------------------------------------------------------


def test_autograd_function_makes_a_callable_of_two_functions():  # R24
    def forward(ctx, base, exponent):
        ctx.save_for_backward(base=base, exponent=exponent)
        return base**exponent

    def backward(ctx, grad):
        v = ctx.saved_variables
        return {"base": grad * v.exponent * v.base ** (v.exponent - 1)}

    power = autograd_function(forward, backward, name="Power")
    x = T(3)
    y = power(x, exponent=2)
    y.sum().backward()
    assert (y.grad_fn.name, power.__name__) == ("PowerBackward", "Power")
    assert g(x) == [6.0]


def test_autograd_function_takes_its_name_from_forward():  # R24
    def my_square(ctx, x):
        return x * x

    def rule(ctx, grad):
        return grad

    assert autograd_function(my_square, rule)(T(1)).grad_fn.name == "MySquareBackward"
    assert autograd_function(lambda ctx, x: x * 1, rule)(T(1)).grad_fn.name == "LambdaBackward"
    partial = functools.partial(lambda ctx, x, k: x * k, k=2)
    assert autograd_function(partial, rule)(T(1)).grad_fn.name == "PartialBackward"
    with pytest.raises(TypeError, match="backward must be callable, and None is not"):
        autograd_function(my_square, None)


# -- lifetime -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Square.apply, Exp.apply, Split.apply], ids=["in", "out", "two"])
def test_everything_of_a_call_dies_with_its_outputs(no_gc, make):  # R12
    x = T(1)
    out = make(x)
    first = out if type(out) is lm.Tensor else out[0]
    node, ctx = weakref.ref(first.grad_fn), weakref.ref(first.grad_fn.ctx)
    array = weakref.ref(first._data)
    del out, first
    assert (node(), ctx(), array()) == (None, None, None)
