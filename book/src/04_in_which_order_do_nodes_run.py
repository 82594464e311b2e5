# %% [markdown]
# # 4 · In which order do nodes run?
#
# **Question.** Backward starts at the end and follows the edges. Where a value was used twice, two
# ways lead to it. Which node runs next, how do you know that its gradient is complete, and what
# goes wrong in an engine that takes the first order that comes to mind?

# %%
import itertools
from collections import Counter
from heapq import heappop, heappush

from exercises import check, reveal
from show import attempt, curves, start, table

import lucid_mini as lm

start("04")  # the look of the plots; a cell that was skipped is named
lm.reset_names()  # names such as mul#2 count from 1
lm.manual_seed(0)  # the same random numbers on every run

# %% [markdown]
# ## Predict
#
# A *ladder*: `x1 = x0 + x0`, `x2 = x1 + x1`, up to `x16`. These are 17 values. Someone writes
# backward as a function that runs a node and then calls itself for each value the node was made
# from. How many calls is that?

# %%
guess = ...  # 17, 34, 272 or 131_071

# %% [markdown]
# ## The smallest code
#
# A number that knows what it was made from, each with its local derivative (chapter 1). It also
# counts: a **visit** is one run of a node, a **look** is one reading of what it was made from.


# %%
class Number:
    visits = looks = 0
    serial = itertools.count(1)

    def __init__(self, data, made_from=()):
        self.data, self.made_from = data, made_from
        self.grad = 0.0
        self.number = next(Number.serial)  # later made, higher number

    def __add__(self, other):
        return Number(self.data + other.data, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        return Number(self.data * other.data, ((self, other.data), (other, self.data)))

    @property
    def upstream(self):
        Number.looks += 1
        return self.made_from

    def run(self, grad):
        """One (value, what to send it) for each value this one was made from."""
        Number.visits += 1
        return [(value, grad * local) for value, local in self.upstream]


def ladder(depth):
    x = y = Number(1.0)
    for _ in range(depth):
        y = y + y
    return x, y


x, y = ladder(2)
print(f"x = {x.data}, (x + x) + (x + x) = {y.data}")


# %% [markdown]
# So $y = 4x$, and the derivative must be 4. First idea: a node sends what stands in its `.grad`,
# then the same for each value upstream.


# %%
def read_grad(node):
    for value, g in node.run(node.grad):
        value.grad += g
    for value, _ in node.upstream:
        read_grad(value)


def measure(strategy, x, y):
    Number.visits = Number.looks = 0
    y.grad = 1.0
    strategy(y)
    return x.grad, Number.visits, Number.looks


print("x.grad, visits, looks:", measure(read_grad, *ladder(2)))


# %% [markdown]
# 8 for 4. The middle value is visited twice, and each time it sends *all* that has gathered in its
# `.grad`: 2, and once more 2. Second idea: pass on what arrives on this way, and no more.


# %%
def per_path(node, grad=1.0):
    for value, g in node.run(grad):
        value.grad += g
        per_path(value, g)


print("x.grad, visits, looks:", measure(per_path, *ladder(2)))

# %% [markdown]
# Right. And the visits? Each `+` doubles the ways that lead further.

# %%
grad, visits, _ = measure(per_path, *ladder(16))
print(f"depth 16: x.grad {grad:,.0f}, visits {visits:,}")
reveal(guess, visits)


# %% [markdown]
# A node should run once, when all has arrived. Whoever used a value is its **consumer**: a node may
# run when all its consumers have run. There are three ways to know. **Post-order**: go
# all the way up first, write each node down behind what it was made from, then run the list from
# its end.


# %%
def post_order(root):
    order, seen = [], set()

    def look(node):
        if node not in seen:
            seen.add(node)
            for value, _ in node.upstream:
                look(value)
            order.append(node)

    look(root)
    for node in reversed(order):
        for value, g in node.run(node.grad):
            value.grad += g


# %% [markdown]
# **Consumer counts**: one pass counts how often each value was used; a second one runs a node when
# its count has come down to zero.


# %%
def consumer_counts(root):
    missing, waiting = Counter(), [root]
    while waiting:
        for value, _ in waiting.pop().upstream:
            if value not in missing:
                waiting.append(value)
            missing[value] += 1
    ready = [root]
    while ready:
        node = ready.pop()
        for value, g in node.run(node.grad):
            value.grad += g
            missing[value] -= 1
            if missing[value] == 0:
                ready.append(value)


# %% [markdown]
# **Sequence numbers**: every value gets a number when it is made. A consumer cannot be made before
# what it consumes, so it has a higher one. Among the nodes reached, the highest number has no
# consumer left that has yet to run.


# %%
def sequence_numbers(root):
    reached, queue = {root}, [(-root.number, root)]
    while queue:
        node = heappop(queue)[1]  # the smallest of the negative: the highest number
        for value, g in node.run(node.grad):
            value.grad += g
            if value not in reached:
                reached.add(value)
                heappush(queue, (-value.number, value))


# %% [markdown]
# All five side by side: the ladder, and a chain of 20,000 ops.


# %%
def chain(length):
    x = y = Number(1.0)
    one = Number(1.0)
    for _ in range(length):
        y = y + one
    return x, y


strategies = (read_grad, per_path, post_order, consumer_counts, sequence_numbers)
rows = []
for strategy in strategies:
    small = measure(strategy, *ladder(2))[0]
    grad, visits, looks = measure(strategy, *ladder(16))
    try:
        deep = f"x.grad {measure(strategy, *chain(20_000))[0]:.0f}"
    except RecursionError as error:
        deep = type(error).__name__
    rows.append(
        [strategy.__name__, small, f"{grad:.6g}", f"{visits:,}", f"{looks:,}", deep]
    )
table(["", "for 4", f"for {2**16}", "visits", "looks", "chain of 20,000"], rows)

# %% [markdown]
# Three are right and visit each node once. Of these, post-order calls itself once per op, and Python
# allows a few thousand calls inside each other. It and the counts look at everything twice: one pass
# more. Sequence numbers do neither; they pay with a queue that keeps its order.

# %%
depths = range(1, 17)
visits = {s.__name__: [measure(s, *ladder(n))[1] for n in depths] for s in strategies}
curves(
    visits,
    x="depth of the ladder",
    y="visits",
    title="Visits of five strategies",
    caption="At depth 16: "
    + "; ".join(f"{name} {v[-1]:,}" for name, v in visits.items())
    + ".",
    log=True,
)

# %% [markdown]
# ## The real engine
#
# It takes sequence numbers. Every node has one (`sequence_nr`), the `#3` in a label is it. (PyTorch
# does both: it counts, and of the nodes that are ready it takes the highest number.) This graph uses a
# value several times; each row is one node that runs.

# %%
x = lm.tensor(2.0, requires_grad=True)
a = x.exp()
b = a.sin()
y = a * b + a
rows = []
for step in lm.autograd.steps(y, retain_graph=True):
    rows.append([step.node.label, ", ".join(step.ready)])
table(["runs", "wait afterwards, next one first"], rows)

# %% [markdown]
# After `add#4` both `mul#3` and `exp#1` have a gradient. Had `exp#1` run now, it would have missed
# what `mul#3` and `sin#2` send later. Step through it, with the keys ← and → (run the cell first:
# before that, the notebook shows the steps side by side).

# %%
lm.reset_names()
x.grad = None
a = x.exp()
b = a.sin()
y = a * b + a
lm.draw.stepper(y, names={"x": x, "a": a, "b": b, "y": y})

# %% [markdown]
# The number at a node says how many gradients are still to come. The engine never counts them; the
# number is shown so that you can check the order. And the two tests of the table?

# %%
lm.reset_names()  # the stepper was a backward pass of its own
x = y = lm.tensor(1.0, requires_grad=True)
for _ in range(16):
    y = y + y
print(
    "ladder:",
    len(list(lm.autograd.steps(y))),
    "nodes run, x.grad",
    f"{x.grad.item():,.0f}",
)

x = y = lm.tensor(1.0, requires_grad=True)
for _ in range(20_000):
    y = y + 1
y.backward()
print("chain: ", f"x.grad {x.grad.item():.0f}")

# %% [markdown]
# (16, not 17: the leaf `x` is no node that runs.)
#
# ## Break it
#
# What does a student see whose engine is post-order, one day, with a longer program?

# %%
with attempt():
    measure(post_order, *chain(20_000))

# %% [markdown]
# Nothing in it says that the graph is deep, or where.
#
# ## Exercises
#
# **4.1** One line. How many visits does `per_path` make on a ladder of depth $n$?


# %%
def visits_per_path(n):
    return ...


check("4.1", visits_per_path)

# %% [markdown]
# **4.2** `h = x.exp()`, `k = h * h`, `u = k.sin()`, `m = h + k`, `z = k * m`, and `z.backward()`. List
# these values in the order in which the engine runs the nodes that made them.

# %%
order = ...  # for example ["h", "k"]
check("4.2", order)


# %% [markdown]
# **4.3** Post-order without calling itself: write `backward(root)` for `Number`s with a list of what
# is still to do. Every node once, chains of any length, no sequence numbers. (`root.grad` is 1
# already; use `made_from`, `grad` and `run`.)


# %%
def backward(root):
    return ...


check("4.3", backward)

# %% [markdown]
# ## One real bug
#
# micrograd is a small engine to learn from, and it uses post-order. Again and again learners ask
# what the list is for: our `read_grad` was proposed as a simplification
# ([#64](https://github.com/karpathy/micrograd/pull/64),
# [#68](https://github.com/karpathy/micrograd/issues/68)), our `per_path` as an alternative
# ([#91](https://github.com/karpathy/micrograd/issues/91)), and chains of more than 1000 ops
# overflow ([#90](https://github.com/karpathy/micrograd/pull/90)). One proposal looks right at first
# sight: mark what was seen, call yourself, then run the node
# ([#96](https://github.com/karpathy/micrograd/issues/96)).


# %%
def run_last(root):
    seen = set()

    def visit(node):
        if node not in seen:
            seen.add(node)
            for value, _ in node.upstream:
                visit(value)
            for value, g in node.run(node.grad):  # after those upstream
                value.grad += g

    visit(root)


print("x.grad, visits, looks:", measure(run_last, *ladder(2)))

# %% [markdown]
# Each node once, and 0 for 4: those upstream have run before anything reached them. Post-order is
# the order of *forward*; backward needs it from its end.
#
# ## Recap
#
# - A node may run when all its consumers have run; then its gradient is complete.
# - Run per way, and the visits double with each re-use; send `.grad` twice, and the result is wrong.
# - A consumer is made later than what it consumes: the highest sequence number first is an order.
