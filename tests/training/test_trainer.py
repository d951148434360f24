"""The trainer: it learns, a killed run resumed is the same run, and it stops with a cause."""

import copy
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hypersphere.backbones import create_backbone
from hypersphere.core import Failure
from hypersphere.core.config import as_table, build, digest, to_toml
from hypersphere.data import ArraySource, ImageSource, cutmix
from hypersphere.heads import create_loss
from hypersphere.pocket import PocketFaces
from hypersphere.training import (
    Checkpoints,
    Recipe,
    Trainer,
    TrainingStopped,
    load_recipe,
    load_run,
    train_recipe,
    unseen_pairs,
)
from hypersphere.training import loading as module
from hypersphere.training.build import make_backbone
from hypersphere.training.logs import read_log
from hypersphere.training.training_data import training_source
from tests.training.small import RECIPE, eager, final, same


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["head.name=curricularface", "train.ema=0.9"],
        ["optimizer.name=adamw", "optimizer.lr=0.001", "train.accumulate=2", "optimizer.max_grad_norm=1.0"],
        ["train.sampler=identity", "train.images_per_identity=3", "head.name=arcface", "train.precision=bfloat16"],
        ["train.mixup=0.4", "train.sampler=class_balanced", "head.name=softmax"],
        ["train.mixup=0.4", "train.cutmix=1.0", "augment.rotate=0.5", "augment.crop=0.5"],
    ],
)
def test_stopped_anywhere_and_resumed_is_never_stopped(path: Path, tmp_path: Path, settings: list[str]) -> None:
    recipe = load_recipe(path, settings)
    Trainer(recipe, tmp_path / "whole").run()
    for stop in (3, 4, 17, 29):
        Trainer(recipe, tmp_path / "parts").run(until=stop)
    Trainer(recipe, tmp_path / "parts").run()
    assert same(final(tmp_path / "whole"), final(tmp_path / "parts"))
    assert read_log(tmp_path / "whole" / "log.jsonl") == read_log(tmp_path / "parts" / "log.jsonl")


KILLED = """
import os, signal, sys, torch
from pathlib import Path
from typing import Any
from hypersphere.training import Trainer, load_recipe
torch.set_num_threads(1)
recipe, folder, left = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def count(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

class Report:
    begin = __call__ = lambda *_: count()

flush = os.fsync
os.fsync = lambda file: (count(), flush(file))
Trainer(load_recipe(recipe, sys.argv[4:]), folder).run(Report())
"""


@pytest.mark.slow
def test_a_process_killed_at_ten_random_points_makes_the_same_run(path: Path, tmp_path: Path) -> None:
    """The points are steps, and moments when a checkpoint, its digest, a snapshot or the log is half written."""
    source = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    settings = ["train.steps=150", "train.ema=0.9", "train.snapshots=12", "train.snapshot_every=10"]
    recipe = load_recipe(path, settings)

    def run(folder: str, events: int) -> int:
        command = [sys.executable, "-c", KILLED, str(path), str(tmp_path / folder), str(events), *settings]
        return subprocess.run(command, check=False, env=source).returncode

    assert run("whole", -1) == 0
    chance = random.Random(0)
    for _ in range(10):
        assert run("killed", chance.randrange(5, 30)) == -signal.SIGKILL
        assert max(Checkpoints(tmp_path / "killed" / "checkpoints").steps(), default=0) < recipe.train.steps
    assert run("killed", -1) == 0
    assert same(final(tmp_path / "whole"), final(tmp_path / "killed"))
    assert read_log(tmp_path / "whole" / "log.jsonl") == read_log(tmp_path / "killed" / "log.jsonl")
    for file in (tmp_path / "whole" / "snapshots").iterdir():
        other = tmp_path / "killed" / "snapshots" / file.name
        assert same(*(torch.load(each, weights_only=True) for each in (file, other)))


