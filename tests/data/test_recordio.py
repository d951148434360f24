"""InsightFace packs, against records written out by hand from the format's description."""

import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypersphere.data import ArraySource, FolderSource, RecordSource, Subset, UnreadableImage, write_records
from hypersphere.data.file_access import ByteFile
from hypersphere.data.formats import recordio as module
from tests.data.samples import PEOPLE, Failing, arrays, make_folder, picture, same_images, saved

MAGIC = b"\x0a\x23\xd7\xce"


def chunk(kind: int, data: bytes) -> bytes:
    return MAGIC + struct.pack("<I", kind * 2**29 + len(data)) + data + b"\0" * (-len(data) % 4)


def header(labels: list[float], key: int) -> bytes:
    if len(labels) == 1:
        return struct.pack("<IfQQ", 0, labels[0], key, 0)
    return struct.pack("<IfQQ", len(labels), 0, key, 0) + struct.pack(f"<{len(labels)}f", *labels)


def make_pack(path: Path, records: list[bytes], keys: list[int] | None = None) -> Path:
    """A pack of framed records, and its index."""
    content, index = b"", ""
    for key, record in zip(keys or range(len(records)), records, strict=True):
        index += f"{key}\t{len(content)}\n"
        content += record
    path.write_bytes(content)
    path.with_suffix(".idx").write_text(index)
    return path


def face(seed: int) -> bytes:
    return saved(picture(seed), "PNG")


def insightface(labels: list[int], ranges: list[tuple[float, float]], several: bool = False) -> list[bytes]:
    """Record 0, images, identity records: as InsightFace lays them out."""
    count = len(labels)
    records = [chunk(0, header([count + 1, count + 1 + len(ranges)], 0))]
    for key, label in enumerate(labels, start=1):
        records.append(chunk(0, header([label, 0.5] if several else [label], key) + face(key)))
    for key, bounds in enumerate(ranges, start=count + 1):
        records.append(chunk(0, header(list(bounds), key)))
    return records


@pytest.mark.parametrize("several", [False, True])
def test_an_insightface_pack(tmp_path: Path, several: bool) -> None:
    path = make_pack(tmp_path / "train.rec", insightface([0, 0, 2, 1, 1], [(1, 3), (3, 4), (4, 6)], several))
    (tmp_path / "property").write_text("3,12,10")
    for place in (path, tmp_path, tmp_path / "train.idx"):
        source = RecordSource(place)
        assert source.labels.tolist() == [0, 0, 2, 1, 1]
        assert source.num_classes == 3
        assert source.names == ["0", "1", "2"]
        for index in range(5):
            np.testing.assert_array_equal(source.read(index), picture(index + 1))
    assert source.describe(2).startswith(f"{path}: record 3 (at byte ")
    assert same_images(pickle.loads(pickle.dumps(source)), source)


def test_a_plain_pack_without_identity_records(tmp_path: Path) -> None:
    records = [chunk(0, header([label], key) + face(key)) for key, label in enumerate([1, 0, 1, -1])]
    for keys in ([0, 1, 2, 3], [7, 5, 9, 20]):
        source = RecordSource(make_pack(tmp_path / "x.rec", records, keys))
        order = np.argsort(keys)
        assert source.labels.tolist() == [[1, 0, 1, -1][k] for k in order]
        np.testing.assert_array_equal(source.read(0), picture(int(order[0])))


def test_images_that_no_identity_claims_keep_their_own_label(tmp_path: Path) -> None:
    source = RecordSource(make_pack(tmp_path / "x.rec", insightface([0, 1, 2, 2], [(1, 2), (2, 3)])))
    assert source.labels.tolist() == [0, 1, 2, 2]


def test_where_float32_is_not_exact_all_headers_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_pack(tmp_path / "x.rec", insightface([0, 0, 1], [(1, 2), (2, 4)]))
    with pytest.raises(ValueError, match="label 1 in its header, 0 by its identity"):
        RecordSource(path).read(2)
    monkeypatch.setattr(module, "EXACT", 4)
    assert RecordSource(path).labels.tolist() == [0, 0, 1]


