# %% [markdown]
# # 12 · Gradients of gradients?
#
# **Question.** A gradient is computed from tensors, by ops. So it should have a gradient, too, and
# that one again. What must the engine record for this, what does it cost, and which rules, right for
# the first derivative, are silently wrong for the second?

# %%
import gc

import numpy as np
from exercises import check, reveal
from show import attempt, curves, start, table

import lucid_mini as lm

start("12")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# `y = x * x * x` makes a graph of two nodes. Its gradient, $3x^2$, is to have a graph as well. How
# many nodes has it?

# %%
guess = ...  # a number

# %% [markdown]
# ## The smallest code
#
# `lm.autograd.grad(y, x)` gives the gradient itself and leaves `x.grad` alone. With
# `create_graph=True` the pass is recorded like any other computation.

# %%
x = lm.tensor(2.0, requires_grad=True)
y = x * x * x
(plain,) = lm.autograd.grad(y, x, retain_graph=True)
(first,) = lm.autograd.grad(y, x, create_graph=True)
print("plain:   ", plain)
print("recorded:", first)

# %% [markdown]
# The same value; one has a `grad_fn`. What hangs behind it?

# %%
lm.draw.graph(y, names={"x": x})

# %%
lm.draw.graph(first, names={"x": x})

# %% [markdown]
# The first figure is the graph of `y`, the second that of its gradient, which grows out of it: `mul#1`
# is in both. Each node of the first has run its rule. A product has two factors, so the rule
# multiplies twice, and where gradients meet they are added: hence the other `mul` and `add` nodes.
# They save what they multiply: `x` again (the same badge, the same buffer), and the gradients on
# their way.

# %%
reveal(guess, lm.autograd.stats(first)["nodes"])

# %% [markdown]
# What has a graph can be asked for its gradient. Again, and again:

# %%
value, rows = y, []
for order in range(4):
    rows.append([order, f"{value.item():.0f}", lm.autograd.stats(value)["nodes"]])
    if order < 3:
        (value,) = lm.autograd.grad(value, x, create_graph=True)
table(["order", "value at 2", "nodes"], rows)

# %% [markdown]
# $x^3$, $3x^2$, $6x$, 6: right, and the last is a constant without nodes. Is it always that cheap?


# %%
def nodes_by_order(function, orders):
    value, counts = function(x), []
    for _ in range(orders):
        (value,) = lm.autograd.grad(value, x, create_graph=True)
        counts.append(lm.autograd.stats(value)["nodes"])
    return counts


lines = {
    "tanh(x)": nodes_by_order(lambda x: x.tanh(), 6),
    "exp(x) * x": nodes_by_order(lambda x: x.exp() * x, 6),
}
said = [f"{name}: {c[0]} nodes at first, then {c[-1]:,}" for name, c in lines.items()]
curves(
    lines,
    x="order of the derivative",
    y="nodes",
    title="The graph of the derivative of each order",
    caption="; ".join(said) + ".",
    log=True,
)

# %% [markdown]
# For `exp(x) * x` each order adds the same number of nodes. For `tanh` it multiplies them: on this
# logarithmic axis that is a straight line. Two orders are common, six are for textbooks. What does
# one recorded pass hold, in bytes?


# %%
def bytes_left(create_graph):
    w = lm.tensor(np.linspace(0.0, 1.0, 1000), requires_grad=True)
    with lm.lifetime.trace() as t:
        loss = (w * w).tanh().exp().sum()
        (gradient,) = lm.autograd.grad(loss, w, create_graph=create_graph)
        del loss
        left = t.live_bytes()
    del gradient
    return f"{left:,}"


print("gradient of 8,000 bytes, plain:   ", bytes_left(False), "bytes left")
print("gradient of 8,000 bytes, recorded:", bytes_left(True), "bytes left")

# %% [markdown]
# A recorded pass releases nothing, and saves what its own ops need. It goes with the gradient, at the
# `del`. Unless you put it in the wrong place:


