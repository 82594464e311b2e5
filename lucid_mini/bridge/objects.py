"""What PyTorch's objects hold: tensors, storages, nodes, modules and optimizers, as typed edges.

With this module loaded the searches of `lifetime` (`why_alive`, the scan, the holders of a trace)
follow them as they follow lucid_mini's own. What lives in C++ alone has no edge here: the hooks of
a node whose output is gone, and the references that PyTorch's own code holds.
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..lifetime.edges import Link, add_readers, line_of
from ..lifetime.kinds import Kind, add_kind
from .installed import torch

#: How the keys of `node.metadata` begin under which a trace leaves its mark.
MARK = "lucid_mini"
#: What a module keeps for itself, and under which words its hooks are told.
_MODULE_HOOKS = {
    "_forward_pre_hooks": "hook (forward pre)",
    "_forward_hooks": "hook (forward)",
    "_backward_pre_hooks": "hook (backward pre)",
    "_backward_hooks": "hook (backward)",
    "_state_dict_hooks": "hook (state dict)",
    "_state_dict_pre_hooks": "hook (state dict)",
    "_load_state_dict_pre_hooks": "hook (state dict)",
    "_load_state_dict_post_hooks": "hook (state dict)",
}
_MODULE_STATE = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}


class TorchKind(Kind):
    """PyTorch's tensors: the storage is what owns the bytes."""

    tensor = torch.Tensor
    memory = torch.UntypedStorage
    nodes = (torch.autograd.graph.Node,)
    function = torch.autograd.Function
    methods = ("forward", "backward", "setup_context", "vjp", "jvp", "vmap")
    empty = 0

    def owner(self, x: Any) -> Any:
        """The storage of a tensor; None for one that has none, such as a sparse one."""
        if isinstance(x, torch.UntypedStorage):
            return x
        try:
            return x.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return None

    def data(self, tensor: Any) -> Any:
        """The tensor itself."""
        return tensor

    def nbytes(self, owner: Any) -> int:
        """The bytes of a storage."""
        return int(owner.nbytes())

    def is_foreign(self, owner: Any) -> bool:
        """Whether the memory is none, or not PyTorch's: `from_numpy`, `frombuffer`, DLPack."""
        return owner.device.type == "meta" or not owner.resizable()

    def is_on(self, x: Any, data: Any) -> bool:
        """Whether `x` is a tensor on the same storage as `data`."""
        if not isinstance(x, torch.Tensor):
            return False
        storage = self.owner(x)
        return storage is not None and storage is self.owner(data)

    def parts(self, x: Any) -> list[tuple[str, Any]]:
        """The parameters and buffers of a module, by their full names."""
        if not isinstance(x, torch.nn.Module):
            return []
        return [*x.named_parameters(), *x.named_buffers()]

    def label(self, node: Any) -> str:
        """`MulBackward0#3` where a trace numbered the node, else its name."""
        marks = [str(held) for key, held in node.metadata.items() if _is_mark(key)]
        return marks[-1] if marks else str(node.name())

    def shape(self, x: Any) -> tuple[int, ...]:
        """The shape of a tensor; of a storage its bytes."""
        return tuple(x.shape) if isinstance(x, torch.Tensor) else (self.nbytes(x),)

    def has_history(self, x: Any) -> bool:
        """Whether an op recorded `x`."""
        return isinstance(x, torch.Tensor) and grad_fn(x) is not None

    def is_parameter(self, x: Any) -> bool:
        """Whether `x` is a leaf that requires grad."""
        return isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad

    def shown(self, x: Any) -> str:
        """`tensor (2, 3)`, `parameter (3,)`, `storage, 12 bytes`."""
        if isinstance(x, torch.UntypedStorage):
            return f"storage, {x.nbytes()} bytes"
        word = "parameter" if isinstance(x, torch.nn.Parameter) else "tensor"
        return f"{word} {tuple(x.shape)}"


TORCH = TorchKind()


def _is_mark(key: Any) -> bool:
    return isinstance(key, str) and key.startswith(MARK)


def grad_fn(tensor: Any) -> Any:
    """The node behind `tensor`, None for a leaf and where PyTorch refuses to say."""
    try:
        return tensor.grad_fn
    except RuntimeError:  # a view that was written in a way that has no gradient
        return None


def nodes_of(start: Any) -> Iterator[Any]:
    """The nodes of a graph, from the root on, each once."""
    pending, seen = [] if start is None else [start], set()
    kept = []  # a node's Python object lives as long as somebody holds it, and so does its id
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        kept.append(node)
        yield node
        pending += [upstream for upstream, _ in reversed(node.next_functions) if upstream]


