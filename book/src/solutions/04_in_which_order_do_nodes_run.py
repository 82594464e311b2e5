# %% [markdown]
# # Solutions to chapter 4
#
# The tasks are in [chapter 4](../04_in_which_order_do_nodes_run.ipynb).

# %%
import sys

sys.path.insert(0, "..")  # the helpers of the book lie one folder up

from exercises import check
from show import start

start("04")

# %% [markdown]
# **4.1** One visit at the end, and twice as many in each rung below: $1 + 2 + 4 + \dots + 2^n$.


# %%
def visits_per_path(n):
    return 2 ** (n + 1) - 1


check("4.1", visits_per_path)

# %% [markdown]
# **4.2** Among those reached, always the one that was made last. Nothing leads from `z` to `u`.

# %%
order = ["z", "m", "k", "h"]
check("4.2", order)


# %% [markdown]
# **4.3** What is to be done stands in a list, and every value twice: the first time, what it was made
# from is put on top of it; the second time, all of that is written down already.


# %%
def backward(root):
    order, seen, to_do = [], set(), [(root, False)]
    while to_do:
        node, upstream_is_done = to_do.pop()
        if upstream_is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            to_do.append((node, True))
            to_do.extend((value, False) for value, _ in node.made_from)
    for node in reversed(order):
        for value, g in node.run(node.grad):
            value.grad += g


check("4.3", backward)
