"""What a write in place does to histories: the base of a view, and the views of a base.

A view lies in the memory of its base, so a recorded write through one changes the value of both:

    z = x * 1; v = z[0]; v.mul_(y)
    z:  copy_slices(z before, mul_(v before, y))     z before, with the elements under v replaced
    v:  as_strided(z)                                the elements of z under v

    z = x * 1; v = z[0]; z.mul_(y)
    z:  mul_(z before, y)
    v:  as_strided(z)                                a new history for a view made before

The nodes are made by hand, for there is nothing to compute: the write has been done. PyTorch calls
them AsStrided and CopySlices too, and makes the one for a view only when somebody asks for it.
"""

import sys
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..autograd import saved
from ..autograd.ctx import IDLE, FunctionCtx, _Fields
from ..autograd.function import Function
from ..autograd.node import NOT_A_TENSOR, Node, next_sequence_nr
from ..autograd.refcount import ALONE
from ..autograd.tensor import Tensor
from ..errors import AutogradError
from . import both
from .index import Index
from .operands import Array, fresh
from .shape import Expand, Permute, Reshape, Split, Unbind


class Place(NamedTuple):
    """Where the elements of a view lie in its base: shapes, and bytes from the lowest address."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    base_shape: tuple[int, ...]
    base_strides: tuple[int, ...]
    base_offset: int
    extent: int


def place_of(view: Array, base: Array) -> Place | None:
    """Where `view` lies in `base`; None if it does not lie within it."""
    low, high = np.lib.array_utils.byte_bounds(base)
    low_view, high_view = np.lib.array_utils.byte_bounds(view)
    if view.size and not (low <= low_view and high_view <= high):
        return None
    start, base_start = (a.__array_interface__["data"][0] - low for a in (view, base))
    return Place(view.shape, view.strides, start, base.shape, base.strides, base_start, high - low)


def _laid_out(place: Place, dtype: Any) -> tuple[Array, Array]:
    """Zeros that lie as the base does, and the part of them under the view."""
    whole: Array = np.zeros(place.base_shape, dtype)
    memory = whole
    if whole.strides != place.base_strides:
        memory = np.zeros(place.extent, np.uint8)
        whole = np.ndarray(place.base_shape, dtype, memory, place.base_offset, place.base_strides)
    return whole, np.ndarray(place.shape, dtype, memory, place.offset, place.strides)


def take(x: Array, place: Place) -> Array:
    """The elements of `x`, of the base's shape, under the view: a copy of the view's shape."""
    whole, part = _laid_out(place, x.dtype)
    whole[...] = x
    return part.copy()


def put(x: Array, place: Place) -> Array:
    """Zeros of the base's shape with `x` under the view; what lies on one element is summed."""
    whole, part = _laid_out(place, x.dtype)
    repeated = [
        a
        for a, (n, step) in enumerate(zip(part.shape, part.strides, strict=True))
        if n > 1 and not step
    ]
    if repeated:
        x = x.sum(axis=tuple(repeated), keepdims=True)
        part = part[tuple([slice(1) if a in repeated else slice(None) for a in range(part.ndim)])]
    part[...] = x
    return whole


class AsStrided(Function):
    """The elements of a base under a view.   Keeps: where they lie, a few numbers."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, place: Place) -> Tensor:
        ctx.place = tuple(place)
        return fresh(take(x._data, place))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        place = Place(*ctx.place)
        return (PutStrided.apply if both.is_tensor(grad) else put)(grad, place), None


class PutStrided(Function):
    """Zeros with x under a view: the adjoint of AsStrided.   Keeps: where they lie."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, place: Place) -> Tensor:
        ctx.place = tuple(place)
        return fresh(put(x._data, place))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        place = Place(*ctx.place)
        return (AsStrided.apply if both.is_tensor(grad) else take)(grad, place), None


class CopySlices(Function):
    """A base with the elements under a view replaced by the view.   Keeps: where they lie."""

    arrays = True

    @staticmethod
    def forward(ctx: Any, base: Tensor, view: Tensor, place: Place) -> Tensor:
        ctx.place = tuple(place)
        whole, part = _laid_out(place, base.dtype)
        whole[...] = base._data
        part[...] = view._data
        return fresh(whole)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        place, grad_base = Place(*ctx.place), None
        if ctx.needs_input_grad[0]:
            written: Any = put(np.ones(place.shape, grad.dtype), place) != 0
            written = fresh(written) if both.is_tensor(grad) else written
            grad_base = both.where(written, 0.0, grad)
        return grad_base, (AsStrided.apply if both.is_tensor(grad) else take)(grad, place), None


