"""Recipes with `head.sample`: the rows of a step alone change, and a resumed run is the same run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed

import hypersphere as hs
from hypersphere.distributed import is_sharded
from hypersphere.training import Trainer, load_recipe
from hypersphere.training.shard_state import load_replicated_state, load_state, replicated_state, save_state
from tests.heads.shard_worker import run_processes
from tests.training.small import RECIPE, final, same

SETTINGS = [
    "data.identities=20",
    "data.images_per_identity=2",
    "train.batch_size=4",
    "head.sample=0.3",
    "train.steps=9",
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


@pytest.mark.parametrize(
    "settings",
    [
        ["head.name=arcface", "train.accumulate=2", "optimizer.max_grad_norm=0.5"],
        [
            "head.name=sphereface2",
            "head.bias=class",
            "head.unbiased=true",
            "optimizer.name=adamw",
            "optimizer.lr=0.01",
        ],
        [
            "head.name=softmax",
            "head.add={center={weight=0.01}}",
            "train.precision=float16",
            "optimizer.max_grad_norm=0.5",
        ],
        ["head.name=arcface", "train.mixup=0.2", "optimizer.name=adamw", "optimizer.lr=0.01"],
    ],
    ids=["sgd", "adamw", "float16", "mixup"],
)
def test_stopped_anywhere_and_resumed_is_never_stopped(path: Path, tmp_path: Path, settings: list[str]) -> None:
    recipe = load_recipe(path, [*SETTINGS, *settings])
    Trainer(recipe, tmp_path / "whole").run()
    for stop in (3, 5):
        Trainer(recipe, tmp_path / "parts").run(until=stop)
    Trainer(recipe, tmp_path / "parts").run()
    assert same(final(tmp_path / "whole"), final(tmp_path / "parts"))


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_prototypes_that_were_not_sampled_stay(path: Path, tmp_path: Path, kind: str) -> None:
    trainer = Trainer(load_recipe(path, [*SETTINGS, "head.name=arcface", f"optimizer.name={kind}"]), tmp_path / "run")
    for step in range(1, 5):
        before = trainer.head.weight.detach().clone()
        trainer.run(until=step)
        grad = trainer.head.weight.grad
        assert grad is not None
        assert grad.is_sparse
        changed = (trainer.head.weight != before).any(1).nonzero()[:, 0]
        assert torch.equal(changed, grad.coalesce().indices()[0])
        assert len(changed) == 6


def test_a_sample_of_everything_trains_as_without_one(path: Path, tmp_path: Path) -> None:
    settings = [*SETTINGS, "head.name=arcface", "optimizer.max_grad_norm=0.5"]
    with_sample = Trainer(load_recipe(path, [*settings, "head.sample=1.0"]), tmp_path / "sampled")
    plain = Trainer(load_recipe(path, [s for s in settings if "sample" not in s]), tmp_path / "plain")
    plain.head.load_state_dict({"weight": with_sample.head.weight.detach()})
    plain.backbone.load_state_dict(with_sample.backbone.state_dict())
    with_sample.run()
    plain.run()
    torch.testing.assert_close(with_sample.head.weight, plain.head.weight, rtol=1e-4, atol=1e-5)


def test_adam_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="head.sample needs optimizer.name sgd or adamw"):
        Trainer(load_recipe(path, [*SETTINGS, "head.name=arcface", "optimizer.name=adam"]), tmp_path / "run")


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: hs.RowSGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: hs.RowAdamW(p, lr=0.1),
}


def whole(head: hs.Head, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Head and optimizer of all processes, as plain tensors."""
    found = head.full_state_dict()
    for name, parameter in head.named_parameters():
        for key, value in optimizer.state[parameter].items():
            found[f"{name} {key}"] = value.full_tensor() if is_sharded(value) else value.clone()
    return found


def journey(rank: int, folder: Path) -> list[str]:
    """Sampled training on 1 -> 2 -> 3 -> 1 processes; returns what was not the same after a stop."""
    groups = {size: distributed.new_group(list(range(size))) for size in (1, 2, 3)}
    wrong: list[str] = []
    for kind, make in OPTIMIZERS.items():
        for stop, size in enumerate((1, 2, 3, 1)):
            distributed.barrier()
            if rank >= size:
                continue
            torch.manual_seed(stop)
            options: dict[str, Any] = {"sample": 0.5, "add": {"center": {}}, "shard": groups[size]}
            head = hs.create_head("softmax", dim=3, num_classes=11, **options)
            optimizer = make(head.parameters())
            if stop > 0:
                saved = torch.load(folder / f"{kind}-{stop - 1}.pt", weights_only=True)
                load_replicated_state(head, optimizer, *saved["common"])
                load_state(folder / f"{kind}-{stop - 1}", head, optimizer)
                now = whole(head, optimizer)
                wrong += [f"{kind} {stop}: {key}" for key in now if not torch.equal(now[key], saved["whole"][key])]
                wrong += [f"{kind} {stop}: {key} is missing" for key in saved["whole"].keys() - now.keys()]
            for step in range(3):
                generator = torch.Generator().manual_seed(10 * stop + step)
                optimizer.zero_grad()
                head(torch.randn(2, 3, generator=generator), torch.randint(11, (2,), generator=generator)).backward()
                optimizer.step()
            state = whole(head, optimizer)
            save_state(folder / f"{kind}-{stop}", head, optimizer)
            if rank == 0:
                torch.save({"common": replicated_state(head, optimizer), "whole": state}, folder / f"{kind}-{stop}.pt")
    return wrong


def test_weights_momentum_and_counts_of_rows_are_cut_anew(tmp_path: Path) -> None:
    assert run_processes(journey, tmp_path, 3) == [[], [], []]
    counts = torch.load(tmp_path / "adamw-3.pt", weights_only=True)["whole"]["weight step"]
    assert counts.shape == (11,)
    assert len(counts.unique()) > 1, "rows have been sampled more and less often"
    assert 3 * 4 * 2 <= float(counts.sum()) < 3 * 4 * 11
