"""Runs that are over: the network that one left behind."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from hypersphere.backbones import create_backbone
from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.recipe import Recipe, load_recipe


def load_run(folder: Path) -> tuple[Recipe, nn.Module]:
    """The recipe of a run and its trained network, on the CPU in eval mode.

    The weights are those of the best checkpoint where they were scored, of the newest otherwise, verified by digest;
    and of them the moving average where the recipe keeps one.

    Args:
        folder: of `hypersphere train`, with `recipe.toml` and `checkpoints/`.

    Example:
        >>> recipe, network = load_run(Path("runs/faces-1f0c5a1b2c3d"))
        >>> embeddings = embed(network, source, preparation=recipe.augment)
    """
    if not (folder / "recipe.toml").is_file() or not (folder / "checkpoints").is_dir():
        raise ValueError(f"{folder} is no run of `hypersphere train`: expected recipe.toml and checkpoints/ in it")
    recipe = load_recipe(folder / "recipe.toml")
    checkpoints = Checkpoints(folder / "checkpoints")
    best = checkpoints.best()
    found = checkpoints.load_newest() if best is None else (best, checkpoints.load(best))
    if found is None:
        raise ValueError(f"{folder / 'checkpoints'}: no complete checkpoint")
    step, state = found
    average = state.get("average")
    channels = 1 if recipe.data.grey else 3
    network = create_backbone(input_size=recipe.data.size, channels=channels, **recipe.backbone)
    try:
        network.load_state_dict(state["backbone"] if average is None else average)
    except (KeyError, RuntimeError) as error:
        raise ValueError(
            f"{folder}: the checkpoint of step {step} does not fit {recipe.backbone['name']} of recipe.toml ({error})"
        ) from error
    return recipe, network.eval()
