"""Distillation: the loss against float64, the teacher's images, the cache never used wrongly, a run resumed."""

import copy
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper, load, save

from hypersphere.core.config import to_toml
from hypersphere.data import ArraySource, Augmentation
from hypersphere.distributed import World
from hypersphere.models import Contract, load_model
from hypersphere.training import Trainer, load_recipe
from hypersphere.training.logs import read_log
from hypersphere.training.teacher import Teacher, TeacherSettings, cached_targets
from tests.damage import flipped
from tests.models.networks import linear_onnx
from tests.training.small import RECIPE, final, same

PLAIN = torch.autocast("cpu", enabled=False)


@pytest.fixture
def teacher(tmp_path: Path) -> Path:
    """A teacher of 16 x 16 images with its contract beside it: BGR, and a normalisation that no student has."""
    path = tmp_path / "teacher.onnx"
    linear_onnx(path, size=16, dim=8)
    contract = {"input_size": [16, 16], "colour": "bgr", "mean": [10.0, 20.0, 30.0], "std": [50.0, 60.0, 70.0]}
    (tmp_path / "teacher.contract.toml").write_text(to_toml(contract))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


def images(count: int = 6, channels: int = 3, seed: int = 0) -> ArraySource:
    values = np.random.default_rng(seed).integers(0, 256, (count, 16, 16, channels), dtype=np.uint8)
    return ArraySource(values, np.arange(count) % 3)


def make(settings: TeacherSettings, source: ArraySource, folder: Path, **changes: Any) -> Teacher:
    options: dict[str, Any] = {"dim": 8, "augment": Augmentation(), "world": World(), **changes}
    return Teacher(settings, source=source, folder=folder, **options)


def plain(source: ArraySource, weights: np.ndarray, *, mirrored: bool = False) -> np.ndarray:
    """The teacher's embeddings in float64, from 8-bit images."""
    x = source.batch(range(len(source))).numpy().astype(np.float64)
    x = x if x.shape[1] == 3 else np.repeat(x, 3, 1)
    x = x[:, ::-1]
    x = x[..., ::-1] if mirrored else x
    shape = (1, 3, 1, 1)
    x = (x - np.array([10.0, 20, 30]).reshape(shape)) / np.array([50.0, 60, 70]).reshape(shape)
    return x.reshape(len(x), -1) @ weights


def reference(students: torch.Tensor, targets: np.ndarray, weight: float) -> tuple[float, torch.Tensor]:
    x = students.detach().double().requires_grad_()
    loss = weight * (1 - torch.cosine_similarity(x, torch.from_numpy(targets), eps=0)).mean()
    (gradient,) = torch.autograd.grad(loss, x)
    return float(loss.detach()), gradient


@pytest.mark.filterwarnings("ignore:.*computed again:RuntimeWarning")
def test_a_damaged_cache_is_made_again(teacher: Path, tmp_path: Path) -> None:
    cache, source, chance = tmp_path / "cache.npz", images(), random.Random(0)
    embedder = load_model(teacher, runtime="torch")
    first = cached_targets(embedder, source, cache)
    sound = cache.read_bytes()
    for _ in range(60):
        place = chance.randrange(len(sound))
        cache.write_bytes(sound[:place] if chance.random() < 0.3 else flipped(sound, place, chance.randrange(8)))
        assert torch.equal(cached_targets(embedder, source, cache), first)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("augment", [Augmentation(), Augmentation(mean=0.3, std=0.7)])
