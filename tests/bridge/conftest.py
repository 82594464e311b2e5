"""The tests of the bridge run where PyTorch does, and say so where it does not."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'lucid-mini[torch]'")
