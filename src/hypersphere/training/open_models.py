"""Open a model from a file, or those of a run."""

from __future__ import annotations

import copy
from pathlib import Path

from torch import nn

from hypersphere.models import Embedder, load_model
from hypersphere.models.contract import matched
from hypersphere.models.model_file import digest_of
from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.finished_run import load_run, run_contract
from hypersphere.training.recipe import Recipe


def open_models(
    path: str | Path, *, contract: str | None, device: str, snapshots: int = 1, runtime: str = "onnxruntime"
) -> list[Embedder]:
    """The model in a file, or those of a run: its best one, or its newest `snapshots`.

    Args:
        path: `.safetensors`, `.onnx`, a folder of `hypersphere train`, or one of `save_pretrained`.
        contract: of an ONNX file: a preset or a file.
        device: to compute on.
        snapshots: of a run.
        runtime: of an ONNX file, as `load_model` takes it.
    """
    path = Path(path)
    if not (path / "checkpoints").is_dir():
        if snapshots > 1:
            raise ValueError(f"--snapshots {snapshots}: {path} is one model; only a folder of `train` has snapshots")
        return [load_model(path, contract, device=device, runtime=runtime)]
    if contract is not None:
        raise ValueError(f"--contract is for ONNX files; the recipe of {path} says how its images are prepared")
    recipe, network = load_run(path)
    if snapshots == 1:
        return [_embedder(recipe, network, device, path.name)]
    checkpoints = Checkpoints(path / "checkpoints")
    steps = checkpoints.steps()[-snapshots:]
    if len(steps) < snapshots:
        raise ValueError(
            f"--snapshots {snapshots}: {path} has {len(steps)} checkpoints (train with train.keep={snapshots})"
        )
    models = []
    for step in steps:
        state, own = checkpoints.load(step), copy.deepcopy(network)
        average = state.get("average")
        own.load_state_dict(state["backbone"] if average is None else average)
        models.append(_embedder(recipe, own, device, f"{path.name}, step {step}"))
    return models


def _embedder(recipe: Recipe, network: nn.Module, device: str, name: str) -> Embedder:
    contract = run_contract(recipe)
    complete = matched(contract, dim=recipe.backbone["dim"], digest=digest_of(network.state_dict()), where=name)
    return Embedder(complete, network.to(device).eval(), device, name)
