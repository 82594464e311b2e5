# %% [markdown]
# # 13 · A real network on real digits: where do its bytes go?
#
# **Question.** A network that reads handwriting has a few thousand numbers to learn. While it learns
# it takes several times their bytes. Can every byte of one training step be named: what is it, why
# is it there, and what would make it go?

# %%
from itertools import pairwise

import numpy as np
from exercises import check, reveal
from show import attempt, curves, stacked, start, table

import lucid_mini as lm
from lucid_mini import data

start("13")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# A training step takes a batch of 64 images, computes a loss, walks back, and changes the
# **parameters** (the numbers that are learned). At the moment when most bytes are alive, which kind
# has the most?

# %%
kinds = "parameters", "parameter gradients", "batch", "activations", "other gradients"
guess = ...  # one of these

# %% [markdown]
# **Activations** are what the ops compute going forward; other gradients are those of activations.
#
# ## The smallest code
#
# 64 pixels in, 64 hidden numbers, 10 scores out, one per digit; the highest score is the answer.
# `cross_entropy` is small if the right digit has a high score.

# %%
pixels, labels = data.load_digits()
train, test = data.split(len(pixels))
p = {
    "W0": (lm.randn(64, 64) * 0.2).requires_grad_(),
    "b0": lm.zeros(64, requires_grad=True),
    "W1": (lm.randn(64, 10) * 0.2).requires_grad_(),
    "b1": lm.zeros(10, requires_grad=True),
}


def scores_of(p, x):
    return (x @ p["W0"] + p["b0"]).relu() @ p["W1"] + p["b1"]


def loss_of(p, rows):
    x = lm.tensor(pixels[rows], dtype=p["W0"].dtype)
    target = lm.tensor(labels[rows])
    return lm.cross_entropy(scores_of(p, x), target)


def update(p):
    with lm.no_grad():
        for parameter in p.values():
            parameter.sub_(0.3 * parameter.grad)
            parameter.grad = None


def step(p, rows):
    loss_of(p, rows).backward()
    update(p)


print(f"{len(train)} images to learn from, {len(test)} to be tested on")
print(f"{sum(w.numel() for w in p.values()):,} parameters")

# %% [markdown]
# Does it learn? Twenty times through all images, in batches, each time in another order. Then count
# the digits that are read wrong.


# %%
def wrong(rows):
    with lm.no_grad():
        answers = scores_of(p, lm.tensor(pixels[rows])).argmax(1)
    return int((answers.numpy() != labels[rows]).sum())


learning = {f"of {len(train)} learned from": [], f"of {len(test)} never seen": []}
for epoch in range(20):
    order = train[np.argsort(np.random.PCG64(epoch).random_raw(len(train)))]
    for first in range(0, len(order), 64):
        step(p, order[first : first + 64])
    for counts, rows in zip(learning.values(), (train, test), strict=True):
        counts.append(wrong(rows))

said = [f"{name}: {c[0]} wrong at first, then {c[-1]}" for name, c in learning.items()]
curves(
    learning,
    x="times through all images",
    y="digits read wrong",
    title="The network learns",
    caption="; ".join(said) + ".",
)

# %% [markdown]
# (Both sets have images by the same people. For handwriting of strangers expect more mistakes.)
#
# It is a real network. Now one more step under a trace (chapter 5).

# %%
batch = train[:64]
lm.reset_names()
with lm.lifetime.trace() as t:
    step(p, batch)
t.title = "One training step on 64 digits"
lm.draw.timeline(t)

# %% [markdown]
# From top to bottom: the batch comes in, activations are made, and of these only what a rule will
# read is saved: the output of `relu`, for itself and for `matmul#4`, and the scores. After the dashed
# line each rule turns one gradient into the next. The update at the end makes one product for each
# parameter (`mul In[…]`: an op without a node bears the number of its cell and line). How many
# bytes is that, together?

