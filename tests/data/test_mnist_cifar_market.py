"""MNIST's idx files, CIFAR's binary version, and Market-1501's names."""

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import (
    ArraySource,
    FolderSource,
    MarketSource,
    Subset,
    open_cifar,
    open_mnist,
    open_source,
    read_idx,
    write_cifar,
    write_idx,
    write_market,
    write_mnist,
)
from hypersphere.data.formats.market import parse_name
from tests.data.samples import Failing, arrays, make_folder, picture, same_images, saved


def idx(code: int, *shape: int, data: bytes) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, code, len(shape), *shape) + data


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["{}-images-idx3-ubyte", "{}-images.idx3-ubyte"])
def test_mnist(tmp_path: Path, packed: bool, name: str) -> None:
    pixels = bytes(range(24))
    for prefix in ("train", "t10k"):
        images = tmp_path / (name.format(prefix) + ".gz" * packed)
        labels = tmp_path / (name.format(prefix).replace("images", "labels").replace("idx3", "idx1") + ".gz" * packed)
        for path, data in [(images, idx(8, 2, 3, 4, data=pixels)), (labels, idx(8, 2, data=b"\1\0"))]:
            path.write_bytes(gzip.compress(data) if packed else data)
    for split in ("train", "test"):
        source = open_mnist(tmp_path, split)
        assert source.labels.tolist() == [1, 0]
        assert source.read(1).tolist() == np.arange(12, 24).reshape(3, 4, 1).tolist()
        assert source.batch([0, 1]).shape == (2, 1, 3, 4)
    assert source.describe(1).endswith(
        ("t10k-images-idx3-ubyte: image 1", "t10k-images.idx3-ubyte: image 1", ".gz: image 1")
    )
    assert len(open_source(tmp_path)) == 2
    with pytest.raises(ValueError, match="split='val' is unknown"):
        open_mnist(tmp_path, "val")


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8"])
@pytest.mark.parametrize("name", ["x", "x.gz"])
def test_idx_arrays_come_back(tmp_path: Path, dtype: str, name: str) -> None:
    array = (np.arange(12) * 3 - 10).reshape(2, 3, 2).astype(dtype)
    write_idx(array, tmp_path / name)
    back = read_idx(tmp_path / name)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "magic number"),
        (b"\0\0", "magic number"),
        (idx(7, 2, data=b"ab"), "magic number"),
        (b"\1\0\x08\1\0\0\0\1a", "magic number"),
        (b"\0\0\x08\3\0\0\0\1", "truncated within its header"),
        (idx(8, 2, 3, data=b"abcde"), r"truncated or damaged: \(2, 3\) needs 6 bytes, the file has only 5"),
        (idx(8, 2, 3, data=b"abcdefg"), r"needs 6 bytes, the file has more"),
        (idx(8, 2**32 - 1, 2**32 - 1, data=b"abc"), r"the file has only 3"),
    ],
)
def test_wrong_idx_files(tmp_path: Path, data: bytes, message: str, packed: bool) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(ValueError, match=f"x: .*{message}"):
        read_idx(path)


def test_a_truncated_gzip_file(tmp_path: Path) -> None:
    whole = gzip.compress(idx(8, 100, data=os.urandom(100)))
    for cut in (5, 40, len(whole) - 3):
        (tmp_path / "x.gz").write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"x\.gz: "):
            read_idx(tmp_path / "x.gz")
    (tmp_path / "x.gz").write_bytes(whole[:30] + b"\0\0\0\0" + whole[34:])
    with pytest.raises(ValueError, match=r"x\.gz: "):
        read_idx(tmp_path / "x.gz")


def test_mnist_files_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no train-images-idx3-ubyte, plain or \.gz"):
        open_mnist(tmp_path)
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    images.write_bytes(idx(8, 2, 1, 1, data=b"ab"))
    labels.write_bytes(idx(8, 3, data=b"\0\1\2"))
    with pytest.raises(ValueError, match=r"labels-idx1-ubyte: uint8 \(3,\) for 2 images"):
        open_mnist(tmp_path)
    labels.write_bytes(idx(8, 2, data=b"\0\2"))
    with pytest.raises(ValueError, match=r"images-idx3-ubyte: labels have a gap: of 0..2, 1 have no image \(1\)"):
        open_mnist(tmp_path)
    assert open_mnist(tmp_path, relabel=True).names == ["0", "2"]
    images.write_bytes(idx(8, 2, data=b"ab"))
    with pytest.raises(ValueError, match="uint8 of 1 dimensions; expected bytes of 3"):
        open_mnist(tmp_path)


