"""A rule reads what was saved once: hooks that hand a value out only once must do."""

from typing import Any

import pytest

import lucid_mini as lm

PROGRAMS = {
    "pow": lambda x: x**3,
    "square": lambda x: x**2,
    "clamp": lambda x: x.clamp(-1.0, 1.0),
    "pow_": lambda x: (x * 1.0).pow_(3),
    "clamp_": lambda x: (x * 1.0).clamp_(-1.0, 1.0),
    "index": lambda x: x[[0, 1]],
    "setitem": lambda x: written(x * 1.0),
    "mul": lambda x: x * x.exp(),
    "div": lambda x: x / (x * x + 1.0),
    "softmax": lambda x: x.softmax(0),
    "matmul": lambda x: x.reshape(1, 3) @ x.reshape(3, 1),
}


def written(z: lm.Tensor) -> lm.Tensor:
    z[0] = z[1]
    return z


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_packed_value_is_unpacked_at_most_once(name: str) -> None:
    taken: list[int] = []
    kept: dict[int, Any] = {}

    def pack(value: lm.Tensor) -> int:
        kept[len(kept)] = value.detach()
        return len(kept) - 1

    def unpack(key: int) -> Any:
        taken.append(key)
        return kept[key]

    x = lm.tensor([0.5, -2.0, 3.0], requires_grad=True)
    with lm.autograd.saved_tensors_hooks(pack, unpack):
        y = PROGRAMS[name](x).sum()
    y.backward()
    assert len(taken) == len(set(taken))
    assert x.grad is not None
