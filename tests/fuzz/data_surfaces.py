"""Surfaces of the data room: formats of data sets, and images."""

import random
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.data import (
    ArraySource,
    FolderSource,
    ListSource,
    NamedImages,
    PackSource,
    RecordSource,
    TarSource,
    UnreadableImage,
    decode,
    open_cifar,
    open_mnist,
    open_source,
    write_cifar,
    write_folder,
    write_list,
    write_mnist,
    write_pack,
    write_records,
    write_tar,
)
from tests.data.samples import arrays, make_folder, picture, saved
from tests.fuzz.mutate import DIGITS, Files
from tests.fuzz.surface import CallSurface, Damaged, FileSurface, Surface, unchanged

_TWO = ("Ada", "Bo_Lee")


def content(source: Any) -> dict[str, Any]:
    """What a source holds; an image that cannot be read counts as None, if its error names it."""
    images: list[Any] = []
    for index in range(len(source)):
        try:
            images.append(source.read(index))
        except UnreadableImage as error:
            if str(error).split(":")[0] not in source.describe(index):
                raise
            images.append(None)
    return {"labels": source.labels, "names": list(getattr(source, "names", [])), "images": images}


def same_structure(damaged: Damaged) -> str | None:
    """Labels and names are those of the sound files, whatever became of the pixels."""
    if damaged.gone:
        return None
    for key in ("labels", "names"):
        if damaged.found[key] != damaged.sound[key]:
            return f"{key} {damaged.found[key]} instead of {damaged.sound[key]}"
    return None


def as_many_as_lines(damaged: Damaged) -> str | None:
    """A list has an image for every line that is not empty."""
    lines, images = damaged.lines("list.txt"), len(damaged.found["images"])
    return None if images in lines else f"{images} images of {lines} lines"


def make_list(folder: Path) -> None:
    make_folder(folder / "images", people=_TWO)
    write_list(FolderSource(folder / "images"), folder / "list.txt")


def make_tar(folder: Path) -> None:
    make_folder(folder / "images", people=_TWO)
    write_tar(FolderSource(folder / "images"), folder / "a.tar")
    shutil.rmtree(folder / "images")


def make_plain_tar(folder: Path) -> None:
    make_tar(folder)
    (folder / "a.tar.index").unlink()


def read_plain_tar(folder: Path) -> Any:
    """Read an archive; an index that this writes is not for the next input."""
    try:
        return content(TarSource(folder / "a.tar"))
    finally:
        (folder / "a.tar.index").unlink(missing_ok=True)


def make_records(folder: Path) -> None:
    make_folder(folder / "images", people=_TWO)
    write_records(FolderSource(folder / "images"), folder / "train.rec")
    shutil.rmtree(folder / "images")


def index_agrees(damaged: Damaged) -> str | None:
    """The index, the counts and the names are checked against the records."""
    return same_structure(damaged) if "train.rec" not in damaged.change else None


def make_pack(folder: Path) -> None:
    make_folder(folder / "images", people=_TWO)
    write_pack(FolderSource(folder / "images"), folder / "a.bin")
    shutil.rmtree(folder / "images")


def read_pack(folder: Path) -> Any:
    pack = PackSource(folder / "a.bin")
    return {**content(pack), "same": pack.same}


def read_named(folder: Path) -> Any:
    return content(NamedImages(folder / "a.tar", ["Ada/0000.jpg", "Bo_Lee/0001.jpg"]))


def make_market(folder: Path) -> None:
    for split in ("bounding_box_train", "bounding_box_test", "query"):
        (folder / split).mkdir(parents=True)
        for person in (1, 2):
            (folder / split / f"{person:04d}_c1s1_00000{person}_00.jpg").write_bytes(saved(picture(person)))


def call_market(rng: random.Random, folder: Path) -> str | None:
    """Names of files with odd numbers in the place of people and cameras."""
    root = folder / "market"
    shutil.rmtree(root, ignore_errors=True)
    (root / "bounding_box_train").mkdir(parents=True)
    count = rng.randint(1, 4)
    for k in range(count):
        who, camera = rng.choice((str(k), *DIGITS)), rng.choice(("1", *DIGITS))
        name = f"{who}_c{camera}s1_{k:06d}_00.jpg"[-250:]
        (root / "bounding_box_train" / name).write_bytes(saved(picture(k)))
    source = open_source(root, format="market")
    return None if len(source) == len(list((root / "bounding_box_train").iterdir())) else "another number of images"


_NAMES = (
    *("Ada", "Bo Lee", " lead", "trail ", "tab\there", "a\rb", "a\nb", "a\\b", "\N{LATIN SMALL LETTER E WITH ACUTE}"),
    *(
        "e\u0301",
        "\u2028",
        "\x85",
        "\x1c",
        "'quoted'",
        '"',
        "#",
        "0",
        "007",
        "-1",
        "a/b",
        "../x",
        ".hidden",
        "",
        "x" * 200,
    ),
    *("\udcff", "\ufeffbom", "none", "a:b", "\x7f", "\0"),
)
_WRITERS: dict[str, Callable[[ArraySource, Path], object]] = {
    "f": write_folder,
    "t.tar": write_tar,
    "r.rec": write_records,
}


