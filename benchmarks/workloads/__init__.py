"""The workloads: a module each.

Each has `TITLE`, what its table `SHOWS` (ratios or values), and `run(frameworks, reps, tiny)`.
"""

from . import chain, deep, memory, mlp, own_function

WORKLOADS = {
    "chain": chain,
    "own_function": own_function,
    "mlp": mlp,
    "deep": deep,
    "memory": memory,
}
