"""The shipped digits are the ones the source has, and their split is the same everywhere."""

import gzip
import hashlib
from importlib import resources

import numpy as np
import pytest

from lucid_mini.data import load_digits, split

FOLDER = resources.files("lucid_mini.data")


def test_there_are_1797_images_of_64_pixels_with_a_label_each():
    pixels, labels = load_digits()
    assert pixels.shape == (1797, 64)
    assert labels.shape == (1797,)
    assert pixels.dtype == np.float64
    assert labels.dtype == np.int64
    assert (pixels.nbytes, labels.nbytes) == (920_064, 14_376)  # what the docstring says


def test_every_digit_occurs_as_often_as_in_the_source():
    _, labels = load_digits()
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_pixels_are_sixteenths_from_0_to_1():
    pixels, _ = load_digits()
    assert (pixels.min(), pixels.max()) == (0.0, 1.0)
    assert (pixels * 16 == np.round(pixels * 16)).all()


def test_the_ink_adds_up_to_what_the_source_has():
    pixels, labels = load_digits()
    assert pixels.sum() * 16 == 561_718
    assert labels.sum() == 8_070
    # and digit by digit: each label stands beside its own pixels
    assert pixels[labels == 1].sum() * 16 == 57_007
    assert pixels[labels == 8].sum() * 16 == 57_408


def test_the_first_image_is_a_zero_and_looks_like_one():
    pixels, labels = load_digits()
    rows = ["".join("#" if ink > 0.5 else "." for ink in row) for row in pixels[0].reshape(8, 8)]
    assert labels[0] == 0
    assert rows == [
        "...##...",
        "..####..",
        "..#..#..",
        "..#.....",
        ".....#..",
        "..#..#..",
        "..#.##..",
        "...##...",
    ]


def test_two_reads_are_equal_and_share_no_memory():
    first, second = load_digits(), load_digits()
    for a, b in zip(first, second, strict=True):
        assert (a == b).all()
        assert not np.shares_memory(a, b)
        a[...] = 0  # a caller may write into what it got
    assert load_digits()[0].sum() * 16 == 561_718


def test_the_readme_states_the_checksum_licence_and_source_of_the_file():
    readme = FOLDER.joinpath("README.md").read_text(encoding="utf-8")
    text = gzip.decompress(FOLDER.joinpath("digits.csv.gz").read_bytes())
    assert hashlib.sha256(text).hexdigest() in readme
    for fact in ("CC BY 4.0", "10.24432/C50P49", "Alpaydin", "Kaynak", "1998"):
        assert fact in readme


def test_the_file_carries_no_time_stamp():
    header = FOLDER.joinpath("digits.csv.gz").read_bytes()[:8]
    assert header[4:8] == bytes(4)


def test_a_split_parts_every_example_once():
    train, test = split(1797)
    assert (len(train), len(test)) == (1438, 359)
    assert sorted([*train, *test]) == list(range(1797))
    assert train.dtype == test.dtype == np.int64


def test_a_split_is_the_same_on_every_machine():
    train, test = split(10, seed=0, test_fraction=0.3)
    assert train.tolist() == [8, 6, 0, 7, 4, 5, 9]
    assert test.tolist() == [3, 2, 1]


def test_another_seed_gives_another_split():
    assert split(1797, seed=0)[1].tolist() != split(1797, seed=1)[1].tolist()


def test_a_split_has_every_digit_on_both_sides():
    _, labels = load_digits()
    for part in split(len(labels)):
        assert np.bincount(labels[part]).min() > 0


@pytest.mark.parametrize(("fraction", "sizes"), [(0, (5, 0)), (1, (0, 5)), (0.5, (3, 2))])
def test_a_test_fraction_may_be_nothing_or_all(fraction, sizes):
    train, test = split(5, test_fraction=fraction)
    assert (len(train), len(test)) == sizes


def test_nothing_can_be_split_into_nothing():
    train, test = split(0)
    assert (len(train), len(test)) == (0, 0)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_test_fraction_outside_0_to_1_is_refused_with_its_value(fraction):
    with pytest.raises(ValueError, match=rf"test_fraction is {fraction}, pass one from 0 to 1"):
        split(10, test_fraction=fraction)


def test_a_negative_number_of_examples_is_refused_with_its_value():
    with pytest.raises(ValueError, match="n is -1"):
        split(-1)