# %%
def into_grad():
    w = lm.tensor(np.linspace(0.0, 1.0, 1000), requires_grad=True)
    (w * w).tanh().exp().sum().backward(create_graph=True)


def held():
    gc.collect()
    gc.disable()  # what a counter of references cannot free, stays
    try:
        with lm.lifetime.trace() as t:
            into_grad()
            return f"{t.live_bytes():,} bytes alive after the function"
    finally:
        gc.enable()


with attempt():
    print(held())

# %% [markdown]
# The warning draws the ring: leaf, `.grad`, its history, leaf. So `grad` for second derivatives, and
# `backward` for the last pass only.
#
# What is it good for? Newton's method divides the slope by the curvature, and finds the bottom of
# $x^4 - 3x^2 + x$:

# %%
at = lm.tensor(2.0, requires_grad=True)
for _ in range(6):
    (slope,) = lm.autograd.grad(at**4 - 3 * at**2 + at, at, create_graph=True)
    (curvature,) = lm.autograd.grad(slope, at)
    print(f"x = {at.item():.4f}, slope {abs(slope.item()):.4f}")
    at = (at - slope / curvature).detach().requires_grad_()

# %% [markdown]
# ## Break it
#
# Ask a plain gradient for its gradient. Then a rule written in NumPy, which no one records: it says
# so with `once_differentiable`, and gives first derivatives only.


# %%
class Sinh(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return lm.tensor(np.sinh(x.numpy()))

    @staticmethod
    @lm.autograd.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return lm.tensor(grad.numpy() * np.cosh(x.numpy()))


with attempt():
    lm.autograd.grad(plain, x)

(first,) = lm.autograd.grad(Sinh.apply(x), x, create_graph=True)
print(f"first derivative: {first.item():.4f}")
with attempt():
    lm.autograd.grad(first, x)

# %% [markdown]
# A refusal is better than the 0 which a constant would give.
#
# ## Exercises
#
# **12.1** One line. Write the rule of $y = x^3$, for a Function that saved `x`, so that derivatives of
# any order are right. `x` and `grad` are tensors.


# %%
def rule(x, grad):
    return ...


check("12.1", rule)


# %% [markdown]
# **12.2** Write `nth(f, x, n)`: the `n`-th derivative of `f` at the number `x`, as a number.


# %%
def nth(f, x, n):
    return ...


check("12.2", nth)


# %% [markdown]
# **12.3** Write `hessian(f, x)`: for `f` of a tensor with $n$ elements the array $n \times n$ of all
# second derivatives. Call `f` once; run one recorded pass, and one more for each row. (`lm.hessian`
# exists; do not call it.)


# %%
def hessian(f, x):
    return ...


check("12.3", hessian)

# %% [markdown]
# ## One real bug
#
# A Function computes something on the way, saves it for its rule, and passes every test of the first
# derivative. The second is wrong, and nothing says so
# ([pytorch#58509](https://github.com/pytorch/pytorch/issues/58509)). With a square on the way:


# %%
class Cube(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(square)  # no argument, no output
        return square * x

    @staticmethod
    def backward(ctx, grad):
        (square,) = ctx.saved_tensors
        return 3 * square * grad


def second_of(function):
    y = function(x)
    (first,) = lm.autograd.grad(y * y, x, create_graph=True)
    (second,) = lm.autograd.grad(first, x)
    print(f"first derivative {first.item():.0f}, second {second.item():.0f}")


print("x * x * x:")
second_of(lambda x: x * x * x)
print("Cube:")
with attempt():
    second_of(Cube.apply)

# %% [markdown]
# Nothing inside `forward` is recorded, so `square` came without a history: in the second derivative of
# $x^6$ the part that goes through it is missing. lucid_mini warns at the moment when the recorded pass
# meets such a node. Arguments and outputs are safe: the engine knows their history and attaches it
# again.
#
# ## Recap
#
# - `create_graph=True` records the pass: a gradient with a `grad_fn`, and a graph several times larger.
# - `grad` returns it; `backward` would put it into `.grad`, and close a ring.
# - Save arguments and outputs; mark what cannot be differentiated with `once_differentiable`.
