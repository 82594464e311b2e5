# %% [markdown]
# # 11 · What does it cost to forget?
#
# **Question.** A deep network saves something in every layer, and the last byte is needed until
# backward is through. If memory is short: can an engine keep less, or keep it elsewhere, and still
# find the same gradient? And what is the price?

# %%
import tempfile
from pathlib import Path

import numpy as np
from exercises import check, reveal
from show import attempt, curves, start, table

import lucid_mini as lm

start("11")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# A chain of 36 layers is cut into equal parts. Of each part only the input is kept; when backward
# gets there, the part is computed again. With 1, 2, 4, 6, 9, 18 or 36 parts: where is the peak of
# memory lowest?

# %%
guess = ...  # 1, 2, 4, 6, 9, 18 or 36

# %% [markdown]
# ## The smallest code
#
# First the chain that forgets nothing. `count` says how often a layer is computed: that is the
# price we will pay, and it is the same on every machine, which seconds are not.

# %%
data = np.linspace(-1.0, 1.0, 512 * 32).reshape(512, 32)
weights = [(lm.randn(32, 32) * 0.2).requires_grad_() for _ in range(36)]
count = {"layers run": 0}


def layers(h, some):
    for W in some:
        h = (h @ W).tanh()
        count["layers run"] += 1
    return h


def loss_from(h):
    return (h * h).sum()


def plain():
    return loss_from(layers(lm.tensor(data), weights))


def measure(loss_of):
    """Bytes before backward, peak, layers run; a gradient; the trace."""
    count["layers run"] = 0
    for W in weights:
        W.grad = None
    lm.reset_names()
    with lm.lifetime.trace() as t:
        loss = loss_of()
        before = t.live_bytes()
        loss.backward()
        del loss
    numbers = [f"{before:,}", f"{t.peak():,}", count["layers run"]]
    return numbers, weights[0].grad.numpy(), t


head = ["", "bytes before backward", "peak", "layers run"]
kept, gradient, plain_trace = measure(plain)
table(head, [["plain", *kept]])

# %% [markdown]
# ## Keep it in another form
#
# Between `save_for_backward` and `saved_tensors` you may step in: under `saved_tensors_hooks(pack,
# unpack)` a node keeps what `pack` makes of a tensor, and whoever reads it gets what `unpack` makes
# of that. Hooks that change nothing show when they are called.

# %%
calls = {"pack": 0, "unpack": 0, "bytes": 0}


def pack(tensor):
    calls["pack"] += 1
    calls["bytes"] += tensor.numpy().nbytes
    return tensor


def unpack(kept):
    calls["unpack"] += 1
    return kept


with lm.autograd.saved_tensors_hooks(pack, unpack):
    loss = plain()
print("after forward: ", calls)
loss.backward()
print("after backward:", calls)

# %% [markdown]
# More bytes than are alive: `tanh` saves its output, the next `matmul` the same buffer as its
# argument, and `pack` sees both; it also sees the weights. Now a `pack` that writes a file.

# %%
with tempfile.TemporaryDirectory() as folder:
    counts = {}

    def on_disk():
        with lm.autograd.save_on_disk(folder):
            loss = plain()
        files = list(Path(folder).iterdir())
        counts["files"] = len(files)
        counts["bytes written"] = f"{sum(file.stat().st_size for file in files):,}"
        return loss

    disk, on_disk_gradient, disk_trace = measure(on_disk)
    counts["files after backward"] = len(list(Path(folder).iterdir()))

table(head, [["plain", *kept], ["on disk", *disk]])
print(counts)
print("the same gradient:", np.array_equal(gradient, on_disk_gradient))

# %% [markdown]
# Before backward, memory holds one number, the loss. No layer is computed again; the price is each
# saved tensor written and read once, and a file goes with the node that owned it.
#
# ## Keep nothing, compute again
#
# `checkpoint(fn, *args)` runs `fn` without a record and makes *one* node, which saves the arguments.
# Its rule runs `fn` again, recorded, and walks back through that. Forget the first `k` layers:


# %%
def forgetting(k):
    def loss_of():
        h = lm.checkpoint(layers, lm.tensor(data), weights[:k])
        return loss_from(layers(h, weights[k:]))

    return loss_of


lm.reset_names()
loss = forgetting(34)()
print("nodes:", lm.autograd.stats(loss)["nodes"])
print("plain:", lm.autograd.stats(plain())["nodes"])
rows, same = [["plain", *kept]], []
for k in (9, 18, 27, 36):
    numbers, found, _ = measure(forgetting(k))
    rows.append([f"first {k} forgotten", *numbers])
    same.append(np.array_equal(gradient, found))
table(head, rows)
print("the same gradient:", same)

# %% [markdown]
# The more layers are forgotten, the fewer bytes wait, and the more is computed twice. But the peak?

# %%
lines = {"before backward": [], "peak": []}
for k in range(1, 37):
    numbers, _, _ = measure(forgetting(k))
    for line, text in zip(lines.values(), numbers[:2], strict=True):
        line.append(int(text.replace(",", "")))
best = lines["peak"].index(min(lines["peak"])) + 1
curves(
    lines,
    x="layers computed again",
    y="bytes alive",
    title="Bytes against recomputation",
    caption=f"Peaks: plain {kept[1]} bytes; with {best} layers computed again "
    f"{min(lines['peak']):,}, the lowest; with all of them {lines['peak'][-1]:,}.",
)

