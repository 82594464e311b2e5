"""What `check` says to answers of chapter 4."""

import pytest


@pytest.mark.parametrize(
    ("formula", "hint"),
    [
        (lambda n: 2 ** (n + 1) - 1, "right."),
        (lambda n: n + 1, "one visit per value"),
        (lambda n: 2**n, "x0 alone"),
        (lambda n: 2 ** (n + 1), "One too many"),
        (lambda n: n * n, "Wrong for depth 0"),
        (lambda n: None, "of type NoneType"),
    ],
)
def test_4_1(said, formula, hint):
    assert hint in said("4.1", formula)


@pytest.mark.parametrize(
    ("order", "hint"),
    [
        (["z", "m", "k", "h"], "right."),
        (["h", "k", "m", "z"], "order of forward"),
        (["z", "m", "u", "k", "h"], "No edge leads from z to u"),
        (["z", "k", "m", "h"], "k would run before its consumer m"),
        (["z", "m", "h", "k"], "h would run before its consumer k"),
        (["z", "m", "k"], "3 values, and 4 nodes"),
        (["z", "z", "m", "k"], "stands twice"),
        (["z", "mul#5", "k", "h"], "'mul#5' is none"),
        ("zmkh", "list of names"),
        ([1, 2], "list of names"),
    ],
)
def test_4_2(said, order, hint):
    assert hint in said("4.2", order)


def deliver(nodes):
    for node in nodes:
        for value, g in node.run(node.grad):
            value.grad += g


def stack(root):
    order, seen, to_do = [], set(), [(root, False)]
    while to_do:
        node, done = to_do.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            to_do.append((node, True))
            to_do.extend((value, False) for value, _ in node.made_from)
    deliver(reversed(order))


def recursive(root):
    order, seen = [], set()

    def look(node):
        if node not in seen:
            seen.add(node)
            for value, _ in node.upstream:
                look(value)
            order.append(node)

    look(root)
    deliver(reversed(order))


def pre_order(root):
    order, seen, to_do = [], set(), [root]
    while to_do:
        node = to_do.pop()
        if node not in seen:
            seen.add(node)
            order.append(node)
            to_do.extend(value for value, _ in node.made_from)
    deliver(order)


def per_path(node, grad=1.0):
    for value, g in node.run(grad):
        value.grad += g
        per_path(value, g)


def every_way(root):
    """Right, each node once, and its order comes from all ways: the last visit counts."""
    to_do, order = [root], []
    while to_do:
        node = to_do.pop()
        order.append(node)
        to_do.extend(value for value, _ in node.made_from)
    deliver(reversed(dict.fromkeys(reversed(order))))


def test_4_3_right(said):
    assert said("4.3", stack).startswith("right.")


@pytest.mark.parametrize(
    ("backward", "hint"),
    [
        (recursive, "still calls itself"),
        (pre_order, "one of them before a consumer"),
        (per_path, "a node was run 4 times"),
        (every_way, "goes every way anew"),
        (lambda root: None, "No node was run"),
        (lambda root: deliver([root]), "x.grad is 0, and must be 4"),
        (lambda root: root.number, "AttributeError"),
    ],
)
def test_4_3_says_what_is_wrong(said, backward, hint):
    assert hint in said("4.3", backward)
