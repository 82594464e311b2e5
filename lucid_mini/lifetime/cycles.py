"""The members of a cycle that keeps memory alive, in order.

A cycle is what no name leads to: the search from names finds nothing. So here the collector's
own knowledge says which objects could take part (those above the array), and the typed edges say
how each holds the next.
"""

import gc
from collections import deque
from types import FrameType, ModuleType
from typing import Any

from ..autograd.saved import DETACHED, owner
from ..autograd.tensor import Tensor
from .edges import INERT, links
from .holders import Hop, shown
from .kinds import is_memory

#: How many objects above the array are looked at.
CYCLE_LIMIT = 5_000


def cycle_through(array: Any) -> tuple[Hop, ...]:
    """The hops of a shortest cycle that keeps the owning `array` alive; () if none is found.

    The first hop names the member that holds the array, the last leads back to it.
    """
    above, heads = _above(array)
    allowed = {id(member) for member in above}
    best: tuple[Hop, ...] = ()
    for head in heads:
        hops = way_back(head, allowed)
        if hops and (not best or len(hops) < len(best)):
            best = hops
    return best


def _above(array: Any) -> tuple[list[Any], list[Any]]:
    """The objects from which `array` can be reached, and those that are tensors on it."""
    above: list[Any] = []
    heads: list[Any] = []
    own = {id(above), id(heads)}
    seen = {id(array)}
    queue: deque[Any] = deque([array])
    while queue and len(above) < CYCLE_LIMIT:
        held = queue.popleft()
        for holder in gc.get_referrers(held):
            if id(holder) in seen or id(holder) in own or holder is queue:
                continue
            if isinstance(holder, FrameType | ModuleType | type):
                continue
            seen.add(id(holder))
            above.append(holder)
            queue.append(holder)
            if type(holder) is Tensor and owner(holder._data) is array:
                heads.append(holder)
        del held
    return above, heads


def way_back(head: Any, allowed: set[int] | None = None) -> tuple[Hop, ...]:
    """The shortest way along typed edges from `head` back to it; () if none is found.

    `allowed`: the objects it may pass, by id; None for any.
    """
    first: dict[int, tuple[int | None, Hop]] = {}
    queue: deque[tuple[Any, int | None]] = deque([(head, None)])
    met = [head]
    while queue and len(met) < CYCLE_LIMIT:
        holder, key = queue.popleft()
        for link in links(holder):
            held = link.held
            hop = Hop(shown(held), link.how, link.by, link.where)
            if held is head:
                hops = [hop]
                while key is not None:
                    key, before = first[key]
                    hops.append(before)
                return (Hop(shown(head), "a member"), *reversed(hops))
            if id(held) in first or isinstance(held, INERT) or is_memory(held):
                continue
            if allowed is not None and id(held) not in allowed and type(held) not in DETACHED:
                continue
            first[id(held)] = (key, hop)
            met.append(held)
            queue.append((held, id(held)))
    return ()
