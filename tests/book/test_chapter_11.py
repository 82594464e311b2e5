"""What `check` says to answers of chapter 11."""

import numpy as np
import pytest

import lucid_mini as lm


def to_half(tensor):
    return tensor.numpy().astype(np.float32)


def test_11_1_right(said):
    assert said("11.1", to_half, lambda kept: lm.tensor(kept).to(float)).startswith("right.")


@pytest.mark.parametrize(
    ("unpack", "hint"),
    [
        (lm.from_numpy, "Pass the function"),
        (lambda kept: lm.tensor(kept) * 1, "dtype"),
        (lambda kept: kept, "ndarray, not a tensor"),
        (lambda kept: lm.tensor(2.0 * kept, dtype=np.float64), "other values"),
        (lambda kept: None, "`from_half` returns None"),
    ],
)
def test_11_1_says_what_is_wrong(said, unpack, hint):
    if unpack is lm.from_numpy:
        unpack = type("Unpack", (), {})
    assert hint in said("11.1", to_half, unpack)


def test_11_1_wants_both_functions(said):
    assert "Pass both" in said("11.1", to_half)


def squeeze(tensor):
    array = tensor.numpy()
    return array.shape, np.packbits(array != 0), array[array != 0]


def stretch(kept):
    shape, bits, values = kept
    array = np.zeros(shape)
    array[np.unpackbits(bits, count=array.size).astype(bool).reshape(shape)] = values
    return lm.tensor(array)


def reversed_(kept):
    shape, bits, values = kept
    return stretch((shape, bits, values[::-1]))


def with_index(tensor):
    array = tensor.numpy()
    return array.shape, np.packbits(array != 0), array[array != 0], np.arange(array.size)


def test_11_2_right(said):
    assert said("11.2", squeeze, stretch) == "right. 4,352 bytes became 2,932."


@pytest.mark.parametrize(
    ("pack", "unpack", "hint"),
    [
        (lambda t: t, lambda kept: kept, "nothing is saved"),
        (squeeze, reversed_, "a number is lost"),
        (with_index, lambda kept: stretch(kept[:3]), "nothing is saved"),
        (lambda t: None, stretch, "`squeeze` returns None"),
        (squeeze, lambda kept: None, "`stretch` returns None"),
    ],
)
def test_11_2_says_what_is_wrong(said, pack, unpack, hint):
    assert hint in said("11.2", pack, unpack)


def again(*, save=True, runs=1, enable=True, scale=True, more=False):
    class Again(lm.autograd.Function):
        @staticmethod
        def forward(ctx, fn, x):
            ctx.fn = fn
            y = fn(x)
            if save:
                ctx.save_for_backward(x, *([y] if more else []))
            else:
                ctx.x = x
            return y

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0] if save else ctx.x
            with lm.set_grad_enabled(enable):
                leaf = x.detach().requires_grad_()
                for _ in range(runs):
                    y = ctx.fn(leaf)
            seed = grad if scale else lm.ones(*grad.shape)
            (grad_x,) = lm.autograd.grad(y, leaf, seed)
            return None, grad_x

    return Again


def test_11_3_right(said):
    assert said("11.3", again()) == "right. 1,536 bytes kept, `fn` run twice."


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (again(save=False), "attribute of ctx"),
        (again(runs=2), "runs 2 times"),
        (again(enable=False), "NoGradientError"),
        (again(scale=False), "ignores `grad`"),
        (again(more=True), "1,536 bytes more than `x`"),
    ],
)
def test_11_3_says_what_is_wrong(said, function, hint):
    assert hint in said("11.3", function)
