"""What each of several processes does in the tests of sampled and sharded heads; started by `run_processes`."""

import itertools
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

import hypersphere as hs
from hypersphere.losses import Batch, Sample
from hypersphere.optim import clip_grad_norm_
from tests.heads.shard_worker import CASES, D, error, make, rows_of, split

MOST = 3
REFUSED = ("zero_centroid", "hyperspherical_energy")
DRAW = "hypersphere.heads.sampling.draw_sample"
OPTIMIZERS: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "sgd": (hs.RowSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "adamw": (hs.RowAdamW, torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}


Groups = dict[int, Any]


def groups(rank: int) -> Groups:
    """By size, the groups of the first 1, 2 and 3 processes that this one is in."""
    made = {size: distributed.new_group(list(range(size))) for size in range(1, MOST + 1)}
    return {size: group for size, group in made.items() if rank < size}


def sampled_cases() -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, options)
        for name, options in CASES
        if name not in REFUSED and "rows" not in options and not set(options.get("add", {})) & set(REFUSED)
    ]


def takes_maximum(name: str, options: dict[str, Any]) -> bool:
    largest = name == "sample_margin" and "form" not in options
    return largest or "negatives" in options or "sample_margin" in options.get("add", {})


def whole(grad: Tensor | None, like: Tensor, group: Any) -> Tensor:
    """The gradient of all processes' rows, from the sparse one of each; of a parameter that all have, as it is."""
    if grad is None:
        return torch.zeros(like.shape, dtype=like.dtype)
    if not grad.is_sparse:
        return grad
    own = like.to_local()  # type: ignore[attr-defined]
    grad = grad.coalesce()
    dense = torch.zeros_like(own.detach()).index_copy(0, grad.indices()[0], grad.values())
    parts: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(parts, dense, group=group)
    return torch.cat(parts)


def results(head: hs.Head, x: Tensor, labels: Tensor, group: Any, factor: float) -> dict[str, Tensor]:
    head.zero_grad()
    x = x.detach().requires_grad_()
    loss = head(x, labels)
    if loss.requires_grad:
        loss.backward()
    made = {"loss": loss.detach(), "x": torch.zeros_like(x) if x.grad is None else x.grad * factor}
    for name, parameter in head.named_parameters():
        made[name] = whole(parameter.grad, parameter, group)
    return made


def own_rows(size: int, group: Any, case: str = "mixed", num_classes: int = 7) -> tuple[Tensor, Tensor, slice]:
    x, labels = rows_of(case, num_classes)
    counts, place = split(size), distributed.get_rank(group)
    return x, labels, slice(sum(counts[:place]), sum(counts[: place + 1]))


def equality(over: Groups) -> dict[str, float]:
    """The errors of a sample of everything against the plain head, for every loss; weighted on three processes."""
    errors = {}
    for size, group in over.items():
        for name, options in sampled_cases() if size > 1 else []:
            weighted = size == 3 and not takes_maximum(name, options)
            plain = make(name, options, 7)
            head = make(name, {**options, "sample": 1.0, "unbiased": weighted}, 7, group)
            head.load_state_dict({**head.state_dict(), **plain.state_dict()})
            x, labels, mine = own_rows(size, group)
            wanted = results(plain, x, labels, group, 1.0)
            found = results(head, x[mine], labels[mine], group, 1 / size)
            wanted["x"] = wanted["x"][mine]
            for key, value in wanted.items():
                errors[f"{name} {options} {weighted}, {size} processes: {key}"] = error(found[key], value)
    return errors


def subset(over: Groups) -> dict[str, float]:
    """The errors of a sample against a plain head that has the sampled classes only."""
    errors = {}
    chosen = {2: [[0, 2, 3], [4, 6]], 3: [[0, 2], [3, 4], [6]]}
    starts = {2: [0, 4], 3: [0, 3, 6]}
    for size, group in over.items():
        if size == 1:
            continue
        place = distributed.get_rank(group)
        classes = torch.tensor([j for part in chosen[size] for j in part])
        x, _, mine = own_rows(size, group)
        labels = classes[torch.arange(9) % len(classes)]
        labels[4] = -1
        small = torch.where(labels < 0, -1, torch.searchsorted(classes, labels))
        index = torch.tensor(chosen[size][place]) - starts[size][place]
        local = min(starts[size][place] + {2: 4, 3: 3}[size], 7) - starts[size][place]
        for name in ("arcface", "softmax", "sphereface2", "c_triplet", "label_smoothing", "sample_margin", "center"):
            for options in ({}, {"form": "mean"}) if name == "sample_margin" else ({},):
                head = make(name, {**options, "sample": 0.5}, 7, group)
                plain = make(name, options, 7)
                for module in (plain, plain.objective):
                    for key, value in list(module.named_parameters(recurse=False)):
                        if value.dim():
                            setattr(module, key, nn.Parameter(value.detach()[classes].clone()))
                    if name == "center" and module is plain.objective:
                        module.centers = module.get_buffer("centers")[classes]
                plain.num_classes = len(classes)
                wanted = results(plain, x, small, group, 1.0)
                with mock.patch(DRAW, lambda *_, index=index, local=local: Sample(index, local)):
                    found = results(head, x[mine], labels[mine], group, 1 / size)
                wanted["x"] = wanted["x"][mine]
                for key, value in wanted.items():  # type: ignore[assignment]
                    wide = torch.zeros_like(found[key])
                    spread = wide.index_copy(0, classes, value) if value.dim() and key != "x" else value
                    errors[f"{name} {options}, {size} processes: {key}"] = error(found[key], spread)
    return errors


