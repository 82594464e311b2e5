"""The tests of the bridge run where PyTorch does; where it does not, each file says so."""

import importlib

import pytest


def _imports_torch():
    try:
        importlib.import_module("torch")
    except ImportError:
        return False
    return True


class WithoutTorch(pytest.Module):
    """A file of tests that is not imported, for it would import PyTorch."""

    def collect(self):
        pytest.skip("PyTorch does not import here: pip install 'lucid-mini[torch]'")


def pytest_pycollect_makemodule(module_path, parent):
    """Stand in for a file that cannot be imported."""
    if not _imports_torch():
        return WithoutTorch.from_parent(parent, path=module_path)
    return None
