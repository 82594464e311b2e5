"""gradcheck: compare rules with differences of values, and explain what is wrong.

    numeric     (f(x + eps) - f(x - eps)) / (2 eps), one element of the input at a time
    analytic    one backward pass for each element of the output

Both are matrices: a row for each element of the output, a column for each of the input.
`diagnose.py` tells from the matrices, and from a few more passes, what kind of mistake it is.
"""

import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from ..autograd.mode import enable_grad, no_grad
from ..autograd.passes import grad
from ..autograd.tensor import Tensor, wrap
from ..errors import AutogradError, GradcheckError
from ..ops.create import zeros_like
from . import diagnose
from .diagnose import Array, Numbers, Pair
from .guard import Guard


def gradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    nondet_tol: float = 0.0,
    raise_exception: bool = True,
) -> bool:
    """Check the gradients of `fn(*inputs)` by central differences: True, or an error that explains.

    `inputs`: a tensor or a tuple; those that require grad are checked, all others passed through as
    they are. `fn` returns a tensor or a tuple with tensors in it. Compared: |analytic - numeric| <=
    atol + rtol |numeric|. Then the rules run with other seeds (random, transposed, expanded,
    sliced), and what was made must die without the collector, which is off during the check.
    Wants float64: at float32 an `eps` of 1e-6 drowns in rounding.

    Cost: two calls of `fn` per element of the inputs, a backward pass per element of the outputs.
    Keeps: nothing; the inputs, their `.grad` and graphs are untouched.
    Raises: GradcheckError (with `raise_exception=False` it returns False instead); ValueError where
    no input requires grad; TypeError where `fn` returns no floating tensor; what `fn` raises.

    Example:
        >>> lm.gradcheck(lambda x, n: x.exp() * n, (lm.rand(3, requires_grad=True), 2))
        True
    """
    check = _Check("gradcheck", fn, inputs, eps, atol, rtol, nondet_tol)
    return _answer(check, raise_exception)


def gradgradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    nondet_tol: float = 0.0,
    raise_exception: bool = True,
) -> bool:
    """`gradcheck` of the gradients of `fn`: second derivatives, and those by the seeds.

    `grad_outputs`: one tensor for each floating output, of its shape; fixed random numbers by
    default.
    Cost, Keeps, Raises: as `gradcheck`.

    Example:
        >>> lm.gradgradcheck(lambda x: x.exp(), lm.rand(3, requires_grad=True))
        True
    """
    arguments = _tuple(inputs)
    wanted = _wanted("gradgradcheck", arguments)
    count = len(arguments)
    seeds = _given_seeds(fn, arguments, grad_outputs)

    def gradients(*args: Any) -> tuple[Any, ...]:
        given, vs = list(args[:count]), args[count:]
        with enable_grad():
            for index in wanted:
                if not given[index].requires_grad:
                    given[index] = given[index].detach().requires_grad_()
            outputs = _floating(fn, fn(*given))
            live = [(o, v) for o, v in zip(outputs, vs, strict=True) if o.requires_grad]
            xs = [given[index] for index in wanted]
            if not live:
                return tuple([zeros_like(x) for x in xs])
            roots, vectors = zip(*live, strict=True)
            return grad(roots, xs, vectors, create_graph=True, materialize_grads=True)

    gradients.__name__ = f"the gradient of {_name(fn)}"
    check = _Check("gradgradcheck", gradients, (*arguments, *seeds), eps, atol, rtol, nondet_tol)
    check.names = [*_names(fn, count), *[f"grad_outputs[{i}]" for i in range(len(seeds))]]
    return _answer(check, raise_exception)


def _answer(check: "_Check", raise_exception: bool) -> bool:
    try:
        with _without_collector():
            check.run()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


