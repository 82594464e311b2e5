"""Docstrings become what Sphinx reads: labels, code, links, examples; everything else as it is."""

import pytest

pytest.importorskip("sphinx", reason="sphinx is not installed")


def written(docstring):
    from prose import restructured

    return "\n".join(restructured(docstring)).strip()


def test_labels_become_fields_at_the_start_of_a_line_and_after_three_blanks():
    assert written("Adds.\n\nShape: any.   Keeps: nothing.\nCost: one pass.") == (
        "Adds.\n\n:Shape: any.\n:Keeps: nothing.\n:Cost: one pass."
    )


def test_a_label_after_a_sentence_ends_it_and_goes_over_lines():
    assert written("e ** x.   Keeps: the output,\nand no more.") == (
        "e \\*\\* x.\n\n:Keeps: the output, and no more."
    )


def test_labels_that_share_their_words_stay_together():
    assert written("Cost, Keeps, Raises: as `f`.") == ":Cost, Keeps, Raises: as ``f``."


def test_a_colon_inside_a_sentence_is_no_label():
    assert written("It Raises: hope.") == "It Raises: hope."


def test_an_error_that_is_raised_becomes_a_link_and_a_builtin_becomes_code():
    assert written("Raises: GraphFreedError; TypeError for a number.") == (
        ":Raises: :py:obj:`GraphFreedError <lucid_mini.errors.GraphFreedError>`; "
        "``TypeError`` for a number."
    )


def test_code_that_names_something_public_becomes_a_link():
    assert written("See `lm.exp` and `Tensor.backward()`, not `exp`.") == (
        "See :py:obj:`lm.exp <lucid_mini.exp>` and "
        ":py:obj:`Tensor.backward() <lucid_mini.Tensor.backward>`, not ``exp``."
    )


def test_letters_may_follow_code():
    assert written("All `x`s.") == "All ``x``\\ s."


def test_signs_of_prose_mean_nothing():
    assert written("|x| * y_ and *args") == "\\|x\\| \\* y\\_ and \\*args"


def test_an_example_stays_as_it_is():
    docstring = "Adds.\n\nExample:\n    >>> f(1)\n    `2`\n\n    >>> f(2)\n    4"
    assert written(docstring) == ("Adds.\n\n.. rubric:: Example\n\n>>> f(1)\n`2`\n\n>>> f(2)\n4")


def test_indented_lines_are_code_with_their_blank_lines():
    assert written("So:\n\n    a = 1\n\n    b = `2`\n\nDone.") == (
        "So:\n\n::\n\n       a = 1\n\n       b = `2`\n\nDone."
    )


def test_items_of_a_list_stay_items():
    assert written("- `a`: one\n  more line\n- two") == "- ``a``: one more line\n\n- two"
