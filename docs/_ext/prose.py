"""Docstrings as this project writes them, turned into what Sphinx reads.

A docstring here is prose with `code` in single backticks, and with labels at the start of a line or
after three blanks: `Shape: … Keeps: … Raises: …`. Labels become a field list, code becomes code,
and where it names something that the reference has, a link.
"""

import inspect
import re
from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike, DTypeLike, NDArray
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

import lucid_mini as lm
from lucid_mini import draw, errors, lifetime, testing, transforms
from lucid_mini.autograd.function import Function

LABELS = (
    "Shape|Keeps|Raises|Returns|Args|Bytes|Costs?|Time|Owns|Source|Not seen|Warned of|Never raises"
)
_LABEL = re.compile(rf"(?:^|\n|   +)((?:{LABELS})(?:, (?:{LABELS}))*)(?: (\([^)]*\)))?:(?=\s)")
_CODE = re.compile(r"`([^`]+)`")
_BULLET = re.compile(r"[-*] ")
_ERROR = re.compile(r"\b[A-Z]\w+(?:Error|Warning)\b")


def _names() -> dict[str, str]:
    """What may stand in a docstring, and what it names."""
    found = {f"lm.{name}": f"lucid_mini.{name}" for name in lm.__all__}
    places = (lm.autograd, errors, lifetime, draw, transforms, testing)
    for module in places:
        short = module.__name__.removeprefix("lucid_mini.")
        for name in public(module):
            full = f"{module.__name__}.{name}"
            if module is transforms:
                full = f"lucid_mini.{name}"
            found[f"lm.{short}.{name}"] = full
            if name[0].isupper():
                found[name] = full
    found["Tensor"] = "lucid_mini.Tensor"
    for name in vars(lm.Tensor):
        if not name.startswith("_"):
            found[f"Tensor.{name}"] = f"lucid_mini.Tensor.{name}"
    return found


def public(module: Any) -> list[str]:
    """The public names of a module: `__all__`, or what it has of the package's functions."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("lucid_mini")
    ]


NAMES = _names()
_WIDE = {
    stringify_annotation(wide, mode): name
    for mode in ("fully-qualified-except-typing", "smart")
    for wide, name in (
        (ArrayLike, "ArrayLike"),
        (DTypeLike, "DTypeLike"),
        (NDArray[Any], "ndarray"),
    )
}


def restructured(docstring: str) -> list[str]:
    """`docstring` as lines of reStructuredText."""
    lines: list[str] = []
    for block in _blocks(docstring.splitlines()):
        lines += [*_block(block), ""]
    return lines


def _blocks(lines: Iterable[str]) -> list[list[str]]:
    """Lines between blank ones; indented ones stay together, blank lines and all."""
    blocks: list[list[str]] = []
    current: list[str] = []
    blank = True
    for line in lines:
        indented = line.startswith(" ")
        if not line.strip():
            blank = True
            continue
        starts = line.startswith((">>>", "Example:")) or _BULLET.match(line)
        if blank and indented and current and current[0].startswith((" ", "Example:")):
            current += ["", line]
        elif current and not blank and not (starts and not current[0].startswith(">>>")):
            current.append(line)
        elif blank and indented and current and _BULLET.match(current[0]):
            current += ["", line]
        else:
            if current:
                blocks.append(current)
            current = [line]
        blank = False
    return [*blocks, current] if current else blocks


def _block(block: list[str]) -> list[str]:
    first = block[0]
    if first.startswith("Example:"):
        return [".. rubric:: Example", "", *inspect.cleandoc("\n".join(block[1:])).splitlines()]
    if first.startswith(">>>"):
        return block
    if first.startswith(" "):
        return ["::", "", *(f"   {line}".rstrip() for line in block)]
    if _BULLET.match(first):
        return ["- " + inline(" ".join(line.strip() for line in block)[2:])]
    return _paragraph("\n".join(block))


def _paragraph(text: str) -> list[str]:
    """A paragraph: what comes before the first label, and a field for each label."""
    marks = list(_LABEL.finditer(text))
    lines: list[str] = []
    lead = text[: marks[0].start()] if marks else text
    if lead.strip():
        lines += [inline(lead), *([""] if marks else [])]
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=bool(marks)):
        body = text[mark.end() : end]
        label = f"{mark[1]} {mark[2]}" if mark[2] else mark[1]
        lines.append(f":{label}: {inline(body, errors_too='Raises' in label)}")
    return lines


def inline(text: str, *, errors_too: bool = False) -> str:
    """One line of prose: code as code or as a link, everything else as it is written."""
    text = " ".join(text.split())
    parts = _CODE.split(text)
    written = ""
    for at, part in enumerate(parts):
        if at % 2:
            ends = at + 1 < len(parts) and parts[at + 1][:1].isalnum()
            written += _code(part) + ("\\ " if ends else "")
        else:
            written += _plain(part, errors_too)
    return written


def _code(text: str) -> str:
    target = NAMES.get(text.removesuffix("()"))
    return f":py:obj:`{text} <{target}>`" if target else f"``{text.strip()}``"


def _plain(text: str, errors_too: bool) -> str:
    written = ""
    at = 0
    for match in _ERROR.finditer(text) if errors_too else ():
        written += _escaped(text[at : match.start()]) + _code(match[0])
        at = match.end()
    return written + _escaped(text[at:])


def _escaped(text: str) -> str:
    return re.sub(r"([\\*|`])|(?<=\w)_(?!\w)", lambda found: "\\" + found[0], text)


# ---------------------------------------------------------------- what Sphinx asks


def _docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured("\n".join(lines))


def _signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, result: str
) -> tuple[str | None, str | None]:
    """A signature with the names of NumPy's wide types in place of all that they stand for."""
    if obj is Function:  # never made: it is its class that is called
        return "", ""
    says = result not in (None, "Any", "~typing.Any")
    return _readable(signature), _readable(result) if says else ""


def _readable(text: str | None) -> str | None:
    for long, short in _WIDE.items():
        text = text and text.replace(long, short)
    return text


def setup(app: Sphinx) -> dict[str, Any]:
    """Hear of every docstring and every signature."""
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True}
