"""The exercises of chapter 3."""

from typing import Any

import lucid_mini as lm

from .compare import as_function, as_number
from .core import Wrong, exercise


class _Product(lm.autograd.Function):
    """The one of the chapter: k * a * b."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, k: Any) -> Any:
        ctx.save_for_backward(a, b)
        ctx.k = k
        return k * a * b

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved_tensors
        return grad * ctx.k * b, grad * ctx.k * a, None


@exercise("3.1")
def _edges_that_lead_somewhere(answer: Any) -> str | None:
    a, b = lm.ones(2, requires_grad=True), lm.ones(2)
    inner = _Product.apply(a, b, 2.0)
    nodes = [_Product.apply(inner, a, 3.0).grad_fn, inner.grad_fn]
    edges = [edge for node in nodes for edge in node.next_edges]
    valid = sum(edge.is_valid() for edge in edges)
    given = as_number(answer, "a number of edges")
    if given == valid:
        return "The two factors of the outer call, and `a` in the inner one."
    if given == len(edges):
        raise Wrong("That counts an edge for every argument. Not every argument wants a gradient.")
    if given == len(nodes):
        raise Wrong("That is the number of nodes. Each has several edges.")
    if given == valid + 1:
        raise Wrong("One too many: which of the tensors requires no gradient?")
    if given == valid - 1:
        raise Wrong("One too few. An edge may lead to a leaf, and it may lead to another node.")
    raise Wrong("Draw two boxes, one a call, and go through the three arguments of each.")


@exercise("3.2")
def _records(answer: Any) -> str | None:
    records = as_function(answer, "records")
    a, b = lm.ones(2, requires_grad=True), lm.ones(2)
    cases: list[tuple[str, tuple[Any, ...], bool]] = [
        ("a tensor that requires a gradient", (a,), True),
        ("a tensor that requires none", (b,), False),
        ("two tensors, and the second requires a gradient", (b, a), True),
        ("two tensors, and the first requires a gradient", (a, b), True),
        ("a number and a tensor that requires a gradient", (3.0, a), True),
        ("a number and a text", (3.0, "sum"), False),
        ("the result of an op on such a tensor", (2 * a,), True),
        ("no argument at all", (), False),
    ]
    for what, args, want in cases:
        _compare(records(*args), want, f"for {what}")
    with lm.no_grad():
        _compare(records(a), False, "for a tensor that requires a gradient, inside no_grad")
    return None


def _compare(given: Any, want: bool, when: str) -> None:
    if given is None:
        raise Wrong("`records` returns None: a line with `return` is missing.")
    if not isinstance(given, bool):
        raise Wrong(f"`records` must return True or False, and gives a {type(given).__name__}.")
    if given != want:
        raise Wrong(f"`records` says {given} {when}.")


@exercise("3.3")
def _leaves(answer: Any) -> str | None:
    leaves = as_function(answer, "leaves")
    x, w = lm.ones(2, requires_grad=True), lm.ones(2, requires_grad=True)
    constant = lm.ones(2)
    h = x * 2
    ladder = x + w
    for _ in range(8):
        ladder = ladder + ladder
    cases: list[tuple[str, Any, list[Any]]] = [
        ("`x * 2`", h, [x]),
        ("`x * w`", x * w, [x, w]),
        ("`x * constant`", x * constant, [x]),
        ("`h + h * w` with `h = x * 2`", h + h * w, [x, w]),
        ("a graph of 9 nodes", ladder, [x, w]),
    ]
    for what, tensor, want in cases:
        found = leaves(tensor)
        if found is None:
            raise Wrong("`leaves` returns None: a line with `return` is missing.")
        if not isinstance(found, list | tuple | set):
            raise Wrong(f"`leaves` must return a list, and gives a {type(found).__name__}.")
        for leaf in found:
            if not lm.is_tensor(leaf):
                raise Wrong(
                    f"For {what} your list holds a {type(leaf).__name__}, which is no leaf."
                )
        ids = {id(leaf) for leaf in found}
        if any(not leaf.is_leaf for leaf in found) or ids - {id(leaf) for leaf in want}:
            raise Wrong(f"For {what} your list holds a tensor that is no leaf of the graph.")
        if missing := len({id(leaf) for leaf in want} - ids):
            raise Wrong(f"For {what} your list lacks {missing} of {len(want)} leaves.")
        if len(found) > len(ids):
            raise Wrong(f"For {what} a leaf stands in your list {len(found) - len(ids) + 1} times.")
    chain = x
    for _ in range(5000):
        chain = chain + 1
    try:
        leaves(chain)
    except RecursionError:
        return "A chain of 5,000 ops is too deep for it: the next chapter tells how to do without."
    return None
