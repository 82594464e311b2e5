"""The book is no part of the package that is installed: the tests find it beside them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


@pytest.fixture
def said(capsys):
    """What `check` prints for an answer: one line, without the number of the exercise."""
    from book import exercises

    def ask(number, *answer):
        exercises.check(number, *answer)
        out, err = capsys.readouterr()
        assert err == ""
        assert out.count("\n") == 1, out
        assert "Traceback" not in out
        head, _, text = out.strip().partition(": ")
        assert head == f"Exercise {number}"
        return text

    return ask
