"""Open by guessing, write by name, and convert between every two formats."""

from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import (
    FORMATS,
    ArraySource,
    FolderSource,
    MarketSource,
    PackSource,
    RecordSource,
    TarSource,
    guess_format,
    open_source,
    write_source,
    write_tar,
)
from tests.data.samples import PEOPLE, Failing, arrays, make_folder, same_images

TARGETS = {
    "folder": "set",
    "list": "set.txt",
    "tar": "set.tar",
    "rec": "set.rec",
    "bin": "set.bin",
    "mnist": "set",
    "cifar": "set",
    "market": "set",
}


def grey_set() -> ArraySource:
    """Small grey pictures in colour, 32x32, which every format can hold."""
    images = np.repeat(arrays(side=32).images[:, :, :, :1], 3, axis=3)
    return ArraySource(images, np.arange(6) // 2)


def test_targets_cover_every_format() -> None:
    assert set(TARGETS) == set(FORMATS)


@pytest.mark.parametrize("last", FORMATS)
@pytest.mark.parametrize("first", ["folder", "tar", "rec", "mnist", "cifar", "market"])
def test_every_format_converts_to_every_other(tmp_path: Path, first: str, last: str) -> None:
    source = grey_set()
    write_source(source, tmp_path / "a" / TARGETS[first], first)
    middle = open_source(tmp_path / "a" / TARGETS[first])
    if last == "list" and first not in ("folder", "market"):
        with pytest.raises(ValueError, match="is not a file of its own; convert to an image folder first"):
            write_source(middle, tmp_path / TARGETS[last])
        return
    target = tmp_path / TARGETS[last]
    write_source(middle, target, last)
    back = open_source(target)
    pixels = np.stack([back.read(k) for k in range(6)])
    np.testing.assert_array_equal(pixels, source.images[:, :, :, : pixels.shape[3]])
    assert pixels.shape[3] == (1 if last == "mnist" else 3)
    if last != "bin":
        assert back.labels.tolist() == [0, 0, 1, 1, 2, 2]
    else:
        assert isinstance(back, PackSource)
        assert back.same.all()


def test_formats_are_guessed(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    assert guess_format(root) == "folder"
    source = open_source(root)
    assert isinstance(source, FolderSource)
    for name in ("x.rec", "y.tar", "z.bin"):
        write_source(source, tmp_path / name)
    assert isinstance(open_source(str(tmp_path / "x.rec")), RecordSource)
    assert isinstance(open_source(tmp_path / "x.idx"), RecordSource)
    assert isinstance(open_source(tmp_path / "y.tar"), TarSource)
    assert isinstance(open_source(tmp_path / "z.bin"), PackSource)
    write_source(source, tmp_path / "list.txt")
    assert same_images(open_source(tmp_path / "list.txt"), source)
    write_source(source, tmp_path / "market", "market", split="query")
    with pytest.raises(ValueError, match="bounding_box_train is missing"):
        open_source(tmp_path / "market", "market")
    assert isinstance(open_source(tmp_path / "market", "market", split="query"), MarketSource)


def test_a_pattern_opens_several_archives(tmp_path: Path) -> None:
    source = open_source(make_folder(tmp_path / "set"))
    write_tar(source, tmp_path / "shards", shard_size=2)
    assert same_images(open_source(tmp_path / "shards" / "shard-*.tar"), source)
    part = open_source(tmp_path / "shards" / "shard-00000[12].tar", relabel=True)
    assert part.names == list(PEOPLE[1:])  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"matches 6 files; only \.tar archives open as one set"):
        open_source(tmp_path / "shards" / "shard-*")
    with pytest.raises(ValueError, match=r"format='rec' is unknown; .*Known: tar"):
        open_source(tmp_path / "shards" / "shard-*.tar", "rec")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: root / "nowhere", r"nowhere is missing"),
        (lambda root: touch(root / "set.tar.gz"), r"set\.tar\.gz: a compressed archive allows no random access"),
        (
            lambda root: touch(root / "train-images-idx3-ubyte"),
            r"open the folder it lies in; images and labels are two files",
        ),
        (lambda root: touch(root / "data_batch_1.bin"), r"data_batch_1\.bin: open the folder it lies in"),
        (lambda root: touch(root / "a.npz"), r"a\.npz is of no known format \(folder, list, tar"),
        (lambda root: touch(root / "x" / "notes.md").parent, r"x is of no known format"),
        (
            lambda root: touch(touch(root / "x" / "a.rec").with_suffix(".tar")).parent,
            r"x looks like rec and tar; say which",
        ),
    ],
)
def test_what_cannot_be_guessed(tmp_path: Path, make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_source(make(tmp_path))


def touch(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    return path


def test_unknown_formats_and_options(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    with pytest.raises(ValueError, match=r"unknown format 'foldr'; did you mean 'folder'\?"):
        open_source(root, "foldr")
    with pytest.raises(ValueError, match=r"format folder has no option 'root'; Known: split"):
        open_source(root, root=tmp_path)
    with pytest.raises(ValueError, match=r"format rec has no option 'shard_size'"):
        write_source(arrays(), tmp_path / "x.rec", shard_size=3)
    with pytest.raises(ValueError, match=r"format bin has no option 'split'; it has none"):
        open_source(touch(tmp_path / "x.bin"), split="train")


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "list"])
def test_no_writer_leaves_half_of_anything(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        write_source(Failing(), tmp_path / "deep" / "er" / TARGETS[name], name)
    assert list(tmp_path.iterdir()) == []
