"""The trace of a PyTorch program: what it records, what it draws, and who holds what is left."""

import gc
import subprocess
import sys
import types
import weakref
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the bridge needs PyTorch")

import torch_programs as programs

import lucid_mini as lm
from lucid_mini.lifetime import holders

trace = lm.bridge.torch.trace


@pytest.fixture(autouse=True)
def the_other_tests_are_no_modules_of_the_script(monkeypatch):
    """Thousands of objects are reachable from them, and where a search stops nothing is judged."""
    every = holders.user_modules
    monkeypatch.setattr(
        holders, "user_modules", lambda: [m for m in every() if "test_" not in m.__name__]
    )


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        inner = x * mask
        y = inner * x
        ctx.save_for_backward(x, inner, y, y.view(-1))
        return y

    @staticmethod
    def backward(ctx, grad):
        _, inner, _, _ = ctx.saved_tensors
        return grad * 2 * inner, None


def step(x, w, b, y):
    h = (x @ w + b).relu()
    loss = torch.nn.functional.cross_entropy(h, y)
    loss.backward()


def arguments():
    torch.manual_seed(0)
    x, y = torch.randn(16, 8), torch.arange(16) % 4
    return x, torch.randn(8, 4, requires_grad=True), torch.zeros(4, requires_grad=True), y


def traced_step():
    x, w, b, y = arguments()
    with trace() as t:
        step(x, w, b, y)
    return t, (x, w, b, y)


def test_every_saved_tensor_is_listed_with_node_slot_role_bytes_and_state():
    t, _ = traced_step()
    rows = [(r.node, r.slot, r.role, r.nbytes, r.buffer, r.state) for r in t.saved()]
    assert rows == [
        ("MmBackward0#1", "self", "input", 512, "x", "released"),
        ("ReluBackward0#3", "result", "output", 256, "ReluBackward0#3 out", "released"),
        ("LogSoftmaxBackward0#4", "result", "output", 256, "LogSoftmaxBackward0#4 out", "released"),
        ("NllLossBackward0#5", "self", "input", 256, "LogSoftmaxBackward0#4 out", "released"),
        ("NllLossBackward0#5", "target", "input", 128, "y", "released"),
        (
            "NllLossBackward0#5",
            "total_weight",
            "intermediate",
            4,
            "NllLossBackward0#5 out.1",
            "released",
        ),
    ]
    assert [r.counted for r in t.saved()] == [True, True, True, False, True, True]
    assert "6 saved tensors in 5 buffers, 0 bytes held" in repr(t.saved())


def test_a_custom_function_names_its_arguments_and_tells_outputs_from_what_it_made():
    x, mask = torch.ones(10, requires_grad=True), torch.ones(10)
    with trace() as t:
        y = Square.apply(x, mask)
    rows = [(r.slot, r.role, r.state) for r in t.saved()]
    assert rows == [
        ("x", "input", "held"),
        ("saved 1", "intermediate", "held"),
        ("output", "output", "held"),
        ("view of output", "alias of output", "held"),
    ]
    assert t.saved().nbytes == 120
    del y


def test_a_graph_that_dies_without_backward_is_gone_and_not_released():
    with trace() as t:
        y = torch.ones(10, requires_grad=True).exp()
        assert {r.state for r in t.saved()} == set()
        z = y + 1
        assert {r.state for r in t.saved()} == {"held"}
        del y, z
    assert {r.state for r in t.saved()} == {"gone"}


def test_retain_graph_holds_what_the_second_pass_releases():
    x = torch.ones(10, requires_grad=True)
    with trace() as t:
        loss = x.exp().sum()
        loss.backward(retain_graph=True)
        gc.collect()
        torch.zeros(1)
        assert [r.state for r in t.saved()] == ["held"]
        loss.backward()
    assert [r.state for r in t.saved()] == ["released"]
    assert [e.node for e in t.events if e.kind == "run"] == [
        "SumBackward0#2",
        "ExpBackward0#1",
        "SumBackward0#2",
        "ExpBackward0#1",
    ]


def test_buffers_are_named_as_the_program_and_pytorch_name_them():
    t, _ = traced_step()
    names = [b.name for b in t.buffers]
    assert names[:4] == ["x", "w", "MmBackward0#1 out", "b"]
    assert "grad of ReluBackward0#3" in names
    assert "grad of w" in names
    assert "grad of b" in names
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with trace() as t:
        model(torch.ones(1, 2)).sum().backward()
    names = [b.name for b in t.buffers]
    assert {"model.0.weight", "model.0.bias", "grad of model.0.weight"} <= set(names)


def test_a_buffer_dies_when_its_bytes_do_and_a_view_is_none():
    with trace() as t:
        a = torch.ones(100)
        b = a.view(10, 10)[2:]
        del a
        assert t.live_bytes() == 400
        c = b.t()
        del b
        assert t.live_bytes() == 400
        del c
        assert t.live_bytes() == 0
    (a,) = t.buffers
    assert (a.name, a.nbytes, a.freed_by) == ("a", 400, "the caller")
    assert t.peak() == 400


