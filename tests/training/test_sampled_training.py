"""Recipes with `head.sample`: the rows of a step alone change, and a resumed run is the same run."""

from pathlib import Path

import pytest
import torch

from hypersphere.training import Trainer, load_recipe
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
        ["head.name=arcface", "train.accumulate=2", "optimizer.clip=0.5"],
        [
            "head.name=sphereface2",
            "head.bias=class",
            "head.unbiased=true",
            "optimizer.kind=adamw",
            "optimizer.rate=0.01",
        ],
        ["head.name=softmax", "head.add={center={weight=0.01}}", "train.precision=float16", "optimizer.clip=0.5"],
        ["head.name=arcface", "train.mixup=0.2", "optimizer.kind=adamw", "optimizer.rate=0.01"],
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
    trainer = Trainer(load_recipe(path, [*SETTINGS, "head.name=arcface", f"optimizer.kind={kind}"]), tmp_path / "run")
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
    settings = [*SETTINGS, "head.name=arcface", "optimizer.clip=0.5"]
    with_sample = Trainer(load_recipe(path, [*settings, "head.sample=1.0"]), tmp_path / "sampled")
    plain = Trainer(load_recipe(path, [s for s in settings if "sample" not in s]), tmp_path / "plain")
    plain.head.load_state_dict({"weight": with_sample.head.weight.detach()})
    plain.backbone.load_state_dict(with_sample.backbone.state_dict())
    with_sample.run()
    plain.run()
    torch.testing.assert_close(with_sample.head.weight, plain.head.weight, rtol=1e-4, atol=1e-5)


def test_adam_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="head.sample needs optimizer.kind sgd or adamw"):
        Trainer(load_recipe(path, [*SETTINGS, "head.name=arcface", "optimizer.kind=adam"]), tmp_path / "run")
