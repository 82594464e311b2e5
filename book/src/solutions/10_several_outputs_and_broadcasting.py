# %% [markdown]
# # Solutions to chapter 10
#
# The tasks are in [chapter 10](../10_several_outputs_and_broadcasting.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

from exercises import check
from show import start

import lucid_mini as lm

start("10")

# %% [markdown]
# **10.1** Axis 0 was added and goes; axis 2 was stretched from 1 and stays.


# %%
def undo(grad):
    return grad.sum(0).sum(1, keepdim=True)


check("10.1", undo)


# %% [markdown]
# **10.2** Each input goes into both outputs. No case is needed for an output that was not used: its
# gradient is zeros.


# %%
class SumDiff(lm.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a + b, a - b

    @staticmethod
    def backward(ctx, grad_sum, grad_diff):
        return grad_sum + grad_diff, grad_sum - grad_diff


check("10.2", SumDiff)


# %% [markdown]
# **10.3** First the axes that go, then those that stay.


# %%
def sum_to(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(axis=0)
    for axis, length in enumerate(shape):
        if length == 1:
            grad = grad.sum(axis=axis, keepdims=True)
    return grad


check("10.3", sum_to)
