"""Finished runs: load the network of one, write its model file, embed identities with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hypersphere.backbones import create_backbone
from hypersphere.core import Reporter, as_table, digest, is_installed, to_toml
from hypersphere.data import Fitted, ImageSource
from hypersphere.distributed.tensor_shards import read_shards
from hypersphere.geometry import normalize
from hypersphere.heads import Head
from hypersphere.models import Contract, Embedder, ModelCard, NormalizedNetwork, embedded_batches, save_folder
from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.recipe import Recipe, load_recipe


@dataclass(frozen=True)
class Trained:
    """What a run leaves behind: the embedding network in eval mode, the head, the folder, and late snapshots.

    `statistics_batches` tells over how many batches BatchNorm's statistics were estimated anew, because the run was too
    short for them to follow the weights; 0 where they did. `trained_on` tells in words how much it was trained on,
    `warning` what is wrong with a run that ended in collapse.
    """

    backbone: nn.Module
    head: Head
    folder: Path
    steps: int
    snapshots: tuple[Path, ...] = ()
    statistics_batches: int = 0
    trained_on: str = ""
    warning: str = ""


def newest_state(folder: Path) -> tuple[int, dict[str, Any]]:
    """Return the step and the state of a run's best checkpoint where they were scored, of its newest otherwise."""
    if not (folder / "recipe.toml").is_file() or not (folder / "checkpoints").is_dir():
        raise ValueError(f"{folder} is no run of `hypersphere train`: expected recipe.toml and checkpoints/ in it")
    checkpoints = Checkpoints(folder / "checkpoints")
    best = checkpoints.best()
    found = checkpoints.load_newest() if best is None else (best, checkpoints.load(best))
    if found is None:
        raise ValueError(f"{folder / 'checkpoints'}: no complete checkpoint")
    return found


def newest_head(folder: str | Path) -> dict[str, Tensor]:
    """Return the state of the head of that checkpoint, with the prototypes of all processes."""
    folder = Path(folder)
    step, state = newest_state(folder)
    if not isinstance(state.get("head"), dict):
        raise ValueError(f"{folder}: the checkpoint of step {step} has no head; it is not of this version's `train`")
    head: dict[str, Tensor] = dict(state["head"])
    shards = Checkpoints(folder / "checkpoints").shards(step)
    if shards.is_dir():
        head |= {name.removeprefix("head."): value for name, value in read_shards(shards, "head.").items()}
    return head


def load_run(folder: str | Path) -> tuple[Recipe, nn.Module]:
    """Return the recipe of a run and its trained network, on the CPU in eval mode.

    The weights are those of the best checkpoint where they were scored, of the newest otherwise, verified by digest;
    and of them the moving average where the recipe keeps one.

    Args:
        folder: of `hypersphere train`, with `recipe.toml` and `checkpoints/`.

    Example:
        >>> recipe, network = load_run("runs/faces-1f0c5a1b2c3d")
        >>> images = hs.data.Fitted(hs.data.open_source("people"), recipe.data.size, resize=True)
        >>> embeddings = hs.evaluation.embed(run_embedder(recipe, network), images)
    """
    folder = Path(folder)
    step, state = newest_state(folder)
    recipe = load_recipe(folder / "recipe.toml")
    if digest(recipe) != state.get("recipe"):
        raise ValueError(
            f"{folder / 'recipe.toml'}: not the recipe of the checkpoint of step {step} ({digest(recipe)}, not"
            f" {state.get('recipe')}): it was changed or exchanged after the run had begun"
        )
    average = state.get("average")
    channels = 1 if recipe.data.grey else 3
    network = create_backbone(input_size=recipe.data.size, channels=channels, **recipe.backbone)
    try:
        network.load_state_dict(state["backbone"] if average is None else average)
    except (LookupError, TypeError, AttributeError, RuntimeError) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"{folder}: the checkpoint of step {step} does not fit {recipe.backbone['name']} of recipe.toml "
            f"({cause:.300}); remove the checkpoint to use the one before, or train anew"
        ) from error
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return recipe, network.eval()


def run_contract(recipe: Recipe) -> Contract:
    """Return how a run prepared its images, as a contract."""

    def levels(value: float | tuple[float, ...]) -> tuple[float, ...]:
        return tuple(255 * each for each in (value if isinstance(value, tuple) else (value,)))

    return Contract(
        input_size=recipe.data.size,
        colour="grey" if recipe.data.grey else "rgb",
        mean=levels(recipe.augment.mean),
        std=levels(recipe.augment.std),
        backbone=recipe.backbone["name"],
    )


