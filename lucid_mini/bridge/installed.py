"""PyTorch itself, for the modules of the bridge, or one sentence that says how to get it."""

import importlib
from typing import Any


def _load() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            "lm.bridge.torch needs PyTorch, which does not import here "
            f"({error}); install it with: pip install 'lucid-mini[torch]'"
        ) from None


torch = _load()