class _Check:
    """One check: the function, its arguments, and the tolerances."""

    def __init__(
        self,
        caller: str,
        fn: Callable[..., Any],
        inputs: Any,
        eps: float,
        atol: float,
        rtol: float,
        nondet_tol: float,
    ) -> None:
        self.caller = caller
        self.fn = fn
        self.args = _tuple(inputs)
        self.wanted = _wanted(caller, self.args)
        self.names: Sequence[str] = _names(fn, len(self.args))
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol

    def run(self) -> None:
        """Everything in turn. The first thing found wrong is raised."""
        values = self._values_twice()
        numbers = self._numeric(values)
        self._analytic(numbers)
        for pair in numbers:
            if not pair.close(self.atol, self.rtol).all():
                self._refuse(pair)
        self._try_seeds(values, numbers)
        self._look_for_survivors(values)

    # -- forward --------------------------------------------------------------------------------

    def _values_twice(self) -> list[Array]:
        """The outputs as arrays. Raises where a second call gives others or changes an argument."""
        with _unchanged(self):
            first = self._values(self._copies())
        again = self._values(self._copies())
        for index, (a, b) in enumerate(zip(first, again, strict=True)):
            if a.shape != b.shape or not _same(a, b, self.nondet_tol):
                self.fail(
                    f"not deterministic: output {index} differs between two calls with the same "
                    f"inputs{_by(a, b)}. Seed what it draws inside the function, or take it as an "
                    "argument."
                )
        return first

    def _copies(self) -> list[Array]:
        return [self.args[index].numpy().copy() for index in self.wanted]

    def _values(self, arrays: Sequence[Array]) -> list[Array]:
        """What `fn` gives for `arrays` in the place of the inputs that are checked."""
        args = list(self.args)
        for index, array in zip(self.wanted, arrays, strict=True):
            args[index] = wrap(array)
        before = [array.copy() for array in arrays]
        with no_grad():
            outputs = _floating(self.fn, self.fn(*args))
        for index, array, old in zip(self.wanted, arrays, before, strict=True):
            if not _same(array, old):
                self._say_changed(index, "forward")
        return [output.numpy().copy() for output in outputs]

    def _numeric(self, values: Sequence[Array]) -> list[Pair]:
        """A Pair for every output and input, the analytic side still empty."""
        pairs = []
        for position, index in enumerate(self.wanted):
            x = self.args[index].numpy()
            sides = [Numbers.empty(value.size, x.size) for value in values]
            for column in range(x.size):
                moved = []
                for sign in (1.0, -1.0):
                    arrays = self._copies()
                    arrays[position].reshape(-1)[column] += sign * self.eps
                    moved.append(self._values(arrays))
                for numbers, plus, value, minus in zip(
                    sides, moved[0], values, moved[1], strict=True
                ):
                    numbers.note(column, plus, value, minus, self.eps)
            pairs += [
                Pair(
                    number,
                    index,
                    position,
                    self.names[index],
                    value.shape,
                    x.shape,
                    x.dtype,
                    numbers,
                )
                for number, (value, numbers) in enumerate(zip(values, sides, strict=True))
            ]
        return pairs

    # -- backward -------------------------------------------------------------------------------

    def _analytic(self, pairs: Sequence[Pair]) -> None:
        """Fill in the analytic side, a row for each element of each output."""
        leaves, outputs = self._recorded()
        for number, output in enumerate(outputs):
            for row in range(output.numel()):
                seed = np.zeros(output.shape, output.dtype)
                seed.reshape(-1)[row] = 1.0
                grads = self._pulled(output, leaves, seed, retain=True)
                for pair in pairs:
                    if pair.output == number:
                        pair.analytic[row] = grads[pair.position].reshape(-1)

    def _recorded(self) -> tuple[list[Tensor], list[Tensor]]:
        """Leaves in the place of the inputs, and the outputs with their history.

        A leaf lies on the caller's memory, so that it has its strides, and cannot be written.
        """
        args, leaves = list(self.args), []
        for index in self.wanted:
            args[index] = wrap(self.args[index].numpy()).requires_grad_()
            leaves.append(args[index])
        with enable_grad(), _writes_explained(self, None):
            return leaves, list(_floating(self.fn, self.fn(*args)))

    def _pulled(
        self, output: Tensor, leaves: Sequence[Tensor], seed: Array, retain: bool = False
    ) -> list[Array]:
        """What arrives at the leaves when `seed` is sent into `output`. No rule can write it."""
        seed = np.asarray(seed).view()  # an array also where NumPy made a scalar of it
        seed.flags.writeable = False
        if not output.requires_grad:
            return [np.zeros(leaf.shape, leaf.dtype) for leaf in leaves]
        with Guard() as guard, _writes_explained(self, guard):
            found = grad([output], leaves, [wrap(seed)], retain, materialize_grads=True)
        return [g.numpy() for g in found]

    def pull(self, output: int, seed: Array) -> list[Array]:
        """One forward and one backward from output number `output`: what a diagnosis needs."""
        leaves, outputs = self._recorded()
        return self._pulled(outputs[output], leaves, seed)

    def _try_seeds(self, values: Sequence[Array], pairs: Sequence[Pair]) -> None:
        """Rules must be linear in the seed, whatever it is and however it lies in memory."""
        for number, value in enumerate(values):
            own = [pair for pair in pairs if pair.output == number]
            for seed in diagnose.seeds(value):
                wrong = None
                try:
                    found = self.pull(number, seed.array)
                except GradcheckError:
                    raise
                except Exception as error:
                    if seed.layout == "contiguous":
                        raise
                    self.fail(
                        diagnose.layout(seed, f"raises {type(error).__name__}: {error}"), error
                    )
                for pair, got in zip(own, found, strict=True):
                    want = seed.array.reshape(-1) @ pair.analytic
                    if not _near(got.reshape(-1), want, seed, pair, self.nondet_tol):
                        wrong = pair
                        break
                if wrong is None:
                    continue
                if seed.layout != "contiguous":
                    self.fail(
                        f"{wrong.place()}: " + diagnose.layout(seed, "gives another gradient")
                    )
                self._check_repeats(number, seed)
                self.fail(f"{wrong.place()}: {diagnose.seed_use(self.pull, wrong)}")
            self._check_repeats(number, diagnose.seeds(value)[0])

    def _check_repeats(self, number: int, seed: diagnose.Seed) -> None:
        first, again = self.pull(number, seed.array), self.pull(number, seed.array)
        for index, a, b in zip(self.wanted, first, again, strict=True):
            if not _same(a, b, self.nondet_tol):
                self.fail(
                    f"not deterministic: the gradient of {self.called(index)} differs between two "
                    f"backward passes with the same seed{_by(a, b)}."
                )

    # -- what went wrong ------------------------------------------------------------------------

    def _refuse(self, pair: Pair) -> NoReturn:
        """Raise for a pair of matrices that differ, with the worst element and the explanation."""
        self._check_repeats(pair.output, diagnose.seeds_of(pair)[0])
        why = diagnose.mismatch(self.pull, pair, self.atol, self.rtol)
        row, column = diagnose.worst(pair, self.atol, self.rtol)
        self.fail(
            f"{pair.place(row, column)}: analytic {pair.analytic[row, column]:.6g}, "
            f"numeric {pair.numbers.central[row, column]:.6g}. {why}"
        )

    def called(self, index: int) -> str:
        """`input 1 'b'`."""
        return f"input {index} '{self.names[index]}'" if self.names[index] else f"input {index}"

    def _say_changed(self, index: int, where: str) -> NoReturn:
        self.fail(
            f"{where} changed {self.called(index)}, an argument. Others read it too; write into a "
            "copy (`x.clone()`), or return the new value."
        )

    def fail(self, text: str, cause: BaseException | None = None) -> NoReturn:
        """Raise GradcheckError: who checked what, and `text`."""
        raise GradcheckError(f"{self.caller} of {_name(self.fn)}: {text}") from cause

    def _look_for_survivors(self, values: Sequence[Array]) -> None:
        """Raise if something of a forward and a backward lives on when all have let go of it."""
        guard = Guard()
        self._once(guard, values)
        alive = guard.alive()
        if not alive:
            return
        what, item = alive[0]
        holder = diagnose.holder(alive)
        del item, alive
        gc.collect()
        cycle = not guard.alive()
        reason = (
            "a cycle holds it, which only the collector frees"
            if cycle
            else "something outside holds it; lm.lifetime.why_alive names the holder"
        )
        self.fail(f"still alive afterwards: {what}; {reason}.{holder}")

    def _once(self, guard: Guard, values: Sequence[Array]) -> None:
        with guard:
            leaves, outputs = self._recorded()
            for index, leaf in zip(self.wanted, leaves, strict=True):
                guard.note(f"the argument given as {self.called(index)}", leaf)
            roots = [o for o in outputs if o.requires_grad]
            if roots:
                grad(roots, leaves, [zeros_like(o) + 1.0 for o in roots], allow_unused=True)


