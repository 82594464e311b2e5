# %% [markdown]
# # 9 · What if I change a tensor in place?
#
# **Question.** `h += 1` writes into memory that exists, and saves an allocation. But an op may have
# saved `h` for backward, and its rule would then read other numbers than it saw. Who notices, when,
# and when is it no mistake at all?

# %%
import numpy as np
from exercises import check, reveal
from show import attempt, start, table, versions

import lucid_mini as lm

start("09")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# `h` is used once, and then changed: `h += 1`. First it was used in `h + h`, then, in another program,
# in `h * h`. On which of the two does backward raise?

# %%
guess = ...  # "both", "h + h", "h * h" or "neither"

# %% [markdown]
# ## The smallest code


# %%
def changed_after(op):
    w = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = w * 2
    y = op(h, h)
    h += 1
    y.sum().backward()
    return w.grad


def add(a, b):
    return a + b


def mul(a, b):
    return a * b


raised = []
for op in (add, mul):
    try:
        print(op.__name__, "gives", changed_after(op))
    except lm.errors.VersionMismatchError:
        raised.append(op.__name__)
print("raised:", raised)
reveal(guess, "h * h" if raised == ["mul"] else raised)

# %% [markdown]
# A sum keeps nothing (chapter 2), and what is not kept cannot be wrong. A product keeps its factors.
# How does the engine know that a factor has changed? It counts: every tensor has a **version**, the
# number of writes into its memory.

# %%
h = lm.tensor([1.0, 2.0, 3.0], requires_grad=True) * 2
counts = [h._version]
h += 1
counts.append(h._version)
h *= 2
counts.append(h._version)
h.zero_()
counts.append(h._version)
print("versions:", counts)

# %% [markdown]
# (A method whose name ends in `_` writes in place.) And whoever saves a tensor saves its version, too.
# The life of `h` in the program that raised:

# %%
lm.reset_names()
with attempt(), lm.lifetime.trace() as t:
    changed_after(mul)

versions(t, "mul#1", title="The versions of h")

# %% [markdown]
# The product saved version 0, the write made version 1, and at the read the two are compared. The error
# names all of it: which node, who wrote, in which line, and that no `.grad` was touched. No value is
# compared and nothing copied: the check costs one comparison of two numbers.
#
# ## Ways out
#
# Three programs that do what was meant: $y = h^2$ with the old `h`, and then a new `h`.


# %%
def new_tensor(w):
    h = w * 2
    y = h * h
    h = h + 1  # a new tensor under the same name
    return (y * h).sum()


def copy_first(w):
    h = w * 2
    kept = h.clone()
    y = kept * kept
    h += 1
    return (y * h).sum()


def write_first(w):
    h = w * 2
    h += 1
    y = (h - 1) * (h - 1)
    return (y * h).sum()


rows = []
for way in (new_tensor, copy_first, write_first):
    w = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
    way(w).backward()
    rows.append([way.__name__, w.grad.tolist()])
table(["way out", "w.grad"], rows)

# %% [markdown]
# The same gradient. The first is the plainest: writing in place saves memory only where nobody keeps
# the old value, and there it is no mistake.
#
# So `h` was changed; how can its gradient be right, if it was made by one op and changed by another?

# %%
lm.reset_names()
w = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = w * 2
print("made by:   ", h.grad_fn.label)
h *= h.detach()
print("changed by:", h.grad_fn.label)
h.sum().backward()
print("w.grad:    ", w.grad)

# %% [markdown]
# A write is an op with a node like any other. The tensor gets the new node, and the old one is upstream
# of it. And what if only a part is written, through another name?

# %%
lm.reset_names()
w = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
h = w * 2
part = h[:2]  # a view: the same memory
part *= 10
print("h:       ", h)
print("versions:", h._version, "and", part._version)
h.sum().backward()
print("w.grad:  ", w.grad)

# %% [markdown]
# A view shares memory, so it shares the version; and `h` learns of the change, in its values and in its
# history. One kind of tensor is never rewritten: a leaf that wants a gradient. Its
# old value, of which the gradient is asked, would be lost.

# %%
w = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
with attempt():
    w += 1
print(w)
with lm.no_grad():
    w += 1  # how a training step ends
print(w)

# %% [markdown]
# The error comes before the write: the value is intact.
#
# ## A Function of your own
#
# A Function that writes into its input must say so before it writes: `ctx.mark_dirty`.


# %%
class AddToEnd(lm.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.mark_dirty(a)  # version and history of a are about to change
        a[-1:] += b
        return a

    @staticmethod
    def backward(ctx, grad):
        return grad, grad[-1:]


def gradients(function):
    a, b = lm.ones(2, requires_grad=True), lm.ones(1, requires_grad=True)
    function.apply(a + 1, b).sum().backward()
    print("a.grad:", a.grad, " b.grad:", b.grad)


gradients(AddToEnd)

# %% [markdown]
# ## Break it
#
# Who writes past all that? NumPy, into an array that a tensor shares. `from_numpy` shares, `tensor`
# copies.


# %%
def shared():
    array = np.ones(3)
    w = lm.ones(3, requires_grad=True)
    y = lm.from_numpy(array) * w
    array[0] = 7.0
    y.sum().backward()
    print("w.grad:", w.grad)


shared()

# %% tags=["raises-exception"]
with lm.lifetime.trace(check_writes=True):
    shared()

# %% [markdown]
# The first number is wrong, silently: no counter sees that write. A trace with `check_writes=True`
# compares the bytes themselves, which takes time, and so is for a search only.
#
# ## Exercises
#
# **9.1** One line. `h = w * 2`, `part = h[:2]`, `part += 1`, `y = h + 1`, `h *= 2`. What is the version
# of `part` now?

# %%
answer = ...
check("9.1", answer)


# %% [markdown]
# **9.2** `program` raises. Write `repaired(w)`, which returns the loss that was meant.


# %%
def program(w):
    e = w.exp()
    total = e.sum()
    e -= 1
    return total * (e * e).sum()


def repaired(w):
    return ...


check("9.2", repaired)


# %% [markdown]
# **9.3** `AddScaled.apply(a, b, k)` writes $a + k\,b$ into the memory of `a`, for a number `k`, and
# returns `a`. Keep no tensor.


# %%
class AddScaled(lm.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, k):
        return ...

    @staticmethod
    def backward(ctx, grad):
        return ...


check("9.3", AddScaled)

# %% [markdown]
# ## One real bug
#
# In PyTorch, somebody wrote `AddToEnd` without the mark, to save memory. Nothing was raised,
# and the gradient of `b` was `None`
# ([pytorch#5871](https://github.com/pytorch/pytorch/issues/5871)): the input was returned with the
# history that it had before. Another found that the error on a leaf came *after* the values had
# changed ([pytorch#2940](https://github.com/pytorch/pytorch/issues/2940)). Both here:


# %%
class Unmarked(AddToEnd):
    @staticmethod
    def forward(ctx, a, b):
        a[-1:] += b
        return a


with attempt():
    gradients(Unmarked)

leaf = lm.ones(2, requires_grad=True)
with attempt():
    AddToEnd.apply(leaf, lm.ones(1))
print("the leaf afterwards:", leaf)

# %% [markdown]
# ## Recap
#
# - A write in place is an op: it counts the version up and gives the tensor a new node.
# - Whoever saved another version raises when it reads; where nothing was saved, nothing is wrong.
# - Leaves are written under `no_grad`; a Function marks first, then writes.