def test_the_loss_is_the_cosine_to_what_the_teacher_sees(
    teacher: Path, tmp_path: Path, augment: Augmentation, channels: int
) -> None:
    weights = linear_onnx(tmp_path / "same.onnx", size=16, dim=8).astype(np.float64)
    source = images(channels=channels)
    if channels == 3:
        augment = Augmentation(mean=(0.2, 0.4, 0.6), std=(0.3, 0.5, augment.std))  # type: ignore[arg-type]
    made = make(TeacherSettings(model=str(teacher), weight=2.5), source, tmp_path, augment=augment)
    seen = augment(source.batch(range(6)), torch.Generator())
    student = torch.randn(6, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    loss = made.loss(student, made.embed(seen, torch.arange(6), PLAIN))
    loss.backward()
    value, gradient = reference(student, plain(source, weights), 2.5)
    assert float(loss.detach()) == pytest.approx(value, rel=1e-5)
    torch.testing.assert_close(student.grad, gradient.float(), rtol=1e-4, atol=1e-6)
    assert made.log_values() == {"teacher_cosine": pytest.approx(1 - value / 2.5, abs=1e-5)}


def test_cached_targets_are_the_sum_of_an_image_and_its_mirror_image(teacher: Path, tmp_path: Path) -> None:
    weights = linear_onnx(tmp_path / "same.onnx", size=16, dim=8).astype(np.float64)
    source = images()
    made = make(TeacherSettings(model=str(teacher), views="cached"), source, tmp_path)
    wanted = plain(source, weights) + plain(source, weights, mirrored=True)
    assert made.targets is not None
    np.testing.assert_allclose(made.targets.numpy(), wanted, rtol=1e-4, atol=1e-3)
    student, chosen = torch.randn(3, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([4, 0, 5])
    loss = made.loss(student, made.embed(torch.zeros(3, 3, 16, 16), chosen, PLAIN))
    assert float(loss) == pytest.approx(reference(student, wanted[chosen.numpy()], 1.0)[0], rel=1e-4)


def test_a_cache_is_never_used_for_other_images_or_another_model(teacher: Path, tmp_path: Path) -> None:
    cache, source = tmp_path / "cache.npz", images()
    embedder = load_model(teacher, runtime="torch")
    first = cached_targets(embedder, source, cache)
    written = cache.read_bytes()
    calls: list[int] = []
    silent = copy.copy(embedder)
    object.__setattr__(silent, "network", lambda x: calls.append(len(x)))
    assert torch.equal(cached_targets(silent, source, cache), first)
    assert calls == []
    assert cache.read_bytes() == written
    changed = images()
    changed.images[3, 2, 1, 0] ^= 1
    another = cached_targets(embedder, changed, cache)
    assert not torch.equal(another, first)
    network = load(teacher)
    network.graph.node.append(helper.make_node("Relu", ["embedding"], ["positive"]))
    network.graph.output[0].name = "positive"
    save(network, teacher)
    assert not torch.equal(cached_targets(load_model(teacher, runtime="torch"), source, cache), first)
    cache.write_bytes(cache.read_bytes()[:-40])
    with pytest.warns(RuntimeWarning, match=r"cache\.npz: .*; the teacher's embeddings are computed again"):
        assert torch.equal(cached_targets(embedder, source, cache), first)
    told: list[tuple[int, int]] = []
    cache.unlink()
    cached_targets(embedder, source, cache, lambda done, total: told.append((done, total)))
    assert told == [(6, 6)]


@pytest.mark.parametrize(
    "settings",
    [
        ["teacher.views=cached", "head.loss_weight=0"],
        ["teacher.views=augmented", "head.loss_weight=0", "train.accumulate=2", "train.ema=0.9"],
        ["teacher.views=augmented", "teacher.weight=5.0", "train.mixup=0.4", "train.precision=bfloat16"],
        ["teacher.views=cached", "train.sampler=identity", "train.images_per_identity=3", "data.device=cpu"],
        ["teacher.centers=true", "teacher.weight=0", "head.name=cosface", "train.accumulate=2"],
    ],
)
def test_a_stopped_student_resumed_was_never_stopped(
    teacher: Path, path: Path, tmp_path: Path, settings: list[str]
) -> None:
    recipe = load_recipe(path, [f"teacher.model={teacher}", *settings])
    Trainer(recipe, tmp_path / "whole").run()
    for stop in (3, 17):
        Trainer(recipe, tmp_path / "parts").run(until=stop)
    Trainer(recipe, tmp_path / "parts").run()
    assert same(final(tmp_path / "whole"), final(tmp_path / "parts"))
    log = read_log(tmp_path / "whole" / "log.jsonl")
    assert log == read_log(tmp_path / "parts" / "log.jsonl")
    assert all(-1 <= line["teacher_cosine"] <= 1 for line in log)


def test_a_student_learns_its_teacher_without_labels(teacher: Path, path: Path, tmp_path: Path) -> None:
    settings = [f"teacher.model={teacher}", "head.loss_weight=0", "train.steps=300", "train.log_every=50"]
    settings += ["augment.flip=0", "augment.shift=0", "optimizer.name=adamw", "optimizer.lr=0.005"]
    trainer = Trainer(load_recipe(path, settings), tmp_path / "run")
    before = copy.deepcopy(trainer.head.state_dict())
    trainer.run()
    last = read_log(tmp_path / "run" / "log.jsonl")[-1]
    assert last["teacher_cosine"] > 0.97
    assert not {"accuracy", "angle", "class_margin"} & set(last)
    assert torch.equal(trainer.head.weight, before["weight"])


def test_parts_of_a_batch_are_taught_as_the_whole(teacher: Path, path: Path, tmp_path: Path) -> None:
    """In a network without BatchNorm, whose halves know nothing of each other."""
    losses = []
    for name, extra in (("whole", []), ("halves", ["train.accumulate=2"])):
        settings = [f"teacher.model={teacher}", "teacher.views=cached", "train.steps=5", "train.log_every=1"]
        settings += ["backbone.name=sfnet4", "head.loss_weight=0.1", *extra]
        Trainer(load_recipe(path, settings), tmp_path / name).run()
        losses.append([line["loss"] for line in read_log(tmp_path / name / "log.jsonl")])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["teacher.model="], r"teacher\.model is empty: this recipe needs a model to learn from"),
        (["backbone.dim=4"], r"the teacher teacher\.onnx gives 8 numbers: use backbone\.dim=8, not 4"),
        (["data.size=[20,16]"], r"the images are \[20, 16\], but the teacher .* use data\.size=\[16, 16\]"),
        (["teacher.weight=0"], r"weight=0.* must be positive"),
        (["teacher.views=clean"], r"views='clean'"),
        (["teacher.views=cached", "train.cutmix=1.0"], r"images that no cache holds: use teacher\.views=augmented"),
        (["teacher.cache=x.npz"], r"cache='x\.npz' belongs to views='cached'"),
        (["train.freeze_backbone=true"], r"leave train\.freeze_backbone out"),
    ],
)
def test_what_cannot_be_taught_is_said(
    teacher: Path, path: Path, tmp_path: Path, settings: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Trainer(load_recipe(path, [f"teacher.model={teacher}", *settings]), tmp_path / "run")


def test_keys_of_a_teacher_need_one(path: Path) -> None:
    with pytest.raises(ValueError, match=r"contract belongs to a teacher: give teacher\.model=PATH"):
        load_recipe(path, ["teacher.contract=insightface"])
    with pytest.raises(ValueError, match=r"head\.loss_weight=0"):
        load_recipe(path, ["head.loss_weight=0"])


def test_an_operator_that_torch_cannot_compute_is_left_to_the_cache(teacher: Path, path: Path, tmp_path: Path) -> None:
    network = load(teacher)
    network.graph.node.append(helper.make_node("Tanh", ["embedding"], ["squashed"]))
    network.graph.output[0].name = "squashed"
    save(network, teacher)
    with pytest.raises(ValueError, match=r"the operator Tanh is unknown here.*; teacher\.views=cached runs it once"):
        Trainer(load_recipe(path, [f"teacher.model={teacher}"]), tmp_path / "run")
    settings = TeacherSettings(model=str(teacher), views="cached")
    targets, source = make(settings, images(), tmp_path).targets, images()
    assert targets is not None
    torch.testing.assert_close(targets, load_model(teacher).with_flip("sum").raw(source.batch(range(6))))


def test_grey_teachers_take_grey_images(tmp_path: Path) -> None:
    linear_onnx(tmp_path / "grey.onnx", size=16, dim=8, channels=1)
    contract = Contract(input_size=(16, 16), colour="grey").table()
    (tmp_path / "grey.contract.toml").write_text(to_toml(contract))
    settings = TeacherSettings(model=str(tmp_path / "grey.onnx"))
    with pytest.raises(ValueError, match=r"the teacher grey\.onnx takes grey images: use data\.grey=true"):
        make(settings, images(), tmp_path)
    assert make(settings, images(channels=1), tmp_path).channels == 1


def test_centres_move_as_adadistill_says_in_float64(teacher: Path, tmp_path: Path) -> None:
    """Identity 1 has two images in the batch, identity 4 none, and one image belongs to nobody."""
    made = make(TeacherSettings(model=str(teacher), centers=True), images(), tmp_path)
    drawn = torch.Generator().manual_seed(0)
    centers, students = torch.randn(5, 8, generator=drawn), torch.randn(6, 8, generator=drawn)
    targets = torch.randn(6, 8, generator=drawn)
    students[1], targets[2] = 0.7 * targets[1] + 0.1 * students[1], 3 * centers[2]
    labels = torch.tensor([0, 1, 2, -1, 1, 3])
    before, wanted = centers.double(), centers.double()

    def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
        return float(a.double() @ b.double() / a.double().norm() / b.double().norm())

    moved: dict[int, list[torch.Tensor]] = {}
    for student, target, label in zip(students, targets, labels.tolist(), strict=True):
        if label >= 0:
            unit = target.double() / target.double().norm()
            share = min(1, max(1e-6, cosine(student, unit) * min(1, max(1e-6, cosine(before[label], unit)))))
            moved.setdefault(label, []).append(share * before[label] + (1 - share) * unit)
    for label, rows in moved.items():
        wanted[label] = sum(rows) / len(rows)
    made.move_centers(centers, students, targets, labels)
    torch.testing.assert_close(centers, wanted.float(), rtol=1e-5, atol=1e-6)
    assert torch.equal(centers[4], before[4].float())


def test_a_student_of_centres_learns_no_prototypes_and_its_centres_are_the_teachers(
    teacher: Path, path: Path, tmp_path: Path
) -> None:
    settings = [f"teacher.model={teacher}", "teacher.views=cached", "teacher.centers=true", "head.name=cosface"]
    trainer = Trainer(load_recipe(path, settings), tmp_path / "run")
    assert not list(trainer.head.parameters())
    start = trainer.head.weight.clone()
    trainer.run()
    assert trainer.loss.taught is not None
    targets = trainer.loss.taught.teacher.targets
    assert targets is not None
    labels = torch.from_numpy(np.asarray(trainer.source.labels))
    unit = torch.nn.functional.normalize(targets, dim=1)
    means = torch.stack([unit[labels == label].mean(0) for label in range(trainer.source.num_classes)])
    alike = torch.cosine_similarity(trainer.head.weight, means)
    assert float(alike.min()) > 0.9 > float(torch.cosine_similarity(start, means).max())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["teacher.centers=true", "head.loss_weight=0"], r"head\.loss_weight, with teacher\.centers,=0"),
        (["teacher.centers=true", "train.mixup=0.2"], r"teacher\.centers goes without train\.mixup"),
        (["teacher.centers=true", "head.sample=0.5"], r"head\.sample is about learned prototypes"),
        (["teacher.weight=0"], r"weight=0 must be positive"),
    ],
)
def test_centres_that_do_not_go_with_another_setting_are_refused(
    teacher: Path, path: Path, settings: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_recipe(path, [f"teacher.model={teacher}", *settings])