# %%
lm.draw.memory(t)

# %% [markdown]
# Retained and needed are one line: this step wastes next to nothing. So what is it made of? Give each
# buffer a kind.


# %%
def kind(b):
    if b.existed:
        return "parameters"
    if b.name in ("x", "target"):
        return "batch"
    if b.is_grad:
        return "parameter gradients"
    if b.name.startswith("grad of"):
        return "other gradients"
    return "activations" if b.allocated < t.boundary else "update"


def alive(event):
    """The buffers alive at an event of the trace."""
    born = [b for b in t.buffers if b.allocated <= event]
    return [b for b in born if b.freed is None or b.freed > event]


def account(event):
    """Bytes alive at an event, by kind."""
    bytes_of = dict.fromkeys([*kinds, "update"], 0)
    for b in alive(event):
        bytes_of[kind(b)] += b.nbytes
    return bytes_of


retained = t.curve()
top = retained.index(max(retained))
at_top = account(top)
new = sum(at_top.values()) - at_top["parameters"]
table(["kind", "bytes at the peak"], [[name, f"{n:,}"] for name, n in at_top.items()])
print(f"without the parameters, which were there before: {new:,}")
print(f"t.peak(): {t.peak():,}")
reveal(guess, max(at_top, key=at_top.get))

# %% [markdown]
# Every byte is accounted for: the sum is the peak that was measured. The most lies in gradients that
# nobody will ever look at. Which ones?

# %%
rows = []
for b in alive(top):
    if not b.existed:  # no parameter
        rows.append([b.name, kind(b), f"{b.nbytes:,}", ", ".join(b.saved_by)])
table(["alive at the peak", "kind", "bytes", "saved by"], rows)

# %% [markdown]
# It is the moment when the rule of `relu` has read the gradient that arrives and has made the one it
# sends, while its saved output and the batch, which `matmul#1` has saved, are there too. And at
# other moments?

# %%
over_time = [account(event) for event in range(len(retained))]
for accounted, measured in zip(over_time, retained, strict=True):
    assert sum(accounted.values()) - accounted["parameters"] == measured
in_order = "batch", "activations", "other gradients", "parameter gradients", "update"
areas = {name: [a[name] for a in over_time] for name in in_order}
said = [f"{name}: at most {max(counts):,} bytes" for name, counts in areas.items()]
stacked(
    areas,
    x="event",
    y="bytes alive",
    title="One training step, by kind",
    caption="; ".join(said) + ".",
    beside={"other gradients": (27, 88_000), "parameter gradients": (98, 50_000)},
)

# %% [markdown]
# The upper edge is the curve of before, now filled: one kind hands over to the next. (The `assert`
# says that the kinds add up at *every* event.) Which of them grow with the batch?


# %%
def measure(run):
    """The peak of `run()`, and what is alive while its result is."""
    with lm.lifetime.trace() as trace:
        result = run()
        left = trace.live_bytes()
    del result
    return f"{trace.peak():,}", f"{left:,}"


sizes = {n: measure(lambda n=n: step(p, train[:n])) for n in (16, 32, 64, 128, 256)}
table(["batch", "bytes at the peak"], [[n, peak] for n, (peak, _) in sizes.items()])

# %% [markdown]
# Twice the batch, twice the bytes, from 64 images on. For fewer the peak lies in the update: the
# gradients of all parameters, and the product for the largest, whatever the batch. What else makes
# a step smaller? No backward at all; or numbers of half the size.


# %%
def unrecorded():
    with lm.no_grad():
        return loss_of(p, batch)


small = {name: w.detach().to(np.float32).requires_grad_() for name, w in p.items()}
rows = [
    ["a step", *measure(lambda: step(p, batch))],
    ["forward, recorded", *measure(lambda: loss_of(p, batch))],
    ["forward under no_grad", *measure(unrecorded)],
    ["a step in float32", *measure(lambda: step(small, batch))],
]
table(["what runs", "bytes at the peak", "left"], rows)

