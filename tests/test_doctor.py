"""The command `lucid-mini doctor`: what it calls a leak, what not, and how it runs a script."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lucid_mini import cli, doctor
from lucid_mini.lifetime import holders
from lucid_mini.script import script_at

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent


@pytest.fixture(autouse=True)
def the_other_tests_are_no_modules_of_the_script(monkeypatch):
    """Thousands of objects are reachable from them, and where a search stops nothing is judged."""
    every = holders.user_modules
    monkeypatch.setattr(
        holders, "user_modules", lambda: [m for m in every() if "test_" not in m.__name__]
    )


@pytest.fixture
def write(tmp_path):
    def script(text, name="script.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return script


def leaks_of(path, *arguments):
    diagnosis, error = doctor.examine(script_at(path), list(arguments))
    assert error is None
    return diagnosis.leaks


# ---------------------------------------------------------------- lucid_mini scripts

LUCID = """
import warnings
import lucid_mini as lm
warnings.simplefilter("ignore")
"""


def test_a_lucid_mini_script_that_captures_is_named_with_line_and_way_out(write):
    path = write(
        LUCID
        + """
def make(z):
    def forward(ctx, x):
        return lm.relu(x)
    def backward(ctx, grad):
        return grad * (z > 0)
    return lm.autograd.autograd_function(forward, backward, "relu")

def step():
    z = lm.ones(1000, requires_grad=True) * 2
    relu = make(z)
    relu(z).sum().backward()
    return relu

kept = step()
"""
    )
    (leak,) = leaks_of(path)
    assert (leak.kind, leak.buffers) == ("hidden", 1)
    assert leak.holder == "relu.backward, closure cell 'z' (script.py:9), from global 'kept'"
    assert "save_for_backward" in leak.fix
    assert leak.nbytes == 8000


def test_a_lucid_mini_cycle_and_a_list_of_losses_are_named(write):
    path = write(
        LUCID
        + """
class Keeps(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x * 2
        return ctx.y
    @staticmethod
    def backward(ctx, grad):
        return grad * 2

x = lm.ones(1000, requires_grad=True)
losses = []
for _ in range(2):
    loss = Keeps.apply(x).sum()
    loss.backward()
    losses.append(loss)
"""
    )
    found = {leak.kind for leak in leaks_of(path)}
    assert found == {"hidden"}
    Path(path).write_text(Path(path).read_text().replace("losses.append(loss)", "del loss"))
    (cycle,) = leaks_of(path)
    assert cycle.kind == "cycle"
    assert "ctx attribute 'y'" in cycle.holder


def test_a_clean_lucid_mini_script_leaks_nothing_and_shows_its_largest_saved(write):
    path = write(
        LUCID
        + """
x = lm.ones(1000, requires_grad=True)
for _ in range(3):
    loss = (x.exp() * x).sum()
    loss.backward()
    x.grad = None
"""
    )
    diagnosis, _ = doctor.examine(script_at(path), [])
    assert diagnosis.leaks == []
    assert diagnosis.saved[0]["nbytes"] == 8000
    assert diagnosis.saved[0]["times"] == 3


# ---------------------------------------------------------------- PyTorch scripts


@pytest.fixture
def torch_script(write):
    pytest.importorskip("torch", reason="these scripts use PyTorch")

    def script(text):
        return write(
            f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import torch
import torch_programs as programs
{textwrap.dedent(text)}
"""
        )

    return script


def named(kind):
    try:
        import torch_programs
    except ImportError:
        return []
    return sorted((f.__name__, how) for f, how in getattr(torch_programs, kind).items())


@pytest.mark.parametrize(("program", "how"), named("NAMED"))
def test_what_a_name_leads_to_and_something_hides_is_a_leak(torch_script, program, how):
    leaks = leaks_of(torch_script(f"kept = programs.{program}()"))
    assert {leak.kind for leak in leaks} == {"hidden"}
    how = how.replace("[0]", "[…]")
    assert any(how in leak.holder and "global 'kept'" in leak.holder for leak in leaks)
    assert all(leak.fix for leak in leaks)


