# %% [markdown]
# # 3 · What does `Function.apply` do, step by step?
#
# **Question.** `Square.apply(x)` looks like a call of `forward` with a detour. But afterwards the
# result knows how it was made, and a gradient finds the way back to `x`. What does `apply` do
# before `forward`, what after it, and what would be missing without each step?

# %%
import numpy as np
from exercises import check, reveal
from show import attempt, start, table

import lucid_mini as lm

start("03")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# `Product.apply(a, b, k)` computes $k\,a\,b$. The tensor `a` requires a gradient, the tensor `b` does
# not, `k` is a number. The node that is made has lines to what comes before it, along which
# gradients will be sent. How many of them lead somewhere?

# %%
guess = ...  # a number

# %% [markdown]
# ## The smallest code
#
# A Function that tells what it sees while `apply` runs it.


# %%
class Product(lm.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, k):
        print("forward:   who wants a gradient? ", tuple(ctx.needs_input_grad))
        print("           is recording on?      ", lm.is_grad_enabled())
        ctx.save_for_backward(a, b)
        ctx.k = k
        y = k * a * b
        print("           has y a node already? ", y.grad_fn is not None)
        return y

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * ctx.k * b, grad * ctx.k * a, None


a = lm.tensor([1.0, 2.0], requires_grad=True)
b = lm.tensor([3.0, 4.0])
y = Product.apply(a, b, 10.0)
print("afterwards:has y a node?         ", y.grad_fn is not None)

# %% [markdown]
# So *before* `forward`, `apply` had looked at the arguments, for the ctx knows who wants a gradient,
# and had switched recording off. *After* it, it hung a node on the result. What does that node have?

# %%
node = y.grad_fn
print("node:", node.label, "  ctx:", node.ctx)
rows = []
for name, edge in zip("abk", node.next_edges, strict=True):
    rows.append([name, "yes" if edge.is_valid() else "no", edge.node])
table(["argument", "leads somewhere", "to"], rows)

# %% [markdown]
# One **edge** per argument. The edge of `a` leads to an `AccumulateGrad`: the end of a path, where a
# leaf adds up what arrives in its `.grad`. The others lead nowhere: nobody asked.

# %%
reveal(guess, sum(edge.is_valid() for edge in node.next_edges))

# %% [markdown]
# Why is recording off inside? With it on, each `*` in `forward` would leave a node of its own, and
# there were two ways back: through these, and through our `backward`.
#
# ## Build it yourself
#
# Nothing of this is secret. An `apply` for plain numbers, in four steps:


# %%
class Ctx:
    """What forward hands to backward."""


class Node:
    def __init__(self, function, ctx, edges):
        self.function, self.ctx, self.edges = function, ctx, edges


class Leaf:
    grad = 0.0


class Value:
    def __init__(self, data, node=None):
        self.data, self.node = data, node


def apply(function, *args, ctx=None):
    edges = [a.node if isinstance(a, Value) else None for a in args]  # 1. look
    ctx = ctx or Ctx()  # a fresh one
    numbers = [a.data if isinstance(a, Value) else a for a in args]
    output = Value(function.forward(ctx, *numbers))  # 2. forward
    if any(edges):
        output.node = Node(function, ctx, edges)  # 3. the node, 4. hung on the output
    return output


# %% [markdown]
# (`forward` sees numbers, not `Value`s: that is our way to switch recording off.) Does it work? Two
# rules, and someone who walks back along the edges. In which order to walk is chapter 4; here each
# node hands on at once what it gets.


# %%
class Times:
    @staticmethod
    def forward(ctx, a, b):
        ctx.a, ctx.b = a, b
        return a * b

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.b, grad * ctx.a


class Exp:
    @staticmethod
    def forward(ctx, a):
        ctx.y = np.exp(a)
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        return (grad * ctx.y,)


def send(node, grad):
    if isinstance(node, Leaf):
        node.grad += grad
        return
    for upstream, g in zip(
        node.edges, node.function.backward(node.ctx, grad), strict=True
    ):
        if upstream:
            send(upstream, g)


x = Value(2.0, node=Leaf())
send(apply(Times, apply(Exp, x), x).node, 1.0)
print(f"ours:       {x.node.grad:.4f}")

x = lm.tensor(2.0, requires_grad=True)
(lm.exp(x) * x).backward()
print(f"lucid_mini: {x.grad.item():.4f}")

# %% [markdown]
# The number of chapter 1. What would be missing without each step? Without 1 there are no edges, and
# no gradient arrives; without 3 and 4 the result is a mere number. And must the ctx be a fresh one?

# %%
one = Ctx()
for name, ctx in {"a ctx per call": None, "one for both": one}.items():
    x = Value(2.0, node=Leaf())
    square = apply(Times, x, x, ctx=ctx)
    send(apply(Times, square, x, ctx=ctx).node, 1.0)
    print(f"derivative of (x * x) * x at 2, {name}: {x.node.grad:.0f}")