# %% [markdown]
# Two fifths of the bytes less, for half of forward again. Beyond that, the peak *rises*: when
# backward gets to the forgotten part, all of it is computed, and all its saved tensors are there at
# once, as if nothing had been forgotten. So forget in several parts.


# %%
def in_parts(parts):
    def loss_of():
        h = lm.tensor(data)
        for some in np.array_split(np.arange(len(weights)), parts):
            h = lm.checkpoint(layers, h, [weights[i] for i in some])
        return loss_from(h)

    return loss_of


rows, peaks = [["plain", *kept]], {}
for parts in (1, 2, 4, 6, 9, 18, 36):
    numbers, _, _ = measure(in_parts(parts))
    rows.append([f"parts: {parts}", *numbers])
    peaks[parts] = int(numbers[1].replace(",", ""))
table(head, rows)
reveal(guess, min(peaks, key=peaks.get))

# %% [markdown]
# Less than half of plain; and every layer runs twice, however it is cut. Waiting: one input for each
# part. At work: the layers of one part. Few parts make the second large, many the first; with $n$
# layers, about $\sqrt n$ parts balance them. The whole story over the clock:

# %%
_, _, parts_trace = measure(in_parts(6))
curves(
    {
        "plain": plain_trace.curve(),
        "6 parts": parts_trace.curve(),
        "on disk": disk_trace.curve(),
    },
    x="event",
    y="bytes alive",
    title="One step, three ways",
    caption=f"Peaks: plain {plain_trace.peak():,}, in 6 parts {parts_trace.peak():,}, "
    f"on disk {disk_trace.peak():,} bytes.",
    steps=True,
    named="top",
)

# %% [markdown]
# Plain is a mountain; in six parts there are six hills, and more events; on disk only the gradients
# of the weights add up.
#
# ## Break it
#
# Computing again is right only if it gives the same. Draw noise from a generator that the engine
# does not know; and take the files away too early.


# %%
def noisy(h):
    return h * lm.tensor(np.random.default_rng().random(h.shape))


with attempt():
    lm.checkpoint(noisy, lm.tensor(data) @ weights[0]).sum().backward()

with tempfile.TemporaryDirectory() as folder, lm.autograd.save_on_disk(folder):
    loss = (lm.tensor(data) @ weights[0]).tanh().sum()
with attempt():
    loss.backward()

# %% [markdown]
# ## Exercises
#
# **11.1** One line. `pack` halves the bytes; write the `unpack` for it. It must return what was
# saved: a tensor, of the same dtype.


# %%
def to_half(tensor):
    return tensor.numpy().astype(np.float32)


def from_half(kept):
    return ...


check("11.1", to_half, from_half)


# %% [markdown]
# **11.2** After a `relu` most numbers are 0. Write `squeeze` and `stretch`: a pack and an unpack that
# keep the other numbers, and where they were, without losing anything.


# %%
def squeeze(tensor):
    return ...


def stretch(kept):
    return ...


check("11.2", squeeze, stretch)


# %% [markdown]
# **11.3** Write `checkpoint` yourself, for a function of one tensor: `Again.apply(fn, x)` saves `x` and
# nothing else, and runs `fn` again in backward. You need `lm.enable_grad`, `detach`,
# `requires_grad_` and `lm.autograd.grad`.


# %%
class Again(lm.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        return ...

    @staticmethod
    def backward(ctx, grad):
        return ...


check("11.3", Again)

# %% [markdown]
# ## One real bug
#
# Mamba's Function asked `if len(ctx.saved_tensors) == 0`, and a few lines below read
# `ctx.saved_tensors` again. Harmless, until checkpointing was switched on: then the first backward
# raised ([mamba#1020](https://github.com/state-spaces/mamba/pull/1020)). That checkpoint is made of
# saved-tensor hooks, and its `unpack` hands a tensor out once. An imitation of such hooks:


# %%
class Twice(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        if len(ctx.saved_tensors) == 0:  # the first reading
            return None
        (x,) = ctx.saved_tensors  # the second
        return 2 * x * grad


class Once(Twice):
    @staticmethod
    def backward(ctx, grad):
        saved = ctx.saved_tensors
        return 2 * saved[0] * grad if saved else None


def backward_of(function):
    shelf = {}

    def put(tensor):
        shelf[len(shelf)] = tensor
        return len(shelf) - 1

    def take(key):
        if key not in shelf:
            raise RuntimeError(f"tensor {key} was unpacked already")
        return shelf.pop(key)

    with lm.autograd.saved_tensors_hooks(put, take):
        loss = function.apply(weights[0]).sum()
    loss.backward()


for function in (Twice, Once):
    print(function.__name__)
    with attempt():
        backward_of(function)

# %% [markdown]
# The repair reads once and keeps a local name. With `lm.autograd.save_on_disk` the double reading
# works, and reads the file twice: `saved_tensors` looks like an attribute and is a call.
#
# ## Recap
#
# - Hooks decide in which form a saved tensor waits: smaller, or on disk, paid in copies.
# - `checkpoint` keeps inputs and computes the rest again, paid in layers run twice.
# - Forget everything at once and nothing is won at the peak; about $\sqrt n$ parts are best.