def test_mnist_is_written(tmp_path: Path) -> None:
    grey = arrays(channels=1)
    write_mnist(grey, tmp_path / "new")
    write_mnist(ArraySource(np.repeat(grey.images, 3, axis=3), grey.labels), tmp_path / "new", split="test")
    for split in ("train", "test"):
        back = open_mnist(tmp_path / "new", split)
        assert same_images(back, grey)
        assert back.labels.tolist() == grey.labels.tolist()
    with pytest.raises(ValueError, match="idx files hold grey images; the source has colour"):
        write_mnist(arrays(), tmp_path / "colour")
    with pytest.raises(ValueError, match=r"labels are 0\.\.255, for every image; given 1 identities"):
        write_mnist(ArraySource(grey.images[:2], [0, -1]), tmp_path / "colour")
    with pytest.raises(ValueError, match="cannot hold int64"):
        write_idx(np.zeros(3, dtype=np.int64), tmp_path / "colour")
    with pytest.raises(OSError, match="Input/output"):
        write_mnist(Failing(), tmp_path / "colour")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def cifar_record(seed: int, *labels: int) -> bytes:
    return bytes(labels) + picture(seed, 32, 32).transpose(2, 0, 1).tobytes()


def test_cifar_10(tmp_path: Path) -> None:
    for number in (1, 2, 10):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(cifar_record(number, 1) + cifar_record(50, 0))
    (tmp_path / "test_batch.bin").write_bytes(cifar_record(7, 0) + cifar_record(8, 1))
    (tmp_path / "batches.meta.txt").write_text("airplane\nautomobile\n\n")
    source = open_cifar(tmp_path)
    assert source.labels.tolist() == [1, 0, 1, 0, 1, 0]
    assert source.names == ["airplane", "automobile"]
    np.testing.assert_array_equal(source.read(4), picture(10, 32, 32))
    np.testing.assert_array_equal(open_source(tmp_path, split="test").read(1), picture(8, 32, 32))


