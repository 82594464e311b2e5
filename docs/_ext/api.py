"""The pages of the reference, written from what the package offers.

What is public and not placed elsewhere lands on the page of functions, so that no name is missed.
"""
# ruff: noqa: SIM905 - lists of names read best as text

import contextlib
import importlib
import inspect
import io
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from prose import inline, public
from sphinx import addnodes
from sphinx.application import Sphinx

import lucid_mini as lm
from lucid_mini import cli, errors
from lucid_mini.events import Recorder
from lucid_mini.ops.table import FUNCTIONS

#: Words above groups of names; a name that no group has comes under the last.
HISTORY = (
    "requires_grad requires_grad_ is_leaf grad grad_fn output_nr backward detach retain_grad "
    "register_hook register_post_accumulate_grad_hook"
).split()
GROUPS = {
    "Element by element": """
        exp log sqrt sin cos tanh sigmoid relu abs neg sign clamp pow maximum minimum where
        masked_fill
    """.split(),
    "Along dimensions": """
        sum mean prod max min amax amin argmax argmin var std cumsum logsumexp softmax log_softmax
        cross_entropy
    """.split(),
    "Shape": """
        reshape view flatten transpose permute t T squeeze unsqueeze expand cat stack split chunk
        unbind
    """.split(),
    "Products, elements, copies": "matmul mm gather index_select clone to".split(),
}
OPERATORS = {
    "__add__": "x + y",
    "__sub__": "x - y",
    "__mul__": "x * y",
    "__truediv__": "x / y",
    "__pow__": "x ** y",
    "__matmul__": "x @ y",
    "__neg__": "-x",
    "__abs__": "abs(x)",
    "__eq__": "x == y, !=, <, <=, >, >=",
    "__and__": "x & y",
    "__or__": "x | y",
    "__xor__": "x ^ y",
    "__invert__": "~x",
    "__getitem__": "x[index]",
    "__setitem__": "x[index] = value",
    "__iadd__": "x += y",
    "__isub__": "x -= y",
    "__imul__": "x *= y",
    "__itruediv__": "x /= y",
}
#: A slot cannot have a docstring.
SLOTS = {"_base": "The tensor that this one is a view of, or None."}
MAGIC = """
In a notebook
-------------

``%load_ext lucid_mini`` brings the cell magic ``%%lifetimes``: the cell runs inside a trace, and
its timeline appears under it.
"""
FIXTURE = """
For pytest
----------

The package brings a plugin, which pytest finds by itself: a test that asks for the fixture
``no_leaks`` fails if it leaves memory behind, with the chain of holders as its message.
"""


def write(folder: Path) -> None:
    """Write every page of the reference into `folder`."""
    folder.mkdir(exist_ok=True)
    pages = _pages()
    toc = "".join(f"   {name}\n" for name in pages)
    for name, text in pages.items():
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")
    lines = [*_title("Reference", "="), "``import lucid_mini as lm`` comes before all of this.", ""]
    lines += _table(
        (f":doc:`{text.splitlines()[0]} <{name}>`", _contents(text)) for name, text in pages.items()
    )
    lines += ["", "All names from A to Z: :ref:`genindex`."]
    lines += ["", ".. toctree::", "   :hidden:", "", toc]
    (folder / "index.rst").write_text("\n".join(lines), encoding="utf-8")


def _pages() -> dict[str, str]:
    create = _made_by("lucid_mini.ops.create", "lucid_mini.autograd.tensor")
    modes = [*_made_by("lucid_mini.autograd.mode"), "reset_names"]
    derive = list(lm.transforms.__all__)
    placed = {*create, *modes, *derive, "Tensor"}
    rest = [
        name
        for name in lm.__all__
        if name not in placed and not inspect.ismodule(getattr(lm, name))
    ]
    functions = sorted(rest, key=[*FUNCTIONS, *rest].index)
    pages = {
        "tensor": _tensor(),
        "creation": _page("Making tensors", "lucid_mini", {"": create}),
        "functions": _page("Functions of tensors", "lucid_mini", _grouped(functions)),
        "modes": _page("Modes", "lucid_mini", {"": modes}),
        "autograd": _module("lm.autograd", lm.autograd),
        "transforms": _page("lm.transforms", "lucid_mini", {"": derive}, lm.transforms),
        "errors": _module("lm.errors", errors),
        "lifetime": _module("lm.lifetime", lm.lifetime, ["lucid_mini.events.Event"]) + MAGIC,
        "draw": _module("lm.draw", lm.draw),
        "testing": _module("lm.testing", lm.testing) + FIXTURE,
    }
    with contextlib.suppress(ImportError):  # no PyTorch here
        bridge = importlib.import_module("lucid_mini.bridge.torch")
        pages["bridge"] = _module("lm.bridge.torch", bridge)
    return {**pages, "commands": _commands()}


