"""The ways into the engine: `backward`, `grad`, `steps`. They check what they are given."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import NoGradientError, NonScalarBackwardError, UnusedInputError
from . import saved
from .engine import Step, grown, own, path_to, traverse


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Send gradients from all `tensors` to the leaves in one traversal, and add them to `.grad`.

    Shape: each of `grad_tensors` has the shape of its tensor; None stands for 1 at a single
    element.
    `inputs`: only these get a `.grad`.   Keeps: nothing, unless `retain_graph` (default:
    `create_graph`).
    Raises: ValueError, TypeError, NoGradientError, NonScalarBackwardError, and what the rules
    raise.

    Example:
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> lm.autograd.backward([x * 2, x * 10])
        >>> x.grad
        tensor(12.)
    """
    retain = create_graph if retain_graph is None else retain_graph
    roots = _roots(tensors, grad_tensors, create_graph)
    if inputs is None:
        for _ in traverse(roots, retain=retain, create=create_graph):
            pass
        return
    targets = _targets(inputs, "backward(inputs=…)")
    wanted = path_to([node for node, _, _ in roots], targets, accumulate=True)
    for _ in traverse(roots, retain=retain, create=create_graph, wanted=wanted):
        pass
    for tensor in _listed(inputs):
        edge = tensor._node, tensor._output_nr
        if wanted.found.get(edge) is not None:  # an interior tensor; the leaves have theirs
            tensor._grad = grown(tensor._grad, own(wanted.found, edge))


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`. Touches no `.grad`.

    Shape: one tensor per input, of its shape; None where unused and `allow_unused`, zeros with
    `materialize_grads`.   Keeps: nothing, unless `retain_graph` (default: `create_graph`).
    Raises: UnusedInputError with the index of the input, and what `backward` raises.

    Example:
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> lm.autograd.grad(x * x, x)
        (tensor(6.),)
        >>> x.grad is None
        True
    """
    retain = create_graph if retain_graph is None else retain_graph
    targets = _targets(inputs, "grad()")
    roots = _roots(outputs, grad_outputs, create_graph)
    wanted = path_to([node for node, _, _ in roots], targets)
    for _ in traverse(roots, retain=retain, create=create_graph, wanted=wanted):
        pass
    unused = [index for index, edge in enumerate(targets) if wanted.found[edge] is None]
    if unused and not (allow_unused or materialize_grads):
        raise UnusedInputError(
            f"grad(): input {unused[0]} was not used by the outputs. Pass allow_unused=True for "
            f"None in its place, or materialize_grads=True for zeros."
        )
    found = {
        edge: None if wanted.found[edge] is None else own(wanted.found, edge)
        for edge in set(targets)
    }
    results = []
    for tensor, edge in zip(_listed(inputs), targets, strict=True):
        result = found[edge]
        if result is None and materialize_grads:
            result = saved.wrap(np.zeros(tensor.shape, tensor.dtype))
        results.append(result)
    return tuple(results)


def steps(
    tensor: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
) -> Iterator[Step]:
    """The same traversal as `backward`, one node at a time.

    Yields one Step per node executed; the leaves get their gradients after the last. Between two
    steps the caller's own mode holds. Closing the iterator drops the pending gradients.
    Raises: what `backward` raises.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> for step in lm.autograd.steps((x * x).sum()):
        ...     print(step.node.label, "released", step.released, "bytes")
        sum#2 released 0 bytes
        mul#1 released 16 bytes
    """
    retain = create_graph if retain_graph is None else retain_graph
    roots = _roots([tensor], [gradient], create_graph)
    return traverse(roots, retain=retain, create=create_graph, watch=True)


def _listed(tensors: Any) -> Sequence[Any]:
    return [tensors] if hasattr(tensors, "_memory") else list(tensors)


def _roots(tensors: Any, gradients: Any, create: bool) -> list[tuple[Any, int, Any]]:
    """The edges and the seeds of a pass, checked.

    Raises: TypeError, ValueError for counts and shapes, NoGradientError, NonScalarBackwardError.
    """
    tensors = _listed(tensors)
    gradients = [None] * len(tensors) if gradients is None else _listed(gradients)
    if len(gradients) != len(tensors):
        raise ValueError(
            f"{len(tensors)} roots and {len(gradients)} gradients were given; pass one gradient "
            "(or None) a root"
        )
    roots = []
    for index, (tensor, gradient) in enumerate(zip(tensors, gradients, strict=True)):
        if not hasattr(tensor, "_memory"):
            raise TypeError(f"root {index} is no tensor but {type(tensor).__name__}; pass tensors")
        if tensor._node is None:
            raise NoGradientError(
                f"root {index} of backward does not require grad and has no history. Call "
                f"requires_grad_() on a leaf it is computed from, and compute it outside no_grad."
            )
        roots.append((tensor._node, tensor._output_nr, _seed(tensor, gradient, create)))
    return roots


def _seed(tensor: Any, gradient: Any, create: bool) -> Any:
    if gradient is None:
        if tensor.numel() != 1:
            raise NonScalarBackwardError(
                "backward() without a gradient starts at 1 and needs one element; this tensor has "
                f"shape {tensor.shape}. Sum it first, or pass a gradient of that shape."
            )
        ones = np.empty(tensor.shape, tensor.dtype)
        ones.fill(1)
        return saved.wrap(ones) if create else ones
    if not hasattr(gradient, "_memory"):
        raise TypeError(
            f"the gradient of a root must be a tensor or None, not {type(gradient).__name__}"
        )
    if gradient.shape != tensor.shape:
        raise ValueError(
            f"the gradient given has shape {gradient.shape}, but the root has shape "
            f"{tensor.shape}; they must be equal"
        )
    if gradient.dtype is not tensor.dtype:
        gradient = gradient.to(tensor.dtype)
    return gradient if create else gradient._data


def _targets(inputs: Any, caller: str) -> list[tuple[Any, int]]:
    """The edges of `inputs`.

    Raises: TypeError, NoGradientError for an input that does not require grad.
    """
    targets = []
    for index, tensor in enumerate(_listed(inputs)):
        if not hasattr(tensor, "_memory"):
            raise TypeError(
                f"{caller}: input {index} is no tensor but {type(tensor).__name__}; pass tensors"
            )
        if tensor._node is None:
            raise NoGradientError(
                f"{caller}: input {index} does not require grad. Call requires_grad_() on it "
                "before the outputs are computed."
            )
        targets.append((tensor._node, tensor._output_nr))
    if not targets:
        raise ValueError(f"{caller}: no inputs were given; pass at least one tensor")
    return targets