@pytest.mark.parametrize(("program", "how"), named("CYCLES"))
def test_what_only_the_collector_frees_is_a_leak(torch_script, program, how):
    leaks = leaks_of(torch_script(f"programs.{program}()"))
    assert {leak.kind for leak in leaks} == {"cycle"}
    assert all(leak.holder.startswith("a cycle: ") for leak in leaks)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize(("program", "how"), named("PERMANENT"))
def test_what_nothing_frees_is_a_leak(torch_script, program, how):
    leaks = leaks_of(torch_script(f"programs.{program}()"))
    assert {leak.kind for leak in leaks} == {"C++"}
    assert any(how in leak.holder for leak in leaks)
    assert all("no collection frees it" in leak.holder for leak in leaks)


CLEAN = """
mlp_with_adam custom_function checkpointed retained_then_released inference rnn_with_detach in_place
hooks_removed double_backward loader_loop
"""


@pytest.mark.parametrize("program", CLEAN.split())
def test_a_clean_script_leaks_nothing(torch_script, program):
    assert leaks_of(torch_script(f"kept = programs.{program}()")) == []


def test_a_clean_script_leaks_nothing_in_a_fresh_python_either(torch_script):
    text = """
def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    loss = model(torch.ones(3, 4)).sum()
    loss.backward()
    optimizer.step()

main()
"""
    path = torch_script(text)
    Path(path).write_text(Path(path).read_text().replace("import torch_programs as programs", ""))
    done = run(path)
    assert "nothing leaks" in done.stderr
    assert done.returncode == 0


SUM = """
model, data = torch.nn.Linear(4, 1), torch.ones(5, 4)
total = 0
for _ in range(4):
    loss = model(data).pow(2).mean()
    {first}
    total {second}
"""


def test_a_sum_of_losses_that_keeps_every_graph_is_a_leak(torch_script):
    (leak,) = leaks_of(torch_script(SUM.format(first="loss.backward()", second="+= loss")))
    assert leak.kind == "growing"
    assert leak.what == "a history of 20 nodes over 4 backward passes"
    assert leak.holder == "global 'total', made at script.py:12"
    assert "loss.item()" in leak.fix


def test_a_sum_of_losses_that_no_backward_saw_is_a_leak_with_its_bytes(torch_script):
    (leak,) = leaks_of(torch_script(SUM.format(first="pass", second="+= loss")))
    assert leak.kind == "growing"
    assert "over 4 turns of a loop, and no backward ran" in leak.what
    assert leak.nbytes > 0
    assert "no_grad" in leak.fix


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("loss.backward()", "+= loss.item()"),
        ("loss.backward()", "+= loss.detach()"),
        ("loss.backward()", "= loss"),  # the last graph behind a plain variable
        ("pass", "= loss"),
    ],
)
def test_the_last_loss_and_a_sum_of_numbers_are_none(torch_script, first, second):
    assert leaks_of(torch_script(SUM.format(first=first, second=second))) == []


def test_a_network_that_unrolls_itself_does_not_grow(torch_script):
    path = torch_script(
        """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.RNNCell(4, 4)

    def forward(self, x):
        h = torch.zeros(1, 4)
        for step in x:
            h = self.cell(step, h)
            h = h * 2
        return h

out = Net()(torch.ones(6, 1, 4))
"""
    )
    assert leaks_of(path) == []


def test_parameters_in_a_cycle_of_plain_objects_are_no_leak(torch_script):
    path = torch_script(
        """
def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.weight.friends = [model.weight, optimizer]
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()

main()
"""
    )
    assert leaks_of(path) == []


def test_what_a_collection_of_the_script_freed_is_told(torch_script):
    path = torch_script(
        "import gc\nfor _ in range(3):\n    programs.ctx_output()\n    gc.collect()"
    )
    leaks = leaks_of(path)
    assert {leak.kind for leak in leaks} == {"cycle"}
    assert any(leak.buffers == 3 and "KeepingBackward out" in leak.what for leak in leaks)


def test_a_script_that_fails_is_judged_up_to_there_and_not_for_what_it_worked_on(torch_script):
    path = torch_script(
        """
def step():
    loss = programs.grown().sum()
    raise ValueError("it broke")

programs.own_hook()
step()
"""
    )
    done = run(path)  # apart: a search for what no name leads to goes through the whole test run
    said = done.stderr
    assert done.returncode == 1
    assert "it stopped with ValueError" in said
    assert "1 leak\n" in said
    assert "closure cell 'y'" in said
    trace = said[said.index("Traceback") :]
    assert "ValueError: it broke" in trace
    assert "lucid_mini" not in trace


