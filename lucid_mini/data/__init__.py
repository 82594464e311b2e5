"""The handwritten digits that the tour and the book train on: shipped, never downloaded."""

import gzip
from importlib import resources

import numpy as np
from numpy.typing import NDArray

__all__ = ["load_digits", "split"]


def load_digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read the 1797 images and their labels, in the order of the source.

    Shape: pixels (1797, 64) in 0..1, row by row of an 8 × 8 image; labels (1797,) in 0..9.
    Bytes: 920 064 for the pixels, 14 376 for the labels; new arrays at each call, nothing cached.
    Source: UCI Machine Learning Repository, E. Alpaydin and C. Kaynak, 1998,
    DOI 10.24432/C50P49, CC BY 4.0; `README.md` beside this file tells how it was converted.

    Returns:
        The pixels and the labels.
    """
    packed = resources.files(__name__).joinpath("digits.csv.gz").read_bytes()
    lines = gzip.decompress(packed).decode("ascii").splitlines()
    rows = np.loadtxt(lines, dtype=np.uint8, delimiter=",")
    # 16 levels of ink: a division by a power of two loses nothing.
    return rows[:, :64] / np.float64(16), rows[:, 64].astype(np.int64)


def split(
    n: int, seed: int = 0, test_fraction: float = 0.2
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Shuffle the numbers 0..n-1 and part them into training and test indices.

    The same arguments give the same split on every machine and with every NumPy version.

    Shape: train (n - k,) and test (k,), where k is `n * test_fraction` rounded.
    Bytes: 8 n for both together.

    Args:
        n: How many examples there are.
        seed: Another seed gives another split.
        test_fraction: The part of them kept for the test, from 0 to 1.

    Returns:
        The indices to train on and those to test on.

    Raises:
        ValueError: if n is negative or test_fraction is outside 0..1.
    """
    if n < 0:
        raise ValueError(f"split: n is {n}, but nothing has fewer than 0 examples.")
    if not 0 <= test_fraction <= 1:
        raise ValueError(f"split: test_fraction is {test_fraction}, pass one from 0 to 1.")
    # Raw bits, because NumPy promises never to change them; Generator.permutation it may.
    order = np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable").astype(np.int64)
    k = round(n * test_fraction)
    return order[k:], order[:k]
