"""Registering hooks, on tensors and on nodes, and the handles that take them back.

Who keeps whom: a node owns its hooks, a hook owns what it captures. So a hook dies with its
removal, or with its node (that of a leaf with the leaf), and a hook that captures its own tensor,
its node or anything computed from it closes a cycle. A handle knows the hooks weakly and keeps
nothing alive.
"""

import itertools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from ..errors import HookCaptureWarning, NoGradientError, NotALeafError
from .callsite import outer_level
from .inside import _open as parts_of
from .node import AccumulateGrad, Hooks, Node
from .tensor import Tensor

#: How many objects, and how many nodes, one search for captures looks at.
LIMIT = 10_000

_keys = itertools.count()


class RemovableHandle:
    """What registering a hook returns: `remove()` takes back exactly that registration.

    Also a context manager: the hook is removed at the end of the block.

    Example:
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> with x.register_hook(lambda grad: grad * 100):
        ...     (x * x).backward()
        >>> x.grad
        tensor(600.)
    """

    def __init__(self, registered: Hooks, hook: Callable[..., Any]) -> None:
        self._registered = weakref.ref(registered)
        self._key = next(_keys)
        registered[self._key] = hook

    def remove(self) -> None:
        """Take the hook back. A second time, or when its node is gone, nothing happens.

        Example:
            >>> x = lm.tensor(3.0, requires_grad=True)
            >>> x.register_hook(lambda grad: grad * 100).remove()
            >>> (x * x).backward()
            >>> x.grad
            tensor(6.)
        """
        registered = self._registered()
        if registered is not None:
            registered.pop(self._key, None)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(gradient)` when the gradient of `tensor` is complete; what it returns replaces it.

    Keeps: the hook, until it is removed or the node dies (a leaf's: the leaf).
    Raises: NoGradientError for a tensor that does not require grad, TypeError for what is not
    callable. Warns: HookCaptureWarning.

    Example:
        >>> x = lm.tensor([3.0, 4.0], requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad.clamp(max=7.0))
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([6., 7.])
    """
    _check(tensor, hook, "register_hook")
    _warn_of_captures(hook, tensor._node, tensor)
    hooks = tensor._node._rare().tensor_hooks.setdefault(tensor._output_nr, Hooks())
    return RemovableHandle(hooks, hook)


def register_post_accumulate_grad_hook(
    tensor: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call `hook(tensor)` after a backward pass has updated `tensor.grad`. For leaves.

    The hook is given the tensor, and need not capture it.
    Keeps: the hook, until it is removed or the leaf dies.
    Raises: NoGradientError, NotALeafError, TypeError. Warns: HookCaptureWarning.

    Example:
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print("arrived:", leaf.grad))
        >>> (x * x).backward()
        arrived: tensor(6.)
    """
    _check(tensor, hook, "register_post_accumulate_grad_hook")
    if not tensor.is_leaf:
        raise NotALeafError(
            "register_post_accumulate_grad_hook is for leaves, and "
            f"{tensor._node.label} made this tensor. Use register_hook."
        )
    _warn_of_captures(hook, tensor._node, tensor)
    return RemovableHandle(tensor._node._rare().accumulated, hook)


def register_node_hook(
    node: Node | AccumulateGrad, hook: Callable[[Any, Any], Any]
) -> RemovableHandle:
    """Call `hook(grad_inputs, grad_outputs)`, two tuples, when the node has run.

    A tuple that it returns replaces `grad_inputs`, one for each argument of forward. An
    AccumulateGrad has no `grad_inputs`: it gets `()`, after the write to `.grad`.
    Keeps: the hook, until it is removed or the node dies.   Raises: TypeError.

    Example:
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> y = x * 5.0
        >>> handle = y.grad_fn.register_hook(lambda grads_in, grads_out: print(grads_in, grads_out))
        >>> y.backward()
        (tensor(5.), None) (tensor(1.),)
    """
    _check_callable(hook, "register_hook")
    _warn_of_captures(hook, node, None)
    return RemovableHandle(node._rare().post, hook)


def register_node_prehook(
    node: Node | AccumulateGrad, hook: Callable[[Any], Any]
) -> RemovableHandle:
    """Call `hook(grad_outputs)`, a tuple, before the node runs; a tuple it returns replaces them.

    Keeps: the hook, until it is removed or the node dies.   Raises: TypeError.

    Example:
        >>> x = lm.tensor(3.0, requires_grad=True)
        >>> y = x * 5.0
        >>> handle = y.grad_fn.register_prehook(lambda grads: (grads[0] * 100,))
        >>> y.backward()
        >>> x.grad
        tensor(500.)
    """
    _check_callable(hook, "register_prehook")
    _warn_of_captures(hook, node, None)
    return RemovableHandle(node._rare().pre, hook)


def _check(tensor: Tensor, hook: Callable[..., Any], method: str) -> None:
    if tensor._node is None:
        raise NoGradientError(
            f"{method}: this tensor does not require grad, so the hook would never run. Call "
            "requires_grad_() on it, or hook a tensor computed from one that requires grad."
        )
    _check_callable(hook, method)


def _check_callable(hook: Callable[..., Any], method: str) -> None:
    if not callable(hook):
        raise TypeError(f"{method} takes a callable, not {type(hook).__name__}")


# -- captures -------------------------------------------------------------------------------------


def _warn_of_captures(hook: Callable[..., Any], node: Any, tensor: Tensor | None) -> None:
    """Warn if `hook` holds `tensor`, or `node`, or anything downstream: that closes a cycle."""
    stack: list[tuple[str, Any]] = [("", hook)]
    seen: set[int] = set()
    while stack and len(seen) < LIMIT:
        path, value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        captured = value._node if type(value) is Tensor else value
        if type(captured) not in (Node, AccumulateGrad):
            if type(value) is not Tensor:
                stack += [(path + step, part) for step, part in parts_of(value, False)]
        elif captured is node or _leads_to(captured, node):
            name = getattr(hook, "__qualname__", type(hook).__name__)
            if value is tensor:
                what = "the tensor it is registered on"
            elif value is node:
                what = "its own node"
            else:
                what = f"what {captured.label} made, which was computed from it"
            warnings.warn(
                f"hook {name}{path} holds {what}. Node -> hook -> capture -> node is a cycle, and "
                "only the garbage collector frees it. Capture weakref.ref(t) in place of t, and "
                "call it in the hook.",
                HookCaptureWarning,
                stacklevel=outer_level(),
            )
            return


def _leads_to(start: Any, node: Any) -> bool:
    """Whether `node` is upstream of `start`, as far as LIMIT nodes tell."""
    stack, seen = [start], {start}
    while stack and len(seen) < LIMIT:
        for upstream in getattr(stack.pop(), "_next_nodes", ()):
            if upstream is node:
                return True
            # What is older than `node` cannot have been computed from it.
            if upstream and upstream.sequence_nr > node.sequence_nr and upstream not in seen:
                seen.add(upstream)
                stack.append(upstream)
    return False


Tensor.register_hook = register_hook  # type: ignore[attr-defined]
Tensor.register_post_accumulate_grad_hook = (  # type: ignore[attr-defined]
    register_post_accumulate_grad_hook
)
for _class in (Node, AccumulateGrad):
    _class.register_hook = register_node_hook  # type: ignore[union-attr]
    _class.register_prehook = register_node_prehook  # type: ignore[union-attr]
