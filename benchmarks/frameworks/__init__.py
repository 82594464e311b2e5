"""The adapters. A new framework is one module here and one line in `ADAPTERS`.

The extra `bench` installs the peers, except PyTorch, which has an extra of its own.
"""

from importlib import import_module

from .base import Array, Framework, Program, Run, UnsupportedError
from .floor import Floor

#: Name -> module and class. The floor is no adapter: it is always there, and first.
ADAPTERS = {
    "bare stack": ("bare", "Bare"),
    "lucid_mini": ("lucid", "Lucid"),
    "PyTorch": ("pytorch", "PyTorch"),
    "HIPS autograd": ("hips", "Hips"),
    "MyGrad": ("mygrad", "MyGrad"),
    "DeZero": ("dezero", "DeZero"),
    "micrograd": ("micrograd", "Micrograd"),
}


def load() -> tuple[list[Framework], dict[str, str]]:
    """The floor and every framework that imports; and for the others, why they do not."""
    found: list[Framework] = [Floor()]
    missing: dict[str, str] = {}
    for name, (module, adapter) in ADAPTERS.items():
        try:
            found.append(getattr(import_module(f"{__name__}.{module}"), adapter)())
        except ImportError as error:
            missing[name] = f"does not import: {error}"
    return found, missing


__all__ = ["Array", "Floor", "Framework", "Program", "Run", "UnsupportedError", "load"]