def call_round_trip(rng: random.Random, folder: Path) -> str | None:
    """Identities with odd names, written and read back: the same names, or an error of the writer."""
    root = folder / "trip"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    names = rng.sample(_NAMES, 2)
    images = np.stack([picture(k, 8, 8) for k in range(4)])
    source = ArraySource(images, np.array([0, 1, 0, 1]), names=names)
    target, write = rng.choice(list(_WRITERS.items()))
    write(source, root / target)
    read = {"f": FolderSource, "t.tar": TarSource, "r.rec": RecordSource}[target](root / target)
    pixels = sorted((read.names[label], read.read(k).tobytes()) for k, label in enumerate(read.labels))
    wanted = sorted(
        (names[label].replace("/", "_") if target != "r.rec" else names[label], source.read(k).tobytes())
        for k, label in enumerate(source.labels)
    )
    if pixels != wanted:
        return f"{target}: {names} read back as {read.names}"
    if target == "f":
        write_list(read, root / "list.txt")
        listed = ListSource(root / "list.txt")
        if [listed.names[k] for k in listed.labels] != [f"f/{read.names[k]}" for k in read.labels]:
            return f"list: {names} read back as {listed.names}"
    return None


def image_surface(kind: str, inputs: int, make: Callable[[], bytes], **options: Any) -> FileSurface:
    """The bytes of an image of one kind."""
    name = f"picture.{kind}"
    return FileSurface(
        f"image {kind}",
        inputs,
        lambda folder: (folder / name).write_bytes(make()),
        lambda folder: decode((folder / name).read_bytes(), str(folder / name)),
        **options,
    )


def with_checksums(files: dict[str, bytes], change: Files) -> Files:
    """A PNG whose chunks' checksums are right again."""
    return {name: _checksummed(data) if data else data for name, data in change.items()}


def _checksummed(data: bytes) -> bytes:
    made, place = bytearray(data), 8
    while place + 12 <= len(made):
        (length,) = struct.unpack_from(">I", made, place)
        end = place + 8 + length
        if end + 4 > len(made):
            break
        struct.pack_into(">I", made, end, zlib.crc32(made[place + 4 : end]))
        place = end + 4
    return bytes(made)


_FREE = "errors only: other bytes are other pixels"
DATA: list[Surface] = [
    FileSurface(
        "image folder",
        340,
        lambda folder: make_folder(folder, people=_TWO),
        lambda folder: content(FolderSource(folder)),
        same_structure,
        "labels and names stay; pixels may differ",
    ),
    FileSurface(
        "image list",
        620,
        make_list,
        lambda folder: content(ListSource(folder / "list.txt")),
        as_many_as_lines,
        "an image for every line",
        only=("list.txt",),
    ),
    FileSurface(
        "tar",
        410,
        make_plain_tar,
        read_plain_tar,
        promise="errors only: members have no checksum",
    ),
    FileSurface(
        "tar index",
        690,
        make_tar,
        lambda folder: content(TarSource(folder / "a.tar")),
        unchanged,
        "the answer of the archive without an index",
        only=("*.index",),
        writes=True,
    ),
    FileSurface("named images in a tar", 210, make_tar, read_named, promise=_FREE, writes=True),
    FileSurface(
        "rec",
        340,
        make_records,
        lambda folder: content(RecordSource(folder / "train.rec")),
        promise=_FREE,
        only=("train.rec",),
    ),
    FileSurface(
        "rec index",
        550,
        make_records,
        lambda folder: content(RecordSource(folder / "train.rec")),
        index_agrees,
        "labels and counts stay",
        only=("train.idx", "property"),
    ),
    FileSurface("pack .bin", 480, make_pack, read_pack, promise=_FREE),
    FileSurface(
        "idx (MNIST), gzipped",
        280,
        lambda folder: write_mnist(arrays(channels=1), folder / "mnist"),
        lambda folder: content(open_mnist(folder / "mnist")),
        unchanged,
        "gzip's checksum covers the content",
    ),
    FileSurface(
        "idx (MNIST)",
        280,
        lambda folder: _unpacked(folder / "mnist"),
        lambda folder: content(open_mnist(folder / "mnist")),
        promise=_FREE,
    ),
    FileSurface(
        "CIFAR",
        280,
        lambda folder: write_cifar(arrays(side=32), folder / "cifar"),
        lambda folder: content(open_cifar(folder / "cifar")),
        promise=_FREE,
    ),
    FileSurface("Market", 210, make_market, lambda folder: content(open_source(folder)), same_structure, "labels stay"),
    CallSurface("Market names", 120, call_market, "as many images as files"),
    CallSurface("names of identities", 250, call_round_trip, "what is written is read back, or refused"),
    image_surface("jpg", 550, lambda: saved(picture(1)), promise=_FREE),
    image_surface("progressive.jpg", 280, lambda: saved(picture(1), progressive=True), promise=_FREE),
    image_surface("png", 550, lambda: saved(picture(1), "PNG"), check=unchanged, promise="every chunk has a checksum"),
    image_surface("resealed.png", 340, lambda: saved(picture(1), "PNG"), seal=with_checksums, promise=_FREE),
    image_surface("webp", 280, lambda: saved(picture(1), "WEBP"), promise=_FREE),
    image_surface("bmp", 280, lambda: saved(picture(1), "BMP"), promise=_FREE),
    image_surface("gif", 280, lambda: saved(picture(1), "GIF"), promise=_FREE),
    image_surface("tiff", 250, lambda: saved(picture(1), "TIFF"), promise=_FREE),
    image_surface("ppm", 210, lambda: saved(picture(1), "PPM"), promise=_FREE),
]


def _unpacked(folder: Path) -> None:
    import gzip

    write_mnist(arrays(channels=1), folder)
    for path in folder.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
