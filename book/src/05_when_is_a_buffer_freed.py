# %% [markdown]
# # 5 · When is a buffer born, saved, used for the last time, freed?
#
# **Question.** A training step computes how bad a result is, the **loss**, and its gradient. It makes
# arrays and lets go of them, and you asked for neither. For each: which line made it, who saved it,
# who read it last, who freed it? And is any held longer than it is needed?

# %%
import numpy as np
from exercises import check, reveal
from show import attempt, curves, start, table

import lucid_mini as lm

start("05")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# The step below makes, going forward, four arrays: `x`, `x @ W`, its `tanh`, and the squares. Each
# has 16 KiB. Two of them are gone before backward begins. Which two stay?

# %%
guess = ...  # two of {"x", "matmul", "tanh", "mul"}

# %% [markdown]
# ## The smallest code
#
# A **buffer** is one array that owns its bytes. A **trace** writes down what happens to every
# buffer. It notes names and numbers only, so it keeps nothing alive.

# %%
data = np.linspace(-1.0, 1.0, 64 * 32).reshape(64, 32)
W = (lm.randn(32, 32) * 0.2).requires_grad_()


def train_step(W):
    x = lm.tensor(data)
    h = (x @ W).tanh()
    loss = (h * h).sum()
    loss.backward()


with lm.lifetime.trace() as t:
    train_step(W)
print(t)

# %% [markdown]
# The step runs inside a *function*, so that its variables end with it. What is an event? Follow one
# buffer, the output of `tanh`.

# %%
rows = [[e.step, e.kind, e.node] for e in t.events if e.buffer == "tanh#2"]
table(["step", "what happens to tanh#2", "at work"], rows)

# %% [markdown]
# `step` is the **clock**: it counts events, not seconds, so every run shows the same. The buffer was
# *born* (`alloc`), *saved* by `tanh` and by `mul`, *used* in forward, *unpacked* by both rules in
# backward, *released* by both, and *freed* once the last name that led to it, the variable `h`, was
# gone. Python frees an array at the very moment when nothing refers to it any more.
#
# Now all buffers at once.

# %%
t.title = "One training step"
lm.draw.timeline(t)

# %% [markdown]
# One row per buffer. Dark blue: in use. Light blue with stripes: saved, waiting for backward.
# Orange: **drag**, alive after its last use. A triangle marks the last use, a circle the end. Up to
# the dashed line the step goes forward, and what is wanted later piles up; after it each node takes
# its saved tensors, uses them and lets go. `x @ W` and the squares die early: `tanh` kept its
# output, not its input, and a sum keeps nothing. `W` is in no row, for `x` wants no gradient:
# nobody saved `W`. Why three gradients of `tanh#2`? `h * h` sends one for each factor, and the
# third is their sum. And `sum#4`, the loss? Nothing reads its value; backward starts with 1.

# %%
rows = [b for b in t.buffers if b.nbytes == 16384 and b.allocated < t.boundary]
reveal(guess, {b.name.split("#")[0] for b in rows if b.freed > t.boundary})

# %% [markdown]
# How many bytes is that at each moment, and would fewer have done?

# %%
lm.draw.memory(t)

# %% [markdown]
# Black is what was there: **retained**. Dashed is what this program **needed**, if every buffer
# died at its last use. Dotted is what the algorithm needs, from what forward read, what was saved and
# the gradients; the two part where a rule reads what nobody saved (chapter 8). The peak lies in
# backward, where saved tensors and new gradients meet. Could the same step be worse? Give the results
# on the way names.


# %%
def careless_step(W, data):
    x = lm.tensor(data)
    z = x @ W
    h = z.tanh()
    squares = h * h
    loss = squares.sum()
    loss.backward()
    return loss.item()


W.grad = None
lm.reset_names()
with lm.lifetime.trace() as careless:
    careless_step(W, data)
careless.title = "The same step, with a name for everything"
lm.draw.timeline(careless)

# %% [markdown]
# Nothing new is computed. But `z` and `squares` are variables now, and a variable holds its array
# until the function ends. (So did `h`, in the first step: the orange end of `tanh#2`.) Whoever keeps
# a buffer alive is a **holder**: so far we met variables and **slots**, the places of a ctx for saved
# tensors. In numbers:

# %%
rows = [
    [name, f"{trace.peak():,}", f"{max(trace.needed()):,}", f"{trace.drag():,}"]
    for name, trace in {"train_step": t, "careless_step": careless}.items()
]
table(["step", "peak, bytes", "needed, bytes", "drag, bytes x ops"], rows)

# %% [markdown]
# And in a large graph: how do you see what is saved, before backward, without drawing it?

# %%
lm.reset_names()
h = (lm.tensor(data) @ W).tanh()
loss = (h * h).sum()
lm.lifetime.saved(loss)

# %% [markdown]
# ## Break it
#
# After backward the saved tensors are released. Ask for them all the same. (In this chapter an
# error is printed by `attempt`: one that leaves a cell keeps all variables on its way alive.)

# %%
node = h.grad_fn
loss.backward()
with attempt():
    node.ctx.saved_tensors

# %% [markdown]
# ## Exercises
#
# **5.1** One line: which buffer of `careless` has the most drag? Find its name in the figure.

# %%
answer = ...
check("5.1", answer, careless)

# %% [markdown]
# **5.2** Write `lean`: same loss, same `W.grad`, and a peak no higher than the step needs.


# %%
def lean(W, data):
    return ...


check("5.2", lean, careless_step)

# %% [markdown]
# **5.3** *Swish* is $y = z\,\sigma(z)$, with $\sigma' = \sigma(1 - \sigma)$. Written `z * z.sigmoid()`
# it keeps two buffers. Write it as one Function that keeps one.


# %%
class Swish(lm.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        return ...

    @staticmethod
    def backward(ctx, grad):
        return ...


check("5.3", Swish)

# %% [markdown]
# ## One real bug
#
# Users of HIPS autograd needed the garbage collector after every step
# ([#103](https://github.com/HIPS/autograd/issues/103)). The engine kept the gradient of every node
# in a dictionary until backward was over, although each is read once
# ([#219](https://github.com/HIPS/autograd/issues/219)). An imitation, for a chain of 50 ops:


# %%
def live_gradients(take):
    gradients, live = {50: np.ones(1000)}, []
    for node in range(50, 0, -1):
        grad = take(gradients, node)
        gradients[node - 1] = 0.5 * grad  # what this node's rule sends on
        live.append(sum(g.nbytes for g in gradients.values()))
    return live


kept = live_gradients(lambda gradients, node: gradients[node])
popped = live_gradients(lambda gradients, node: gradients.pop(node))

curves(
    {"gradients[node]": kept, "gradients.pop(node)": popped},
    x="nodes run",
    y="bytes of gradients alive",
    title="Gradients alive while backward runs through 50 nodes",
    caption=f"Kept: {kept[-1]:,} bytes at the end. Popped: {popped[-1]:,} bytes.",
)

# %% [markdown]
# One word, `pop`, is the repair. Others asked which tensors a graph has saved, and no call listed
# them ([pytorch#91692](https://github.com/pytorch/pytorch/issues/91692),
# [torchlens#28](https://github.com/johnmarktaylor91/torchlens/issues/28)). `lm.lifetime.saved` does.
#
# ## Recap
#
# - A buffer is born in an op, saved by nodes, used, released, and freed with its last holder.
# - The engine lets go as soon as a node has run; a variable lets go when its function ends.
# - Drag is bytes times the ops between last use and free: memory that nobody needs.