def test_the_curve_is_the_sum_of_the_storages_that_are_there():
    """Counted without the trace: the storages of what Python knows of, and of the graph."""
    with trace() as t:
        x = torch.ones(50, requires_grad=True)
        y = x.exp()  # saves its result
        z = y.sin()  # saves y
        w = z.view(5, 10) * 2  # a constant of 8 bytes beside it
        seen = t.live_bytes()
    constant = w.grad_fn._saved_other.untyped_storage().nbytes()
    total = sum(each.untyped_storage().nbytes() for each in (x, y, z, w))
    assert total == 800
    # The constant is met when the node is, with the next op or the end of the trace.
    assert seen == total
    assert t.live_bytes() == total + constant
    assert t.curve()[-1] == t.live_bytes()


def test_what_was_there_before_counts_nothing_and_minus_its_size_once_it_is_gone():
    old = torch.ones(100)
    with trace() as t:
        new = old + 1
        assert t.live_bytes() == 400
        del old
        assert t.live_bytes() == 0
        del new
        assert t.live_bytes() == -400
    assert next((b.name, b.existed) for b in t.buffers) == ("old", True)


def test_memory_that_no_op_made_is_foreign_and_not_counted():
    import numpy as np

    with trace() as t:
        shared = torch.from_numpy(np.ones(10))
        shared + 1
    assert next((b.name, b.foreign) for b in t.buffers) == ("shared", True)
    assert t.live_bytes() == 0


def test_the_trace_keeps_nothing_alive():
    with trace() as t:
        x = torch.ones(10, requires_grad=True)
        y = x.exp()
        loss = y.sum()
        watch = [weakref.ref(each.untyped_storage()) for each in (x, y, loss)]
        loss.backward()
        del x, y, loss
        gc.disable()
        try:
            assert [ref() for ref in watch] == [None, None, None]
        finally:
            gc.enable()
    assert t.live_bytes() == 0


def test_two_runs_give_the_same_log():
    def log():
        t, kept = traced_step()
        del kept
        return [tuple(event) for event in t.events], t.curve(), t.marks

    assert log() == log()


def test_the_same_figures_show_it():
    t, _ = traced_step()
    t.title = "One step"
    text = repr(lm.draw.timeline(t))
    assert "ReluBackward0#3 out" in text
    assert "backward begins at" in text
    assert "B MmBackward0#1" in text
    assert "needed by the algorithm" in repr(lm.draw.memory(t))
    assert (
        "MmBackward0#1" in lm.draw.timeline(t).svg() if hasattr(lm.draw.timeline(t), "svg") else 1
    )


def test_what_is_saved_and_never_read_drags():
    x, mask = torch.ones(100, requires_grad=True), torch.ones(100)

    def run():
        Square.apply(x * 2, mask).sum().backward()

    with trace() as t:
        run()
    dragged = {b.name: b.drag for b in t.buffers if b.drag}
    assert "SquareBackward#2 out" in dragged  # saved as output and as a view, and not read


def test_the_events_of_backward_come_in_order():
    t, _ = traced_step()
    of_relu = [e.kind for e in t.events if e.node == "ReluBackward0#3"]
    assert of_relu[:3] == ["alloc", "use", "save"]
    run = of_relu.index("run")
    assert of_relu[run : run + 2] == ["run", "release"]
    assert "unpack" in of_relu[:run]
    freed = [b for b in t.buffers if b.name == "LogSoftmaxBackward0#4 out"]
    assert freed[0].freed_by == "engine after LogSoftmaxBackward0#4"


# ---------------------------------------------------------------- who holds it


def leaks(t):
    return [b for b in t.survivors() if b.verdict in ("cycle", "outside")]


