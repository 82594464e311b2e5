"""Every Function in `lucid_mini.ops` against differences, to second order, in every layout."""

import importlib
import inspect
import pkgutil
from typing import NamedTuple

import numpy as np
import pytest

import lucid_mini as lm
from lucid_mini import ops
from lucid_mini.ops import elementwise as e
from lucid_mini.ops import index as x
from lucid_mini.ops import inplace as i
from lucid_mini.ops import linalg as la
from lucid_mini.ops import reduce as r
from lucid_mini.ops import shape as s
from lucid_mini.ops import strided as st
from lucid_mini.transforms import gradcheck, gradgradcheck


def every_function():
    """The Function classes of the package, found where they are defined."""
    found = {}
    for info in pkgutil.iter_modules(ops.__path__):
        module = importlib.import_module(f"{ops.__name__}.{info.name}")
        for name, value in vars(module).items():
            is_function = inspect.isclass(value) and issubclass(value, lm.autograd.Function)
            if is_function and value.__module__ == module.__name__ and name[0] != "_":
                found[name] = value
    return found


# -- samples --------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """A call of one Function: `fn` takes the tensors that are checked, of the given shapes."""

    of: type
    what: str
    fn: object
    shapes: tuple
    values: object
    expand: bool


SAMPLES = []


def normal(rng, shape):
    """Numbers of either sign, none within 0.05 of 0 or of each other: no kinks, no ties."""
    count = int(np.prod(shape, dtype=int))
    steps = rng.permutation(count).astype(float) - count // 2
    return (steps * 0.2 + 0.13 + rng.uniform(0, 0.1, count)).reshape(shape)


def positive(rng, shape):
    return rng.uniform(0.5, 2.0, shape)


def sample(of, what, fn, *shapes, values=normal, expand=True):
    """`expand=False`: equal elements would be a tie."""
    SAMPLES.append(Sample(of, what, fn, shapes, values, expand))


for op, values in [
    (e.Neg, normal), (e.Abs, normal), (e.Exp, normal), (e.Log, positive), (e.Sqrt, positive),
    (e.Deviation, positive), (e.Sin, normal), (e.Cos, normal), (e.Tanh, normal),
    (e.Sigmoid, normal), (e.Relu, normal), (e.Clone, normal),
]:  # fmt: skip
    for shape in [(2, 3), (), (0,), (2, 0)]:
        sample(op, f"{shape}", op.apply, shape, values=values)

for op, values in [
    (e.Add, normal), (e.Sub, normal), (e.Mul, normal), (e.Div, positive), (e.Pow, positive),
    (e.Maximum, normal), (e.Minimum, normal),
]:  # fmt: skip
    tie = op in (e.Maximum, e.Minimum)
    for a, b in [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((3,), ()), ((), ()),
                 ((2, 0), (1, 1)), ((0,), (0,))]:  # fmt: skip
        # Not the same on both sides, so that a == b happens nowhere.
        fn = (lambda a, b, o=op: o.apply(a, b * 1.7 + 0.011)) if tie else op.apply
        sample(op, f"{a} {b}", fn, a, b, values=values)
    if not tie:
        sample(op, "with itself", lambda a, op=op: op.apply(a, a), (2, 2), values=values)
        sample(op, "number left", lambda a, op=op: op.apply(2.0, a), (3,), values=values)
        sample(op, "number right", lambda a, op=op: op.apply(a, 2.0), (3,), values=values)

for n in (0, 1, 2, 3, -1.5, 0.5):
    sample(e.PowNumber, f"n={n}", lambda a, n=n: e.PowNumber.apply(a, n), (2, 3), values=positive)
for n in (0, 1, 2, 3, -1):
    for shape in [(3,), (), (0, 2)]:
        sample(e.PowNumber, f"n={n} {shape}", lambda a, n=n: e.PowNumber.apply(a, n), shape)
for low, high in [(-0.5, 0.5), (None, 0.3), (-0.3, None)]:
    for shape in [(2, 3), (), (0,)]:
        sample(
            e.Clamp, f"{low} {high} {shape}",
            lambda a, lo=low, hi=high: e.Clamp.apply(a, lo, hi), shape,
        )  # fmt: skip
