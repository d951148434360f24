"""What each of several processes does in the tests of sharded heads; started by `run_processes`."""

import copy
import fcntl
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.tensor  # here, so that the processes need not
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

import hypersphere as hs
from hypersphere.distributed import Group, is_sharded, to_local
from hypersphere.losses import Batch
from tests.syncs import skip_syncs

MOST = 4
D = 5
COUNTS = {"class_counts": True}
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, COUNTS if name in ("ldam", "label_aware_smoothing") else {}) for name in hs.list_heads()),
    ("softmax", {"bias": False}),
    ("label_aware_smoothing", {**COUNTS, "weight_scaling": True}),
    ("label_smoothing", {"bias": False}),
    ("normface", {"normalize": "embeddings"}),
    ("normface", {"normalize": "prototypes", "learnable_scale": True}),
    ("normface", {"power": 2.0, "engine": "dense"}),
    ("sphereface", {"scale": 8.0, "engine": "dense"}),
    ("sphereface_r", {"version": 2}),
    ("sphereface_r", {"version": 0}),
    ("arcface", {"prototype_norm": 2.0, "renormalize": True}),
    ("softmax", {"prototype_norm": 0.5}),
    ("cosface", {"prototypes": "tammes"}),
    ("arcface", {"chunk_size": 1, "margin_steps": 5}),
    ("sphereface2", {"bias": "class"}),
    ("sphereface2", {"bias": "none", "engine": "dense"}),
    ("sphereface2", {"margin_type": "m", "bias": "class", "engine": "dense"}),
    ("c_triplet", {"negatives": "hardest"}),
    ("c_triplet", {"center": True, "engine": "dense"}),
    ("center", {"normalize": True}),
    ("sample_margin", {"form": "mean"}),
    ("sample_margin", {"engine": "dense"}),
    ("hyperspherical_energy", {"exponent": 0.0, "engine": "dense"}),
    ("gm_softmax", {"rows": True}),
    ("softmax", {"engine": "dense", "add": {"zero_centroid": {"weight": 2.0}, "center": {}, "triplet": {}}}),
    ("normface", {"add": {"c_contrastive": {"weight": 0.1}, "sample_margin": {}, "sphereface2": {"weight": 0.2}}}),
]


def warm_context() -> multiprocessing.context.ForkServerContext:
    """Return a context whose processes are forks of one that has imported all: they cost no start."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.heads.shard_worker", "hypersphere.training", "torch._dynamo", "pytest"])
    return context


def run_processes(
    work: Callable[[int, Path], object], folder: Path, count: int = MOST, torchrun: bool = False
) -> list[Any]:
    """What `work(rank, folder)` returns in each of several processes that share a gloo group.

    With `torchrun`, what works joins the group itself, as it does in a process that torchrun started: these have its
    variables.
    """
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    started = [
        warm_context().Process(target=_start, args=(work, rank, count, folder, torchrun)) for rank in range(count)
    ]
    for process in started:
        process.start()
    until = time.monotonic() + 120
    while any(process.exitcode is None for process in started):
        if any(process.exitcode for process in started) or time.monotonic() > until:
            break
        time.sleep(0.02)
    for process in started:
        process.kill() if any(each.exitcode != 0 for each in started) else process.join()
    errors = sorted(folder.glob("error-*"), key=lambda path: path.stat().st_mtime)
    assert not errors, errors[0].read_text()
    assert all(process.exitcode == 0 for process in started), "a process was too slow, or died"
    return [torch.load(folder / f"result-{rank}", weights_only=True) for rank in range(count)]


def run_once(work: Callable[[int, Path], object], factory: pytest.TempPathFactory, count: int = MOST) -> list[Any]:
    """As `run_processes`, once for all of the test run's workers: the first runs it, the others read what it left."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    folder = (factory.getbasetemp() if alone else factory.getbasetemp().parent) / work.__module__ / work.__qualname__
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "result-0").exists():
            return run_processes(work, folder, count)
    return [torch.load(folder / f"result-{rank}", weights_only=True) for rank in range(count)]


def _start(work: Callable[[int, Path], object], rank: int, count: int, folder: Path, torchrun: bool) -> None:
    torch.set_num_threads(1)
    skip_syncs()
    join = partial(
        distributed.init_process_group, init_method=f"file://{folder / 'store'}", rank=rank, world_size=count
    )
    if torchrun:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
        distributed.init_process_group = join
    else:
        join("gloo")
    try:
        torch.save(work(rank, folder), folder / f"result-{rank}")
    except BaseException:
        (folder / f"error-{rank}").write_text(traceback.format_exc())
        os._exit(1)
    if not torchrun:
        distributed.barrier()
        distributed.destroy_process_group()


