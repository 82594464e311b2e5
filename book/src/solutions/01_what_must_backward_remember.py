# %% [markdown]
# # Solutions to chapter 1
#
# The tasks are in [chapter 1](../01_what_must_backward_remember.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

import numpy as np
from exercises import check
from show import start

start("01")

# %% [markdown]
# **1.1** `exp` keeps its output, `sin` its input, and these are one buffer of 1000 times 8 bytes.

# %%
answer = 8000
check("1.1", answer)


# %% [markdown]
# **1.2** The derivative of the outer function, of the inner one, and what arrives.


# %%
def rule(x, grad):
    return grad * np.cos(x * x) * 2 * x


check("1.2", rule)


# %% [markdown]
# **1.3** The derivative with respect to $a$ is $b e^{ab} + \cos a$, that with respect to $b$ is
# $a e^{ab}$.
# They read $a$, $b$ and $e^{ab}$; not $ab$, not $\sin a$, not $y$.


# %%
def forward(a, b):
    e = np.exp(a * b)
    return e + np.sin(a), (a, b, e)


def backward(kept, grad):
    a, b, e = kept
    return grad * (b * e + np.cos(a)), grad * a * e


check("1.3", forward, backward)
