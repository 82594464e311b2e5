"""The house stands: imports point one way, and NumPy is enough."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lucid_mini

PACKAGE = Path(lucid_mini.__file__).parent
NAME = "lucid_mini"

#: From the ground up: a part may import from parts before it, never from one after it.
PARTS = [
    ["events", "errors"],
    ["autograd"],
    ["ops"],
    ["transforms"],
    ["lifetime"],
    ["draw"],
    ["data"],
    ["testing", "bridge", "magic"],
    ["pytest_plugin"],
    ["__init__"],
    ["tour"],
    ["script"],
    ["site", "doctor", "cli"],
    ["__main__"],
]
#: Inside a folder: from the ground up as well.
FILES = {
    "autograd": [
        ["callsite", "mode", "refcount", "shapes"],
        ["inside"],
        ["captures"],
        ["saved"],
        ["ctx"],
        ["node"],
        ["cycles", "part"],
        ["rules"],
        ["hook_calls"],
        ["engine"],
        ["passes"],
        ["timing"],
        ["tensor"],
        ["function"],
        ["hooks", "once"],
        ["anomaly", "saved_hooks"],
        ["dump"],
        ["__init__"],
    ],
    "bridge": [
        ["installed"],
        ["array", "internals"],
        ["from_torch", "functions"],
        ["objects"],
        ["nodes", "scan", "unnamed"],
        ["tracing"],
        ["torch"],
        ["__init__"],
    ],
}
#: Packages that only some functions need: imported there, when called.
OPTIONAL = {"matplotlib", "graphviz", "IPython", "torch", "tqdm", "jupyterlab", "sphinx", "pytest"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path, *, inside_functions: bool) -> list[tuple[str, ast.stmt]]:
    """Every import in `path` as an absolute module name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    package = [NAME, *path.relative_to(PACKAGE).parts[:-1]]
    found: list[tuple[str, ast.stmt]] = []
    for node in ast.walk(tree):
        if (
            not isinstance(node, ast.Import | ast.ImportFrom)
            or (id(node) in late) != inside_functions
        ):
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
            continue
        if node.level:
            base = ".".join(package[: len(package) - node.level + 1])
            full = f"{base}.{node.module}" if node.module else base
        else:
            full = node.module or ""
        names = [f"{full}.{alias.name}" for alias in node.names]
        is_folder = (PACKAGE.parent / full.replace(".", "/")).is_dir()
        found += [(name, node) for name in names] if is_folder else [(full, node)]
    return found


def rank(order: list[list[str]], name: str) -> int:
    places = [position for position, names in enumerate(order) if name in names]
    assert places, f"{name} has no place in the house yet: put it into PARTS or FILES"
    return places[0]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_up_the_list_only(path: Path) -> None:
    own = part_of(path)
    for name, node in imports_of(path, inside_functions=False):
        parts = name.split(".")
        if parts[0] != NAME:
            continue
        other = parts[1] if len(parts) > 1 else "__init__"
        if not (PACKAGE / other).is_dir() and not (PACKAGE / f"{other}.py").is_file():
            other = "__init__"
        if other != own:
            assert rank(PARTS, other) < rank(PARTS, own), (
                f"{path.name}:{node.lineno} imports {name}, which stands above it"
            )
        elif own in FILES and len(parts) > 2:
            here, there = path.stem, parts[2]
            assert rank(FILES[own], there) < rank(FILES[own], here), (
                f"{own}/{path.name}:{node.lineno} imports {there}, which stands above it"
            )


def test_no_two_modules_import_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for path in modules():
        here = ".".join([NAME, *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(
            ".__init__"
        )
        targets = set()
        for name, _ in imports_of(path, inside_functions=False):
            if name.split(".")[0] == NAME:
                as_path = PACKAGE.parent / name.replace(".", "/")
                known = as_path.is_dir() or as_path.with_suffix(".py").is_file()
                targets.add(name if known else name.rpartition(".")[0])
        graph[here] = targets - {here}

    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"a cycle of imports: {' -> '.join([*above, name])}"
        if name not in done:
            for other in sorted(graph.get(name, ())):
                visit(other, (*above, name))
            done.add(name)

    for name in sorted(graph):
        if name not in (NAME, f"{NAME}.tour", f"{NAME}.cli"):
            visit(name, ())


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_an_import_inside_a_function_is_of_an_optional_package(path: Path) -> None:
    if path.stem in ("cli", "__init__", "pytest_plugin") and path.parent == PACKAGE:
        return  # the command line, lm.draw and the fixture load what they need when it is asked for
    for name, node in imports_of(path, inside_functions=True):
        assert name.split(".")[0] in OPTIONAL, (
            f"{path.name}:{node.lineno} imports {name} inside a function"
        )


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_optional_packages_are_not_imported_at_the_top(path: Path) -> None:
    for name, node in imports_of(path, inside_functions=False):
        first = name.split(".")[0]
        if path.name == "pytest_plugin.py" and first == "pytest":
            continue
        assert first not in OPTIONAL - {"book"}, (
            f"{path.name}:{node.lineno} imports {name} at the top"
        )
        assert first != "book", "the package never imports the book"


def test_importing_lucid_mini_needs_numpy_alone() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import lucid_mini\n"
        "new = {n.split('.')[0] for n in set(sys.modules) - before}\n"
        "known = {*sys.stdlib_module_names, 'numpy', 'lucid_mini'}\n"
        "foreign = {n for n in new if n not in known}\n"
        "print(sorted(n for n in foreign if not n.startswith('_')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_drawing_and_lifetimes_are_not_loaded_before_they_are_asked_for() -> None:
    code = (
        "import sys, lucid_mini\n"
        "print([p for p in ('draw', 'lifetime') if f'lucid_mini.{p}' in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