def test_the_example_leaks_twice_and_its_repair_not_at_all():
    pytest.importorskip("torch", reason="the example uses PyTorch")
    example = str(ROOT / "examples" / "leaking_training.py")
    done = run(example)
    said = done.stderr
    assert done.returncode == 1
    assert done.stdout.startswith("epoch 1: ")
    assert "2 leaks" in said
    assert "CapturingRelu.backward, closure cell 'z' (leaking_training.py:51)" in said
    assert "global 'losses'[…]" in said
    done = run(example, "--fixed")
    assert done.returncode == 0
    assert "nothing leaks" in done.stderr


# ---------------------------------------------------------------- the command


def run(*arguments, cwd=None, columns="100"):
    return subprocess.run(
        [sys.executable, "-m", "lucid_mini", "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "COLUMNS": columns},
    )


def test_a_script_runs_as_python_runs_it_and_keeps_its_stdout(write, tmp_path):
    write("value = 'from beside'", "beside.py")
    path = write(
        """
import sys, beside
print(__name__, sys.argv[1:], beside.value, sys.path[0] == __file__.rpartition("/")[0])
print(sys.modules["__main__"].beside is beside)
"""
    )
    done = run(path, "--lr", "1", "--json-like", cwd="/")
    assert done.stdout == "__main__ ['--lr', '1', '--json-like'] from beside True\nTrue\n"
    assert "nothing leaks" in done.stderr
    assert done.returncode == 0


def test_a_module_runs_as_with_python_m(write, tmp_path):
    (tmp_path / "pack").mkdir()
    write("", "pack/__init__.py")
    write("import sys; from . import other; print(other.x, sys.argv[1:])", "pack/__main__.py")
    write("x = 3", "pack/other.py")
    done = run("-m", "pack", "a", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("3 ['a']\n", 0)


def test_json_goes_to_stdout_and_what_the_script_prints_to_stderr(write):
    path = write("import os\nprint('hello', flush=True)\nos.system('echo from a child')")
    for arguments in (["--json", path], [path, "--json"]):
        done = run(*arguments)
        report = json.loads(done.stdout)
        assert report["leaks"] == []
        assert report["script"] == path
        assert {"saved", "peak_bytes", "live_bytes", "error"} <= set(report)
        assert "hello" in done.stderr


def test_after_two_dashes_everything_is_the_scripts(write):
    path = write("import sys; print(sys.argv[1:])")
    assert run(path, "--", "x", "--json").stdout == "['x', '--json']\n"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('sorry')", 1, "sorry"),
        ("import sys; sys.exit()", 0, "nothing leaks"),
        ("raise KeyboardInterrupt", 130, "stopped"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_the_scripts_own_exit_code_goes_through(write, text, code, said):
    done = run(write(text))
    assert done.returncode == code
    assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such.py"], "cannot read no_such.py: No such file"),
        (["-m", "no_such_module"], "there is no module no_such_module"),
        ([], "give a SCRIPT"),
        (["--speed", "x.py"], "--speed"),
    ],
)
def test_a_mistake_in_the_command_is_one_sentence_and_2(arguments, said):
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_python_is_told_with_its_line(write):
    done = run(write("x = 1\nif\n"))
    assert done.returncode == 2
    assert "is no Python, line 2" in done.stderr


@pytest.mark.parametrize("columns", ["60", "100"])
def test_help_and_report_fit_the_terminal(write, columns):
    shown = run("--help", columns=columns)
    assert shown.returncode == 0
    assert "Not leaks" in shown.stdout
    assert "lucid-mini doctor examples/leaking_training.py" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= int(columns)
    assert "\x1b" not in shown.stdout
    path = write(LUCID + "x = lm.ones(10, requires_grad=True)\n(x.exp() * x).sum().backward()\n")
    said = run(Path(path).name, cwd=Path(path).parent, columns=columns).stderr
    assert max(map(len, said.splitlines())) <= int(columns)


def test_the_list_of_commands_has_it(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    assert "doctor" in capsys.readouterr().out
