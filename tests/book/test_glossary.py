"""The glossary has the words that the book uses, and each leads to the chapter where it is met."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

BOOK = Path(__file__).resolve().parents[2] / "book"
CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
PAGE = BOOK / "glossary.md"
ROW = re.compile(r"^\| \*\*([^*]+)\*\* \| (.+) \| \[(\d+)\]\(([^)]+)\) \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))
WORDS = [word for word, *_ in ROWS]

#: One word per concept: those of the package, in its messages and docstrings.
CONCEPTS = """
Tensor, Node, Edge, Function, op, ctx, saved tensor, grad_output, grad_input, leaf, consumer,
record, save, unpack, release, free, holder, retain, leak, drag
"""
#: What a chapter calls it before the word is known.
SAID = {
    "backward pass": "backward",
    "double backward": "gradients of gradients",
    "cycle": "circle",
    "reference count": "count of holders",
}
#: A word in bold, and the form that the glossary has.
BASE = {
    "activations": "activation",
    "backward": "backward pass",
    "cell": "closure cell",
    "closure": "closure cell",
    "consumer counts": "consumer",
    "parameters": "parameter",
    "released": "release",
    "retained": "retain",
    "sequence numbers": "sequence number",
    "slots": "slot",
}
#: Marked in a chapter for another reason than to explain it.
EMPHASIS = {"nothing", "input", "output", "tensors", "the rest", "look", "visit", "needed"}


def cells(path: Path, kind: str) -> list[Any]:
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == kind]


def text_of(path: Path) -> str:
    """What a reader of the chapter meets: prose, code, and what the code shows."""
    shown = [
        output.get("text", "") or output.get("data", {}).get("text/plain", "")
        for cell in cells(path, "code")
        for output in cell.outputs
    ]
    sources = [cell.source for cell in (*cells(path, "markdown"), *cells(path, "code"))]
    return "\n\n".join((*sources, *shown))


def named(text: str, word: str) -> bool:
    """Whether `text` has `word`, as it is or inflected."""
    stem = re.escape(word[:-1] if word.endswith(("e", "y")) else word)
    return bool(re.search(rf"(?<![A-Za-z]){stem}(e|y|s|es|ed|d|ing)?\b", text, re.IGNORECASE))


def test_every_row_of_the_page_is_a_word_of_the_glossary():
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    assert len(lines) - 2 == len(ROWS)
    assert len(set(WORDS)) == len(WORDS)


def test_the_words_are_in_alphabetical_order():
    order = [word.lower().replace("_", " ") for word in WORDS]
    assert order == sorted(order)


def test_each_concept_of_the_package_has_its_word():
    assert set(re.split(r",\s+", CONCEPTS.strip())) <= set(WORDS)


@pytest.mark.parametrize(("word", "number", "link"), [(w, n, link) for w, _, n, link, _ in ROWS])
def test_a_word_leads_to_a_chapter_that_uses_it(word, number, link):
    (chapter,) = [path for path in CHAPTERS if path.name == link]
    assert int(chapter.stem[:2]) == int(number)
    assert named(text_of(chapter), SAID.get(word, word))


#: In an earlier chapter, in another sense, or said in passing what it is.
EARLIER = {("ctx", 1), ("Edge", 1), ("Function", 1)}


@pytest.mark.parametrize(("word", "number"), [(w, int(n)) for w, _, n, *_ in ROWS])
def test_no_chapter_uses_a_word_before_the_one_that_explains_it(word, number):
    for path in CHAPTERS[: number - 1]:
        chapter = int(path.stem[:2])
        prose = "\n\n".join(cell.source for cell in cells(path, "markdown"))
        if (word, chapter) not in EARLIER:
            assert not named(prose, SAID.get(word, word)), f"chapter {chapter}"


@pytest.mark.parametrize("meaning", [meaning for _, meaning, *_ in ROWS])
def test_a_meaning_is_one_or_two_sentences(meaning):
    sentences = re.findall(r"[.?](?= |$)", re.sub(r"`[^`]*`", "code", meaning))
    assert 1 <= len(sentences) <= 3
    assert meaning.endswith(".")


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_word_that_a_chapter_explains_is_in_the_glossary(path):
    """A chapter sets in bold what it explains."""
    prose = "\n\n".join(cell.source for cell in cells(path, "markdown"))
    bold = re.findall(r"\*\*([A-Za-z_]+(?: [a-z]+)?)\*\*", prose)
    explained = {word.lower() for word in bold} - EMPHASIS
    assert {BASE.get(word, word) for word in explained} <= {word.lower() for word in WORDS}