def test_images_loaded_ahead_make_the_same_run(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path)
    Trainer(recipe, tmp_path / "ahead", workers=3).run()
    Trainer(recipe, tmp_path / "in turn").run()
    assert same(final(tmp_path / "ahead"), final(tmp_path / "in turn"))


def test_it_learns(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.steps=120", "head.name=arcface", "head.scale=16", "head.margin=0.1"])
    Trainer(recipe, tmp_path / "run").run()
    records = read_log(tmp_path / "run" / "log.jsonl")
    assert records[-1]["loss"] < 0.7 * records[0]["loss"]
    assert records[-1]["accuracy"] > records[0]["accuracy"]
    assert all(record["satisfied"] <= record["accuracy"] for record in records)
    assert {"angle", "class_margin", "distortion", "lr", "epoch"} <= set(records[-1])


def test_the_resolved_recipe_is_saved(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.steps=1"])
    Trainer(recipe, tmp_path / "run").run()
    assert load_recipe(tmp_path / "run" / "recipe.toml") == recipe
    assert build(Recipe, json.loads(json.dumps(as_table(recipe)))) == recipe
    assert to_toml(as_table(recipe)) in (tmp_path / "run" / "recipe.toml").read_text()


def test_any_character_may_be_in_a_recipe(path: Path, tmp_path: Path) -> None:
    about = "smile \N{GRINNING FACE}, \N{MUSICAL SYMBOL G CLEF} and \N{LATIN SMALL LETTER E WITH ACUTE}"
    recipe = load_recipe(path, [f'about="{about}"', "train.steps=1"])
    Trainer(recipe, tmp_path / "run").run()
    assert load_recipe(tmp_path / "run" / "recipe.toml") == recipe
    assert about in (tmp_path / "run" / "recipe.toml").read_text(encoding="utf-8")


def test_another_recipes_folder_is_refused(path: Path, tmp_path: Path) -> None:
    Trainer(load_recipe(path, ["train.steps=4"]), tmp_path / "run").run()
    with pytest.raises(ValueError, match="holds a run of another recipe"):
        Trainer(load_recipe(path, ["train.steps=5"]), tmp_path / "run").run()


def test_nan_stops_with_a_cause(path: Path, tmp_path: Path) -> None:
    trainer = Trainer(load_recipe(path, ["train.log_every=1"]), tmp_path / "run")
    with torch.no_grad():
        trainer.head.weight.fill_(float("nan"))
    with pytest.raises(TrainingStopped, match="the loss is nan: lower the learning rate"):
        trainer.run()


def test_polar_collapse_is_detected(path: Path, tmp_path: Path) -> None:
    settings = ["head.name=unified", "head.m0=0.3", "head.scale=64", "train.log_every=1"]
    trainer = Trainer(load_recipe(path, settings), tmp_path / "run")
    with torch.no_grad():
        images, _ = trainer.images.load(0)
        mean = trainer.backbone.eval()(images).mean(0)
        trainer.head.weight.copy_(-mean + 0.01 * torch.randn_like(trainer.head.weight))
        for parameter in list(trainer.backbone.parameters())[-2:]:
            parameter.requires_grad_(False)
    with pytest.raises(TrainingStopped, match="polar collapse: .* turn head.wrong_class_relu on"):
        trainer.run()


@pytest.mark.slow
def test_ampface_without_the_relu_collapses_and_is_stopped(tmp_path: Path) -> None:
    settings = ["head.wrong_class_relu=false", "head.margin=0.35", "train.epochs=2", "train.log_every=4"]
    with pytest.raises(TrainingStopped, match="polar collapse"):
        Trainer(load_recipe(Path("recipes/pocket/ampface.toml"), settings), tmp_path / "run").run()
    whole = load_recipe(Path("recipes/pocket/ampface.toml"), ["train.epochs=2"])
    assert Trainer(whole, tmp_path / "whole").run().steps


def test_divergence_to_chance_is_detected(path: Path, tmp_path: Path) -> None:
    trainer = Trainer(load_recipe(path), tmp_path / "run")
    figures = {"accuracy": 0.9}
    trainer.state.monitor._stop_at_chance(figures, 10)
    figures["accuracy"] = 0.1
    for _ in range(4):
        trainer.state.monitor._stop_at_chance(figures, 10)
    with pytest.raises(TrainingStopped, match="diverged to chance"):
        trainer.state.monitor._stop_at_chance(figures, 10)


def test_the_best_checkpoint_is_kept(path: Path, tmp_path: Path) -> None:
    scores = iter([0.2, 0.9, 0.1, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    trainer = Trainer(
        load_recipe(path, ["train.keep=1"]), tmp_path / "run", evaluate=lambda network: {"score": next(scores)}
    )
    trainer.run()
    assert trainer.checkpoints.best() == 8
    assert trainer.checkpoints.steps() == [8, 30]


def test_frozen_backbones_do_not_move(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.freeze_backbone=true", "train.steps=3"])
    trainer = Trainer(recipe, tmp_path / "run")
    before = copy.deepcopy(trainer.backbone.state_dict())
    trainer.run()
    assert same(before, trainer.backbone.state_dict())


def test_the_statistics_of_a_frozen_backbone_may_follow_the_data(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.freeze_backbone=true", "train.shift_batch_norm=true", "train.steps=3"])
    trainer = Trainer(recipe, tmp_path / "run")
    before = copy.deepcopy(trainer.backbone.state_dict())
    trainer.run()
    moved = {name for name, value in trainer.backbone.state_dict().items() if not torch.equal(value, before[name])}
    assert moved
    assert all("running" in name or "num_batches" in name for name in moved)


def test_a_run_begins_from_another(path: Path, tmp_path: Path) -> None:
    first = Trainer(load_recipe(path, ["train.steps=3"]), tmp_path / "first").run()
    torch.save(first.backbone.state_dict(), tmp_path / "weights.pt")
    for start in (tmp_path / "first", tmp_path / "weights.pt", tmp_path / "first" / "model.safetensors"):
        trainer = Trainer(load_recipe(path, [f"train.start={start}"]), tmp_path / "new")
        assert same(trainer.backbone.state_dict(), first.backbone.state_dict())
        assert not torch.equal(trainer.head.weight, first.head.weight)
    settings = [f"train.start={tmp_path / 'first'}", "train.start_head=true"]
    kept = Trainer(load_recipe(path, settings), tmp_path / "new")
    assert same(kept.head.state_dict(), first.head.state_dict())


def test_weights_of_a_classifier_begin_a_resnet(path: Path, tmp_path: Path) -> None:
    """Those of torchvision: a classifier `fc`, no neck, no projection."""
    body = create_backbone("resnet50", dim=2048, input_size=(32, 32)).state_dict()
    body |= {name: value + 1 for name, value in body.items() if "running" in name}
    torch.save(body | {"fc.weight": torch.ones(1000, 2048), "fc.bias": torch.ones(1000)}, tmp_path / "imagenet.pth")
    start, net = tmp_path / "imagenet.pth", ["backbone.name=resnet50", "data.size=[32, 32]"]
    for settings, new in (
        (["backbone.dim=2048", "backbone.bnneck=true"], {"bnneck"}),
        (["backbone.dim=8"], {"projection"}),
    ):
        state = make_backbone(load_recipe(path, [*net, *settings]), start).state_dict()
        assert {name.split(".")[0] for name in state.keys() - body.keys()} == new
        assert same({name: state[name] for name in body}, body)
    torch.save({name: value for name, value in body.items() if "layer3" not in name}, tmp_path / "imagenet.pth")
    with pytest.raises(ValueError, match=r"(?s)do not fit resnet50 .*Missing .*layer3\.0\.conv1"):
        make_backbone(load_recipe(path, [*net, "backbone.dim=2048"]), start)


def test_a_start_that_does_not_fit_is_named(path: Path, tmp_path: Path) -> None:
    Trainer(load_recipe(path, ["train.steps=1"]), tmp_path / "first").run()
    (tmp_path / "text.pt").write_text("no weights")
    for setting, message in (
        (f"train.start={tmp_path / 'first'}", r"train.start=.*first: the weights do not fit cnn4"),
        (f"train.start={tmp_path / 'nowhere.pt'}", "nowhere.pt: there is no such file"),
        (f"train.start={tmp_path / 'text.pt'}", "text.pt: no file of weights"),
    ):
        with pytest.raises(ValueError, match=message):
            Trainer(load_recipe(path, [setting, "backbone.dim=9"]), tmp_path / "new")


def test_a_run_that_goes_on_does_not_need_its_start(path: Path, tmp_path: Path) -> None:
    Trainer(load_recipe(path, ["train.steps=3"]), tmp_path / "first").run()
    recipe = load_recipe(path, [f"train.start={tmp_path / 'first'}", "train.start_head=true", "train.steps=8"])
    Trainer(recipe, tmp_path / "next").run(until=5)
    (tmp_path / "first").rename(tmp_path / "gone")
    assert Trainer(recipe, tmp_path / "next").run().steps == 8


class Unlabelled(ArraySource):
    """A source whose every third image has no identity."""

    def __init__(self, source: ImageSource) -> None:
        images = source.batch(range(len(source))).permute(0, 2, 3, 1).numpy()
        super().__init__(images, np.where(np.arange(len(images)) % 3, source.labels, -1))


def test_parts_of_a_batch_with_unlabelled_images_make_the_loss_of_the_whole(path: Path, tmp_path: Path) -> None:
    losses = []
    for parts in (1, 2, 4):
        recipe = load_recipe(path, ["head.name=arcface", "backbone={name='sfnet4',dim=8}", f"train.accumulate={parts}"])
        source = Unlabelled(PocketFaces(6, 8, 16))
        trainer = Trainer(recipe, tmp_path / str(parts), source=source)
        losses.append(float(eager(trainer).take(0, *trainer.images.load(0)).loss))
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)


def test_a_skipped_step_moves_nothing(path: Path, tmp_path: Path) -> None:
    trainer = Trainer(load_recipe(path, ["train.precision=float16", "train.ema=0.5"]), tmp_path / "run")
    trainer.state.scaler.scale(torch.ones(()))
    for parameter in (*trainer.backbone.parameters(), *trainer.head.parameters()):
        parameter.grad = torch.full_like(parameter, float("inf"))
    trainer.state.update(trainer.world, None)
    assert trainer.head.objective.step == 0


def test_no_checkpoint_of_a_diverged_run(path: Path, tmp_path: Path) -> None:
    trainer = Trainer(load_recipe(path, ["optimizer.lr=1e20", "train.log_every=1000"]), tmp_path / "run")
    with pytest.raises(TrainingStopped, match="the loss is"):
        trainer.run()
    assert not trainer.checkpoints.steps()


def test_late_snapshots_are_kept(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.snapshots=3", "train.snapshot_every=5"])
    Trainer(recipe, tmp_path / "run").run(until=22)
    trained = Trainer(recipe, tmp_path / "run").run()
    assert [file.name for file in trained.snapshots] == [f"step-{step:09d}.pt" for step in (20, 25, 30)]
    assert same(torch.load(trained.snapshots[-1], weights_only=True), dict(trained.backbone.state_dict()))
    pairs = unseen_pairs(recipe, identities=20, pairs=200)
    assert pairs is not None
    results = pairs.verify_run(trained)
    assert len(results) == 3
    assert results[-1].accuracy == pairs.verify(trained.backbone).accuracy


def test_the_second_stage_trains_a_new_head_on_balanced_classes(path: Path, tmp_path: Path) -> None:
    table = tmp_path / "two.toml"
    table.write_text(
        f'base = "{path.name}"\n'
        """
[second.head]
name = "label_aware_smoothing"
add = { zero_centroid = { weight = 1.0 } }
[second.train]
steps = 5
freeze_backbone = true
sampler = "class_balanced"
"""
    )
    recipe = load_recipe(table, ["data.imbalance=long_tailed", "data.imbalance_ratio=4"])
    trained = train_recipe(recipe, tmp_path / "run")
    first = load_run(tmp_path / "run")[1]
    assert trained.folder == tmp_path / "run" / "second"
    assert same(dict(first.state_dict()), dict(trained.backbone.state_dict()))
    assert trained.steps == 5
    assert trained.head.objective.class_smoothing[0] > trained.head.objective.class_smoothing[-1]  # type: ignore[index]
    (tmp_path / "run").rename(tmp_path / "moved")
    again = train_recipe(recipe, tmp_path / "moved")
    assert same(again.head.state_dict(), trained.head.state_dict())


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (["train.mixup=0.4"], {"mixup"}),
        (["train.cutmix=1.0"], {"cutmix"}),
        (["train.mixup=0.4", "train.cutmix=1.0"], {"mixup", "cutmix"}),
        (["train.mixup=0.4", "train.cutmix=0"], {"mixup"}),
        (["train.mixup=0", "train.cutmix=0"], set()),
    ],
)
def test_a_batch_is_mixed_in_one_way_and_its_loss_likewise(
    path: Path, tmp_path: Path, settings: list[str], wanted: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []
    for name in ("mixup", "cutmix"):
        way = getattr(module, name)

        def noted(*args: Any, name: str = name, way: Any = way) -> Any:
            used.append(name)
            return way(*args)

        monkeypatch.setattr(module, name, noted)
    trainer = Trainer(load_recipe(path, settings), tmp_path / "run")
    trainer.run(until=12)
    assert set(used) == wanted
    assert len(used) == (12 if wanted else 0)


def test_cutmix_weighs_both_labels_by_their_pixels(path: Path, tmp_path: Path) -> None:
    trainer = Trainer(load_recipe(path, ["train.cutmix=1.0", "head.name=cosface"]), tmp_path / "run")
    trainer.backbone.eval()
    images, labels = trainer.images.load(0)
    mixture = module.mix(images, torch.Generator().manual_seed(3), trainer.recipe.train)
    found, _ = eager(trainer).part_loss(images, labels, mixture, torch.arange(0), 1.0)
    mixed, order, share = cutmix(images, torch.Generator().manual_seed(3), 1.0)
    assert 0 < share < 1
    embeddings = trainer.backbone(mixed)
    own, other = trainer.head(embeddings, labels), trainer.head(embeddings, labels[order])
    torch.testing.assert_close(found, share * own + (1 - share) * other)


def test_the_second_stage_may_keep_the_head_and_drop_mixup(path: Path, tmp_path: Path) -> None:
    settings = ["head.name=softmax", "train.steps=2", "train.mixup=0.2", "second.head.name=label_aware_smoothing"]
    settings += ["second.train.mixup=0", "second.train.start_head=true", "second.optimizer.lr=1e-9"]
    recipe = load_recipe(path, settings)
    first, second = recipe.stages()
    assert first.train.mixup == 0.2
    trained = train_recipe(recipe, tmp_path / "run")
    torch.testing.assert_close(trained.head.weight, final(tmp_path / "run")["head"]["weight"], atol=1e-6, rtol=0)  # type: ignore[index]
    plain = Trainer(
        dataclasses.replace(second, train=dataclasses.replace(second.train, start=None, start_head=False)),
        tmp_path / "plain",
    )
    images, labels = plain.images.load(0)
    loss = eager(plain).part_loss(images, labels, None, torch.arange(0), 1.0)[0]
    assert torch.equal(loss, plain.head(plain.backbone(images), labels))


def test_mixed_images_are_looked_at_by_their_larger_part(path: Path, tmp_path: Path) -> None:
    """With so small an alpha an image is almost itself or almost another one."""
    trainer = Trainer(load_recipe(path, ["train.mixup=0.001", "head.name=softmax"]), tmp_path)
    trainer.backbone.eval()
    for step in range(8):
        images, labels = trainer.images.load(step)
        mixture = module.mix(images, torch.Generator().manual_seed(step), trainer.recipe.train)
        mixed = eager(trainer).part_loss(images, labels, mixture, torch.arange(0), 1.0)[1]
        torch.testing.assert_close(mixed, trainer.backbone(images), atol=1e-3, rtol=1e-3)


def test_losses_before_the_neck(path: Path, tmp_path: Path) -> None:
    settings = ["backbone={name='resnet50',dim=16,bnneck=true}", "data.size=[32,32]", "train.steps=2"]
    settings += ["train.batch_size=4", "train.sampler=identity", "train.images_per_identity=2", "head.name=softmax"]
    plain = Trainer(load_recipe(path, settings), tmp_path / "plain")
    both = Trainer(load_recipe(path, [*settings, "before_neck.triplet={weight=2.0,margin=0.3}"]), tmp_path / "both")
    images, labels = both.images.load(0)
    both.backbone.train()
    embeddings, features = both.backbone(images, before_neck=True)
    triplet = create_loss("triplet", margin=0.3)(features, labels)
    assert triplet > 0
    assert eager(both).part_loss(images, labels, None, torch.arange(0), 1.0)[0].item() == pytest.approx(
        (both.head(embeddings, labels) + 2 * triplet).item()
    )
    assert (
        eager(plain).part_loss(images, labels, None, torch.arange(0), 1.0)[0].item()
        < eager(both).part_loss(images, labels, None, torch.arange(0), 1.0)[0].item()
    )
    both.run()


def test_label_noise_imbalance_and_most_images(path: Path, tmp_path: Path) -> None:
    plain = load_recipe(path)
    noisy = Trainer(dataclasses.replace(plain, data=dataclasses.replace(plain.data, label_noise=0.5)), tmp_path / "a")
    clean = Trainer(plain, tmp_path / "b")
    assert (noisy.images.labels != clean.images.labels).sum() == 24
    tail = load_recipe(path, ["data.imbalance=long_tailed", "data.imbalance_ratio=8"])
    counts = torch.bincount(Trainer(tail, tmp_path / "c").images.labels).tolist()
    assert (counts[0], counts[-1]) == (8, 1)
    few = Trainer(load_recipe(path, ["data.most_images=3"]), tmp_path / "d")
    assert few.source.num_classes == 3


def test_at_most_so_many_images_of_a_class_and_then_imbalance(path: Path) -> None:
    whole = load_recipe(path).data
    six, plenty = (training_source(dataclasses.replace(whole, images_per_class=count)) for count in (6, 99))
    assert set(np.bincount(six.labels)) == {6}
    assert (plenty.labels == training_source(whole).labels).all()
    tail = dataclasses.replace(whole, images_per_class=6, imbalance="step", imbalance_ratio=3.0)
    assert set(np.bincount(training_source(tail).labels)) == {6, 2}
    with pytest.raises(ValueError, match="images_per_class=0 must be at least 1"):
        load_recipe(path, ["data.images_per_class=0"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.stpes=3", "train.stpes is unknown; did you mean 'steps'"),
        ("train={steps=3, epochs=3}", "train: give either steps or epochs"),
        ("head.margni=3", "sphereface has no option 'margni'; did you mean 'margin'"),
        ("head.name=arcfase", "unknown loss 'arcfase'; did you mean 'arcface'"),
        ("backbone.name=sfnet5", "did you mean"),
        ("backbone.dim=0", "backbone.dim=0 must be a whole number"),
        ("train.batch_size=0", "batch_size=0 must be at least 1"),
        ("train.cutmix=-1", "cutmix=-1 must be at least 0"),
        ("augment.zoom_range=[2.0,1.0]", "augment: zoom_range=2 must be between 0.1 and 1"),
        ("schedule.name=stpe", "schedule: name='stpe' is unknown; did you mean 'step'"),
        ("train.start_head=true", "train: start_head needs start"),
        ("train.shift_batch_norm=true", "train: shift_batch_norm belongs to freeze_backbone"),
        ("second.train.sampler=identitty", "second: train: sampler='identitty' is unknown; did you mean 'identity'"),
        ("before_neck.triplet={margin=1}", "before_neck needs a network with a neck"),
        ("head.num_classes=3", "head.num_classes is not for recipes"),
        ("backbone.channels=3", "backbone.channels is not for recipes"),
        ("data.size=[16]", r"data.size=\[16\] must have 2 entries"),
    ],
)
def test_a_wrong_recipe_is_named(path: Path, tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trainer(load_recipe(path, [setting]), tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "precision"),
    [
        ([], None),
        (["train.precision=bfloat16"], "bfloat16"),
        (["train.precision=float16"], "float16"),
        (["train.precision=bfloat16", "head.precision=tf32"], "tf32"),
    ],
)
def test_the_heads_products_are_as_narrow_as_the_network(
    path: Path, tmp_path: Path, settings: list[str], precision: str | None
) -> None:
    assert Trainer(load_recipe(path, settings), tmp_path / "run").head.engine_options.precision == precision


def test_gradients_of_unit_prototypes_train_as_ordinary_ones(path: Path, tmp_path: Path) -> None:
    weights = []
    for name, more in (("plain", []), ("unit", ["head.unit_gradients=true"])):
        Trainer(load_recipe(path, ["train.steps=8", *more]), tmp_path / name).run()
        weights.append(final(tmp_path / name)["head"]["weight"])  # type: ignore[index]
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="head.unit_gradients needs"):
        Trainer(load_recipe(path, ["head.unit_gradients=true", "optimizer.name=adamw"]), tmp_path / "adamw")


def test_two_runs_in_one_folder_are_refused(path: Path, tmp_path: Path) -> None:
    recipe, other = load_recipe(path, ["train.steps=6"]), load_recipe(path, ["train.steps=7"])

    class Meanwhile:
        def begin(self, done: int) -> None:
            for second in (recipe, other):
                with pytest.raises(Failure, match=f"run is in use by process {os.getpid()} on .*: wait until it ends"):
                    Trainer(second, tmp_path / "run").run()

        def __call__(self, done: int, total: int, note: str = "") -> None:
            pass

    Trainer(recipe, tmp_path / "run").run(Meanwhile(), until=2)
    with pytest.raises(ValueError, match="run holds a run of another recipe"):
        Trainer(other, tmp_path / "run").run()
    assert (tmp_path / "run" / "recipe.toml").read_text().startswith(f"# recipe {digest(recipe)}\n")
    Trainer(recipe, tmp_path / "run").run()


def test_what_a_killed_run_left_half_written_is_removed(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.steps=6"])
    Trainer(recipe, tmp_path / "run").run(until=4)
    for folder in ("run", "run/checkpoints"):
        (tmp_path / folder / ".x.1234.partial").write_bytes(b"half")
    Trainer(recipe, tmp_path / "run").run()
    assert not list(tmp_path.rglob("*.partial*"))


def test_a_run_whose_every_checkpoint_is_damaged_does_not_forget_where_it_began(path: Path, tmp_path: Path) -> None:
    first = load_recipe(path, ["train.steps=6"])
    Trainer(first, tmp_path / "first").run()
    recipe = load_recipe(path, ["train.steps=6", f"train.start={tmp_path / 'first'}"])
    Trainer(recipe, tmp_path / "run").run(until=4)
    for file in (tmp_path / "run" / "checkpoints").glob("*.pt"):
        file.write_bytes(b"?")
    with (
        pytest.warns(RuntimeWarning, match="damaged .*; there is no other"),
        pytest.raises(ValueError, match="none can be read; remove this folder to begin from train.start again"),
    ):
        Trainer(recipe, tmp_path / "run").run()
