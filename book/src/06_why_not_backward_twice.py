# %% [markdown]
# # 6 · Why can't I call backward twice?
#
# **Question.** `loss.backward()` works. The same line once more raises an error, although the
# derivative is what it was. Two losses that share a part raise it, too. What is gone, who let go of
# it, why so early, and which ways out are there, at what price?

# %%
import numpy as np
from exercises import check, reveal
from show import attempt, start, table

import lucid_mini as lm

start("06")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# `h` is computed once, then `first = (h * h).sum()` and `second = h.sum()`. These are two tensors,
# and you call `backward` once on each. Does the second call work?

# %%
guess = ...  # "works" or "raises"

# %% [markdown]
# ## The smallest code

# %%
x = lm.tensor(3.0, requires_grad=True)
y = x * x * x
y.backward()
print("x.grad:", x.grad.item())
with attempt():
    y.backward()

# %% [markdown]
# The message names the node that ran first, and the pass that used it before. What had it lost?

# %%
x = lm.tensor(np.linspace(0.1, 1.0, 1000), requires_grad=True)
rows = []
for retain in (False, True):
    y = (x * x * x).sum()
    before = lm.lifetime.saved(y).nbytes
    y.backward(retain_graph=retain)
    after = lm.lifetime.saved(y).nbytes
    rows.append(
        [f"retain_graph={retain}", f"{before:,}", f"{after:,}", y.grad_fn.released]
    )
table(["", "saved before", "saved after", "node released"], rows)

# %% [markdown]
# The factors. Without them, no node can multiply by anything. And `retain_graph=True` says: keep them.
# Then the second pass is right, too:

# %%
x = lm.tensor(3.0, requires_grad=True)
y = x * x * x
for _ in range(2):
    y.backward(retain_graph=True)
    print("x.grad:", x.grad.item())

# %% [markdown]
# 27, and 27 *added* to it: `.grad` sums up until you set it to `None`. Now the two losses.


# %%
data = lm.tensor(np.linspace(-1.0, 1.0, 64 * 32).reshape(64, 32))
W = (lm.randn(32, 32) * 0.2).requires_grad_()


def two_losses(W):
    h = (data @ W).tanh()
    first, second = (h * h).sum(), h.sum()
    first.backward()
    second.backward()


lm.reset_names()
with attempt():
    two_losses(W)

# %%
reveal(guess, "raises")

# %% [markdown]
# The node that complains is the shared one, `tanh`. `sum`, the loss's own node, had run without
# trouble: the note below the message lists it. `h` itself is alive all the time, it is a variable
# here; but its *node* has let go of what it had saved.
#
# ## Why so early?
#
# The engine cannot know whether you will come back. Compare what waiting costs: two layers, and after
# backward something that needs memory of its own, the sum of squares of the weights.


# %%
def step(W, retain):
    loss = (((data @ W).tanh() @ W).tanh() ** 2).sum()
    loss.backward(retain_graph=retain)
    return (W * W).sum().item()


def traced(retain):
    W.grad = None
    lm.reset_names()
    with lm.lifetime.trace() as t:
        step(W, retain)
    t.title = f"retain_graph={retain}"
    return t


default = traced(False)
lm.draw.timeline(default)

# %% [markdown]
# Each node lets go as soon as it has run: the striped bars end one after the other, what was made
# last ends first. While backward makes gradients, saved tensors make room for them. Now kept:

# %%
retained = traced(True)
lm.draw.timeline(retained)

# %% [markdown]
# Everything saved stays until `loss`, which owns the graph, is gone: orange, alive after its last
# use. In numbers:

# %%
rows = [
    [
        t.title,
        f"{t.peak():,}",
        f"{t.drag():,}",
        sum(e.kind == "release" for e in t.events),
    ]
    for t in (default, retained)
]
table(["", "peak, bytes", "drag, bytes x ops", "slots released"], rows)

# %% [markdown]
# ## Three ways out
#
# Two losses on one `h`: one backward for the sum; forward once more for each; or keep, for all calls
# but the last.


# %%
def hidden(W):
    return (data @ W).tanh()


def one_backward(W):
    h = hidden(W)
    ((h * h).sum() + h.sum()).backward()


def forward_again(W):
    h = hidden(W)
    (h * h).sum().backward()
    hidden(W).sum().backward()


def keep(W):
    h = hidden(W)
    first, second = (h * h).sum(), h.sum()
    first.backward(retain_graph=True)
    second.backward()  # the last one lets go


