# %% [markdown]
# # Solutions to chapter 14
#
# The tasks are in [chapter 14](../14_three_dialects.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

import torch
from exercises import check
from show import start

import lucid_mini as lm

start("14")

# %% [markdown]
# **14.1** A factor's gradient is the other factor times `grad`; each goes under its name.


# %%
def backward_of_product(ctx, grad):
    return {"a": grad * ctx.saved_variables.b, "b": grad * ctx.saved_variables.a}


check("14.1", backward_of_product)

# %% [markdown]
# **14.2** $y' = 1 / (2y)$: the output is enough. PyTorch attaches a saved output to its history again,
# so the second derivative is right, too.


# %%
class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.sqrt()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad / (2 * y)


check("14.2", Root)

# %% [markdown]
# **14.3** The derivative is the sigmoid. Operators, methods that both libraries have, and functions of
# `lm` reach PyTorch over the bridge.


# %%
class Softplus(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (1 + x.exp()).log()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.sigmoid()


check("14.3", Softplus)
