"""What `lm.bridge.torch` offers."""

from .scan import scan as scan
from .tracing import trace as trace
