"""Hooks on tensors, and their handles."""

import itertools
from collections.abc import Callable
from typing import Any

from ..errors import NoGradientError, NotALeafError
from .node import Hooks
from .tensor import Tensor

_keys = itertools.count()


class RemovableHandle:
    """What registering a hook returns: `remove()` takes back exactly that registration.

    Also a context manager: the hook is removed at the end of the block.
    """

    def __init__(self, registered: dict[int, Any], hook: Callable[..., Any]) -> None:
        self._registered = registered
        self._key = next(_keys)
        registered[self._key] = hook

    def remove(self) -> None:
        """Take the hook back."""
        self._registered.pop(self._key, None)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(gradient)` when the gradient of `tensor` is complete; what it returns replaces it.

    Keeps: the hook, until it is removed or the node dies (a leaf's: the leaf).
    Raises: NoGradientError for a tensor that does not require grad, TypeError for what is not
    callable.
    """
    if tensor._node is None:
        raise NoGradientError(
            "register_hook: this tensor does not require grad, so the hook would never run"
        )
    if not callable(hook):
        raise TypeError(f"register_hook takes a callable, not {type(hook).__name__}")
    hooks = tensor._node._rare().tensor_hooks.setdefault(tensor._output_nr, Hooks())
    return RemovableHandle(hooks, hook)


def register_post_accumulate_grad_hook(
    tensor: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call `hook(tensor)` after a backward pass has updated `tensor.grad`. For leaves.

    Raises: NoGradientError, NotALeafError, TypeError.
    """
    if tensor._node is None:
        raise NoGradientError("this tensor does not require grad, so the hook would never run")
    if not tensor.is_leaf:
        raise NotALeafError(
            f"post-accumulate hooks are for leaves; {tensor._node.label} made this tensor. Use "
            "register_hook."
        )
    if not callable(hook):
        raise TypeError(f"a hook must be callable, not {type(hook).__name__}")
    return RemovableHandle(tensor._node._rare().accumulated, hook)


Tensor.register_hook = register_hook  # type: ignore[attr-defined]
Tensor.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook  # type: ignore[attr-defined]