for a, b in [((2, 3), (2, 3)), ((2, 3), (3,)), ((), (2, 3)), ((2, 1), ())]:
    mask = lm.tensor(np.array([[True, False, True], [False, False, True]]))
    sample(e.Where, f"{a} {b}", lambda a, b, m=mask: e.Where.apply(m, a, b), a, b)
sample(e.Where, "()", lambda a, b: e.Where.apply(lm.tensor(True), a, b), (), ())
sample(e.Where, "(0,)", lambda a, b: e.Where.apply(lm.tensor(np.zeros(0, bool)), a, b), (0,), ())
sample(e.To, "there and back", lambda a: e.To.apply(e.To.apply(a, np.longdouble), float), (2, 3))
sample(e.To, "()", lambda a: e.To.apply(a, np.float64), ())
sample(e.To, "(0,)", lambda a: e.To.apply(a, np.float64), (0,))

INDICES = {
    "int": 1, "negative": -1, "slice": slice(0, 2), "step": (slice(None), slice(None, None, 2)),
    "reversed": (slice(None, None, -1),), "element": (1, 2), "none": (None, 0), "dots": (..., 1),
    "list": np.array([0, 0, 1]), "columns": (slice(None), np.array([2, 0, 0])),
    "pairs": (np.array([0, 1, 1]), np.array([2, 2, 2])),
    "mask": np.array([[True, False, True], [False, False, True]]),
    "rows by mask": np.array([True, False]), "nothing": np.zeros((2, 3), bool),
    "empty slice": slice(1, 1), "empty list": np.zeros(0, int), "all": (...,),
}  # fmt: skip
for what, index in INDICES.items():
    shape = np.zeros((2, 3))[index].shape
    sample(x.Index, what, lambda a, k=index: x.Index.apply(a, k), (2, 3))
    sample(x.PutBack, what, lambda a, k=index: x.PutBack.apply(a, k, (2, 3)), shape)
sample(x.Index, "()", lambda a: x.Index.apply(a, ()), ())
sample(x.Index, "() none", lambda a: x.Index.apply(a, None), ())
sample(x.PutBack, "()", lambda a: x.PutBack.apply(a, (), ()), ())

for a, b in [((2, 3), (3, 2)), ((2, 3), (3,)), ((3,), (3, 2)), ((3,), (3,)), ((2, 2, 3), (3, 2)),
             ((3,), (2, 3, 2)), ((2, 2, 3), (3,)), ((2, 1, 2, 3), (2, 3, 1)), ((0, 3), (3, 2)),
             ((2, 0), (0, 3)), ((0,), (0,)), ((0, 2, 3), (3, 2)), ((2, 3), (3, 0)),
             ((2, 3), (0, 3, 1)), ((0,), (0, 2)), ((2, 0), (0,))]:  # fmt: skip
    sample(la.Matmul, f"{a} {b}", la.Matmul.apply, a, b)

REDUCED = [
    ((2, 3), None), ((2, 3), 0), ((2, 3), -1), ((2, 3), (0, 1)), ((2, 2, 2), (0, 2)),
    ((2, 3), ()), ((), None), ((), 0), ((1,), 0),
]  # fmt: skip
EMPTY = [((0,), None), ((2, 0), 1), ((0, 3), 0), ((0, 3), 1)]
for keep in (False, True):
    for shape, dim in [*REDUCED, *EMPTY]:
        what = f"{shape} {dim} {keep}"
        for op in (r.Sum, r.Prod):
            sample(op, what, lambda a, o=op, d=dim, k=keep: o.apply(a, d, k), shape)
        sample(r.LogSumExp, what, lambda a, d=dim, k=keep: r.LogSumExp.apply(a, d, k), shape)
    for shape, dim in [*REDUCED, ((0, 3), 1)]:
        what = f"{shape} {dim} {keep}"
        for op in (r.Mean,):
            sample(op, what, lambda a, o=op, d=dim, k=keep: o.apply(a, d, k), shape)
        for least in (False, True):
            sample(
                r.Extreme, f"{what} {least}",
                lambda a, d=dim, k=keep, m=least: r.Extreme.apply(a, d, k, m), shape, expand=False,
            )  # fmt: skip
