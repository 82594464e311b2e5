# %% [markdown]
# # 2 · Who decides what is saved?
#
# **Question.** Chapter 1 read in the graph what each op had saved. Nobody guessed that: for every
# op, somebody wrote down what to keep. Where does it stand, what may be written there, and what
# happens if too little is kept, too much, or in the wrong place?

# %%
import gc
import inspect
import weakref

from exercises import check, reveal
from show import attempt, saved_bars, start, table

import lucid_mini as lm

start("02")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# You write an op of your own, $y = \tanh x$, with $y' = 1 - \tanh^2 x = 1 - y^2$. It could keep its
# input `"x"` or its output `"y"`; both are 8 KiB. It stands between two matrix products:
# `(tanh(x @ W) @ V).sum()`. With which of the two does the *whole program* keep fewer bytes?

# %%
guess = ...  # "x", "y" or "no difference"

# %% [markdown]
# ## The smallest code
#
# An op is a **Function**: a class with two functions, `forward`, which computes the value, and
# `backward`, its rule. (`@staticmethod`: they are called without an object, so there is no `self`.)
# The first argument of both is the **ctx**.


# %%
class Square(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)  # here it is decided
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors  # here it is read
        return 2 * x * grad


x = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = Square.apply(x)
print(y)

# %% [markdown]
# You call `Square.apply(x)`, never `Square.forward`: `apply` makes the ctx, runs `forward` with it
# and hangs a node on the output. (The `*` inside `forward` leaves no node of its own: recording is
# off there, `backward` speaks for it.) Where is the ctx now?

# %%
node = y.grad_fn
print("the node that made y:", node.label)
print("what the node owns:  ", node.ctx)
y.sum().backward()
print("x.grad:              ", x.grad)
print("after backward:      ", node.ctx)

# %% [markdown]
# So the output owns a node, the node owns the ctx, and the ctx owns what `forward` saved. One ctx
# belongs to one call, and `backward` is handed that same ctx. When the node has run, its saved
# tensors are **released**. Are the ops of the package different? Look at one.

# %%
print(inspect.getsource(lm.exp(x).grad_fn.function))

# %% [markdown]
# Nothing is privileged: `exp` decides as `Square` does. It keeps its output, for $e^x$ is its own
# derivative. (For speed it works on the NumPy arrays inside: `x._data` is that of `x`, `fresh` makes
# a tensor of one, `arrays = True` asks for arrays in `backward`, too.)
#
# ## Three ways to write tanh


# %%
class TanhX(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (1 - x.tanh() ** 2)


class TanhY(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y**2)


class TanhBoth(TanhY):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y, x)
        return y

    @staticmethod
    def backward(ctx, grad):
        y, _ = ctx.saved_tensors
        return grad * (1 - y**2)


# %% [markdown]
# All three give the same gradient. What does each make the program keep?

# %%
data = lm.randn(32, 32)
W = (lm.randn(32, 32) * 0.2).requires_grad_()
V = (lm.randn(32, 32) * 0.2).requires_grad_()
saved = {}
for function in (TanhX, TanhY, TanhBoth):
    lm.reset_names()
    loss = (function.apply(data @ W) @ V).sum()
    saved[function.__name__] = lm.lifetime.saved(loss)
    W.grad = None
    loss.backward()
    print(f"{function.__name__:8} sum of W.grad {W.grad.sum().item():.4f}")

saved_bars(saved, title="Bytes saved per node, for three ways to write tanh")

# %% [markdown]
# `TanhY` costs nothing more: `matmul#3` keeps that very buffer as its `a` anyway, so the second bar
# shows it once. `TanhX` keeps one more, which nobody else wants. `TanhBoth` keeps what its rule never
# reads, and nothing complains.

# %%
reveal(guess, "y" if saved["TanhY"].nbytes < saved["TanhX"].nbytes else "x")

# %% [markdown]
# ## Which way to keep a value
#
# | you have | write in `forward` | read in `backward` | changes noticed | released by backward |
# |---|---|---|---|---|
# | **tensors** | `ctx.save_for_backward(x, y)` | `ctx.saved_tensors` | yes | yes |
# | **the rest**: numbers, shapes, flags | `ctx.n = 3` | `ctx.n` | no | no |
# | many values, or mixed kinds | `ctx.save_for_backward(x=x, n=3)` | `ctx.saved_variables.n` | tensors | yes |
# | a key known only at run time | `ctx.store(key, 3)` | `ctx.load(key)` | no | no |
# | a value that is quick to compute | nothing | compute it again | – | – |
#
# The first two rows are enough nearly always. *Changes noticed*: an error, if somebody writes into
# the tensor before backward reads it (chapter 9). And the last column, is it true?


