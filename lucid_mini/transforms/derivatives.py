"""Whole derivatives of functions of tensors: `jacobian`, `hessian`, `vjp`, `jvp`, `hvp`.

All are exact: they run the rules, never finite differences. Each gives the function stand-ins for
the caller's tensors, so that no `.grad`, no `requires_grad` and no graph of the caller is touched.

    J[i, j] = d output[i] / d input[j]      vjp: v @ J      jvp: J @ v      hvp: H @ v

The signatures are those of `torch.autograd.functional`.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.mode import enable_grad, is_grad_enabled
from ..autograd.passes import grad
from ..autograd.tensor import Tensor, wrap
from ..errors import AutogradError, SecondDerivativeWarning, UnusedInputError
from ..ops.create import zeros, zeros_like
from ..ops.shape import stack

Tensors = Tensor | tuple[Tensor, ...]


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """The derivative of every element of `func(*inputs)` with respect to every element of `inputs`.

    Shape: (*output, *input), for one output and one input. A tuple of inputs gives a tuple; a tuple
    of outputs a tuple of those.   Cost: one backward pass per output element.
    Keeps: nothing; with `create_graph` the graph of the result, which reaches back to `inputs`.
    Raises: TypeError for what is no (floating) tensor; with `strict` UnusedInputError where an
    output does not depend on an input (otherwise: zeros).

    Example:
        >>> lm.jacobian(lambda x: x * x, lm.tensor([2.0, 3.0]))
        tensor([[4., 0.],
                [0., 6.]])
    """
    with enable_grad():
        xs, outputs, results = _run("jacobian", func, inputs, create_graph)
        rows = [
            _jacobian_of(output, xs, create_graph, f"jacobian: output {number}", strict)
            for number, output in enumerate(outputs)
        ]
    per_output = [_like(inputs, row) for row in rows]
    return _like(results, per_output)


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """The second derivatives of `func(*inputs)`, a tensor of one element.

    Shape: (*input, *input); a tuple of n inputs gives a tuple of n tuples of n.
    Cost: one backward pass per input element, after one that records itself.
    Keeps: as `jacobian`.   Raises: ValueError for an output of more elements, and what `jacobian`
    raises.

    Example:
        >>> lm.hessian(lambda x: x[0] * x[0] * x[1], lm.tensor([2.0, 3.0]))
        tensor([[6., 4.],
                [4., 0.]])
    """

    def gradient(*xs: Tensor) -> tuple[Tensor, ...]:
        output = _one_element("hessian", func(*xs))
        return _grad([output], xs, None, True, "hessian: output 0", strict)

    rows = jacobian(gradient, _tuple(inputs), create_graph, strict)
    return rows if isinstance(inputs, tuple | list) else rows[0][0]


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`(output, v @ J)`: what backward computes when `v` arrives at the output.

    Shape: `v` is like the output and may be left out where that has one element; the product is
    like
    `inputs`.   Cost: one backward pass.   Keeps: as `jacobian`.
    Raises: ValueError where `v` does not fit, and what `jacobian` raises.

    Example:
        >>> lm.vjp(lambda x: x * x, lm.tensor([2.0, 3.0]), lm.tensor([1.0, 10.0]))
        (tensor([4., 9.]), tensor([ 4., 60.]))
    """
    with enable_grad():
        xs, outputs, results = _run("vjp", func, inputs, create_graph)
        seeds = _vectors("vjp", v, outputs, "output")
        products = _grad(outputs, xs, seeds, create_graph, "vjp: the outputs", strict)
    return _handed(results, outputs, create_graph), _like(inputs, products)


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`(output, J @ v)`: how the output changes when the input moves in the direction `v`.

    Shape: `v` is like `inputs` and may be left out where that has one element; the product is like
    the output.   Keeps: as `jacobian`.
    Cost: two backward passes. `u @ J` is linear in u, and its derivative with respect to u, applied
    to v, is `J @ v`; so the first pass records itself, and no rule for forward mode is needed. The
    price: every rule on the way must be differentiable (`once_differentiable` is not).
    Raises: ValueError where `v` does not fit, and what `jacobian` raises.

    Example:
        >>> lm.jvp(lambda x: x * x, lm.tensor([2.0, 3.0]), lm.tensor([1.0, 0.0]))
        (tensor([4., 9.]), tensor([4., 0.]))
    """
    with enable_grad():
        xs, outputs, results = _run("jvp", func, inputs, create_graph)
        directions = _vectors("jvp", v, _tuple(inputs), "input")
        seeds = [zeros_like(output, requires_grad=True) for output in outputs]
        with warnings.catch_warnings():
            # What a rule has saved is a constant here: only the way from the seeds is
            # differentiated.
            warnings.simplefilter("ignore", SecondDerivativeWarning)
            pulled = _grad(outputs, xs, seeds, True, "jvp: the outputs", strict)
        products = _grad(pulled, seeds, directions, create_graph, "jvp: the outputs", strict)
    return _handed(results, outputs, create_graph), _like(results, products)


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """`(output, H @ v)` for the Hessian H of `func(*inputs)`, one element, without making H.

    Shape: `v` and the product are like `inputs`.   Keeps: as `jacobian`.
    Cost: two backward passes: H is symmetric, so the derivative of `gradient · v` is `H @ v`.
    Raises: ValueError where `v` or the output does not fit, and what `jacobian` raises.

    Example:
        >>> lm.hvp(lambda x: (x * x * x).sum(), lm.tensor([2.0, 3.0]), lm.tensor([1.0, 0.0]))
        (tensor(35.), tensor([12.,  0.]))
    """
    with enable_grad():
        xs, outputs, results = _run("hvp", func, inputs, create_graph)
        _one_element("hvp", results)
        directions = _vectors("hvp", v, _tuple(inputs), "input")
        gradients = _grad(outputs, xs, None, True, "hvp: the output", strict)
        products = _grad(gradients, xs, directions, create_graph, "hvp: the gradient", strict)
    return _handed(results, outputs, create_graph), _like(inputs, products)


# -- one pass -------------------------------------------------------------------------------------


def _jacobian_of(
    output: Tensor, xs: Sequence[Tensor], create: bool, what: str, strict: bool
) -> list[Tensor]:
    """The Jacobian of one output with respect to each of `xs`, row by row."""
    rows = []
    for element in range(output.numel()):
        seed = np.zeros(output.shape, output.dtype)
        seed.reshape(-1)[element] = 1.0
        rows.append(_grad([output], xs, [wrap(seed)], create, what, strict, retain=True))
    if not rows:
        return [zeros((*output.shape, *x.shape), dtype=x.dtype) for x in xs]
    return [
        stack(columns).reshape((*output.shape, *x.shape))
        for columns, x in zip(zip(*rows, strict=True), xs, strict=True)
    ]


def _grad(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    seeds: Sequence[Tensor] | None,
    create: bool,
    what: str,
    strict: bool,
    retain: bool = False,
) -> tuple[Tensor, ...]:
    """`grad()`, with zeros where an output has no history and where an input was not used."""
    given: Sequence[Any] = [None] * len(outputs) if seeds is None else seeds
    live = [(out, v) for out, v in zip(outputs, given, strict=True) if out.requires_grad]
    if live:
        roots, vectors = zip(*live, strict=True)
        found = grad(roots, inputs, vectors, retain or create, create, allow_unused=True)
    else:
        found = (None,) * len(inputs)
    unused = [index for index, g in enumerate(found) if g is None]
    if strict and unused:
        raise UnusedInputError(
            f"{what} does not depend on input {unused[0]}. Leave strict=True out for zeros in its "
            "place."
        )
    return tuple([zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)])


# -- what goes in, what comes out -----------------------------------------------------------------


def _run(
    name: str, func: Callable[..., Any], inputs: Tensors, create: bool
) -> tuple[list[Tensor], list[Tensor], Any]:
    """Call `func` on stand-ins for `inputs`: stand-ins, outputs as a list, and as they came.

    A stand-in is a leaf on the same memory; under `create_graph` a copy with a way back to the
    original.
    Raises: TypeError for what is no floating tensor; AutogradError in inference_mode.
    """
    if not is_grad_enabled():
        raise AutogradError(
            f"{name} records what {_called(func)} does, and inference_mode forbids it. Leave that "
            "mode."
        )
    xs = []
    for index, x in enumerate(_tuple(inputs)):
        if type(x) is not Tensor:
            raise TypeError(f"{name}: input {index} is no tensor but {type(x).__name__}")
        if x.dtype.kind != "f":
            raise TypeError(
                f"{name}: input {index} is {x.dtype}, and only floating tensors have derivatives. "
                "Bind the others into the function, or use .to(float)."
            )
        if create and x.requires_grad:
            xs.append(x.clone())
        else:
            xs.append(x.detach().requires_grad_())
    results = func(*xs)
    outputs = list(_tuple(results))
    for index, output in enumerate(outputs):
        if type(output) is not Tensor:
            raise TypeError(
                f"{name}: {_called(func)} must return a tensor or a tuple of tensors, and output "
                f"{index} is {type(output).__name__}"
            )
    return xs, outputs, results


def _vectors(name: str, v: Any, like: Sequence[Tensor], noun: str) -> list[Tensor]:
    """`v` as one tensor for each of `like`, checked.

    Raises: ValueError for a count or shape that differs, TypeError for what is no tensor.
    """
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise ValueError(f"{name}: v may be left out only for one {noun} of one element")
        return [wrap(np.ones(like[0].shape, like[0].dtype))]
    vectors = list(_tuple(v))
    if len(vectors) != len(like):
        raise ValueError(
            f"{name}: v has {len(vectors)} tensors, and there are {len(like)} {noun}s; give one "
            "for each"
        )
    for index, (vector, x) in enumerate(zip(vectors, like, strict=True)):
        if type(vector) is not Tensor:
            raise TypeError(f"{name}: v[{index}] is no tensor but {type(vector).__name__}")
        if vector.shape != x.shape:
            raise ValueError(
                f"{name}: v[{index}] has shape {vector.shape}, but {noun} {index} has shape "
                f"{x.shape}"
            )
    return vectors


def _one_element(name: str, output: Any) -> Tensor:
    """`output`, if it is a tensor of one element.

    Raises: TypeError, ValueError.
    """
    if type(output) is not Tensor:
        raise TypeError(f"{name}: the function must return one tensor, not {type(output).__name__}")
    if output.numel() != 1:
        raise ValueError(
            f"{name}: the function must return one element, not a tensor of shape {output.shape}. "
            "Sum it."
        )
    return output


def _handed(results: Any, outputs: Sequence[Tensor], create: bool) -> Any:
    """The outputs for the caller, as `func` gave them; no history unless that was asked for."""
    return results if create else _like(results, [output.detach() for output in outputs])


def _tuple(tensors: Any) -> tuple[Any, ...]:
    return tuple(tensors) if isinstance(tensors, tuple | list) else (tensors,)


def _like(form: Any, items: Sequence[Any]) -> Any:
    """`items` as a tuple if `form` is one (or a list), else the only item."""
    return tuple(items) if isinstance(form, tuple | list) else items[0]


def _called(func: Any) -> str:
    return str(getattr(func, "__name__", type(func).__name__))