def _made_by(*modules: str) -> list[str]:
    return [
        name
        for name in lm.__all__
        if getattr(getattr(lm, name), "__module__", "") in modules and name != "Tensor"
    ]


def _grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """`names` under the heads of GROUPS, in their order; what is left comes last."""
    left = list(names)
    found = {}
    for head, members in GROUPS.items():
        found[head] = [name for name in members if name in left]
        left = [name for name in left if name not in members]
    found["More"] = left
    return {head: members for head, members in found.items() if members}


# ---------------------------------------------------------------- pages


def _page(title: str, module: str, groups: Mapping[str, Iterable[str]], about: Any = None) -> str:
    """A page: a table of its names, then each with its docstring."""
    lines = _title(title, "=")
    if about is not None:
        lines += [f".. automodule:: {about.__name__}", ""]
    lines += [f".. py:currentmodule:: {module}", ""]
    owner = importlib.import_module(module)
    for head, names in groups.items():
        lines += _title(head, "-") if head else []
        lines += _table((_link(module, name), _summary(getattr(owner, name))) for name in names)
        lines += [""]
        for name in names:
            lines += _entry(module, name, getattr(owner, name))
    return "\n".join(lines)


def _module(title: str, module: Any, more: Iterable[str] = ()) -> str:
    """The page of a module: what it offers, functions and classes apart."""
    names = public(module)
    page = {
        "Functions": [n for n in names if not inspect.isclass(getattr(module, n))],
        "Classes": [n for n in names if inspect.isclass(getattr(module, n))],
    }
    if module is errors:
        page = {
            "Errors": [name for name in names if name.endswith("Error")],
            "Warnings": [name for name in names if name.endswith("Warning")],
        }
    groups = {head: found for head, found in page.items() if found}
    lines = [_page(title, module.__name__, groups, module)]
    for full in more:
        place, _, name = full.rpartition(".")
        lines += _entry(place, name, getattr(importlib.import_module(place), name))
    return "\n".join(lines)


def _tensor() -> str:
    """The page of Tensor: what it has by itself, and what the ops hang on it."""
    names = [name for name in vars(lm.Tensor) if not name.startswith("_")]
    own = [n for n in names if n not in HISTORY and _is_own(n)]
    in_place = [n for n in names if n.endswith("_") and n not in HISTORY]
    ops = [n for n in names if n not in {*HISTORY, *own, *in_place}]
    lines = [*_title("Tensor", "="), ".. py:currentmodule:: lucid_mini", ""]
    lines += [".. autoclass:: lucid_mini.Tensor", "   :no-members:", ""]
    groups = {
        "The array": own,
        "History and gradients": [*(n for n in HISTORY if n in names), "_version", "_base"],
        **_grouped(ops),
        "In place": in_place,
    }
    for head, members in groups.items():
        lines += _title(head, "-")
        lines += _table(
            (_link("lucid_mini.Tensor", name), _summary(vars(lm.Tensor)[name])) for name in members
        )
        lines += [""]
        for name in members:
            lines += _entry("lucid_mini.Tensor", name, vars(lm.Tensor)[name])
    lines += _title("Operators", "-")
    lines += _table(
        (f"``{sign}``", _summary(vars(lm.Tensor)[name])) for name, sign in OPERATORS.items()
    )
    lines += ["", "NumPy arrays may stand on either side: the result is a tensor.", ""]
    return "\n".join(lines)


def _is_own(name: str) -> bool:
    value = vars(lm.Tensor)[name]
    function = value.fget if isinstance(value, property) else value
    return getattr(function, "__module__", "") == "lucid_mini.autograd.tensor"


def _commands() -> str:
    """The page of the command line: what `--help` says, of each command."""
    lines = [
        *_title("Commands", "="),
        "The package brings one command, ``lucid-mini``. It ends with 0; with 2 where something is",
        "missing or cannot be written, after one sentence that says what to do; with 130 when it",
        "was interrupted. ``python -m lucid_mini`` is the same.",
        "",
    ]
    commands = re.findall(r"^    (\w+) ", _help(), re.MULTILINE)
    for command in commands:
        lines += _title(f"lucid-mini {command}", "-")
        lines += [".. code-block:: text", "", *_indented(_help(command)), ""]
    return "\n".join(lines)


