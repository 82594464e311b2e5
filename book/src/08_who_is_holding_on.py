# %% [markdown]
# # 8 · Who is holding on?
#
# **Question.** A variable is deleted, backward has run, and the memory stays. Something still holds
# it: something that no line of your program names. What can that be, how do you find it, and
# what is the smallest repair?

# %%
import gc
import sys
import traceback
import weakref

import numpy as np
from exercises import check, reveal
from show import attempt, start, table

import lucid_mini as lm

start("08")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# The next cell is a whole engine: a value knows what it was made from, and a function `rule`, which
# hands its gradient on. Five values are computed, backward runs, and the last name is deleted. Python
# frees an object when its count of holders falls to zero; a **collector** looks for circles now and
# then, and we switch it off. How many of the five are alive?

# %%
guess = ...  # 0, 1, 2, 3, 4 or 5

# %% [markdown]
# ## The smallest code


# %%
class Value:
    def __init__(self, data, made_from=()):
        self.data, self.made_from = data, made_from
        self.grad = np.zeros(data.shape)
        self.rule = None

    def __mul__(self, other):
        out = Value(self.data * other.data, (self, other))

        def rule():
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out.rule = rule
        return out

    def tanh(self):
        out = Value(np.tanh(self.data), (self,))

        def rule():
            self.grad += (1 - out.data**2) * out.grad

        out.rule = rule
        return out

    def run(self):
        if self.rule is not None:
            self.rule()

    def look(self, order):
        if self not in order:
            for value in self.made_from:
                value.look(order)
            order.append(self)

    def backward(self):
        order = []
        self.look(order)
        self.grad = np.ones(self.data.shape)
        for value in reversed(order):
            value.run()


# %% [markdown]
# It is built like micrograd, whose gradients are right. A weak reference tells whether something is
# alive, and does not keep it alive.


# %%
def expression(make):
    x, w = make(np.full(1000, 0.5)), make(np.full(1000, 2.0))
    p = x * w
    q = p * x
    y = q.tanh()
    y.backward(*([lm.ones(1000)] if make is tensor else []))
    print(f"{make.__name__}: dy/dx is {float(x.grad[0]):.4f}")
    return y, [weakref.ref(value) for value in (x, w, p, q, y)]


def tensor(data):
    return lm.tensor(data, requires_grad=True)


def alive(make):
    """How many of the five live after the last `del`, and after a collection."""
    gc.collect()
    gc.disable()
    y, watch = expression(make)
    del y
    after_del = sum(value() is not None for value in watch)
    gc.enable()
    gc.collect()
    return after_del, sum(value() is not None for value in watch)


counts = alive(Value)
table(["engine", "alive after del y", "after gc.collect()"], [["Value", *counts]])
reveal(guess, counts[0])

# %% [markdown]
# All of them, the inputs too. Nobody names them any more, and the collector had to come. Who holds
# `y`? A **closure**, a function that uses a variable of the function around it, owns that variable in
# a **cell**. `scan` lists what is in the cells:


# %%
def cells_of_tanh():
    y = Value(np.full(1000, 0.5)).tanh()
    rows = [[f.holder, f.how, f.nbytes] for f in lm.lifetime.scan(y.rule)]
    table(["function", "how it holds", "bytes"], rows)


cells_of_tanh()

# %% [markdown]
# `out` is the cell: `y` owns `rule`, `rule` owns the cell `out`, and in it lies `y`. A circle. And
# since `y` lives, so does everything it was made from. Does any name lead there?


# %%
def without_a_name():
    gc.disable()
    y = Value(np.full(1000, 0.5)).tanh()
    watch = weakref.ref(y.data)
    del y
    print(lm.lifetime.why_alive(watch))
    gc.enable()


without_a_name()

# %% [markdown]
# `why_alive` starts at names and follows what each object holds. It finds nothing: the mark of a
# circle. Only the collector frees a circle, some time later; until then the memory of a large network
# stays.
#
# The repair: a rule is handed the gradient, and captures arrays, never the value that owns the rule.


# %%
class Repaired(Value):
    def __mul__(self, other):
        out = Repaired(self.data * other.data, (self, other))

        def rule(grad):
            self.grad += other.data * grad
            other.grad += self.data * grad

        out.rule = rule
        return out

    def tanh(self):
        result = np.tanh(self.data)
        out = Repaired(result, (self,))

        def rule(grad):
            self.grad += (1 - result**2) * grad

        out.rule = rule
        return out

    def run(self):
        if self.rule is not None:
            self.rule(self.grad)