# %%
class Power(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x, exponent=n - 1)
        ctx.n = n
        ctx.store("note", "a power")
        return x**n

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        exponent = ctx.saved_variables.exponent
        return grad * ctx.n * x**exponent, None  # one for each argument: None for n


x = lm.tensor([1.0, 2.0], requires_grad=True)
y = Power.apply(x, 3)
y.sum().backward()
print("x.grad:", x.grad)
ctx = y.grad_fn.ctx
print("after backward:", f"ctx.n is {ctx.n}, the note is '{ctx.load('note')}'")
with attempt():
    ctx.saved_tensors
with attempt():
    ctx.saved_variables

# %% [markdown]
# Must a product always keep both factors? Only those that a wanted gradient reads. A rule can ask:
# `ctx.needs_input_grad` has one flag per argument.

# %%
a, b = lm.ones(1000, requires_grad=True), lm.ones(1000)
rows = [["a wants one", f"{lm.lifetime.saved(a * b).nbytes:,}"]]
b.requires_grad_()
rows.append(["a and b want one", f"{lm.lifetime.saved(a * b).nbytes:,}"])
table(["gradient", "bytes kept by a * b"], rows)

# %% [markdown]
# ## Break it
#
# A number is no tensor. What if it is saved like one?


# %% tags=["raises-exception"]
class SavesNumber(Square):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, 3)
        return x * x


SavesNumber.apply(x)

# %% [markdown]
# ## Exercises
#
# **2.1** One line. The square root keeps its output $y = \sqrt x$. Write its rule with `y` and `grad`.


# %%
def sqrt_backward(y, grad):
    return ...


check("2.1", sqrt_backward)

# %% [markdown]
# **2.2** `RowSum` sums each row of a matrix: shape (n, m) becomes (n,). Send every element of a row
# what arrives for its row, and keep no tensor. (`lm.ones(...)`, `.reshape(...)` may help.)


# %%
class RowSum(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return ...

    @staticmethod
    def backward(ctx, grad):
        return ...


check("2.2", RowSum)

# %% [markdown]
# **2.3** $y = k\,a\,b$ for two tensors and a number $k$. Keep only what the wanted gradients read.


# %%
class ScaledProduct(lm.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, k):
        return ...

    @staticmethod
    def backward(ctx, grad):
        return ...


check("2.3", ScaledProduct)

# %% [markdown]
# ## One real bug
#
# In PyTorch, people wrote `ctx.y = y` for an *output*, and memory grew and grew; not even the
# garbage collector helped
# ([#5569](https://github.com/pytorch/pytorch/issues/5569),
# [#25340](https://github.com/pytorch/pytorch/issues/25340)). The tutorial said that any object could
# be given to `save_for_backward`, the reference said tensors only
# ([tutorials#2797](https://github.com/pytorch/tutorials/issues/2797)), and *why* one should use it
# was written down in 2025 ([#153005](https://github.com/pytorch/pytorch/pull/153005)).
#
# Python frees an object at the moment when nothing holds it any more. Objects that hold each other in
# a circle never get there; they are left to the garbage **collector**, `gc`, which looks for circles
# now and then. The same line here:


# %%
class Careless(TanhY):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.y = y  # y owns its node, the node owns ctx, and now ctx owns y
        return y


def who_lives(function):
    gc.disable()
    y = function.apply(lm.ones(4, requires_grad=True))
    watch = weakref.ref(y)  # tells whether y lives, and does not keep it alive
    del y
    after_del = watch() is not None
    gc.enable()
    gc.collect()
    return after_del, watch() is not None


with attempt():
    careless = who_lives(Careless)
table(
    ["kept by", "alive after del y", "after gc.collect()"],
    [["ctx.y = y", *careless], ["save_for_backward(y)", *who_lives(TanhY)]],
)

# %% [markdown]
# A circle: each waits for the other to go. Here the collector finds it; in PyTorch it could not, for
# a part of the circle lay in C++, where it does not look. `save_for_backward` knows that `y` is the
# output and keeps its array without the tensor, so no circle arises.
#
# ## Recap
#
# - Whoever writes `forward` decides: the ctx keeps what it is told to, and nothing else.
# - Tensors go to `save_for_backward`: checked, released, no circle. The rest goes into attributes.
# - Keep what the neighbour keeps anyway, and only what a wanted gradient reads.
