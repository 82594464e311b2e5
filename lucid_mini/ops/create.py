"""Tensors out of nothing. Every one is a leaf."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..autograd.tensor import Tensor, from_numpy, tensor
from .operands import Array

_generator: Any = None  # made when first asked for: importing numpy.random takes a while


def manual_seed(seed: int) -> None:
    """Let `rand` and `randn` start from `seed`: the same numbers on every machine.

    Example:
        >>> lm.manual_seed(7)
        >>> first = lm.rand(2)
        >>> lm.manual_seed(7)
        >>> lm.rand(2).tolist() == first.tolist()
        True
    """
    global _generator  # noqa: PLW0603 - one generator for the process, as NumPy and PyTorch have
    _generator = np.random.default_rng(seed)


def generator() -> Any:
    """The NumPy generator behind `rand` and `randn`: seed 0 until `manual_seed` sets another."""
    if _generator is None:
        manual_seed(0)
    return _generator


def generator_state() -> Any:
    """Where that generator stands, for `replayed`; None where nobody has asked for it yet."""
    return None if _generator is None else _generator.bit_generator.state


@contextmanager
def replayed(state: Any) -> Iterator[None]:
    """In the block `rand` and `randn` go on from `state`; after it, from where they are now."""
    global _generator  # noqa: PLW0603 - one generator for the process
    found, _generator = _generator, None
    if state is not None:
        manual_seed(0)
        _generator.bit_generator.state = state
    try:
        yield
    finally:
        _generator = found


def _made(array: Array, requires_grad: bool) -> Tensor:
    made = from_numpy(array)
    return made.requires_grad_() if requires_grad else made


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """`zeros(2, 3)` and `zeros((2, 3))` are the same."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape


def zeros(*shape: Any, dtype: DTypeLike = np.float64, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros, of the lengths given or of a tuple of them.   Bytes: 8 an element.

    Example:
        >>> lm.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
    """
    return _made(np.zeros(_shape(shape), dtype), requires_grad)


def ones(*shape: Any, dtype: DTypeLike = np.float64, requires_grad: bool = False) -> Tensor:
    """A tensor of ones, of the lengths given or of a tuple of them.   Bytes: 8 an element.

    Example:
        >>> lm.ones(2, dtype="float32")
        tensor([1., 1.], dtype=float32)
    """
    return _made(np.ones(_shape(shape), dtype), requires_grad)


def full(
    shape: Any, fill_value: float, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of one value throughout; its dtype is the value's.   Shape: the first argument.

    Example:
        >>> lm.full((2, 2), 7.0)
        tensor([[7., 7.],
                [7., 7.]])
    """
    return _made(np.full(_shape((shape,)), fill_value, dtype), requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: DTypeLike = np.float64, requires_grad: bool = False
) -> Tensor:
    """A matrix (n, m) with ones on its diagonal; m is n by default.   Bytes: 8 an element.

    Example:
        >>> lm.eye(2, 3)
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    return _made(np.eye(n, m, dtype=dtype), requires_grad)


def arange(*bounds: float, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """`arange(end)`, `arange(start, end)`, `arange(start, end, step)`: evenly spaced numbers.

    Shape: one dimension. The end is left out. Integers where all bounds are.

    Example:
        >>> lm.arange(4), lm.arange(1, 2, 0.25)
        (tensor([0, 1, 2, 3]), tensor([1.  , 1.25, 1.5 , 1.75]))
    """
    return _made(np.arange(*bounds, dtype=dtype), requires_grad)


def rand(*shape: Any, dtype: DTypeLike = np.float64, requires_grad: bool = False) -> Tensor:
    """Uniform random numbers in [0, 1), from the generator that `manual_seed` sets.

    Shape: the lengths given, or a tuple of them.   Bytes: 8 an element.

    Example:
        >>> lm.rand(2, 2)
        tensor([[0.637 , 0.2698],
                [0.041 , 0.0165]])
    """
    return _made(
        np.asarray(generator().random(_shape(shape))).astype(dtype, copy=False), requires_grad
    )


def randn(*shape: Any, dtype: DTypeLike = np.float64, requires_grad: bool = False) -> Tensor:
    """Standard normal random numbers, from the generator that `manual_seed` sets.

    Shape: the lengths given, or a tuple of them.   Bytes: 8 an element.

    Example:
        >>> lm.randn(3)
        tensor([ 0.1257, -0.1321,  0.6404])
    """
    values = np.asarray(generator().standard_normal(_shape(shape)))
    return _made(values.astype(dtype, copy=False), requires_grad)


def zeros_like(x: Tensor, *, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the shape and dtype of `x`.

    Example:
        >>> lm.zeros_like(lm.tensor([1, 2]))
        tensor([0, 0])
    """
    return zeros(x.shape, dtype=dtype or x.dtype, requires_grad=requires_grad)


def ones_like(x: Tensor, *, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Ones of the shape and dtype of `x`.

    Example:
        >>> lm.ones_like(lm.tensor([1.0, 2.0]))
        tensor([1., 1.])
    """
    return ones(x.shape, dtype=dtype or x.dtype, requires_grad=requires_grad)


def full_like(
    x: Tensor, fill_value: float, *, dtype: DTypeLike | None = None, requires_grad: bool = False
) -> Tensor:
    """One value throughout, of the shape and dtype of `x`.

    Example:
        >>> lm.full_like(lm.tensor([1.0, 2.0]), 7)
        tensor([7., 7.])
    """
    return full(x.shape, fill_value, dtype=dtype or x.dtype, requires_grad=requires_grad)


def as_tensor(data: Any, dtype: DTypeLike | None = None) -> Tensor:
    """`data` as a tensor: itself if it is one, on the memory of an array, else a copy.

    Bytes: none, or those of the copy.   Raises: TypeError for what holds no numbers.

    Example:
        >>> x = lm.ones(2)
        >>> lm.as_tensor(x) is x, lm.as_tensor([1.0, 2.0])
        (True, tensor([1., 2.]))
    """
    if type(data) is Tensor:
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == np.dtype(dtype)):
        return from_numpy(data)
    return tensor(data, dtype=dtype)


def is_tensor(x: Any) -> bool:
    """Whether `x` is a Tensor.

    Example:
        >>> lm.is_tensor(lm.ones(2)), lm.is_tensor(np.ones(2))
        (True, False)
    """
    return type(x) is Tensor
