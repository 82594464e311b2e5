"""Train a small PyTorch network on handwritten digits; two lines of it leak.

    lucid-mini doctor examples/leaking_training.py            names both
    lucid-mini doctor examples/leaking_training.py --fixed    finds none

Needs PyTorch: pip install 'lucid-mini[torch]'
"""

import sys
from typing import Any

import torch
from torch import nn

from lucid_mini.data import load_digits, split

FIXED = "--fixed" in sys.argv
EPOCHS = 2
BATCH = 64


class SavingRelu(torch.autograd.Function):
    """relu, with what its rule needs in save_for_backward: backward releases it."""

    @staticmethod
    def forward(ctx: Any, z: Any) -> Any:
        """The positive part of `z`."""
        ctx.save_for_backward(z)
        return z.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """The gradient where `z` was positive."""
        (z,) = ctx.saved_tensors
        return grad * (z > 0)


class Relu(nn.Module):
    """The activation; unless FIXED, its rule reads `z` from the call that made it."""

    def forward(self, z: Any) -> Any:
        """relu(z)."""
        if FIXED:
            return SavingRelu.apply(z)

        class CapturingRelu(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x.clamp(min=0)

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad * (z > 0)  # leak 1: the cell keeps z, and the layer keeps the class

        self.function = CapturingRelu
        return CapturingRelu.apply(z)


def train() -> tuple[nn.Module, list[Any]]:
    """Train, print what was learnt, and give back the network and its losses."""
    torch.manual_seed(0)
    pixels, labels = load_digits()
    for_training, for_test = split(len(pixels))
    x, y = torch.tensor(pixels, dtype=torch.float32), torch.tensor(labels)
    model = nn.Sequential(nn.Linear(64, 32), Relu(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses: list[Any] = []
    for epoch in range(EPOCHS):
        order = torch.tensor(for_training)[torch.randperm(len(for_training))]
        for batch in order.split(BATCH):
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item() if FIXED else loss)  # leak 2: each loss keeps its graph
        with torch.no_grad():
            right = (model(x[for_test]).argmax(1) == y[for_test]).float().mean().item()
        print(f"epoch {epoch + 1}: {right:.0%} of {len(for_test)} digits right")
    return model, losses


if __name__ == "__main__":
    model, losses = train()
