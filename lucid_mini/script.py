"""Run a script or a module as Python does, and keep its namespace when it is over."""

import importlib.util
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any


class ScriptError(Exception):
    """There is no such script or module, or it is no Python; the text is one sentence."""


class Script:
    """A program that can be run once as `__main__`."""

    def __init__(self, name: str, code: CodeType, folder: str, spec: Any = None) -> None:
        self.name = name
        self.code = code
        self.folder = folder
        self.spec = spec

    @contextmanager
    def as_main(self, arguments: list[str]) -> Iterator[dict[str, Any]]:
        """Be `__main__`, with its `sys.argv` and `sys.path[0]`; yields the namespace to run in.

        When the block ends, what stood there before is put back.
        """
        before = sys.argv, sys.path[:], sys.modules["__main__"]
        main = types.ModuleType("__main__")
        main.__file__ = self.code.co_filename
        main.__spec__ = self.spec
        if self.spec is not None:
            main.__package__ = self.spec.parent
            main.__loader__ = self.spec.loader
        sys.argv = [self.code.co_filename if self.spec else self.name, *arguments]
        sys.path.insert(0, self.folder)
        sys.modules["__main__"] = main
        try:
            yield vars(main)
        finally:
            sys.argv, sys.path[:], sys.modules["__main__"] = before


def script_at(path: str) -> Script:
    """The script in the file at `path`, or the `__main__.py` of a folder.

    Raises: ScriptError.
    """
    file = Path(path)
    if file.is_dir():
        file /= "__main__.py"
    try:
        source = file.read_bytes()
    except OSError as error:
        raise ScriptError(f"cannot read {path}: {error.strerror}") from None
    return Script(path, _compiled(source, str(file)), str(file.resolve().parent))


def _compiled(source: bytes, path: str) -> CodeType:
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ScriptError(f"{path} is no Python{line}: {error}") from None


def script_of_module(name: str) -> Script:
    """The program that `python -m name` runs.

    Raises: ScriptError.
    """
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
        code = spec.loader.get_code(spec.name) if spec is not None else None  # type: ignore[union-attr]
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        raise ScriptError(f"cannot run the module {name}: {error}") from None
    finally:
        sys.path.remove(here)
    if code is None:
        raise ScriptError(f"there is no module {name} that Python could run")
    return Script(name, code, here, spec)


class WhenImported:
    """Calls `then` once, when the package `name` has been imported."""

    def __init__(self, name: str, then: Any) -> None:
        self.name = name
        self.then = then
        if name in sys.modules:
            then()
        else:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Wait no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Let the other finders find the package, and be called when it is loaded."""
        if name != self.name:
            return None
        self.stop()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load, then = spec.loader.exec_module, self.then

            def exec_module(module: types.ModuleType) -> None:
                load(module)
                then()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
