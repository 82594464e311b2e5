"""What `help`, `inspect.signature` and pickle find under the public name of an op.

`lm.exp` is `Exp.apply` itself, so that a call costs nothing on the way: a closure of `function.py`
that would show the text and the `*args` of the call path. Here it gets the docstring of its class,
the arguments of its forward, and the name it is bound to. Nothing of this is read by a call.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from ..autograd.function import Function

_PACKAGE = __name__.partition(".")[0]


def describe(functions: dict[str, Callable[..., Any]], methods: dict[str, Any]) -> None:
    """Name each of `functions` (`lm.exp`) and, where it is no function, of `methods` after itself.

    What is bound under several names keeps the first.
    """
    classes = {function.apply: function for function in _below(Function)}
    named: set[Any] = set()
    for place, table in (("", functions), ("Tensor.", methods)):
        for name, bound in table.items():
            if type(bound) is not FunctionType or bound in named:
                continue
            named.add(bound)
            bound.__name__, bound.__qualname__ = name, place + name
            bound.__module__ = _PACKAGE
            if bound in classes:
                _describe_as(bound, classes[bound])


def _below(cls: type[Function]) -> Iterator[type[Function]]:
    for below in cls.__subclasses__():
        yield below
        yield from _below(below)


def _describe_as(apply: Any, function: type[Function]) -> None:
    """Let `apply` show the docstring of `function`, and the arguments and source of its forward."""
    code = getattr(function.forward, "func", function.forward).__code__
    names = code.co_varnames[: code.co_argcount]
    apply.__doc__ = function.__doc__
    apply.__wrapped__ = function.forward
    apply.__signature__ = _signature(names[names.index("ctx") + 1 :])


@functools.cache
def _signature(names: tuple[str, ...]) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind) for name in names])