# %% [markdown]
# $3 x^2$ is 12. With one ctx, the second call overwrites what the first has saved, and both rules
# read it.
#
# The package takes the same four steps, with checks between them: its `apply` stands in
# `lucid_mini/autograd/function.py`.
#
# ## Before and after
#
# The real one, for two calls. A box is a node, its rows are what its ctx has saved, the arrows are
# its edges; gradients go against them, upwards.


# %%
class Quiet(Product):
    @staticmethod
    def forward(ctx, a, b, k):
        ctx.save_for_backward(a, b)
        ctx.k = k
        return k * a * b


lm.reset_names()
h = Quiet.apply(a, b, 10.0)
y = Quiet.apply(h, a, 1.0)
before = lm.draw.graph(y, names={"a": a, "b": b, "h": h, "y": y})
before

# %% [markdown]
# (`a = h` reads: what `forward` calls `a` is the tensor `h`.) `b` requires no gradient, so no edge
# leads to it; but it is *saved*, for the gradient of `a` reads it. Edges and saved tensors are two
# different things. And after backward?

# %%
y.sum().backward()
lm.draw.graph(y, names={"a": a, "b": b, "h": h, "y": y}, before=before)

# %% [markdown]
# Nodes and edges are still there, for `y` owns them. What the ctx had saved has been released.
#
# When does `apply` record nothing at all?

# %%
rows = []
for name, call in {
    "a requires a gradient": lambda: Quiet.apply(a, b, 10.0),
    "nobody does": lambda: Quiet.apply(b, b, 10.0),
    "inside no_grad": lm.no_grad()(lambda: Quiet.apply(a, b, 10.0)),
}.items():
    y = call()
    saved = lm.lifetime.saved(y).nbytes if y.grad_fn else 0
    rows.append([name, y.grad_fn is not None, saved])
table(["", "node", "bytes saved"], rows)

# %% [markdown]
# `forward` wrote into a ctx each time; without a node nobody owned it, and it was gone at once.
#
# ## Break it
#
# Step 1 looks at the arguments. What if a tensor hides in a list?

# %% tags=["raises-exception"]
Quiet.apply([a, a], b, 10.0)

# %% [markdown]
# ## Exercises
#
# **3.1** One line. How many edges that lead somewhere do all nodes together have, in the graph of
# `Quiet.apply(Quiet.apply(a, b, 2.0), a, 3.0)`?

# %%
answer = ...
check("3.1", answer)


# %% [markdown]
# **3.2** Will `apply(*args)` make a node? Return True or False. (`lm.is_tensor(x)` may help.)


# %%
def records(*args):
    return ...


check("3.2", records)


# %% [markdown]
# **3.3** Return a list of all leaves that a gradient of `tensor` will reach, each once. Start at
# `tensor.grad_fn`, follow `next_edges`; at the end of a path `edge.node.variable` is the leaf. (In
# a list `is`, not `==`, asks whether two tensors are one: `any(t is leaf for t in found)`.)


# %%
def leaves(tensor):
    return ...


check("3.3", leaves)

# %% [markdown]
# ## One real bug
#
# A Function may return several tensors. Someone returned them in a *list*. PyTorch looks for tensors
# in a tuple only: the list came back as it was, its tensors without nodes, and nothing was said
# ([pytorch#87713](https://github.com/pytorch/pytorch/issues/87713)). The same step 4, built into
# ours:


# %%
class TwoAndThree:
    @staticmethod
    def forward(ctx, a):
        return [Value(2 * a), Value(3 * a)]


def apply_several(function, *args):
    ctx = Ctx()
    outputs = function.forward(ctx, *[a.data for a in args])
    if isinstance(outputs, tuple):  # a list is not looked into, and nothing is said
        for output in outputs:
            output.node = Node(function, ctx, [a.node for a in args])
    return outputs


print("imitation: ", [v.node for v in apply_several(TwoAndThree, Value(1.0, Leaf()))])


class Several(lm.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return [2 * a, 3 * a]

    @staticmethod
    def backward(ctx, grad_2, grad_3):
        return 2 * grad_2 + 3 * grad_3


print("lucid_mini:", [v.grad_fn for v in Several.apply(a)])

with attempt():
    Quiet.apply(a, b, 10.0, scale=2.0)

# %% [markdown]
# Here a list is as good as a tuple. The last line is about an old wish: arguments by keyword, asked
# for in 2019 and refused for seven years
# ([pytorch#16940](https://github.com/pytorch/pytorch/issues/16940),
# [#182206](https://github.com/pytorch/pytorch/pull/182206)). `k=10.0` works here, and a wrong name is
# answered with the right ones.
#
# ## Recap
#
# - `apply` looks at the arguments, runs `forward` with a fresh ctx, makes a node, hangs it on the output.
# - The output owns the node, the node owns the ctx and one edge per argument.
# - If nobody wants a gradient, or under `no_grad`, there is no node and nothing is kept.
