"""What `lm.bridge.torch` offers."""

from .from_torch import from_torch as from_torch
from .functions import to_torch as to_torch
from .scan import scan as scan
from .tracing import trace as trace
