"""Semi-siamese training: a step against float64 arithmetic, the queue, resumption, and that it learns."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hypersphere.distributed import World
from hypersphere.heads import Head, create_head
from hypersphere.training import Trainer, load_recipe, run_key
from hypersphere.training.logs import read_log
from hypersphere.training.loss_terms import SemiSiameseTerm
from hypersphere.training.semi_siamese import SemiSiamese, remember, starting_prototypes
from tests.training.small import RECIPE, final, same

SETTINGS = ["train.sampler=identity", "train.images_per_identity=2", "train.ema=0.9", "head.name=arcface"]
PLAIN = torch.autocast("cpu", enabled=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=1, keepdim=True)


def cosface(probes: Tensor, prototypes: Tensor, labels: list[int], scale: float, margin: float) -> Tensor:
    """The mean loss of rows, in float64, with one sum over exponentials per row."""
    total = torch.zeros((), dtype=torch.float64)
    for probe, label in zip(unit(probes), labels, strict=True):
        cosines = prototypes @ probe
        target = torch.exp(scale * (cosines[label] - margin))
        others = sum(torch.exp(scale * cosine) for place, cosine in enumerate(cosines) if place != label)
        total = total - torch.log(target / (target + others))
    return total / len(labels)


def small(identities: int, dim: int = 4, seed: int = 0) -> tuple[Head, nn.Module]:
    torch.manual_seed(seed)
    prototypes = starting_prototypes(identities, dim)
    head = create_head("cosface", dim=dim, num_classes=identities, scale=8, margin=0.3, prototypes=prototypes)
    remember(head)
    gallery = nn.Sequential(nn.Flatten(), nn.Linear(12, dim), nn.BatchNorm1d(dim)).eval()
    return head, gallery


def plain_gallery(gallery: nn.Module, images: Tensor) -> Tensor:
    """The average's embeddings, with the statistics of the batch."""
    weights = {name: value.double() for name, value in gallery.state_dict().items()}
    x = images.double().flatten(1) @ weights["1.weight"].T + weights["1.bias"]
    x = (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()
    return unit(x * weights["2.weight"] + weights["2.bias"])


@pytest.mark.parametrize("queue", [7, 4])
def test_a_step_is_the_formula_in_float64(queue: int) -> None:
    """Seven identities; those of the batch are 5 and 2, and a queue of four holds besides the two before them."""
    head, gallery = small(7)
    before = head.weight.double().clone()
    head.get_buffer("seen")[[6, 0]] = torch.tensor([10, 11])
    labels = torch.tensor([5, 5, 2, 2])
    images = torch.randn(4, 3, 2, 2)
    embeddings = torch.randn(4, 4, requires_grad=True)
    loss = SemiSiamese(head, gallery, queue, World()).loss(embeddings, images, labels, PLAIN)
    loss.backward()

    galleries = plain_gallery(gallery, images)
    kept = list(range(7)) if queue == 7 else [0, 2, 5, 6]
    own = [kept.index(5), kept.index(2)]
    x = embeddings.detach().double().requires_grad_()
    of_first, of_second = before.clone(), before.clone()
    of_first[[5, 2]], of_second[[5, 2]] = galleries[[0, 2]], galleries[[1, 3]]
    wanted = cosface(x[[0, 2]], of_second[kept], own, 8, 0.3) / 2 + cosface(x[[1, 3]], of_first[kept], own, 8, 0.3) / 2
    (gradient,) = torch.autograd.grad(wanted, x)
    assert float(loss.detach()) == pytest.approx(float(wanted.detach()), rel=1e-5)
    torch.testing.assert_close(embeddings.grad, gradient.float(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(head.weight, of_second.float(), rtol=1e-5, atol=1e-6)
    assert head.get_buffer("seen").tolist() == [11, -6, 13, -4, -3, 12, 10]
    assert head.sampler is None
    assert not gallery.training
    assert not any(layer.training for layer in gallery.modules())


def test_the_queue_is_the_identities_seen_last() -> None:
    head, gallery = small(6)
    method = SemiSiamese(head, gallery, 3, World())
    for own in ([3, 1], [4, 0], [1, 4]):
        labels = torch.tensor(own).repeat_interleave(2)
        method.loss(torch.randn(4, 4), torch.randn(4, 3, 2, 2), labels, PLAIN)
    seen = head.get_buffer("seen")
    assert sorted(seen.topk(3).indices.tolist()) == [0, 1, 4]
    assert len(set(seen.tolist())) == 6


@pytest.mark.parametrize(
    "gallery",
    [
        ["train.semi_siamese=6"],
        ["train.semi_siamese=4", "train.gallery_ema=0.5", "train.gallery_view=plain", "data.device=cpu"],
    ],
)
def test_a_stopped_run_resumed_was_never_stopped(path: Path, tmp_path: Path, gallery: list[str]) -> None:
    settings = [*SETTINGS, *gallery, "train.batch_size=8", "train.accumulate=2"]
    recipe = load_recipe(path, settings)
    Trainer(recipe, tmp_path / "whole").run()
    for stop in (3, 17):
        Trainer(recipe, tmp_path / "parts").run(until=stop)
    Trainer(recipe, tmp_path / "parts").run()
    assert same(final(tmp_path / "whole"), final(tmp_path / "parts"))
    assert read_log(tmp_path / "whole" / "log.jsonl") == read_log(tmp_path / "parts" / "log.jsonl")


def test_a_gallery_of_its_own_has_its_own_decay_and_sees_plain_images(path: Path, tmp_path: Path) -> None:
    settings = [*SETTINGS, "train.semi_siamese=9", "train.gallery_ema=0.0", "train.gallery_view=plain"]
    settings += ["data.device=cpu", "augment.mean=[0.1,0.2,0.3]", "augment.std=0.25", "train.steps=3"]
    trainer = Trainer(load_recipe(path, settings), tmp_path / "run")
    (term,) = trainer.loss.labelled
    assert isinstance(term, SemiSiameseTerm)
    seen: list[Tensor] = []
    plain_loss = term.semi_siamese.loss

    def spying(embeddings: Tensor, images: Tensor, *rest: Any) -> Tensor:
        seen.append(images)
        return plain_loss(embeddings, images, *rest)

    term.semi_siamese.loss = spying  # type: ignore[method-assign,assignment]
    trainer.run()
    for step, images in enumerate(seen):
        raw = trainer.source.batch(trainer.images.batches.batch_at(step)).double() / 255
        wanted = (raw - torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64).view(1, 3, 1, 1)) / 0.25
        torch.testing.assert_close(images.double(), wanted, rtol=1e-5, atol=1e-5)
    gallery, network = trainer.state.averages["gallery"].module, trainer.backbone
    for own, trained in zip(gallery.parameters(), network.parameters(), strict=True):
        assert torch.equal(own, trained)
    assert not torch.equal(next(trainer.state.averages["average"].module.parameters()), next(network.parameters()))


def test_it_learns_and_leaves_prototypes_that_tell_identities_apart(path: Path, tmp_path: Path) -> None:
    settings = [*SETTINGS, "train.semi_siamese=100", "train.steps=150", "head.scale=16", "head.margin=0.2"]
    settings += ["data.difficulty=0.3", "optimizer.name=adamw", "optimizer.lr=0.005"]
    trainer = Trainer(load_recipe(path, settings), tmp_path / "run")
    assert not list(trainer.head.parameters())
    start = copy.deepcopy(trainer.head.weight)
    trainer.run()
    log = read_log(tmp_path / "run" / "log.jsonl")
    assert sum(line["accuracy"] for line in log[-10:]) / 10 > 0.7
    assert log[-1]["loss"] < 0.5 * log[0]["loss"]
    assert not torch.equal(trainer.head.weight, start)
    torch.testing.assert_close(trainer.head.weight.norm(dim=1), torch.ones(6))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["train.semi_siamese=1"], r"train\.semi_siamese=1 must be at least 2"),
        (["train.semi_siamese=5"], r"train\.semi_siamese=5 must be at least the 6 identities of a batch"),
        (["train.semi_siamese=9", "train.images_per_identity=3"], r"two images of each identity"),
        (["train.semi_siamese=9", "train.mixup=0.2"], r"goes without train\.mixup"),
        (["train.gallery_ema=0.9"], r"train\.gallery_ema and train\.gallery_view belong to train\.semi_siamese"),
        (["train.semi_siamese=9", "head.sample=0.5"], r"head\.sample is about learned prototypes"),
    ],
)
def test_what_does_not_go_together_is_said(path: Path, settings: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_recipe(path, [*SETTINGS, *settings])


def test_plain_images_are_held_in_memory(path: Path, tmp_path: Path) -> None:
    """The name of a run on record does not depend on where its images are held."""
    recipes = [
        load_recipe(path, [*SETTINGS, "train.semi_siamese=9", "train.gallery_view=plain", *held])
        for held in ([], ["data.device=cpu"])
    ]
    assert run_key(recipes[0]) == run_key(recipes[1])
    with pytest.raises(ValueError, match=r"train\.gallery_view=plain needs images in memory"):
        Trainer(recipes[0], tmp_path / "run")


def test_it_needs_a_moving_average(path: Path) -> None:
    settings = [setting for setting in SETTINGS if "ema" not in setting]
    with pytest.raises(ValueError, match=r"needs the moving average .* train\.ema=0\.999"):
        load_recipe(path, [*settings, "train.semi_siamese=9"])
