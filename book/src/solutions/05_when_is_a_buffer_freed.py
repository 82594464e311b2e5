# %% [markdown]
# # Solutions to chapter 5
#
# The tasks are in [chapter 5](../05_when_is_a_buffer_freed.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

import numpy as np
from exercises import check
from show import start

import lucid_mini as lm

start("05")
lm.reset_names()
lm.manual_seed(0)

# %% [markdown]
# The step of the chapter, once more.

# %%
data = np.linspace(-1.0, 1.0, 64 * 32).reshape(64, 32)
W = (lm.randn(32, 32) * 0.2).requires_grad_()


def careless_step(W, data):
    x = lm.tensor(data)
    z = x @ W
    h = z.tanh()
    squares = h * h
    loss = squares.sum()
    loss.backward()
    return loss.item()


with lm.lifetime.trace() as careless:
    careless_step(W, data)

# %% [markdown]
# **5.1** The longest orange bar among the large ones: `z`, which nothing reads after `tanh`.

# %%
answer = "matmul#1"
check("5.1", answer, careless)

# %% [markdown]
# **5.2** No name for what is read once.


# %%
def lean(W, data):
    h = (lm.tensor(data) @ W).tanh()
    loss = (h * h).sum()
    loss.backward()
    return loss.item()


check("5.2", lean, careless_step)

# %% [markdown]
# **5.3** Keep `z`, and compute the sigmoid again.


# %%
class Swish(lm.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z * z.sigmoid()

    @staticmethod
    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        s = z.sigmoid()
        return grad * (s + z * s * (1 - s))


check("5.3", Swish)
