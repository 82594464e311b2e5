# %% [markdown]
# # Solutions to chapter 11
#
# The tasks are in [chapter 11](../11_what_does_it_cost_to_forget.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

import numpy as np
from exercises import check
from show import start

import lucid_mini as lm

start("11")

# %% [markdown]
# **11.1** A new tensor in the old dtype. Without it the engine refuses: what was saved had float64.


# %%
def to_half(tensor):
    return tensor.numpy().astype(np.float32)


def from_half(kept):
    return lm.tensor(kept, dtype=np.float64)


check("11.1", to_half, from_half)


# %% [markdown]
# **11.2** One bit for each number says whether it is 0; the others follow in order.


# %%
def squeeze(tensor):
    array = tensor.numpy()
    filled = array != 0
    return array.shape, array.dtype, np.packbits(filled), array[filled]


def stretch(kept):
    shape, dtype, bits, values = kept
    array = np.zeros(shape, dtype)
    array[np.unpackbits(bits, count=array.size).astype(bool).reshape(shape)] = values
    return lm.tensor(array)


check("11.2", squeeze, stretch)


# %% [markdown]
# **11.3** Nothing inside `forward` is recorded anyway. In backward recording is switched on, a new
# leaf takes the place of `x`, and a small pass ends at that leaf.


# %%
class Again(lm.autograd.Function):
    @staticmethod
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with lm.enable_grad():
            leaf = x.detach().requires_grad_()
            y = ctx.fn(leaf)
        (grad_x,) = lm.autograd.grad(y, leaf, grad)
        return None, grad_x


check("11.3", Again)