rows = [[make.__name__, *alive(make)] for make in (Value, Repaired, tensor)]
table(["engine", "alive after del y", "after gc.collect()"], rows)

# %% [markdown]
# The last row is lucid_mini: its ctx keeps an output as an array, without the tensor (chapter 2).
# But your own code can hold on, too. In five ways; after each program below, `z` should be gone. The
# op is `relu(x)`, the larger of $x$ and 0; its derivative is 1 where $x > 0$.
#
# ## 1. A closure


# %%
def hunt(program):
    """Run `program`, show its warnings; then who holds `z`, as a figure."""
    with attempt():
        kept, watch = program()
    gc.collect()
    figure = lm.draw.holders(lm.lifetime.why_alive(watch))
    del kept
    return figure


def closure():
    def forward(ctx, x):
        return lm.relu(x)

    def backward(ctx, grad):
        return grad * (z > 0)

    z = lm.ones(1000, requires_grad=True) * 2
    relu = lm.autograd.autograd_function(forward, backward, "relu")
    relu(z).sum().backward()
    return relu, weakref.ref(z)


hunt(closure)

# %% [markdown]
# From top to bottom: a name, what it holds, how. The scissors mark the edge to cut, beside it the
# source. `relu` is kept, to be called again; backward has run and released what was
# *saved*, and `z` was not saved: it lies in a cell. The warning said so when it happened. No circle
# this time: a name leads there, and no collector helps.
#
# ## 2. A default argument
#
# Some write `z=z`, so that there is no cell. Then the function's defaults hold it:


# %%
def default():
    z = lm.ones(1000, requires_grad=True) * 2

    def forward(ctx, x):
        return lm.relu(x)

    def backward(ctx, grad, z=z):
        return grad * (z > 0)

    relu = lm.autograd.autograd_function(forward, backward, "relu")
    relu(z).sum().backward()
    return relu, weakref.ref(z)


hunt(default)

# %% [markdown]
# ## 3. An attribute of ctx
#
# Here nothing of `relu` is kept, only its output `y`, which owns its node, and that its ctx:


