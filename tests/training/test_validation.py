"""Held-out identities and lists of pairs, scored while training."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from hypersphere.data import write_folder
from hypersphere.evaluation import embed, verify_pairs
from hypersphere.geometry import normalize
from hypersphere.pocket import PocketFaces
from hypersphere.training import Recipe, Trainer, load_recipe, run_embedder, validation_sets
from hypersphere.training.training_data import held_out_source, training_source
from tests.training.small import RECIPE, Notes


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def held(path: Path, *settings: str) -> Recipe:
    fixed = ["data.identities=10", "data.validation.identities=4", "data.validation.count=40", "train.steps=8"]
    return load_recipe(path, [*fixed, *settings])


def test_held_out_identities_are_not_trained_on(recipe_file: Path) -> None:
    data = held(recipe_file).data
    training, unseen = training_source(data), held_out_source(data)
    assert (training.num_classes, unseen.num_classes) == (6, 4)
    assert set(training.names).isdisjoint(unseen.names)  # type: ignore[attr-defined]
    assert len(training) + len(unseen) == 80
    share = held(recipe_file, "data.validation.identities=0.4").data
    assert held_out_source(share).names == unseen.names  # type: ignore[attr-defined]
    other = held(recipe_file, "data.seed=1").data
    assert held_out_source(other).names != unseen.names  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", ["1", "9", "0.01"])
def test_impossible_numbers_of_held_out_identities_are_refused(recipe_file: Path, count: str) -> None:
    with pytest.raises(ValueError, match=r"data\.validation\.identities=.* of 10 identities"):
        training_source(held(recipe_file, f"data.validation.identities={count}").data)


def test_settings_of_validation_are_checked(recipe_file: Path) -> None:
    with pytest.raises(ValueError, match="must be a share below 1, or a whole number"):
        held(recipe_file, "data.validation.identities=1.5")
    with pytest.raises(ValueError, match="pairs and images belong together"):
        held(recipe_file, "data.validation.pairs=pairs.txt")


def test_there_are_no_more_pairs_than_the_images_make(recipe_file: Path) -> None:
    (pairs,) = validation_sets(held(recipe_file, "data.validation.count=6000"))
    assert len(pairs.same) == 2 * 4 * (8 * 7 // 2)
    assert pairs.same.mean() == 0.5
    with pytest.raises(ValueError, match="count=41 must be even"):
        held(recipe_file, "data.validation.count=41")


def test_held_out_images_that_cannot_be_read_are_left_out(recipe_file: Path, tmp_path: Path) -> None:
    faces = PocketFaces(num_identities=10, images_per_identity=4, size=(16, 16))
    write_folder(faces, tmp_path / "faces")
    settings = [f"data.source={tmp_path / 'faces'}", "data.validation.count=6000"]
    recipe = held(recipe_file, *settings)
    bad = held_out_source(recipe.data).describe(5)
    Path(bad).write_bytes(b"none")
    with pytest.warns(RuntimeWarning, match=r"1 of 16 images of held-out identities cannot be read.*: .*"):
        (pairs,) = validation_sets(recipe)
    assert len(pairs.source) == 15
    assert len(pairs.same) == 2 * (3 * 6 + 3)
    assert bad not in map(pairs.source.describe, range(15))
    pairs.in_memory("cpu")
    (trusted,) = validation_sets(held(recipe_file, *settings, "data.check=false"))
    with pytest.raises(ValueError, match="none of Jpeg"):
        trusted.in_memory("cpu")


def test_scores_are_those_of_plain_loops(recipe_file: Path) -> None:
    recipe = held(recipe_file, "data.validation.flip=true")
    (pairs,) = validation_sets(recipe)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(16 * 16 * 3, 8)).eval()
    images = pairs.source.batch(np.arange(len(pairs.source))).float().div(255).sub(0.5).div(0.5)
    with torch.no_grad():
        unit = normalize(network(images) + network(images.flip(-1)))
    expected = [float(unit[a] @ unit[b]) for a, b in zip(pairs.left, pairs.right, strict=True)]
    assert np.allclose(pairs.scores(network), expected, atol=1e-6)
    assert np.allclose(pairs.in_memory("cpu").scores(network), expected, atol=1e-6)
    assert pairs.verify(network).accuracy.value == verify_pairs(np.array(expected), pairs.same).accuracy.value
    beside = validation_sets(held(recipe_file, "data.validation.flip=true", "data.validation.flip_merge=concat"))[0]
    with torch.no_grad():
        unit = normalize(torch.cat([network(images), network(images.flip(-1))], dim=1))
    assert np.allclose(beside.scores(network), (unit[pairs.left] * unit[pairs.right]).sum(1), atol=1e-6)
    plain = validation_sets(held(recipe_file))[0]
    unit = normalize(embed(run_embedder(recipe, network), plain.source))
    assert np.allclose(plain.scores(network), (unit[plain.left] * unit[plain.right]).sum(1), atol=1e-6)


def test_a_list_of_pairs_is_scored_by_its_own_folds(recipe_file: Path, tmp_path: Path) -> None:
    write_folder(PocketFaces(num_identities=4, images_per_identity=3, size=(16, 16), seed=5), tmp_path / "faces")
    names = sorted(path.relative_to(tmp_path / "faces").as_posix() for path in (tmp_path / "faces").rglob("*.png"))
    names = names or sorted(p.relative_to(tmp_path / "faces").as_posix() for p in (tmp_path / "faces").rglob("*.jpg"))
    rows = [(a, b, int(a.split("/")[0] == b.split("/")[0])) for a in names for b in names if a < b]
    lines = [f"{a} {b} {same} {fold % 2}" for fold, (a, b, same) in enumerate(rows)]
    (tmp_path / "pairs.txt").write_text("\n".join(lines))
    settings = [f"data.validation.pairs={tmp_path / 'pairs.txt'}", f"data.validation.images={tmp_path / 'faces'}"]
    held_out, listed = validation_sets(held(recipe_file, *settings))
    assert (held_out.title, listed.title) == ("held-out identities", "pairs")
    assert listed.folds is not None
    assert listed.folds.tolist() == [number % 2 for number in range(len(rows))]
    assert listed.same.tolist() == [bool(same) for _, _, same in rows]
    assert [a == b for a, b in zip(*listed.subjects, strict=True)] == listed.same.tolist()
    network = nn.Sequential(nn.Flatten(), nn.Linear(16 * 16 * 3, 8))
    assert 0 <= listed.verify(network).accuracy.value <= 1
    (tmp_path / "pairs.txt").write_text("\n".join([*lines, "nobody/1.png nobody/2.png 1 0"]))
    with pytest.raises(ValueError, match="nobody called 'nobody'"):
        validation_sets(held(recipe_file, *settings))


def test_data_of_ones_own_have_no_validation_unless_they_say_so(recipe_file: Path, tmp_path: Path) -> None:
    write_folder(PocketFaces(num_identities=4, images_per_identity=3, size=(16, 16)), tmp_path / "faces")
    assert validation_sets(load_recipe(recipe_file, [f"data.source={tmp_path / 'faces'}"])) == []


def test_every_checkpoint_is_scored_and_logged(recipe_file: Path, tmp_path: Path) -> None:
    recipe = held(recipe_file)
    (pairs,) = validation_sets(recipe)
    notes = Notes()

    def score(network: nn.Module) -> dict[str, float]:
        return {pairs.title: pairs.verify(network).accuracy.value}

    trainer = Trainer(recipe, tmp_path / "run", evaluate=score, keep_best=False)
    trainer.run(notes)
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    scored = [record for record in log if pairs.title in record]
    assert [record["step"] for record in scored] == [4, 8]
    assert trainer.checkpoints.best() is None
    assert "held-out identities" in notes.told[-1]


@pytest.mark.parametrize("workers", [0, 2])
def test_images_held_in_memory_train_the_same_run(recipe_file: Path, tmp_path: Path, workers: int) -> None:
    plain = Trainer(load_recipe(recipe_file, ["train.steps=5"]), tmp_path / "plain", workers=workers).run()
    recipe = load_recipe(recipe_file, ["train.steps=5", "data.device=cpu"])
    kept = Trainer(recipe, tmp_path / "held", workers=workers).run()
    for mine, theirs in zip(plain.backbone.state_dict().values(), kept.backbone.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)


def test_images_cannot_be_held_on_a_card_that_does_not_train(recipe_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data\.device='cuda', but the run is on cpu"):
        Trainer(load_recipe(recipe_file, ["data.device=cuda"]), tmp_path / "run")


def test_the_weight_of_the_loss_scales_its_gradient(recipe_file: Path, tmp_path: Path) -> None:
    def first_loss(*settings: str) -> float:
        folder = tmp_path / f"run-{len(settings)}"
        Trainer(load_recipe(recipe_file, ["train.steps=1", "train.log_every=1", *settings]), folder).run()
        return float(json.loads((folder / "log.jsonl").read_text().splitlines()[0])["loss"])

    assert first_loss("head.loss_weight=10") == pytest.approx(10 * first_loss(), rel=1e-6)
    with pytest.raises(ValueError, match="loss_weight"):
        load_recipe(recipe_file, ["head.loss_weight=0"])