sample(
    r.Prod, "one zero", lambda a: r.Prod.apply(a, 1, False), (2, 3),
    values=lambda rng, shape: normal(rng, shape) * [[1, 0, 1], [1, 1, 1]], expand=False,
)  # fmt: skip
sample(
    r.Prod, "two zeros", lambda a: r.Prod.apply(a, 1, False), (2, 3),
    values=lambda rng, shape: normal(rng, shape) * [[1, 0, 0], [0, 0, 0]], expand=False,
)  # fmt: skip
for shape, dim in [((2, 3), 0), ((2, 3), -1), ((3,), 0), ((), 0), ((0,), 0), ((2, 0), 1),
                   ((0, 2), 1), ((2, 2, 2), 1)]:  # fmt: skip
    sample(r.Cumsum, f"{shape} {dim}", lambda a, d=dim: r.Cumsum.apply(a, d), shape)
    sample(r.Softmax, f"{shape} {dim}", lambda a, d=dim: r.Softmax.apply(a, d), shape)
    sample(r.LogSoftmax, f"{shape} {dim}", lambda a, d=dim: r.LogSoftmax.apply(a, d), shape)

for shape, dim, index in [
    ((2, 3), 1, [[0, 0], [2, 1]]), ((2, 3), 0, [[1, 0, 1]]), ((3,), 0, [2, 2, 0, 1]),
    ((), 0, 0), ((2, 3), 1, np.zeros((2, 0), int)), ((3,), 0, np.zeros(0, int)),
]:  # fmt: skip
    at = lm.tensor(np.array(index))
    sample(r.Choose, f"{shape} {dim}", lambda a, d=dim, k=at: r.Choose.apply(a, d, k), shape)
    sample(
        r.Spread, f"{shape} {dim}",
        lambda a, d=dim, k=at, n=shape: r.Spread.apply(a, d, k, n), at.shape,
    )  # fmt: skip
sample(r.CrossEntropy, "(2, 3)", lambda a: r.CrossEntropy.apply(a, lm.tensor([0, 2])), (2, 3))
sample(r.CrossEntropy, "(1, 1)", lambda a: r.CrossEntropy.apply(a, lm.tensor([0])), (1, 1))

for shape, to in [((2, 3), (3, 2)), ((2, 3), (6,)), ((2, 3), (-1, 1)), ((), (1, 1)), ((1,), ()),
                  ((0, 2), (2, 0)), ((2, 3), (2, 3))]:  # fmt: skip
    sample(s.Reshape, f"{shape} {to}", lambda a, n=to: s.Reshape.apply(a, n), shape)
for shape, axes in [((2, 3), (1, 0)), ((2, 1, 3), (2, 0, 1)), ((), ()), ((0, 2), (1, 0))]:
    sample(s.Permute, f"{shape} {axes}", lambda a, k=axes: s.Permute.apply(a, k), shape)
for shape, to in [((2, 1), (2, 3)), ((3,), (2, 3)), ((), (2, 2)), ((), ()), ((1,), (0,)),
                  ((1, 2), (2, 0, 2)), ((2, 3), (2, 3)), ((0, 1), (0, 2))]:  # fmt: skip
    sample(s.Expand, f"{shape} {to}", lambda a, n=to: s.Expand.apply(a, n), shape)
for shapes, dim in [(((2, 3), (1, 3)), 0), (((2, 1), (2, 2), (2, 0)), -1), (((0,), (2,)), 0)]:
    sample(s.Cat, f"{shapes} {dim}", lambda *t, d=dim: s.Cat.apply(d, *t), *shapes)
for shapes, dim in [
    (((2,), (2,)), 0),
    (((2, 3), (2, 3)), 0),
    (((2, 3), (2, 3)), 2),
    (((),) * 3, 0),
]:
    sample(s.Stack, f"{shapes} {dim}", lambda *t, d=dim: s.Stack.apply(d, *t), *shapes)
