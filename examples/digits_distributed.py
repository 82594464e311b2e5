"""A Function of lucid_mini inside PyTorch's DistributedDataParallel: the digits, on two processes.

    python examples/digits_distributed.py
    torchrun --nproc-per-node 2 examples/digits_distributed.py

Needs PyTorch (`pip install 'lucid-mini[torch]'`). Every process trains on its part of each batch,
and PyTorch averages the gradients. In the first epoch they are compared with those that one process
finds on the whole batch. docs/distributed.md tells the story.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import lucid_mini as lm
from lucid_mini.data import load_digits, split

BATCH = 64
HIDDEN = 64
RATE = 0.2
MOMENTUM = 0.9
#: Gradients of one process and of several are sums in another order, in float64.
BOUND = 1e-12


class Swish(lm.autograd.Function):
    """x * sigmoid(x).   Keeps: x alone; what else backward needs it computes again."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Shape: any, and the same for the result."""
        ctx.save_for_backward(x)
        return x * lm.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Derive: s + x * s * (1 - s), where s is sigmoid(x)."""
        (x,) = ctx.saved_tensors
        s = lm.sigmoid(x)
        return grad * (s + x * s * (1 - s))


swish = lm.bridge.torch.to_torch(Swish).apply


class Network(torch.nn.Module):
    """64 pixels, one hidden layer, 10 classes. The same numbers in every process."""

    def __init__(self) -> None:
        super().__init__()
        lm.manual_seed(0)
        self.W0 = torch.nn.Parameter(_normal(64, HIDDEN))
        self.b0 = torch.nn.Parameter(torch.zeros(HIDDEN, dtype=torch.float64))
        self.W1 = torch.nn.Parameter(_normal(HIDDEN, 10))
        self.b1 = torch.nn.Parameter(torch.zeros(10, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        """Class scores, shape (n, 10), for pixels of shape (n, 64)."""
        return swish(x @ self.W0 + self.b0) @ self.W1 + self.b1


def _normal(n: int, m: int) -> Any:
    return torch.tensor(lm.randn(n, m).numpy() * (2 / n) ** 0.5)


def train(epochs: int) -> None:
    """What each process runs, inside a process group: train, compare, tell.

    Raises: RuntimeError where gradients or parameters are not what one process alone would get.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    if BATCH % world:
        raise RuntimeError(f"a batch of {BATCH} does not part evenly among {world} processes")
    pixels, labels = (torch.from_numpy(array) for array in load_digits())
    chosen, kept = (torch.from_numpy(part) for part in split(len(pixels)))
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    compared, largest = 0, 0.0
    for epoch in range(epochs):
        order = chosen[torch.from_numpy(np.random.default_rng(epoch).permutation(len(chosen)))]
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            part = batch[rank::world]
            optimizer.zero_grad()
            loss_of(model, pixels[part], labels[part]).backward()
            if epoch == 0:
                alone = gradients_alone(model.module, pixels[batch], labels[batch])
                for parameter, expected in zip(model.parameters(), alone, strict=True):
                    largest = max(largest, float((parameter.grad - expected).abs().max()))
                    compared += 1
            optimizer.step()
    if largest > BOUND:
        raise RuntimeError(f"process {rank}: gradients differ by {largest:g}, more than {BOUND:g}")
    check_equal(model)
    if rank == 0:
        right = model.module(pixels[kept]).argmax(1) == labels[kept]
        print(f"{world} processes, {BATCH // world} of {BATCH} digits of each batch in every one")
        print(f"{compared} gradients compared with one process alone: all within {BOUND:g}")
        print(f"parameters after {epochs} epochs: the same in {world} of {world} processes")
        percent = 100 * int(right.sum()) // len(kept)
        print(f"test digits read right: at least {percent // 5 * 5} of 100")


def loss_of(model: Any, pixels: Any, labels: Any) -> Any:
    """The mean cross entropy of a batch."""
    return torch.nn.functional.cross_entropy(model(pixels), labels)


def gradients_alone(network: Any, pixels: Any, labels: Any) -> Any:
    """The gradients of the whole batch, found by this process without the others."""
    return torch.autograd.grad(loss_of(network, pixels, labels), list(network.parameters()))


def check_equal(model: Any) -> None:
    """Raise RuntimeError if the parameters of the processes are not the same to the last bit."""
    for name, parameter in model.module.named_parameters():
        found = [torch.empty_like(parameter.data) for _ in range(dist.get_world_size())]
        dist.all_gather(found, parameter.data)
        if not all(torch.equal(found[0], other) for other in found):
            raise RuntimeError(f"parameter {name} is not the same in all processes")


# -- starting processes ---------------------------------------------------------------------------


def start(work: Callable[..., None], processes: int, *args: Any) -> None:
    """Run `work(*args)` in new processes on this machine, in one process group.

    The port is one that is free: the system chooses it for a store that lives here until all are
    done. Raises: what `work` raised in a process, after the others were ended.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    torch.multiprocessing.spawn(_join, (processes, store.port, work, args), nprocs=processes)


def _join(
    rank: int, processes: int, port: int, work: Callable[..., None], args: tuple[Any, ...]
) -> None:
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    in_group(work, *args, store=store, rank=rank, world_size=processes)


def in_group(work: Callable[..., None], *args: Any, **group: Any) -> None:
    """Run `work(*args)` as a member of a process group, which is taken down in any case.

    A mistake is told before that: the other processes, left alone, fail with errors of their own.
    """
    dist.init_process_group("gloo", **group)
    try:
        work(*args)
    except Exception:
        print(f"process {dist.get_rank()} failed:", file=sys.stderr)
        traceback.print_exc()
        raise
    finally:
        dist.destroy_process_group()


def main() -> None:
    """Under torchrun: be one of its processes. Otherwise start them."""
    parser = argparse.ArgumentParser(description="Train the digits on several processes.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2, help="without torchrun")
    options = parser.parse_args()
    if "TORCHELASTIC_RUN_ID" in os.environ:  # rank, world size and address stand there too
        in_group(train, options.epochs)
    else:
        start(train, options.processes, options.epochs)


if __name__ == "__main__":
    sys.exit(main())
