"""What `check` says to answers of chapter 3."""

import pytest

import lucid_mini as lm


@pytest.mark.parametrize(
    ("count", "hint"),
    [
        (3, "right."),
        (6, "for every argument"),
        (2, "number of nodes"),
        (4, "requires no gradient"),
        (17, "two boxes"),
        ("3", "of type str"),
    ],
)
def test_3_1(said, count, hint):
    assert hint in said("3.1", count)


def records(*args):
    return lm.is_grad_enabled() and any(lm.is_tensor(a) and a.requires_grad for a in args)


def test_3_2_right(said):
    assert said("3.2", records) == "right."


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda *args: any(lm.is_tensor(a) and a.requires_grad for a in args), "inside no_grad"),
        (lambda *args: lm.is_grad_enabled(), "says True for a tensor that requires none"),
        (lambda *args: any(lm.is_tensor(a) for a in args), "requires none"),
        (lambda *args: bool(args) and records(args[0]), "the second requires"),
        (lambda *args: any(a.requires_grad for a in args), "AttributeError"),
        (lambda *args: sum(map(records, args)), "gives a int"),
        (lambda *args: None, "`return` is missing"),
    ],
)
def test_3_2_says_in_which_case(said, answer, hint):
    assert hint in said("3.2", answer)


def walk(tensor, *, once=True, valid=True):
    found, waiting, met = [], [tensor.grad_fn], set()
    while waiting:
        for edge in waiting.pop().next_edges:
            if (valid and not edge.is_valid()) or (once and edge.node in met):
                continue
            met.add(edge.node)
            if edge.node.next_edges:
                waiting.append(edge.node)
            else:
                found.append(edge.node.variable)
    return found


def recursive(node, met):
    if node in met:
        return []
    met.add(node)
    if not node.next_edges:
        return [node.variable]
    return [leaf for edge in node.next_edges if edge.node for leaf in recursive(edge.node, met)]


def test_3_3_right(said):
    assert said("3.3", walk) == "right."
    text = said("3.3", lambda tensor: recursive(tensor.grad_fn, set()))
    assert text.startswith("right. A chain of 5,000 ops is too deep")


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda t: walk(t, once=False), "stands in your list 2 times"),
        (lambda t: walk(t, valid=False), "AttributeError"),
        (lambda t: walk(t)[:1], "lacks 1 of 2 leaves"),
        (lambda t: [t], "no leaf of the graph"),
        (lambda t: [t.grad_fn], "holds a Node"),
        (lambda t: walk(t)[0], "must return a list"),
        (lambda t: None, "`return` is missing"),
    ],
)
def test_3_3_says_what_is_wrong(said, answer, hint):
    assert hint in said("3.3", answer)