@pytest.mark.parametrize(
    ("program", "how"), programs.NAMED.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_a_leak_that_a_name_leads_to_is_named_with_its_chain(program, how):
    with trace() as t:
        kept = program()
    found = [b for b in leaks(t) if how in b.holder]
    assert found, [b.holder for b in leaks(t)]
    assert {b.verdict for b in found} == {"outside"}
    (chain,) = found[0].holders
    assert chain.hops[0].how.startswith("local 'kept' of test_a_leak")
    assert found[0].holder.rpartition("(")[2].startswith(
        ("torch_programs.py", "test_tracing.py")
    ) or (how.startswith(("attribute", "inside")))
    assert chain.remedy
    del kept


@pytest.mark.parametrize(
    ("program", "how"), programs.CYCLES.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_a_cycle_that_the_collector_frees_is_told_edge_by_edge(program, how):
    with trace() as t:
        program()
    found = leaks(t)
    assert {b.verdict for b in found} == {"cycle"}
    assert any(how in b.holder for b in found) or any("hook" in b.holder for b in found)
    assert all(b.holder.startswith("a cycle: ") for b in found)
    assert [ref() for ref in t.arrays().values()] == [None] * len(t.arrays())


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize(
    ("program", "how"), programs.PERMANENT.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_a_cycle_through_cpp_is_told_and_that_no_collection_frees_it(program, how):
    with trace() as t:
        program()
    found = leaks(t)
    assert {b.verdict for b in found} == {"outside"}
    assert any(how in b.holder for b in found), [b.holder for b in found]
    assert all("no collection frees it" in b.holder for b in found)
    gc.collect()
    assert {b.name for b in found} <= {name for name, ref in t.arrays().items() if ref()}


def test_a_hook_that_only_a_node_holds_is_found_though_no_name_leads_to_it():
    with trace() as t:
        kept = programs.hook_on_a_tensor_that_is_gone()
    held = [b for b in leaks(t) if "closure cell 'z'" in b.holder]
    assert held
    assert held[0].holder.startswith("hook_on_a_tensor_that_is_gone.<lambda>, closure cell 'z'")
    assert held[0].holder.endswith(", held by C++ alone")
    del kept


def test_what_a_notebook_displayed_is_held_by_its_out():
    module = types.ModuleType("notebook")
    module.__file__ = __file__
    module.In, module.Out = [], {}
    sys.modules["notebook"] = module
    try:
        with trace() as t:
            module.Out[3] = programs.grown()
        holders = {b.name: b.holder for b in leaks(t)}
    finally:
        del sys.modules["notebook"]
    assert holders["MulBackward0#1 out"] == "the notebook's Out[3]"


@pytest.mark.parametrize("program", programs.CLEAN, ids=lambda f: f.__name__)
def test_of_a_clean_program_nothing_is_reported(program):
    with trace() as t:
        first, second, third = program()
    assert [(b.name, b.holder) for b in leaks(t)] == []
    assert t.failure is None
    del first, second, third


def test_why_alive_follows_pytorch_objects_too():
    layer = programs.instance_attribute()
    chain = lm.lifetime.why_alive(weakref.ref(layer.seen.untyped_storage()))
    assert [hop.how for hop in chain.hops[1:]] == ["attribute .seen", "its storage"]
    assert "attribute .seen" in repr(lm.draw.holders(chain))


def test_what_a_collection_frees_on_its_way_is_told():
    with trace() as t:
        programs.ctx_output()
        gc.collect()
    freed = [b for b in t.buffers if b.name == "KeepingBackward#2 out"]
    assert freed[0].freed_by == "the collector"


# ---------------------------------------------------------------- where something is missing


def test_without_pytorch_one_sentence_says_how_to_get_it():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import lucid_mini as lm\n"
        "try:\n    lm.bridge.torch.trace\nexcept ImportError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.count("\n") == 1
    assert "pip install 'lucid-mini[torch]'" in said.stdout


def test_another_pytorch_is_told_once_in_one_sentence(monkeypatch):
    from lucid_mini.bridge import internals

    found = internals._find("_C.no_such_name", lambda: 7, "nothing is affected")
    assert found() == 7
    with pytest.warns(RuntimeWarning, match=r"torch\._C\.no_such_name \(nothing is affected\)"):
        trace().__enter__().__exit__(None, None, None)
    with trace():
        pass  # and not again


def test_if_the_trace_itself_fails_the_program_goes_on_and_is_told():
    x = torch.ones(3, requires_grad=True)

    def run(t):
        with t:
            t._met = None
            (x * 2).sum().backward()

    t = trace()
    with pytest.warns(RuntimeWarning, match=r"the trace of lm\.bridge\.torch stopped"):
        run(t)
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert isinstance(t.failure, TypeError)


def test_two_traces_may_run_at_once_and_see_the_same():
    x, w, b, y = arguments()
    with trace() as outer, trace() as inner:
        step(x, w, b, y)
    assert outer.failure is inner.failure is None
    assert [e.kind for e in outer.events] == [e.kind for e in inner.events]
    assert repr(outer.saved()) == repr(inner.saved())


def test_a_gradient_that_the_caller_gives_is_the_callers():
    x, given = torch.ones(10, requires_grad=True), torch.ones(10)
    with trace() as t:
        (x * 2).backward(given)
    assert [(b.name, b.existed) for b in t.buffers if b.name == "given"] == [("given", True)]


def test_a_trace_is_entered_once():
    with trace() as t, pytest.raises(RuntimeError, match=r"lm\.bridge\.torch\.trace"):
        t.__enter__()


def test_without_a_log_what_is_gone_is_forgotten_and_the_rest_stands():
    x, w, b, y = arguments()
    with trace(log=False) as t:
        for _ in range(20):
            step(x, w, b, y)
        kept = x * 2
    assert t.nodes == []
    assert (t.events, t.marks, t.curve()) == ([], [], [])
    (saved_by,) = [buffer.saved_by for buffer in t.buffers if buffer.name == "x"]
    assert saved_by == ("MmBackward0#96 self",)
    assert t.peak() >= t.live_bytes() == kept.untyped_storage().nbytes() + 144
    assert {b.name: b.verdict for b in t.survivors()} == {
        "grad of w": "expected",
        "grad of b": "expected",
        "mul test_tracing.py:" + str(kept_line()): "expected",
    }
    assert "no events were recorded" in repr(lm.draw.timeline(t))


def kept_line():
    """The line of `kept = x * 2` above."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.strip() == "kept = x * 2")
