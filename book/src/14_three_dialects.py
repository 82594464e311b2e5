# %% [markdown]
# # 14 · The same Function in Lucid, R torch and PyTorch: what differs?
#
# **Question.** You have written a Function here. Lucid, R torch and PyTorch have Functions, too. What
# is spelled otherwise there, what behaves otherwise, and how does a Function of yours get over to
# PyTorch without being written again?

# %%
import gc

import torch
from exercises import check, reveal
from show import attempt, start, table

import lucid_mini as lm

start("14")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# Further down, nine programs run on PyTorch and on lucid_mini. Each does something doubtful, such as
# returning a gradient of the wrong shape. How many of the nine does PyTorch refuse with an error?

# %%
guess = ...  # a number

# %% [markdown]
# ## The smallest code
#
# $y = x^n$ keeps a tensor and a number. Lucid's dialect: the ctx has a bag, with `store` and `load`.


# %%
class Power(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.store("n", n)
        return x**n

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        n = ctx.load("n")
        return n * x ** (n - 1) * grad, None


# %% [markdown]
# R torch's: two functions instead of a class; whatever is saved has a name, and so has a gradient. In
# R it reads `ctx$save_for_backward(x = x, n = n)` and `list(x = ...)`.


# %%
def forward(ctx, x, n):
    ctx.save_for_backward(x=x, n=n)
    return x**n


def backward(ctx, grad):
    kept = ctx.saved_variables
    return {"x": kept.n * kept.x ** (kept.n - 1) * grad, "n": None}


power = lm.autograd.autograd_function(forward, backward, "PowerR")

# %% [markdown]
# lucid_mini speaks both. PyTorch's dialect saves tensors by position; the number becomes an attribute:


# %%
class PowerT(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x**n

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.n * x ** (ctx.n - 1) * grad, None


def gradient(lib, call):
    x = lib.tensor([2.0, 3.0], requires_grad=True)
    call(x, 3).sum().backward()
    return x.grad.tolist()


rows = [
    ["Lucid", "lucid_mini", gradient(lm, Power.apply)],
    ["R torch", "lucid_mini", gradient(lm, power)],
    ["PyTorch", "PyTorch", gradient(torch, PowerT.apply)],
]
table(["dialect", "runs on", "gradient at 2 and 3"], rows)

# %% [markdown]
# One gradient, three spellings. What do the first two keep?

# %%
x = lm.tensor([2.0, 3.0], requires_grad=True)
lm.draw.graph(Power.apply(x, 3) + power(x, 3), names={"x": x})

# %% [markdown]
# The same: `x`, in one buffer (one badge). The bag of Lucid's dialect lives as long as its node;
# what R's dialect saves by name is released with the tensors.
#
# ## What behaves otherwise
#
# Both libraries have `tensor` and `autograd.Function` under the same names, so one program can run on
# either. Each of these takes the library as its argument:


# %%
def run(lib, forward, backward, *more):
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    function = type("Rule", (lib.autograd.Function,), body)
    x = lib.tensor([2.0, 3.0], requires_grad=True)
    (function.apply(x, *more) * x).sum().backward()
    return x.grad.tolist()


def keep(method):  # a forward that does something with its ctx, and copies x
    return lambda ctx, x, *more: [method(ctx, x), x * 1][1]


copy = keep(lambda ctx, x: None)


def hidden(lib):
    x = lib.tensor([2.0, 3.0], requires_grad=True)
    run(lib, lambda ctx, y, xs: y + xs[0], lambda ctx, g: (g, None), [x])
    return x.grad


def twice(lib):
    x = lib.tensor([2.0, 3.0], requires_grad=True)
    y = x.sum()
    y.backward()
    y.backward()
    return x.grad.tolist()


programs = {
    "a gradient that should be summed": lambda lib: run(
        lib, copy, lambda ctx, g: g.unsqueeze(0) * lib.ones(4, 1)
    ),
    "gradients under their names": lambda lib: run(lib, copy, lambda ctx, g: {"x": g}),
    "a number saved by keyword": lambda lib: run(
        lib, keep(lambda ctx, x: ctx.save_for_backward(n=3)), lambda ctx, g: g
    ),
    "a tensor hidden in a list": hidden,
    "an input written, not marked": lambda lib: run(
        lib, lambda ctx, x: x.detach().mul_(10) * 1, lambda ctx, g: g
    ),
    "saving in backward": lambda lib: run(
        lib, copy, lambda ctx, g: [ctx.save_for_backward(g), g][1]
    ),
    "hiding needs_input_grad": lambda lib: run(
        lib, keep(lambda ctx, x: setattr(ctx, "needs_input_grad", 5)), lambda ctx, g: g
    ),
    "the gradient written in backward": lambda lib: run(
        lib, copy, lambda ctx, g: g.mul_(5)
    ),
    "backward twice, nothing saved": twice,
}


# %%
def told(program, lib):
    try:
        return str(program(lib))
    except Exception as error:
        return type(error).__name__


rows = [[name, told(p, torch), told(p, lm)] for name, p in programs.items()]
table(["program", "PyTorch", "lucid_mini"], rows)

# %%
reveal(guess, sum(row[1].endswith("Error") for row in rows))

# %% [markdown]
# Without mistakes the gradient is `[4.0, 6.0]`, in the last row `[1.0, 1.0]`. PyTorch refuses what
# lucid_mini takes: names. Where lucid_mini refuses, PyTorch gives an answer, and some of those are
# wrong. The whole list, each row with its reason, is in [differences](../docs/differences.md).
#
# ## The way over
#
# `to_torch` makes a Function of PyTorch out of one of lucid_mini. Nothing is written again, and PyTorch's
# engine owns the graph:

# %%
Taken = lm.bridge.torch.to_torch(Power)
x = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
y = Taken.apply(x, 3)
print("value:", y.tolist())
print("node: ", y.grad_fn.name())
print("kept: ", [t.tolist() for t in y.grad_fn.saved_tensors])

# %% [markdown]
# PyTorch keeps `x`, checks its version, releases it after backward. The rule runs on PyTorch's tensors,
# so PyTorch can record it, too. Are the derivatives right, to the second order? PyTorch's own
# `gradcheck` compares them with differences. And lucid_mini's, to the last bit?

# %%
(first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
(second,) = torch.autograd.grad(first.sum(), x)
ours = lm.tensor([2.0, 3.0], requires_grad=True)
(first_here,) = lm.autograd.grad(Power.apply(ours, 3).sum(), ours, create_graph=True)
(second_here,) = lm.autograd.grad(first_here.sum(), ours)
orders = {"first": (first, first_here), "second": (second, second_here)}
table(
    ["derivative", "PyTorch", "lucid_mini"],
    [[order, *[g.tolist() for g in both]] for order, both in orders.items()],
)
print("differences agree:", torch.autograd.gradcheck(Taken.apply, (x, 3)))
print("and once more:    ", torch.autograd.gradgradcheck(Taken.apply, (x, 3)))

# %% [markdown]
# From here on it is an op of PyTorch like any other, in a module or on many machines:
# [distributed](../docs/distributed.md).
#
# ## The diagnosis, over there
#
# The other thing that goes over is the question who keeps which bytes alive.
# `lm.bridge.torch.trace()` watches a PyTorch program as `lm.lifetime.trace()` watches one of
# lucid_mini. Below, a training loop; its Function keeps its output in the ctx, which PyTorch lets pass
# without a word:


# %%
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()
        return ctx.y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.y


class SavedExp(Exp):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


def train(function):
    weights = torch.zeros(1000, dtype=torch.float64, requires_grad=True)
    for _ in range(3):
        loss = function.apply(weights * 1).sum()
        loss.backward()


gc.collect()
gc.disable()  # what a counter of references cannot free, stays
for function in (Exp, SavedExp):
    with lm.bridge.torch.trace() as t:
        train(function)
    print(f"after {function.__name__}: {t.live_bytes():,} bytes alive")
    for left in t.survivors():
        print(f"  {left.name}, {left.nbytes:,} bytes: {left.holder}")
gc.enable()

# %% [markdown]
# Each turn of the loop leaves its graph behind: the ctx, which in PyTorch is the node, holds the
# output, and the output holds the node. Saved as it should be, nothing stays. For a whole script,
# `lucid-mini doctor SCRIPT` runs it, and says the same with the line and the repair.
#
# ## Break it
#
# The strictness comes along. The first program of the table, on PyTorch's engine; and a tensor given to
# the wrong library:


# %%
class Careless(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, grad):
        return grad, grad  # bias was broadcast


bias = torch.zeros(1, dtype=torch.float64, requires_grad=True)
with attempt():
    lm.bridge.torch.to_torch(Careless).apply(x, bias).sum().backward()
with attempt():
    lm.exp(x)

# %% [markdown]
# ## Exercises
#
# **14.1** One line, in R torch's dialect. `forward` was called with `a` and `b`, saved both by keyword
# (`a=a, b=b`) and returned `a * b`. Write its `backward`, which returns the gradients by name.


# %%
def backward_of_product(ctx, grad):
    return ...


check("14.1", backward_of_product)

# %% [markdown]
# **14.2** In PyTorch's dialect. Write the Function `Root` for $y = \sqrt x$, which saves one tensor: its
# output.

# %%
Root = ...  # a class

check("14.2", Root)

# %% [markdown]
# **14.3** Once for both libraries. Write for lucid_mini the Function `Softplus`, $y = \log(1 + e^x)$, that
# saves `x` alone. Its rule must be right to the second order, on lucid_mini and, taken over, on
# PyTorch.

# %%
Softplus = ...  # a class

check("14.3", Softplus)

# %% [markdown]
# ## One real bug
#
# A network for videos brought its own PyTorch Function, a convolution of an image with a kernel. In
# PyTorch's older dialect a Function was an object, and the size of the kernel belonged to it. Ported to
# static methods, the size became the third argument of `forward`; `backward` still returned two
# gradients, and the gradient check beside it still called the old form
# ([STFAN#8](https://github.com/sczhou/STFAN/issues/8)). In small, on both libraries:


# %%
def scale(lib):
    class Scale(lib.autograd.Function):
        @staticmethod
        def forward(ctx, image, kernel, size):
            ctx.save_for_backward(image, kernel)
            return image * kernel * size

        @staticmethod
        def backward(ctx, grad):
            image, kernel = ctx.saved_tensors
            return grad * kernel, grad * image  # and the third argument?

    image, kernel = (lib.ones(2, requires_grad=True) for _ in range(2))
    Scale.apply(image, kernel, 3).sum().backward()


with attempt():
    scale(torch)
with attempt():
    scale(lm)

# %% [markdown]
# Both notice, at the first backward; one says which arguments there are. The repair is a third gradient,
# `None`. No call of `forward` would have found it: a ported Function is tested by a backward, and by
# `gradcheck`. It would find here, too, that both gradients lack the factor `size`.
#
# ## Recap
#
# - The dialects differ in spelling: a bag, names or positions. What is kept and computed is the same.
# - In behaviour lucid_mini differs on purpose: names are welcome, and what would be silent is refused.
# - `to_torch` takes a Function over unchanged; PyTorch owns the graph, the rule and its checks are yours.
