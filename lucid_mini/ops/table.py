"""The one place where ops become operators, methods and functions.

`METHODS` hangs on Tensor, `FUNCTIONS` is what `lm.` offers. An op whose arguments are all tensors
is bound as it is (`Mul.apply` is `Tensor.__mul__`); the others get a function that reads `dim` and
the like.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.tensor import Tensor, refuse_objects, tensor
from . import elementwise as e
from . import inplace as i
from . import reduce as r
from . import shape as s
from .describe import describe
from .index import Index, as_index
from .linalg import Matmul
from .operands import axis_of, number, one_name
from .reduce import Choose

# -- operators ------------------------------------------------------------------------------------


def _swapped(apply: Callable[..., Any]) -> Callable[..., Any]:
    def reflected(self: Tensor, other: Any) -> Any:
        """The operator with its operands exchanged, for a tensor on the right of a number or array.

        Example:
            >>> 10 - lm.tensor([1.0, 2.0]), np.ones(2) / lm.tensor([1.0, 2.0])
            (tensor([9., 8.]), tensor([1. , 0.5]))
        """
        return apply(other, self)

    return reflected


def power(x: Any, exponent: Any) -> Any:
    """Power x ** exponent, for tensors and numbers on either side; the shapes broadcast.

    Keeps: x, for a number (nothing for 0 and 1); for a tensor both, and the output if it needs a
    gradient.

    Example:
        >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
        >>> (x**3).sum().backward()
        >>> x.grad  # 3 x²
        tensor([ 3., 12.])
    """
    if isinstance(exponent, int | float) and type(x) is Tensor:
        return e.PowNumber.apply(x, number(exponent))
    return e.Pow.apply(x, exponent)


def _compare(apply: Callable[..., Any]) -> Callable[..., Any]:
    def compare(x: Tensor, other: Any) -> Any:
        """Element by element, as a tensor of booleans; it has no gradient and keeps nothing.

        Shape: that of the operands, broadcast.

        Example:
            >>> x = lm.tensor([1.0, 2.0, 3.0])
            >>> x > 1, x == x
            (tensor([False,  True,  True]), tensor([ True,  True,  True]))
        """
        if not isinstance(other, Tensor | int | float | np.ndarray | np.generic):
            return NotImplemented  # Python's own answer: unequal, or a TypeError for an order
        return apply(x, other)

    return compare


# -- functions with options -----------------------------------------------------------------------


def sum_(
    x: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The sum over `dim`: a number, several, or all by default.

    Shape: that of x without `dim`; with `keepdim` length 1 there.   Keeps: two shapes.

    Example:
        >>> x = lm.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> x.sum(), x.sum(dim=0)
        (tensor(10.), tensor([4., 6.]))
    """
    dim, keepdim = one_name(dim, axis, keepdim, keepdims)
    return r.Sum.apply(x, dim, keepdim)  # type: ignore[no-any-return]