# %% [markdown]
# Recorded or not, forward has the same peak here, for one hidden layer is all there is to hold. The
# difference is what is *left*: the loss owns its saved tensors, and every further layer would add
# some. Chapter 11 takes a deep network and asks what it costs to keep fewer.
#
# ## Break it
#
# Two losses are computed, then the first is learned from, then the second.


# %%
def two_losses():
    first, second = loss_of(p, train[:64]), loss_of(p, train[64:128])
    first.backward()
    update(p)
    second.backward()


with attempt():
    two_losses()

# %% [markdown]
# `W1` is one of the saved tensors, and the update wrote into it. A gradient from the new `W1` and the
# old activations would belong to no network at all.
#
# ## Exercises
#
# **13.1** One line: how many bytes has this network saved after forward, for a batch of `n` images?
# Count `W1` too, as `lm.lifetime.saved(loss).nbytes` does. A label has 8 bytes.


# %%
def saved_bytes(n):
    return ...


check("13.1", saved_bytes)

# %% [markdown]
# **13.2** Write `count_right(scores_of, pixels, labels, size)`: how many digits are read right, as a
# Python number. `scores_of(x)` gives scores for a tensor `x`. Hand it at most `size` images at once,
# and let nothing be saved.


# %%
def count_right(scores_of, pixels, labels, size):
    return ...


check("13.2", count_right)

# %% [markdown]
# **13.3** A batch is too large for memory. Write `accumulate(loss_of, rows, parts)`: split `rows` in
# `parts` nearly equal parts (`np.array_split`), call backward for each, so that the gradients that
# gather in `.grad` are those of `loss_of(rows)`, the mean over all rows. Return this mean as a Python
# number. Peak: as for one part.


# %%
def accumulate(loss_of, rows, parts):
    return ...


check("13.3", accumulate)

# %% [markdown]
# ## One real bug
#
# Somebody split each batch to save memory, as in 13.3. Memory rose after the first part, and stayed
# there; with the loop body in a function it rose less
# ([pytorch#1253](https://github.com/pytorch/pytorch/issues/1253)). Ours, both ways, with backward and
# without it (a loss that is only looked at, recorded by mistake):


# %%
def inline(parts, learn, note):
    for rows in parts:
        loss = loss_of(p, rows)
        if learn:
            loss.backward()
        note()


def in_function(parts, learn, note):
    def body(rows):
        loss = loss_of(p, rows)
        if learn:
            loss.backward()

    for rows in parts:
        body(rows)
        note()


def peaks(loop, learn):
    """The peak of each iteration."""
    ends = [0]
    with lm.lifetime.trace() as trace:
        loop(np.split(train[:256], 4), learn, lambda: ends.append(len(trace.events)))
    for parameter in p.values():
        parameter.grad = None
    curve = trace.curve()
    return [f"{max(curve[a:b]):,}" for a, b in pairwise(ends)]


rows = [
    ["inline, backward", *peaks(inline, True)],
    ["in a function, backward", *peaks(in_function, True)],
    ["inline, no backward", *peaks(inline, False)],
    ["in a function, no backward", *peaks(in_function, False)],
]
table(["loop body", "part 1", "part 2", "part 3", "part 4"], rows)

# %% [markdown]
# Two reasons for the same picture. With backward, part 2 finds the gradients of part 1 in `.grad`:
# as many bytes as all parameters have. Without it, the loop variable `loss` owns the graph of one part
# until the next is complete, as a maintainer suspected in
# [pytorch#4890](https://github.com/pytorch/pytorch/issues/4890). A function lets go when it ends.
#
# ## Recap
#
# - Parameters are the smaller part of a step; the larger grows with the batch.
# - The peak lies in backward: saved activations, and two gradients of the widest layer.
# - A step as a function ends with all its names; a loop body hands its names to the next iteration.
