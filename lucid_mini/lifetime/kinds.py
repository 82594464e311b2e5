"""What counts as a tensor, as memory, as a node: lucid_mini's own, and those that a bridge adds.

The searches, the scan and the record of a trace ask a `Kind` and never name a library.
"""

from typing import Any

import numpy as np

from ..autograd.function import Function
from ..autograd.node import Node
from ..autograd.saved import owner
from ..autograd.tensor import Tensor


class Kind:
    """The tensors of one library, and what a diagnosis asks about them. This one: lucid_mini's.

    An *owner* is the object that dies when the bytes do: weakly referenceable, and the same object
    as long as they live.
    """

    #: What a program handles, what lies under it, and what stands in a graph.
    tensor: type = Tensor
    memory: type = np.ndarray
    nodes: tuple[type, ...] = (Node,)
    #: The class of the ops that a user writes, and the methods of one that hold things.
    function: type = Function
    methods: tuple[str, ...] = ("forward", "backward", "setup_context")
    #: What an empty owner counts in a trace: NumPy allocates one byte.
    empty: int = 1

    def owner(self, x: Any) -> Any:
        """What owns the bytes under a tensor or a piece of memory; None if it has no bytes."""
        return owner(x._data if type(x) is Tensor else x)

    def data(self, tensor: Any) -> Any:
        """What a record is told of a tensor: lucid_mini's are known by their arrays."""
        return tensor._data

    def nbytes(self, owner: Any) -> int:
        """The bytes of an owner."""
        return int(owner.nbytes)

    def is_foreign(self, owner: Any) -> bool:
        """Whether the library did not allocate the memory itself."""
        return not owner.flags.owndata

    def is_on(self, x: Any, data: Any) -> bool:
        """Whether `x` is a tensor, and on `data`: what a trace was told when it met one."""
        return type(x) is Tensor and x._data is data

    def parts(self, x: Any) -> list[tuple[str, Any]]:
        """Tensors that an object knows by name and not as its attributes."""
        return []

    def label(self, node: Any) -> str:
        """What texts call a node, "" for what has no name."""
        return str(getattr(node, "label", None) or "")

    def shape(self, x: Any) -> tuple[int, ...]:
        """The shape of a tensor or a piece of memory."""
        return tuple((x._data if type(x) is Tensor else x).shape)

    def has_history(self, x: Any) -> bool:
        """Whether `x` is a tensor that an op recorded."""
        return type(x) is Tensor and not x.is_leaf

    def is_parameter(self, x: Any) -> bool:
        """Whether `x` is a leaf that requires grad."""
        return type(x) is Tensor and x.is_leaf and x.requires_grad

    def shown(self, x: Any) -> str:
        """What texts call a tensor or a piece of memory: no address, no value."""
        if type(x) is Tensor:
            return f"tensor {x.shape}"
        return f"array {x.shape}, {x.nbytes} bytes"


OWN = Kind()
_KINDS: list[Kind] = [OWN]


def add_kind(kind: Kind) -> None:
    """Make the searches and the scan know the tensors of another library."""
    _KINDS.append(kind)


def kind_of(x: Any) -> Kind | None:
    """The kind whose tensor or memory `x` is, None for anything else."""
    for kind in _KINDS:
        if isinstance(x, (kind.tensor, kind.memory)):
            return kind
    return None


def is_memory(x: Any) -> bool:
    """Whether `x` is memory that tensors lie on, and no tensor itself."""
    return any(isinstance(x, kind.memory) for kind in _KINDS)


def kind_of_function(cls: type) -> Kind | None:
    """The kind whose ops `cls` is one of, None for another class."""
    return next((kind for kind in _KINDS if issubclass(cls, kind.function)), None)


def is_node(x: Any) -> bool:
    """Whether `x` is a node of a graph."""
    return any(isinstance(x, kind.nodes) for kind in _KINDS)


def node_label(x: Any) -> str:
    """What texts call the node `x`, "" for what is none."""
    return next((kind.label(x) for kind in _KINDS if isinstance(x, kind.nodes)), "")
