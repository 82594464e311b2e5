"""What `lm.bridge.torch` offers."""

from .scan import scan as scan