def test_a_record_split_at_the_magic_word(tmp_path: Path) -> None:
    filler = face(1) + b"\0" * (-len(face(1)) % 4)
    payload = header([0], 0) + filler + MAGIC + b"abcd" + MAGIC + MAGIC + b"xyz"
    parts = [header([0], 0) + filler, b"abcd", b"", b"xyz"]
    split = b"".join(chunk(kind, part) for kind, part in zip([1, 2, 2, 3], parts, strict=True))
    other = chunk(0, header([1], 1) + face(2))
    assert module.frame(payload) == split
    source = RecordSource(make_pack(tmp_path / "x.rec", [split, other]))
    assert source.encoded(0) == payload[24:]
    np.testing.assert_array_equal(source.read(0), picture(1))
    np.testing.assert_array_equal(source.read(1), picture(2))


def test_a_header_that_holds_the_magic_word(tmp_path: Path) -> None:
    key = int.from_bytes(MAGIC, "little")
    record = header([0], key) + face(1)
    framed = chunk(1, record[:8]) + chunk(3, record[12:])
    assert module.frame(record) == framed
    source = RecordSource(make_pack(tmp_path / "x.rec", [framed, chunk(0, header([1], 1) + face(2))]))
    assert source.labels.tolist() == [0, 1]
    np.testing.assert_array_equal(source.read(0), picture(1))


def test_the_magic_word_off_the_boundary_is_not_split() -> None:
    record = b"abc" + MAGIC + b"defgh"
    assert module.frame(record) == chunk(0, record)


words = st.lists(st.sampled_from([MAGIC, b"\0", b"ab", b"abcd", MAGIC[:2], MAGIC[2:]]), max_size=12).map(b"".join)