def unbiased(over: Groups) -> dict[str, float]:
    """The errors of the mean over all samples of both processes against the plain head."""
    errors = {}
    size = 2
    if size not in over:
        return {}
    group = over[size]
    rank = distributed.get_rank(group)
    x = rows_of("mixed", 8)[0]
    labels = torch.tensor([0, 0, 5, -1, 0, 5, 5, -1, 0])
    mine = slice(0, 4) if rank == 0 else slice(4, 9)
    samples: list[list[Sample]] = [[], []]
    for half, own in enumerate((0, 1)):  # places of classes 0 and 5 in their halves
        for other in set(range(4)) - {own}:
            index = torch.tensor(sorted([own, other]))
            samples[half].append(Sample(index, 4, index == own))
    sums: list[tuple[str, dict[str, Any]]] = [("sphereface2", {}), ("c_contrastive", {}), ("c_triplet", {})]
    sums.append(("sample_margin", {"form": "mean"}))
    for name, options in sums:
        head, plain = make(name, {**options, "sample": 0.5, "unbiased": True}, 8, group), make(name, options, 8)
        wanted = results(plain, x, labels, group, 1.0)
        wanted["x"] = wanted["x"][mine]
        found = []
        for pair in itertools.product(*samples):
            with mock.patch(DRAW, lambda *_, pair=pair: pair[rank]):
                found.append(results(head, x[mine], labels[mine], group, 1 / size))
        for key, value in wanted.items():
            errors[f"{name}: {key}"] = error(torch.stack([one[key] for one in found]).mean(0), value)
    return errors


Trained = tuple[hs.Head, torch.optim.Optimizer, dict[str, Tensor]]


def train(name: str, options: dict[str, Any], kind: str, group: Any, mine: slice) -> Trained:
    torch.manual_seed(0)
    net: nn.Module = nn.Linear(6, D).double()
    head = make(name, options, 7, group)
    several = net if group is None else DistributedDataParallel(net, process_group=group)
    ours, theirs, settings = OPTIMIZERS[kind]
    optimizer = (ours if "sample" in options else theirs)([*net.parameters(), *head.parameters()], **settings)
    drawn, norms = [], []
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(9, 6, dtype=torch.float64, generator=generator)
        labels = torch.randint(-1, 7, (9,), generator=generator)
        optimizer.zero_grad()
        head(several(x[mine]), labels[mine]).backward()
        norms.append(clip_grad_norm_([*net.parameters(), *head.parameters()], 0.7))
        before = head.weight.detach().clone()
        optimizer.step()
        if "sample" in options:
            drawn.append(int((head.weight.to_local() != before.to_local()).any(1).sum()) - head.weight.grad._nnz())  # type: ignore[attr-defined]
    state = {**{f"net.{key}": value for key, value in net.state_dict().items()}, **head.full_state_dict()}
    return head, optimizer, {**state, "drawn": torch.tensor(drawn), "norms": torch.stack(norms)}


def training(over: Groups) -> dict[str, float]:
    """The errors after four steps against one process, and the rows that changed though they were not sampled."""
    errors = {}
    for size, group in over.items():
        _, _, mine = own_rows(size, group)
        for kind, names in (("sgd", ("arcface", "softmax")), ("adamw", ("sphereface2",))):
            for name in names:
                _, _, alone = train(name, {}, kind, None, slice(0, 9))
                _, optimizer, found = train(name, {"sample": 1.0}, kind, group, mine)
                for key, value in alone.items():
                    if key != "drawn":
                        errors[f"{name} {kind}, {size} processes: {key}"] = error(found[key], value)
                head, optimizer, found = train(name, {"sample": 0.6}, kind, group, mine)
                errors[f"{name} {kind}, {size} processes: rows"] = float(found["drawn"].abs().sum())
                for key, value in optimizer.state[head.weight].items():
                    alike = value.shape[0] == 7 and value.placements == head.weight.placements  # type: ignore[attr-defined]
                    errors[f"{name} {kind}, {size} processes: state {key}"] = 0.0 if alike else 1.0
    return errors


def everything(rank: int, folder: Path) -> dict[str, dict[str, float]]:
    del folder
    over = groups(rank)
    parts = {"equality": equality, "subset": subset, "unbiased": unbiased, "training": training}
    with mock.patch.object(Batch, "other_rows", None):  # the plain head has all rows
        return {name: part(over) for name, part in parts.items()}
