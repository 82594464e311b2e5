"""Tools made of gradients: whole derivatives, checkpoints, and the check of a rule.

They use what every user has (`grad()`, Functions, modes), and nothing of the engine.
"""

from .checkpoint import checkpoint
from .derivatives import hessian, hvp, jacobian, jvp, vjp
from .gradcheck import gradcheck, gradgradcheck

__all__ = [
    "checkpoint",
    "gradcheck",
    "gradgradcheck",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "vjp",
]
