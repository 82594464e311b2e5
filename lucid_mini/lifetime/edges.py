"""What an object holds: typed, named edges from a holder to what it keeps alive.

`holders` follows them from the names a user wrote; `scan` from a function or a graph. Looking keeps
nothing alive: before Python 3.13 the snapshot of a frame's locals that `f_locals` makes is cleared
again.
"""

import dis
import functools
import gc
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..autograd.callsite import file_of, is_machinery
from ..autograd.ctx import FunctionCtx
from ..autograd.node import AccumulateGrad, Node
from ..autograd.saved import DETACHED
from ..autograd.tensor import Tensor
from .kinds import kind_of_function

#: Where the libraries lie: modules from there are not the user's.
_LIBRARIES = tuple({sys.prefix, sys.base_prefix, sys.exec_prefix})
#: What cannot hold a tensor, or what nobody means by "holds".
INERT = (str, bytes, bytearray, int, float, complex, bool, type(None), range, slice, types.CodeType)


class Link(NamedTuple):
    """One edge. `how` says how the holder holds: `closure cell 'z'`, `attribute .cache`, `[3]`.

    `by` names the holder where that is more than "the hop before": a function's or class's name.
    `where` is `file:line` of the code that made the edge, or "".
    """

    how: str
    held: Any
    by: str = ""
    where: str = ""


def links(holder: Any) -> Iterator[Link]:
    """The edges out of `holder`.

    Never raises: what cannot be read (an attribute that raises, an empty cell) is passed over.
    """
    if isinstance(holder, INERT):
        return
    for kind, reader in _READERS:
        if isinstance(holder, kind):
            yield from reader(holder)
            return
    yield from _instance(holder)


def _tensor(t: Tensor) -> Iterator[Link]:
    yield Link("its array" if t._data.base is None else "its array, a view", t._data)
    if t._grad is not None:
        yield Link(".grad", t._grad)
    if t._node is not None:
        yield Link("grad_fn" if t._node.sequence_nr else "its AccumulateGrad", t._node)
    if t._base is not None:
        yield Link("view of", t._base)


def _array(array: Any) -> Iterator[Link]:
    if array.base is not None:
        yield Link("view of", array.base)
    if array.dtype.hasobject:
        yield from (Link("an element", item) for item in array.flat)


def _node(node: Node) -> Iterator[Link]:
    yield Link("ctx", node._ctx, node.label)
    yield Link("its Function", node.function, node.label)
    if node._hooks is not None:
        yield from _hooks(node._hooks, node.label)
    for upstream in node._next_nodes:
        if upstream:
            yield Link("next node", upstream, node.label)


def _accumulate(node: AccumulateGrad) -> Iterator[Link]:
    if node._hooks is not None:
        yield from _hooks(node._hooks, "a leaf")


def _hooks(hooks: Any, by: str) -> Iterator[Link]:
    for registered in hooks.tensor_hooks.values():
        for hook in list(registered.values()):
            yield Link("hook", hook, by)
    for name in ("pre", "post", "accumulated"):
        for hook in list(getattr(hooks, name).values()):
            yield Link(f"{name} hook", hook, by)
    for key, value in list(hooks.metadata.items()):
        yield Link(f"metadata[{key!r}]", value, by)


def _ctx(ctx: FunctionCtx) -> Iterator[Link]:
    by = ctx._function.__name__ if ctx._function is not None else "FunctionCtx"
    if type(ctx._saved) is tuple:
        for index, slot in enumerate(ctx._saved):
            if slot is None:
                continue
            held = slot._data if type(slot) in DETACHED else slot
            yield Link(f"saved tensor {index}", held, by)
    for name, at in (ctx._named or {}).items():
        if type(at) is not int:
            yield Link(f"saved variable '{name}'", at[0], by)
    for key, value in list(ctx.__dict__.items()):
        yield Link(f"ctx attribute '{key}'", value, by, line_of(ctx._function, f"ctx.{key}"))