# %%
class Relu(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.inputs = x
        return lm.relu(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.inputs > 0)


def attribute():
    z = lm.ones(1000, requires_grad=True) * 2
    y = Relu.apply(z)
    y.sum().backward()
    return y, weakref.ref(z)


hunt(attribute)

# %% [markdown]
# ## 4. A hook
#
# A **hook** is a function that you hang on a tensor; backward calls it with the gradient. It stays
# as long as the tensor, here `x`, a weight that lives on.


# %%
def hook():
    x = lm.ones(1000, requires_grad=True)
    z = x * 2
    x.register_hook(lambda grad: grad / (z * z).sum())
    z.sum().backward()
    return x, weakref.ref(z)


hunt(hook)

# %% [markdown]
# ## The repairs
#
# (The last warning is right, too: `z` was made from `x`, so its node leads back to where the hook
# hangs. That is a circle, and as long as you hold `x` no collector touches it.)
#
# For the first three: `save_for_backward`, which backward releases. For the hook: `with` removes it
# when the block ends, and a weak reference lets it read `z` without holding it.


# %%
def saved():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return lm.relu(x)

    def backward(ctx, grad):
        return grad * (ctx.saved_tensors[0] > 0)

    z = lm.ones(1000, requires_grad=True) * 2
    relu = lm.autograd.autograd_function(forward, backward, "relu")
    y = relu(z)
    y.sum().backward()
    return (relu, y), weakref.ref(z)


def removed():
    x = lm.ones(1000, requires_grad=True)
    z = x * 2
    watch = weakref.ref(z)
    with x.register_hook(lambda grad: grad / (watch() * watch()).sum()):
        z.sum().backward()
    return x, watch


def bytes_left(program):
    kept, watch = program()
    left = lm.lifetime.why_alive(watch).nbytes
    del kept
    return left


with attempt():
    rows = [[program.__name__, bytes_left(program)] for program in (saved, removed)]
table(["repaired", "bytes of z held"], rows)

# %% [markdown]
# ## 5. The notebook
#
# The last holder is the one you are typing in. A cell that ends with a tensor:

# %%
shown = lm.ones(3, requires_grad=True) * 2
shown

# %%
watch = weakref.ref(shown)
del shown
lm.draw.holders(lm.lifetime.why_alive(watch))

# %% [markdown]
# What a cell displays is kept: in `Out`, and under `_`, `_13` and more, so that you can ask for it
# later. Those names let go with a restart. The repair is to end a cell with a number:

# %%
number = lm.ones(3, requires_grad=True) * 2
watch = weakref.ref(number)
number.sum().item()

# %%
del number
print("bytes held:", lm.lifetime.why_alive(watch).nbytes)

# %% [markdown]
# ## Break it
#
# An error that nobody catches keeps even more: every variable of every function that it passed.

# %% tags=["raises-exception"]
watches = []


def step():
    scores = lm.ones(1000, requires_grad=True) * 2
    watches.append(weakref.ref(scores))
    scores.backward()


step()

# %%
lm.draw.holders(lm.lifetime.why_alive(watches[0]))

# %% [markdown]
# Python keeps the last error, for a debugger. You can empty what it holds, or catch the error and
# keep its text, as `attempt` does:

# %%
print("held by the error:", lm.lifetime.why_alive(watches[0]).nbytes, "bytes")
traceback.clear_frames(sys.last_value.__traceback__)
print("once it is emptied:", lm.lifetime.why_alive(watches[0]).nbytes, "bytes")
with attempt():
    step()
print("if it is caught:   ", lm.lifetime.why_alive(watches[-1]).nbytes, "bytes")

# %% [markdown]
# ## Exercises
#
# **8.1** Two lines. `make_hook(loss)` must return a hook that divides a gradient by the value `loss`
# has now. `lambda grad: grad / loss` captures the tensor, and with it the graph. Capture less.


# %%
def make_hook(loss):
    return ...


check("8.1", make_hook)


# %% [markdown]
# **8.2** Write `exp(value)` for `Repaired`, as `tanh` is written there, without a circle.


# %%
def exp(value):
    return ...


check("8.2", exp)


# %% [markdown]
# **8.3** A leak hunt. This program computes what it should, and three of its lines hold on. Find them with
# `scan`, `why_alive` or a trace, and repair them here; what it returns must keep its numbers.


# %%
class Squash(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.tanh()
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        return grad * (1 - ctx.y**2)


def observe(h, ratios):
    def note(grad):
        ratio = (grad * grad).sum() / (h * h).sum()
        ratios.append(ratio.item())

    h.register_hook(note)


def train(W, batches):
    losses, ratios = [], []
    for x in batches:
        h = Squash.apply(x @ W)
        observe(h, ratios)
        loss = (h * h).mean()
        loss.backward()
        with lm.no_grad():
            W -= 0.1 * W.grad
        W.grad = None
        losses.append(loss)
    return losses, ratios


check("8.3", train)

# %% [markdown]
# ## One real bug
#
# The engine of OneFlow had the disease of `Value`: its gradient closures captured outputs, and memory
# leaked ([oneflow#4707](https://github.com/Oneflow-Inc/oneflow/pull/4707)); the repair captures
# a detached tensor. PyTorch had it in module hooks: a hook that was given a gradient with a
# history kept it, and the history led back to the hook. When it was found, the user asked which tool
# shows such a circle; the answer was a viewer for Python, and reading the code for C++
# ([pytorch#82528](https://github.com/pytorch/pytorch/issues/82528)). The same circle, and a tool:


# %%
def observed(keep):
    x = lm.ones(1000, requires_grad=True)
    y = x * 2
    seen = []
    y.register_hook(lambda grad: seen.append(keep(grad)))
    lm.autograd.grad((y**3).sum(), x, create_graph=True)
    (found,) = lm.lifetime.scan(y)
    return found, weakref.ref(y)


def as_it_is(grad):
    return grad


rows = []
for keep in (as_it_is, lm.Tensor.detach):
    gc.disable()
    found, watch = observed(keep)
    after_del = watch() is not None
    gc.enable()
    gc.collect()
    after_collect = watch() is not None
    rows.append([keep.__name__, found.how, found.has_history, after_del, after_collect])
head = ["the hook keeps", "found by scan", "history", "y alive", "after gc.collect()"]
table(head, rows)

# %% [markdown]
# ## Recap
#
# - A circle, to which no name leads, waits for the collector; an outside holder waits for you.
# - Closures, defaults, ctx attributes, hooks, `Out` and errors hold unseen: ask `why_alive` and `scan`.
# - Save with `save_for_backward`, remove hooks, keep numbers, and let rules capture arrays, not owners.
