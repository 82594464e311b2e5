"""The ctx / Function / engine stack.

In reading order: mode, saved, ctx, node, engine, tensor, function, hooks.
"""

from .anomaly import detect_anomaly
from .ctx import AutogradContext, FunctionCtx
from .dump import dump, stats
from .engine import Step
from .function import Function, autograd_function
from .hooks import RemovableHandle
from .node import AccumulateGrad, Edge, Node
from .once import once_differentiable
from .passes import backward, grad, steps
from .saved_hooks import allow_mutation_on_saved_tensors, save_on_disk, saved_tensors_hooks

__all__ = [
    "AccumulateGrad",
    "AutogradContext",
    "Edge",
    "Function",
    "FunctionCtx",
    "Node",
    "RemovableHandle",
    "Step",
    "allow_mutation_on_saved_tensors",
    "autograd_function",
    "backward",
    "detect_anomaly",
    "dump",
    "grad",
    "once_differentiable",
    "save_on_disk",
    "saved_tensors_hooks",
    "stats",
    "steps",
]
