# %% [markdown]
# # 1 · What must backward remember?
#
# **Question.** A derivative is computed after the value it belongs to. The chain rule multiplies
# derivatives of single steps, and those are evaluated at numbers that the computation produced on
# its way. Which of these numbers must wait in memory until then, and which may be thrown away?

# %%
import math

import numpy as np
from exercises import check, reveal
from show import attempt, curves, start, table

import lucid_mini as lm

start("01")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# Take $y = e^x \cdot x$ at $x = 2$. Going forward, three numbers turn up: $x$, $a = e^x$ and
# $y = a \cdot x$. You will be asked for $dy/dx$ later, and you do not want to compute an exponential
# twice. Which of the three do you write down? Replace the dots by your guess.

# %%
guess = ...  # for example {"x", "a", "y"}

# %% [markdown]
# ## The smallest code
#
# **Forward** computes the value. **Backward** goes the same way in the other direction: it starts
# with $dy/dy = 1$ and multiplies, at each step, by one local derivative. No library yet.

# %%
# forward
x = 2.0
a = math.exp(x)
y = a * x
print(f"forward:  a = {a:.4f}, y = {y:.4f}")

# backward
grad_y = 1.0
grad_a = grad_y * x  # y = a * x, so dy/da is x
grad_x = grad_y * a  # y = a * x, so dy/dx is a: the first of two ways from x to y
grad_x = grad_x + grad_a * a  # a = exp(x), so da/dx is a: the second way
print(f"backward: dy/dx = {grad_x:.4f}")

# %% [markdown]
# Is that the derivative? Calculus says $y' = e^x (1 + x)$, and a tiny step to both sides says the
# same without calculus.

# %%
tiny = 1e-5
slope = (math.exp(x + tiny) * (x + tiny) - math.exp(x - tiny) * (x - tiny)) / (2 * tiny)
print(f"by the formula:         {math.exp(x) * (1 + x):.4f}")
print(f"by a finite difference: {slope:.4f}")

# %% [markdown]
# Now read the four lines of backward again. On their right sides stand `x` and `a`. **They never
# read `y`.** What backward must remember is what its local derivatives read, and nothing else.

# %%
reveal(guess, {"x", "a"})

# %% [markdown]
# ## The same, found by a program
#
# A **tensor** is an array that remembers how it was made. `requires_grad=True` says: I will ask for
# the derivative with respect to this one. A tensor that no computation made is a **leaf**.

# %%
x = lm.tensor(2.0, requires_grad=True)
y = lm.exp(x) * x
y.backward()
print(f"x.grad = {x.grad.item():.4f}")

# %% [markdown]
# The same number. How did it know which values to keep? While forward ran, each **op** (here `exp`
# and `mul`) left a **node**, and in it what its local derivative will read. We run forward again and
# look before backward has used it.

# %%
lm.reset_names()
y = lm.exp(x) * x
lm.draw.graph(y, names={"x": x, "y": y})

# %% [markdown]
# Read it from top to bottom. A box is a node; a row in it is a **saved tensor**. `exp` saved its
# *output*, because $e^x$ is its own derivative. `mul` saved both factors, because each is the
# derivative with respect to the other. Both boxes show the badge `b1`: what left `exp` entered
# `mul`. It is one piece of memory, a **buffer**, and its bytes count once; `b2` is `x` itself. (`()`
# is the shape of a single number.) The result `y` is in no row.
#
# Where are the local derivatives? Backward runs node by node: it takes the gradient that arrives
# (the **grad_output**), multiplies, and sends each product (a **grad_input**) along an arrow of the
# figure, which the code calls an edge. `steps` is backward, one node at a time.

# %%
rows = []
for step in lm.autograd.steps(y):
    grad_output = step.grads_in[0].item()
    for edge, grad_input in zip(step.node.next_edges, step.grads_out, strict=True):
        goes_to = "x" if edge.node.label == "leaf" else edge.node.label
        local = grad_input.item() / grad_output
        rows.append([step.node.label, f"{grad_output:.4f}", f"{local:.4f}", goes_to])
table(["node", "grad_output", "local derivative", "sent to"], rows)

# %% [markdown]
# The two lines that go to `x` are the two ways from $x$ to $y$; their products are added. What else
# do you know, besides `exp` and `mul`? Here are ten ops on 1000 numbers of 8 bytes each.

