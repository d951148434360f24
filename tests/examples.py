"""What the examples of docstrings and documents may take for granted: files in the working folder, and names."""

import math
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hypersphere as hs
from hypersphere.data import ArraySource, ShuffledBatches, encode, open_source, write_source
from hypersphere.evaluation import Embeddings
from hypersphere.evaluation.protocols import read_pairs
from hypersphere.recognition import load_detector
from hypersphere.training import Trainer, load_recipe
from tests.data.samples import picture, saved
from tests.evaluation.protocols.official import write_ijb
from tests.evaluation.protocols.standins import made_up, write_lfw_list
from tests.models import peers
from tests.models.networks import linear_onnx
from tests.recognition.drawn import drawn_photo

IMAGES = (
    *(f"people/{person}/{number}.jpg" for person in ("ada", "bo", "cy") for number in (1, 2, 3, 4)),
    *("people/grace/2.jpg", "people/grace/portrait.png", "ada.jpg", "grace.jpg", "photos/grace.png", "face.jpg"),
    *(f"Market-1501-v15.09.15/bounding_box_train/{name}_c1s1_000451_03.jpg" for name in ("0002", "0007")),
    "lfw112/Aaron_Eckhart/Aaron_Eckhart_0001.jpg",
)
RECIPE = """
[data]
identities = 4
images_per_identity = 4
size = [16, 16]
[backbone]
name = "cnn4"
dim = 512
[head]
name = "arcface"
[train]
steps = 1
batch_size = 4
"""


def write_files(folder: Path) -> None:
    """Write the files that examples open, each of them small."""
    for number, name in enumerate(IMAGES):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved(picture(number, 112, 112), "PNG" if path.suffix == ".png" else "JPEG"))
    (folder / "album").mkdir()
    for name in ("ada-1", "ada-2", "visitor", "album/1"):
        (folder / f"{name}.jpg").write_bytes(encode(drawn_photo(), 95))
    people = open_source(folder / "people")
    (folder / "faces_emore").mkdir()
    write_source(people, folder / "faces_emore" / "train.rec")
    write_source(people, folder / "people.txt", root=folder / "people")
    write_source(people, folder / "lfw.bin", pairs=[(0, 1), (2, 3), (0, 5), (1, 7)])
    write_source(people, folder / "shards", "tar", shard_size=10)
    with tarfile.open(folder / "lfw112.tar", "w") as archive:
        archive.add(folder / "lfw112", ".")
    write_source(_objects(), folder / "cifar10", "cifar", split="test")
    write_lfw_list(folder / "lfw-pairs.txt")
    names = [*read_pairs(folder / "lfw-pairs.txt").names, "Ada/Ada_0001.jpg"]
    _write_embeddings(folder, "E.npy", "L.txt", made_up(names, dim=512))
    _write_embeddings(folder, "ijbc.npy", "ijbc.txt", write_ijb(folder / "IJBC" / "meta"))
    linear_onnx(folder / "sface.onnx", size=112, dim=128)
    weights = peers.filled(peers.ir(18, 8))
    torch.save(
        {"state_dict": {f"model.{name}": value for name, value in weights.items()}}, folder / "adaface_ir18.ckpt"
    )
    (folder / "faces.toml").write_text(RECIPE)
    Trainer(load_recipe(folder / "faces.toml"), folder / "runs" / "faces").run()
    for name in ("people", "faces-1f0c5a1b2c3d"):
        (folder / "runs" / name).symlink_to(folder / "runs" / "faces")


def _objects() -> ArraySource:
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    return ArraySource(np.zeros((10, 32, 32, 3), np.uint8), np.arange(10), names)


def _write_embeddings(folder: Path, values: str, names: str, embeddings: Embeddings) -> None:
    np.save(folder / values, embeddings.values)
    (folder / names).write_text("".join(f"{name}\n" for name in embeddings.names))


def names() -> dict[str, Any]:
    """The names that examples use without making them."""
    from pytorch_metric_learning import losses

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 512))
    head = hs.create_head("arcface", dim=512, num_classes=1000)
    source = ArraySource(np.zeros((480, 112, 112, 3), np.uint8), np.arange(480) % 120)
    scores, same = rng.normal(size=4000).astype(np.float32), np.arange(4000) % 2 == 0
    return {
        "hs": hs, "torch": torch, "np": np, "math": math, "Path": Path, "losses": losses,
        "device": torch.device("cpu"),
        "images": torch.randn(8, 3, 112, 96), "embeddings": torch.randn(8, 512), "labels": torch.arange(8) // 2,
        "generator": torch.Generator().manual_seed(0), "net": net, "head": head,
        "optimizer": torch.optim.SGD(head.parameters(), lr=0.1),
        "source": source, "batches": ShuffledBatches(len(source), 8, seed=0), "order": [[0, 1], [2, 3]],
        "load": lambda step: (torch.zeros(2), torch.zeros(2)), "train": lambda images: None,
        "folder": Path("shards-of-the-head"), "scores": scores, "same": same,
        "genuine": 3 + rng.normal(size=100), "blocks": [(scores, same), (scores, same)],
        "photo": drawn_photo(), "detector": load_detector("mtcnn"),
        "far": np.array([0.0, 0.1, 1.0]), "tar": np.array([0.0, 0.9, 1.0]),
    }  # fmt: skip
