"""The way out: what was written and understood here, in PyTorch.

`lm.bridge.torch` needs PyTorch (`pip install 'lucid-mini[torch]'`); nothing else imports it.
"""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "torch":
        return importlib.import_module(f"{__name__}.torch")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return ["torch"]
