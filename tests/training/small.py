"""A recipe of a few seconds, and what its runs are compared by."""

from pathlib import Path
from typing import Any

import pytest
import torch

from hypersphere.data import InMemory
from hypersphere.distributed import World
from hypersphere.pocket import PocketFaces
from hypersphere.training import Trainer, load_recipe
from hypersphere.training.eager_step import EagerStep

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
RECIPE = """
about = "a small run"
[data]
identities = 6
images_per_identity = 8
size = [16, 16]
[augment]
flip = 0.5
shift = 0.5
[backbone]
name = "cnn4"
dim = 8
[head]
name = "sphereface"
margin = 2
[losses.arcface]
scale = 16
[optimizer]
lr = 0.05
[schedule]
name = "cosine"
warmup = 2
[train]
steps = 30
batch_size = 12
log_every = 3
checkpoint_every = 4
"""


class Notes:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, done: int) -> None:
        pass

    def __call__(self, done: int, total: int, note: str = "") -> None:
        self.told.append(note)


def on_gpu(test: Any) -> Any:
    """Mark a test that needs a GPU."""
    return pytest.mark.gpu(NO_GPU(test))


def held_trainer(folder: Path, settings: tuple[str, ...], *, device: str, graph: bool) -> Trainer:
    """A run of a tiny network on 40 painted faces that are held on the device."""
    data = ("data.identities=4", "data.images_per_identity=10", "data.size=[16, 16]")
    network = ("backbone.name=cnn4", "backbone.dim=8", "head.engine=dense")
    recipe = load_recipe("pocket/faces", [*data, *network, *settings])
    faces = PocketFaces(num_identities=4, images_per_identity=10, size=(16, 16))
    world = World(device=torch.device(device))
    return Trainer(recipe, folder, world=world, source=InMemory(faces, device), graph=graph)


def eager(trainer: Trainer) -> EagerStep:
    """The steps of a run that takes them as usual."""
    assert isinstance(trainer.take_step, EagerStep)
    return trainer.take_step


def final(folder: Path) -> dict[str, object]:
    newest = max((folder / "checkpoints").glob("*.pt"))
    return torch.load(newest, weights_only=True)


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)  # noqa: PLR0124 - a value that was never measured is NaN in both
