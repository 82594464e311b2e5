"""What the pages show of the package itself: drawings, the stepper, a table of its files."""

import ast
from html import escape
from pathlib import Path
from typing import Any

from ownership import before_and_after
from sphinx.application import Sphinx

import lucid_mini as lm

#: The folders of the package, in reading order; files beside them come last.
FOLDERS = ("autograd", "ops", "transforms", "lifetime", "draw", "bridge", "")


def write(source: Path) -> None:
    """Draw and list, into the folder that the pages are read from."""
    generated = source / "_generated"
    generated.mkdir(exist_ok=True)
    for name, figure in zip(("before", "after"), before_and_after(), strict=True):
        figure.save(generated / f"ownership-{name}.svg")
        figure.save(generated / f"ownership-{name}.txt")
    page = stepper().save(source / "_static" / "stepper.html").read_text(encoding="utf-8")
    frame = (
        f'<iframe class="stepper" title="A backward pass, step by step" '
        f'srcdoc="{escape(page, quote=True)}"></iframe>\n'
    )
    (generated / "stepper.html").write_text(frame, encoding="utf-8")
    (generated / "files.md").write_text(files(source / "lucid_mini"), encoding="utf-8")


def stepper() -> Any:
    """The backward pass of a small network: a value used twice, and one gradient that waits."""
    lm.reset_names()
    lm.manual_seed(0)
    x, w, v = lm.rand(8, 4), lm.rand(4, 3, requires_grad=True), lm.rand(3, requires_grad=True)
    h = lm.tanh(x @ w)
    loss = ((h * v).sum(1) + (h * h).mean(1)).exp().sum()
    return lm.draw.stepper(loss, names={"w": w, "v": v})


def files(package: Path) -> str:
    """A table for each folder: every file, and the first sentence of its docstring."""
    lines: list[str] = []
    for folder in FOLDERS:
        rows = []
        for path in sorted((package / folder).glob("*.py")):
            about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            if path.name != "__init__.py" and about:
                rows.append(f"| `{path.name}` | {about.splitlines()[0]} |")
        if rows:
            head = f"lucid_mini/{folder}/" if folder else "lucid_mini/"
            lines += [f"**`{head}`**", "", "| file | what it does |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir)))
    return {"parallel_read_safe": True}
