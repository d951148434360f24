"""Paths are taken as text and as `Path` by everything public."""

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hypersphere.data import encode
from hypersphere.evaluation import embed_images
from hypersphere.models import Embedder, load_model
from hypersphere.pocket import PocketFaces
from hypersphere.training import Checkpoints, Trained, Trainer, compare_cells, load_recipe, load_run, read_log
from hypersphere.training import train_recipe as train
from tests.test_rooms import ROOMS

RECIPE = """
[data]
identities = 3
images_per_identity = 4
size = [16, 16]
[backbone]
name = "cnn4"
dim = 4
[head]
name = "arcface"
[train]
steps = 2
batch_size = 4
"""


def public() -> Iterator[tuple[str, inspect.Parameter]]:
    """Every parameter of a function, constructor or method for users that is annotated with a path.

    `core` is what rooms share, and callbacks are called with the paths that we have.
    """
    for module in map(
        importlib.import_module, [f"hypersphere.{room}" for room in ROOMS if room not in ("core", "cli")]
    ):
        for name in module.__all__:
            value = getattr(module, name)
            functions: list[tuple[str, Any]] = [(name, value)] if inspect.isfunction(value) else []
            if inspect.isclass(value) and not dataclasses.is_dataclass(value):
                own = ((key, entry) for key, entry in vars(value).items() if inspect.isfunction(entry))
                functions = [(f"{name}.{key}", entry) for key, entry in own if key == "__init__" or key[0] != "_"]
            for title, function in functions:
                for parameter in inspect.signature(function).parameters.values():
                    if "Path" in str(parameter.annotation) and "Callable" not in str(parameter.annotation):
                        yield f"{module.__name__}.{title}", parameter


@pytest.mark.parametrize(("title", "parameter"), list(public()), ids=str)
def test_the_signature_takes_text(title: str, parameter: inspect.Parameter) -> None:
    assert "str" in str(parameter.annotation), f"{title}({parameter})"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("paths")
    (made / "small.toml").write_text(RECIPE)
    train(load_recipe(made / "small.toml"), made / "run")
    image = PocketFaces(num_identities=1, images_per_identity=1, size=16).read(0)
    (made / "face.png").write_bytes(encode(image))
    return made


USES: dict[str, Callable[[Any], Any]] = {
    "load_recipe": lambda path: load_recipe(path("small.toml")),
    "load_run": lambda path: load_run(path("run"))[0],
    "load_model of a run": lambda path: repr(load_model(path("run"))),
    "load_model": lambda path: repr(load_model(path("run/model.safetensors"))),
    "read_log": lambda path: read_log(path("run/log.jsonl")),
    "Checkpoints": lambda path: Checkpoints(path("run/checkpoints")).steps(),
    "compare_cells": lambda path: list(compare_cells(path("small.toml"), [], ["cosface"], [], 1)),
    "Trainer": lambda path: Trainer(load_recipe(path("small.toml")), path("run")).run().steps,
    "train_recipe": lambda path: train(load_recipe(path("small.toml")), path("run")).folder,
    "embed_images": lambda path: embed_images(load_model(path("run")), [path("face.png")]).values.tolist(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_text_and_path_do_the_same(use: Callable[[Any], Any], folder: Path) -> None:
    assert use(lambda name: str(folder / name)) == use(lambda name: folder / name)


def test_the_model_of_a_run_is_its_network(folder: Path) -> None:
    model, (recipe, network) = load_model(folder / "run"), load_run(folder / "run")
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, 16, 16), dtype=np.uint8))
    with torch.no_grad():
        expected = network(recipe.augment(images, torch.Generator()))
    torch.testing.assert_close(model.raw(images), expected)
    assert model.name == "run"
    assert repr(model) == "Embedder('run': cnn4, 16x16 rgb images to 4 numbers, on cpu)"


def test_files_that_are_not_there(folder: Path) -> None:
    model: Embedder = load_model(folder / "run")
    with pytest.raises(ValueError, match=r"nobody\.png: No such file"):
        embed_images(model, ["nobody.png"])
    made = embed_images(model, [folder / "face.png", "nobody.png"], allow_unreadable=True)
    assert (list(made.names), list(made.unreadable)) == ([str(folder / "face.png")], ["nobody.png"])
    with pytest.raises(ValueError, match=r"files='face\.png' is one path: give a list of files"):
        embed_images(model, "face.png")
    with pytest.raises(ValueError, match="images is an empty list"):
        embed_images(model, [])
    (folder / "other").mkdir()
    with pytest.raises(ValueError, match=r"other is a folder without model\.safetensors; a run"):
        load_model(folder / "other")


def test_the_result_of_a_run_has_paths(folder: Path) -> None:
    trained: Trained = train(load_recipe(folder / "small.toml"), str(folder / "run"))
    assert trained.folder == folder / "run"
