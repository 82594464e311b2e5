"""The names of PyTorch's inside that the diagnosis reads, and what goes missing without each.

Everything else that it uses is public. A version of PyTorch that has one of these no more gives
one sentence, when a trace starts, and the rest goes on.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .installed import torch

_MISSING: list[str] = []


def _find(path: str, otherwise: Callable[..., Any], affected: str) -> Any:
    """What stands at `path` under torch; `otherwise` where this version has nothing there."""
    try:
        return functools.reduce(getattr, path.split("."), torch)
    except AttributeError:
        _MISSING.append(f"torch.{path} ({affected})")
        return otherwise


def _nothing() -> None:
    """Stands for what is not there."""


#: The number of the backward pass that is running on this thread, -1 outside of one.
graph_task: Callable[[], int] = _find(
    "_C._current_graph_task_id", lambda: -1, "what backward allocates counts as forward"
)
#: The node that backward is running, None outside of a pass.
running_node: Callable[[], Any] = _find(
    "_C._current_autograd_node", lambda: None, "nodes made before the trace are met late"
)
#: Whether the running pass keeps what the nodes have saved (`retain_graph`).
keeps_graph: Callable[[], bool] = _find(
    "_C._autograd._get_current_graph_task_keep_graph",
    lambda: False,
    "a pass with retain_graph shows its saved tensors as released",
)
_next_number: Callable[[], int] = _find(
    "autograd._get_sequence_nr", lambda: 0, "nodes made before the trace count as made in it"
)


def sequence_nr(node: Any = None) -> int:
    """The number that orders a node among all nodes; of the next node, if none is given."""
    if node is None:
        return _next_number()
    number = getattr(node, "_sequence_nr", None)
    return 0 if number is None else int(number())


#: The class of a saved slot: what it holds is read without the check that an unpack makes.
_find("_C._autograd.SavedTensor.data", _nothing, "saved tensors are not seen")
_find("_C._autograd.SavedTensor.unpack_hook", _nothing, "what pack hooks made counts as saved")


def warn_of_missing() -> None:
    """Say, once, what this version of PyTorch does not show."""
    if _MISSING:
        warnings.warn(
            f"PyTorch {torch.__version__} has no {', no '.join(_MISSING)}; all else in the trace "
            "holds.",
            RuntimeWarning,
            stacklevel=3,
        )
        _MISSING.clear()
