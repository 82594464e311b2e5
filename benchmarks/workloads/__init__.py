"""The workloads: a module each.

Each has `TITLE`, what its table `SHOWS` (ratios or values), `GOALS` (case -> what lucid_mini has to
reach), and `run(frameworks, reps, tiny)`. What its docstring says stands above its table.
"""

from types import ModuleType

from . import (
    chain,
    deep,
    double_backward,
    importing,
    ladder,
    layer_norm,
    memory,
    mlp,
    own_function,
    tracing,
    wide,
)

WORKLOADS: dict[str, ModuleType] = {
    "chain": chain,
    "own_function": own_function,
    "mlp": mlp,
    "layer_norm": layer_norm,
    "wide": wide,
    "ladder": ladder,
    "double_backward": double_backward,
    "importing": importing,
    "deep": deep,
    "memory": memory,
    "tracing": tracing,
}