def run_embedder(recipe: Recipe, network: nn.Module, device: str = "cpu", *, flip: str = "none") -> Embedder:
    """Return a network as an embedder of images of its recipe's size, normalised to the bit as in training.

    Args:
        recipe: of the network.
        network: put in eval mode.
        device: where the network is.
        flip: how the embeddings of mirror images are merged, as `Contract` has it.
    """
    contract = replace(run_contract(recipe), mean=(0.0,), std=(1.0,), flip=flip, dim=recipe.backbone["dim"])
    return Embedder(contract, NormalizedNetwork(network.eval(), recipe.augment.mean, recipe.augment.std), device)


def write_model(
    recipe: Recipe,
    folder: Path,
    network: nn.Module,
    *,
    trained_on: str,
    scores: Mapping[str, float],
    warning: str = "",
) -> None:
    """Write the folder's `model.safetensors`, `config.json` and `README.md`, which `load_model(folder)` opens.

    Like `load_run` it is the best checkpoint's network where they were scored. Without the package safetensors, which
    is an extra, nothing is written.

    Args:
        recipe, folder: of the run.
        network: at the end of the run.
        trained_on: how much, in words.
        scores: by validation set, of the last checkpoint.
        warning: what is wrong with the run.
    """
    if not is_installed("safetensors"):
        return
    if Checkpoints(folder / "checkpoints").best() is not None:
        _, network = load_run(folder)
    results = {f"{name}, accuracy at the last checkpoint": f"{score:.2%}" for name, score in scores.items()}
    card = run_card(recipe, trained_on, results, warning)
    save_folder(folder, network, run_contract(recipe), recipe.backbone, card, replace=True)


def run_card(recipe: Recipe, trained_on: str, results: Mapping[str, str], warning: str = "") -> str:
    """The model card of a run.

    Args:
        recipe: of the run.
        trained_on: how much, in words.
        results: by name, in words.
        warning: what is wrong with the run, the first of the model's limits.
    """
    teacher = recipe.teacher.model
    data = f"`{Path(recipe.data.source).name}`: {trained_on}. Their terms: to be stated by whoever publishes it."
    if teacher is not None:
        data += f" Distilled from `{Path(teacher).name}`, whose licence applies, too."
    card = ModelCard(
        title=f"{recipe.backbone['name']}, trained with {recipe.head['name']}",
        about=recipe.about,
        recipe=to_toml(_named(as_table(recipe))),
        data=data,
        results=results,
    )
    return replace(card, limits=(f"Do not use it: {warning}.", *card.limits) if warning else card.limits).text()


def _named(table: dict[str, Any]) -> dict[str, Any]:
    """The table of a recipe with names of files and not their paths, which concern nobody else."""
    data, teacher = table["data"], table["teacher"]
    paths = [(data, "source"), (data["validation"], "pairs"), (data["validation"], "images"), (teacher, "model")]
    paths.append((data, "exclude"))
    for place, key in paths:
        if place.get(key):
            place[key] = Path(place[key]).name
    return table


def mean_embeddings(
    recipe: Recipe,
    network: nn.Module,
    source: ImageSource,
    *,
    resize: bool = False,
    resize_option: str = "resize=True",
    batch_size: int = 256,
    device: str = "cpu",
    progress: Reporter | None = None,
) -> npt.NDArray[np.float32]:
    """Return the mean unit embedding of each identity, (num_classes, dim); images without identity are left out.

    Args:
        recipe, network: what `load_run` gave: size, channels and normalisation of the images are the recipe's.
        source: the images, of any set.
        resize: resize images of another size, as the recipe does where it says so.
        resize_option: what a user writes for it, for messages.
        batch_size: images at a time.
        device: to compute on.
        progress: called as `progress(done, total)`.
    """
    data = recipe.data
    fitted = Fitted(source, data.size, grey=data.grey, resize=resize or data.resize, resize_option=resize_option)
    labels = torch.from_numpy(np.asarray(source.labels, dtype=np.int64))
    chosen = np.flatnonzero(labels.numpy() >= 0)
    sums = torch.zeros(source.num_classes, recipe.backbone["dim"], dtype=torch.float64)
    model = run_embedder(recipe, network.to(device), device)
    for part, embedded in embedded_batches(fitted, chosen, model.raw, batch_size=batch_size, progress=progress):
        sums.index_add_(0, labels[torch.from_numpy(part)], normalize(embedded).double())
    counts = torch.bincount(labels[chosen], minlength=source.num_classes)
    means: npt.NDArray[np.float32] = (sums / counts[:, None]).float().numpy()
    return means
