"""Damaged files of every format: an error of ours that names a file, or images that can be read or are named.

Where a format has counts or checksums, damage is noticed. Pixels of CIFAR, labels of a list or of a `.cls` member have
none: of these a flipped bit is another pixel or label, and nobody can tell.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.data import ArraySource, EncodedSource, open_source, write_list, write_source
from tests.data.mutator import mutations, outcome
from tests.data.samples import arrays, make_folder

SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "rec": ("x.rec", {}),
    "bin": ("x.bin", {}),
    "mnist": ("", {"split": "test"}),
    "cifar": ("", {"split": "test"}),
}
FILES = [
    ("rec", "x.rec"),
    ("rec", "x.idx"),
    ("rec", "property"),
    ("rec", "x.names.txt"),
    ("bin", "x.bin"),
    ("mnist", "t10k-images-idx3-ubyte.gz"),
    ("mnist", "t10k-labels-idx1-ubyte.gz"),
    ("cifar", "test_batch.bin"),
    ("cifar", "batches.meta.txt"),
]


def pictures(kind: str) -> ArraySource:
    made = arrays(side=32, channels=1 if kind == "mnist" else 3)
    return ArraySource(made.images, made.labels, None if kind == "mnist" else ["Ada", "Bo Lee", "Çy"])


def content(source: Any) -> tuple[list[int], list[str], list[bytes | None]]:
    """Labels, names, and what is stored of each image; None for one that is refused by name."""
    stored: list[bytes | None] = []
    for index in range(len(source)):
        if isinstance(source, EncodedSource):
            data, message = outcome(lambda index=index: source.encoded(index))  # type: ignore[misc]
            assert data is not None or message
            stored.append(data)
            pixels, message = outcome(lambda index=index: source.read(index))  # type: ignore[misc]
            assert pixels is not None or message.startswith(source.describe(index)) or "x.rec" in message
        else:
            stored.append(source.read(index).tobytes())
    return source.labels.tolist(), list(source.names), stored


@pytest.mark.parametrize(("kind", "file"), FILES)
def test_damage_is_an_error_that_names_the_file_or_changes_nothing_else(tmp_path: Path, kind: str, file: str) -> None:
    name, options = SETS[kind]
    write_source(pictures(kind), tmp_path / name, kind, **options)

    def read() -> tuple[list[int], list[str], list[bytes | None]]:
        return content(open_source(tmp_path / name, kind, **options))

    right = read()
    whole = (tmp_path / file).read_bytes()
    noticed = 0
    for damaged in mutations(whole, 200, seed=FILES.index((kind, file))):
        (tmp_path / file).write_bytes(damaged)
        found, message = outcome(read)
        if found is None:
            assert str(tmp_path) in message
            noticed += 1
        elif file == "x.idx":
            assert found[:2] == right[:2]
            assert all(data in (stored, None) for data, stored in zip(found[2], right[2], strict=True))
        elif file.endswith(".gz"):
            assert found == right, "gzip has a checksum"
        elif file == "property":
            assert found == right
    assert noticed > 20


def test_damage_to_a_list_is_an_error_that_names_it_or_other_lines(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set", each=4)
    write_list(open_source(root), root / "list.txt")
    whole = (root / "list.txt").read_bytes()
    for damaged in mutations(whole, 400, seed=3):
        (root / "list.txt").write_bytes(damaged)
        for relabel in (False, True):
            found, message = outcome(lambda relabel=relabel: open_source(root / "list.txt", relabel=relabel))  # type: ignore[misc]
            if found is None:
                assert "list.txt" in message
            else:
                assert found.num_classes <= len(found), "a class has an image"
                assert -1 <= found.labels.min() <= found.labels.max() < found.num_classes


@pytest.mark.parametrize("label", ["9223372036854775807", "9223372036854775808", "9" * 30, "9" * 5000, "-2", "1000000"])
def test_a_class_beyond_the_lines_is_refused(tmp_path: Path, label: str) -> None:
    root = make_folder(tmp_path / "set")
    (root / "list.txt").write_text(f"Ada/0.jpg 0\nCy/0.jpg {label}\n")
    with pytest.raises(ValueError, match=r"list\.txt.*(label|gap)") as caught:
        open_source(root / "list.txt")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["9" * 20 + "_c1s1_0_0.jpg", "0001_c" + "9" * 30 + "s1_0.jpg", "१_c1s1_0_0.jpg"])
def test_numbers_in_names_of_market_are_bounded(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "query"
    folder.mkdir()
    (folder / name).write_bytes(b"x")
    with pytest.raises(ValueError, match="query: ") as caught:
        open_source(tmp_path, "market", split="query")
    assert name in str(caught.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e30, 0.5, -7.0])
@pytest.mark.parametrize("record", [0, 1, 7])
def test_numbers_in_a_pack_are_whole_and_bounded(tmp_path: Path, number: float, record: int) -> None:
    """Of record 0, of an image and of an identity record, read by ranges and by every header."""
    write_source(pictures("rec"), tmp_path / "x.rec")
    whole = bytearray((tmp_path / "x.rec").read_bytes())
    index = [line.split("\t") for line in (tmp_path / "x.idx").read_text().splitlines()]
    start = int(index[record][1])
    struct.pack_into("<f", whole, start + (12 if record == 1 else 32), number)
    (tmp_path / "x.rec").write_bytes(whole)
    with pytest.raises(ValueError, match=r"x\.rec"):
        content(open_source(tmp_path / "x.rec"))
    (tmp_path / "x.idx").write_text("".join(f"{key}\t{offset}\n" for key, offset in index[1:]))
    if record == 1:
        with pytest.raises(ValueError, match=r"x\.rec"):
            open_source(tmp_path / "x.rec")


@pytest.mark.parametrize("kind", ["rec", "cifar"])
def test_names_come_back_or_are_refused(tmp_path: Path, kind: str) -> None:
    names = ["Bo Lee", "back\\slash", "\udce9tienne", " tab\t", "Ä"]
    images = np.zeros((5, 32, 32, 3), np.uint8)
    target: Callable[[str], Path] = lambda name: tmp_path / (f"{name}/x.rec" if kind == "rec" else name)  # noqa: E731
    write_source(ArraySource(images, range(5), names), target("good"), kind)
    assert open_source(target("good"), kind).names == names  # type: ignore[attr-defined]
    for bad in ("line\nbreak", "carriage\rreturn"):
        with pytest.raises(ValueError, match="has a line break in its name"):
            write_source(ArraySource(images, range(5), [*names[:4], bad]), target("bad"), kind)
        assert not target("bad").exists()


@pytest.mark.parametrize("name", ["a\\b.jpg", "\udce9.jpg", "a\rb.jpg", "a\nb.jpg"])
def test_a_file_that_a_list_cannot_name_is_refused(tmp_path: Path, name: str) -> None:
    root = make_folder(tmp_path / "set")
    (root / "Ada" / name).write_bytes((root / "Ada" / "0.jpg").read_bytes())
    with pytest.raises(ValueError, match=r"list\.txt: image \d: 'Ada/"):
        write_list(open_source(root), root / "list.txt")
    assert not (root / "list.txt").exists()


@pytest.mark.parametrize("name", ["\ufeffa.jpg", "'a'.jpg", ' " .jpg', "a 7", "tab\t.jpg", "\u2028.jpg", "#.jpg"])
def test_odd_names_in_a_list_come_back(tmp_path: Path, name: str) -> None:
    name = name if name.endswith(".jpg") else f"{name}.jpg"
    (tmp_path / name).mkdir()
    (tmp_path / name / name).write_bytes(b"x")
    write_list(open_source(tmp_path, "folder"), tmp_path / "list.txt")
    assert open_source(tmp_path / "list.txt").files == [f"{name}/{name}"]  # type: ignore[attr-defined]
