"""What `lm.bridge.torch` offers."""

from .from_torch import from_torch as from_torch
from .functions import to_torch as to_torch
