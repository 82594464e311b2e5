"""Assertions about lifetimes, whose message is the holder chain. For tests of your own Functions.

In pytest the fixture `no_leaks` (registered with the package) does for a whole test what
`assert_no_leaks()` does for a block.
"""

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from .autograd.saved import owner
from .autograd.tensor import Tensor, wrap
from .errors import GradcheckError
from .lifetime.buffers import Buffer
from .lifetime.holders import passed_names, search, shown
from .lifetime.trace import Trace, trace
from .transforms import gradcheck

__all__ = ["assert_freed", "assert_gradients", "assert_no_drag", "assert_no_leaks"]


def assert_freed(*tensors: Any) -> None:
    """Assert that nothing keeps `tensors` alive: tensors, or weak references to them.

    A weak reference must be dead. A tensor must have no holder but the argument and the name it was
    passed by: it would die with that name.
    Raises: AssertionError with the verdict (a cycle, or an outside holder) and the holder chain.

    Example:
        >>> def step():
        ...     x = lm.ones(2)
        ...     lm.testing.assert_freed(x)  # only the name x holds it
        ...     cache = [x]
        ...     lm.testing.assert_freed(x)
        >>> step()
        Traceback (most recent call last):
            ...
        AssertionError: argument 0 is held from outside:
        16 bytes, held through local 'cache' of step  (...:5)
          └ [0] → tensor (2,)
            └ its array → array (2,), 16 bytes
        way out: let the function end, or del the variable in it
    """
    caller = sys._getframe(1)
    passed = passed_names(caller, "assert_freed")
    told = []
    for index in range(len(tensors)):  # enumerate would keep a reference of its own
        item = tensors[index]
        if isinstance(item, weakref.ref):
            told += _still_alive(index, item, caller)
            continue
        if type(item) is not Tensor:
            raise TypeError(
                f"assert_freed takes tensors and weak references, not {type(item).__name__}"
            )
        chain = search(owner(item._data), caller, passed)
        # The tuple, `item`, and the argument of getrefcount; and the caller's own name.
        known = 3 + (index < len(passed) and passed[index] != "")
        if chain is not None and chain.hops:
            told.append(f"argument {index} is held from outside:\n{chain}")
        elif sys.getrefcount(item) > known:
            told.append(
                f"argument {index} is held by a cycle, through {_holders_of(item, tensors)}"
            )
    if told:
        raise AssertionError("\n".join(told))


def _still_alive(index: int, reference: "weakref.ref[Any]", caller: FrameType) -> list[str]:
    """What to say of a weak reference that should be dead."""
    item = reference()
    if item is None:
        return []
    chain = search(owner(item._data if type(item) is Tensor else item), caller)
    del item
    if chain is not None and chain.hops:
        return [f"argument {index} is held from outside:\n{chain}"]
    gc.collect()
    if reference() is None:
        return [f"argument {index} was held by a cycle: only a collection frees it"]
    return [f"argument {index} is alive, and no name leads to it"]


def _holders_of(item: Any, tensors: Any) -> str:
    """What refers to `item`, in words: frames and the arguments of this call left out."""
    found = [
        shown(holder)
        for holder in gc.get_referrers(item)
        if holder is not tensors and not isinstance(holder, FrameType)
    ]
    return ", ".join(sorted(set(found))) or "something that the collector does not see"


@contextmanager
def assert_no_leaks() -> Iterator[Trace]:
    """Assert that a block leaves no memory behind, plain variables and `.grad`s aside.

    Raises: AssertionError with each survivor: its bytes, its verdict, and its holder chain.

    Example:
        >>> with lm.testing.assert_no_leaks():
        ...     lm.ones(2, requires_grad=True).exp().sum().backward()
    """
    with trace() as t:
        yield t
    left = [buffer for buffer in t.survivors() if buffer.verdict in ("cycle", "outside")]
    if left:
        total = sum(buffer.nbytes for buffer in left)
        raise AssertionError(f"{total} bytes are left behind:\n" + "\n".join(map(_told, left)))


def _told(buffer: Buffer) -> str:
    if buffer.verdict == "cycle":
        return f"{buffer.name}, {buffer.nbytes} bytes: held by a cycle, only a collection frees it"
    chains = "\n".join(str(chain) for chain in buffer.holders)
    holder = buffer.holder or "nothing that a name leads to"
    return f"{buffer.name}, {buffer.nbytes} bytes: held by {holder}\n{chains}"


def assert_no_drag(function: Callable[..., Any], *args: Any) -> None:
    """Assert that `function(*args)` and its backward hold no buffer longer than it is used.

    The result is summed and backward is run, where it has a history.
    Raises: AssertionError with each buffer that drags: bytes times ops.

    Example:
        >>> lm.testing.assert_no_drag(lambda x: x.exp().sum(), lm.ones(2, requires_grad=True))
    """
    with trace() as t:
        result = function(*args)
        results = result if isinstance(result, tuple | list) else (result,)
        last = {_name(t, r) for r in results if type(r) is Tensor}
        for r in results:
            if type(r) is Tensor and r.requires_grad:
                r.backward(wrap(np.ones(r.shape, r.dtype)), retain_graph=len(results) > 1)
        del result, results
        r = None
    dragging = [
        b for b in t.buffers if b.drag and b.freed is not None and b.name not in last and b.where
    ]
    if dragging:
        raise AssertionError(
            "held beyond their last use:\n"
            + "\n".join(
                f"{b.name}, {b.nbytes} bytes, drag {b.drag} bytes x ops, freed {b.freed_by}"
                for b in dragging
            )
        )


def _name(t: Trace, tensor: Tensor) -> str:
    return t.buffers[t._serial_of(tensor._data, None)].name


def assert_gradients(function: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Assert that the gradients of `function` agree with finite differences (`lm.gradcheck`).

    Raises: AssertionError with what gradcheck found.

    Example:
        >>> lm.testing.assert_gradients(lambda x: x.exp(), lm.ones(2, requires_grad=True))
    """
    try:
        gradcheck(function, args, **options)
    except GradcheckError as error:
        raise AssertionError(str(error)) from None
