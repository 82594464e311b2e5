"""Tensor: an array, and the node that made it.

What a tensor can do with other tensors (operators, `sum`, `reshape` …) is bound in `ops/table.py`.
"""

import warnings
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .. import events
from ..errors import NoGradientError, NotALeafError
from . import saved
from .inside import tensors_inside
from .mode import thread
from .node import AccumulateGrad
from .passes import backward
from .saved import INFERENCE, Memory, memory_of

Array = NDArray[Any]


class Tensor:
    """A NumPy array that remembers how it was made.

    Owns: its array, and `grad_fn`, the node that made it (a leaf: what fills its `.grad`).
    Made by `lm.tensor`, `lm.zeros` …, and by every op. `_base` is the tensor it is a view of, or
    None. `len`, `bool`, `float`, `int`, iteration, `format` and NumPy read it like an array.

    Example:
        >>> x = lm.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> x[0]._base is x, x[0, 1]._base is x  # views of one memory
        (True, True)
        >>> len(x), [float(row.sum()) for row in x], f"{x.sum():.1f}"
        (2, [3.0, 7.0], '10.0')
        >>> np.asarray(x).shape, x == x.clone()
        ((2, 2), tensor([[ True,  True],
                [ True,  True]]))
    """

    __slots__ = (
        "__weakref__",
        "_base",
        "_data",
        "_grad",
        "_memory",
        "_node",
        "_output_nr",
    )

    _base: "Tensor | None"  # the tensor this one is a view of
    _data: Array
    _grad: "Tensor | None"
    _memory: Memory | None  # the version counter, once somebody needs one
    _node: Any  # None: no gradient wanted; AccumulateGrad: a leaf; Node: what made it
    _output_nr: int

    # ndarray.__mul__(tensor) steps back and lets tensor.__rmul__ answer.
    __array_ufunc__ = None

    if TYPE_CHECKING:
        # Bound in ops/table.py; spelled out here for type checkers.
        def __add__(self, other: Any) -> "Tensor": ...
        def __radd__(self, other: Any) -> "Tensor": ...
        def __sub__(self, other: Any) -> "Tensor": ...
        def __rsub__(self, other: Any) -> "Tensor": ...
        def __mul__(self, other: Any) -> "Tensor": ...
        def __rmul__(self, other: Any) -> "Tensor": ...
        def __truediv__(self, other: Any) -> "Tensor": ...
        def __rtruediv__(self, other: Any) -> "Tensor": ...
        def __pow__(self, other: Any) -> "Tensor": ...
        def __rpow__(self, other: Any) -> "Tensor": ...
        def __matmul__(self, other: Any) -> "Tensor": ...
        def __rmatmul__(self, other: Any) -> "Tensor": ...
        def __neg__(self) -> "Tensor": ...
        def __abs__(self) -> "Tensor": ...
        def __lt__(self, other: Any) -> "Tensor": ...
        def __le__(self, other: Any) -> "Tensor": ...
        def __gt__(self, other: Any) -> "Tensor": ...
        def __ge__(self, other: Any) -> "Tensor": ...
        def __getitem__(self, index: Any) -> "Tensor": ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    def __init__(
        self, data: ArrayLike, *, dtype: DTypeLike | None = None, requires_grad: bool = False
    ) -> None:
        self._data = as_array(data, dtype)
        self._node = self._grad = self._memory = self._base = None
        self._output_nr = 0
        if thread.mode.inference:
            self._memory = INFERENCE
        if requires_grad:
            self.requires_grad_()
        if events.recorder is not None:
            events.recorder.created(self)

    def __init_subclass__(cls) -> None:
        raise TypeError(
            "Tensor cannot be subclassed; put what you need beside it, or into a Function"
        )

    # -- the array ------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension.

        Example:
            >>> lm.ones(2, 3).shape
            (2, 3)
        """
        return self._data.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        Example:
            >>> lm.ones(2, 3).ndim
            2
        """
        return self._data.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype.

        Example:
            >>> lm.tensor([1, 2]).dtype, lm.tensor([1.0]).dtype
            (dtype('int64'), dtype('float64'))
        """
        return self._data.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the elements. A view's are counted again here, though it owns none.

        Example:
            >>> x = lm.ones(3)
            >>> x.nbytes, x[:2].nbytes
            (24, 16)
        """
        return self._data.nbytes

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of dimension `dim`.

        Example:
            >>> x = lm.ones(2, 3)
            >>> x.size(), x.size(-1)
            ((2, 3), 3)
        """
        return self._data.shape if dim is None else self._data.shape[dim]

    def numel(self) -> int:
        """The number of elements.

        Example:
            >>> lm.ones(2, 3).numel()
            6
        """
        return self._data.size

    def dim(self) -> int:
        """The number of dimensions.

        Example:
            >>> lm.ones(2, 3).dim()
            2
        """
        return self._data.ndim

    def numpy(self) -> Array:
        """A read-only view of the array: no writable alias of a tensor's memory is handed out.

        Bytes: none of its own.

        Example:
            >>> lm.ones(2).numpy()[0] = 5
            Traceback (most recent call last):
                ...
            ValueError: assignment destination is read-only
        """
        if type(self._data) is not np.ndarray:
            return self._data.view()  # of another library: a copy or a view, as it can
        view = self._data[...]
        view.setflags(write=False)  # faster than `flags.writeable = False`
        return view

    data = property(
        numpy,
        doc="""A read-only view of the array, as `numpy()`.

        Example:
            >>> lm.ones(2).data
            array([1., 1.])
        """,
    )

    def item(self) -> Any:
        """The one element, as a Python number.

        Raises: ValueError for more or fewer elements.

        Example:
            >>> lm.tensor([2.5]).item()
            2.5
        """
        if self._data.size != 1:
            raise ValueError(
                f"a tensor of {self._data.size} elements is not one number; use tolist(), or index "
                "the element"
            )
        return self._data.item()

    def tolist(self) -> Any:
        """The elements as (nested) lists of Python numbers.

        Example:
            >>> lm.arange(4).reshape(2, 2).tolist()
            [[0, 1], [2, 3]]
        """
        return self._data.tolist()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy or (dtype is not None and np.dtype(dtype) != self._data.dtype):
            return np.array(self._data, dtype=dtype)
        return self.numpy()

    def __len__(self) -> int:
        if not self._data.ndim:
            raise TypeError("len() of a 0-d tensor; use numel() for the number of elements")
        return len(self._data)

    def __iter__(self) -> Iterator["Tensor"]:
        if not self._data.ndim:
            raise TypeError("iteration over a 0-d tensor; use item() for its number")
        # One node for all rows: n of them would each put theirs back into zeros of the whole.
        return iter(self.unbind())

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ValueError(
                f"a tensor of {self._data.size} elements has no single truth value; use "
                "(x > 0).numpy().all() or .any()"
            )
        return bool(self._data)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return int(self._data.__index__())

    def __format__(self, spec: str) -> str:
        return format(self._data.item(), spec) if self._data.ndim == 0 else format(str(self), spec)

    def __hash__(self) -> int:
        return id(self)

    def __copy__(self) -> "Tensor":
        return self._twin(self.detach())

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tensor":
        return self._twin(wrap(self._data.copy()))

    def _twin(self, twin: "Tensor") -> "Tensor":
        """`twin` with the history of this tensor, or as a leaf of its own where this is a leaf."""
        if self.is_leaf:
            return twin.requires_grad_(self.requires_grad)
        twin._node, twin._output_nr = self._node, self._output_nr
        return twin

    def __repr__(self) -> str:
        body = np.array2string(self._data, separator=", ", prefix="tensor(", precision=4)
        parts = [f"tensor({body}"]
        if not self._data.size and self._data.ndim > 1:
            parts.append(f"size={self._data.shape}")
        if self._data.dtype not in (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)):
            parts.append(f"dtype={self._data.dtype}")
        if not self.is_leaf:
            parts.append(f"grad_fn=<{self._node.name}>")
        elif self._node is not None:
            parts.append("requires_grad=True")
        return ", ".join(parts) + ")"

    # -- history --------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether backward computes a gradient for this tensor.

        Example:
            >>> x = lm.ones(2, requires_grad=True)
            >>> (x * 2).requires_grad, x.detach().requires_grad
            (True, False)
        """
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, flag: bool = True) -> "Tensor":
        """Switch `requires_grad`, in place.

        Raises: NotALeafError for a tensor with history, TypeError for a dtype that is not floating.

        Example:
            >>> lm.ones(2).requires_grad_()
            tensor([1., 1.], requires_grad=True)
        """
        if not self.is_leaf:
            if flag:
                return self
            raise NotALeafError(
                f"requires_grad of a tensor made by {self._node.label} cannot be switched off: it "
                "is not a leaf. Use .detach() for a tensor without that history."
            )
        if not flag:
            self._node = None
        elif self._node is None:
            if self._data.dtype.kind != "f":
                raise TypeError(
                    "only tensors of a floating dtype can require grad, and this one is "
                    f"{self._data.dtype}. Use .to(float)."
                )
            self._node = AccumulateGrad(self, self._data.shape, self._data.dtype)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor.

        Example:
            >>> x = lm.ones(2, requires_grad=True)
            >>> x.is_leaf, (x * 2).is_leaf, lm.ones(2).is_leaf
            (True, False, True)
        """
        return self._node is None or not self._node.sequence_nr

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor; None for a leaf.

        Example:
            >>> x = lm.ones(2, requires_grad=True)
            >>> x.exp().grad_fn.label, x.grad_fn
            ('exp#1', None)
        """
        return None if self.is_leaf else self._node

    @property
    def output_nr(self) -> int:
        """Which of the outputs of `grad_fn` this tensor is.

        Example:
            >>> [part.output_nr for part in lm.ones(4, requires_grad=True).split(2)]
            [0, 1]
        """
        return self._output_nr

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that backward passes have added up, or None. Of the shape of this tensor.

        Raises (when set): TypeError for what is no tensor, ValueError for another shape.

        Example:
            >>> x = lm.tensor(3.0, requires_grad=True)
            >>> (x * x).backward()
            >>> (x * x).backward()
            >>> x.grad  # 6 + 6
            tensor(12.)
        """
        return self._grad

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if value is not None:
            if type(value) is not Tensor:
                raise TypeError(f".grad takes a tensor or None, not {type(value).__name__}")
            if value._data.shape != self._data.shape:
                raise ValueError(
                    f".grad of a tensor of shape {self._data.shape} cannot have shape "
                    f"{value._data.shape}; give it the shape of its tensor"
                )
        self._grad = value

    def retain_grad(self) -> None:
        """Let backward fill `.grad` of this tensor although it is no leaf.

        Raises: NoGradientError for a tensor that does not require grad.

        Example:
            >>> x = lm.tensor(3.0, requires_grad=True)
            >>> y = x * x
            >>> y.retain_grad()
            >>> (y * 10).backward()
            >>> y.grad
            tensor(10.)
        """
        if self._node is None:
            raise NoGradientError(
                "retain_grad: this tensor does not require grad; nothing will be computed for it. "
                "Call requires_grad_() on a leaf it is computed from."
            )
        if not self.is_leaf:
            self._node._rare().retain[self._output_nr] = weakref.ref(self)

    def detach(self) -> "Tensor":
        """The same memory and version counter, without history.   Bytes: none of its own.

        Example:
            >>> x = lm.ones(2)
            >>> _ = x.detach().add_(1)
            >>> x
            tensor([2., 2.])
        """
        data: Any = self._data
        alias = wrap(data if type(data) is np.ndarray else data.detach())
        alias._memory = memory_of(self)
        return alias

    @property
    def _version(self) -> int:
        """How often this memory was written in place, through this tensor or any alias.

        Example:
            >>> x = lm.zeros(2)
            >>> _ = x[:1].add_(1)
            >>> x._version
            1
        """
        return 0 if self._memory is None else self._memory.version

    def backward(
        self,
        gradient: "Tensor | None" = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the derivative of this tensor to the `.grad` of every leaf it depends on.

        Shape: `gradient` has the shape of this tensor; for one element it may be left out and is 1.
        Keeps: nothing (`retain_graph`: what the graph has saved; `create_graph`: the graph of the
        gradients).
        Raises: NonScalarBackwardError, NoGradientError, GraphFreedError, and what the rules raise.

        Example:
            >>> x = lm.tensor([1.0, 2.0], requires_grad=True)
            >>> (x * x).backward(lm.tensor([1.0, 10.0]))
            >>> x.grad
            tensor([ 2., 40.])
        """
        backward([self], [gradient], retain_graph, create_graph, inputs)


