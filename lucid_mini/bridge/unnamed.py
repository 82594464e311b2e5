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
    alike: dict[Any, int] = {}
    for serial in lost:
        alike.setdefault(sites[serial], serial)
    found: dict[int, Chain] = {}
    for serial in alike.values():
        for head in heads.get(id(lost[serial]), []):
            hops = way_back(head)
            if hops:
                found[serial] = Chain(hops, 0)
                roots.append(head)
                break
    rest = {serial: lost[serial] for serial in alike.values() if serial not in found}
    found.update(_from(roots, rest))
    return {
        serial: Chain(found[alike[sites[serial]]].hops, TORCH.nbytes(storage))
        for serial, storage in lost.items()
    }


def is_cycle(chain: Chain) -> bool:
    """Whether the chain of an explanation is a cycle."""
    return bool(chain.hops) and chain.hops[0].how == _MEMBER


def _unreached(search: Search) -> tuple[dict[int, list[Any]], list[Any]]:
    """What no name leads to: tensors by their storage; functions, custom nodes and errors."""
    heads: dict[int, list[Any]] = {}
    roots: list[Any] = []
    for item in gc.get_objects():
        cls = type(item)
        if search.reached(item):
            continue
        if issubclass(cls, torch.Tensor):
            heads.setdefault(id(TORCH.owner(item)), []).append(item)
        elif issubclass(cls, (torch.autograd.function.BackwardCFunction, BaseException)) or (
            cls is FunctionType and _is_of_user(item)
        ):
            roots.append(item)
    return heads, roots


def _is_of_user(function: FunctionType) -> bool:
    return not is_machinery(function.__globals__) and not is_library(function.__code__.co_filename)


def _from(roots: list[Any], rest: dict[int, Any]) -> dict[int, Chain]:
    """The shortest chain from one of `roots`, or the cycle that this one is on."""
    starts = [(root, Hop(shown(root), "held by C++")) for root in roots]
    search = Search(list(rest.values()), starts, _LIMIT)
    cycles: dict[int, tuple[Hop, ...]] = {}
    found: dict[int, Chain] = {}
    for serial, storage in rest.items():
        chain, root = search.chain(storage), search.root(storage)
        if root is not None and id(root) not in cycles:
            cycles[id(root)] = way_back(root)
        hops = cycles.get(id(root), ()) or (() if chain is None else chain.hops)
        found[serial] = Chain(hops, 0)
    return found
