"""Check a sharded head on GPUs against the plain one, and time what sharding adds.

    torchrun --nproc-per-node P benchmarks/sharded_check.py            # P GPUs, NCCL
    torchrun --nproc-per-node 2 benchmarks/sharded_check.py --gloo     # two processes on one GPU, for correctness alone

Every process makes the whole batch and the whole head too, and compares the loss, and its rows of the gradients of
embeddings and prototypes, in float64 with the chunked engine and in bfloat16 with the fused one. With one process the
times say what the sharded path costs beyond the plain head. The exit status is 1 if an error is larger than it may be.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

import hypersphere as hs
from hypersphere.distributed import is_sharded, to_local
from hypersphere.training import load_state, save_state

LOSSES = ("arcface", "sphereface2", "curricularface", "c_triplet", "normface", "softmax", "sample_margin")
LARGEST = {torch.float64: 1e-11, torch.float32: 2e-2}
OWN = 1e-6
"""For a loss's own parameters, which are float32 whatever the prototypes are."""


def main() -> int:
    """Run the check; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gloo", action="store_true", help="gloo for everything, all processes on the first GPU")
    parser.add_argument("--classes", type=int, default=100_001, help="of the timing")
    options = parser.parse_args()
    device = torch.device("cuda", 0 if options.gloo else int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    distributed.init_process_group("gloo" if options.gloo else "cpu:gloo,cuda:nccl")
    failed = 0
    for name in LOSSES:
        for dtype in (torch.float64, torch.float32):
            errors = compare(name, dtype, device)
            own = max((error for key, error in errors.items() if key.startswith("objective.")), default=0.0)
            rest = max(error for key, error in errors.items() if not key.startswith("objective."))
            bad = not rest < LARGEST[dtype] or not own < max(LARGEST[dtype], OWN)
            failed += bad
            say(f"{name:16} {dtype!s:14} " + ", ".join(f"{key} {value:.1e}" for key, value in errors.items()), bad)
    failed += reload(device)
    for name in ("arcface", "sphereface2"):
        plain, sharded = (timed(name, options.classes, device, group) for group in (None, distributed.group.WORLD))
        say(f"{name}: C = {options.classes}, 1024 rows in all: plain {plain:.2f} ms, sharded {sharded:.2f} ms")
    distributed.barrier()
    distributed.destroy_process_group()
    return int(failed > 0)


def compare(name: str, dtype: torch.dtype, device: torch.device) -> dict[str, float]:
    """The errors of this process, relative to the largest number; float32 stands for bfloat16 products."""
    rank, size = distributed.get_rank(), distributed.get_world_size()
    settings = {"dim": 64, "num_classes": 1003, "dtype": dtype, "device": device}
    settings["precision"] = "float32" if dtype == torch.float64 else "bfloat16"
    torch.manual_seed(0)
    reference = hs.create_head(name, **settings)
    torch.manual_seed(0)
    head = hs.create_head(name, shard=distributed.group.WORLD, **settings)
    head.load_state_dict(reference.state_dict())
    generator = torch.Generator(device).manual_seed(1)
    counts = [100 + 3 * place for place in range(size)]
    x = torch.randn(sum(counts), 64, device=device, dtype=dtype, generator=generator)
    labels = torch.randint(-1, 1003, (sum(counts),), device=device, generator=generator)
    mine = slice(sum(counts[:rank]), sum(counts[: rank + 1]))
    part, x = x[mine].clone().requires_grad_(), x.requires_grad_()
    if name == "curricularface":  # its running mean would count every row P times
        reference.eval()
        head.eval()
    wanted, found = reference(x, labels), head(part, labels[mine])
    wanted.backward()
    found.backward()
    assert head.sharding is not None
    pairs = {"loss": (found, wanted), "embeddings": (part.grad / size, x.grad[mine])}
    for (key, one), other in zip(reference.named_parameters(), head.parameters(), strict=True):
        rows = head.sharding.rows if is_sharded(other.grad) else ...
        pairs[key] = to_local(other.grad), one.grad[rows]
    return {key: error(*pair) for key, pair in pairs.items()}


def error(found: Tensor, wanted: Tensor) -> float:
    """The largest difference over the largest number."""
    if not wanted.numel():
        return 0.0
    return float(((found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30)).detach())


def reload(device: torch.device) -> int:
    """Save and load prototypes and momentum through a folder of shards; the number of differences."""
    folder = [tempfile.mkdtemp() if distributed.get_rank() == 0 else ""]
    distributed.broadcast_object_list(folder)
    kept = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        head = hs.create_head("arcface", dim=64, num_classes=1003, shard=distributed.group.WORLD, device=device)
        optimizer = hs.RowSGD(head.parameters(), 0.1, momentum=0.9, fused=True)
        if seed == 0:
            head(torch.randn(8, 64, device=device), torch.arange(8, device=device)).backward()
            optimizer.step()
            save_state(Path(folder[0]) / "shards", head, optimizer)
        else:
            load_state(Path(folder[0]) / "shards", head, optimizer)
        momentum = optimizer.state[head.weight]["momentum_buffer"]
        kept.append((to_local(head.weight).detach(), to_local(momentum)))
    bad = sum(not torch.equal(before, after) for before, after in zip(*kept, strict=True))
    say(f"saved and loaded: {bad} tensors differ", bad > 0)
    return bad


def timed(name: str, classes: int, device: torch.device, group: distributed.ProcessGroup | None) -> float:
    """Milliseconds of a forward and backward pass, the median of 20."""
    size = 1 if group is None else distributed.get_world_size()
    torch.manual_seed(0)
    options: dict[str, Any] = {"precision": "bfloat16", "device": device, "validate": False}
    head = hs.create_head(name, dim=512, num_classes=classes, shard=group, **options)
    x = torch.randn(1024 // size, 512, device=device, requires_grad=True)
    labels = torch.randint(classes, (len(x),), device=device)
    times = []
    for _ in range(25):
        head.zero_grad()
        torch.cuda.synchronize()
        began = time.perf_counter()
        head(x, labels).backward()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    return sorted(times[5:])[10]


def say(text: str, bad: bool = False) -> None:
    """Print: the first process everything, the others what is wrong."""
    if distributed.get_rank() == 0 or bad:
        print(f"{'WRONG ' if bad else ''}{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
