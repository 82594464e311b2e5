# %% [markdown]
# # Solutions to chapter 7
#
# The tasks are in [chapter 7](../07_why_does_memory_grow.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

from exercises import check
from show import start

import lucid_mini as lm

start("07")

# %% [markdown]
# **7.1** The number without its history.


# %%
def keep(loss):
    return loss.item()


check("7.1", keep)


# %% [markdown]
# **7.2** Under `no_grad` nothing is saved, and a Python number has no history.


# %%
def mean_loss(loss_of, batches):
    total = 0.0
    with lm.no_grad():
        for batch in batches:
            total += loss_of(batch).item()
    return total / len(batches)


check("7.2", mean_loss)


# %% [markdown]
# **7.3** The state is cut before it is used, the update leaves no record, and the list gets numbers.


# %%
def train(W, x, n):
    losses = []
    state = lm.zeros(*x.shape)
    for _ in range(n):
        state = (x + state.detach() @ W).tanh()
        loss = (state * state).mean()
        loss.backward()
        with lm.no_grad():
            W -= 0.1 * W.grad
        W.grad = None
        losses.append(loss.item())
    return losses


check("7.3", train)
