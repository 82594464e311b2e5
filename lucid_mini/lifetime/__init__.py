"""Who keeps which bytes alive, and until when."""

from .buffers import Buffer
from .holders import Chain, why_alive
from .saved_list import SavedValues, saved
from .scan import Finding, Findings, scan
from .trace import Trace, trace

__all__ = [
    "Buffer",
    "Chain",
    "Finding",
    "Findings",
    "SavedValues",
    "Trace",
    "saved",
    "scan",
    "trace",
    "why_alive",
]