# %%
x = lm.tensor(np.linspace(0.1, 1.0, 1000), requires_grad=True)
ops = {
    "x + 1": x + 1,
    "-x": -x,
    "x.sum()": x.sum(),
    "x.reshape(10, 100)": x.reshape(10, 100),
    "3 * x": 3 * x,
    "sin(x)": lm.sin(x),
    "x ** 2": x**2,
    "exp(x)": lm.exp(x),
    "tanh(x)": lm.tanh(x),
    "x / (x + 1)": x / (x + 1),
}
rows = []
for text, result in ops.items():
    saved = lm.lifetime.saved(result)
    what = ", ".join(f"{row.node} {row.role}" for row in saved) or "nothing"
    rows.append([text, f"{saved.nbytes:,}", what])
table(["op", "bytes kept", "what"], rows)

# %% [markdown]
# Three kinds: ops whose derivative is a constant keep **nothing** (or the constant); some keep an
# **input**; some an **output**, when the derivative is easier to write with it: for tanh it is
# $1 - y^2$. So the bytes depend on *which* ops you chain, not only on how many.

# %%
depths = range(1, 9)
kept = {"sin": [], "+ 1": []}
for name, op in {"sin": lm.sin, "+ 1": lambda t: t + 1}.items():
    t = x
    for _ in depths:
        t = op(t)
        kept[name].append(lm.lifetime.saved(t).nbytes)
curves(
    kept,
    x="ops in the chain",
    y="bytes kept",
    title="What a chain of ops keeps for backward",
    caption=f"In the end {kept['sin'][-1]:,} bytes of sin, {kept['+ 1'][-1]} of + 1.",
)

# %% [markdown]
# ## Break it
#
# What if nothing is remembered? Under `no_grad` ops leave no nodes. The value is right, and no way
# leads back from it.

# %% tags=["raises-exception"]
with lm.no_grad():
    y = (lm.exp(x) * x).sum()
y.backward()

# %% [markdown]
# ## Exercises
#
# **1.1** One line. How many bytes does `lm.sin(lm.exp(x))` keep, for the `x` of 1000 numbers above?
# Think first, then look with `lm.lifetime.saved`.

# %%
answer = ...
check("1.1", answer)


# %% [markdown]
# **1.2** Write backward for $f(x) = \sin(x^2)$: `grad` is what arrives, return what to send to $x$.


# %%
def rule(x, grad):
    return ...


check("1.2", rule)


# %% [markdown]
# **1.3** Two inputs: $y = e^{ab} + \sin a$ on arrays. `forward` returns `y` and a tuple with the
# arrays that backward will read; `backward` returns both gradients. Keep as little as you can.


# %%
def forward(a, b):
    return ..., ()


def backward(kept, grad):
    return ...


check("1.3", forward, backward)

# %% [markdown]
# ## One real bug
#
# Somebody wrote the function $x / \sqrt{1 + \min(x, 0)^2}$ for PyTorch and its backward by hand.
# The formula was right: the derivative is $s^3$ with $s = 1 / \sqrt{1 + \min(x, 0)^2}$. The gradient
# check failed all the same, with a text that told them nothing
# ([pytorch#4355](https://github.com/pytorch/pytorch/issues/4355)). Here is their rule.


# %%
def isrlu_backward(s, grad):
    return s**3


v = np.array([-2.0, -0.5, 1.0])
s = 1 / np.sqrt(1 + np.minimum(v, 0) ** 2)
rows = []
for scale in (1.0, 10.0):  # y = scale * isrlu(x): `scale` is what arrives from above
    right, computed = scale * s**3, isrlu_backward(s, scale)
    for at, number in enumerate(v):
        name = f"{scale:.0f} * isrlu(x)"
        rows.append([name, number, f"{right[at]:.4f}", f"{computed[at]:.4f}"])
table(["y", "x", "right", "computed"], rows)

# %% [markdown]
# Alone, the op is right; with anything after it, wrong. The rule never multiplies by `grad`, and a
# test that always starts with 1 cannot see it. What does the gradient check of this package say? It
# wants both functions as one op (how to make one is chapter 2: `ctx` carries `s` to backward).


# %%
def op_forward(ctx, x):
    s = (1 + lm.minimum(x, 0.0) ** 2) ** -0.5
    ctx.save_for_backward(s)
    return x * s


def op_backward(ctx, grad):
    return isrlu_backward(*ctx.saved_tensors, grad)


with attempt():
    lm.gradcheck(
        lm.autograd.autograd_function(op_forward, op_backward, "ISRLU"),
        lm.tensor(v, requires_grad=True),
    )

# %% [markdown]
# It says where two numbers differ, what the rule claims (*analytic*) against a finite difference
# (*numeric*), and why: the gradient does not depend on what arrives.
#
# ## Recap
#
# - Backward must remember what its local derivatives read, and nothing else.
# - Each op decides: nothing, an input, or an output; a buffer shared by two ops counts once.
# - A rule multiplies by what arrives from above; without that it is right only at the very end.
