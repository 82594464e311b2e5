"""The exercises of chapter 14. Two of them need PyTorch, and say so where it is not."""

import importlib
from typing import Any

import numpy as np

import lucid_mini as lm

from .compare import as_function
from .core import Wrong, exercise

VALUES = np.array([0.5, 2.0, 3.0])


@exercise("14.1")
def _backward_of_product(answer: Any) -> str | None:
    backward = as_function(answer, "backward_of_product")

    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a=a, b=b)
        return a * b

    found: list[Any] = []

    def look(ctx: Any, grad: Any) -> Any:
        found.append(backward(ctx, grad))
        if found[0] is None:
            raise Wrong("`backward_of_product` returns None: a line with `return` is missing.")
        if not isinstance(found[0], dict):
            raise Wrong(
                f"It returns a {type(found[0]).__name__}. R torch's dialect gives a gradient a "
                "name: return a dict."
            )
        return found[0]

    a = lm.tensor(VALUES, requires_grad=True)
    b = lm.tensor(VALUES[::-1] * 1.5, requires_grad=True)
    seed = np.array([1.0, -2.0, 0.5])
    try:
        product = lm.autograd.autograd_function(forward, look, "Product")(a, b)
        (product * lm.tensor(seed)).sum().backward()
    except lm.errors.GradientCountError as error:
        raise Wrong(str(error)) from None
    for name, tensor, other in (("a", a, b), ("b", b, a)):
        if tensor.grad is None:
            raise Wrong(f"The gradient of `{name}` is missing.")
        got = tensor.grad.numpy()
        if np.allclose(got, other.numpy()):
            raise Wrong("Your rule ignores `grad`. The chain rule multiplies by it.")
        if not np.allclose(got, seed * other.numpy()):
            raise Wrong(f"The gradient of `{name}` is not right: by what was it multiplied?")
    return None


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise Wrong("This exercise needs PyTorch: pip install 'lucid-mini[torch]'.") from None


def _as_function_class(answer: Any, name: str, base: Any, said: str) -> Any:
    if not (isinstance(answer, type) and issubclass(answer, base)):
        given = answer.__name__ if isinstance(answer, type) else type(answer).__name__
        raise Wrong(f"`{name}` must be a subclass of {said}, and yours is {given}.")
    return answer


@exercise("14.2")
def _root(answer: Any) -> str | None:
    torch = _torch()
    kind = torch.autograd.Function
    root = _as_function_class(answer, "Root", kind, "torch.autograd.Function")
    x = torch.tensor(VALUES, requires_grad=True)
    y = root.apply(x)
    if not torch.is_tensor(y):
        raise Wrong("`forward` returns no tensor.")
    if not np.allclose(y.detach().numpy(), np.sqrt(VALUES)):
        raise Wrong("The value is not the square root.")
    kept = y.grad_fn.saved_tensors
    if len(kept) != 1:
        raise Wrong(f"{len(kept)} tensors are saved, and one was asked for.")
    if not torch.equal(kept[0], y):
        raise Wrong("The value is right, and what is saved is not the output.")
    (first,) = torch.autograd.grad((2 * y).sum(), x, create_graph=True)
    if np.allclose(first.detach().numpy(), 0.5 / np.sqrt(VALUES)):
        raise Wrong("Your rule ignores `grad`. The chain rule multiplies by it.")
    if not np.allclose(first.detach().numpy(), 1 / np.sqrt(VALUES)):
        raise Wrong("The gradient is not right: it is grad / (2 * y).")
    if first.requires_grad:
        (second,) = torch.autograd.grad(first.sum(), x)
    if not first.requires_grad or not np.allclose(second.numpy(), -0.5 * VALUES**-1.5):
        raise Wrong(
            "The first derivative is right, the second is not: a part of your rule has no history, "
            "and counts as a constant."
        )
    return "To the second order."


@exercise("14.3")
def _softplus(answer: Any) -> str | None:
    kind = lm.autograd.Function
    softplus = _as_function_class(answer, "Softplus", kind, "lm.autograd.Function")
    _right_to_second_order("lucid_mini", softplus.apply, lm.autograd.grad, _leaf)
    y = softplus.apply(_leaf(VALUES))
    kept = lm.lifetime.saved(y)
    if len(kept) != 1 or not np.array_equal(y.grad_fn.ctx.saved_tensors[0].numpy(), VALUES):
        raise Wrong("The derivatives are right, and something else than `x` alone is saved.")
    torch = _torch()
    taken = lm.bridge.torch.to_torch(softplus)

    def leaf(values: Any) -> Any:
        return torch.tensor(values, requires_grad=True)

    _right_to_second_order("PyTorch", taken.apply, torch.autograd.grad, leaf)
    return "On both libraries."


def _leaf(values: Any) -> Any:
    return lm.tensor(values, requires_grad=True)


def _right_to_second_order(where: str, apply: Any, grad: Any, leaf: Any) -> None:
    x = leaf(VALUES)
    try:
        y = apply(x)
        (first,) = grad((2 * y).sum(), x, create_graph=True)
        second = grad(first.sum(), x)[0] if first.requires_grad else first * 0
    except (TypeError, RuntimeError) as error:
        raise Wrong(f"On {where}: {str(error).splitlines()[0]}") from None
    s = 1 / (1 + np.exp(-VALUES))
    wanted = {
        "value": (y, np.log1p(np.exp(VALUES))),
        "first derivative": (first, 2 * s),
        "second derivative": (second, 2 * s * (1 - s)),
    }
    for what, (got, want) in wanted.items():
        if not np.allclose(got.detach().numpy(), want):
            hint = (
                " Your rule ignores `grad`." if np.allclose(got.detach().numpy(), want / 2) else ""
            )
            raise Wrong(f"On {where} the {what} is not right.{hint}")
