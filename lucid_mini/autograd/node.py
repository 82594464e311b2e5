"""Node, Edge and AccumulateGrad: the graph that backward walks. Nothing here knows Tensor.

output tensor -owns-> Node -owns-> upstream Nodes          (never the other way)
                       |
                       owns-> ctx -owns-> saved data
"""

import itertools
import re
import weakref
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .ctx import FunctionCtx
from .saved import Freed

#: Stands in `_next_nodes` for an argument that is no tensor; a tensor that needs no gradient is
#: None.
NOT_A_TENSOR = 0

_sequence = itertools.count(1)
_passes = itertools.count(1)
_first = 0  # what `reset_names` counts from


def reset_names() -> None:
    """Let node labels (`mul#17`) and passes (`backward 1`) count from 1 again.

    Sequence numbers go on: they order the nodes.

    Example:
        >>> lm.reset_names()
        >>> lm.ones(1, requires_grad=True).exp().grad_fn.label
        'exp#1'
    """
    global _first, _passes  # noqa: PLW0603
    _first = next(_sequence)
    _passes = itertools.count(1)


def next_pass() -> tuple[Freed, Freed]:
    """What a new backward pass leaves where it released something, and where there was nothing."""
    number = next(_passes)
    return (
        Freed(
            f"was used by backward {number}, which released what it had saved. Pass "
            f"retain_graph=True to the first backward to keep it."
        ),
        Freed(
            f"has nothing to give back: nothing was ever saved, and backward {number} has released "
            "it."
        ),
    )


def label_of(kind: str, sequence_nr: int, first: int | None = None) -> str:
    """`mul#17`: a kind, and a sequence number counted from `reset_names()` (or from `first`)."""
    return f"{kind}#{sequence_nr - (_first if first is None else first)}"


def first_number() -> int:
    """What labels count from now: for whoever wants to write them later as they are now."""
    return _first


def next_sequence_nr() -> int:
    """The number of the next node: higher than that of every node it can depend on."""
    return next(_sequence)


class Edge(NamedTuple):
    """Where the gradient of an argument goes: slot `input_nr` of the outputs of `node`.

    Example:
        >>> x = lm.ones(1, requires_grad=True)
        >>> edge = (x * 2).grad_fn.next_edges[0]
        >>> edge.node, edge.input_nr
        (<AccumulateGrad>, 0)
    """

    node: "Node | AccumulateGrad | None"
    input_nr: int

    def is_valid(self) -> bool:
        """Whether the argument needs a gradient.

        Example:
            >>> x = lm.ones(1, requires_grad=True)
            >>> [edge.is_valid() for edge in (x * 2).grad_fn.next_edges]
            [True, False]
        """
        return self.node is not None