def groups(rank: int) -> list[tuple[int, Any]]:
    """The groups of the first 1, 2, 3 and 4 processes that this one is in, with their sizes."""
    made = [(size, distributed.new_group(list(range(size)))) for size in range(1, MOST + 1)]
    return [(size, group) for size, group in made if rank < size]


def make(name: str, options: dict[str, Any], num_classes: int, shard: Any = None) -> hs.Head:
    torch.default_generator.manual_seed(3)  # the seeds of all devices cost more than a small head
    chosen: dict[str, Any] = {key: value for key, value in options.items() if key not in ("rows", "class_counts")}
    if "class_counts" in options:
        chosen["class_counts"] = list(range(1, num_classes + 1))
    head = hs.create_head(name, dim=D, num_classes=num_classes, shard=shard, dtype=torch.float64, **chosen)
    return head.double()


def split(size: int) -> list[int]:
    """Rows of each process: uneven, and none for the second to last."""
    return {1: [9], 2: [0, 9], 3: [5, 0, 4], 4: [3, 1, 0, 5]}[size]


def rows_of(case: str, num_classes: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(9, D, dtype=torch.float64, generator=generator)
    labels = torch.randint(-1, num_classes, (9,), generator=generator)
    labels[:2] = torch.tensor([num_classes - 1, -1])
    return x, torch.full_like(labels, -1) if case == "unlabelled" else labels


def of_this_process(head: hs.Head, sharded: Tensor | None, whole: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor's rows of this process, and those of the whole one."""
    assert sharded is not None
    assert head.sharding is not None
    assert sharded.shape == whole.shape
    rows = head.sharding.rows if is_sharded(sharded) else ...
    return to_local(sharded), whole[rows]


def error(found: Tensor, wanted: Tensor) -> float:
    if not wanted.numel():
        return 0.0
    found, wanted = found.detach(), wanted.detach()
    return float((found - wanted).abs().max() / (1 + wanted.abs().max()))


def compare(size: int, group: Any, name: str, options: dict[str, Any], num_classes: int, case: str) -> dict[str, float]:
    """The errors of a sharded head against the plain one on the batch of all processes, relative to the largest."""
    reference = make(name, options, num_classes)
    head = make(name, options, num_classes, group)
    drawn = error(*of_this_process(head, head.weight, reference.weight))
    for ours, theirs in zip(head.parameters(), reference.parameters(), strict=True):
        drawn = max(drawn, error(*of_this_process(head, ours, theirs)))
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(torch.randn_like(parameter))
        if case == "ties":  # one nonzero number per product: equal to the last bit, in whatever order they are made
            reference.weight.copy_(torch.eye(1, D).expand(num_classes, D))
    head.load_state_dict(reference.state_dict())
    x, labels = rows_of(case, num_classes)
    counts = split(size) if case != "empty" else [0] * size
    x, labels = x[: sum(counts)].requires_grad_(), labels[: sum(counts)]
    rank = distributed.get_rank(group)
    mine = slice(sum(counts[:rank]), sum(counts[: rank + 1]))
    part = x.detach()[mine].requires_grad_()
    extra: dict[str, Any] = {}
    if "rows" in options:
        extra["alpha1"] = torch.linspace(0.6, 1, len(x), dtype=torch.float64).requires_grad_()
        extra["alpha2"] = torch.full_like(labels, 0.5, dtype=torch.float64)
    own: dict[str, Any] = {
        key: value.detach()[mine].requires_grad_(value.requires_grad) for key, value in extra.items()
    }
    wanted, found = reference(x, labels, **extra), head(part, labels[mine], **own)
    errors = {"drawn": drawn, "loss": error(found, wanted)}
    if wanted.requires_grad:
        assert found.requires_grad
        wanted.backward()
        found.backward()
        if x.grad is not None:
            errors["embeddings"] = error(part.grad / size, x.grad[mine])  # type: ignore[arg-type]
        if "alpha1" in extra:
            errors["alpha1"] = error(own["alpha1"].grad / size, extra["alpha1"].grad[mine])
        for (key, one), other in zip(reference.named_parameters(), head.parameters(), strict=True):
            if one.grad is not None:
                errors[key] = error(*of_this_process(head, other.grad, one.grad))
    if name in ("softmax", "center"):
        errors |= looks(head, reference, part.detach(), labels[mine])
    if name not in NO_LOGITS:
        errors["logits"] = error(head.logits(part), reference.logits(part))
        errors["predicted"] = float((head.predict(part) != reference.predict(part)).sum())
    return errors


NO_LOGITS = ("center", "contrastive", "triplet", "zero_centroid", "hyperspherical_energy")
UNREDUCED = [(name, options) for name, options in CASES if name not in NO_LOGITS[1:] and "rows" not in options][:-2]


def unreduced(rank: int, sizes: Collection[int] = (2, MOST)) -> dict[str, float]:
    """The errors of losses per sample: each process weighs its own, and the mean over the processes is minimised."""
    errors = {}
    kept = Batch.other_rows
    Batch.other_rows = None  # type: ignore[assignment,method-assign]
    sums: dict[str, Any] = {"add": {"sphereface2": {"weight": 0.2}, "center": {}}}
    for size, group in [(size, group) for size, group in groups(rank) if size in sizes]:
        for name, options in [*UNREDUCED, ("normface", sums)]:
            both = [make(name, options | {"reduction": "none"}, 5, shard) for shard in (None, group)]
            x, labels = rows_of("mixed", 5)
            weights, counts = torch.linspace(-1, 3, 9, dtype=torch.float64), split(size)
            mine = slice(sum(counts[: distributed.get_rank(group)]), sum(counts[: distributed.get_rank(group) + 1]))
            x.requires_grad_()
            part = x.detach()[mine].requires_grad_()
            wanted, found = both[0](x, labels), both[1](part, labels[mine])
            what = f"{size} {name} {options}: "
            errors[what + "losses"] = error(found, wanted[mine])
            (weights @ wanted / size).backward()
            (weights[mine] @ found).backward()
            assert part.grad is not None
            assert x.grad is not None
            errors[what + "embeddings"] = error(part.grad / size, x.grad[mine])
            for (key, one), other in zip(both[0].named_parameters(), both[1].parameters(), strict=True):
                if one.grad is not None:
                    errors[what + key] = error(*of_this_process(both[1], other.grad, one.grad))
    Batch.other_rows = kept  # type: ignore[method-assign]
    return errors


def looks(head: hs.Head, reference: hs.Head, mine: Tensor, labels: Tensor) -> dict[str, float]:
    """The errors of what a head shows of itself."""
    nearest = head.nearest(mine, labels), reference.nearest(mine, labels)
    whole, state = head.whole_weight(), reference.state_dict()
    assert head.sharding is not None
    assert (whole is None) == (head.sharding.group.rank > 0)
    return {
        "cosines": error(head.cosines(mine), reference.cosines(mine)),
        "nearest": max(error(ours, theirs) for ours, theirs in zip(*nearest, strict=True)),
        "prototypes": error(head.prototypes(3), reference.prototypes(3)),
        "whole": 0.0 if whole is None else error(whole, reference.weight),
        **{f"state {key}": error(value, state[key]) for key, value in head.full_state_dict().items()},
    }


def equality(rank: int, whole: Collection[int] = (2, MOST), odd: Collection[int] = (3,)) -> dict[str, float]:
    """The largest error of every case, over numbers of processes, of classes, and ways to fill the batch.

    Args:
        whole: numbers of processes that try every option of every loss; others try every loss.
        odd: those that try two classes, no labels and no rows too.
    """
    worst: dict[str, float] = {}
    kept = Batch.other_rows
    Batch.other_rows = None  # type: ignore[assignment,method-assign]  # the plain head has all rows
    plain = len(hs.list_heads())
    for size, group in groups(rank):
        for number, (name, options) in enumerate(CASES if size in whole else CASES[:plain]):
            tries = [(7 if size == MOST else 5, "mixed")]
            if name in ("sample_margin", "c_triplet"):
                tries.append((7, "ties"))
            if size in odd and number < plain:  # the last process has no class
                tries += [(2, "mixed"), (4, "unlabelled"), (4, "empty")]
            for num_classes, case in tries:
                what = f"{number} {name} {options}, {size} processes, {num_classes} classes, {case}"
                errors = compare(size, group, name, options, num_classes, case)
                worst |= {f"{what}: {key}": value for key, value in errors.items()}
    Batch.other_rows = kept  # type: ignore[method-assign]
    return worst


Noted = list[tuple[str, list[int], int]]


def collectives(rank: int) -> dict[str, Noted]:
    """What the collectives of a step are given, by loss: their names, shapes and item sizes."""
    noted: dict[str, Noted] = {}
    kept = {name: getattr(Group, name) for name in ("all_gather", "all_reduce", "reduce_scatter")}
    generator = torch.Generator().manual_seed(rank)
    for name, options in CASES:
        if "rows" in options:
            continue
        calls = noted[f"{name} {options}"] = []
        for method, function in kept.items():
            setattr(Group, method, _noting(method, function, calls))
        head = make(name, options, 2 * MOST, distributed.group.WORLD).float()
        x = torch.randn(3, D, generator=generator, requires_grad=True)
        head(x, torch.randint(2 * MOST, (3,), generator=generator)).backward()
        for method, function in kept.items():
            setattr(Group, method, function)
    return noted


def _noting(name: str, method: Any, calls: Noted) -> Any:
    def call(self: Group, tensor: Tensor) -> Any:
        calls.append((name, list(tensor.shape), tensor.dtype.itemsize))
        return method(self, tensor)

    return call


def parallel(rank: int) -> dict[str, float]:
    """The errors of networks after three steps, parallel network and sharded head against one process."""
    errors = {}
    for size, group in groups(rank):
        for name, optimizer in (("arcface", torch.optim.SGD), ("sphereface2", torch.optim.AdamW), ("softmax", "sgd")):
            alone, alone_head = _trained(name, optimizer, None, slice(0, 9))
            counts = split(size) if size > 1 else [9]
            place = distributed.get_rank(group)
            mine = slice(sum(counts[:place]), sum(counts[: place + 1]))
            net, head = _trained(name, optimizer, group, mine)
            for key, value in {**alone, **alone_head}.items():
                errors[f"{size} {name} {key}"] = error({**net, **head}[key], value)
    return errors


def _trained(name: str, optimizer: Any, group: Any, mine: slice) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    torch.manual_seed(0)
    net: nn.Module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, D)).double()
    head = make(name, {}, 7, group)
    parallel_net = net if group is None else DistributedDataParallel(net, process_group=group)
    choose = torch.optim.SGD if optimizer == "sgd" else optimizer
    keywords: dict[str, Any] = {"momentum": 0.9} if choose is torch.optim.SGD else {}
    own = [{"params": net.parameters()}, {"params": head.parameters()}]
    chosen = choose(own, lr=0.1, weight_decay=0.01, **keywords)
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(9, 6, dtype=torch.float64, generator=generator)
        labels = torch.randint(-1, 7, (9,), generator=generator)
        chosen.zero_grad()
        head(parallel_net(x[mine]), labels[mine]).backward()
        chosen.step()
        head.advance()
    return net.state_dict(), head.full_state_dict()


