"""Who holds memory that no name leads to: a cycle, or an object that C++ holds.

The collector sees Python's objects and not what C++ holds, so a cycle through a node of PyTorch may
live for ever. The typed edges of `objects` go through nodes: they find the cycle all the same.
"""

import gc
from types import FunctionType
from typing import Any

from ..autograd.callsite import is_machinery
from ..lifetime.cycles import way_back
from ..lifetime.edges import is_library
from ..lifetime.holders import Chain, Hop, Search, shown
from .installed import torch
from .objects import TORCH

_MEMBER = "a member"
#: How many objects are looked at on the way from what C++ may hold.
_LIMIT = 50_000


def explain(lost: dict[int, Any], sites: dict[int, Any], search: Search) -> dict[int, Chain]:
    """For each storage in `lost` the cycle it hangs on, or the chain from what C++ holds.

    `sites`: what made each, and where; what was made alike is held alike, and looked at once.
    `search`: the search from names, which did not get there.
    """
    if not lost:
        return {}
    heads, roots = _unreached(search)
    found: dict[int, Chain] = {}
    known: dict[Any, Chain] = {}
    for serial, storage in lost.items():
        chain = known.get(sites[serial])
        if chain is None:
            chain = _cycle(heads.get(id(storage), []), TORCH.nbytes(storage))
            if chain is None:
                chain = _from_roots(storage, roots)
            known[sites[serial]] = chain
        found[serial] = Chain(chain.hops, TORCH.nbytes(storage))
    return found


def is_cycle(chain: Chain) -> bool:
    """Whether the chain of an explanation is a cycle."""
    return bool(chain.hops) and chain.hops[0].how == _MEMBER


def around(chain: Any) -> str:
    """The edges of a cycle in order, with the line where one is known."""
    hops = [hop.how + (f" ({hop.where})" if hop.where else "") for hop in chain.hops[1:]]
    return "a cycle: " + " → ".join(hops)


def _unreached(search: Search) -> tuple[dict[int, list[Any]], list[Any]]:
    """What no name leads to: tensors by their storage, and functions and custom nodes."""
    heads: dict[int, list[Any]] = {}
    roots: list[Any] = []
    for item in gc.get_objects():
        cls = type(item)
        if search.reached(item):
            continue
        if issubclass(cls, torch.Tensor):
            heads.setdefault(id(TORCH.owner(item)), []).append(item)
        elif issubclass(cls, torch.autograd.function.BackwardCFunction) or (
            cls is FunctionType and _is_of_user(item)
        ):
            roots.append(item)
    return heads, roots


def _is_of_user(function: FunctionType) -> bool:
    return not is_machinery(function.__globals__) and not is_library(function.__code__.co_filename)


def _cycle(heads: list[Any], nbytes: int) -> Chain | None:
    for head in heads:
        hops = way_back(head)
        if hops:
            return Chain(hops, nbytes)
    return None


def _from_roots(storage: Any, roots: list[Any]) -> Chain:
    """The shortest chain from a function or a custom node, or the cycle that this one is on."""
    starts = [(root, Hop(shown(root), "held by C++")) for root in roots]
    search = Search([storage], starts, _LIMIT)
    chain = search.chain(storage)
    root = search.root(storage)
    if root is not None:
        hops = way_back(root)
        if hops:
            return Chain(hops, TORCH.nbytes(storage))
    return chain if chain is not None else Chain((), TORCH.nbytes(storage))
