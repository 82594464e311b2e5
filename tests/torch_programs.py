"""PyTorch programs that leak, each in one way, and programs that do not.

A leaking program returns what keeps the memory alive, or None where nothing in Python does.
"""

import functools
import gc
import sys
import weakref

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

N = 1000

# With the first optimizer PyTorch loads a part of itself, and an error that it catches on the way
# keeps the frames of the caller until a collection: that is not what these programs are about.
torch.optim.SGD([torch.zeros(1)], lr=1.0)
gc.collect()


def grown():
    """A tensor with history, 4000 bytes."""
    return torch.ones(N, requires_grad=True) * 2


# ---------------------------------------------------------------- leaks that a name leads to


def closure():
    z = grown()

    class Captures(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.relu()

        @staticmethod
        def backward(ctx, grad):
            return grad * (z > 0)

    Captures.apply(z).sum().backward()
    return Captures


def default():
    z = grown()

    class Defaults(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.relu()

        @staticmethod
        def backward(ctx, grad, z=z):
            return grad * (z > 0)

    Defaults.apply(z).sum().backward()
    return Defaults


class Keeping(torch.autograd.Function):
    """Keeps on ctx what it should save."""

    @staticmethod
    def forward(ctx, x, what):
        y = x * 2
        if what == "input":
            ctx.kept = x
        elif what == "output":
            ctx.kept = y
        elif what == "view":
            ctx.kept = y.view(-1)
        elif what == "saved view":
            ctx.save_for_backward(y.view(-1))
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


def ctx_input():
    y = Keeping.apply(grown(), "input")
    y.sum().backward()
    return y


def hook():
    x = torch.ones(N, requires_grad=True)
    z = x * 2
    x.register_hook(lambda grad: grad / (z * z).sum())
    z.sum().backward()
    return x


def hook_of_a_module():
    z = grown()
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, args, out: out + z.sum() * 0)
    layer(torch.ones(3, 2)).sum().backward()
    return layer


def list_of_losses():
    model, losses = nn.Linear(10, 1), []
    for _ in range(3):
        loss = model(torch.ones(5, 10)).pow(2).mean()
        loss.backward()
        losses.append(loss)
    return losses


class Layer:
    def __call__(self, x):
        self.seen = x
        return x.relu()


def instance_attribute():
    layer = Layer()
    layer(grown()).sum().backward()
    return layer


def cached():
    @functools.lru_cache
    def features(n):
        return torch.ones(n, requires_grad=True) * 2

    features(N).sum().backward()
    return features


def raised():
    """An error that somebody keeps, as an interactive prompt does."""

    def step():
        scores = grown()
        scores.backward()

    try:
        step()
    except RuntimeError as error:
        return error
    raise AssertionError


NAMED = {
    closure: "closure cell 'z'",
    default: "default of 'z'",
    ctx_input: "ctx attribute 'kept'",
    hook: "closure cell 'z'",
    hook_of_a_module: "closure cell 'z'",
    list_of_losses: "[0]",
    instance_attribute: "attribute .seen",
    cached: "inside a _lru_cache_wrapper",
    raised: "traceback, local 'scores' of step",
}


# ---------------------------------------------------------------- leaks that no name leads to


def ctx_output():
    Keeping.apply(grown(), "output").sum().backward()


def list_cycle():
    y = grown()
    y.friends = [y]


def module_hook_cycle():
    layer, seen = nn.Linear(3, 3), []
    layer.register_forward_hook(lambda module, args, out: seen.append((layer, out)))
    layer(torch.ones(2, 3))


def error_in_its_own_frame():
    z = grown()
    try:
        z.backward()
    except RuntimeError as error:
        kept = error
    return str(kept)[:0] or None


#: The collector frees these.
CYCLES = {
    error_in_its_own_frame: "traceback, local 'kept' of error_in_its_own_frame",
    ctx_output: "ctx attribute 'kept'",
    list_cycle: "attribute .friends",
    module_hook_cycle: "closure cell 'seen'",
}


def own_hook():
    y = grown()
    y.register_hook(lambda grad: grad * y.sum().item())
    y.sum().backward()


def ctx_view():
    Keeping.apply(grown(), "view").sum().backward()


def saved_view_without_backward():
    Keeping.apply(grown(), "saved view")


def create_graph():
    x = torch.ones(N, requires_grad=True)
    (x**3).sum().backward(create_graph=True)


def pack_hook_that_returns_the_output():
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        grown().exp()


def ctx_downstream():
    """Ctx -> tensor -> its node -> the node that is the ctx."""
    y = Keeping.apply(grown(), "nothing")
    y.grad_fn.kept = y * 3
    y.sum().backward()


#: Nothing frees these: the cycle passes through C++, where the collector does not look.
PERMANENT = {
    own_hook: "closure cell 'y'",
    ctx_view: "ctx attribute 'kept'",
    saved_view_without_backward: "saved tensor '0'",
    create_graph: ".grad",
    pack_hook_that_returns_the_output: "packed 'result'",
    ctx_downstream: "ctx attribute 'kept'",
}


def hook_on_a_tensor_that_is_gone():
    """The hook lives in the node alone; its graph is kept by the result."""
    z = grown()
    y = torch.ones(N, requires_grad=True) * 3
    y.register_hook(lambda grad: grad * z)
    out = y.sum()
    del y
    out.backward()
    return out


# ---------------------------------------------------------------- programs that do not leak
# Each returns three things, for three names.


def _net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def mlp_with_adam():
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(20, 8), torch.randint(0, 3, (20,))
    history = []
    for _ in range(4):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return model, optimizer, history


class Good(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        ctx.scale = 2.0
        return y

    @staticmethod
    def backward(ctx, grad):
        _, y = ctx.saved_tensors
        return grad * y


def custom_function():
    x = torch.linspace(0, 1, 50, requires_grad=True)
    Good.apply(x * 2).sum().backward()
    return x, None, None


def checkpointed():
    model = _net()
    out = checkpoint(model, torch.ones(4, 8, requires_grad=True), use_reentrant=False)
    out.sum().backward()
    return model, None, None


def retained_then_released():
    x = torch.linspace(0, 1, 50, requires_grad=True)
    loss = (x.exp() * x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return x, None, None


def inference():
    model = _net()
    with torch.no_grad():
        out = model(torch.ones(4, 8))
    return model, out, None


def rnn_with_detach():
    torch.manual_seed(0)
    cell = nn.RNNCell(4, 6)
    h = torch.zeros(2, 6)
    for _ in range(3):
        h = cell(torch.randn(2, 4), h)
        h = cell(torch.randn(2, 4), h)
        h.sum().backward()
        h = h.detach()
    return cell, h, None


def in_place():
    x = torch.linspace(0, 1, 50, requires_grad=True)
    y = x * 2
    y.mul_(3).add_(1)
    y[:10] = 0
    y.sum().backward()
    return x, None, None


def hooks_removed():
    x = torch.linspace(0, 1, 50, requires_grad=True)
    z = x * 2
    watch = weakref.ref(z)
    handle = x.register_hook(lambda grad: grad / (watch() * watch()).sum())
    layer = nn.Linear(50, 1)
    seen = []
    forward = layer.register_forward_hook(lambda module, args, out: seen.append(out.item()))
    layer(z).sum().backward()
    handle.remove()
    forward.remove()
    return x, layer, seen


def double_backward():
    x = torch.linspace(0.1, 1, 50, requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return x, second, None


def loader_loop():
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,)))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    total = 0.0
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
    return model, optimizer, total


CLEAN = [
    mlp_with_adam,
    custom_function,
    checkpointed,
    retained_then_released,
    inference,
    rnn_with_detach,
    in_place,
    hooks_removed,
    double_backward,
    loader_loop,
]

if __name__ == "__main__":
    kept = globals()[sys.argv[1]]()
