"""scan: what a PyTorch function, module or graph captures, found without running it."""

from collections.abc import Iterator
from typing import Any

from ..lifetime.edges import Link, links
from ..lifetime.scan import Findings, follow, of_callable
from .installed import torch
from .objects import ctx_attributes, grad_fn, nodes_of, saved_slots, tensor_hooks


def scan(torch_function_or_module: Any) -> Findings:
    """What is captured by a PyTorch function, Function class or module, or by a tensor's graph.

    Closure cells, defaults, globals that the code reads, partials, bound selfs; of a module its
    hooks, its methods' captures and its tensors that are neither parameter nor buffer; of a graph
    what custom Functions keep as attributes of ctx, hooks, and what a pack hook or a saved view
    holds that leads back to the node. What `save_for_backward` saved is else none: backward
    releases it.

    Hooks on an interior tensor whose Python object is gone live in C++ alone, and are not seen.
    Raises: TypeError for what can be none of these.

    Example:
        >>> import torch
        >>> z = torch.ones(10, requires_grad=True) * 2
        >>> def rule(grad, z=z):
        ...     return grad * z
        >>> [(found.how, found.nbytes, found.has_history) for found in lm.bridge.torch.scan(rule)]
        [("default of 'z'", 40, True)]
    """
    given = torch_function_or_module
    if isinstance(given, torch.nn.Module):
        roots = list(_of_module(given))
    elif isinstance(given, torch.Tensor):
        roots = list(tensor_hooks(given)) + list(_of_graph(grad_fn(given)))
    elif isinstance(given, torch.autograd.graph.Node):
        roots = list(_of_graph(given))
    elif callable(given):
        roots = of_callable(given)
    else:
        raise TypeError(
            "lm.bridge.torch.scan takes a function, a Function class, a module, a tensor or a "
            f"node, not {type(given).__name__}"
        )
    return follow(roots)


def _of_module(module: Any) -> Iterator[Link]:
    """Hooks and captures of a module and of those in it, each under its place: `0 (Linear)`."""
    classes: dict[type, None] = {}
    for path, part in module.named_modules():
        classes.setdefault(type(part))
        by = f"{path} ({type(part).__name__})" if path else type(part).__name__
        for link in links(part):
            if link.how.startswith(("hook", "attribute")):
                yield link._replace(by=by)
            elif link.how.startswith("parameter") and link.held is not None:
                name = link.how.removeprefix("parameter ").strip("'")
                for hook in tensor_hooks(link.held):
                    yield hook._replace(by=f"{path}.{name}".strip("."))
    for cls in classes:
        for name in ("forward", "__call__"):
            method = vars(cls).get(name)
            if method is not None and not cls.__module__.startswith("torch."):
                yield from of_callable(method)


def _of_graph(start: Any) -> Iterator[Link]:
    functions: dict[type, None] = {}
    for node in nodes_of(start):
        function = getattr(type(node), "_forward_cls", None)
        if function is not None:
            functions.setdefault(function)
        yield from ctx_attributes(node)
        yield from _back_to(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            yield from tensor_hooks(variable)
    for function in functions:
        yield from of_callable(function)


def _back_to(node: Any) -> Iterator[Link]:
    """Saved slots that hold the node's own output with its history: a cycle until backward ran."""
    for slot in saved_slots(node):
        items = slot.value if isinstance(slot.value, tuple | list) else (slot.value,)
        for item in items:
            if not isinstance(item, torch.Tensor):
                continue
            base = item._base
            if grad_fn(item) is node or (base is not None and grad_fn(base) is node):
                word = "packed output" if slot.packed else "saved view of the output"
                yield Link(f"{word} '{slot.name}'", item, node.name())