_new = Tensor.__new__


def wrap(data: Array) -> Tensor:
    """A tensor on `data` itself: no copy, no history. For forwards that compute on arrays."""
    tensor = _new(Tensor)
    tensor._data = data
    tensor._node = tensor._grad = tensor._memory = tensor._base = None
    tensor._output_nr = 0
    return tensor


saved.wrap = wrap


def as_array(data: Any, dtype: DTypeLike | None = None) -> Array:
    """A fresh array of `data`, floats as float64.

    Raises: TypeError for objects: a cycle through an object array is never collected.
    """
    array = np.array(data, dtype=dtype)
    refuse_objects(array.dtype)
    return array


def refuse_objects(dtype: np.dtype[Any]) -> None:
    """Raise TypeError if `dtype` is not one of numbers."""
    if dtype.kind not in "biufc":
        raise TypeError(
            f"a tensor holds numbers, and this data has dtype {dtype}. Pass numbers of one kind, "
            f"or rows of one length."
        )


def tensor(data: Any, *, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """A new leaf with a copy of `data`. Python floats become float64.

    Bytes: those of the copy.   Raises: TypeError for objects, and for a dtype that cannot require
    grad.   Warns: UserWarning where a history is dropped.

    Example:
        >>> lm.tensor([[1, 2], [3, 4]], dtype=float, requires_grad=True)
        tensor([[1., 2.],
                [3., 4.]], requires_grad=True)
    """
    if type(data) is Tensor:
        warnings.warn(
            "lm.tensor(t) copies t and drops its history; write t.detach().clone() to say so, or "
            "t.clone() to keep it",
            UserWarning,
            stacklevel=2,
        )
        data = data._data
    elif isinstance(data, list | tuple):
        for path, item, _ in tensors_inside([data], 0, "data", closed=True):
            if item._node is not None:
                warnings.warn(
                    f"lm.tensor copies the numbers and drops the history of {path}; use lm.stack "
                    f"to keep it",
                    UserWarning,
                    stacklevel=2,
                )
                break
    return Tensor(data, dtype=dtype, requires_grad=requires_grad)


def from_numpy(array: Array) -> Tensor:
    """A tensor that shares memory with `array`: whoever writes the array changes the tensor unseen.

    Raises: TypeError for what is no array of numbers.

    Example:
        >>> a = np.zeros(2)
        >>> x = lm.from_numpy(a)
        >>> a[0] = 5.0
        >>> x, x._version  # no version tells of it
        (tensor([5., 0.]), 0)
    """
    if type(array) is not np.ndarray:
        if not isinstance(array, np.ndarray):
            raise TypeError(
                f"from_numpy takes a NumPy array, not {type(array).__name__}; use lm.tensor"
            )
        array = np.asarray(array)
    refuse_objects(array.dtype)
    made = wrap(array)
    if thread.mode.inference:
        made._memory = INFERENCE
    if events.recorder is not None:
        events.recorder.created(made)
    return made