# -- around a call --------------------------------------------------------------------------------


@contextmanager
def _without_collector() -> Iterator[None]:
    """The collector off, so that only reference counts free; afterwards as it was."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def _unchanged(check: _Check) -> Iterator[None]:
    """Raise if the block changes an argument that is passed through; it gets its value back."""
    passed: list[tuple[int, Any]] = [
        (index, value._data if type(value) is Tensor else value)
        for index, value in enumerate(check.args)
        if index not in check.wanted and isinstance(value, Tensor | np.ndarray)
    ]
    before = [array.copy() for _, array in passed]
    yield
    for (index, array), old in zip(passed, before, strict=True):
        if not _same(array, old):
            array[...] = old
            check._say_changed(index, "forward")


@contextmanager
def _writes_explained(check: _Check, guard: Guard | None) -> Iterator[None]:
    """Turn a write into what is read-only here into a GradcheckError that names the rule."""
    try:
        yield
    except (ValueError, AutogradError) as error:
        text = str(error)
        if "read-only" not in text and "would write into" not in text:
            raise
        where = f"{guard.rule}.backward" if guard is not None and guard.rule else "forward"
        what = "a gradient or a saved value" if guard is not None else "an argument"
        check.fail(
            f"{where} changed {what} that it was given; others read it too. Write into a copy.",
            error,
        )


# -- reading arguments ----------------------------------------------------------------------------


def _tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _wanted(caller: str, args: Sequence[Any]) -> list[int]:
    """Which arguments are checked.

    Raises: ValueError where there is none.
    """
    wanted = [i for i, value in enumerate(args) if type(value) is Tensor and value.requires_grad]
    if not wanted:
        raise ValueError(
            f"{caller}: no input requires grad, so there is nothing to check. Make the inputs with "
            f"requires_grad=True."
        )
    return wanted


def _floating(fn: Any, result: Any) -> tuple[Tensor, ...]:
    """The floating tensors among the outputs.

    Raises: TypeError where there is none.
    """
    found = [o for o in _tuple(result) if type(o) is Tensor and o.dtype.kind == "f"]
    if not found:
        raise TypeError(
            f"gradcheck: {_name(fn)} returned no floating tensor, but {type(result).__name__}"
        )
    return tuple(found)


def _given_seeds(fn: Any, args: tuple[Any, ...], grad_outputs: Any) -> list[Tensor]:
    """A seed that requires grad for each floating output: those given, or random ones.

    Raises: ValueError for another number of them.
    """
    with no_grad():
        outputs = _floating(fn, fn(*[a.clone() if type(a) is Tensor else a for a in args]))
    if grad_outputs is None:
        return [wrap(diagnose.random(o.shape, o.dtype)).requires_grad_() for o in outputs]
    given = _tuple(grad_outputs)
    if [g.shape for g in given] != [o.shape for o in outputs]:
        raise ValueError(
            f"gradgradcheck: grad_outputs have the shapes {[g.shape for g in given]}, and the "
            f"outputs {[o.shape for o in outputs]}; give one for each floating output"
        )
    return [g.detach().requires_grad_() for g in given]


def _names(fn: Any, count: int) -> list[str]:
    """What `fn` calls its arguments, as far as it has names for them."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (names + [""] * count)[:count]


def _name(fn: Any) -> str:
    name = str(getattr(fn, "__qualname__", type(fn).__name__))
    if getattr(fn, "__name__", "").startswith("the gradient of"):
        name = fn.__name__
    return name.rpartition("<locals>.")[2].removesuffix(".apply")


def _same(a: Array, b: Array, tolerance: float = 0.0) -> bool:
    """Whether the arrays are equal, NaN to NaN."""
    if tolerance:
        return bool(np.allclose(a, b, rtol=0, atol=tolerance, equal_nan=True))
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _by(a: Array, b: Array) -> str:
    return f", by up to {np.max(np.abs(a - b)):.3g}" if a.shape == b.shape and a.size else ""


def _near(got: Array, want: Array, seed: diagnose.Seed, pair: Pair, nondet_tol: float) -> bool:
    """Whether a pass with `seed` gave what its matrix says, but for rounding."""
    size = np.abs(seed.array.reshape(-1)) @ np.abs(pair.analytic)
    slack = 1e4 * float(np.finfo(pair.dtype).eps) * (size + 1.0)
    slack = slack + nondet_tol * (1.0 + np.abs(seed.array).sum())
    return bool(np.all(np.abs(got - want) <= slack)) or not bool(np.isfinite(want).all())
