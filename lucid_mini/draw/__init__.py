"""Look: graphs, timelines, memory. Every figure is a picture in Jupyter and a text table elsewhere."""

from .figure import Figure, PictureError
from .graph import graph
from .memory import memory
from .timeline import timeline

__all__ = ["Figure", "PictureError", "graph", "memory", "timeline"]
