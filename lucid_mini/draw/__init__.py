"""Look: every function gives a figure, a picture in Jupyter and a text table elsewhere."""

from .figure import Figure, PictureError
from .graph import graph
from .holders import holders
from .memory import memory
from .stepper import stepper
from .timeline import timeline

__all__ = [
    "Figure",
    "PictureError",
    "graph",
    "holders",
    "memory",
    "stepper",
    "timeline",
]
