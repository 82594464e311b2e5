"""lucid_mini: automatic differentiation that shows what a backward pass remembers.

The public names; nothing is computed here. Use it as `import lucid_mini as lm`.
"""

import importlib
from typing import Any

from . import autograd, errors
from .autograd.mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from .autograd.node import reset_names
from .autograd.tensor import Tensor, from_numpy, tensor
from .ops.create import (
    arange,
    as_tensor,
    eye,
    full,
    full_like,
    is_tensor,
    manual_seed,
    ones,
    ones_like,
    rand,
    randn,
    zeros,
    zeros_like,
)
from .ops.table import FUNCTIONS

__version__ = "0.1.0"

__all__ = [  # noqa: PLE0604 - the names in the table are strings
    "Tensor",
    "arange",
    "as_tensor",
    "autograd",
    "checkpoint",
    "enable_grad",
    "errors",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hvp",
    "inference_mode",
    "is_grad_enabled",
    "is_tensor",
    "jacobian",
    "jvp",
    "manual_seed",
    "no_grad",
    "ones",
    "ones_like",
    "rand",
    "randn",
    "reset_names",
    "set_grad_enabled",
    "tensor",
    "vjp",
    "zeros",
    "zeros_like",
    *FUNCTIONS,
]

# lm.exp, lm.cat and the like: the table of `ops` names them once.
globals().update(FUNCTIONS)

#: Imported when first asked for: they may need packages that the rest does not.
_LATE = ("bridge", "draw", "lifetime", "testing", "transforms")
#: lm.jacobian and the like: each a name of `transforms`.
_TRANSFORMS = (
    "checkpoint",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "vjp",
)


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "load_ipython_extension":  # %load_ext lucid_mini
        return importlib.import_module(f"{__name__}.magic").load_ipython_extension
    if name in _TRANSFORMS:
        globals()[name] = getattr(importlib.import_module(f"{__name__}.transforms"), name)
        return globals()[name]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATE, *_TRANSFORMS})
