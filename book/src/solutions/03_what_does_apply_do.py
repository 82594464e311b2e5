# %% [markdown]
# # Solutions to chapter 3
#
# The tasks are in [chapter 3](../03_what_does_apply_do.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

from exercises import check
from show import start

import lucid_mini as lm

start("03")

# %% [markdown]
# **3.1** The inner call has one edge, to `a`; `b` wants nothing. The outer call has two, one to the
# inner node and one to `a`.

# %%
answer = 3
check("3.1", answer)


# %% [markdown]
# **3.2** Recording is on, and somebody wants a gradient.


# %%
def records(*args):
    return lm.is_grad_enabled() and any(
        lm.is_tensor(a) and a.requires_grad for a in args
    )


check("3.2", records)


# %% [markdown]
# **3.3** A list of nodes still to look at, and a set of those that were looked at.


# %%
def leaves(tensor):
    found, waiting, met = [], [tensor.grad_fn], set()
    while waiting:
        for edge in waiting.pop().next_edges:
            if not edge.is_valid() or edge.node in met:
                continue
            met.add(edge.node)
            if edge.node.next_edges:
                waiting.append(edge.node)
            else:  # the end of a path
                found.append(edge.node.variable)
    return found


check("3.3", leaves)
