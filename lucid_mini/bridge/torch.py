"""What `lm.bridge.torch` offers."""

from .functions import from_torch as from_torch
from .functions import to_torch as to_torch
