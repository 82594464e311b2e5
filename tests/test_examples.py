"""Every public name has an example, and every example gives what it shows."""

import doctest
import importlib
import inspect
import pickle
import pkgutil
import traceback
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_public_names import NAMES, PLACES, PROPERTIES

import lucid_mini as lm
from lucid_mini.ops.table import METHODS

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

OPERATORS = """
add radd sub rsub mul rmul truediv rtruediv pow rpow matmul rmatmul neg abs and or xor invert
eq ne lt le gt ge getitem setitem iadd isub imul itruediv
"""

#: What `PLACES` does not list: methods and properties of the classes among the public names.
MEMBERS: dict[Any, str] = {
    lm.Tensor: f"{PROPERTIES} nbytes dim",
    lm.autograd.FunctionCtx: """
        save_for_backward saved_tensors saved_variables needs_input_grad mark_dirty
        mark_non_differentiable set_materialize_grads store load clone
    """,
    lm.autograd.Node: """
        name kind label ctx released next_edges next_functions metadata register_hook
        register_prehook
    """,
    lm.autograd.AccumulateGrad: "variable",
    lm.autograd.Edge: "is_valid",
    lm.autograd.RemovableHandle: "remove",
    lm.lifetime.Trace: """
        events buffers live_bytes peak drag curve needed survivors marks name mark end
        untracked_bytes arrays
    """,
    lm.draw.Figure: "save",
}
#: Slots have no docstring; the example of their class shows them.
SLOTS = {lm.Tensor: "_base", lm.autograd.Node: "function sequence_nr shape dtype"}


def public() -> dict[str, Any]:
    """Every public name, and what is bound to it."""
    found = {f"{place}.{name}": getattr(PLACES[place][0], name) for place, name in NAMES}
    found |= {f"lm.Tensor.{name}": getattr(lm.Tensor, name) for name in METHODS if name[0] != "_"}
    for module in (lm.autograd, lm.lifetime, lm.draw, lm.testing, lm.transforms, lm):
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}
    for cls, names in MEMBERS.items():
        found |= {f"{cls.__name__}.{name}": getattr(cls, name) for name in names.split()}
    for name in OPERATORS.split():
        found[f"Tensor.__{name}__"] = getattr(lm.Tensor, f"__{name}__")
    slots = {f"{cls.__name__}.{name}" for cls, names in SLOTS.items() for name in names.split()}
    return {n: b for n, b in found.items() if n not in slots and not inspect.ismodule(b)}


PUBLIC = public()


def examples() -> list[doctest.DocTest]:
    """Each docstring of the package that has an example, once."""
    names = {"lm": lm, "np": np, "__name__": "__main__"}
    finder, parser = doctest.DocTestFinder(exclude_empty=True), doctest.DocTestParser()
    found = []
    for info in pkgutil.walk_packages(lm.__path__, "lucid_mini."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # an optional package is not here
            continue
        found += finder.find(module, globs=names, extraglobs={"__name__": "__main__"})
    for name, bound in PUBLIC.items():
        found.append(parser.get_doctest(inspect.getdoc(bound) or "", names, name, None, None))
    once = {inspect.cleandoc(test.docstring or ""): test for test in reversed(found)}
    return [test for test in once.values() if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda test: test.name)
def test_an_example_gives_what_it_shows(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctest, "traceback", without_notes())
    lm.reset_names()
    lm.manual_seed(0)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # a division by 0, in NumPy
        result = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append)
    assert not result.failed, "".join(said)


def without_notes() -> SimpleNamespace:
    """The module `traceback`, but an error is its type and message, as the examples show it.

    Doctest compares the notes on an error as well.
    """
    names = dict(vars(traceback))
    names["format_exception_only"] = lambda *args: traceback.format_exception_only(*args)[:1]
    return SimpleNamespace(**names)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(PUBLIC[name]) or "")


@pytest.mark.parametrize(
    ("cls", "slot"), [(cls, slot) for cls, names in SLOTS.items() for slot in names.split()]
)
def test_a_slot_is_told_of_and_shown_in_its_class(cls: type, slot: str) -> None:
    text = inspect.getdoc(cls) or ""
    assert f"`{slot}`" in text
    assert f".{slot}" in text


def test_an_error_has_the_shortest_code_that_raises_it_as_example() -> None:
    for name, error in vars(lm.errors).items():
        if inspect.isclass(error) and error not in (lm.errors.AutogradError, lm.errors.LeakWarning):
            assert f"    lucid_mini.errors.{name}: " in (error.__doc__ or "")


def test_help_on_an_op_tells_its_name_its_arguments_and_its_rule() -> None:
    assert str(inspect.signature(lm.exp)) == "(x)"
    assert str(inspect.signature(lm.ones(1).add_)) == "(y)"
    assert str(inspect.signature(lm.Tensor.__mul__)) == "(a, b)"
    assert lm.exp.__name__ == "exp"
    assert lm.Tensor.__mul__.__qualname__ == "Tensor.__mul__"
    assert (inspect.getdoc(lm.exp) or "").startswith("e ** x, of the shape of x.")
    assert "np.exp" in inspect.getsource(lm.exp)
    assert lm.sum.__name__ == "sum"


@pytest.mark.parametrize("name", ["exp", "sum", "max", "cat", "Tensor.add_", "Tensor.__lt__"])
def test_an_op_is_pickled_by_its_public_name(name: str) -> None:
    bound = getattr(lm.Tensor, name.split(".")[1]) if "." in name else getattr(lm, name)
    assert pickle.loads(pickle.dumps(bound)) is bound