class Slot(NamedTuple):
    """One saved slot of a node: the tensor, or what a pack hook made of it."""

    name: str
    value: Any
    packed: bool


def saved_slots(node: Any) -> list[Slot]:
    """What `node` has saved and not released yet. Nothing is unpacked: no hook runs, no check.

    A custom Function's are called by their place; those of others as PyTorch calls them.
    """
    found: list[Slot] = []
    cls: Any = type(node)
    for attribute in _raw_names(cls):
        name = attribute.removeprefix("_raw_saved_").rstrip("_")
        try:
            raw = getattr(node, attribute)
        except RuntimeError:  # released
            continue
        several = isinstance(raw, tuple)
        for index, one in enumerate(raw if several else (raw,)):
            packed = getattr(one, "unpack_hook", None) is not None
            value = getattr(one, "data", None)
            if value is not None:
                place = f"{index}" if name == "tensors" else f"{name}[{index}]"
                found.append(Slot(place if several else name, value, packed))
    return found


@functools.lru_cache(maxsize=512)
def _raw_names(cls: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(cls) if name.startswith("_raw_saved_"))


def _tensor(t: Any) -> Iterator[Link]:
    storage = TORCH.owner(t)
    if storage is not None:
        yield Link("its storage", storage)
    if (t.is_leaf or t.retains_grad) and t.grad is not None:
        yield Link(".grad", t.grad)
    node = grad_fn(t)
    if node is not None:
        yield Link("grad_fn", node)
    if t._base is not None:
        yield Link("view of", t._base)
    yield from tensor_hooks(t)
    for name, held in list(getattr(t, "__dict__", {}).items()):
        yield Link(f"attribute .{name}", held, "a tensor")


def tensor_hooks(t: Any) -> Iterator[Link]:
    """The hooks of a tensor, in the order in which they were registered."""
    for hook in list((t._backward_hooks or {}).values()):
        yield Link("hook", hook, "a tensor")
    for hook in list((getattr(t, "_post_accumulate_grad_hooks", None) or {}).values()):
        yield Link("hook (post accumulate)", hook, "a tensor")


def _nothing(_: Any) -> Iterator[Link]:
    return iter(())


def _node(node: Any) -> Iterator[Link]:
    by = TORCH.label(node)
    for slot in saved_slots(node):
        word = "packed" if slot.packed else "saved tensor"
        yield Link(f"{word} '{slot.name}'", slot.value, by)
    yield from ctx_attributes(node)
    function = getattr(type(node), "_forward_cls", None)
    if function is not None:
        yield Link("its Function", function, by)
    variable = getattr(node, "variable", None)
    if variable is not None:
        yield Link("its leaf", variable, by)
    for key, held in list(node.metadata.items()):
        if not _is_mark(key):
            yield Link(f"metadata[{key!r}]", held, by)
    for upstream, _ in node.next_functions:
        if upstream is not None:
            yield Link("next node", upstream, by)


def ctx_attributes(node: Any) -> Iterator[Link]:
    """The attributes that a custom Function gave its ctx, which in PyTorch is the node."""
    function = getattr(type(node), "_forward_cls", None)
    if function is None:
        return
    for key, held in list(vars(node).items()):
        where = line_of(function, f"ctx.{key}")
        yield Link(f"ctx attribute '{key}'", held, function.__name__, where)


def _module(module: Any) -> Iterator[Link]:
    by = type(module).__name__
    for name, held in list(vars(module).items()):
        if name in _MODULE_STATE:
            for key, part in list(held.items()):
                yield Link(f"{_MODULE_STATE[name]} '{key}'", part, by)
        elif name in _MODULE_HOOKS:
            for hook in list((held or {}).values()):
                yield Link(_MODULE_HOOKS[name], hook, by)
        else:
            yield Link(f"attribute .{name}", held, by)


def _optimizer(optimizer: Any) -> Iterator[Link]:
    by = type(optimizer).__name__
    for number, group in enumerate(optimizer.param_groups):
        for index, parameter in enumerate(group["params"]):
            yield Link(f"parameter '{number}.{index}'", parameter, by)
    for state in list(optimizer.state.values()):
        if isinstance(state, dict):
            for key, held in list(state.items()):
                yield Link(f"optimizer state '{key}'", held, by)
    for name, held in list(vars(optimizer).items()):
        if name not in ("param_groups", "state"):
            yield Link(f"attribute .{name}", held, by)


add_kind(TORCH)
add_readers(
    (torch.Tensor, _tensor),
    (torch.UntypedStorage, _nothing),
    (torch.nn.Module, _module),
    (torch.optim.Optimizer, _optimizer),
    (torch.autograd.graph.Node, _node),
)
