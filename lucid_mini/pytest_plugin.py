"""The pytest plugin that the package registers: the fixture `no_leaks`.

```
def test_a_step_leaves_nothing_behind(no_leaks):
    model.loss(batch).backward()
```
"""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def no_leaks() -> Iterator[Any]:
    """Fail the test if it leaves memory behind that is held by a cycle or by something hidden.

    Gives the running trace. What the test function holds in its own variables when it ends is gone
    by then.
    """
    from lucid_mini.testing import assert_no_leaks

    with assert_no_leaks() as trace:
        yield trace
