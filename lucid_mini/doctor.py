"""doctor: run a script that trains with PyTorch or lucid_mini, and name what it leaks.

When the script is over, its variables are still there. What of a recorded graph is alive then, and
was not asked for by a plain variable, is a leak. RULE says it in full, and is what `--help` shows.
"""

import argparse
import gc
import json
import os
import re
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from . import bridge
from .draw.style import format_bytes, table
from .lifetime import trace
from .lifetime.buffers import Buffer
from .lifetime.holders import PLAIN, STATE, Chain, named_roots
from .lifetime.record import Record
from .lifetime.remedies import remedy_for
from .script import Script, ScriptError, WhenImported, script_at, script_of_module

RULE = (
    "A leak is memory of a recorded graph that is alive after the script's last statement, and "
    "that",
    "- a cycle holds: only the garbage collector would free it;",
    "- C++ holds: no name leads to it, and no collection frees it;",
    "- something hidden holds: a closure cell, a default, an attribute of ctx, a hook, a cache, a "
    "list or an attribute of an object, where what is held has a history;",
    "- a variable holds whose history grows: it reaches back over 3 backward passes or more, or, "
    "where no backward ran, over the same parameter in 2 turns of a loop (PyTorch only).",
    "Not leaks: parameters, buffers, gradients, the state of an optimizer, tensors without history "
    "however they are held, and the last graph behind a plain variable.",
)
ABOUT = (
    "Run a script that uses PyTorch or lucid_mini; name what it leaks, who holds it at which line, "
    "and what to change. The script's own output stays as it is: the report goes to stderr."
)
CODES = (
    "Exit code: 1 for a leak, 2 for a mistake in the command; a script that fails keeps its own."
)
EXAMPLE = """\
example, in a clone of the repository:
  lucid-mini doctor examples/leaking_training.py
  lucid-mini doctor examples/leaking_training.py --fixed"""

#: How graphs hold: an edge of these hides nothing by itself.
_GRAPH = (
    *("grad_fn", "next node", "its leaf", "its AccumulateGrad", "saved ", "packed"),
    *("its Function", "its forward", "its backward", "its setup_context"),
)
_UNNAMED = ("a member", "held by C++")
#: Over how many backward passes a variable's history may reach: two share a graph on purpose.
_PASSES = 3
#: The automatic collector is off while the script runs, so that cycles are there to be seen; above
#: so many bytes a collection is made, and again each time they have doubled.
_CEILING = 256 * 2**20
_TOP = 5


@dataclass
class Leak:
    """One way in which the script leaks, with everything that hangs on it."""

    kind: str
    what: str
    nbytes: int
    buffers: int
    holder: str
    fix: str
    chain: list[str] = field(default_factory=list)


@dataclass
class Diagnosis:
    """What is said about one run."""

    script: str
    leaks: list[Leak]
    #: The largest saved tensors: node, slot, role, line, bytes of the largest, how many.
    saved: list[dict[str, Any]]
    peak_bytes: int
    live_bytes: int
    #: Bytes alive at the end whose holders were not found, so that nothing is said about them.
    unjudged_bytes: int = 0
    #: How the script ended: "" for by itself.
    error: str = ""

    def as_text(self, width: int) -> str:
        """The report, at most `width` columns wide where words can be broken."""
        return "\n".join([*self._head(width), *self._leaks(width), *self._largest(width)])

    def _head(self, width: int) -> list[str]:
        lines = [f"lucid-mini doctor: {self.script}"]
        if self.error:
            lines.append(f"it stopped with {self.error}; this is what was seen up to there")
        many = f"{len(self.leaks)} leak{'' if len(self.leaks) == 1 else 's'}"
        lines.append(many if self.leaks else "nothing leaks")
        lines.append(
            f"memory of tensors: peak {format_bytes(self.peak_bytes)}, at the end "
            f"{format_bytes(self.live_bytes)}"
        )
        if self.unjudged_bytes:
            lines.append(f"not judged: {format_bytes(self.unjudged_bytes)}, holders not found")
        return [line for text in lines for line in textwrap.wrap(text, width)]

    def _leaks(self, width: int) -> list[str]:
        lines = []
        for number, leak in enumerate(self.leaks, 1):
            size = f"{format_bytes(leak.nbytes)} in {leak.buffers} buffer"
            size += "" if leak.buffers == 1 else "s"
            lines.append("")
            for at, text in enumerate(
                (f"{leak.kind}: {size}: {leak.what}", f"held by {leak.holder}", leak.fix)
            ):
                first = f"{number}. " if not at else "   "
                first += "way out: " if at == 2 else ""
                if text:
                    lines += textwrap.wrap(
                        text, width, initial_indent=first, subsequent_indent="     "
                    )
        return lines

    def _largest(self, width: int) -> list[str]:
        if not self.saved:
            return ["", "no op saved a tensor for backward"]
        head = ("bytes", "times", "node", "slot", "role", "line")
        rows = [
            (
                format_bytes(row["nbytes"]),
                str(row["times"]),
                row["node"],
                row["slot"],
                row["role"],
                row["line"],
            )
            for row in self.saved
        ]
        lines = table([head, *rows], ">><<<<")
        if max(map(len, lines)) > width:
            lines = [
                line
                for size, times, *rest in rows
                for line in textwrap.wrap(
                    f"{size}, {times} times: {' '.join(rest)}", width, subsequent_indent="  "
                )
            ]
        return ["", "the largest saved tensors", *lines]


