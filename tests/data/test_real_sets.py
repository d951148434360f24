"""Sets that are not in this repository: read where HYPERSPHERE_DATA says they lie."""

import lzma
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import (
    ArraySource,
    RecordSource,
    Subset,
    TarSource,
    check_readable,
    open_mnist,
    shared_names,
    write_mnist,
    write_records,
    write_tar,
)
from tests.data.samples import same_images

pytestmark = pytest.mark.realdata


def real(name: str) -> Path:
    path = Path(os.environ.get("HYPERSPHERE_DATA", "nowhere")) / name
    if not path.exists():
        pytest.skip(f"no {name} where HYPERSPHERE_DATA says")
    return path


def test_lfw_through_a_pack_and_shards(tmp_path: Path) -> None:
    lfw = TarSource(real("lfw112.tar"))
    assert len(lfw) == 7_701
    assert lfw.num_classes == 4_281
    assert lfw.batch(range(8)).shape == (8, 3, 112, 112)
    assert check_readable(lfw).unreadable == []
    write_records(lfw, tmp_path / "lfw" / "train.rec")
    packed = RecordSource(tmp_path / "lfw")
    order = np.argsort(lfw.labels, kind="stable")
    assert packed.names == lfw.names
    assert packed.labels.tolist() == lfw.labels[order].tolist()
    assert all(packed.encoded(k) == lfw.encoded(int(index)) for k, index in enumerate(order))
    write_tar(packed, tmp_path / "shards", shard_size=1_000)
    sharded = TarSource(tmp_path / "shards")
    assert sharded.labels.tolist() == packed.labels.tolist()
    assert all(sharded.encoded(k) == packed.encoded(k) for k in range(len(packed)))


def test_the_unaligned_photos_are_people_of_lfw() -> None:
    photos, lfw = TarSource(real("raw.tar")), TarSource(real("lfw112.tar"))
    shared = {name for name, _ in shared_names(photos.names, lfw.names)}
    assert len(shared) > 0.5 * photos.num_classes


def test_faces_in_three_archives() -> None:
    faces = TarSource([real(f"faces-{k}.tar") for k in range(3)])
    assert (len(faces), faces.num_classes) == (33_993, 5_741)
    assert check_readable(Subset(faces, np.arange(0, len(faces), 50))).unreadable == []


def test_mnist_through_idx(tmp_path: Path) -> None:
    with np.load(real("mnist.npz")) as arrays:
        images, labels = arrays["test_images"], arrays["test_labels"]
    source = ArraySource(images.reshape(-1, 28, 28, 1), labels)
    write_mnist(source, tmp_path, split="test")
    back = open_mnist(tmp_path, "test")
    assert same_images(back, source)
    assert back.labels.tolist() == labels.tolist()


def test_cifar_10_as_a_tree_in_an_archive(tmp_path: Path) -> None:
    with lzma.open(real("cifar10.tar.xz")) as packed, (tmp_path / "cifar10.tar").open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    for split, count in [("train", 50_000), ("test", 10_000)]:
        source = TarSource(tmp_path / "cifar10.tar", split=split)
        assert len(source) == count
        assert np.bincount(source.labels).tolist() == [count // 10] * 10
        assert source.names == [
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ]
        assert source.read(count // 2).shape == (32, 32, 3)