def _function(function: types.FunctionType) -> Iterator[Link]:
    code = function.__code__
    by = pretty(function.__qualname__)
    where = f"{file_of(code)}:{code.co_firstlineno}"
    for name, held in list(function.__dict__.items()):
        yield Link(f"attribute .{name}", held, by)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            held = cell.cell_contents
        except ValueError:
            continue  # a cell that is filled later
        yield Link(f"closure cell '{name}'", held, by, where)
    defaults = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults) :]
    for name, held in zip(names, defaults, strict=True):
        yield Link(f"default of '{name}'", held, by, where)
    for name, held in (function.__kwdefaults__ or {}).items():
        yield Link(f"default of '{name}'", held, by, where)


def global_reads(function: types.FunctionType) -> Iterator[Link]:
    """The globals that `function`, or a function written inside it, reads by name."""
    pending, seen = [function.__code__], set()
    while pending:
        code = pending.pop()
        pending += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        for name in _global_names(code):
            if name in function.__globals__ and name not in seen:
                seen.add(name)
                yield Link(
                    f"global '{name}'",
                    function.__globals__[name],
                    pretty(function.__qualname__),
                    f"{file_of(code)}:{code.co_firstlineno}",
                )


@functools.lru_cache(maxsize=256)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """Names that `code` reads as globals; an attribute of the same name is not one."""
    return tuple(
        dict.fromkeys(
            str(i.argval)
            for i in dis.get_instructions(code)
            if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        )
    )


def _method(method: types.MethodType) -> Iterator[Link]:
    yield Link("bound self", method.__self__, pretty(method.__func__.__qualname__))
    yield Link("its function", method.__func__)


def _partial(partial: Any) -> Iterator[Link]:
    by = f"partial of {pretty(getattr(partial.func, '__qualname__', type(partial.func).__name__))}"
    yield Link("its function", partial.func, by)
    for index, held in enumerate(partial.args):
        yield Link(f"argument {index}", held, by)
    for name, held in partial.keywords.items():
        yield Link(f"argument '{name}'", held, by)


def _descriptor(descriptor: Any) -> Iterator[Link]:
    yield Link("its function", descriptor.__func__)


def _cell(cell: types.CellType) -> Iterator[Link]:
    try:
        yield Link("cell contents", cell.cell_contents)
    except ValueError:
        return


def _dict(mapping: Any) -> Iterator[Link]:
    for key, value in list(dict.items(mapping)):
        yield Link(f"[{_key(key)}]", value)
        if not isinstance(key, INERT):
            yield Link("a key", key)


def _sequence(items: Any) -> Iterator[Link]:
    for index, item in enumerate(items):
        yield Link(f"[{index}]", item)


def _set(items: Any) -> Iterator[Link]:
    for item in items:
        yield Link("an element", item)


def _generator(generator: Any) -> Iterator[Link]:
    frame = generator.gi_frame
    if frame is not None:
        by = f"generator {pretty(generator.__qualname__)}"
        for name, held in locals_of(frame):
            yield Link(f"local '{name}'", held, by, f"{file_of(frame.f_code)}:{frame.f_lineno}")


def _exception(error: BaseException) -> Iterator[Link]:
    trace = error.__traceback__
    by = type(error).__name__
    while trace is not None:
        frame = trace.tb_frame
        for name, held in locals_of(frame):
            yield Link(
                f"traceback, local '{name}' of {frame.f_code.co_name}",
                held,
                by,
                f"{file_of(frame.f_code)}:{trace.tb_lineno}",
            )
        trace = trace.tb_next
    for how, other in (("__context__", error.__context__), ("__cause__", error.__cause__)):
        if other is not None:
            yield Link(how, other, by)
    yield from (Link(f"argument {i}", held, by) for i, held in enumerate(error.args))


def _class(cls: type) -> Iterator[Link]:
    kind = kind_of_function(cls)
    if kind is None and is_library(getattr(sys.modules.get(cls.__module__), "__file__", None)):
        return
    by = pretty(cls.__qualname__)
    for name, held in list(vars(cls).items()):
        if isinstance(held, staticmethod) and kind is not None:
            if name in kind.methods:
                yield Link(f"its {name}", held.__func__, by)
        elif not name.startswith("__") and name != "_needs":
            yield Link(f"class attribute .{name}", held, by)


