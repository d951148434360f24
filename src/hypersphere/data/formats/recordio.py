"""InsightFace packs: MXNet RecordIO (`train.rec` + `train.idx`), read and written without MXNet."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hypersphere.core import Reporter, Staged, parse_integer, refuse_existing
from hypersphere.data.file_access import ByteFile, stage_beside
from hypersphere.data.formats.folder import stored_images
from hypersphere.data.images import UnreadableImage, suffix_of
from hypersphere.data.source import (
    EncodedSource,
    ImageSource,
    Labels,
    name_lines,
    names_of,
    number_labels,
    read_name_lines,
)

MAGIC = struct.pack("<I", 0xCED7230A)
LENGTH_BITS = 29
WHOLE, FIRST, MIDDLE, LAST = range(4)
HEADER = struct.Struct("<IfQQ")
EXACT = 2**24
"""Record 0 and the identity records hold indices as float32, exact up to here."""
_LARGEST = 2.0**53


class Header(NamedTuple):
    """The header of an image record: `labels` are one number, or `flag` numbers."""

    flag: int
    labels: tuple[float, ...]
    id: int
    id2: int


class RecordSource(EncodedSource):
    """The images of an InsightFace pack.

    Record 0 says at which index the images end and the identity records begin; each of those says which images are
    the identity's. The label is that of the identity's first image, and compared with each image's own when it is read.
    Of a pack without such ranges, or with more than 2^24 records (where indices in float32 are not exact), all headers
    are read instead. `property` or `property.txt` (`identities,height,width`) is compared where it exists.

    Args:
        path: the `.rec`; the `.idx` lies beside it. Or a folder with one `.rec`.
        relabel: number the labels that occur from 0 on, instead of refusing a gap.

    Example:
        >>> RecordSource("faces_emore/train.rec").num_classes
        4
    """

    def __init__(self, path: str | Path, relabel: bool = False) -> None:
        path = _record_path(Path(path))
        self._file = ByteFile(path)
        keys, offsets = _read_index(path.with_suffix(".idx"), self._file)
        self._check_end(int(offsets.max()))
        images, raw = self._ranged(keys, offsets) or self._scanned(keys, offsets)
        labels, kept = number_labels(raw, str(path), relabel=relabel)
        _check_property(path, len(kept))
        super().__init__(labels, _read_names(path, kept))
        self.keys: Labels = images
        self._raw = raw
        self._offsets = offsets[np.searchsorted(keys, images)]

    def describe(self, index: int) -> str:
        """File, record and offset."""
        return f"{self._file.path}: record {self.keys[index]} (at byte {self._offsets[index]})"

    def encoded(self, index: int) -> bytes:
        """The record's image, as stored."""
        try:
            header, data = unpack(read_record(self._file, int(self._offsets[index])), "header")
        except ValueError as error:
            raise UnreadableImage(f"{self.describe(index)}: {error}") from error
        if header.labels[0] != self._raw[index]:
            raise ValueError(
                f"{self.describe(index)}: label {header.labels[0]:g} in its header, "
                f"{self._raw[index]} by its identity's range"
            )
        return data

    def _check_end(self, offset: int) -> None:
        """The last record of the index is whole, and the last of the file."""
        try:
            end = read_parts(self._file, offset)[1]
        except ValueError as error:
            raise ValueError(f"{error}; this is the last record of the index") from error
        if end < self._file.size:
            raise ValueError(
                f"{self._file.path}: the last record of its .idx ends at byte {end} of {self._file.size}; the .idx is "
                "truncated or of another pack"
            )

    def _header(self, offset: int) -> Header:
        return unpack(read_record(self._file, offset), f"{self._file.path}: record at byte {offset}")[0]

    def _ranged(self, keys: Labels, offsets: Labels) -> tuple[Labels, Labels] | None:
        """Images and labels by record 0 and the identity records; None where the pack has no (exact) ranges."""
        if keys[0] != 0:
            return None
        head = self._header(int(offsets[0]))
        if head.flag < 2 or EXACT <= head.labels[0] < _LARGEST:
            return None
        where = f"{self._file.path}: record 0"
        first, end = (_whole(number, where) for number in head.labels[:2])
        if not 1 < first < end or len(keys) < end or keys[end - 1] != end - 1:
            raise ValueError(
                f"{where} says images 1..{first - 1} and identities {first}..{end - 1}, "
                f"but the index has {len(keys)} records up to {keys[-1]}"
            )
        raw = np.full(first, -1, dtype=np.int64)
        for identity in range(first, end):
            labels = self._header(int(offsets[identity])).labels
            record = f"{self._file.path}: identity record {identity}"
            low, high = _whole(labels[0], record), _whole(labels[-1], record)
            claim = f"{record} says images {low} up to {high} of 1 up to {first}"
            if low == high:
                raise ValueError(f"{claim}: an identity with no image")
            if not 1 <= low < high <= first or raw[low:high].max() >= 0:
                raise ValueError(f"{claim}, which lies outside or is another identity's")
            raw[low:high] = _whole(self._header(int(offsets[low])).labels[0], f"{self._file.path}: record {low}")
        unclaimed = np.flatnonzero(raw[1:] < 0) + 1
        if len(unclaimed):
            raw[unclaimed] = self._labels(unclaimed, offsets[unclaimed])[0]
        return np.arange(1, first, dtype=np.int64), raw[1:]

    def _scanned(self, keys: Labels, offsets: Labels) -> tuple[Labels, Labels]:
        """Images and labels by every header; a record without content is no image. The records fill the file."""
        labels, filled, ends = self._labels(keys, offsets)
        order = np.argsort(offsets)
        starts, ends = offsets[order], np.concatenate(([0], ends[order]))
        gap = np.flatnonzero(starts != ends[:-1])
        if len(gap):
            raise ValueError(
                f"{self._file.path}: a record ends at byte {ends[gap[0]]}, the next of its .idx begins at byte "
                f"{starts[gap[0]]}; the .idx is damaged or of another pack"
            )
        return keys[filled], labels[filled]

    def _labels(self, keys: Labels, offsets: Labels) -> tuple[Labels, npt.NDArray[np.bool_], Labels]:
        """The label in each record's header, whether an image follows it, and where the record ends."""
        path = self._file.path
        data = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        labels = np.empty(len(keys), dtype=np.float64)
        filled = np.empty(len(keys), dtype=np.bool_)
        ends = np.empty(len(keys), dtype=np.int64)
        reach = np.arange(36)
        for start in range(0, len(keys), 65536):
            chunk = slice(start, start + 65536)
            rows = data[np.minimum(offsets[chunk, None] + reach, len(data) - 1)].view("<u4")
            wrong = np.flatnonzero(rows[:, 0] != int.from_bytes(MAGIC, "little"))
            if len(wrong):
                _refuse_magic(path, int(offsets[start + wrong[0]]))
            flag, length = rows[:, 2], rows[:, 1] & ((1 << LENGTH_BITS) - 1)
            labels[chunk] = np.where(flag > 0, rows[:, 8].view("<f4"), rows[:, 3].view("<f4"))
            needed = HEADER.size + 4 * flag.astype(np.int64)
            filled[chunk] = length > needed
            ends[chunk] = offsets[chunk] + 8 + -(-length.astype(np.int64) // 4) * 4
            for row in np.flatnonzero((rows[:, 1] >> LENGTH_BITS != WHOLE) | (length < needed)) + start:
                parts, ends[row] = read_parts(self._file, int(offsets[row]))
                header, content = unpack(MAGIC.join(parts), f"{path}: record {keys[row]}")
                labels[row], filled[row] = header.labels[0], bool(content)
        odd = np.flatnonzero(filled & ~((labels == np.round(labels)) & (np.abs(labels) < _LARGEST)))
        if len(odd):
            _whole(labels[odd[0]], f"{path}: record {keys[odd[0]]}")
        return np.where(filled, labels, -1).astype(np.int64), filled, ends


def _whole(label: float, where: str) -> int:
    if not abs(label) < _LARGEST or label != int(label):
        raise ValueError(f"{where}: label {label:g} is not a whole number below 2^53")
    return int(label)


def _record_path(path: Path) -> Path:
    if path.is_dir():
        found = sorted(path.glob("*.rec"))
        if len(found) != 1:
            raise ValueError(f"{path} has {len(found)} .rec files; name the one to open")
        path = found[0]
    path = path.with_suffix(".rec")
    for needed in (path, path.with_suffix(".idx")):
        if not needed.is_file():
            raise ValueError(f"{needed} is missing; a pack is a .rec and an .idx of one name")
    return path


def _read_index(path: Path, records: ByteFile) -> tuple[Labels, Labels]:
    """Keys, sorted, and offsets."""
    lines = path.read_text(encoding="ascii", errors="replace").split("\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if len(fields) == 2:
            key, offset = fields
            where = f"{path}, line {number}"
            rows.append((parse_integer(key, f"{where}: key"), parse_integer(offset, f"{where}: offset")))
        elif fields:
            raise ValueError(f"{path}, line {number}: {line[:80]!r}; expected 'key offset'")
    if not rows:
        raise ValueError(f"{path}: no records")
    table = np.array(rows, dtype=np.int64)
    outside = np.flatnonzero((table[:, 1] > records.size - len(MAGIC) - 4) | (table[:, 1] % 4 != 0))
    if len(outside):
        key, offset = table[outside[0]].tolist()
        raise ValueError(
            f"{path}: record {key} is said to begin at byte {offset} of {records.path}, which has {records.size} bytes "
            "(records begin at multiples of 4); one of the two is truncated or of another pack"
        )
    table = table[np.argsort(table[:, 0], kind="stable")]
    double = np.flatnonzero(table[1:, 0] == table[:-1, 0])
    if len(double):
        raise ValueError(f"{path}: record {table[double[0], 0]} occurs twice")
    places = np.sort(table[:, 1])
    shared = np.flatnonzero(places[1:] == places[:-1])
    if len(shared):
        raise ValueError(f"{path}: two records are said to begin at byte {places[shared[0]]} of {records.path}")
    return table[:, 0].copy(), table[:, 1].copy()


def _check_property(path: Path, identities: int) -> None:
    for name in ("property", "property.txt"):
        file = path.with_name(name)
        if file.is_file():
            text = file.read_text(encoding="ascii", errors="replace").strip()
            stated = text.split(",")[0].strip()
            if parse_integer(stated, f"{file}: identities in 'identities,height,width'") != identities:
                raise ValueError(f"{file} says {stated} identities, but {path.name} has {identities}")


def _names_path(path: Path) -> Path:
    return path.with_suffix(".names.txt")


def _read_names(path: Path, kept: list[int]) -> list[str]:
    file = _names_path(path)
    if not file.is_file():
        return [str(k) for k in kept]
    names = read_name_lines(file)
    if kept and len(names) <= kept[-1]:
        raise ValueError(f"{file}: {len(names)} names, but {path.name} has identity {kept[-1]}")
    return [names[k] for k in kept]


def _write_names(stage: Staged, path: Path, names: list[str]) -> None:
    if names == [str(k) for k in range(len(names))]:
        return
    stage_beside(stage, _names_path(path), name_lines(names, path))


def read_record(file: ByteFile, offset: int) -> bytes:
    """The record that begins at `offset`; the parts of one that was split at the magic word are joined by it."""
    return MAGIC.join(read_parts(file, offset)[0])


def read_parts(file: ByteFile, offset: int) -> tuple[list[bytes], int]:
    """The parts of the record that begins at `offset`, and where the next record begins."""
    parts: list[bytes] = []
    position = offset
    while True:
        beginning = file.read(position, 8)
        if beginning[:4] != MAGIC:
            _refuse_magic(file.path, position)
        word = int.from_bytes(beginning[4:], "little")
        flag, length = word >> LENGTH_BITS, word & ((1 << LENGTH_BITS) - 1)
        if flag not in ((MIDDLE, LAST) if parts else (WHOLE, FIRST)):
            raise ValueError(f"{file.path}: part of kind {flag} at byte {position} is out of place")
        parts.append(file.read(position + 8, length))
        position += 8 + length + -length % 4
        if flag in (WHOLE, LAST):
            return parts, position


def _refuse_magic(path: Path, offset: int) -> None:
    raise ValueError(f"{path}: no record begins at byte {offset} (wrong magic word); damaged, or of another index")


def frame(record: bytes) -> bytes:
    """A record as it stands in the file: split wherever the magic word lies on a multiple of 4, padded to 4."""
    if len(record) >= 1 << LENGTH_BITS:
        raise ValueError(f"a record of {len(record)} bytes is too long; RecordIO holds less than 2^29")
    parts = _split(record)
    framed = bytearray()
    for number, part in enumerate(parts):
        kind = WHOLE if len(parts) == 1 else FIRST if number == 0 else LAST if number == len(parts) - 1 else MIDDLE
        framed += MAGIC + struct.pack("<I", kind << LENGTH_BITS | len(part)) + part + bytes(-len(part) % 4)
    return bytes(framed)


def _split(record: bytes) -> list[bytes]:
    parts = []
    start = position = 0
    while (position := record.find(MAGIC, position)) >= 0:
        if position % 4:
            position += 1
            continue
        parts.append(record[start:position])
        position += 4
        start = position
    return [*parts, record[start:]]


def pack(labels: Iterable[float], key: int, content: bytes = b"") -> bytes:
    """A record: the header with one label, or with several after it, then the content."""
    values = [float(label) for label in labels]
    if len(values) == 1:
        return HEADER.pack(0, values[0], key, 0) + content
    return HEADER.pack(len(values), 0.0, key, 0) + struct.pack(f"<{len(values)}f", *values) + content


def unpack(record: bytes, where: str) -> tuple[Header, bytes]:
    """Header and content of a record."""
    if len(record) < HEADER.size:
        raise ValueError(f"{where}: {len(record)} bytes are too few for a header")
    flag, label, key, high = HEADER.unpack_from(record)
    end = HEADER.size + 4 * flag
    if len(record) < end:
        raise ValueError(f"{where}: its header announces {flag} labels, more than it holds")
    labels = struct.unpack_from(f"<{flag}f", record, HEADER.size) if flag else (label,)
    return Header(flag, labels, key, high), record[end:]


def write_records(
    source: ImageSource, path: str | Path, *, quality: int | None = None, progress: Reporter | None = None
) -> None:
    """Write `train.rec` and `train.idx` as InsightFace trains from, with `property` and the identities' names
    (`train.names.txt`) beside them; all or nothing. Images are ordered by identity; stored bytes are copied.

    Args:
        source: the images; each must have an identity.
        path: the new `.rec`.
        quality: of images that are not stored as bytes: None for PNG, 1 to 100 for JPEG.
        progress: called as `progress(done, total)`.
    """
    path = Path(path)
    if path.suffix != ".rec":
        raise ValueError(f"{path}: the name of a pack ends in .rec")
    labels = np.asarray(source.labels, dtype=np.int64)
    count, identities = len(labels), source.num_classes
    if count + identities >= EXACT:
        raise ValueError(f"{count} images and {identities} identities are too many for a .rec (2^24); write tar shards")
    if count and labels.min() < 0:
        raise ValueError(f"{source.describe(int(labels.argmin()))} has no identity; a .rec cannot hold it")
    number_labels(labels, str(path), identities)
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(identities + 1)) + 1
    height, width = source.read(int(order[0])).shape[:2]
    refuse_existing(path)
    if path.with_name("property").exists() and any(path.parent.glob("*.rec")):
        raise ValueError(f"{path.with_name('property')} exists already: one folder holds one pack; choose another")
    with Staged() as stage:
        stage_beside(stage, path.with_name("property"), f"{identities},{height},{width}\n".encode())
        _write_names(stage, path, names_of(source))
        index, records = stage.open(path.with_suffix(".idx"), replace=True), stage.open(path)

        def write(key: int, record: bytes) -> None:
            index.write(f"{key}\t{records.tell()}\n".encode())
            records.write(frame(record))

        write(0, pack((count + 1, count + 1 + identities), 0))
        for key, data in enumerate(stored_images(source, quality, progress, order), start=1):
            position = int(order[key - 1])
            suffix_of(data, source.describe(position))
            write(key, pack((float(labels[position]),), key, data))
        for identity in range(identities):
            key = count + 1 + identity
            write(key, pack((bounds[identity], bounds[identity + 1]), key))
