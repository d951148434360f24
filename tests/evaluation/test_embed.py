"""From images to embeddings: one loop, in order, and what cannot be read is named."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from hypersphere.data import ArraySource, NamedImages, UnreadableImage, encode
from hypersphere.evaluation import embed_images
from hypersphere.models import Contract, Embedder, embedded_batches

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 4, 4, 3), dtype=np.uint8)


def sums(images: Tensor) -> Tensor:
    return images.float().flatten(1)[:, :2]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 3, 7, 50])
def test_batches_come_in_order(batch_size: int, workers: int) -> None:
    wanted, steps = np.array([6, 0, 3, 3, 5]), []
    found = list(
        embedded_batches(
            ArraySource(IMAGES),
            wanted,
            sums,
            batch_size=batch_size,
            workers=workers,
            progress=lambda *done: steps.append(done),
        )
    )
    assert np.concatenate([part for part, _ in found]).tolist() == wanted.tolist()
    rows = torch.cat([embedded for _, embedded in found]).numpy()
    np.testing.assert_array_equal(rows, [IMAGES[k].transpose(2, 0, 1).reshape(-1)[:2] for k in wanted])
    assert steps[-1] == (5, 5)
    with pytest.raises(ValueError, match="batch_size=0"):
        list(embedded_batches(ArraySource(IMAGES), wanted, sums, batch_size=0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place, image in enumerate(IMAGES):
        (tmp_path / f"{place}.png").write_bytes(encode(image))
    (tmp_path / "1.png").write_bytes((tmp_path / "1.png").read_bytes()[:40])
    (tmp_path / "2.png").write_bytes(b"")
    return tmp_path


MODEL = Embedder(Contract(input_size=(4, 4), dim=2), sums, name="sums")
NAMES = [f"{k}.png" for k in range(8)]


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_what_cannot_be_read_is_an_error_or_named(folder: Path, batch_size: int) -> None:
    images = NamedImages(folder, NAMES)
    with pytest.raises(UnreadableImage, match=r"1\.png: "):
        embed_images(MODEL, images, batch_size=batch_size)
    steps: list[tuple[int, int]] = []
    found = embed_images(
        MODEL, images, allow_unreadable=True, batch_size=batch_size, progress=lambda *done: steps.append(done)
    )
    assert found.names == ("0.png", "3.png", "4.png", "5.png", "6.png")
    assert set(found.unreadable) == {"1.png", "2.png"}
    assert found.unreadable["2.png"].endswith("2.png: empty (0 bytes)")
    assert steps[-1] == (7, 7)
    whole = embed_images(MODEL, NamedImages(folder, found.names))
    np.testing.assert_array_equal(found.values, whole.values)


def test_nothing_that_can_be_read(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"none of the 2 images can be read: .*1\.png"):
        embed_images(MODEL, NamedImages(folder, ["1.png", "2.png"]), allow_unreadable=True)