class Meta(NamedTuple):
    """Shape and dtype of one output: what its gradient must have."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Node:
    """One recorded call of a Function.

    One class serves all Functions: the interpreter reads a field of it in 5 ns where it would need
    16 for a class per Function. The fields are flat (no Edge objects, no lists): what the collector
    has to look at per op is what bends the curve on deep graphs.
    `function` is that Function; `sequence_nr` orders the nodes: higher than that of every node this
    one can depend on; `shape` and `dtype` are those of its one output.
    Keeps: its ctx, and the nodes upstream. Never its outputs.

    Example:
        >>> x = lm.ones(2, requires_grad=True)
        >>> node = (x * 2).exp().grad_fn
        >>> node.function.__name__, node.shape, node.dtype
        ('Exp', (2,), dtype('float64'))
        >>> node.sequence_nr > node.next_edges[0].node.sequence_nr
        True
    """

    __slots__ = (
        "__weakref__",
        "_ctx",
        "_hooks",
        "_next_nodes",
        "_next_nrs",
        "_outputs",
        "_released",
        "dtype",
        "function",
        "sequence_nr",
        "shape",
    )

    _is_node: ClassVar[bool] = True
    function: Any  # the Function class
    _ctx: FunctionCtx
    _hooks: "NodeHooks | None"
    _next_nodes: tuple[Any, ...]  # one per argument of forward; None where no gradient is needed
    _next_nrs: tuple[int, ...] | None  # which output of each; None when all are 0
    _outputs: tuple[Meta | None, ...] | None  # for several outputs; None for one
    _released: Freed | None
    shape: tuple[int, ...]  # of the one output
    dtype: np.dtype[Any]
    sequence_nr: int

    @property
    def name(self) -> str:
        """`<Function>Backward`.

        Example:
            >>> lm.ones(2, requires_grad=True).exp().grad_fn.name
            'ExpBackward'
        """
        return f"{self.function.__name__}Backward"

    @property
    def kind(self) -> str:
        """`mul`, as labels and figures write it.

        Example:
            >>> lm.ones(2, requires_grad=True).exp().grad_fn.kind
            'exp'
        """
        kind: str = self.function._kind
        return kind

    @property
    def label(self) -> str:
        """`mul#17`: the kind and the sequence number since `reset_names()`.

        Example:
            >>> lm.ones(2, requires_grad=True).exp().grad_fn.label
            'exp#1'
        """
        return label_of(self.kind, self.sequence_nr)

    @property
    def ctx(self) -> FunctionCtx:
        """The object that forward and backward are given.

        Example:
            >>> y = lm.ones(2, requires_grad=True).exp()
            >>> y.grad_fn.ctx
            <ctx of exp#1: 1 saved>
        """
        return self._ctx

    @property
    def released(self) -> bool:
        """Whether a backward pass has run this node and released what it had saved.

        Example:
            >>> y = lm.ones(1, requires_grad=True).exp()
            >>> y.backward()
            >>> y.grad_fn.released
            True
        """
        return self._released is not None

    @property
    def next_edges(self) -> tuple[Edge, ...]:
        """One edge per argument of forward, invalid where no gradient is needed.

        Example:
            >>> x = lm.ones(1, requires_grad=True)
            >>> [edge.node for edge in (x * 2).grad_fn.next_edges]
            [<AccumulateGrad>, None]
        """
        nrs = self._next_nrs or (0,) * len(self._next_nodes)
        return tuple(
            [Edge(node or None, nr) for node, nr in zip(self._next_nodes, nrs, strict=True)]
        )

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The edges as PyTorch writes them: `(node, input_nr)` or `(None, 0)`.

        Example:
            >>> x = lm.ones(1, requires_grad=True)
            >>> (x * 2).grad_fn.next_functions
            ((<AccumulateGrad>, 0), (None, 0))
        """
        return tuple((edge.node, edge.input_nr) for edge in self.next_edges)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for whoever wants to note something about this node.

        Example:
            >>> node = lm.ones(1, requires_grad=True).exp().grad_fn
            >>> node.metadata["layer"] = 1
            >>> node.metadata
            {'layer': 1}
        """
        return self._rare().metadata

    def _rare(self) -> "NodeHooks":
        if self._hooks is None:
            self._hooks = NodeHooks()
        return self._hooks

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Hooks(dict[int, Any]):
    """Hooks by the key of their handle, in the order of registration. Handles know it weakly."""

    __slots__ = ("__weakref__",)


class NodeHooks:
    """What few nodes have: hooks on outputs, on the node, and notes.

    `tensor_hooks` maps an output's number to its hooks, `retain` to a weak reference to the tensor
    that wants its `.grad`. `pre` and `post` are those of the node, `accumulated` those that follow
    a leaf's `.grad`.
    """

    __slots__ = ("accumulated", "metadata", "post", "pre", "retain", "tensor_hooks")

    def __init__(self) -> None:
        self.tensor_hooks: dict[int, Hooks] = {}
        self.retain: dict[int, Any] = {}
        self.pre = Hooks()
        self.post = Hooks()
        self.accumulated = Hooks()
        self.metadata: dict[str, Any] = {}


class AccumulateGrad:
    """The end of a path: adds what arrives into the `.grad` of one leaf.

    The leaf owns it, and it knows the leaf weakly: a graph does not keep parameters alive, and a
    leaf that is gone drops its gradient. Its sequence number is 0: it comes after every node.

    Example:
        >>> x = lm.ones(1, requires_grad=True)
        >>> y = x * 2
        >>> end = y.grad_fn.next_edges[0].node
        >>> del x
        >>> end, end.variable  # y keeps the end of the path, and not the leaf
        (<AccumulateGrad>, None)
    """

    __slots__ = ("__weakref__", "_hooks", "_leaf", "_outputs", "dtype", "shape")

    _is_accumulate: ClassVar[bool] = True
    sequence_nr: ClassVar[int] = 0
    kind: ClassVar[str] = "accumulate_grad"
    name: ClassVar[str] = "AccumulateGrad"
    label: ClassVar[str] = "leaf"
    released: ClassVar[bool] = False
    next_edges: ClassVar[tuple[Edge, ...]] = ()
    next_functions: ClassVar[tuple[Any, ...]] = ()

    def __init__(self, leaf: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._leaf = weakref.ref(leaf)
        self._outputs = None
        self._hooks: NodeHooks | None = None
        self.shape = shape
        self.dtype = dtype

    @property
    def variable(self) -> Any:
        """The leaf, or None when it is gone.

        Example:
            >>> x = lm.ones(1, requires_grad=True)
            >>> (x * 2).grad_fn.next_edges[0].node.variable is x
            True
        """
        return self._leaf()

    def _rare(self) -> NodeHooks:
        if self._hooks is None:
            self._hooks = NodeHooks()
        return self._hooks

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for whoever wants to note something about this leaf."""
        return self._rare().metadata

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def walk(starts: list[Any]) -> set[Any]:
    """`starts` and everything upstream of them, leaves included."""
    reached, stack = set(starts), list(starts)
    while stack:
        for upstream in getattr(stack.pop(), "_next_nodes", ()):
            if upstream and upstream not in reached:
                reached.add(upstream)
                stack.append(upstream)
    return reached


def reachable(starts: list[Any]) -> list[Any]:
    """The nodes upstream of `starts`, themselves included, leaves left out: latest first."""
    nodes = [node for node in walk(starts) if type(node) is not AccumulateGrad]
    return sorted(nodes, key=lambda node: -node.sequence_nr)


def kind_of(function_name: str) -> str:
    """`LogSoftmax` as labels write it: `log_softmax`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", function_name).lower()
