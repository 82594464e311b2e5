# %% [markdown]
# # 7 · Why does memory grow in my loop?
#
# **Question.** Every iteration does what the one before did. Still memory grows, until the program
# is stopped, and no line looks as if it kept something. Which line keeps what, how many bytes each
# time, and what is the smallest change that ends it?

# %%
import numpy as np
from exercises import check, reveal
from show import attempt, curves, start, table

import lucid_mini as lm

start("07")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# A loop computes 100 losses and adds them up: `total = total + loss`. One loss is one number of 8
# bytes. How many times as much memory is in use after iteration 100 as after iteration 1?

# %%
guess = ...  # about 1, 2, 10 or 100

# %% [markdown]
# ## The smallest code
#
# First the loop without a sum. Each loop below is a function that calls `note()` at the end of every
# iteration; a trace (chapter 5) says how many bytes are alive at that moment.

# %%
data = np.linspace(-1.0, 1.0, 64 * 32).reshape(64, 32)
W = (lm.randn(32, 32) * 0.2).requires_grad_()


def loss_of(W):
    return ((lm.tensor(data) @ W).tanh() ** 2).sum()


def plain(n, note):
    for _ in range(n):
        loss = loss_of(W)
        note()
    print(f"the last loss: {loss.item():.4f}")


def alive(loop, n=100):
    """The bytes alive at the end of each iteration."""
    W.grad = None
    lm.reset_names()
    counts = []
    with lm.lifetime.trace() as t:
        loop(n, lambda: counts.append(t.live_bytes()))
    return counts


def report(**loops):
    rows = [
        [name, *(f"{c[i - 1]:,}" for i in (1, 10, 100))] for name, c in loops.items()
    ]
    table(["bytes alive at iteration", "1", "10", "100"], rows)


flat = alive(plain)
report(plain=flat)

# %% [markdown]
# Flat: a new `loss` takes the place of the old one, the old one goes, and with it its node, its ctx,
# and what that had saved. (What is alive are the two saved buffers of *one* loss, and its value.)
# Now one line more.


# %%
def summed(n, note):
    total = 0.0
    for _ in range(n):
        loss = loss_of(W)
        total = total + loss
        note()
    print("total:", total)
    print("its graph:", lm.autograd.stats(total)["nodes"], "nodes")


staircase = alive(summed)
report(plain=flat, summed=staircase)
reveal(guess, round(staircase[-1] / staircase[0]))

# %% [markdown]
# The sum of 100 losses is one number, with a `grad_fn`. Its node owns an edge to the node of the
# 100th loss and one to the sum before, which owns an edge to the 99th … Nothing is lost or
# forgotten: you could still call `total.backward()`. The graph cannot know that you will not. Memory
# that is held and that nobody will use is a **leak**.


# %%
def every_event(loop, n=8):
    lm.reset_names()
    with lm.lifetime.trace() as t:
        loop(n, lambda: None)
    return t.curve()


def sum_quietly(n, note):
    total = 0.0
    for _ in range(n):
        total = total + loss_of(W)


def drop_quietly(n, note):
    for _ in range(n):
        loss_of(W)


stairs, level = every_event(sum_quietly), every_event(drop_quietly)
events = min(len(stairs), len(level))
curves(
    {"total = total + loss": stairs[:events], "no sum": level[:events]},
    x="event",
    y="bytes alive",
    title="Bytes alive during 8 iterations",
    caption=f"At the highest: {max(stairs[:events]):,} bytes, against {max(level):,}.",
    steps=True,
)

# %% [markdown]
# Each step of the staircase is one loss that stays; the teeth on it are the arrays that come and go
# within an iteration, the same in both.
#
# How do you find the line, in a program of your own? Trace a few iterations, and ask who holds one
# of the buffers that should have gone.


# %%
def two_iterations():
    total = 0.0
    with lm.lifetime.trace() as t:
        for _ in range(2):
            total = total + loss_of(W)
    first = next(b for b in t.buffers if b.name.startswith("tanh"))
    return lm.lifetime.why_alive(first.name)


lm.reset_names()
chain = two_iterations()
table(["of", "how", "leads to"], [[h.by or "", h.how, h.what] for h in chain.hops])
print("way out:", chain.remedy)

# %% [markdown]
# ## The smallest changes
#
# You want the number, not its history. Three ways to say so, and one that does not help.


# %%
def item(n, note):
    total = 0.0
    for _ in range(n):
        total = total + loss_of(W).item()  # a Python number
        note()


def detach(n, note):
    total = 0.0
    for _ in range(n):
        total = total + loss_of(W).detach()  # the same value, no grad_fn
        note()


def no_grad(n, note):
    total = 0.0
    with lm.no_grad():  # no nodes at all
        for _ in range(n):
            total = total + loss_of(W)
            note()


def delete(n, note):
    total = 0.0
    for _ in range(n):
        loss = loss_of(W)
        total = total + loss
        del loss
        note()


report(
    summed=staircase,
    item=alive(item),
    detach=alive(detach),
    no_grad=alive(no_grad),
    delete=alive(delete),
)

