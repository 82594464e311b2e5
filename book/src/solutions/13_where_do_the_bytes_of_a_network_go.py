# %% [markdown]
# # Solutions to chapter 13
#
# The tasks are in [chapter 13](../13_where_do_the_bytes_of_a_network_go.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

import numpy as np
from exercises import check
from show import start

import lucid_mini as lm

start("13")

# %% [markdown]
# **13.1** For each image 64 pixels, 64 outputs of `relu` (one buffer for two nodes), 10 scores and a
# label; and `W1` once. `W0` is not saved: nobody asks for the gradient of the pixels.


# %%
def saved_bytes(n):
    return 8 * (n * (64 + 64 + 10 + 1) + 64 * 10)


check("13.1", saved_bytes)


# %% [markdown]
# **13.2** A slice at a time, under `no_grad`; what is kept is a number.


# %%
def count_right(scores_of, pixels, labels, size):
    right = 0
    with lm.no_grad():
        for first in range(0, len(pixels), size):
            scores = scores_of(lm.tensor(pixels[first : first + size]))
            answers = scores.argmax(1).numpy()
            right += int((answers == labels[first : first + size]).sum())
    return right


check("13.2", count_right)


# %% [markdown]
# **13.3** The mean over all rows is the sum of the means of the parts, each with its share as weight.
# A gradient is linear: what holds for the losses holds for the gradients, and `.grad` adds them.


# %%
def accumulate(loss_of, rows, parts):
    total = 0.0
    for part in np.array_split(rows, parts):
        loss = loss_of(part) * (len(part) / len(rows))
        loss.backward()
        total += loss.item()
    return total


check("13.3", accumulate)
