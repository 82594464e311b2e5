"""The example that trains on several processes: what it prints, how it ends, what an error does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = EXAMPLES / "digits_distributed.py"

needs_processes = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this build of PyTorch has no gloo, with which processes talk to each other",
)
pytestmark = needs_processes


def run(*command):
    """A program in a process of its own; none of the processes it starts outlives the test."""
    path = os.pathsep.join([str(EXAMPLES), str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )


TOLD = """\
2 processes, 32 of 64 digits of each batch in every one
88 gradients compared with one process alone: all within 1e-12
parameters after 2 epochs: the same in 2 of 2 processes
test digits read right: at least 80 of 100
"""


def test_two_processes_find_the_gradients_of_one():
    result = run(SCRIPT, "--epochs", 2)
    assert result.returncode == 0, result.stderr
    assert result.stdout == TOLD


def test_the_same_script_runs_under_torchrun():
    result = run("-m", "torch.distributed.run", "--nproc-per-node", 2, SCRIPT, "--epochs", 2)
    assert result.returncode == 0, result.stderr
    assert result.stdout == TOLD


def test_an_error_in_one_process_ends_all_and_reaches_the_exit_code(tmp_path):
    script = tmp_path / "broken.py"
    script.write_text(
        "import torch.distributed as dist\n"
        "from digits_distributed import start\n"
        "def work():\n"
        "    if dist.get_rank() == 1:\n"
        "        raise KeyError('a mistake in process 1')\n"
        "    dist.barrier()\n"  # waits for the other, which never comes
        "if __name__ == '__main__':\n"
        "    start(work, 2)\n"
    )
    result = run(script)
    assert result.returncode == 1
    assert "process 1 failed:" in result.stderr
    assert "KeyError: 'a mistake in process 1'" in result.stderr
