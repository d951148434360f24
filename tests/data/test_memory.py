import os

import numpy as np
import numpy.typing as npt
import pytest
import torch

from hypersphere.data import ArraySource, InMemory, Subset, UnreadableImage, batch
from hypersphere.data.source import Indices
from hypersphere.pocket import PocketFaces


def test_batches_are_those_of_the_source() -> None:
    source = PocketFaces(num_identities=3, images_per_identity=100, size=(16, 16), seed=1)
    held = InMemory(source)
    assert len(held) == 300
    assert held.num_classes == 3
    indices = np.array([299, 0, 7, 7])
    assert torch.equal(held.batch(indices), source.batch(indices))
    assert held.batch([3]).is_contiguous()
    assert np.array_equal(held.read(299), source.read(299))
    assert held.describe(5) == source.describe(5)
    assert np.array_equal(held.labels, source.labels)


def test_it_keeps_names_and_images_without_identity() -> None:
    source = ArraySource(np.arange(4 * 48, dtype=np.uint8).reshape(4, 4, 4, 3), [0, -1, 1, 1], ["ada", "bob"])
    held = InMemory(Subset(source, [1, 2]))
    assert held.labels.tolist() == [-1, 0]
    assert held.names == ["bob"]
    assert torch.equal(held.to("cpu").batch([1]), source.batch([2]))


def test_progress_counts_images() -> None:
    seen: list[tuple[int, int]] = []
    InMemory(
        PocketFaces(num_identities=3, images_per_identity=100, size=(16, 16)),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(256, 300), (300, 300)]


def test_bad_input_is_named() -> None:
    held = InMemory(PocketFaces(num_identities=2, images_per_identity=2, size=(16, 16)))
    with pytest.raises(ValueError, match="at least one index"):
        held.batch([])
    with pytest.raises(ValueError, match="no images"):
        InMemory(Subset(held, []))


class Marked:
    """Four pixels per image that tell its number; where asked, an image that cannot be read."""

    def __init__(self, count: int, broken: int = -1) -> None:
        self.labels = np.zeros(count, dtype=np.int64)
        self.num_classes, self.broken = 1, broken

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, index: int) -> npt.NDArray[np.uint8]:
        if index == self.broken:
            raise UnreadableImage(f"{self.describe(index)}: damaged")
        return np.full((2, 2, 1), index % 251, dtype=np.uint8)

    def describe(self, index: int) -> str:
        return f"image {index}"

    def batch(self, indices: Indices) -> torch.Tensor:
        return batch(self, indices)


@pytest.mark.parametrize("count", [700, 5000])
def test_processes_read_many_images_and_threads_a_few(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    source = Marked(count)
    seen: list[int] = []
    held = InMemory(source, progress=lambda done, _: seen.append(done))
    assert torch.equal(held.images, source.batch(range(count)))
    assert seen[-1] == count
    monkeypatch.setattr("hypersphere.data.memory._may_fork", lambda: False)
    assert torch.equal(InMemory(source).images, held.images)


def test_an_image_that_a_process_cannot_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with pytest.raises(UnreadableImage, match="image 4321: damaged"):
        InMemory(Marked(5000, broken=4321))


def test_the_parent_reads_only_the_first_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    source = Marked(5000)
    read = 0

    def count(index: int) -> npt.NDArray[np.uint8]:
        nonlocal read
        read += 1
        return Marked.read(source, index)

    monkeypatch.setattr(source, "read", count)
    InMemory(source)
    assert read == 1
