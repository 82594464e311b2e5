"""TorchArray: a tensor of PyTorch that speaks the dialect of NumPy.

A `lucid_mini.Tensor` stands on an array. Put one of these under it, and every op of lucid_mini
computes on PyTorch: operators and NumPy functions hand the call over by NumPy's own protocols
(`__array_ufunc__`, `__array_function__`), so that neither the ops nor a reader's Function knows.

    y = fresh(np.exp(x._data))     an array: NumPy computes.     a TorchArray: torch.exp does.

What the two libraries both have is here; any other name is a TypeError that says so. Where PyTorch
records (in a rule under `create_graph`), an in-place operation makes a new tensor and puts it into
the same TorchArray: a write would spoil what the recorded ops have saved. If a view shares the
memory it writes all the same, for the view must see it; PyTorch then says what is spoilt.
"""

import operator
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..ops.operands import FOREIGN, axes_of
from .installed import torch


class OutsideError(TypeError, AttributeError):
    """A name that NumPy has, and PyTorch has not or not alike. (`hasattr` must still answer.)."""


def _refuse(name: str, hint: str = "") -> NoReturn:
    short = name.partition(".")[2].partition(" ")[0]
    there = f" and torch.{short}" if hasattr(torch, short) else ""
    hint = hint or (
        "Use an operator or a function that both have (x * y, x.sum(axis), lm.exp(x), np.where), "
        f"or write this Function for PyTorch, with a torch.autograd.Function{there}."
    )
    raise OutsideError(f"{name} does not reach PyTorch over the bridge. {hint}")


_DTYPES: dict[Any, Any] = {
    getattr(torch, name): np.dtype(name)
    for name in (
        *("float16", "float32", "float64", "complex64", "complex128"),
        *("bool", "uint8", "int8", "int16", "int32", "int64"),
    )
}
_TO_TORCH = {ours: theirs for theirs, ours in _DTYPES.items()}


def dtype_of(tensor: Any) -> np.dtype[Any]:
    """The NumPy dtype of a tensor of PyTorch.

    Raises: TypeError for one that NumPy has not, such as bfloat16.
    """
    try:
        found: np.dtype[Any] = _DTYPES[tensor.dtype]
    except KeyError:
        raise TypeError(
            f"a tensor of {tensor.dtype} has no dtype in NumPy, on which rules of lucid_mini count;"
            " convert it first, with x.float()"
        ) from None
    return found


def torch_dtype(dtype: Any) -> Any:
    """The dtype of PyTorch for a NumPy dtype.

    Raises: TypeError for one that PyTorch has not, such as longdouble.
    """
    try:
        return _TO_TORCH[np.dtype(dtype)]
    except KeyError:
        _refuse(f"dtype {np.dtype(dtype)}", "PyTorch has no such dtype; use float64 or float32.")