@given(records=st.lists(words, min_size=1, max_size=4))
def test_any_record_comes_back(records: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("records") / "x.rec"
    framed = [module.frame(record) for record in records]
    path.write_bytes(b"".join(framed))
    file = ByteFile(path)
    offset = 0
    for record, frame in zip(records, framed, strict=True):
        assert len(frame) % 4 == 0
        assert MAGIC not in [frame[k : k + 4] for k in range(8, len(frame), 4)] or frame[7] >> 5 == 1
        assert module.read_record(file, offset) == record
        offset += len(frame)
    file.close()


def test_written_packs_read_back(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    mixed = Subset(source, [4, 1, 5, 2, 0, 3])
    write_records(mixed, tmp_path / "pack" / "train.rec")
    files = sorted(path.name for path in (tmp_path / "pack").iterdir())
    assert files == ["property", "train.idx", "train.names.txt", "train.rec"]
    assert (tmp_path / "pack" / "property").read_text() == "3,12,10\n"
    copy = RecordSource(tmp_path / "pack")
    assert copy.names == list(PEOPLE)
    assert copy.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert [copy.encoded(k) for k in range(6)] == [source.encoded(k) for k in (1, 0, 2, 3, 4, 5)]


def test_a_written_pack_is_laid_out_as_insightface_reads_it(tmp_path: Path) -> None:
    write_records(arrays(each=2, people=3), tmp_path / "x.rec")
    content = (tmp_path / "x.rec").read_bytes()
    index = [tuple(map(int, line.split("\t"))) for line in (tmp_path / "x.idx").read_text().splitlines()]
    assert [key for key, _ in index] == list(range(10))

    def labels(key: int) -> tuple[float, ...]:
        start = dict(index)[key]  # type: ignore[arg-type, index, var-annotated]
        assert content[start : start + 4] == MAGIC
        flag, label, found, _ = struct.unpack_from("<IfQQ", content, start + 8)
        assert found == key
        return struct.unpack_from(f"<{flag}f", content, start + 32) if flag else (label,)

    assert labels(0) == (7, 10)
    assert [labels(key) for key in range(1, 7)] == [(0,), (0,), (1,), (1,), (2,), (2,)]
    assert [labels(key) for key in range(7, 10)] == [(1, 3), (3, 5), (5, 7)]
    assert not (tmp_path / "x.names.txt").exists()


def test_packs_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        write_records(Failing(), tmp_path / "new" / "x.rec")
    with pytest.raises(ValueError, match=r"x\.tar: the name of a pack ends in \.rec"):
        write_records(arrays(), tmp_path / "x.tar")
    blank = np.zeros((2, 4, 4, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"array: image 1 has no identity; a \.rec cannot hold it"):
        write_records(ArraySource(blank, [0, -1]), tmp_path / "x.rec")
    with pytest.raises(ValueError, match="has a line break in its name"):
        write_records(ArraySource(blank, [0, 1], ["a\nb", "c"]), tmp_path / "x.rec")
    monkeypatch.setattr(module, "EXACT", 8)
    with pytest.raises(
        ValueError, match=r"6 images and 3 identities are too many for a \.rec \(2\^24\); write tar shards"
    ):
        write_records(arrays(), tmp_path / "x.rec")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="too long"):
        module.frame(bytes(2**29))


@pytest.mark.parametrize(
    ("labels", "ranges", "message"),
    [
        ([0, 1], [(1, 2), (2, 2)], r"identity record 4 says images 2 up to 2 of 1 up to 3: an identity with no image"),
        ([0, 1], [(1, 2), (2, 9)], r"identity record 4 says images 2 up to 9 of 1 up to 3, which lies outside"),
        ([0, 1], [(1, 3), (2, 3)], r"identity record 4 .* is another identity's"),
        ([0, 2], [(1, 2), (2, 3)], r"gap: of 0\.\.2, 1 have no image \(1\)"),
        ([0, 1.5], [(1, 2), (2, 3)], r"record 2: label 1\.5 is not a whole number"),
        ([0, 1.5], [(1, 2)], r"record 2: label 1\.5 is not a whole number"),
    ],
)
def test_wrong_identity_records(
    tmp_path: Path, labels: list[int], ranges: list[tuple[float, float]], message: str
) -> None:
    path = make_pack(tmp_path / "x.rec", insightface(labels, ranges))
    with pytest.raises(ValueError, match=message):
        RecordSource(path)


def test_an_image_of_another_label_than_its_range(tmp_path: Path) -> None:
    source = RecordSource(make_pack(tmp_path / "x.rec", insightface([0, 7, 1], [(1, 3), (3, 4)])))
    assert source.read(0).shape == (12, 10, 3)
    with pytest.raises(ValueError, match=r"record 2 \(at byte \d+\): label 7 in its header, 0 by its identity's range"):
        source.read(1)


def test_gaps_can_be_closed(tmp_path: Path) -> None:
    path = make_pack(tmp_path / "x.rec", insightface([3, 9], [(1, 2), (2, 3)]))
    source = RecordSource(path, relabel=True)
    assert source.labels.tolist() == [0, 1]
    assert source.names == ["3", "9"]
    assert source.read(1).shape == (12, 10, 3)


def test_record_0_must_fit_the_index(tmp_path: Path) -> None:
    records = insightface([0, 1], [(1, 2), (2, 3)])
    with pytest.raises(
        ValueError, match=r"record 0 says images 1\.\.2 and identities 3\.\.4, but the index has 4 records"
    ):
        RecordSource(make_pack(tmp_path / "x.rec", records[:-1]))


@pytest.mark.parametrize("name", ["property", "property.txt"])
def test_property_must_fit(tmp_path: Path, name: str) -> None:
    path = make_pack(tmp_path / "x.rec", insightface([0, 1], [(1, 2), (2, 3)]))
    (tmp_path / name).write_text("5,112,112\n")
    with pytest.raises(ValueError, match=rf"{name} says 5 identities, but x\.rec has 2"):
        RecordSource(path)
    (tmp_path / name).write_text("many")
    with pytest.raises(ValueError, match="identities in 'identities,height,width' 'many' is not an integer"):
        RecordSource(path)


def test_names_must_fit(tmp_path: Path) -> None:
    path = make_pack(tmp_path / "x.rec", insightface([0, 1], [(1, 2), (2, 3)]))
    (tmp_path / "x.names.txt").write_text("Ada\n")
    with pytest.raises(ValueError, match=r"x\.names\.txt: 1 names, but x\.rec has identity 1"):
        RecordSource(path)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("", r"x\.idx: no records"),
        ("0\t0\n1 two\n", r"x\.idx, line 2: offset 'two' is not an integer"),
        ("0\t0\n1\n", r"x\.idx, line 2: '1'; expected 'key offset'"),
        ("0\t0\n1\t99999999999999999999\n", r"x\.idx, line 2: offset '9+' has 20 digits"),
        ("0\t0\n1\t9223372036854775804\n", r"x\.idx: record 1 is said to begin at byte 9223372036854775804"),
        ("0\t0\n9\t0\n", r"x\.idx: two records are said to begin at byte 0 of .*x\.rec"),
        ("0\t0\n", r"x\.rec: the last record of its \.idx ends at byte \d+ of \d+; the \.idx is truncated"),
        ("0\t0\n1\t-8\n", r"x\.idx, line 2"),
        ("0\t0\n0\t0\n", r"x\.idx: record 0 occurs twice"),
        ("0\t0\n1\t99999992\n", r"x\.idx: record 1 is said to begin at byte 99999992 of .*x\.rec, which has \d+ bytes"),
        ("0\t0\n1\t6\n", r"record 1 is said to begin at byte 6 .*multiples of 4"),
        ("0\t0\n1\t4\n", r"no record begins at byte 4 \(wrong magic word\)"),
    ],
)
def test_wrong_indices(tmp_path: Path, index: str, message: str) -> None:
    path = make_pack(tmp_path / "x.rec", [chunk(0, header([k], k) + face(k)) for k in range(2)])
    path.with_suffix(".idx").write_text(index)
    with pytest.raises(ValueError, match=message):
        RecordSource(path)


