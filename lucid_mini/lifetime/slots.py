"""What the saved slots of a node are called."""

from typing import Any

from ..autograd.tensor import Tensor


def slot_names(node: Any, args: tuple[Any, ...] = ()) -> list[str]:
    """A name for each saved slot: its keyword, the argument it is, `output`, or `saved 2`.

    `args`: what forward was called with, if that is known; otherwise the edges tell the arguments
    that need a gradient.
    """
    slots = node._ctx._saved
    if type(slots) is not tuple:
        return []
    keywords = {at: name for name, at in (node._ctx._named or {}).items() if type(at) is int}
    count = len(node._next_nodes)
    names = []
    for index, slot in enumerate(slots):
        if index in keywords:
            names.append(keywords[index])
        elif slot is None:
            names.append(f"saved {index}")
        elif type(slot) is not Tensor:
            names.append("output" if slot.output_nr >= 0 else "view of output")
        else:
            argument = _argument(node, slot, args)
            names.append(
                f"saved {index}"
                if argument is None
                else node.function.argument_names(count)[argument]
            )
    return names


def _argument(node: Any, slot: Any, args: tuple[Any, ...]) -> int | None:
    for argument, a in enumerate(args):
        if a is slot:
            return argument
    for argument, upstream in enumerate(node._next_nodes):
        nr = node._next_nrs[argument] if node._next_nrs else 0
        if upstream and slot._node is upstream and slot._output_nr == nr:
            return argument
    return None