def main(argv: list[str]) -> int:
    """`lucid-mini doctor`: the exit code is 1 for a leak, 2 for a mistake in the command.

    The script's own error or exit code goes through: it is reported up to there.
    """
    options, arguments = _read(argv)
    try:
        script = script_of_module(options.module) if options.module else script_at(options.script)
    except ScriptError as wrong:
        print(f"lucid-mini doctor: {wrong}", file=sys.stderr)
        return 2
    with _stdout_for(options.json) as out:
        diagnosis, error = examine(script, arguments)
        sys.stdout.flush()
    if options.json:
        print(json.dumps(asdict(diagnosis), indent=2, ensure_ascii=False), file=out)
    else:
        print(diagnosis.as_text(_width()), file=sys.stderr)
    return _end(error) or (1 if diagnosis.leaks else 0)


def parser() -> argparse.ArgumentParser:
    """What the command takes before the script's own arguments."""
    width = _width() - 2
    rule = "\n".join(textwrap.fill(line, width, subsequent_indent="  ") for line in RULE)
    made = argparse.ArgumentParser(
        prog="lucid-mini doctor",
        usage="lucid-mini doctor [--json] (SCRIPT | -m MODULE)\n"
        "                         [ARGS ...] [--json]",
        description=textwrap.fill(ABOUT, width),
        epilog=f"{rule}\n\n{textwrap.fill(CODES, width)}\n\n{EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("script", nargs="?", metavar="SCRIPT", help="a file, or a folder to run")
    made.add_argument("-m", dest="module", metavar="MODULE", help="a module, as in python -m")
    made.add_argument(
        "--json",
        action="store_true",
        help="the report as JSON on stdout; what the script prints goes to stderr. Also the last "
        "argument; a last --json that is the script's follows a --",
    )
    return made


def _width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 110)


