"""The ctx / Function / engine stack, in reading order: mode, saved, ctx, node, engine, tensor, function, hooks."""

from .ctx import AutogradContext, FunctionCtx
from .engine import Step
from .function import Function, autograd_function
from .hooks import RemovableHandle
from .node import AccumulateGrad, Edge, Node
from .passes import backward, grad, steps

__all__ = [
    "AccumulateGrad",
    "AutogradContext",
    "Edge",
    "Function",
    "FunctionCtx",
    "Node",
    "RemovableHandle",
    "Step",
    "autograd_function",
    "backward",
    "grad",
    "steps",
]