class TorchArray(NDArrayOperatorsMixin):
    """A tensor of PyTorch under the names of an ndarray.

    Keeps: the tensor, `.torch`. Bytes: its own.
    """

    __slots__ = ("__weakref__", "family", "torch")

    base = None  # PyTorch keeps account of views itself
    flags = SimpleNamespace(writeable=True)

    def __init__(self, tensor: Any) -> None:
        self.torch = tensor
        #: Weak references to those that lie in the same memory as views, itself included: those
        #: that were made while PyTorch records.
        self.family: list[weakref.ref[TorchArray]] = []

    # -- what it is -----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return tuple(self.torch.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self.torch.ndim)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self.torch.numel())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return dtype_of(self.torch)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return int(self.torch.numel() * self.torch.element_size())

    @property
    def T(self) -> "TorchArray":  # noqa: N802 - NumPy's name
        """The axes in reverse order; a view."""
        return self.transpose()

    def __len__(self) -> int:
        return len(self.torch)

    def __bool__(self) -> bool:
        return bool(self.torch)

    def __float__(self) -> float:
        return float(self.torch)

    def __int__(self) -> int:
        return int(self.torch)

    def __index__(self) -> int:
        return int(self.torch.__index__())

    def __format__(self, spec: str) -> str:
        return format(self.torch, spec)

    def __repr__(self) -> str:
        return f"TorchArray({self.torch!r})"

    def item(self) -> Any:
        """The one element, as a Python number."""
        return self.torch.item()

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self.torch.tolist()

    def view(self) -> Any:
        """The numbers as a NumPy array, read-only and without history: for those who look."""
        numbers = self.torch.detach().cpu().numpy()
        numbers.setflags(write=False)
        return numbers

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        _refuse("np.asarray", "It would leave PyTorch unseen; x.numpy() says that it is meant.")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        _refuse(f"x.{name}")

    # -- elements -------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> "TorchArray":
        return self.view_as(self.torch[index_for(self.torch, index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        index = index_for(self.torch, index)
        written = self.torch.clone() if self.replaced_by_writes() else self.torch
        written[index] = given(value, self.torch)
        self.torch = written

    def view_as(self, tensor: Any) -> "TorchArray":
        """A TorchArray on `tensor`, which may be a view of this one's."""
        made = TorchArray(tensor)
        return made if tensor._base is None else self._kin(made)

    def _kin(self, made: "TorchArray") -> "TorchArray":
        """`made`, noted as one that lies in the same memory."""
        if torch.is_grad_enabled():
            self.family = self.family or [weakref.ref(self)]
            self.family.append(weakref.ref(made))
            made.family = self.family
        return made

    def replaced_by_writes(self) -> bool:
        """Whether a write makes a new tensor."""
        living = [other for ref in self.family if (other := ref()) is not None]
        return bool(torch.is_grad_enabled()) and all(other is self for other in living)

    def become(self, result: Any) -> None:
        """Take over the elements of `result`, a tensor: in place, unless that is being recorded."""
        if self.replaced_by_writes():
            self.torch = result.to(self.torch.dtype).expand(self.torch.shape)
        else:
            self.torch.copy_(result)

    def detach(self) -> "TorchArray":
        """The same memory, without the history that PyTorch has recorded."""
        return self._kin(TorchArray(self.torch.detach()))

    def copy(self) -> "TorchArray":
        """A copy."""
        return TorchArray(self.torch.clone())

    def astype(self, dtype: Any, copy: bool = True) -> "TorchArray":
        """A copy in another dtype; with `copy=False` itself where it has that dtype."""
        return TorchArray(self.torch.to(torch_dtype(dtype), copy=copy))

    # -- shapes ---------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> "TorchArray":
        """The same elements under another shape."""
        return self.view_as(self.torch.reshape(_several(shape)))

    def transpose(self, *axes: Any) -> "TorchArray":
        """The axes in the order given, or reversed; a view."""
        order = _several(axes) or tuple(range(self.torch.ndim))[::-1]
        return self.view_as(self.torch.permute(order))

    def swapaxes(self, a: int, b: int) -> "TorchArray":
        """Two axes exchanged; a view."""
        return self.view_as(self.torch.transpose(a, b))

    def dot(self, other: Any) -> "TorchArray":
        """The product of two matrices."""
        return TorchArray(self.torch @ given(other, self.torch))

    # -- over axes ------------------------------------------------------------------------------

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> "TorchArray":
        """The sum over `axis` (None: all)."""
        return _sum(self, axis, dtype, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> "TorchArray":
        """The mean over `axis` (None: all)."""
        return _mean(self, axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> "TorchArray":
        """The product over `axis` (None: all)."""
        return _prod(self, axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> "TorchArray":
        """The largest element over `axis` (None: all)."""
        return _max(self, axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> "TorchArray":
        """The smallest element over `axis` (None: all)."""
        return _min(self, axis, keepdims=keepdims)

    def any(self) -> "TorchArray":
        """Whether one element holds."""
        return TorchArray(self.torch.any())

    def all(self) -> "TorchArray":
        """Whether every element holds."""
        return TorchArray(self.torch.all())

    def cumsum(self, axis: int) -> "TorchArray":
        """Running sums."""
        return TorchArray(self.torch.cumsum(axis))

    # -- NumPy's protocols ----------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        function = _UFUNCS.get(name)
        (target,) = options.pop("out", None) or (None,)
        if function is None or not (target is None or isinstance(target, TorchArray)):
            _refuse(f"np.{name}")
        try:
            result = function(*inputs, **options)
        except OutsideError:
            raise
        except TypeError as error:
            _refuse(f"np.{name} with these arguments", f"PyTorch says: {error}.")
        if target is None:
            return result
        target.become(result.torch)
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        ours = _FUNCTIONS.get(function)
        if ours is None:
            _refuse(f"np.{function.__name__}")
        return ours(*args, **options)


FOREIGN.add(TorchArray)


# -- what goes in ---------------------------------------------------------------------------------


def given(value: Any, like: Any) -> Any:
    """An operand for PyTorch: tensors and arrays as tensors beside `like`, numbers as they are.

    An array without dimensions is a number, too: it goes to no device, and raises no dtype.
    """
    if isinstance(value, TorchArray):
        return value.torch
    if isinstance(value, np.ndarray) and value.ndim:
        return tensor_of(value, like.device)
    return value.item() if isinstance(value, np.ndarray | np.generic) else value


def tensor_of(array: Any, device: Any) -> Any:
    """An array of NumPy as a tensor on `device`: a copy."""
    torch_dtype(array.dtype)
    return torch.tensor(np.ascontiguousarray(array).reshape(array.shape), device=device)


def _tensors(*values: Any) -> list[Any]:
    """`values` as tensors, numbers with the dtype of the others."""
    like = next(value.torch for value in values if isinstance(value, TorchArray))
    made = [given(value, like) for value in values]
    return [
        value
        if isinstance(value, torch.Tensor)
        else torch.tensor(value, dtype=None if isinstance(value, bool) else like.dtype).to(
            like.device
        )
        for value in made
    ]


def index_for(tensor: Any, index: Any) -> Any:
    """An index of NumPy as PyTorch takes it.

    Raises: TypeError for a step below 0.
    """
    if isinstance(index, tuple):
        return tuple([index_for(tensor, part) for part in index])
    if isinstance(index, slice) and index.step is not None and index.step < 0:
        _refuse("a slice with a step below 0", "PyTorch has none; write x.flip(dim) there.")
    if isinstance(index, list):
        index = np.asarray(index)
    found = given(index, tensor)
    if isinstance(found, torch.Tensor) and found.dtype != torch.bool:
        return found.long()
    return found


def _several(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`reshape(2, 3)` and `reshape((2, 3))` are the same."""
    one = len(values) == 1 and isinstance(values[0], tuple | list)
    return tuple(values[0]) if one else values


# -- ufuncs ---------------------------------------------------------------------------------------


def _operator(function: Callable[..., Any]) -> Callable[..., TorchArray]:
    """A ufunc that is an operator of Python: numbers keep their weak dtype."""

    def compute(*values: Any) -> TorchArray:
        like = next(value.torch for value in values if isinstance(value, TorchArray))
        return TorchArray(function(*[given(value, like) for value in values]))

    return compute


def _named(function: Callable[..., Any]) -> Callable[..., TorchArray]:
    """A ufunc that PyTorch has as a function of tensors."""

    def compute(*values: Any) -> TorchArray:
        return TorchArray(function(*_tensors(*values)))

    return compute


def _sum(
    x: TorchArray, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False
) -> TorchArray:
    axes = axes_of(axis, x.ndim)
    wanted = None if dtype is None else torch_dtype(dtype)
    if not axes:  # PyTorch takes () for all
        return TorchArray(x.torch.clone() if wanted is None else x.torch.to(wanted, copy=True))
    return TorchArray(x.torch.sum(axes, keepdim=keepdims, dtype=wanted))


def _mean(
    x: TorchArray, axis: Any = None, dtype: None = None, out: None = None, keepdims: bool = False
) -> TorchArray:
    axes = axes_of(axis, x.ndim)
    return TorchArray(x.torch.mean(axes, keepdim=keepdims)) if axes else x.copy()


def _prod(
    x: TorchArray, axis: Any = None, dtype: None = None, out: None = None, keepdims: bool = False
) -> TorchArray:
    result = x.torch
    for one in reversed(axes_of(axis, x.ndim)):
        result = result.prod(one, keepdim=keepdims)
    return TorchArray(result.clone() if result is x.torch else result)


def _extreme(name: str, pairwise: Callable[..., Any]) -> Callable[..., TorchArray]:
    choose = getattr(torch, name)

    def extreme(
        x: TorchArray,
        axis: Any = None,
        dtype: None = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
    ) -> TorchArray:
        axes, tensor = axes_of(axis, x.ndim), x.torch
        if not axes:
            return x.copy()
        if initial is not None and not tensor.numel():
            shape = [1 if a in axes else n for a, n in enumerate(tensor.shape)]
            start = tensor.new_full(shape, initial)
            tensor = start if keepdims else start.squeeze(axes)
        else:
            tensor = choose(tensor, dim=axes, keepdim=keepdims)
        if initial is not None:
            tensor = pairwise(tensor, tensor.new_tensor(initial))
        return TorchArray(tensor)

    return extreme


_max, _min = _extreme("amax", torch.maximum), _extreme("amin", torch.minimum)


def _reduce(over: Callable[..., TorchArray]) -> Callable[..., TorchArray]:
    """`ufunc.reduce` goes over the first axis where none is given, `np.sum` over all."""
    return lambda x, axis=0, **options: over(x, axis, **options)


def _add_at(target: Any, index: Any, values: Any) -> None:
    """`np.add.at`: an element chosen twice gets both."""
    if not isinstance(target, TorchArray):
        _refuse("np.add.at into an array of NumPy", "Make it with np.zeros_like(x, shape=shape).")
    tensor = target.torch
    places = torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape)
    places = places[index_for(tensor, index)]
    added = torch.as_tensor(given(values, tensor), dtype=tensor.dtype, device=tensor.device)
    added = added.expand(places.shape).reshape(-1)
    flat = tensor.reshape(-1).index_add(0, places.reshape(-1), added)
    target.become(flat.reshape(tensor.shape))


_UFUNCS: dict[str, Callable[..., Any]] = {
    **{
        name: _operator(getattr(operator, python))
        for name, python in {
            "add": "add",
            "subtract": "sub",
            "multiply": "mul",
            "divide": "truediv",
            "power": "pow",
            "matmul": "matmul",
            "negative": "neg",
            "positive": "pos",
            "absolute": "abs",
            "equal": "eq",
            "not_equal": "ne",
            "less": "lt",
            "less_equal": "le",
            "greater": "gt",
            "greater_equal": "ge",
            "bitwise_and": "and_",
            "bitwise_or": "or_",
            "bitwise_xor": "xor",
            "invert": "invert",
        }.items()
    },
    **{
        name: _named(getattr(torch, name))
        for name in (
            *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square"),
            *("sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan"),
            *("sign", "floor", "ceil", "reciprocal", "maximum", "minimum", "logaddexp", "hypot"),
            *("isnan", "isinf", "isfinite", "logical_and", "logical_or", "logical_not"),
        )
    },
    "add.reduce": _reduce(_sum),
    "multiply.reduce": _reduce(_prod),
    "maximum.reduce": _reduce(_max),
    "minimum.reduce": _reduce(_min),
    "add.at": _add_at,
}


# -- functions ------------------------------------------------------------------------------------


def _where(condition: Any, x: Any, y: Any) -> TorchArray:
    like = next(part.torch for part in (x, y, condition) if isinstance(part, TorchArray))
    chosen = torch.as_tensor(given(condition, like), device=like.device)
    return TorchArray(torch.where(chosen, given(x, like), given(y, like)))


def _clip(
    x: TorchArray, low: Any = None, high: Any = None, out: TorchArray | None = None
) -> TorchArray:
    result = x.torch.clamp(given(low, x.torch), given(high, x.torch))
    if out is None:
        return TorchArray(result)
    out.become(result)
    return out


def _together(join: Callable[..., Any]) -> Callable[..., TorchArray]:
    def joined(arrays: Any, axis: int = 0) -> TorchArray:
        return TorchArray(join(_tensors(*arrays), dim=axis))

    return joined


def _chosen(name: str) -> Callable[..., TorchArray]:
    choose = getattr(torch, name)

    def arg(
        x: TorchArray, axis: int | None = None, out: None = None, keepdims: bool = False
    ) -> TorchArray:
        return TorchArray(choose(x.torch, dim=axis, keepdim=keepdims))

    return arg


def _filled(value: float) -> Callable[..., TorchArray]:
    def filled(x: TorchArray, dtype: Any = None, *, shape: Any = None) -> TorchArray:
        wanted = x.torch.dtype if dtype is None else torch_dtype(dtype)
        size = x.torch.shape if shape is None else tuple(shape)
        return TorchArray(x.torch.new_full(size, value, dtype=wanted))

    return filled


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.sum: _sum,
    np.mean: _mean,
    np.prod: _prod,
    np.max: _max,
    np.amax: _max,
    np.min: _min,
    np.amin: _min,
    np.argmax: _chosen("argmax"),
    np.argmin: _chosen("argmin"),
    np.cumsum: lambda x, axis: x.cumsum(axis),
    np.concatenate: _together(torch.cat),
    np.stack: _together(torch.stack),
    np.zeros_like: _filled(0),
    np.ones_like: _filled(1),
    np.broadcast_to: lambda x, shape: x.view_as(x.torch.expand(shape)),
    np.moveaxis: lambda x, a, b: x.view_as(x.torch.movedim(a, b)),
    np.transpose: lambda x, axes=(): x.transpose(axes),
    np.swapaxes: lambda x, a, b: x.swapaxes(a, b),
    np.reshape: lambda x, shape: x.reshape(shape),
    np.dot: lambda a, b: TorchArray(operator.matmul(*_tensors(a, b))),
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.array2string: lambda x, *args, **options: np.array2string(x.view(), *args, **options),
}