def test_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.rec is missing"):
        RecordSource(tmp_path / "x.rec")
    with pytest.raises(ValueError, match=r"has 0 \.rec files; name the one to open"):
        RecordSource(tmp_path)
    make_pack(tmp_path / "x.rec", [chunk(0, header([0], 0) + face(1))]).with_suffix(".idx").unlink()
    with pytest.raises(ValueError, match=r"x\.idx is missing; a pack is a \.rec and an \.idx of one name"):
        RecordSource(tmp_path / "x.rec")


def test_truncated_packs(tmp_path: Path) -> None:
    path = make_pack(tmp_path / "x.rec", insightface([0, 1], [(1, 2), (2, 3)]))
    whole = path.read_bytes()
    for cut in (len(whole) - 1, len(whole) - 30, len(whole) // 2, 40, 0):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"x\.rec.*(truncated|last record)"):
            RecordSource(path)


def test_a_pack_without_ranges_that_ends_within_its_last_image(tmp_path: Path) -> None:
    path = make_pack(tmp_path / "x.rec", [chunk(0, header([k], k) + face(k)) for k in range(2)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"x\.rec.*truncated.*last record of the index"):
        RecordSource(path)


def test_a_damaged_record_is_one_unreadable_image(tmp_path: Path) -> None:
    path = make_pack(tmp_path / "x.rec", insightface([0, 0, 1], [(1, 3), (3, 4)]))
    source = RecordSource(path)
    content = bytearray(path.read_bytes())
    start = int(source._offsets[1])
    content[start : start + 4] = b"oops"
    path.write_bytes(content)
    source = RecordSource(path)
    with pytest.raises(UnreadableImage, match=rf"record 2 \(at byte {start}\): .*wrong magic word"):
        source.read(1)
    assert source.read(2).shape == (12, 10, 3)


def test_parts_out_of_place(tmp_path: Path) -> None:
    for framed in (chunk(2, b"abcd") + chunk(3, b"x"), chunk(1, b"abcd") + chunk(0, b"x")):
        path = make_pack(tmp_path / "x.rec", [framed])
        with pytest.raises(ValueError, match=r"part of kind \d at byte \d+ is out of place"):
            RecordSource(path)


def test_headers_that_announce_too_much(tmp_path: Path) -> None:
    record = struct.pack("<IfQQ", 1000, 0.0, 0, 0) + b"abcd"
    with pytest.raises(ValueError, match="announces 1000 labels, more than it holds"):
        RecordSource(make_pack(tmp_path / "x.rec", [chunk(0, record)]))
    with pytest.raises(ValueError, match="4 bytes are too few for a header"):
        RecordSource(make_pack(tmp_path / "x.rec", [chunk(0, b"abcd")]))


def test_an_index_that_leaves_out_a_record_is_refused(tmp_path: Path) -> None:
    """Also where nothing but the records themselves says how many there are."""
    path = make_pack(tmp_path / "x.rec", [chunk(0, header([k], k) + face(k)) for k in range(4)])
    lines = path.with_suffix(".idx").read_text().splitlines(keepends=True)
    assert len(RecordSource(path)) == 4
    for left_out in range(4):
        path.with_suffix(".idx").write_text("".join(lines[:left_out] + lines[left_out + 1 :]))
        with pytest.raises(ValueError, match=r"x\.rec: .*ends at byte \d+.* \.idx"):
            RecordSource(path)
