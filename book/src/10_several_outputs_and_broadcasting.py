# %% [markdown]
# # 10 · Several outputs, none needed; broadcasting undone: what arrives, in which shape?
#
# **Question.** An op can have several outputs, and a loss may use one of them, or none. What does its
# backward receive for the others? And an input can be smaller than the output, because it was
# repeated: what shape must its gradient have, and who brings it there?

# %%
from exercises import check, reveal
from show import attempt, shapes, start, table

import lucid_mini as lm

start("10")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# `cos, sin, r = Polar.apply(x, y)`, and the loss is `r.sum()`. `Polar.backward` has three gradient
# arguments. What does it get for `cos` and `sin`?

# %%
guess = ...  # "zeros", "None", "nothing: two arguments fewer" or "an error"

# %% [markdown]
# ## The smallest code
#
# $r = \sqrt{x^2 + y^2}$, $\cos = x / r$, $\sin = y / r$.


# %%
class Polar(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        r = (x * x + y * y).sqrt()
        cos, sin = x / r, y / r
        ctx.save_for_backward(cos, sin, r)
        return cos, sin, r

    @staticmethod
    def backward(ctx, grad_cos, grad_sin, grad_r):
        print("got:", grad_cos, grad_sin, grad_r)
        cos, sin, r = ctx.saved_tensors
        turn = (grad_sin * cos - grad_cos * sin) / r
        return grad_r * cos - turn * sin, grad_r * sin + turn * cos


def point():
    x = lm.tensor([3.0, 1.0], requires_grad=True)
    y = lm.tensor([4.0, 0.0], requires_grad=True)
    return x, y


x, y = point()
cos, sin, r = Polar.apply(x, y)
r.sum().backward()
print("x.grad:", x.grad)
reveal(guess, "zeros")

# %% [markdown]
# Zeros, in the shape of the output: if the loss does not depend on `cos`, its derivative by `cos` is 0.
# So a rule needs no special case. How does the engine know that there are three outputs, if nobody
# holds two of them? The node knows:

# %%
lm.reset_names()
x, y = point()
cos, sin, r = Polar.apply(x, y)
print("one node:", cos.grad_fn is sin.grad_fn is r.grad_fn)
print("output numbers:", cos.output_nr, sin.output_nr, r.output_nr)
del cos, sin
lm.draw.graph(r.sum())

# %% [markdown]
# One call is one node, and an edge says which output it comes from. `cos` and `sin` are deleted; the node
# keeps their shapes. It waits, as in chapter 4, until the gradients that do come have come, fills the
# empty places with zeros, and runs once. In slow motion:

# %%
lm.reset_names()
x, y = point()
cos, sin, r = Polar.apply(x, y)
rows = []
for step in lm.autograd.steps((r * sin).sum()):
    given = ["-" if g is None else str(g.shape) for g in step.grads_in]
    given += [""] * (3 - len(given))
    rows.append([step.node.label, *given])
table(["node", "gradient 0", "gradient 1", "gradient 2"], rows)

# %% [markdown]
# And if the loss uses none of them? Then no edge leads to the node, and it never runs: nothing is
# printed.

# %%
x, y = point()
outputs = Polar.apply(x, y)
(x * 1).sum().backward()
print("x.grad:", x.grad, " y.grad:", y.grad)

# %% [markdown]
# Zeros cost memory and time, though. For a large output that is seldom used, a rule can ask for `None`
# instead, and must then look for it.


# %%
class Thrifty(Polar):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return Polar.forward(ctx, x, y)

    @staticmethod
    def backward(ctx, grad_cos, grad_sin, grad_r):
        print("got:", grad_cos, grad_sin, grad_r)
        cos, sin, _ = ctx.saved_tensors
        if grad_cos is None and grad_sin is None:
            return grad_r * cos, grad_r * sin
        raise NotImplementedError("the angle is left as an exercise")


x, y = point()
Thrifty.apply(x, y)[2].sum().backward()
print("x.grad:", x.grad)

# %% [markdown]
# Some outputs can have no derivative at all, such as an index. `forward` says so, and then that
# output asks for no gradient:


# %%
class RowMax(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        index = x.argmax(1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.width = x.shape[1]
        return x.amax(1), index

    @staticmethod
    def backward(ctx, grad_value, grad_index):
        (index,) = ctx.saved_tensors
        hit = lm.arange(ctx.width).reshape(1, -1) == index.reshape(-1, 1)
        return hit * grad_value.reshape(-1, 1)


x = lm.tensor([[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]], requires_grad=True)
value, index = RowMax.apply(x)
print("index:", index.tolist(), "requires grad:", index.requires_grad)
value.sum().backward()
print("x.grad:", x.grad.tolist())

# %% [markdown]
# ## Broadcasting undone
#
# Now the inputs. `x + b` with shapes (4, 3) and (3,): `b` is used in each of the 4 rows. What is used
# four times gets the sum of four gradients (chapter 1), so the gradient of `b` is summed over rows:

# %%
lm.reset_names()
x = lm.ones(4, 3, requires_grad=True)
b = lm.ones(3, requires_grad=True)
s = lm.tensor([[1.0], [2.0], [3.0], [4.0]], requires_grad=True)
loss = ((x + b) * s).sum()
shapes({"x": x, "b": b, "s": s}, (4, 3), title="Forward repeats, backward sums")

# %%
loss.backward()
print("b.grad:", b.grad.tolist())
print("s.grad:", s.grad.tolist())

# %% [markdown]
# In `b.grad` is the sum of all `s`, once for each column; in `s.grad` the sum of a row of `x + b`.
# The rule: sum over every axis that forward added in front (they go), and over every axis whose
# length was 1 (they stay, with length 1). The ops of the package do that for you. A Function of your
# own must do it itself.
#
# ## Break it


# %%
class Add(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x, b):
        return x + b

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


# %% tags=["raises-exception"]
lm.reset_names()
Add.apply(x, b).sum().backward()

# %% [markdown]
# The message says over which axes to sum. Which would it be for `s`? What NumPy would *not* broadcast
# gets another message: no axis is named, for no sum would help.
#
# ## Exercises
#
# **10.1** One line. `grad` has shape (5, 4, 3); the input had shape (4, 1). Bring `grad` to that shape.


# %%
def undo(grad):
    return ...


check("10.1", undo)


# %% [markdown]
# **10.2** `SumDiff.apply(a, b)` returns $a + b$ and $a - b$, for two tensors of one shape. Keep nothing.


# %%
class SumDiff(lm.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return ...

    @staticmethod
    def backward(ctx, grad_sum, grad_diff):
        return ...


check("10.2", SumDiff)


# %% [markdown]
# **10.3** Write `sum_to(grad, shape)` for every `shape` that broadcasts to that of `grad`: the
# general rule. `grad` is a NumPy array.


# %%
def sum_to(grad, shape):
    return ...


check("10.3", sum_to)

# %% [markdown]
# ## One real bug
#
# Somebody wanted the gradient of each row apart, and returned shape (4, 3) for an input of shape (3,).
# PyTorch summed it, silently, since a broadcast in forward would have asked for that
# ([pytorch#65244](https://github.com/pytorch/pytorch/issues/65244)). In burn, the sum was missing where
# `add` broadcasts, and backward crashed
# ([burn#181](https://github.com/tracel-ai/burn/issues/181)). And PyTorch's documentation promised `None`
# for an output marked non-differentiable, while backward got zeros
# ([pytorch#12631](https://github.com/pytorch/pytorch/issues/12631)). The first two, imitated, and here:


# %%
def engine_that_sums(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(0)
    return grad


def engine_that_does_not(grad, shape):
    return grad


class PerRow(lm.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        return w.sum()

    @staticmethod
    def backward(ctx, grad):
        return lm.ones(4, 3)


for engine in (engine_that_sums, engine_that_does_not):
    grad = engine(lm.ones(4, 3), (3,))
    print(f"{engine.__name__}: {grad.tolist()}")

w = lm.randn(3).requires_grad_()
lm.reset_names()
with attempt():
    PerRow.apply(w).backward()
print("w.grad:", w.grad)

# %% [markdown]
# The engine here neither sums nor lets it pass: it cannot know whether you forgot the sum or meant
# something else.
#
# ## Recap
#
# - One call, one node: outputs that nobody used get zeros, and a node that nobody used never runs.
# - What forward repeated, backward sums: added axes go, stretched axes stay with length 1.
# - A gradient has the shape of its input; the engine checks, and does not guess.