sample(s.Cat, "twice", lambda a: s.Cat.apply(0, a, a), (2,))
for shape, dim in [((2, 3), 0), ((2, 3), -1), ((2,), 0), ((2, 0), 0), ((1, 2), 0)]:
    sample(s.Unbind, f"{shape} {dim}", lambda a, d=dim: s.Unbind.apply(a, d), shape)
    sample(s.Unbind, f"{shape} {dim} one", lambda a, d=dim: s.Unbind.apply(a, d)[0], shape)
for shape, lengths, dim in [((3, 2), (1, 2), 0), ((2, 3), (2, 0, 1), -1), ((0,), (0,), 0)]:
    what = f"{shape} {lengths}"
    sample(s.Split, what, lambda a, n=lengths, d=dim: s.Split.apply(a, n, d), shape)
    sample(s.Split, f"{what} one", lambda a, n=lengths, d=dim: s.Split.apply(a, n, d)[0], shape)

for op, values in [(i.AddInPlace, normal), (i.SubInPlace, normal), (i.MulInPlace, normal),
                   (i.DivInPlace, positive), (i.Copy, normal)]:  # fmt: skip
    for a, b in [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), (2, 1)), ((), ()), ((0,), ())]:
        sample(op, f"{a} {b}", lambda a, b, o=op: o.apply(a * 1, b), a, b, values=values)
for op, values in [(i.ExpInPlace, normal)]:
    for shape in [(2, 3), (), (0,)]:
        sample(op, f"{shape}", lambda a, o=op: o.apply(a * 1), shape, values=values)
for shape in [(2, 3), (), (0,)]:
    for n in (0, 1, 2, -1.5):
        sample(
            i.PowInPlace, f"{shape} {n}", lambda a, n=n: i.PowInPlace.apply(a * 1, n), shape,
            values=positive,
        )  # fmt: skip
    sample(i.ClampInPlace, f"{shape}", lambda a: i.ClampInPlace.apply(a * 1, -0.5, 0.5), shape)
    sample(i.Fill, f"{shape}", lambda a: i.Fill.apply(a * 1, 3.0) + a, shape)
for what, index in INDICES.items():
    shape = np.zeros((2, 3))[index].shape
    if what not in ("list", "columns", "pairs"):  # who writes an element twice keeps one of the two
        sample(
            i.SetItem, what, lambda a, b, k=index: i.SetItem.apply(a * 1, b, k), (2, 3), shape,
        )  # fmt: skip
sample(i.SetItem, "broadcast", lambda a, b: i.SetItem.apply(a * 1, b, slice(0, 2)), (2, 3), (3,))
sample(i.SetItem, "number", lambda a, b: i.SetItem.apply(a * 1, b, (1, 2)), (2, 3), ())

WINDOWS = {
    "row": lambda a: a[0], "step": lambda a: a[:, ::2], "turned": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1], "element": lambda a: a[1, 2, ...], "all": lambda a: a,
    "nothing": lambda a: a[:, 1:1], "column": lambda a: a[:, 1:2],
}  # fmt: skip
for what, window in WINDOWS.items():
    base = np.zeros((2, 3))
    place = st.place_of(window(base), base)
    sample(st.AsStrided, what, lambda a, k=place: st.AsStrided.apply(a, k), (2, 3))
    sample(st.PutStrided, what, lambda a, k=place: st.PutStrided.apply(a, k), place.shape)
    sample(
        st.CopySlices, what, lambda a, b, k=place: st.CopySlices.apply(a, b, k), (2, 3),
        place.shape,
    )  # fmt: skip
base = np.zeros((1, 3))
place = st.place_of(np.broadcast_to(base, (2, 3)), base)
sample(st.AsStrided, "expanded", lambda a, k=place: st.AsStrided.apply(a, k), (1, 3))
sample(st.PutStrided, "expanded", lambda a, k=place: st.PutStrided.apply(a, k), (2, 3))

#: What has a rule only to raise in it.
REFUSING = {"StaleView"}
#: What has no derivative: comparisons, bits, positions.
DISCRETE = {
    **{name: lambda a, b, n=name: getattr(e, n).apply(a, b) for name in
       ("Eq", "Ne", "Lt", "Le", "Gt", "Ge")},
    **{name: lambda a, b, n=name: getattr(e, n).apply(a > 0, b > 0) for name in
       ("And", "Or", "Xor")},
    "Not": lambda a, b: e.Not.apply(a > 0),
    "ArgExtreme": lambda a, b: r.ArgExtreme.apply(a, 0, False, False),
}  # fmt: skip


