"""scan on PyTorch code: each form of capture is named, and what is no capture is not."""

import functools

import pytest

torch = pytest.importorskip("torch", reason="the bridge needs PyTorch")

import lucid_mini as lm

scan = lm.bridge.torch.scan


def grown():
    """A tensor with history, 4000 bytes."""
    return torch.ones(1000, requires_grad=True) * 2


class Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.exp()


class Keeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, how):
        y = x * 2
        if how == "input":
            ctx.kept = x
        elif how == "list":
            ctx.kept = {"all": [x]}
        elif how == "view":
            ctx.kept = y.view(-1)
        elif how == "saved view":
            ctx.save_for_backward(y.view(-1))
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


def test_a_function_that_saves_as_it_should_captures_nothing():
    assert scan(Plain) == []
    assert repr(scan(Plain)) == "nothing captured"
    assert scan(Plain.apply(grown()).sum()) == []


def test_a_closure_cell_of_a_backward_is_named_with_its_line():
    z = grown()

    class Captures(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.relu()

        @staticmethod
        def backward(ctx, grad):
            return grad * (z > 0)

    (found,) = scan(Captures)
    assert (found.holder, found.how) == ("Captures.backward", "closure cell 'z'")
    assert (found.shape, found.nbytes, found.has_history) == ((1000,), 4000, True)
    assert found.where.startswith("test_scan.py:")
    assert "save_for_backward" in found.fix
    (again,) = scan(Captures.apply(grown()))
    assert (again.holder, again.how) == ("Captures.backward", "closure cell 'z'")


def test_a_default_a_partial_and_a_bound_self_are_named():
    z = grown()

    def with_default(grad, z=z):
        return grad

    class Layer:
        def __init__(self):
            self.cache = z

        def rule(self, grad):
            return grad

    assert [f.how for f in scan(with_default)] == ["default of 'z'"]
    assert [f.how for f in scan(functools.partial(max, z))] == ["argument 0"]
    assert [f.how for f in scan(Layer().rule)] == ["bound self, attribute .cache"]


GLOBAL = [torch.ones(10)]


def reads_a_global():
    return GLOBAL[0]


def test_a_global_that_the_code_reads_is_named():
    (found,) = scan(reads_a_global)
    assert found.how == "global 'GLOBAL'[0]"
    assert (found.nbytes, found.has_history) == (40, False)


@pytest.mark.parametrize(
    ("how", "said"),
    [("input", "ctx attribute 'kept'"), ("list", "ctx attribute 'kept'['all'][0]")],
)
def test_an_attribute_of_ctx_is_found_in_the_graph_of_a_result(how, said):
    (found,) = scan(Keeping.apply(grown(), how).sum())
    assert (found.holder, found.how, found.nbytes) == ("Keeping", said, 4000)
    assert found.where.startswith("test_scan.py:")


def test_a_view_of_the_output_in_ctx_and_a_saved_one_are_both_found():
    (kept,) = scan(Keeping.apply(grown(), "view"))
    assert kept.how == "ctx attribute 'kept'"
    (saved,) = scan(Keeping.apply(grown(), "saved view"))
    assert saved.how == "saved view of the output '0'"
    assert "save the output itself" in saved.fix.lower()


def test_a_pack_hook_that_returns_the_live_output_is_found():
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = grown().exp()
    (found,) = scan(y)
    assert (found.holder, found.how) == ("ExpBackward0", "packed output 'result'")
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        y = grown().exp()
    assert scan(y) == []


def test_a_hook_that_captures_its_own_tensor_is_found_on_the_tensor():
    y = grown()
    y.register_hook(lambda grad: grad * y.sum())
    (found,) = scan(y)
    assert found.how == "hook, closure cell 'y'"
    assert "weakref" in found.fix


def test_a_hook_on_a_leaf_is_found_from_the_loss():
    w, z = torch.ones(10, requires_grad=True), grown()
    w.register_post_accumulate_grad_hook(lambda leaf: z)
    (found,) = scan((w * 2).sum())
    assert found.how == "hook (post accumulate), closure cell 'z'"


def test_the_hooks_of_a_module_and_of_its_parameters_are_found():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    assert scan(model) == []
    z = grown()
    seen = []
    model[1].register_forward_hook(lambda module, args, out: seen.append(out))
    model[0].weight.register_hook(lambda grad: grad * z.sum())
    model(torch.ones(4, 3))
    found = {f.holder: f for f in scan(model)}
    assert set(found) == {"1 (ReLU)", "0.weight"}
    assert found["1 (ReLU)"].how == "hook (forward), closure cell 'seen'[0]"
    assert found["1 (ReLU)"].has_history
    assert found["0.weight"].how == "hook, closure cell 'z'"


def test_a_module_that_keeps_its_losses_is_found_and_its_parameters_are_not():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 1)
            self.losses = []

        def forward(self, x):
            loss = self.fc(x).sum()
            self.losses.append(loss)
            return loss

    net = Net()
    net(torch.ones(2, 3))
    (found,) = scan(net)
    assert (found.holder, found.how) == ("Net", "attribute .losses[0]")
    assert found.has_history


def test_what_can_be_none_of_these_is_refused_in_one_sentence():
    with pytest.raises(TypeError, match=r"^lm\.bridge\.torch\.scan takes .*, not int$"):
        scan(3)


def test_the_scan_of_lucid_mini_stays_what_it_was():
    z = lm.ones(10, requires_grad=True) * 2

    def rule(grad):
        return grad * z

    (found,) = lm.lifetime.scan(rule)
    assert (found.how, found.nbytes, found.has_history) == ("closure cell 'z'", 80, True)
