"""R107, R112: who keeps a tensor alive, by name, kind of edge and line."""

import functools
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import lucid_mini as lm
from lucid_mini.lifetime import Chain, holders, why_alive


@pytest.fixture(autouse=True)
def a_search_that_does_not_walk_the_whole_test_run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of tests are reachable here; only the deep structures need the full reach."""
    if "100_000_deep" not in request.node.name:
        monkeypatch.setattr(holders, "SEARCH_LIMIT", 20_000)
        monkeypatch.setattr(holders, "FOREIGN_LIMIT", 5_000)


def big() -> lm.Tensor:
    return lm.ones(10)


def hows(chain: Chain) -> list[str]:
    return [hop.how for hop in chain.hops]


def closure(t: lm.Tensor) -> Callable[[], float]:
    def inner() -> float:
        return t.numpy()[0]

    return inner


def nested_global(t: lm.Tensor) -> Any:
    """A function whose inner function reads a global."""
    code = "def outer():\n    def inner():\n        return hidden\n    return inner\n"
    namespace: dict[str, Any] = {"hidden": t, "__name__": "elsewhere"}
    exec(code, namespace)
    return namespace["outer"]


class Holder:
    def __init__(self, t: lm.Tensor) -> None:
        self.kept = t

    def method(self) -> None: ...


class Slotted:
    __slots__ = ("kept",)

    def __init__(self, t: lm.Tensor) -> None:
        self.kept = t


def with_class_attribute(t: lm.Tensor) -> type:
    return type("Registry", (), {"cache": [t], "__module__": __name__})


def through_ctx(t: lm.Tensor) -> lm.Tensor:
    class Keeps(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            ctx.cache = {"z": t}
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
            return grad * 2.0

    out: lm.Tensor = Keeps.apply(lm.ones(1, requires_grad=True))
    return out


def through_hook(t: lm.Tensor) -> lm.Tensor:
    x = lm.ones(1, requires_grad=True)
    y = x * 2.0
    y.register_hook(closure_hook(t))
    return y


def closure_hook(t: lm.Tensor) -> Any:
    def hook(grad: lm.Tensor) -> lm.Tensor:
        return grad * float(t.numpy()[0])

    return hook


def suspended(t: lm.Tensor) -> Any:
    def generate() -> Any:
        kept = t
        yield 1
        yield kept

    generator = generate()
    next(generator)
    return generator


def raised(t: lm.Tensor) -> BaseException:
    def fail(tensor: lm.Tensor) -> None:
        raise ValueError("on purpose")

    try:
        fail(t)
    except ValueError as error:
        return error
    raise AssertionError


def cached(t: lm.Tensor) -> Any:
    @functools.cache
    def size(tensor: lm.Tensor) -> int:
        return tensor.numel()

    size(t)
    return size


FORMS: dict[str, tuple[Callable[[lm.Tensor], Any], str]] = {
    "a closure cell": (closure, "closure cell 't'"),
    "a default": (lambda t: eval("lambda z=t: z", {"t": t}), "default of 'z'"),
    "a keyword default": (lambda t: eval("lambda *, z=t: z", {"t": t}), "default of 'z'"),
    "a partial": (lambda t: functools.partial(print, t), "argument 0"),
    "a partial's keyword": (lambda t: functools.partial(print, end=t), "argument 'end'"),
    "a bound method": (lambda t: Holder(t).method, "bound self"),
    "a ctx attribute": (through_ctx, "ctx attribute 'cache'"),
    "a list": (lambda t: [0, t], "[1]"),
    "a dict": (lambda t: {"key": t}, "['key']"),
    "a tuple at depth": (lambda t: ({"a": [(t,)]},), "['a']"),
    "a set": (lambda t: {t}, "an element"),
    "an instance attribute": (Holder, "attribute .kept"),
    "a slot": (Slotted, "slot .kept"),
    "a class attribute": (with_class_attribute, "class attribute .cache"),
    "a view": (lambda t: t[:2], "its array, a view"),
    "a hook": (through_hook, "hook"),
    "a generator": (suspended, "local 'kept'"),
    "an exception's traceback": (raised, "traceback, local 't' of raised"),
    "an lru_cache": (cached, "inside a _lru_cache_wrapper"),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_holder_is_found_and_named(form: str) -> None:  # R112
    make, how = FORMS[form]

    def program() -> tuple[Any, Any]:
        t = big()
        # A view keeps the memory, not the tensor it was taken from.
        return make(t), weakref.ref(t._data if form == "a view" else t)

    keeper, ref = program()  # noqa: RUF059 - the name that the chain starts from
    gc.collect()
    chain = why_alive(ref)
    assert chain.hops, f"nothing found: {chain}"
    assert chain.hops[0].how.startswith("local 'keeper'"), str(chain)
    assert any(step.startswith(how) for step in hows(chain)), str(chain)
    assert chain.nbytes == 80


@pytest.mark.parametrize("form", FORMS)
def test_looking_keeps_nothing_alive(form: str) -> None:  # R112
    make, _ = FORMS[form]

    def program() -> tuple[Any, Any]:
        t = big()
        return make(t), weakref.ref(t._data)

    keeper, ref = program()
    for _ in range(2):
        array = ref()
        assert array is not None
        del array
        why_alive(lm.ones(1))
    if form in ("a hook", "a ctx attribute"):
        scan = lm.lifetime.scan(keeper)
        assert len(scan) >= 1
        del scan
    del keeper
    gc.collect()
    assert ref() is None


def test_a_local_of_the_callers_frame_is_named_with_its_function_and_line() -> None:
    def caller() -> Chain:
        mine = big()
        ref = weakref.ref(mine)
        return why_alive(ref)

    chain = caller()
    assert chain.hops[0].how == "local 'mine' of caller"
    assert chain.hops[0].where.startswith("test_holders.py:")
    assert chain.is_plain


def test_a_global_is_named() -> None:
    globals()["kept_by_a_global"] = big()
    try:
        chain = why_alive(weakref.ref(globals()["kept_by_a_global"]))
        assert chain.hops[0].how.startswith("global 'kept_by_a_global'")
    finally:
        del globals()["kept_by_a_global"]


def test_a_global_read_in_a_nested_function_is_seen_by_scan() -> None:
    outer = nested_global(big())
    findings = lm.lifetime.scan(outer)
    assert [(f.holder, f.how, f.nbytes) for f in findings] == [("outer", "global 'hidden'", 80)]


def test_an_attribute_that_shares_a_globals_name_is_no_finding() -> None:
    code = "def f(x):\n    return x.hidden\n"
    namespace: dict[str, Any] = {"hidden": big()}
    exec(code, namespace)
    assert lm.lifetime.scan(namespace["f"]) == []


def test_the_argument_and_the_name_it_was_passed_by_do_not_count() -> None:
    passed = big()
    assert why_alive(passed).hops == ()
    other = passed
    chain = why_alive(passed)
    assert chain.hops[0].how.startswith("local 'other'")
    del other


def test_the_shortest_chain_is_given_and_the_others_are_counted() -> None:
    def caller() -> Chain:
        t = big()
        ref = weakref.ref(t)
        near = [t]
        far = {"a": {"b": {"c": t}}}
        del t
        chain = why_alive(ref)
        assert near
        assert far
        return chain

    chain = caller()
    assert chain.hops[0].how == "local 'near' of caller"
    assert chain.others == 1


def test_a_dead_weak_reference_is_held_by_nothing() -> None:
    t = big()
    ref = weakref.ref(t)
    del t
    assert why_alive(ref).hops == ()


def test_why_alive_takes_tensors_only() -> None:
    with pytest.raises(TypeError, match=r"why_alive takes a tensor, .* not int"):
        why_alive(3)


def test_the_chain_through_a_closure_names_variable_and_line() -> None:
    keeper = closure(big())
    line = closure.__code__.co_firstlineno + 1
    gc.collect()
    findings = lm.lifetime.scan(keeper)
    assert [(f.how, f.where) for f in findings] == [("closure cell 't'", f"test_holders.py:{line}")]
    assert "save it with ctx.save_for_backward" in str(findings).lower()


@pytest.mark.parametrize("deep", ["list", "dict"])
def test_a_structure_100_000_deep_is_searched_without_recursion(deep: str) -> None:
    t = big()
    ref = weakref.ref(t)
    keeper: Any = t
    del t
    for _ in range(100_000):
        keeper = [keeper] if deep == "list" else {"k": keeper}
    chain = why_alive(ref)
    assert len(chain.hops) >= 100_000
    while isinstance(
        keeper, list | dict
    ):  # taken apart from outside: no recursion in the test either
        keeper = keeper[0] if isinstance(keeper, list) else keeper["k"]


def test_a_search_that_is_too_large_stops_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "SEARCH_LIMIT", 1000)
    t = big()
    ref = weakref.ref(t)
    keeper: Any = [t]
    del t
    for _ in range(5000):
        keeper = [keeper]
    chain = why_alive(ref)
    assert chain.stopped
    assert "stopped early" in str(chain)
    while isinstance(keeper, list):
        keeper = keeper[0]


def test_an_object_whose_attributes_raise_is_passed_over() -> None:
    class Hostile:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("no")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

        __hash__ = None  # type: ignore[assignment]

    t = big()
    ref = weakref.ref(t)
    keeper = [Hostile(), t]
    del t
    assert hows(why_alive(ref))[1] == "[1]"
    assert len(keeper) == 2


def test_del_after_why_alive_frees_because_no_snapshot_of_locals_is_left() -> None:
    t = big()
    ref = weakref.ref(t._data)
    why_alive(t)
    del t
    assert ref() is None, sys.version


def test_survivors_tell_a_cycle_from_an_outside_holder_and_a_plain_name() -> None:  # R107
    gc.collect()
    gc.disable()
    try:
        with lm.lifetime.trace() as trace:
            plain = lm.ones(3)
            hidden = closure(lm.ones(4))
            cycle: list[Any] = [lm.ones(5)]
            cycle.append(cycle)
            del cycle
        verdicts = {b.nbytes: (b.verdict, b.holder) for b in trace.survivors()}
        assert verdicts[24][0] == "expected"
        assert verdicts[32] == ("outside", verdicts[32][1])
        assert verdicts[32][1].startswith("closure.inner, closure cell 't' (test_holders.py:")
        assert verdicts[40][0] == "cycle"
        assert plain is not None
        assert hidden is not None
    finally:
        gc.enable()


def test_a_buffer_is_found_by_the_name_it_has_in_the_last_trace() -> None:
    with lm.lifetime.trace():
        hidden = closure(lm.ones(4) * 2.0)
    chain = why_alive("mul test_holders.py:" + str(_line_above()))
    assert chain.hops[-2].how == "closure cell 't'"
    with pytest.raises(ValueError, match="no buffer named 'nonsense' in the last trace"):
        why_alive("nonsense")
    del hidden


def _line_above() -> int:
    return sys._getframe(1).f_lineno - 1


class Notebook:
    """What IPython does for a cell: run it, and keep what its last expression gave."""

    def __init__(self) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        self.shell = InteractiveShell.instance()
        self.shell.reset()

    def run(self, cell: str) -> Any:
        return self.shell.run_cell(cell, store_history=True)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("IPython", reason="the notebook's own memory needs IPython")
    # IPython would put the packages of an environment that happens to be active on the path.
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    made = Notebook()
    yield made
    made.shell.reset()
    made.shell.clear_instance()


def test_the_notebook_keeps_what_it_displayed_and_is_named_with_the_remedy(
    notebook: Any,
) -> None:  # R112
    notebook.run("import lucid_mini as lm, weakref\nt = lm.ones(10)\nr = weakref.ref(t)")
    notebook.run("t")
    notebook.run("del t")
    notebook.run("import gc; gc.collect(); chain = lm.lifetime.why_alive(r)")
    chain = notebook.shell.user_ns["chain"]
    assert chain.hops[0].how.startswith("the notebook's "), str(chain)
    assert not chain.is_plain
    assert "%reset -f out" in chain.remedy


def test_the_traceback_of_the_last_error_is_named_with_the_remedy() -> None:  # R112
    sys.last_value = raised(big())  # what an interactive prompt does
    try:
        gc.collect()
        error = sys.last_value
        ref = weakref.ref(error.__traceback__.tb_next.tb_frame.f_locals["tensor"])  # type: ignore[union-attr]
        del error
        chain = why_alive(ref)
        assert chain.hops[0].how == "sys.last_value"
        assert "sys.last_value" in chain.remedy or "keep str(error)" in chain.remedy
    finally:
        del sys.last_value


@pytest.mark.filterwarnings("ignore::lucid_mini.errors.LeakWarning")
def test_a_cycle_is_told_with_its_members_in_order() -> None:  # R107
    class Keeps(lm.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
            y = lm.exp(x)
            ctx.y = y
            return y

        @staticmethod
        def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
            return grad * ctx.y

    gc.collect()
    gc.disable()
    try:
        with lm.lifetime.trace() as trace:
            Keeps.apply(lm.ones(5, requires_grad=True))
        found = {b.nbytes: b for b in trace.survivors() if b.verdict == "cycle"}
        line = Keeps.forward.__code__.co_firstlineno + 3
        edges = f"grad_fn → ctx → ctx attribute 'y' (test_holders.py:{line})"
        assert found[40].holder == f"a cycle: {edges}"
    finally:
        gc.enable()


def test_scan_says_that_a_captured_parameter_costs_no_extra_byte() -> None:
    w = lm.ones(10, requires_grad=True)
    (finding,) = lm.lifetime.scan(closure(w))
    assert finding.nbytes == 80
    assert finding.extra_bytes == 0
    assert "0 extra bytes: a parameter" in str(finding)


def test_scan_tells_of_one_cell_that_several_functions_share() -> None:
    functions = []
    for factor in (1.0, 2.0):  # the bug this is about: both functions see the last z
        z = lm.ones(10) * factor

        class Scaled(lm.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: lm.Tensor) -> lm.Tensor:
                return x * z  # noqa: B023

            @staticmethod
            def backward(ctx: Any, grad: lm.Tensor) -> lm.Tensor:
                return grad * z  # noqa: B023

        functions.append(Scaled)
    x = lm.ones(10, requires_grad=True)
    y = functions[1].apply(functions[0].apply(x))
    (finding,) = lm.lifetime.scan(y)
    assert finding.also == ("Scaled.backward",)
    assert "the last value bound" in str(finding)


def test_captures_of_shapes_numbers_modules_and_functions_are_no_findings() -> None:
    shape, number, module, function = (3, 4), 2.0, gc, len

    def quiet() -> Any:
        return shape, number, module, function

    assert lm.lifetime.scan(quiet) == []


def test_a_step_into_a_container_is_told_with_the_containers_name() -> None:
    with lm.lifetime.trace() as trace:
        cache = {"layers": [0, lm.ones(6)]}
    (found,) = trace.survivors()
    assert found.holder.startswith("local 'cache' of test_a_step_into")
    assert "['layers'][1] (test_holders.py:" in found.holder
    assert len(cache) == 1