def test_cifar_100(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(cifar_record(1, 0, 2) + cifar_record(2, 1, 0) + cifar_record(3, 0, 1))
    (tmp_path / "fine_label_names.txt").write_text("apple\nbaby\nbear\n")
    (tmp_path / "coarse_label_names.txt").write_text("food\nliving\n")
    fine = open_source(tmp_path)
    assert fine.labels.tolist() == [2, 0, 1]
    assert fine.names == ["apple", "baby", "bear"]  # type: ignore[attr-defined]
    coarse = open_cifar(tmp_path, classes="coarse")
    assert coarse.labels.tolist() == [0, 1, 0]
    assert coarse.names == ["food", "living"]
    np.testing.assert_array_equal(coarse.read(2), picture(3, 32, 32))
    write_cifar(fine, tmp_path / "copy")
    copy = open_cifar(tmp_path / "copy")
    assert copy.coarse.tolist() == [0, 1, 0]
    assert copy.names == ["apple", "baby", "bear"]
    assert same_images(copy, fine)


def test_cifar_as_a_tree(tmp_path: Path) -> None:
    make_folder(tmp_path / "train", people=("bird", "cat"))
    make_folder(tmp_path / "test", each=1, people=("bird", "cat"))
    assert len(open_cifar(tmp_path, "test")) == 2
    assert isinstance(open_cifar(tmp_path), FolderSource)


def test_wrong_cifar_folders(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has neither data_batch_\*\.bin, nor train\.bin, nor a folder train"):
        open_cifar(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(b"\x80\x02")
    with pytest.raises(ValueError, match=r"is the pickled Python version; take the binary one"):
        open_source(tmp_path)
    (tmp_path / "data_batch_1.bin").write_bytes(cifar_record(1, 0) + b"rest")
    with pytest.raises(ValueError, match=r"data_batch_1\.bin: 3077 bytes .* records of 3073; truncated at byte 3073"):
        open_cifar(tmp_path)
    (tmp_path / "data_batch_1.bin").write_bytes(cifar_record(1, 3))
    with pytest.raises(ValueError, match="labels have a gap"):
        open_cifar(tmp_path)
    assert open_cifar(tmp_path, relabel=True).names == ["3"]


def test_cifar_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.data.formats.cifar.BATCH", 4)
    source = arrays(side=32)
    write_cifar(source, tmp_path / "new")
    write_cifar(source, tmp_path / "new", split="test")
    found = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert found == ["batches.meta.txt", "data_batch_1.bin", "data_batch_2.bin", "test_batch.bin"]
    for split in ("train", "test"):
        copy = open_cifar(tmp_path / "new", split)
        assert same_images(copy, source)
        assert copy.labels.tolist() == source.labels.tolist()
    with pytest.raises(ValueError, match=r"CIFAR's images are 32x32 in colour; the source's are \(12, 12, 3\)"):
        write_cifar(arrays(), tmp_path / "other")
    with pytest.raises(ValueError, match=r"data_batch_1\.bin exists already"):
        write_cifar(source, tmp_path / "new")
    with pytest.raises(OSError, match="Input/output"):
        write_cifar(Failing(), tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def make_market(root: Path, **splits: list[str]) -> Path:
    for folder, names in splits.items():
        (root / folder).mkdir(parents=True)
        (root / folder / "Thumbs.db").write_bytes(b"x")
        for k, name in enumerate(names):
            (root / folder / name).write_bytes(saved(picture(k)))
    return root


GALLERY = ["-1_c1s1_000401_03.jpg", "0000_c1s1_000151_01.jpg", "0007_c3s3_077419_03.jpg", "0007_c1s6_028546_04.jpg"]


def test_market(tmp_path: Path) -> None:
    root = make_market(
        tmp_path,
        bounding_box_train=["0002_c1s1_000451_03.jpg", "0010_c6s3_077392_02.jpg", "0002_c2s1_000301_01.jpg"],
        query=["0007_c2s1_000151_00.jpg"],
        bounding_box_test=GALLERY,
    )
    train = open_source(root)
    assert isinstance(train, MarketSource)
    assert train.labels.tolist() == [0, 0, 1]
    assert train.names == ["0002", "0010"]
    assert train.cameras.tolist() == [1, 2, 6]
    gallery = MarketSource(root, "gallery")
    assert gallery.identities.tolist() == [-1, 0, 7, 7]
    assert gallery.labels.tolist() == [-1, -1, 0, 0]
    assert gallery.cameras.tolist() == [1, 1, 1, 3]
    query = open_source(root, split="query")
    assert query.read(0).shape == (12, 10, 3)
    write_market(gallery, tmp_path / "copy", split="gallery")
    copy = MarketSource(tmp_path / "copy", "gallery")
    assert copy.identities.tolist() == gallery.identities.tolist()
    assert copy.cameras.tolist() == gallery.cameras.tolist()
    assert same_images(copy, gallery)


def test_names_of_market_and_duke() -> None:
    assert parse_name("0002_c1s1_000451_03.jpg") == (2, 1)
    assert parse_name("-1_c6s4_005402_09.jpg") == (-1, 6)
    assert parse_name("0000_c2s1_000976_01.jpg") == (0, 2)
    assert parse_name("0005_c2_f0046985.jpg") == (5, 2)
    assert parse_name("7140_c8_f0128830.jpg") == (7140, 8)
    with pytest.raises(ValueError, match=r"here: 'face\.jpg' is not named like"):
        parse_name("face.jpg", "here")


def test_any_source_can_be_written_in_markets_naming(tmp_path: Path) -> None:
    source = ArraySource(arrays().images[:3], [1, 0, -1])
    write_market(source, tmp_path / "new")
    copy = MarketSource(tmp_path / "new")
    assert copy.identities.tolist() == [0, 1, 2]
    assert copy.labels.tolist() == [-1, 0, 1]
    with pytest.raises(ValueError, match="bounding_box_train exists already"):
        write_market(source, tmp_path / "new")
    with pytest.raises(OSError, match="Input/output"):
        write_market(Failing(), tmp_path / "new", split="query")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["bounding_box_train"]


def test_wrong_market_folders(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="query is missing; expected the folders bounding_box_train, query"):
        MarketSource(tmp_path, "query")
    make_market(tmp_path, query=[])
    with pytest.raises(ValueError, match="query: no images"):
        MarketSource(tmp_path, "query")
    with pytest.raises(ValueError, match="split='val' is unknown"):
        MarketSource(tmp_path, "val")


def test_a_subset_of_market_keeps_identities_out_of_the_labels(tmp_path: Path) -> None:
    root = make_market(tmp_path, bounding_box_test=GALLERY)
    assert Subset(MarketSource(root, "gallery"), [0, 3]).labels.tolist() == [-1, 0]
