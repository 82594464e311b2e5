"""Who keeps which bytes alive, and until when."""

from .buffers import Buffer
from .holders import Chain, why_alive
from .poison import Need, is_needed
from .saved_list import SavedValues, saved
from .scan import Finding, Findings, scan
from .trace import Trace, trace

__all__ = [
    "Buffer",
    "Chain",
    "Finding",
    "Findings",
    "Need",
    "SavedValues",
    "Trace",
    "is_needed",
    "saved",
    "scan",
    "trace",
    "why_alive",
]