def _nothing(_: Any) -> Iterator[Link]:
    return iter(())


def _instance(holder: Any) -> Iterator[Link]:
    """Attributes and slots; of a type that hides what it holds, whatever the collector knows of."""
    by = type(holder).__name__
    found = False
    try:
        attributes = object.__getattribute__(holder, "__dict__")
    except Exception:  # whatever a foreign object raises: it has no attributes to show
        attributes = None
    if type(attributes) is dict:
        found = True
        for name, held in list(attributes.items()):
            yield Link(f"attribute .{name}", held, by)
    for cls in type(holder).__mro__:
        for name, member in list(vars(cls).items()):
            if isinstance(member, types.MemberDescriptorType) and name not in (
                "__dict__",
                "__weakref__",
            ):
                found = True
                try:
                    yield Link(f"slot .{name}", member.__get__(holder), by)
                except Exception:  # a slot that was never filled
                    continue
    wrapped = getattr(type(holder), "__wrapped__", None) is not None
    if not found or wrapped or type(holder).__module__ == "functools":
        for held in gc.get_referents(holder):
            if not isinstance(held, type | types.ModuleType | types.FrameType):
                yield Link(f"inside a {by}", held)


_READERS: list[tuple[Any, Callable[[Any], Iterator[Link]]]] = [
    (Tensor, _tensor),
    (np.ndarray, _array),
    (Node, _node),
    (AccumulateGrad, _accumulate),
    (FunctionCtx, _ctx),
    (types.FunctionType, _function),
    (types.MethodType, _method),
    (functools.partial, _partial),
    (staticmethod, _descriptor),
    (classmethod, _descriptor),
    (types.CellType, _cell),
    (dict, _dict),
    (list, _sequence),
    (tuple, _sequence),
    ((set, frozenset), _set),
    (types.GeneratorType, _generator),
    (BaseException, _exception),
    (type, _class),
    ((types.ModuleType, types.FrameType, types.BuiltinFunctionType), _nothing),
]


def add_readers(*readers: tuple[Any, Callable[[Any], Iterator[Link]]]) -> None:
    """Make `links` know more types: pairs of a type, or a tuple of types, and its reader."""
    _READERS.extend(readers)


def locals_of(frame: types.FrameType) -> list[tuple[str, Any]]:
    """The local variables of `frame`, leaving no snapshot of them behind."""
    variables = frame.f_locals
    found = [(name, value) for name, value in variables.items()]
    if frame.f_code.co_flags & 0x1 and sys.version_info < (3, 13):
        # A function's f_locals is a copy that the frame keeps: it would hold what `del` lets go of.
        variables.clear()
    return found


def is_library(path: str | None) -> bool:
    """Whether a module file belongs to Python or an installed package rather than to the user."""
    if path is None:
        return True
    if "site-packages" in path or "dist-packages" in path:
        return True
    return any(path.startswith(f"{prefix}/lib") for prefix in _LIBRARIES)


def user_modules() -> list[types.ModuleType]:
    """The modules a user wrote, `__main__` first."""
    found = []
    for name, module in list(sys.modules.items()):
        if name == "__main__" or not isinstance(module, types.ModuleType):
            continue
        if not is_machinery(vars(module)) and not is_library(getattr(module, "__file__", None)):
            found.append(module)
    main = sys.modules.get("__main__")
    return ([main] if main is not None else []) + found


def pretty(qualname: str) -> str:
    """A qualified name as texts show it: `make_relu.backward` for `make_relu.<locals>.backward`."""
    return qualname.replace(".<locals>", "")


def _key(key: Any) -> str:
    return (
        repr(key)
        if isinstance(key, str | int | float | bool | None | tuple) and len(repr(key)) < 40
        else type(key).__name__
    )


def line_of(function: Any, text: str) -> str:
    """`file:line` of the first line of a Function's forward with `text` in it."""
    try:
        lines, first = inspect.getsourcelines(function.forward)
    except (OSError, TypeError, AttributeError):
        return ""
    for offset, line in enumerate(lines):
        if text in line:
            return f"{file_of(function.forward.__code__)}:{first + offset}"
    return f"{file_of(function.forward.__code__)}:{first}"
