"""What ops do around their computation: wrap results, align dtypes, read dimensions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..autograd.tensor import Tensor

Array = NDArray[Any]

#: Types of arrays beside NumPy's that a tensor may stand on: a bridge to another library adds its
#: own. They answer to NumPy's functions by `__array_ufunc__` and `__array_function__`.
FOREIGN: set[type] = set()

_KIND = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_new = object.__new__


def fresh(value: Any) -> Tensor:
    """A tensor on what NumPy just computed; NumPy gives a scalar where the result has no dimension.

    The same as `wrap`, written out: each op calls it once.
    """
    tensor: Tensor = _new(Tensor)
    if type(value) is np.ndarray or type(value) in FOREIGN:
        tensor._data = value
    else:
        tensor._data = np.asarray(value)
    tensor._node = tensor._grad = tensor._memory = tensor._base = None
    tensor._output_nr = 0
    return tensor


def aligned(x: Array, y: Array) -> tuple[Array, Array]:
    """Two arrays of unlike dtypes, cast as PyTorch would.

    The higher kind wins (bool < integer < floating); within a kind a tensor with dimensions wins
    over one without, and otherwise the wider dtype. NumPy alone would turn float32[n] * float64[]
    into float64[n], twice the bytes.
    """
    kind_x, kind_y = _KIND[x.dtype.kind], _KIND[y.dtype.kind]
    if kind_x != kind_y:
        dtype = x.dtype if kind_x > kind_y else y.dtype
    elif (x.ndim == 0) != (y.ndim == 0):
        dtype = x.dtype if x.ndim else y.dtype
    else:
        dtype = np.promote_types(x.dtype, y.dtype)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


def number(value: Any) -> Any:
    """A NumPy scalar as the Python number: NumPy lets it raise a dtype, and PyTorch does not."""
    return value.item() if isinstance(value, np.generic) else value


def axes_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions `dim` names (None: all), as non-negative numbers in ascending order.

    Raises: IndexError for one out of range, ValueError for one named twice.
    """
    if dim is None:
        return tuple(range(ndim))
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    axes = sorted(axis_of(d, ndim) for d in dims)
    if len(set(axes)) != len(axes):
        raise ValueError(f"dimension named twice in {dim}; name each once")
    return tuple(axes) if ndim else ()  # a tensor without dimensions still answers to 0 and -1


def axis_of(dim: int, ndim: int) -> int:
    """`dim` as a non-negative number.

    Raises: IndexError out of range.
    """
    span = max(ndim, 1)
    if not -span <= dim < span:
        raise IndexError(
            f"dimension {dim} is out of range for a tensor of {ndim} dimensions; use one from "
            f"{-span} to {span - 1}"
        )
    return dim % span


def one_name(dim: Any, axis: Any, keepdim: bool, keepdims: bool | None) -> tuple[Any, bool]:
    """`dim`/`keepdim` as PyTorch writes them, or `axis`/`keepdims` as NumPy does."""
    return (axis if dim is None else dim), (keepdim if keepdims is None else keepdims)
