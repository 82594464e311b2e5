# %% [markdown]
# # Solutions to chapter 2
#
# The tasks are in [chapter 2](../02_who_decides_what_is_saved.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

from exercises import check
from show import start

import lucid_mini as lm

start("02")

# %% [markdown]
# **2.1** $y = \sqrt x$ has the derivative $1 / (2\sqrt x)$, and $\sqrt x$ is the output.


# %%
def sqrt_backward(y, grad):
    return grad / (2 * y)


check("2.1", sqrt_backward)

# %% [markdown]
# **2.2** The derivative of a sum is 1 for each element, so only the shape must be known.


# %%
class RowSum(lm.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.sum(1)

    @staticmethod
    def backward(ctx, grad):
        return grad.reshape(-1, 1) * lm.ones(*ctx.shape)


check("2.2", RowSum)

# %% [markdown]
# **2.3** The gradient of $a$ reads $b$, that of $b$ reads $a$. The number goes into an attribute,
# and its gradient is None.


# %%
class ScaledProduct(lm.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, k):
        need_a, need_b, _ = ctx.needs_input_grad
        ctx.save_for_backward(a if need_b else None, b if need_a else None)
        ctx.k = k
        return k * a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        grad_a = None if b is None else grad * ctx.k * b
        grad_b = None if a is None else grad * ctx.k * a
        return grad_a, grad_b, None


check("2.3", ScaledProduct)