def _help(*arguments: str) -> str:
    """What `lucid-mini … --help` prints, 80 columns wide and without colour."""
    said = io.StringIO()
    with (
        patch.dict(os.environ, COLUMNS="80", NO_COLOR="1"),
        contextlib.redirect_stdout(said),
        contextlib.suppress(SystemExit),
    ):
        cli.main([*arguments, "--help"])
    return said.getvalue()


# ---------------------------------------------------------------- entries


def _entry(place: str, name: str, value: Any) -> list[str]:
    """The directive that documents `value`, and the members of a class."""
    kind = "function"
    options: list[str] = []
    if inspect.isclass(value):
        kind = "exception" if issubclass(value, BaseException) else "class"
        members = [] if kind == "exception" else _members(value)
        if kind == "exception":
            options = ["   :show-inheritance:", "   :no-members:"]
        elif members:
            options = [f"   :members: {', '.join(members)}"]
    elif isinstance(value, property):
        kind = "property"
    elif inspect.ismemberdescriptor(value):
        owner = place.rpartition(".")[2]  # the module stands above
        return [f".. py:attribute:: {owner}.{name}", "", f"   {SLOTS[name]}", ""]
    elif place == "lucid_mini.Tensor":
        kind = "method"
    return [f".. auto{kind}:: {place}.{name}", *options, ""]


def _members(cls: type) -> list[str]:
    """What a reader may use of a class: what it tells the engine's recorder is not for them."""
    return [
        name
        for name in dir(cls)
        if not name.startswith("_")
        and name not in vars(Recorder)
        and not hasattr(tuple, name)
        and not hasattr(Mapping, name)
    ]


def _link(place: str, name: str) -> str:
    return f":py:obj:`{name} <{place}.{name}>`"


def _summary(value: Any) -> str:
    """The first sentence of a docstring, without its labels."""
    if inspect.ismemberdescriptor(value):
        return SLOTS[value.__name__]
    text = inspect.getdoc(value) or ""
    first = " ".join(re.split(r"   +[A-Z]\w+: |\n\n", text)[0].split())
    return inline(re.split(r"(?<=[.!?]) (?=[A-Z`])", first)[0])


def _contents(text: str) -> str:
    """What is on a page, in a few words: its first names."""
    names = re.findall(r"^   \* - :py:obj:`(\S+) <", text, re.MULTILINE)
    names = names or re.findall(r"^(lucid-mini \w+)$", text, re.MULTILINE)
    shown = ", ".join(f"``{name}``" for name in names[:6])
    return f"{shown} …" if len(names) > 6 else shown


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    lines = [".. list-table::", "   :widths: 30 70", "   :class: names", ""]
    for left, right in rows:
        lines += [f"   * - {left}", f"     - {right}"]
    return lines


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _indented(text: str) -> list[str]:
    return [f"   {line}".rstrip() for line in text.splitlines()]


# ---------------------------------------------------------------- Sphinx


def _short(app: Sphinx, document: Any) -> None:
    """`lm.exp` where Sphinx has `lucid_mini.exp`: the name that a reader types."""
    for place in document.findall(addnodes.desc_addname):
        short = re.sub(r"^lucid_mini\.(events\.)?", "lm.", place.astext())
        short = short.replace("lm.Tensor.", "Tensor.")
        place[:] = [addnodes.desc_sig_name(short, short)]


def _backlinks(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Let a page of source lead back to where a name is documented.

    Sphinx takes all names of a file for names of one module, and points past those that another
    module offers.
    """
    if not page.startswith("_modules/lucid_mini"):
        return
    objects = app.env.domains["py"].objects

    def lead(link: re.Match[str]) -> str:
        document, full = link[1], link[2]
        name = full.rpartition(".")[2]
        found = [
            other
            for other, entry in objects.items()
            if entry.docname == document and other.rpartition(".")[2] == name
        ]
        right = full if full in objects or not found else found[0]
        return f'{document}.html#{right}"'

    context["body"] = re.sub(r'(api/\w+)\.html#([\w.]+)"', lead, context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "api"))
    app.connect("doctree-read", _short)
    app.connect("html-page-context", _backlinks)
    return {"parallel_read_safe": True}