# -- layouts --------------------------------------------------------------------------------------


def contiguous(array):
    return np.ascontiguousarray(array).reshape(array.shape)


def transposed(array):
    return np.asfortranarray(array)


def sliced(array):
    """Every other element of a wider array, NaN in between."""
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan)
    wide[..., ::2] = array
    return wide[..., ::2]


def backwards(array):
    return np.ascontiguousarray(array[::-1])[::-1]


def expanded(array):
    """The first row (or element) again and again, with stride 0."""
    return np.broadcast_to(array[:1], array.shape)


LAYOUTS = (contiguous, transposed, sliced, backwards, expanded)


def cases():
    """Each sample in each layout that its shapes can have."""
    for at in SAMPLES:
        for layout in LAYOUTS:
            ndim = max(map(len, at.shapes))
            if ndim < (2 if layout is transposed else layout is not contiguous):
                continue
            if layout is expanded and not at.expand:
                continue
            if layout is not contiguous and all(0 in shape for shape in at.shapes):
                continue  # no elements, no layout
            yield pytest.param(
                at, layout, id=f"{at.of.__name__}-{at.what}-{layout.__name__}".replace(" ", "_")
            )


def made(at, layout):
    """The tensors for a sample: leaves that lie in memory as `layout` says."""
    rng = np.random.default_rng(7)
    arrays = [at.values(rng, shape) for shape in at.shapes]
    return tuple(
        lm.from_numpy(layout(a) if a.ndim else np.asarray(a)).requires_grad_() for a in arrays
    )


@pytest.mark.parametrize(("at", "layout"), list(cases()))
def test_first_and_second_derivatives_agree_with_differences(at, layout):  # R69
    inputs = made(at, layout)
    assert gradcheck(at.fn, inputs)
    assert gradgradcheck(at.fn, inputs, atol=1e-4)


def test_every_function_has_a_sample():
    sampled = {at.of.__name__ for at in SAMPLES} | set(DISCRETE) | REFUSING
    missing = set(every_function()) - sampled
    assert not missing, f"give {sorted(missing)} a sample in this file"


def test_a_sample_calls_the_function_it_is_for():
    class Calls(lm.transforms.listen.Listener):
        def applied(self, node, function, args, outputs):
            seen.add(function)

    for at in SAMPLES:
        seen = set()
        with Calls():
            at.fn(*made(at, contiguous))
        assert at.of in seen, f"{at.of.__name__} {at.what}"


@pytest.mark.parametrize("name", sorted(DISCRETE))
def test_what_is_discrete_records_nothing(name):  # R23
    a, b = lm.tensor([1.0, -2.0], requires_grad=True), lm.tensor([1.0, 3.0], requires_grad=True)
    out = DISCRETE[name](a, b)
    assert out.dtype.kind in "bi"
    assert not out.requires_grad


def test_equal_elements_have_a_deviation_of_zero_and_a_gradient_of_zero():
    x = lm.tensor([[1.0, 1.0], [1.0, 3.0]], requires_grad=True)
    y = x.std(1)
    y.sum().backward()
    assert y.tolist() == pytest.approx([0, 2**0.5])
    assert x.grad.tolist()[0] == [0, 0]
    assert x.grad.tolist()[1] == pytest.approx([-(0.5**0.5), 0.5**0.5])


def test_unbinding_an_empty_dimension_gives_nothing():
    assert lm.zeros(0, 3).unbind() == ()
    with pytest.raises(IndexError):
        lm.tensor(1.0).unbind()


def test_flattening_a_vector_gives_the_vector_itself():
    x = lm.ones(3)
    assert x.flatten() is x


@pytest.mark.parametrize("index", [[0, 1], [[True, False]], [[0.0, 1.0]]])
def test_gather_wants_integers_in_as_many_dimensions(index):
    with pytest.raises((TypeError, ValueError), match="gather takes"):
        lm.ones(2, 2).gather(1, lm.tensor(index))
