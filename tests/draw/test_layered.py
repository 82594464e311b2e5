"""The layout puts every arrow downwards, nothing over anything, and the same on every run."""

import random
from itertools import pairwise

import pytest

from lucid_mini.draw.layers import lay_out


def sizes_of(names):
    return dict.fromkeys(names, (80, 36))


def test_nothing_has_no_places():
    layered = lay_out({}, [])
    assert (layered.boxes, layered.routes) == ({}, ())


def test_a_chain_is_one_straight_column():
    layered = lay_out(sizes_of("abc"), [("a", "b"), ("b", "c")], pitch=70)
    assert [layered.boxes[name][:2] for name in "abc"] == [(14, 14), (14, 84), (14, 154)]
    assert layered.routes[0] == ((54, 50), (54, 84))
    assert (layered.width, layered.height) == (108, 204)


def test_a_leaf_stands_just_above_the_first_that_uses_it():
    layered = lay_out(sizes_of("axbc"), [("a", "b"), ("b", "c"), ("x", "c")])
    assert layered.boxes["x"].y == layered.boxes["b"].y


def test_arms_that_could_cross_do_not():
    edges = [("a", "c"), ("a", "d"), ("c", "e"), ("d", "f"), ("e", "g"), ("f", "g")]
    boxes = lay_out(sizes_of("acdfeg"), edges).boxes
    assert (boxes["c"].x < boxes["d"].x) == (boxes["e"].x < boxes["f"].x)


def test_two_arrows_between_two_boxes_are_two():
    layered = lay_out(sizes_of("ab"), [("a", "b"), ("a", "b")])
    first, second = layered.routes
    assert first != second
    assert abs(first[0][0] - second[0][0]) == 14


def test_a_long_arrow_passes_beside_the_boxes_in_between():
    edges = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    layered = lay_out(sizes_of("abcd"), edges)
    for x, y in layered.routes[3][1:-1]:
        inside = [b for b in layered.boxes.values() if b.y <= y <= b.y + b.height]
        assert all(x < box.x or x > box.x + box.width for box in inside)


@pytest.mark.parametrize("seed", range(20))
def test_boxes_of_any_graph_keep_apart(seed):
    dice = random.Random(seed)
    names = [f"n{at}" for at in range(30)]
    edges = [
        (names[upper], names[lower])
        for lower in range(1, 30)
        for upper in dice.sample(range(lower), min(lower, dice.randint(1, 3)))
    ]
    sizes = {name: (dice.randint(60, 160), 36) for name in names}
    layered = lay_out(sizes, edges, gap=20)
    assert layered == lay_out(sizes, edges, gap=20)
    rows = {}
    for box in layered.boxes.values():
        rows.setdefault(box.y, []).append(box)
    for row in rows.values():
        for left, right in pairwise(sorted(row)):
            assert right.x - left.x - left.width >= 19, "a pixel may be lost to rounding"
    for upper, lower in edges:
        assert layered.boxes[upper].y + 36 < layered.boxes[lower].y
    for route in layered.routes:
        assert all(one[1] < other[1] for one, other in pairwise(route))


def test_a_leaf_with_a_hundred_users_is_laid_out_in_a_moment():
    names = ["leaf", *(f"n{at}" for at in range(150))]
    edges = [("leaf", name) for name in names[1:]] + list(pairwise(names[1:]))
    layered = lay_out(sizes_of(names), edges)
    assert layered.height > 150 * 72
