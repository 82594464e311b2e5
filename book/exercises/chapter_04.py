"""The exercises of chapter 4."""

from typing import Any

import lucid_mini as lm

from .compare import as_function, as_number
from .core import Wrong, exercise


@exercise("4.1")
def _visits_per_path(answer: Any) -> str | None:
    visits = as_function(answer, "visits_per_path")
    depths = (0, 1, 2, 5, 16)
    given = [as_number(visits(n), "a number of visits") for n in depths]
    right = [2.0 ** (n + 1) - 1 for n in depths]
    if given == right:
        return None
    if given == [n + 1 for n in depths]:
        raise Wrong("That is one visit per value. On this way each value is visited once per path.")
    if given == [2.0**n for n in depths]:
        raise Wrong("That counts the visits of x0 alone.")
    if given == [r + 1 for r in right]:
        raise Wrong("One too many: how many visits does a ladder of depth 0 have?")
    at = next(i for i, pair in enumerate(zip(given, right, strict=True)) if pair[0] != pair[1])
    raise Wrong(f"Wrong for depth {depths[at]}, for example. Count by hand: depth 0, 1, 2.")


@exercise("4.2")
def _order_of_nodes(answer: Any) -> str | None:
    x = lm.tensor(0.5, requires_grad=True)
    h = x.exp()
    k = h * h
    u = k.sin()
    m = h + k
    z = k * m
    values = {"h": h, "k": k, "u": u, "m": m, "z": z}
    names = {value.grad_fn: name for name, value in values.items()}
    right = [names[step.node] for step in lm.autograd.steps(z)]
    if not isinstance(answer, list | tuple) or not all(isinstance(name, str) for name in answer):
        raise Wrong("The answer is a list of names.")
    given = list(answer)
    if given == right:
        return "The order in which they were made, backwards, and only those that z depends on."
    if unknown := [name for name in given if name not in values]:
        raise Wrong(f"'{unknown[0]}' is none of the values: {', '.join(values)}.")
    if len(set(given)) < len(given):
        raise Wrong("A name stands twice in your list, and every node runs once.")
    if extra := [name for name in given if name not in right]:
        raise Wrong(f"No edge leads from z to {extra[0]}: its node does not run.")
    if len(given) < len(right):
        raise Wrong(f"Your list has {len(given)} values, and {len(right)} nodes run.")
    if given == right[::-1]:
        raise Wrong("That is the order of forward.")
    for at, name in enumerate(given):
        for consumer in given[at + 1 :]:
            if any(
                edge.node is values[name].grad_fn for edge in values[consumer].grad_fn.next_edges
            ):
                raise Wrong(f"{name} would run before its consumer {consumer}.")
    raise Wrong("The nodes run in another order.")


class _Number:
    """As in the chapter, without a sequence number, and with an eye on how often it is read."""

    def __init__(self, book: "_Book", made_from: tuple[Any, ...] = ()) -> None:
        self.grad = 0.0
        self._made_from = made_from
        self._book = book
        book.nodes += 1

    def plus(self, other: "_Number", local: float = 1.0) -> "_Number":
        return _Number(self._book, ((self, 1.0), (other, local)))

    @property
    def made_from(self) -> tuple[Any, ...]:
        self._book.looks += 1
        if self._book.looks > 20 * self._book.nodes + 100:
            raise Wrong(
                f"A ladder with {self._book.nodes} values, and your function has looked at one "
                f"{self._book.looks} times already: it goes every way anew."
            )
        return self._made_from

    upstream = made_from

    def run(self, grad: float) -> list[tuple[Any, float]]:
        self._book.visits[self] = self._book.visits.get(self, 0) + 1
        return [(value, grad * local) for value, local in self.made_from]


class _Book:
    """What happened to the values of one graph."""

    def __init__(self) -> None:
        self.nodes = self.looks = 0
        self.visits: dict[_Number, int] = {}


def _ladder(depth: int) -> tuple[_Book, _Number, _Number, float]:
    book = _Book()
    x = y = _Number(book)
    for _ in range(depth):
        y = y.plus(y)
    return book, x, y, 2.0**depth


def _crossing(first: bool) -> tuple[_Book, _Number, _Number, float]:
    """A short and a long way to one value; `first`: the short one is met first."""
    book = _Book()
    x = _Number(book)
    h = x.plus(x)
    long = h.plus(h, 2.0).plus(h, 3.0)
    y = h.plus(long) if first else long.plus(h)
    return book, x, y, 14.0


def _chain(length: int) -> tuple[_Book, _Number, _Number, float]:
    book = _Book()
    x = y = _Number(book)
    one = _Number(book)
    for _ in range(length):
        y = y.plus(one)
    return book, x, y, 1.0


@exercise("4.3")
def _post_order(answer: Any) -> str | None:
    backward = as_function(answer, "backward")
    cases = [
        ("a ladder of depth 2", _ladder(2)),
        ("a value with a short and a long way to it", _crossing(True)),
        ("a value with a long and a short way to it", _crossing(False)),
        ("a ladder of depth 40", _ladder(40)),
        ("a chain of 20,000 ops", _chain(20_000)),
    ]
    for what, (book, x, y, want) in cases:
        y.grad = 1.0
        try:
            backward(y)
        except RecursionError:
            raise Wrong(
                f"For {what} Python has too many calls inside each other: your function, or one in "
                f"it, still calls itself."
            ) from None
        often = max(book.visits.values(), default=0)
        if often > 1:
            raise Wrong(f"For {what} a node was run {often} times.")
        if x.grad != want:
            why = ""
            if not book.visits:
                why = " No node was run."
            elif len(book.visits) == book.nodes:
                why = " Every node was run once; one of them before a consumer of it."
            raise Wrong(f"For {what} x.grad is {x.grad:.6g}, and must be {want:.6g}.{why}")
    return "Every node once, and no limit."