def handled(rank: int) -> dict[str, Any]:
    """What becomes of a sharded head that is copied, moved, or loaded as a part of a larger module."""
    head = make("sphereface2", {"bias": "class", "sample": 0.5}, 7, distributed.group.WORLD)
    other = make("sphereface2", {"bias": "class"}, 7)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.randn_like(parameter))
    whole = nn.ModuleDict({"head": head})
    whole.load_state_dict({f"head.{name}": value for name, value in other.state_dict().items()})
    loaded = [error(head.full_state_dict()[name], value) for name, value in other.state_dict().items()]
    twin = copy.deepcopy(head)
    with torch.no_grad():
        twin.weight.mul_(2)
    refused = ""
    try:
        head.to("meta")
    except ValueError as problem:
        refused = str(problem)
    head.load_state_dict(twin.state_dict())
    return {
        "loaded": max(loaded),
        "copied": error(twin.full_state_dict()["weight"], 2 * other.weight),
        "again": error(head.full_state_dict()["weight"], 2 * other.weight),
        "refused": refused,
        "device": str(head.float().weight.device),
    }


def compiled_step(rank: int, folder: Path) -> dict[str, bool]:
    """Whether a compiled sharded head has the loss and gradients of the eager one, bit for bit."""
    heads = [make("arcface", {}, 11, distributed.group.WORLD) for _ in range(2)]
    rows, labels = rows_of("", 11)
    inputs = [rows[rank::2].clone().requires_grad_() for _ in range(2)]
    calls = [heads[0], torch.compile(heads[1], backend="aot_eager")]
    losses = [call(x, labels[rank::2]) for call, x in zip(calls, inputs, strict=True)]
    for loss in losses:
        loss.backward()
    weights = [to_local(head.weight.grad) for head in heads if head.weight.grad is not None]
    grads = [x.grad for x in inputs if x.grad is not None]
    return {"loss": torch.equal(*losses), "embeddings": torch.equal(*grads), "prototypes": torch.equal(*weights)}


def everything(rank: int, folder: Path) -> dict[str, Any]:
    works = {
        "equality": equality, "collectives": collectives, "parallel": parallel, "handled": handled,
        "unreduced": unreduced,
    }  # fmt: skip
    return {name: work(rank) for name, work in works.items()}


def every_size(rank: int, folder: Path) -> dict[str, float]:
    """The errors of every case, option and batch on every number of processes."""
    sizes = range(1, MOST + 1)
    return equality(rank, whole=sizes, odd=sizes) | unreduced(rank, sizes)