def _read(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options of the command, and the arguments of the script."""
    at = 0
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-m":
        at += 1
    at += 2 if argv[at : at + 1] == ["-m"] else 1
    head, rest = argv[:at], argv[at:]
    if "--" in rest[:1]:
        rest = rest[1:]
    elif rest[-1:] == ["--json"]:
        head, rest = ["--json", *head], rest[:-1]
    made = parser()
    options = made.parse_args(head)
    if not options.script and not options.module:
        made.error("give a SCRIPT, or -m MODULE")
    return options, rest


@contextmanager
def _stdout_for(as_json: bool) -> Iterator[Any]:
    """Where the report goes; for JSON the script's own stdout goes to stderr meanwhile."""
    if not as_json:
        yield sys.stdout
        return
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # no such file: stdout is an object of Python alone
        kept = -1
    out, sys.stdout = sys.stdout, sys.stderr
    if kept >= 0:
        os.dup2(2, 1)
    try:
        yield out
    finally:
        sys.stdout = out
        if kept >= 0:
            os.dup2(kept, 1)
            os.close(kept)


# ---------------------------------------------------------------- the run


def examine(script: Script, arguments: list[str]) -> tuple[Diagnosis, BaseException | None]:
    """Run `script` under a trace of each library; what is left when it is over, and its error."""
    traces: list[Record] = [trace()]
    automatic = gc.isenabled()
    with script.as_main(arguments) as namespace:
        waiting = WhenImported("torch", lambda: _listen_to_torch(traces))
        gc.collect()
        gc.disable()
        traces[0].__enter__()
        try:
            error = _run(script, namespace)
        finally:
            waiting.stop()
            for each in reversed(traces):
                each.__exit__(None, None, None)
        try:
            return _diagnose(script.name, traces, error), error
        finally:
            if automatic:
                gc.enable()


def _listen_to_torch(traces: list[Record]) -> None:
    listener = bridge.torch.trace(log=False)
    listener.ceiling = _CEILING
    listener.__enter__()
    traces.append(listener)


def _run(script: Script, namespace: dict[str, Any]) -> BaseException | None:
    """Execute the script; the error that stopped it, without the frames of this package."""
    try:
        exec(script.code, namespace)
    except BaseException as error:
        trace = error.__traceback__
        return error.with_traceback(None if trace is None else trace.tb_next)
    return None


def _end(error: BaseException | None) -> int:
    """Say what Python says of the error that ended a script, and give its exit code."""
    if error is None:
        return 0
    if isinstance(error, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
        return 130
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


# ---------------------------------------------------------------- the judgement


def _diagnose(name: str, traces: list[Record], error: BaseException | None) -> Diagnosis:
    leaks: list[Leak] = []
    saved: list[dict[str, Any]] = []
    unjudged = 0
    failed = error is not None and not isinstance(error, SystemExit)
    before = getattr(sys, "last_value", None)
    if failed:
        sys.last_value = error  # where Python puts it: the search finds what its frames hold
    try:
        # All look before the one collection: it would take from under a trace what it looks for.
        looked = [(each, each.look()) for each in traces]
        gc.collect()
        for each, seen in looked:
            survivors = each.judge(seen)
            unjudged += sum(b.nbytes for b in survivors if _is_unknown(b))
            leaks += _leaks_in(each, survivors)
            saved += _saved_in(each)
    finally:
        if failed:
            sys.last_value = before
    leaks.sort(key=lambda leak: -leak.nbytes)
    saved.sort(key=lambda row: -row["nbytes"])
    stopped = f"{type(error).__name__}" if failed else ""
    peak, live = sum(t.peak() for t in traces), sum(t.live_bytes() for t in traces)
    return Diagnosis(name, leaks, saved[:_TOP], peak, live, unjudged, stopped)


def _leaks_in(record: Record, survivors: list[Buffer]) -> list[Leak]:
    """The leaks that one trace saw: what hangs on one holder is one leak."""
    groups: dict[tuple[str, str], list[Buffer]] = {}
    for buffer in survivors:
        judged = _judge(buffer)
        if judged is not None:
            groups.setdefault(judged, []).append(buffer)
    leaks = [
        _leak(kind, holder, buffers)
        for (kind, holder), buffers in groups.items()
        if kind == "hidden" or any(_is_of_graph(b) for b in buffers)
    ]
    return leaks + _collected(record, leaks) + list(_growing(record))


def _judge(buffer: Buffer) -> tuple[str, str] | None:
    """How a survivor leaks and who holds it; None if it does not."""
    chain: Any = buffer.holders[0] if buffer.holders else None
    if buffer.verdict == "expected" or _is_unknown(buffer):
        return None
    if buffer.verdict == "cycle":
        return "cycle", buffer.holder
    if chain is None or chain.hops[0].how in _UNNAMED:
        return "C++", buffer.holder
    hidden = _hides(chain)
    if not hidden or chain.hops[0].how.startswith("sys.last_"):
        return None
    if not _in_graph(chain) and not chain.has_history:
        return None
    return "hidden", re.sub(r"\[\d+\]", "[…]", chain.told(hidden))


def _is_unknown(buffer: Buffer) -> bool:
    """Whether nothing is known of the holder: a search that stopped, or a cycle of frames.

    PyTorch itself leaves one when it loads a part of itself with the first optimizer: an error that
    it catches on the way keeps the frames that called, with their locals, until a collection.
    """
    chain: Any = buffer.holders[0] if buffer.holders else None
    lost = chain is None or not chain.hops
    return lost and (buffer.verdict == "cycle" or (chain is not None and chain.stopped))


def _hides(chain: Chain) -> int:
    """The place of the last hop that hides what it holds, 0 if there is none."""
    hows = [hop.how for hop in chain.hops]
    for at in range(len(hows) - 1, 0, -1):
        if hows[at] == "grad_fn" and hows[at - 1] == ".grad":
            return at - 1  # a gradient with a history
        if hows[at] not in PLAIN and not hows[at].startswith(STATE) and not _is_graph(hows[at]):
            return at
    return 0


def _in_graph(chain: Chain) -> bool:
    return any(_is_graph(hop.how) or hop.how.startswith("ctx ") for hop in chain.hops)


def _is_graph(how: str) -> bool:
    return how == "ctx" or how.startswith(_GRAPH)


def _is_of_graph(buffer: Buffer) -> bool:
    """Whether a recorded op made it, a node still saves it, or its holders stand in a graph."""
    chain: Any = buffer.holders[0] if buffer.holders else None
    if chain is not None and _in_graph(chain):
        return True
    made = "#" in buffer.name and not buffer.name.startswith(("grad of", "constant of"))
    return made or (bool(buffer.saved_by) and buffer.released is None)


def _leak(kind: str, holder: str, buffers: list[Buffer]) -> Leak:
    largest = sorted(buffers, key=lambda b: -b.nbytes)
    names = list(dict.fromkeys(_made(b) for b in largest))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    chains: list[Any] = [b.holders[0] for b in largest if b.holders]
    hops = [] if not chains else [_hop(hop) for hop in chains[0].hops]
    fix = _fix(chains[0]) if chains else ""
    root = chains[0].hops[0].how if chains and kind == "hidden" else ""
    holder += f", from {root}" if root not in holder else ""
    total = sum(b.nbytes for b in buffers)
    return Leak(kind, ", ".join(names[:3]) + more, total, len(buffers), holder, fix, hops)


def _made(buffer: Buffer) -> str:
    """What made a buffer, without its number, and the line."""
    name = re.sub(r"#\d+", "", buffer.name)
    return name if not buffer.where or buffer.where in name else f"{name} ({buffer.where})"


def _hop(hop: Any) -> str:
    by = f"{hop.by}: " if hop.by else ""
    return f"{by}{hop.how} → {hop.what}" + (f" ({hop.where})" if hop.where else "")


def _fix(chain: Chain) -> str:
    """What to change, by the edges of the chain."""
    hows = [hop.how for hop in chain.hops]
    if (".grad", "grad_fn") in zip(hows, hows[1:] + hows[:1], strict=True):
        return "use autograd.grad() in place of backward(create_graph=True), or set x.grad = None"
    if any(how.startswith("packed") for how in hows):
        return "let the pack hook return tensor.detach(), which has no history"
    if "view of" in hows and any(how.startswith("saved") for how in hows):
        return "save the output itself, and take the view in backward"
    at = _hides(chain)
    if hows[at].startswith(("[", "attribute", "slot")):
        return "keep loss.item() or loss.detach(): a tensor with a history keeps its graph"
    return remedy_for(hows[at]) or chain.remedy


def _collected(record: Record, known: list[Leak]) -> list[Leak]:
    """What of graphs the collector freed while the script ran."""
    found = []
    for (name, where), (count, nbytes) in getattr(record, "collected", {}).items():
        what = f"{name} ({where})" if where else name
        like = next((leak for leak in known if leak.kind == "cycle" and what in leak.what), None)
        if like is not None:
            like.buffers += count
            like.nbytes += nbytes
        else:
            holder = "a cycle, which a collection freed on the way"
            fix = "run it for one step: a cycle that is there at the end is told edge by edge"
            found.append(Leak("cycle", what, nbytes, count, holder, fix))
    return found


def _growing(record: Record) -> Iterator[Leak]:
    """Plain variables whose history reaches back over passes, or over turns of a loop."""
    if not hasattr(record, "history_of"):
        return
    for value, hop in named_roots(sys._getframe(), ())[0]:
        history = record.history_of(value)
        if history is None:
            continue
        if history.passes >= _PASSES:
            over = f"{history.passes} backward passes"
            fix = "add loss.item() or loss.detach(): a sum with a history keeps every graph in it"
        elif history.turns > 1:
            over = f"{history.turns} turns of a loop, and no backward ran"
            fix = "compute it under torch.no_grad(), or detach it at the end of each turn"
        else:
            continue
        what = f"a history of {history.nodes} nodes over {over}"
        holder = f"{hop.how}, made at {history.where}" if history.where else hop.how
        yield Leak("growing", what, history.nbytes, history.buffers, holder, fix)


def _saved_in(record: Record) -> list[dict[str, Any]]:
    """The saved tensors of a run, those of one node, slot and line together."""
    rows: dict[tuple[str, str, str, str], list[int]] = getattr(record, "saves", {})
    if not rows:
        for buffer in record.buffers:
            for saved in buffer.saved_by:
                node, _, slot = saved.partition(" ")
                key = (node.partition("#")[0], slot, "", buffer.where)
                entry = rows.setdefault(key, [0, 0])
                entry[:] = max(entry[0], buffer.nbytes), entry[1] + 1
    return [
        {"node": node, "slot": slot, "role": role, "line": line, "nbytes": size, "times": times}
        for (node, slot, role, line), (size, times) in rows.items()
    ]
