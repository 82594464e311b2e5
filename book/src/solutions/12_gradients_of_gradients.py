# %% [markdown]
# # Solutions to chapter 12
#
# The tasks are in [chapter 12](../12_gradients_of_gradients.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

import numpy as np
from exercises import check
from show import start

import lucid_mini as lm

start("12")

# %% [markdown]
# **12.1** With the tensors themselves: `x` has its history, and so has what is computed from it.


# %%
def rule(x, grad):
    return 3 * x * x * grad


check("12.1", rule)


# %% [markdown]
# **12.2** Each pass is recorded, so that the next can follow.


# %%
def nth(f, x, n):
    x = lm.tensor(x, requires_grad=True)
    value = f(x)
    for _ in range(n):
        (value,) = lm.autograd.grad(value, x, create_graph=True)
    return value.item()


check("12.2", nth)


# %% [markdown]
# **12.3** Row `i` is the gradient of element `i` of the gradient. All rows walk through the same
# graph, so it is retained; an element that depends on nothing gives zeros.


# %%
def hessian(f, x):
    (first,) = lm.autograd.grad(f(x), x, create_graph=True)
    rows = []
    for element in first:
        (row,) = lm.autograd.grad(
            element, x, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        rows.append(row.numpy())
    return np.stack(rows)


check("12.3", hessian)
