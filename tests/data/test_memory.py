import numpy as np
import pytest
import torch

from hypersphere.data import ArraySource, InMemory, PocketFaces, Subset


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
