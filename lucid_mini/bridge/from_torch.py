"""from_torch: a Function of PyTorch as a Function of lucid_mini.

Its body is handed tensors of lucid_mini. Operators and methods that both libraries have do the
rest; `torch.exp(x)` asks its argument (`__torch_function__`), which answers with `lm.exp`.
"""

import warnings
from collections.abc import Callable
from typing import Any

from .. import autograd
from ..autograd.callsite import outer_level
from ..autograd.function import Function
from ..autograd.tensor import Tensor
from ..ops import create
from ..ops.table import FUNCTIONS
from .installed import torch


def from_torch(function: Any) -> type[Function]:
    """A Function of lucid_mini with the forward and backward of a `torch.autograd.Function`.

    Its body then runs on tensors of lucid_mini, which computes: it may use operators, methods that
    both libraries have, and `torch.` functions that `lm.` has under the same name.
    Raises: TypeError for what is no torch.autograd.Function, and when it runs for a name that
    lucid_mini has not.

    Example:
        >>> import torch
        >>> import lucid_mini as lm
        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> x = lm.tensor([3.0], requires_grad=True)
        >>> lm.bridge.torch.from_torch(Double).apply(x)
        tensor([6.], grad_fn=<DoubleBackward>)
    """
    base = torch.autograd.Function
    if not (isinstance(function, type) and issubclass(function, base)):
        given = function.__name__ if isinstance(function, type) else type(function).__name__
        raise TypeError(f"from_torch takes a subclass of torch.autograd.Function, not {given}")
    if "lucid_mini" in function.__dict__:
        return function.__dict__["lucid_mini"]  # type: ignore[no-any-return]
    methods = {name: getattr(function, name) for name in ("forward", "backward", "setup_context")}
    if methods["backward"] is base.backward:
        methods["backward"] = getattr(function, "vjp", base.vjp)
    if _ONCE is None:
        warnings.warn(
            f"PyTorch {torch.__version__} does not show whether {function.__name__}.backward is "
            "once_differentiable; a second derivative through it is not refused here, all else "
            "holds.",
            RuntimeWarning,
            stacklevel=outer_level(),
        )
    body: dict[str, Any] = {
        name: staticmethod(_told(method, f"{function.__name__}.{name}"))
        for name, method in methods.items()
        if method not in (getattr(base, name), base.vjp)
    }
    made = type(function.__name__, (Function,), {"__doc__": function.__doc__, **body})
    made._torch = function  # type: ignore[attr-defined]
    return made


#: The code of every function that `torch.autograd.function.once_differentiable` gives: an inside of
#: PyTorch, found in 2.13. None where another version hides it.
_ONCE = getattr(torch.autograd.function.once_differentiable(len), "__code__", None)


def _told(method: Callable[..., Any], label: str) -> Callable[..., Any]:
    """`method`, with a missing name told as what it is: one that lucid_mini has not."""
    if _ONCE is not None and getattr(method, "__code__", None) is _ONCE:
        return autograd.once_differentiable(_told(method.__wrapped__, label))  # type: ignore[attr-defined]

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except AttributeError as error:
            if type(error.obj) is not Tensor:
                raise
            raise TypeError(
                f"{label} uses x.{error.name}, which tensors of lucid_mini have not. Write it with "
                "operators and methods that both libraries have, or keep this Function in PyTorch."
            ) from None

    run.__wrapped__ = method  # type: ignore[attr-defined]
    return run


_MAKERS = {name: getattr(create, name) for name in ("zeros_like", "ones_like", "full_like")}


def _torch_function(
    _: Any, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """`torch.exp(t)` on a tensor of lucid_mini: `lm.exp(t)`, where `lm.` has that name.

    Raises: TypeError for other names, and for tensors of both libraries in one call.
    """
    name = getattr(function, "__name__", str(function))
    ours = FUNCTIONS.get(name) or _MAKERS.get(name)
    mixed = any(isinstance(a, torch.Tensor) for a in args)
    if ours is None or mixed:
        why = "was given tensors of both libraries" if mixed else "has no like in lucid_mini"
        raise TypeError(
            f"torch.{name} {why}. Use operators, methods or functions that both have, on tensors "
            "of one library; x.numpy() and torch.from_numpy lead from one to the other."
        )
    return ours(*args, **(kwargs or {}))


Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
