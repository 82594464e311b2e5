"""Each test of this folder runs on lucid_mini and on PyTorch (see both.py)."""

import pytest
from both import MAKERS, make_functions


@pytest.fixture(params=list(MAKERS))
def lib(request):
    """Each library in turn, given back with recording on."""
    made = MAKERS[request.param]()
    found = made.default_dtype(made.float64)
    yield made
    made.default_dtype(found)
    made.set_grad_enabled(True)


@pytest.fixture
def functions(lib):
    """Square, Mul, Exp and Split on `lib`."""
    return make_functions(lib)
