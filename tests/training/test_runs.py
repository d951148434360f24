"""The network that a run left behind."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from hypersphere.core.config import digest
from hypersphere.data import ArraySource, Augmentation
from hypersphere.evaluation import embed
from hypersphere.pocket import PocketFaces
from hypersphere.training import Checkpoints, Trainer, load_recipe, load_run, mean_embeddings, run_embedder

RECIPE = """
[data]
identities = 4
images_per_identity = 4
size = [16, 16]
grey = true
[backbone]
name = "cnn4"
dim = 4
[head]
name = "arcface"
[train]
steps = 6
batch_size = 8
checkpoint_every = 2
"""
FACES = PocketFaces(num_identities=3, images_per_identity=2, size=16, grey=True)


def train(tmp_path: Path, *settings: str, scores: tuple[float, ...] = ()) -> tuple[Trainer, Path]:
    (tmp_path / "own.toml").write_text(RECIPE)
    recipe, left = load_recipe(tmp_path / "own.toml", settings), iter(scores)
    trainer = Trainer(recipe, tmp_path / "run", evaluate=(lambda _: {"score": next(left)}) if scores else None)
    trainer.run()
    return trainer, tmp_path / "run"


@pytest.mark.parametrize("settings", [[], ["train.ema=0.5"]])
def test_the_network_is_the_one_that_training_returned(tmp_path: Path, settings: list[str]) -> None:
    trainer, folder = train(tmp_path, *settings)
    recipe, network = load_run(folder)
    assert recipe == trainer.recipe
    assert not network.training
    ours = embed(run_embedder(recipe, network), FACES)
    assert torch.equal(ours, embed(run_embedder(recipe, trainer.state.model()), FACES))
    assert torch.equal(ours, embed(run_embedder(recipe, trainer.backbone), FACES)) == (not settings)


@pytest.mark.parametrize("settings", [[], ["augment.mean=0.4", "augment.std=0.3"]])
@pytest.mark.parametrize("flip", ["none", "sum"])
def test_embeddings_have_the_bits_of_the_trainers_own_normalisation(
    tmp_path: Path, settings: list[str], flip: str
) -> None:
    """What the network is given is what the augmentation of training gives it when it changes nothing."""
    _, folder = train(tmp_path, *settings)
    recipe, network = load_run(folder)
    plain = Augmentation(mean=recipe.augment.mean, std=recipe.augment.std)
    images = plain(FACES.batch(np.arange(len(FACES))), torch.Generator())
    with torch.no_grad():
        expected = network(images) + network(images.flip(-1)) if flip == "sum" else network(images)
    assert torch.equal(embed(run_embedder(recipe, network, flip=flip), FACES), expected)


def test_the_best_is_taken_where_there_are_scores(tmp_path: Path) -> None:
    _, folder = train(tmp_path, scores=(0.1, 0.9, 0.5))
    best = Checkpoints(folder / "checkpoints").load(4)["backbone"]
    assert all(torch.equal(value, best[key]) for key, value in load_run(folder)[1].state_dict().items())


def test_what_is_no_run_or_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere is no run .* expected recipe.toml and checkpoints/"):
        load_run(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    _, folder = train(tmp_path, scores=(0.1, 0.2, 0.3))
    text = (folder / "recipe.toml").read_text()
    (folder / "recipe.toml").write_text(text.replace("dim = 4", "dim = 5"))
    with pytest.raises(ValueError, match="recipe.toml: not the recipe of the checkpoint of step 6 .* it was changed"):
        load_run(folder)
    (folder / "recipe.toml").write_text(text)
    newest = folder / "checkpoints" / "step-000000006.pt"
    newest.write_bytes(newest.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"step-000000006\.pt: damaged"):
        load_run(folder)
    for about in (folder / "checkpoints").glob("*.json"):
        changed = {**json.loads(about.read_text()), "score": None}
        del changed["digest"]
        about.write_text(json.dumps({**changed, "digest": digest(changed)}))
    with pytest.warns(RuntimeWarning, match="the one of step 4 is taken instead"):
        load_run(folder)
    for file in (folder / "checkpoints").iterdir():
        file.unlink()
    with pytest.raises(ValueError, match="checkpoints: no complete checkpoint"):
        load_run(folder)


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_mean_embeddings_against_float64(tmp_path: Path, batch_size: int) -> None:
    _, folder = train(tmp_path)
    recipe, network = load_run(folder)
    images = np.stack([FACES.read(k) for k in (0, 4, 1, 3, 2, 5)])
    labels = [1, 0, 1, -1, 0, 0]
    steps: list[tuple[int, int]] = []
    means = mean_embeddings(
        recipe,
        network,
        ArraySource(images, labels),
        batch_size=batch_size,
        progress=lambda done, total: steps.append((done, total)),
    )
    each = embed(run_embedder(recipe, network), ArraySource(images, labels)).double().numpy()
    each /= np.linalg.norm(each, axis=1, keepdims=True)
    expected = np.stack([each[[1, 4, 5]].mean(0), each[[0, 2]].mean(0)])
    np.testing.assert_allclose(means, expected, atol=1e-6)
    assert means.dtype == np.float32
    assert steps[-1] == (5, 5)
