"""Part: a gradient that is zero outside one place, kept as that place alone until it is added."""

from typing import Any

import numpy as np

from .saved import Array


class Part:
    """Zeros of `shape` with `values` added at `index`: what the rule of `x[index]` gives.

    Two thousand slices of one vector would make two thousand vectors of zeros, and add them up; the
    engine adds each part to what the vector has received so far. A rule on arrays may return one
    for an argument; whoever else sees it, sees it whole.   Keeps: the values and the index.
    """

    __slots__ = ("index", "shape", "values")

    def __init__(self, values: Array, index: Any, shape: tuple[int, ...]) -> None:
        self.values = values
        self.index = index
        self.shape = shape

    @property
    def dtype(self) -> Any:
        """That of the values."""
        return self.values.dtype

    def whole(self) -> Array:
        """The gradient with its zeros."""
        values = self.values
        if type(values) is np.ndarray:
            total: Array = np.zeros(self.shape, values.dtype)
        else:  # of another library, as the values are
            total = np.zeros_like(values, shape=self.shape)
        self.add_to(total)
        return total

    def add_to(self, total: Array) -> None:
        """Add the values to `total` in place; an element chosen twice gets both."""
        if is_basic(self.index):
            total[self.index] += self.values
        else:
            np.add.at(total, self.index, self.values)


_BASIC = frozenset((int, slice, type(None), type(...)))


def is_basic(index: Any) -> bool:
    """Whether NumPy answers `x[index]` with a view: integers, slices, None and `...` only."""
    for part in index if type(index) is tuple else (index,):
        if type(part) not in _BASIC and not isinstance(part, np.integer):
            return False
    return True