class StaleView(Function):
    """A view whose own rule cannot be replaced by AsStrided, after its base was written."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, text: str) -> Tensor:
        ctx.text = text
        return fresh(base._data)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> NoReturn:
        raise AutogradError(ctx.text)


#: The ops whose output is a view and whose gradient is what AsStrided gives.
VIEWS = frozenset((AsStrided, Expand, Index, Permute, Reshape, Split, Unbind))


def rewrite(written: list[tuple[Any, Any, int]]) -> None:
    """Give new histories to the bases and the views of tensors that a recorded op has written.

    Each is given with the node and the output number it had before the write. Costs: one node for
    each living view of the same base.
    """
    renew: dict[int, tuple[Any, Any]] = {}  # id of a base -> the base, the node it had before
    through: list[tuple[Any, Any, int, Place]] = []
    for tensor, before, output_nr in written:
        if tensor._node is before:
            continue
        base = tensor if tensor._base is None else tensor._base
        renew.setdefault(id(base), (base, before if base is tensor else base._node))
        place = None if base is tensor else place_of(tensor._data, base._data)
        if place is None:
            _keep_retaining(tensor, before, output_nr)
        else:
            old, old_nr = base._node, base._output_nr
            base._node = _by_hand(CopySlices, base, (base, tensor), place=tuple(place))
            base._output_nr = 0
            _keep_retaining(base, old, old_nr)
            through.append((tensor, before, output_nr, place))
    for tensor, before, output_nr, place in through:
        # From here on it is a view of its base again: what arrives at it goes through the base.
        tensor._node = _by_hand(AsStrided, tensor, (tensor._base,), place=tuple(place))
        tensor._output_nr = 0
        _keep_retaining(tensor, before, output_nr)
    for base, before in renew.values():
        for view in saved.views_of(base):
            if view._data.dtype.kind == "f":
                _renew(view, base, before)


def _renew(view: Any, base: Any, before: Any) -> None:
    """Make `view` a view of what `base` is now. `before` is the node that `base` had."""
    node, output_nr = view._node, view._output_nr
    if node is None and before is not None:
        return  # made under no_grad: it never had a history, and gets none
    if node is not None and not node.sequence_nr:
        return  # a leaf of its own
    if (
        node is not None
        and node.function is AsStrided
        and node._hooks is None
        and node._released is None
        and sys.getrefcount(node) == ALONE + 1  # `view` and the name here
    ):
        # Nobody has used the view since it got this node: the node follows the base. Without this,
        # n views written one after the other would cost n * n nodes.
        node.sequence_nr = next_sequence_nr()
        node._next_nodes = (base._node, NOT_A_TENSOR)
        node._next_nrs = (base._output_nr, 0) if base._output_nr else None
        return
    place = place_of(view._data, base._data)
    if place is None:
        return
    if node is not None and (maker := _own_rule(node, before)) is not None:
        text = (
            f"{base._node.label} wrote a tensor in place that {maker.label} had made a view of, "
            f"and {maker.function.__name__} has a backward of its own, so the view cannot be "
            "differentiated any more. Make the view after the write, or clone() it before."
        )
        view._node = _by_hand(StaleView, view, (base,), text=text)
    else:
        view._node = _by_hand(AsStrided, view, (base,), place=tuple(place))
    view._output_nr = 0
    _keep_retaining(view, node, output_nr)


def _keep_retaining(tensor: Any, before: Any, output_nr: int) -> None:
    """Let `retain_grad` mean the new value of `tensor`. Its hooks stay with the value they knew."""
    if before is not None and before._hooks is not None and before is not tensor._node:
        reference = before._hooks.retain.pop(output_nr, None)
        if reference is not None:
            tensor._node._rare().retain[tensor._output_nr] = reference


def _own_rule(node: Any, before: Any) -> Any:
    """The node between a view and its base whose gradient is not that of a view, or None.

    The way up ends at `before`, the node that the base had.
    """
    while node and node is not before:
        if node.function not in VIEWS:
            return node
        node = node._next_nodes[0]
    return None


def _by_hand(function: Any, like: Any, sources: tuple[Any, ...], **bag: Any) -> Node:
    """A node as `function.apply(*sources, …)` would make it, for an output like `like`."""
    nodes = (*[source._node for source in sources], NOT_A_TENSOR)
    flags = sum(1 << index for index, node in enumerate(nodes) if node) | 1 << len(nodes)
    ctx: Any = _Fields()
    ctx._function = function
    ctx._needs = function._needs.get(flags) or function._flags(list(nodes), flags)
    ctx._saved = ctx._versions = ctx._named = ctx._marks = None
    ctx._phase = IDLE
    ctx.__dict__.update(bag)
    ctx.__class__ = FunctionCtx
    node: Any = Node()
    node.function = function
    node._ctx = ctx
    node.sequence_nr = next_sequence_nr()
    node._next_nodes = nodes
    nrs = (*[source._output_nr for source in sources], 0)
    node._next_nrs = nrs if any(nrs) else None
    node._hooks = node._released = node._outputs = None
    node.shape, node.dtype = like._data.shape, like._data.dtype
    return node  # type: ignore[no-any-return]