rows = []
for way in (one_backward, forward_again, keep):
    W.grad = None
    with lm.lifetime.trace() as t:
        way(W)
    forwards = sum(e.kind == "alloc" and e.buffer.startswith("tanh") for e in t.events)
    runs = sum(e.kind == "run" for e in t.events)
    rows.append(
        [way.__name__, f"{W.grad.sum().item():.4f}", forwards, runs, f"{t.peak():,}"]
    )
table(["", "sum of W.grad", "tanh computed", "nodes run", "peak, bytes"], rows)

# %% [markdown]
# The same gradient three times. One backward is the cheapest: derivatives of a sum are sums, so the
# shared part is walked once. Keeping is for when you want the two gradients *apart*.
#
# ## Break it
#
# The usual way to meet this error is a loop, with a part built outside it. Why does the first
# iteration work?


# %%
def loop(W):
    h = hidden(W)  # outside: one node, shared by all iterations
    for target in (0.0, 0.5):
        loss = ((h - target) ** 2).sum()
        loss.backward()
        print("target", target, "done")


lm.reset_names()
with attempt():
    loop(W)

# %% [markdown]
# In the first iteration the node of `h` still had what it had saved. Both ways out are short: build `h`
# inside, or add up the losses and call backward behind the loop.
#
# ## Exercises
#
# **6.1** One line. `x` has 1000 numbers of 8 bytes, `loss = (x.exp() * x).sum()`. How many bytes are
# saved *after* `loss.backward(retain_graph=True)`?

# %%
answer = ...
check("6.1", answer)


# %% [markdown]
# **6.2** Write `repaired(W, x, targets)`: what `loop` should have put into `W.grad`, with
# `(x @ W).tanh()` computed once and nothing retained.


# %%
def repaired(W, x, targets):
    return ...


check("6.2", repaired)


# %% [markdown]
# **6.3** Return the gradients of $\sum h^2$ and of $\sum h$ for `h = (x @ W).tanh()` *apart*, as two
# tensors. Compute `h` once, leave `W.grad` at `None`, and let nothing be saved at the end that your
# caller did not have. (`W.grad = None` starts a new sum.)


# %%
def apart(W, x):
    return ...


check("6.3", apart)

# %% [markdown]
# ## One real bug
#
# In micrograd a second backward raises nothing. Somebody called it twice and got sums that no
# derivative explains ([micrograd#53](https://github.com/karpathy/micrograd/issues/53)). An imitation:
# every value has a `grad`, and backward adds to it, in the order of chapter 4.


# %%
class Value:
    def __init__(self, data, made_from=()):
        self.data, self.made_from, self.grad = data, made_from, 0.0

    def __mul__(self, other):
        return Value(self.data * other.data, ((self, other.data), (other, self.data)))

    def backward(self):
        order = []

        def look(value):
            if value not in order:
                for upstream, _ in value.made_from:
                    look(upstream)
                order.append(value)

        look(self)
        self.grad = 1.0
        for value in reversed(order):
            for upstream, local in value.made_from:
                upstream.grad += local * value.grad


x = Value(3.0)
y = x * x * x
passes = []
for _ in range(2):
    before = x.grad
    y.backward()
    passes.append(x.grad - before)
print("imitation:  first pass adds", passes[0], "  second pass adds", passes[1])

x = lm.tensor(3.0, requires_grad=True)
y = x * x * x
passes = [lm.autograd.grad(y, x, retain_graph=True)[0].item() for _ in range(2)]
print("lucid_mini: first pass gives", passes[0], " second pass gives", passes[1])

# %% [markdown]
# 45 for 27: the `grad` of the *intermediate* `x * x` still held the sum of the first pass, and was
# sent again. A gradient that has been used must go; here the engine drops each one on use, and
# only leaves sum up. (`lm.autograd.grad` returns gradients and touches no `.grad`.) PyTorch raises,
# and learners meet its message when a shared part stands above their loop, in
# [nn-zero-to-hero#31](https://github.com/karpathy/nn-zero-to-hero/issues/31), or hides inside an
# object, in [pytorch#11192](https://github.com/pytorch/pytorch/issues/11192). (There, a node that saved
# nothing may run again, so some programs work by luck. Here every node that has run refuses.)
#
# ## Recap
#
# - A node releases what it saved as soon as it has run; a second pass through it cannot compute.
# - What two losses share is one node: sum the losses, compute it anew, or keep it for the last call.
# - `retain_graph=True` costs memory until the graph dies, and `.grad` adds up in any case.