# %% [markdown]
# `del loss` takes away a name. The graph of `total` holds the nodes, not the names. `no_grad` is the
# best of the three where nobody will call backward: saved tensors are never saved. A list does
# what a sum does:


# %%
def listed(n, note):
    history = []
    for _ in range(n):
        history.append(loss_of(W))
        note()


def listed_items(n, note):
    history = []
    for _ in range(n):
        history.append(loss_of(W).item())
        note()


report(listed=alive(listed), listed_items=alive(listed_items))

# %% [markdown]
# But in training backward *is* called, and it releases what was saved (chapter 6). Is the sum
# harmless then?


# %%
def trained(n, note):
    total = 0.0
    nodes = []
    for _ in range(n):
        loss = loss_of(W)
        loss.backward()
        W.grad = None
        total = total + loss
        nodes.append(lm.autograd.stats(total)["nodes"])
        note()
    print("nodes at iteration 1, 10, 100:", nodes[0], nodes[9], nodes[99])


report(trained=alive(trained))

# %% [markdown]
# Flat in bytes, and not in nodes: small objects that nobody will use again. Slower growth, with the
# same repair. One pattern is left: a state that goes from one iteration into the next.


# %%
def kept_state(n, note):
    state = lm.zeros(64, 32)
    for _ in range(n):
        state = (lm.tensor(data) + state @ W).tanh()
        (state * state).sum().backward(retain_graph=True)
        note()


def cut_state(n, note):
    state = lm.zeros(64, 32)
    for _ in range(n):
        state = (lm.tensor(data) + state.detach() @ W).tanh()
        (state * state).sum().backward()
        note()


report(kept_state=alive(kept_state), cut_state=alive(cut_state))

# %% [markdown]
# With `retain_graph=True`, iteration 100 walks back through all 100. `detach` cuts the path at the
# border of an iteration; the gradient then stops there, too, and that is a decision, not a repair
# without a price.
#
# ## Break it
#
# Why did anybody write `retain_graph=True` in there? Leave it out, and cut nothing.


# %%
def uncut(n, note):
    state = lm.zeros(64, 32)
    for iteration in range(1, n + 1):
        state = (lm.tensor(data) + state @ W).tanh()
        (state * state).sum().backward()
        print("iteration", iteration, "done")


with attempt():
    alive(uncut)

# %% [markdown]
# The first thing the message offers is to keep. In a loop, ask first where to cut.
#
# ## Exercises
#
# **7.1** One line. What to append to a history of losses, instead of `loss`?


# %%
def keep(loss):
    return ...


check("7.1", keep)


# %% [markdown]
# **7.2** A **batch** is the rows of data that one step looks at. Write `mean_loss(loss_of, batches)`:
# the mean of `loss_of(batch)` over a list of batches, as a Python number. It is for a test: nobody will
# call backward. Alive at any time: what one batch needs, and no saved tensor.


# %%
def mean_loss(loss_of, batches):
    return ...


check("7.2", mean_loss)


# %% [markdown]
# **7.3** Train with a state. In each of `n` iterations: `state = (x + state @ W).tanh()`, starting
# with `lm.zeros(*x.shape)`; the loss is `(state * state).mean()`; the gradient stops at the border of the
# iteration; then `W -= 0.1 * W.grad` without a record, and `W.grad = None`. Return the list of losses
# as numbers. Memory must be flat.


# %%
def train(W, x, n):
    return ...


check("7.3", train)

# %% [markdown]
# ## One real bug
#
# `running_loss += loss`: somebody saw memory grow until the graphics card was full, and asked why a
# graph is kept on which backward will never be called
# ([pytorch#17568](https://github.com/pytorch/pytorch/issues/17568)). That is `summed`, above. In the
# library DGL memory grew although backward *was* called: its Functions kept their values in an
# attribute, `ctx.backward_cache`, which no engine releases
# ([dgl#643](https://github.com/dmlc/dgl/pull/643)). Such a line, in the loop `trained`:


# %%
class Square(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.backward_cache = (x,)  # not released
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.backward_cache
        return 2 * x * grad


class Saved(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def trained_with(function):
    def loop(n, note):
        total = 0.0
        for _ in range(n):
            loss = function.apply(lm.tensor(data) @ W).sum()
            loss.backward()
            W.grad = None
            total = total + loss
            note()

    return loop


with attempt():
    cached = alive(trained_with(Square))
report(backward_cache=cached, save_for_backward=alive(trained_with(Saved)))

# %% [markdown]
# The first repair set the attribute to `None` at the end of `backward`. Then `retain_graph=True`
# failed, for the second pass found `None`
# ([#1046](https://github.com/dmlc/dgl/issues/1046)). The second one saved the tensors with
# `save_for_backward` ([#1060](https://github.com/dmlc/dgl/pull/1060)): releasing is the engine's
# business, since only it knows whether to retain.
#
# ## Recap
#
# - A tensor with a `grad_fn` owns its whole history; to keep the number, keep the number.
# - `.item()` or `.detach()` for what you log, `no_grad` where no backward follows, `detach` for a state.
# - Print the bytes at iterations 1, 10 and 100: a leak is a staircase.