def mean(
    x: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The mean over `dim` (all by default).   Shape: as `sum`.   Keeps: two shapes.

    Example:
        >>> x = lm.tensor([1.0, 2.0, 6.0], requires_grad=True)
        >>> lm.mean(x).backward()
        >>> x.grad
        tensor([0.3333, 0.3333, 0.3333])
    """
    dim, keepdim = one_name(dim, axis, keepdim, keepdims)
    return r.Mean.apply(x, dim, keepdim)  # type: ignore[no-any-return]


def prod(
    x: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The product over `dim` (all by default).   Shape: as `sum`.   Keeps: x.

    Example:
        >>> x = lm.tensor([2.0, 0.0, 5.0], requires_grad=True)
        >>> x.prod().backward()
        >>> x.grad  # the product of the others, also where one is 0
        tensor([ 0., 10.,  0.])
    """
    dim, keepdim = one_name(dim, axis, keepdim, keepdims)
    return r.Prod.apply(x, dim, keepdim)  # type: ignore[no-any-return]


def amax(
    x: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The largest element over `dim` (all by default); equal ones share the gradient.

    Shape: as `sum`.   Keeps: x and the output.

    Example:
        >>> x = lm.tensor([1.0, 3.0, 3.0], requires_grad=True)
        >>> x.amax().backward()
        >>> x.grad
        tensor([0. , 0.5, 0.5])
    """
    dim, keepdim = one_name(dim, axis, keepdim, keepdims)
    return r.Extreme.apply(x, dim, keepdim, False)  # type: ignore[no-any-return]


def amin(
    x: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The smallest element over `dim` (all by default); equal ones share the gradient.

    Shape: as `sum`.   Keeps: x and the output.

    Example:
        >>> lm.amin(lm.tensor([[1.0, 2.0], [0.0, 5.0]]), dim=1)
        tensor([1., 0.])
    """
    dim, keepdim = one_name(dim, axis, keepdim, keepdims)
    return r.Extreme.apply(x, dim, keepdim, True)  # type: ignore[no-any-return]


def argmax(
    x: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool | None = None,
) -> Tensor:
    """Where the largest element is, along `dim` or in the flat tensor: the first of equal ones.

    Shape: as `sum`; integers, so no gradient.   Keeps: nothing.

    Example:
        >>> lm.tensor([[1.0, 9.0], [7.0, 2.0]]).argmax(dim=1)
        tensor([1, 0])
    """
    dim, keepdim = one_name(dim, axis, keepdim, keepdims)
    return r.ArgExtreme.apply(x, dim, keepdim, False)  # type: ignore[no-any-return]


def argmin(
    x: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool | None = None,
) -> Tensor:
    """Where the smallest element is, along `dim` or in the flat tensor: the first of equal ones.

    Shape: as `sum`; integers, so no gradient.   Keeps: nothing.

    Example:
        >>> lm.tensor([[1.0, 9.0], [7.0, 0.0]]).argmin()
        tensor(3)
    """
    dim, keepdim = one_name(dim, axis, keepdim, keepdims)
    return r.ArgExtreme.apply(x, dim, keepdim, True)  # type: ignore[no-any-return]


def _extreme(
    whole: Callable[..., Tensor], arg: Callable[..., Tensor], pair: Any
) -> Callable[..., Any]:
    def extreme(
        x: Tensor,
        dim: Any = None,
        keepdim: bool = False,
        *,
        axis: Any = None,
        keepdims: bool | None = None,
    ) -> Any:
        """Without `dim` one element; with it `(values, indices)`, the first of equal ones.

        `x.max(y)`, of two tensors, is `maximum`.   Shape: as `sum`.   Keeps: x and the output; with
        `dim` the indices.

        Example:
            >>> x = lm.tensor([[1.0, 9.0], [7.0, 2.0]])
            >>> x.min(), x.max(dim=1)
            (tensor(1.), (tensor([9., 7.]), tensor([1, 0])))
        """
        if type(dim) is Tensor:
            return pair.apply(x, dim)
        dim, keepdim = one_name(dim, axis, keepdim, keepdims)
        if dim is None:
            return whole(x)
        axis_nr = axis_of(dim, x.ndim)
        indices = arg(x, axis_nr, keepdim=True)
        values = Choose.apply(x, axis_nr, indices)
        if keepdim or not x.ndim:
            return values, indices
        return squeeze(values, axis_nr), squeeze(indices, axis_nr)

    return extreme


max_ = _extreme(amax, argmax, e.Maximum)
min_ = _extreme(amin, argmin, e.Minimum)


def var(
    x: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    correction: int = 1,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The variance over `dim`: squared distances from the mean over n - `correction`.

    Shape: as `sum`.   Keeps: the distances.

    Example:
        >>> x = lm.tensor([1.0, 2.0, 3.0])
        >>> x.var(), x.var(correction=0)
        (tensor(1.), tensor(0.6667))
    """
    dim, keepdim = one_name(dim, axis, keepdim, keepdims)
    centred = x - mean(x, dim, True)
    total = sum_(centred * centred, dim, keepdim)
    count = x.numel() // max(total.numel(), 1)
    return e.Div.apply(total, count - correction)  # type: ignore[no-any-return]


def std(
    x: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    correction: int = 1,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The square root of `var`. Where it is 0, its gradient is 0.

    Shape: as `sum`.   Keeps: the distances and the output.

    Example:
        >>> x = lm.tensor([1.0, 1.0], requires_grad=True)
        >>> x.std().backward()
        >>> x.grad
        tensor([0., 0.])
    """
    spread = var(x, dim, keepdim, correction=correction, axis=axis, keepdims=keepdims)
    return e.Deviation.apply(spread)  # type: ignore[no-any-return]


def logsumexp(
    x: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    axis: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The logarithm of the sum of exp(x) over `dim`, without overflow.

    Shape: as `sum`.   Keeps: x and the output.

    Example:
        >>> lm.tensor([1000.0, 1000.0]).logsumexp()  # 1000 + log 2
        tensor(1000.6931)
    """
    dim, keepdim = one_name(dim, axis, keepdim, keepdims)
    return r.LogSumExp.apply(x, dim, keepdim)  # type: ignore[no-any-return]


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) over its sum along `dim`, without overflow.   Shape: that of x.   Keeps: the output.

    Example:
        >>> lm.softmax(lm.tensor([0.0, 0.0, 1000.0]))
        tensor([0., 0., 1.])
    """
    return r.Softmax.apply(x, dim)  # type: ignore[no-any-return]


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """The logarithm of `softmax`, without overflow.   Shape: that of x.   Keeps: the output.

    Example:
        >>> lm.log_softmax(lm.tensor([0.0, -1000.0]))
        tensor([    0., -1000.])
    """
    return r.LogSoftmax.apply(x, dim)  # type: ignore[no-any-return]


def cumsum(x: Tensor, dim: int) -> Tensor:
    """Running sums along `dim`.   Shape: that of x.   Keeps: nothing.

    Example:
        >>> x = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> y = x.cumsum(0)
        >>> y.sum().backward()
        >>> y.tolist(), x.grad  # the first element is in all three sums
        ([1.0, 3.0, 6.0], tensor([3., 2., 1.]))
    """
    return r.Cumsum.apply(x, dim)  # type: ignore[no-any-return]


def cross_entropy(logits: Tensor, target: Any) -> Tensor:
    """The mean over n rows of -log softmax(logits)[target], without overflow.

    Shape: logits (n, classes), target (n,) integers; the result ().   Keeps: logits and target.
    Raises: ValueError for shapes that do not fit, TypeError for a target that is no integers.

    Example:
        >>> logits = lm.zeros(2, 4, requires_grad=True)
        >>> lm.cross_entropy(logits, lm.tensor([0, 3]))  # log 4
        tensor(1.3863, grad_fn=<CrossEntropyBackward>)
    """
    target = target if type(target) is Tensor else tensor(target)
    if logits.ndim != 2 or target.shape != logits.shape[:1]:
        raise ValueError(
            f"cross_entropy takes logits (n, classes) and targets (n,), not {logits.shape} and "
            f"{target.shape}"
        )
    if target.dtype.kind not in "iu":
        raise TypeError(
            f"cross_entropy takes class numbers (integers) as target, not {target.dtype}"
        )
    return r.CrossEntropy.apply(logits, target)  # type: ignore[no-any-return]


def _lengths(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return (
        tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else tuple(shape)
    )


def reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements under another shape; one length may be -1. A view where NumPy can.

    Keeps: the shape.   Raises: ValueError for another number of elements.

    Example:
        >>> lm.arange(6).reshape(2, -1)
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
    return s.Reshape.apply(x, _lengths(shape))  # type: ignore[no-any-return]


def view(x: Tensor, *shape: Any) -> Tensor:
    """`reshape`, but never a copy.   Keeps: the shape.

    Raises: ValueError where the elements do not lie so that a view is possible.

    Example:
        >>> x = lm.zeros(2, 2)
        >>> x.view(4).fill_(1)
        tensor([1., 1., 1., 1.])
        >>> x  # the same memory
        tensor([[1., 1.],
                [1., 1.]])
    """
    made = reshape(x, *shape)
    if made._base is None:
        raise ValueError(
            f"view: a tensor of shape {x.shape} with these strides cannot be viewed so; use reshape"
        )
    return made


def permute(x: Tensor, *axes: Any) -> Tensor:
    """The axes in the order given. A view.   Keeps: the order.

    Raises: ValueError for an order that does not name each dimension once.

    Example:
        >>> lm.ones(2, 3, 4).permute(2, 0, 1).shape
        (4, 2, 3)
    """
    order = tuple([axis_of(axis, x.ndim) for axis in _lengths(axes)])
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"permute: {order} does not name each of {x.ndim} dimensions once")
    return s.Permute.apply(x, order)  # type: ignore[no-any-return]


def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged. A view.   Keeps: the order.

    Example:
        >>> lm.ones(2, 3, 4).transpose(0, 2).shape
        (4, 3, 2)
    """
    order = list(range(x.ndim))
    if not order:
        axis_of(dim0, 0), axis_of(dim1, 0)
        return s.Permute.apply(x, ())  # type: ignore[no-any-return]
    a, b = axis_of(dim0, x.ndim), axis_of(dim1, x.ndim)
    order[a], order[b] = order[b], order[a]
    return s.Permute.apply(x, tuple(order))  # type: ignore[no-any-return]


def t(x: Tensor) -> Tensor:
    """The transpose of a matrix; a vector as it is. A view.   Keeps: the order.

    Raises: ValueError for more than two dimensions.

    Example:
        >>> lm.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
        tensor([[1., 3.],
                [2., 4.]])
    """
    if x.ndim > 2:
        raise ValueError(
            f"t() takes at most 2 dimensions, and this tensor has {x.ndim}; use permute"
        )
    return s.Permute.apply(x, tuple(range(x.ndim))[::-1])  # type: ignore[no-any-return]


def squeeze(x: Tensor, dim: Any = None) -> Tensor:
    """Without the dimensions of length 1, or without `dim` if it has length 1. A view.

    Keeps: the shape.

    Example:
        >>> x = lm.ones(1, 3, 1)
        >>> x.squeeze().shape, x.squeeze(0).shape
        ((3,), (3, 1))
    """
    chosen = (
        range(x.ndim)
        if dim is None
        else [axis_of(d, x.ndim) for d in (dim if isinstance(dim, tuple | list) else (dim,))]
    )
    return reshape(x, [n for axis, n in enumerate(x.shape) if n != 1 or axis not in chosen])


def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """With a dimension of length 1 put in at `dim`. A view.   Keeps: the shape.

    Example:
        >>> lm.ones(3).unsqueeze(1).shape
        (3, 1)
    """
    axis = axis_of(dim, x.ndim + 1)
    return reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


def expand(x: Tensor, *shape: Any) -> Tensor:
    """Broadcast to a larger shape; -1 keeps a length. A view; read-only if an element lies twice.

    Keeps: the shape.   Raises: ValueError for a shape that does not fit.

    Example:
        >>> x = lm.tensor([[1.0], [2.0]], requires_grad=True)
        >>> x.expand(-1, 3).sum().backward()
        >>> x.grad  # each element stands in three places
        tensor([[3.],
                [3.]])
    """
    wanted = _lengths(shape)
    lead = len(wanted) - x.ndim
    full = tuple(
        [x.shape[axis - lead] if n == -1 and axis >= lead else n for axis, n in enumerate(wanted)]
    )
    return s.Expand.apply(x, full)  # type: ignore[no-any-return]


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions `start_dim` to `end_dim` as one: a view where NumPy can, or x itself.

    Keeps: the shape.

    Example:
        >>> lm.ones(2, 3, 4).flatten(1).shape
        (2, 12)
    """
    if not x.ndim:
        return reshape(x, (1,))
    start, end = axis_of(start_dim, x.ndim), axis_of(end_dim, x.ndim)
    if start == end:
        return x
    return reshape(x, (*x.shape[:start], -1, *x.shape[end + 1 :]))


def split(
    x: Tensor, lengths: int | list[int] | tuple[int, ...], dim: int = 0
) -> tuple[Tensor, ...]:
    """Pieces along `dim`, of the lengths given or of one length with the rest at the end. Views.

    Keeps: nothing.   Raises: ValueError for lengths that do not add up.

    Example:
        >>> lm.arange(5).split(2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    axis = axis_of(dim, x.ndim)
    total = x.shape[axis]
    if isinstance(lengths, int):
        if lengths <= 0:
            raise ValueError(f"split: the length of a piece must be positive, not {lengths}")
        sizes = [min(lengths, total - start) for start in range(0, total, lengths)] or [0]
    else:
        sizes = list(lengths)
    if sum(sizes) != total:
        raise ValueError(
            f"split: the lengths {tuple(sizes)} add up to {sum(sizes)}, but dimension {dim} has "
            f"{total}; they must add up to that"
        )
    return s.Split.apply(x, tuple(sizes), axis)  # type: ignore[no-any-return]


def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of equal length along `dim`, the last maybe shorter. Views.

    Keeps: nothing.

    Example:
        >>> lm.arange(5).chunk(2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return split(x, max(-(-x.shape[axis_of(dim, x.ndim)] // chunks), 1), dim)


def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along `dim`, each without it. Views. No slices, no tensors.   Keeps: nothing.

    Example:
        >>> row, other = lm.tensor([[1.0, 2.0], [3.0, 4.0]]).unbind()
        >>> other
        tensor([3., 4.])
    """
    if x.ndim and not x.shape[axis_of(dim, x.ndim)]:
        return ()
    return s.Unbind.apply(x, dim)  # type: ignore[no-any-return]


def clamp(x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """x, no lower than `min` and no higher than `max`.   Shape: that of x.   Keeps: x.

    Raises: ValueError where neither is given.

    Example:
        >>> x = lm.tensor([-1.0, 0.5, 7.0], requires_grad=True)
        >>> x.clamp(0, 1).sum().backward()
        >>> x.grad  # what was cut off has none
        tensor([0., 1., 0.])
    """
    if min is None and max is None:
        raise ValueError("clamp needs min or max")
    return e.Clamp.apply(x, number(min), number(max))  # type: ignore[no-any-return]


def clamp_(x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """`clamp` in place.   Keeps: a copy of the old x.   Raises: LeafInPlaceError.

    Example:
        >>> lm.tensor([-1.0, 0.5, 7.0]).clamp_(min=0)
        tensor([0. , 0.5, 7. ])
    """
    return i.ClampInPlace.apply(x, number(min), number(max))  # type: ignore[no-any-return]


def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition` holds, `y` elsewhere; all broadcast.   Keeps: the condition.

    Example:
        >>> a, b = lm.tensor([1.0, 2.0]), lm.tensor([9.0, 9.0])
        >>> lm.where(a > 1, a, b)
        tensor([9., 2.])
    """
    if all(isinstance(part, np.ndarray) for part in (condition, x, y)):
        return np.where(condition, x, y)
    if type(condition) is not Tensor:
        e.Where.refuse_foreign((condition,), 0)
        condition = tensor(condition)
    if type(x) is not Tensor and type(y) is not Tensor:
        e.Where.refuse_foreign((condition, x), 1)
        x = tensor(x)
    return e.Where.apply(condition, x, y)


def _where(self: Tensor, condition: Any, x: Any, y: Any) -> Any:
    return where(condition, x, y)


def where_method(x: Tensor, condition: Any, other: Any) -> Any:
    """Take x where `condition` holds, `other` elsewhere; all broadcast.   Keeps: the condition.

    Example:
        >>> a = lm.tensor([1.0, -2.0])
        >>> a.where(a > 0, lm.zeros(1))
        tensor([1., 0.])
    """
    return where(condition, x, other)


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index], as NumPy: a view for slices and integers, a copy for arrays and masks.

    Keeps: the index and a shape.   Raises: IndexError.

    Example:
        >>> x = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> x[[0, 0, 2]].sum().backward()
        >>> x.grad  # element 0 was chosen twice
        tensor([2., 0., 1.])
    """
    return Index.apply(x, as_index(index))  # type: ignore[no-any-return]


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value, in place; the value broadcasts to the shape of x[index].

    Keeps: the index and two shapes.
    Raises: LeafInPlaceError, IndexError, ValueError for a shape that does not fit.

    Example:
        >>> x = lm.zeros(3)
        >>> x[1:] = lm.tensor(5.0, requires_grad=True)
        >>> x
        tensor([0., 5., 5.], grad_fn=<SetItemBackward>)
    """
    i.SetItem.apply(
        x,
        value
        if type(value) is Tensor
        else tensor(value, dtype=None if isinstance(value, np.ndarray) else x.dtype),
        as_index(index),
    )


def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The elements x[…, index, …] along `dim`; the result has the shape of `index`.

    Keeps: the index.
    Raises: ValueError for an index of another number of dimensions than x, TypeError for one that
    holds no integers.

    Example:
        >>> x = lm.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> x.gather(1, lm.tensor([[1], [0]]))
        tensor([[2.],
                [3.]])
    """
    if type(index) is not Tensor or index.dtype.kind not in "iu":
        given = index.dtype if type(index) is Tensor else type(index).__name__
        raise TypeError(f"gather takes a tensor of integers as index, not {given}")
    if index.ndim != x.ndim:
        raise ValueError(
            f"gather takes an index of as many dimensions as the tensor, {x.ndim}, and this one "
            f"has {index.ndim}; broadcast it with unsqueeze and expand"
        )
    return Choose.apply(x, axis_of(dim, x.ndim), index)  # type: ignore[no-any-return]


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of x at `index` along `dim`: a copy.   Keeps: the index and a shape.

    Example:
        >>> lm.arange(6).reshape(2, 3).index_select(1, lm.tensor([2, 0]))
        tensor([[2, 0],
                [5, 3]])
    """
    return getitem(x, (*(slice(None),) * axis_of(dim, x.ndim), index))


def masked_fill(x: Tensor, mask: Tensor, value: float) -> Tensor:
    """A copy of x with `value` where `mask` is true; the mask broadcasts.   Keeps: the mask.

    Example:
        >>> lm.ones(2, 2).masked_fill(lm.eye(2) == 1, -np.inf)
        tensor([[-inf,   1.],
                [  1., -inf]])
    """
    return where(mask, value, x)  # type: ignore[no-any-return]


def to(x: Tensor, dtype: Any) -> Tensor:
    """A copy of x in another dtype, or x itself if it has that dtype.   Keeps: nothing.

    Raises: TypeError for a dtype that is not one of numbers.

    Example:
        >>> x = lm.ones(2, requires_grad=True)
        >>> x.to("float32").sum().backward()
        >>> x.grad.dtype  # the gradient comes back in the dtype of x
        dtype('float64')
    """
    wanted = np.dtype(dtype)
    refuse_objects(wanted)
    return x if x.dtype == wanted else e.To.apply(x, wanted)


def pow_(x: Tensor, exponent: float) -> Tensor:
    """Power x ** exponent in place, for a number.   Keeps: a copy of the old x.

    Raises: LeafInPlaceError.

    Example:
        >>> lm.tensor([1.0, 2.0]).pow_(3)
        tensor([1., 8.])
    """
    return i.PowInPlace.apply(x, number(exponent))  # type: ignore[no-any-return]


def zero_(x: Tensor) -> Tensor:
    """Set x to 0, in place.   Keeps: nothing.   Raises: LeafInPlaceError.

    Example:
        >>> lm.ones(2).zero_()
        tensor([0., 0.])
    """
    return i.Fill.apply(x, 0)  # type: ignore[no-any-return]


def _answer_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """`ndarray + tensor` is a tensor. Any other ufunc would lose the history.

    Raises: TypeError that names the function of `lm` and `.numpy()`.
    """
    operator = _OPERATORS.get(ufunc.__name__)
    if operator is not None and method == "__call__" and not options:
        x, y = inputs
        return operator(
            x if type(x) is Tensor else tensor(x), y if type(y) is Tensor else tensor(y)
        )
    reductions = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin"}
    name = {"absolute": "abs", "negative": "neg"}.get(ufunc.__name__, ufunc.__name__)
    if method == "reduce":
        name = reductions.get(name, name)
    whole = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    use = f"lm.{name}(x)" if name in FUNCTIONS else "an operator or a function of lm (lm.exp, …)"
    raise TypeError(
        f"np.{whole} on a tensor would compute without recording. Use {use}, or "
        f"np.{whole}(x.numpy()) for an array without history."
    )


_COMPARISONS: dict[str, Callable[..., Any]] = {
    name: _compare(function.apply)
    for name, function in {
        "__eq__": e.Eq,
        "__ne__": e.Ne,
        "__lt__": e.Lt,
        "__le__": e.Le,
        "__gt__": e.Gt,
        "__ge__": e.Ge,
    }.items()
}

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": e.Add.apply,
    "subtract": e.Sub.apply,
    "multiply": e.Mul.apply,
    "divide": e.Div.apply,
    "true_divide": e.Div.apply,
    "power": power,
    "matmul": Matmul.apply,
    "equal": _COMPARISONS["__eq__"],
    "not_equal": _COMPARISONS["__ne__"],
    "less": _COMPARISONS["__lt__"],
    "less_equal": _COMPARISONS["__le__"],
    "greater": _COMPARISONS["__gt__"],
    "greater_equal": _COMPARISONS["__ge__"],
}

#: Under one name as method `x.name(...)` and function `lm.name(x, ...)`.
BOTH: dict[str, Callable[..., Any]] = {
    "exp": e.Exp.apply,
    "log": e.Log.apply,
    "sqrt": e.Sqrt.apply,
    "sin": e.Sin.apply,
    "cos": e.Cos.apply,
    "tanh": e.Tanh.apply,
    "sigmoid": e.Sigmoid.apply,
    "relu": e.Relu.apply,
    "abs": e.Abs.apply,
    "neg": e.Neg.apply,
    "clamp": clamp,
    "pow": power,
    "maximum": e.Maximum.apply,
    "minimum": e.Minimum.apply,
    "sum": sum_,
    "mean": mean,
    "prod": prod,
    "max": max_,
    "min": min_,
    "amax": amax,
    "amin": amin,
    "argmax": argmax,
    "argmin": argmin,
    "var": var,
    "std": std,
    "cumsum": cumsum,
    "logsumexp": logsumexp,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "reshape": reshape,
    "permute": permute,
    "transpose": transpose,
    "t": t,
    "squeeze": squeeze,
    "unsqueeze": unsqueeze,
    "flatten": flatten,
    "split": split,
    "chunk": chunk,
    "unbind": unbind,
    "matmul": Matmul.apply,
    "mm": Matmul.apply,
    "gather": gather,
    "index_select": index_select,
    "masked_fill": masked_fill,
    "clone": e.Clone.apply,
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **BOTH,
    "where": where,
    "cat": s.cat,
    "stack": s.stack,
    "cross_entropy": cross_entropy,
}

_T = """The transpose of a matrix; a vector as it is. A view.   Keeps: the order.

Raises: ValueError for more than two dimensions.

Example:
    >>> lm.tensor([[1.0, 2.0], [3.0, 4.0]]).T
    tensor([[1., 3.],
            [2., 4.]])
"""

METHODS: dict[str, Any] = {
    **BOTH,
    **_COMPARISONS,
    "__array_ufunc__": _answer_ufunc,
    "__hash__": Tensor.__hash__,
    "_where": _where,
    "where": where_method,
    "view": view,
    "expand": expand,
    "to": to,
    "T": property(t, doc=_T),
    "__add__": e.Add.apply,
    "__radd__": _swapped(e.Add.apply),
    "__sub__": e.Sub.apply,
    "__rsub__": _swapped(e.Sub.apply),
    "__mul__": e.Mul.apply,
    "__rmul__": _swapped(e.Mul.apply),
    "__truediv__": e.Div.apply,
    "__rtruediv__": _swapped(e.Div.apply),
    "__pow__": power,
    "__rpow__": _swapped(e.Pow.apply),
    "__matmul__": Matmul.apply,
    "__rmatmul__": _swapped(Matmul.apply),
    "__neg__": e.Neg.apply,
    "__pos__": lambda x: x,
    "__abs__": e.Abs.apply,
    "__and__": e.And.apply,
    "__or__": e.Or.apply,
    "__xor__": e.Xor.apply,
    "__invert__": e.Not.apply,
    "__getitem__": getitem,
    "__setitem__": setitem,
    "add_": i.AddInPlace.apply,
    "sub_": i.SubInPlace.apply,
    "mul_": i.MulInPlace.apply,
    "div_": i.DivInPlace.apply,
    "pow_": pow_,
    "exp_": i.ExpInPlace.apply,
    "clamp_": clamp_,
    "fill_": i.Fill.apply,
    "zero_": zero_,
    "copy_": i.Copy.apply,
    "__iadd__": i.AddInPlace.apply,
    "__isub__": i.SubInPlace.apply,
    "__imul__": i.MulInPlace.apply,
    "__itruediv__": i.DivInPlace.apply,
}

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
describe(FUNCTIONS, METHODS)
