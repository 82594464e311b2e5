"""What every test starts from, and what the lifetime tests need."""

import gc

import pytest

import lucid_mini as lm


@pytest.fixture(autouse=True)
def _clean_start():
    """Names count from 1, recording is on, and the test gives both back that way."""
    lm.reset_names()
    assert lm.is_grad_enabled()
    yield
    assert lm.is_grad_enabled(), "the test left recording off"


@pytest.fixture
def no_gc():
    """The collector off: what dies, dies by its reference count alone."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    yield
    if was_on:
        gc.enable()
