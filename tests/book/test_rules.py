"""The rules that every chapter keeps, and what pytest --nbval alone would not notice."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

import lucid_mini as lm
from book import exercises
from book.needs import missing

BOOK = Path(__file__).resolve().parents[2] / "book"
CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
SOLUTIONS = sorted(BOOK.glob("solutions/[0-9]*.ipynb"))
NOTEBOOKS = [*CHAPTERS, *SOLUTIONS]

MOST_CELLS, MOST_WORDS, MOST_WORDS_IN_QUESTION, WIDEST_CODE = 25, 1000, 60, 88
#: Tags switch comparisons off, and an unknown one is ignored silently.
TAGS = {"raises-exception"}
SECTIONS = ("Predict", "Break it", "Exercises", "One real bug", "Recap")

#: One word per concept: what not to write, and what to write in its place.
GLOSSARY = {
    r"operations?": "op",
    r"tapes?": "graph",
    r"computation(al)? graphs?": "graph",
    r"vertex|vertices": "node",
    r"backprop(agation)?|back-propagation": "backward",
    r"context(s)?": "ctx",
    r"stash(ed|es)?|cache[ds]?": "save",
    r"deallocate[ds]?": "free",
    r"upstream gradient|downstream gradient": "grad_output, grad_input",
    r"memory leak": "leak",
    r"parents?|children|child": "consumer, or the node upstream",
    r"simply|obviously|of course|easy|easily|trivial(ly)?|powerful|magic(al)?|amazing": "(no hype)",
}

per_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: str(p.relative_to(BOOK)))
per_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda p: p.stem)
per_solution = pytest.mark.parametrize("path", SOLUTIONS, ids=lambda p: p.stem)


def cells(path, kind=None):
    found = nbformat.read(path, as_version=4).cells
    return [cell for cell in found if kind is None or cell.cell_type == kind]


def outputs(path):
    return [output for cell in cells(path, "code") for output in cell.outputs]


def texts(path):
    """Every text that an output shows, pictures left out."""
    for output in outputs(path):
        yield output.get("text", "")
        yield output.get("evalue", "")
        yield from output.get("traceback", ())
        yield output.get("data", {}).get("text/plain", "")


def prose(path):
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    return "\n\n".join(cell.source for cell in cells(path, "markdown"))


def words(text):
    return [word for word in text.split() if re.search(r"\w", word)]


def without_code(text):
    text = re.sub(r"```.*?```|`[^`]*`|\$[^$]*\$", " ", text, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def test_there_are_chapters_and_each_has_solutions():
    assert CHAPTERS
    assert [p.name for p in CHAPTERS] == [p.name for p in SOLUTIONS]


# -- what --nbval does not notice -----------------------------------------------------------------


@per_notebook
def test_every_cell_was_run_in_order(path):
    counts = [cell.execution_count for cell in cells(path, "code")]
    assert counts == list(range(1, len(counts) + 1))


@per_notebook
def test_no_tag_switches_a_comparison_off(path):
    for cell in cells(path):
        assert set(cell.metadata) <= {"tags"}, cell.id
        assert set(cell.metadata.get("tags", ())) <= TAGS, cell.id
        assert "NBVAL" not in cell.source.upper().replace("-", "_"), cell.id


@per_notebook
def test_a_cell_raises_if_and_only_if_it_says_so(path):
    for cell in cells(path, "code"):
        raised = [o for o in cell.outputs if o.output_type == "error"]
        assert bool(raised) == ("raises-exception" in cell.metadata.get("tags", ())), cell.id
        assert all(len(o.traceback) == 1 for o in raised), cell.id


@per_notebook
def test_nothing_is_written_to_stderr(path):
    assert not [o for o in outputs(path) if o.get("name") == "stderr"]


@per_notebook
@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("address", r"0x[0-9a-fA-F]{5,}"),
        ("path", r"(?<![\w.:/])(/(work|home|root|tmp|usr|var|Users)\b|~/|[A-Z]:\\)"),
        ("path", r"site-packages|ipykernel_\d"),
        ("time", r"\d\s?(ms|µs|ns|seconds)\b"),
        ("NumPy scalar", r"np\.(float|int|bool)"),
    ],
)
def test_no_output_has_what_another_run_would_not_have(path, what, pattern):
    for text in texts(path):
        assert not re.search(pattern, text), f"{what} in: {text[:200]}"


@per_notebook
def test_the_metadata_has_no_version_and_no_time(path):
    notebook = nbformat.read(path, as_version=4)
    assert set(notebook.metadata) == {"kernelspec", "language_info", "lucid_mini"}
    assert notebook.metadata.language_info == {"name": "python"}


@per_notebook
def test_every_figure_shows_in_an_untrusted_clone_and_has_a_text_twin(path):
    for output in outputs(path):
        data = output.get("data", {})
        assert set(data) <= {"text/plain", "text/html"}
        if "text/html" in data:
            assert re.search(r'<img alt="[^"]{10,}" src="data:image/', data["text/html"])
            assert "<svg" not in data["text/html"]
            assert "<script" not in data["text/html"]
            assert len(data["text/plain"].splitlines()) > 2


@per_notebook
def test_every_floating_number_is_formatted(path):
    for text in texts(path):
        assert not re.search(r"\d\.\d{7,}", text), text[:200]


# -- the shape of a chapter -----------------------------------------------------------------------


@per_chapter
def test_a_chapter_is_short(path):
    assert len(cells(path, "code")) <= MOST_CELLS
    assert len(words(prose(path))) <= MOST_WORDS


@per_chapter
def test_a_chapter_has_all_its_parts_in_order(path):
    text = prose(path)
    number = int(path.stem[:2])
    assert re.match(rf"# {number} · .*\?\n\n\*\*Question\.\*\* ", text)
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert [h for h in headings if h in SECTIONS] == list(SECTIONS)
    assert headings[0] == "Predict"
    assert headings[-1] == "Recap"


@per_chapter
def test_the_question_is_short_and_is_one(path):
    question = cells(path, "markdown")[0].source.split("**Question.**")[1]
    assert len(words(question)) <= MOST_WORDS_IN_QUESTION
    assert "?" in question


@per_chapter
def test_the_recap_has_three_lines(path):
    assert len(re.findall(r"^- ", prose(path).split("## Recap")[1], flags=re.MULTILINE)) == 3


def section(path, title):
    """The cells from the heading `title` to the next one."""
    found, inside = [], False
    for cell in cells(path):
        if cell.cell_type == "markdown" and re.search(r"^#+ ", cell.source, flags=re.MULTILINE):
            inside = f"## {title}" in cell.source
        if inside:
            found.append(cell)
    return found


@per_chapter
def test_something_breaks_and_its_message_is_stored(path):
    code = [cell for cell in section(path, "Break it") if cell.cell_type == "code"]
    shown = [
        cell
        for cell in code
        if any(o.output_type == "error" for o in cell.outputs)
        or ("attempt()" in cell.source and re.search(r"\w+(Error|Warning): ", _text(cell)))
    ]
    assert shown


def _text(cell):
    return "".join(o.get("text", "") for o in cell.outputs)


@per_chapter
def test_the_real_bug_names_its_source_and_is_shown_by_code(path):
    bug = section(path, "One real bug")
    assert re.search(r"\]\(https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+\)", prose(path))
    assert any(cell.cell_type == "code" and cell.outputs for cell in bug)


@per_notebook
def test_the_first_code_cell_begins_the_chapter(path):
    first = cells(path, "code")[0].source
    assert f'start("{path.stem[:2]}")' in first
    if path in CHAPTERS:
        assert "lm.reset_names()" in first
        assert "lm.manual_seed(0)" in first


@per_chapter
def test_a_chapter_has_a_prediction_and_a_figure(path):
    source = "\n".join(cell.source for cell in cells(path, "code"))
    assert re.search(r"^guess = \.\.\.", source, flags=re.MULTILINE)
    assert "reveal(guess," in source
    assert any("text/html" in output.get("data", {}) for output in outputs(path))


@per_notebook
def test_code_fits_the_width_of_a_page(path):
    for cell in cells(path, "code"):
        for line in cell.source.splitlines():
            assert len(line) <= WIDEST_CODE, f"{cell.id}: {line}"


# -- exercises ------------------------------------------------------------------------------------


def checks(path):
    """Which exercise each cell checks, and what it says."""
    found = {}
    for cell in cells(path, "code"):
        for number in re.findall(r'^check\("([\d.]+)"', cell.source, flags=re.MULTILINE):
            found[number] = _text(cell)
    return found


@per_chapter
def test_the_exercises_of_a_chapter_are_unsolved_and_say_so(path):
    number = int(path.stem[:2])
    wanted = [name for name in exercises.CHECKS if name.startswith(f"{number}.")]
    assert len(wanted) >= 3
    assert list(checks(path)) == wanted
    for name, said in checks(path).items():
        assert said.startswith(f"Exercise {name}: not solved yet.")
        assert f"**{name}**" in prose(path)


@per_solution
def test_the_solutions_are_right_and_none_is_left_out(path):
    number = int(path.stem[:2])
    wanted = [name for name in exercises.CHECKS if name.startswith(f"{number}.")]
    assert list(checks(path)) == wanted
    for name, said in checks(path).items():
        assert said.startswith(f"Exercise {name}: right.")


# -- words, names, links --------------------------------------------------------------------------

PAGES = [*NOTEBOOKS, *sorted(BOOK.glob("*.md"))]
per_page = pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(BOOK).as_posix())


@per_page
def test_every_link_leads_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if not target.startswith("https://"):
            assert (path.parent / target.split("#")[0]).exists(), target


@per_page
def test_every_public_name_in_the_prose_exists(path):
    if reason := missing(path):
        pytest.skip(reason)
    for name in re.findall(r"\blm((?:\.[A-Za-z_]\w*)+)", prose(path)):
        found = lm
        for part in name[1:].split("."):
            assert hasattr(found, part), f"lm{name}"
            found = getattr(found, part)


@per_page
def test_one_word_per_concept(path):
    text = without_code(prose(path))
    for pattern, instead in GLOSSARY.items():
        hit = re.search(rf"\b({pattern})\b", text, flags=re.IGNORECASE)
        assert not hit, f"'{hit[0]}': write {instead}"


def test_the_word_to_write_is_one_of_the_glossary():
    page = (BOOK / "glossary.md").read_text(encoding="utf-8")
    known = {word.lower() for word in re.findall(r"^\| \*\*([^*]+)\*\*", page, flags=re.MULTILINE)}
    known |= {"backward", "(no hype)"}  # the pass, in short
    for advice in GLOSSARY.values():
        assert set(re.split(", or the node upstream|, ", advice)) <= known | {""}, advice


@per_page
def test_prose_is_plain_markdown(path):
    text = prose(path)
    assert not re.search(r"^(:::|```\{|\{[a-z]+\}`)", text, flags=re.MULTILINE)
    assert not re.search(r"<(?!https?:)[a-z]+[ >]", without_code(text))


def test_the_map_names_every_chapter_that_exists_and_no_other():
    text = (BOOK / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[(\d+)\]\(([^)]+)\) \| (.*?) \|.*\| (\d+) \|$", text, flags=re.MULTILINE
    )
    assert [name for _, name, _, _ in rows] == [path.name for path in CHAPTERS]
    for number, name, question, _ in rows:
        assert prose(BOOK / name).startswith(f"# {number} · {question}\n")


@per_notebook
def test_the_source_of_a_notebook_lies_where_the_build_looks(path):
    assert (BOOK / "src" / path.relative_to(BOOK)).with_suffix(".py").exists()


@per_chapter
def test_a_chapter_uses_the_public_names_only(path):
    for cell in cells(path, "code"):
        for part in ast.walk(ast.parse(cell.source)):
            if isinstance(part, ast.Attribute):
                public = part.attr in ("_version", "_base")  # as PyTorch has them
                assert public or not re.match(r"_[a-z]", part.attr), f"{cell.id}: {part.attr}"
            if isinstance(part, ast.ImportFrom):
                assert not (part.module or "").startswith("lucid_mini."), cell.id
