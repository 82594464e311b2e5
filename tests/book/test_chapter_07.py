"""What `check` says to answers of chapter 7."""

import pytest

import lucid_mini as lm


@pytest.mark.parametrize(
    "keep", [lambda loss: loss.item(), float, lambda loss: loss.detach(), lambda loss: loss.numpy()]
)
def test_7_1_right(said, keep):
    if keep is float:  # a class is no function of the reader's
        assert "Pass the function" in said("7.1", keep)
    else:
        assert said("7.1", keep).startswith("right.")


@pytest.mark.parametrize(
    ("keep", "hint"),
    [
        (lambda loss: loss, "holds 2,056 bytes"),
        (lambda loss: loss.grad_fn, "bytes, for one number"),
        (lambda loss: loss.item() + 1, "another number"),
        (lambda loss: str(loss.item()), "of type str"),
        (lambda loss: None, "`return` is missing"),
        (lambda loss: loss.detach().requires_grad_() + 0, "a grad_fn still"),
    ],
)
def test_7_1_says_what_is_wrong(said, keep, hint):
    assert hint in said("7.1", keep)


def with_history(loss_of, batches):
    total = 0.0
    for batch in batches:
        total = total + loss_of(batch)
    return (total / len(batches)).item()


def recorded(loss_of, batches):
    return sum(loss_of(batch).item() for batch in batches) / len(batches)


def unrecorded(loss_of, batches):
    with lm.no_grad():
        return recorded(loss_of, batches)


def as_tensor(loss_of, batches):
    with lm.no_grad():
        return sum(loss_of(batch) for batch in batches) / len(batches)


def test_7_2_right(said):
    assert said("7.2", unrecorded) == "right. Peak 2,048 bytes, for 2 batches as for 12."


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (with_history, "every batch leaves 1,024 bytes behind"),
        (recorded, "recording was on"),
        (as_tensor, "returns a tensor"),
        (lambda f, b: unrecorded(f, b) * len(b), "the sum of the losses"),
        (lambda f, b: unrecorded(f, b[:1]), "For 2 batches the mean is"),
        (lambda f, b: (unrecorded(f, b), unrecorded(f, b))[0], "called 4 times for 2 batches"),
        (lambda f, b: None, "of type NoneType"),
    ],
)
def test_7_2_says_what_is_wrong(said, answer, hint):
    assert hint in said("7.2", answer)
    assert lm.is_grad_enabled()


def trainer(*, cut=True, numbers=True, keep=False, clear=True, update=True):
    def train(weight, x, n):
        state, losses, kept = lm.zeros(*x.shape), [], []
        for _ in range(n):
            state = (x + (state.detach() if cut else state) @ weight).tanh()
            loss = (state * state).mean()
            loss.backward(retain_graph=keep)
            if keep:
                kept.append(loss)
            if update:
                with lm.no_grad():
                    weight -= 0.1 * weight.grad
            if clear:
                weight.grad = None
            losses.append(loss.item() if numbers else loss)
        return losses

    return train


def test_7_3_right(said):
    assert said("7.3", trainer()).startswith("right. Peak")


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (trainer(cut=False), "GraphFreedError"),
        (trainer(cut=False, keep=True), "VersionMismatchError"),
        (trainer(keep=True), "every iteration leaves 1,032 bytes behind"),
        (trainer(numbers=False), "holds tensors"),
        (trainer(clear=False), "gradients add up"),
        (trainer(update=False), "W is still what it was"),
        (lambda w, x, n: trainer()(w, x, n)[:-1], "3 losses"),
        (lambda w, x, n: None, "must return a list"),
    ],
)
def test_7_3_says_what_is_wrong(said, answer, hint):
    assert hint in said("7.3", answer)
