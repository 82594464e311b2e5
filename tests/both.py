"""`lib`: lucid_mini and PyTorch behind the names they share, so that PyTorch says what is right.

A test here is written once and runs on both. Numbers are float64 on both sides. An error of
lucid_mini is asked for by its own class; PyTorch, which has one class for all, must raise too.
"""

import builtins
import importlib
from types import SimpleNamespace

import numpy as np
import pytest

import lucid_mini as lm

#: What either library raises for a program it refuses.
REFUSED = (RuntimeError, TypeError, ValueError, IndexError)

_SHARED = (
    *("abs", "amax", "amin", "argmax", "cat", "chunk", "clamp", "cos", "cumsum", "exp", "flatten"),
    *("gather", "index_select", "log", "log_softmax", "logsumexp", "masked_fill", "matmul", "max"),
    *("maximum", "mean", "min", "minimum", "permute", "prod", "relu", "sigmoid", "sin", "softmax"),
    *("split", "sqrt", "squeeze", "stack", "std", "sum", "tanh", "transpose", "unbind", "var"),
    *("unsqueeze", "where", "arange", "eye", "from_numpy", "full", "ones", "ones_like", "zeros"),
    *("zeros_like", "enable_grad", "inference_mode", "is_grad_enabled", "no_grad"),
    "set_grad_enabled",
)
_OF_AUTOGRAD = ("Function", "backward", "grad", "detect_anomaly")


class Lib(SimpleNamespace):
    """One library: its name, and the names that both have."""

    def T(self, *values):
        """A float64 tensor that requires grad."""
        return self.tensor([float(v) for v in values], requires_grad=True)

    def C(self, *values):
        """The same, without a gradient: a constant."""
        return self.tensor([float(v) for v in values])

    def name_of(self, node):
        """The name of a node: PyTorch asks by a method."""
        return node.name() if self.name == "torch" else node.name

    def number_of(self, node):
        """The sequence number of a node."""
        return node._sequence_nr() if self.name == "torch" else node.sequence_nr

    def ctx_of(self, node):
        """The ctx that forward and backward were given: in PyTorch the node itself."""
        return node if self.name == "torch" else node.ctx

    def refuses(self, error="AutogradError"):
        """`pytest.raises` for lucid_mini's own class, and for whatever PyTorch raises there."""
        if self.name == "torch":
            return pytest.raises(REFUSED)
        kind = getattr(lm.errors, error, None) or getattr(builtins, error)
        return pytest.raises(kind)

    def __repr__(self):
        return self.name


def g(x):
    """`x.grad` as lists, None where there is none."""
    return None if x.grad is None else x.grad.tolist()


def lucid_mini():
    """lucid_mini behind the shared names."""
    return Lib(
        name="lucid_mini",
        float32=np.dtype(np.float32),
        float64=np.dtype(np.float64),
        default_dtype=lambda dtype: dtype,
        tensor=lm.tensor,
        once_differentiable=lm.autograd.once_differentiable,
        saved_tensors_hooks=lm.autograd.saved_tensors_hooks,
        allow_mutation=lm.autograd.allow_mutation_on_saved_tensors,
        gradcheck=lm.gradcheck,
        gradgradcheck=lm.gradgradcheck,
        checkpoint=lm.checkpoint,
        **{name: getattr(lm, name) for name in _SHARED},
        **{name: getattr(lm.autograd, name) for name in _OF_AUTOGRAD},
    )


def torch():
    """PyTorch behind the same names, float64 by default.

    Skips, with the reason, where it does not import.
    """
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")
    function = importlib.import_module("torch.autograd.function")
    graph = importlib.import_module("torch.autograd.graph")
    checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint
    torch.set_num_threads(1)

    def tensor(data, requires_grad=False):
        made = torch.tensor(data)
        made = made.double() if made.is_floating_point() else made
        return made.requires_grad_(requires_grad)

    def default_dtype(dtype):
        found = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        return found

    return Lib(
        name="torch",
        float32=torch.float32,
        float64=torch.float64,
        default_dtype=default_dtype,
        tensor=tensor,
        once_differentiable=function.once_differentiable,
        saved_tensors_hooks=graph.saved_tensors_hooks,
        allow_mutation=graph.allow_mutation_on_saved_tensors,
        gradcheck=torch.autograd.gradcheck,
        gradgradcheck=torch.autograd.gradgradcheck,
        checkpoint=lambda fn, *args, **kwargs: checkpoint(fn, *args, use_reentrant=False, **kwargs),
        **{name: getattr(torch, name) for name in _SHARED},
        **{name: getattr(torch.autograd, name) for name in _OF_AUTOGRAD},
    )


MAKERS = {"lucid_mini": lucid_mini, "torch": torch}


def make_functions(lib):
    """Square saves its input, Mul both, Exp its output; Split gives 2x and 3x."""

    class Square(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    class Mul(lib.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return b * grad, a * grad

    class Exp(lib.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return y * grad

    class Split(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x, 3 * x

        @staticmethod
        def backward(ctx, grad_a, grad_b):
            return 2 * grad_a + 3 * grad_b

    return SimpleNamespace(Square=Square, Mul=Mul, Exp=Exp, Split=Split)


def rule(lib, backward, forward=None, name="Rule"):
    """A Function with the given rule; its forward copies its first argument."""
    body = {
        "forward": staticmethod(forward or (lambda ctx, x, *rest: x * 1)),
        "backward": staticmethod(backward),
    }
    return type(name, (lib.Function,), body)
