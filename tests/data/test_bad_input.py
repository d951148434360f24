"""Bad input, in every format that it can occur in: what is converted, what is refused, and with which words."""

import gzip
import io
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hypersphere.data import ImageSource, UnreadableImage, check_readable, decode, open_source, write_idx
from hypersphere.data.formats.recordio import frame, pack
from tests.data.samples import picture, saved


def tiff(samples: np.ndarray) -> bytes:
    return saved(Image.fromarray(samples), "TIFF")


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(picture(2), "PNG", exif=exif)


def animated() -> bytes:
    frames = [Image.new("RGB", (10, 12), colour) for colour in [(255, 0, 0), (0, 255, 0)]]
    return saved(frames[0], "GIF", save_all=True, append_images=frames[1:])


def huge() -> bytes:
    jpeg = bytearray(saved(picture(1, 8, 8)))
    frame_header = jpeg.index(b"\xff\xc0")
    jpeg[frame_header + 5 : frame_header + 9] = struct.pack(">HH", 20_000, 30_000)
    return bytes(jpeg)


def corrupt() -> bytes:
    data = bytearray(saved(picture(3), "PNG"))
    data[len(data) // 2] ^= 0xFF
    return bytes(data)


FIFTY_GREY = np.full((12, 10), 0x8080, np.uint16)
READ: dict[str, tuple[bytes, np.ndarray]] = {
    "plain": (saved(picture(1), "PNG"), picture(1)),
    "cmyk": (saved(Image.new("CMYK", (10, 12), (0, 255, 255, 0)), quality=100), np.full((12, 10, 3), [254, 0, 0])),
    "16-bit": (tiff(FIFTY_GREY), np.full((12, 10, 3), 0x80)),
    "exif-rotated": (turned(), np.rot90(picture(2), -1)),
    "animated": (animated(), np.full((12, 10, 3), [255, 0, 0])),
}
REFUSED: dict[str, tuple[bytes, str]] = {
    "zero-byte": (b"", r"empty \(0 bytes\)"),
    "truncated": (saved(picture(3, 40, 40))[:300], "."),
    "corrupt": (corrupt(), "."),
    "foreign": (b"<html>404</html>", "begins with b'<htm', which is none of Jpeg, Png"),
    "huge": (huge(), "30000x20000 pixels, more than the 67,108,864 allowed"),
}
ALL = [data for data, _ in (*READ.values(), *REFUSED.values())]


def names(count: int) -> list[str]:
    return [f"person{k // 2}/{k}.jpg" for k in range(count)]


def as_folder(path: Path, images: list[bytes]) -> Path:
    for name, data in zip(names(len(images)), images, strict=True):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def as_list(path: Path, images: list[bytes]) -> Path:
    as_folder(path, images)
    (path / "list.txt").write_text("".join(f"{name} {k // 2}\n" for k, name in enumerate(names(len(images)))))
    return path / "list.txt"


def as_tar(path: Path, images: list[bytes]) -> Path:
    with tarfile.open(path.with_suffix(".tar"), "w") as archive:
        for name, data in zip(names(len(images)), images, strict=True):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path.with_suffix(".tar")


def as_rec(path: Path, images: list[bytes]) -> Path:
    count, people = len(images), len(images) // 2
    records = [pack([count + 1, count + 1 + people], 0)]
    records += [pack([k // 2], k + 1, data) for k, data in enumerate(images)]
    records += [pack([1 + 2 * k, 3 + 2 * k], count + 1 + k) for k in range(people)]
    framed = [frame(record) for record in records]
    starts = np.cumsum([0, *map(len, framed)])
    path.with_suffix(".rec").write_bytes(b"".join(framed))
    path.with_suffix(".idx").write_text("".join(f"{k}\t{start}\n" for k, start in enumerate(starts[:-1])))
    return path.with_suffix(".rec")


def as_bin(path: Path, images: list[bytes]) -> Path:
    path.with_suffix(".bin").write_bytes(pickle.dumps((images, [True] * (len(images) // 2))))
    return path.with_suffix(".bin")


def as_market(path: Path, images: list[bytes]) -> Path:
    folder = path / "bounding_box_train"
    folder.mkdir(parents=True)
    for k, data in enumerate(images):
        (folder / f"{k // 2 + 1:04d}_c1s1_{k:06d}_00.jpg").write_bytes(data)
    return path


MAKERS: dict[str, Callable[[Path, list[bytes]], Path]] = {
    "folder": as_folder,
    "list": as_list,
    "tar": as_tar,
    "rec": as_rec,
    "bin": as_bin,
    "market": as_market,
}


@pytest.fixture(params=list(MAKERS))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> ImageSource:
    return open_source(MAKERS[request.param](tmp_path / "set", ALL), request.param)


def test_odd_images_are_converted(source: ImageSource) -> None:
    for index, (kind, (_, expected)) in enumerate(READ.items()):
        image = source.read(index)
        assert image.shape == expected.shape, kind
        assert np.abs(image.astype(int) - expected).max() <= 2, kind


def test_bad_images_are_refused_by_name_and_cause(source: ImageSource) -> None:
    for index, (kind, (_, cause)) in enumerate(REFUSED.items(), start=len(READ)):
        with pytest.raises(UnreadableImage, match=cause) as refused:
            source.read(index)
        assert str(refused.value).startswith(f"{source.describe(index)}: "), kind
        with pytest.raises(UnreadableImage, match=cause):
            source.batch([0, index])


def test_bad_images_are_counted(source: ImageSource) -> None:
    report = check_readable(source, limit_share=0.5, workers=2)
    assert [index for index, _ in report.unreadable] == list(range(len(READ), len(ALL)))
    with pytest.raises(ValueError, match=r"5 of 10 images cannot be read \(50\.0%, more than the 1\.0% allowed\)"):
        check_readable(source)


@pytest.mark.parametrize("kind", list(MAKERS))
def test_a_set_that_is_missing(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ValueError, match="nowhere is missing"):
        open_source(tmp_path / "nowhere", kind)


@pytest.mark.parametrize("kind", ["folder", "market"])
def test_a_file_that_is_missing(tmp_path: Path, kind: str) -> None:
    root = MAKERS[kind](tmp_path / "set", ALL[:4])
    source = open_source(root, kind)
    Path(source.describe(2)).unlink()
    with pytest.raises(UnreadableImage, match=r"\.jpg: No such file or directory"):
        source.read(2)
    Path(source.describe(2)).symlink_to(tmp_path / "gone.jpg")
    assert [index for index, _ in check_readable(open_source(root, kind), limit_share=1).unreadable] == [2]


def test_a_missing_file_of_a_list_or_a_pack(tmp_path: Path) -> None:
    path = as_list(tmp_path / "set", ALL[:4])
    (path.parent / "person1" / "2.jpg").unlink()
    with pytest.raises(ValueError, match=r"1 of 4 files are missing below .*: 'person1/2\.jpg' \(line 3\)"):
        open_source(path)
    pair = as_rec(tmp_path / "pack", ALL[:4])
    pair.with_suffix(".idx").unlink()
    with pytest.raises(ValueError, match=r"pack\.idx is missing; a pack is a \.rec and an \.idx"):
        open_source(pair)


def test_an_identity_with_no_image(tmp_path: Path) -> None:
    root = as_folder(tmp_path / "folder", ALL[:2])
    (root / "nobody").mkdir()
    with pytest.raises(ValueError, match="folder: 1 identities have no image: nobody"):
        open_source(root)
    tar = as_tar(tmp_path / "set", ALL[:2])
    with tarfile.open(tar, "a") as archive:
        member = tarfile.TarInfo("nobody")
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    assert open_source(tar).num_classes == 1, "an archive's identities are those of its images"


def labelled_list(path: Path, labels: list[int]) -> Path:
    folder = as_folder(path, ALL[:1] * len(labels))
    lines = [f"{name} {label}\n" for name, label in zip(names(len(labels)), labels, strict=True)]
    (folder / "list.txt").write_text("".join(lines))
    return folder / "list.txt"


def labelled_tar(path: Path, labels: list[int]) -> Path:
    with tarfile.open(path.with_suffix(".tar"), "w") as archive:
        for k, label in enumerate(labels):
            for end, data in ((".png", ALL[0]), (".cls", str(label).encode())):
                member = tarfile.TarInfo(f"{k}{end}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path.with_suffix(".tar")


def labelled_rec(path: Path, labels: list[int]) -> Path:
    framed = [frame(pack([label], k, ALL[0])) for k, label in enumerate(labels)]
    starts = np.cumsum([0, *map(len, framed)])
    path.with_suffix(".rec").write_bytes(b"".join(framed))
    path.with_suffix(".idx").write_text("".join(f"{k}\t{start}\n" for k, start in enumerate(starts[:-1])))
    return path.with_suffix(".rec")


def labelled_mnist(path: Path, labels: list[int]) -> Path:
    path.mkdir()
    write_idx(np.zeros((len(labels), 28, 28), np.uint8), path / "train-images-idx3-ubyte")
    write_idx(np.array(labels, np.uint8), path / "train-labels-idx1-ubyte")
    return path


def labelled_cifar(path: Path, labels: list[int]) -> Path:
    path.mkdir()
    (path / "data_batch_1.bin").write_bytes(b"".join(bytes([label]) + bytes(3072) for label in labels))
    return path


@pytest.mark.parametrize(
    "make", [labelled_list, labelled_tar, labelled_rec, labelled_mnist, labelled_cifar], ids=lambda make: make.__name__
)
def test_a_label_gap(make: Callable[[Path, list[int]], Path], tmp_path: Path) -> None:
    path = make(tmp_path / "set", [0, 3, 5, 3])
    with pytest.raises(
        ValueError,
        match=r"set.*: labels have a gap: of 0\.\.5, 3 have no image \(1, 2, 4\); labels must be 0\.\.K-1 without gaps",
    ):
        open_source(path)
    assert open_source(path, relabel=True).labels.tolist() == [0, 1, 2, 1]


def test_zero_byte_and_truncated_sets(tmp_path: Path) -> None:
    for name in ("x.tar", "x.rec", "x.bin"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "x.idx").write_text("0\t0\n")
    (tmp_path / "x.txt").write_text("")
    digits = tmp_path / "digits"
    digits.mkdir()
    (digits / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x03")[:-4])
    (digits / "train-labels-idx1-ubyte.gz").write_bytes(b"")
    small = tmp_path / "small"
    small.mkdir()
    (small / "data_batch_1.bin").write_bytes(bytes(100))
    for name, message in [
        ("x.tar", r"x\.tar: ends at byte 0 without the end-of-archive mark; it is truncated"),
        ("x.rec", r"x\.idx: record 0 is said to begin at byte 0 of .*x\.rec, which has 0 bytes"),
        ("x.bin", r"x\.bin: not a readable pickle, or truncated"),
        ("x.txt", r"x\.txt: no images"),
        ("digits", r"idx\d-ubyte\.gz: "),
        ("small", r"data_batch_1\.bin: 100 bytes are not a whole number of records"),
    ]:
        with pytest.raises(ValueError, match=message):
            open_source(tmp_path / name)


def test_the_pictures_above_are_what_they_say() -> None:
    with Image.open(io.BytesIO(READ["cmyk"][0])) as image:
        assert image.mode == "CMYK"
    with Image.open(io.BytesIO(READ["16-bit"][0])) as image:
        assert image.mode.startswith("I;16")
    with Image.open(io.BytesIO(READ["animated"][0])) as image:
        assert image.n_frames == 2  # type: ignore[attr-defined]
    assert decode(READ["exif-rotated"][0]).shape == (10, 12, 3)
