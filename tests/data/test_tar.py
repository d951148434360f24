"""Tar archives: WebDataset shards and plain ones, by every writer of headers; damaged and hostile ones."""

import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import ArraySource, FolderSource, Subset, TarSource, write_tar
from hypersphere.data.formats.tar_index import _title, read_index
from tests.data.mutator import mutations, outcome
from tests.data.samples import PEOPLE, Failing, arrays, make_folder, picture, same_images, saved

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def make_tar(path: Path, members: dict[str, bytes], kind: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=kind) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def plain(*names: str) -> dict[str, bytes]:
    return {name: saved(picture(k)) for k, name in enumerate(names)}


def samples(**classes: int | str) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    for k, (key, label) in enumerate(classes.items()):
        members |= {f"{key}.jpg": saved(picture(k)), f"{key}.cls": str(label).encode(), f"{key}.json": b"{}"}
    return members


@pytest.mark.parametrize("kind", FORMATS.values(), ids=FORMATS.keys())
def test_a_plain_archive_has_its_identities_in_folders(tmp_path: Path, kind: int) -> None:
    long = "b" * 90 + "/" + "n" * 80 + ".jpg"
    members = plain("c/1.jpg", "a/2.jpg", "a/1.jpg", long) | {"a/readme.txt": b"no image"}
    if kind != tarfile.USTAR_FORMAT:
        members |= plain("é" * 60 + "/" + "ü" * 70 + ".png")
    source = TarSource(make_tar(tmp_path / "set.tar", members, kind))
    with tarfile.open(tmp_path / "set.tar") as archive:
        expected = {name: archive.extractfile(name).read() for name in archive.getnames()}
    del expected["a/readme.txt"]
    assert {name: source.encoded(k) for k, name in enumerate(source.members)} == expected
    assert source.names[:3] == ["a", "b" * 90, "c"]
    assert source.labels.tolist()[:4] == [2, 0, 0, 1]
    assert source.describe(1) == f"{tmp_path / 'set.tar'}: a/2.jpg"


def test_an_archive_made_from_a_folder(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    for around in (".", "set/"):
        with tarfile.open(tmp_path / "set.tar", "w") as archive:
            archive.add(root, arcname=around)
        source = TarSource(tmp_path / "set.tar")
        assert source.names == list(PEOPLE), "a folder around everything is skipped"
        assert len(source) == 6


def test_splits_in_an_archive(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "set.tar", plain("train/a/1.jpg", "train/b/1.jpg", "test/b/2.jpg"))
    source = TarSource(path, split="train")
    assert source.names == ["a", "b"]
    with pytest.raises(ValueError, match="holds the splits test, train; say which with the option split"):
        TarSource(path)
    with pytest.raises(ValueError, match=r"no images below 'val'"):
        TarSource(path, split="val")


def test_several_archives_are_one_set(tmp_path: Path) -> None:
    first = make_tar(tmp_path / "0.tar", plain("b/1.jpg", "a/1.jpg"))
    second = make_tar(tmp_path / "1.tar", plain("c/1.jpg", "a/2.jpg"))
    source = TarSource(tmp_path)
    assert source.names == ["a", "b", "c"]
    assert source.labels.tolist() == [1, 0, 2, 0]
    assert source.describe(3) == f"{second}: a/2.jpg"
    assert same_images(source, TarSource([first, second]))
    copy = pickle.loads(pickle.dumps(source))
    assert same_images(source, copy)
    make_tar(tmp_path / "2.tar", plain("a/1.jpg"))
    with pytest.raises(ValueError, match=r"2\.tar: 'a/1\.jpg' occurs twice; the first is in .*0\.tar"):
        TarSource(tmp_path)


def test_webdataset(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", samples(k1=2, k2=0, k3="1\n", k4=2, k5=-1))
    source = TarSource(path)
    assert source.members == ["k1.jpg", "k2.jpg", "k3.jpg", "k4.jpg", "k5.jpg"]
    assert source.labels.tolist() == [2, 0, 1, 2, -1]
    assert source.names == ["0", "1", "2"]
    assert source.read(4).shape == (12, 10, 3)


def test_a_webdataset_key_ends_at_the_first_dot_of_the_file(tmp_path: Path) -> None:
    members = {
        "m.01/a.left.jpg": saved(picture(1)),
        "m.01/a.cls": b"0",
        "m.02/a.jpg": saved(picture(2)),
        "m.02/a.cls": b"1",
    }
    source = TarSource(make_tar(tmp_path / "x.tar", members))
    assert source.labels.tolist() == [0, 1]
    assert source.names == ["m.01", "m.02"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (samples(a=0, b=2), r"gap: of 0\.\.2, 1 have no image \(1\)"),
        (samples(a="cat"), r"'a\.cls': class 'cat' is not an integer"),
        (samples(a=0) | {"b.jpg": b"x"}, r"'b\.jpg' has no \.cls member beside it"),
        (samples(a=0) | {"b.cls": b"1"}, r"'b\.cls' has no image beside it"),
        (samples(a=0) | {"a.png": b"x"}, r"sample 'a' has two images, 'a\.jpg' and 'a\.png'"),
        (plain("bare.jpg"), r"'bare\.jpg' has neither a \.cls member nor a folder"),
        ({"readme.txt": b"x"}, r"x\.tar: no images"),
        (plain("/etc/x.jpg"), r"header at byte 0: '/etc/x\.jpg' is an absolute path"),
        (plain("a/1.jpg", "../x.jpg"), r"header at byte \d+: '\.\./x\.jpg' leaves its root"),
        ({"../evil.sh": b"x"}, r"'\.\./evil\.sh' leaves its root"),
    ],
)
def test_archives_that_are_refused(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TarSource(make_tar(tmp_path / "x.tar", members))


def test_gaps_can_be_closed(tmp_path: Path) -> None:
    source = TarSource(make_tar(tmp_path / "x.tar", samples(a=5, b=-1, c=3)), relabel=True)
    assert source.labels.tolist() == [1, -1, 0]
    assert source.names == ["3", "5"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_are_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        member = tarfile.TarInfo("a/1.jpg")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(ValueError, match=r"'a/1\.jpg' is a link or a special file"):
        TarSource(tmp_path / "x.tar")


def test_a_member_twice(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("a/1.jpg"), io.BytesIO())
    with pytest.raises(ValueError, match=r"'a/1\.jpg' occurs twice"):
        TarSource(tmp_path / "x.tar")


def test_a_truncated_archive_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", plain("a/1.jpg", "b/1.jpg", "c/1.jpg"))
    whole = path.read_bytes()
    source = TarSource(path)
    end = max(int(offset) + int(size) for _, offset, size in source._places)
    boundary = -(-end // 512) * 512
    for cut in (100, 512, 700, end - 1, boundary, boundary + 100):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"x\.tar.*truncated"):
            TarSource(path)
    path.write_bytes(whole[: boundary + 512])
    assert len(TarSource(path)) == 3


def test_damaged_headers(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", plain("a/1.jpg", "b/1.jpg"), tarfile.USTAR_FORMAT)
    whole = path.read_bytes()
    second = whole.index(b"b/1.jpg")
    path.write_bytes(whole[:second] + b"X" + whole[second + 1 :])
    with pytest.raises(
        ValueError, match=rf"header at byte {second}: wrong checksum; this is no tar archive, or it is damaged"
    ):
        TarSource(path)
    path.write_bytes(saved(picture(1)) * 3)
    with pytest.raises(ValueError, match=r"x\.tar: truncated or damaged after byte 0 \(bad checksum\)"):
        TarSource(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="truncated"):
        TarSource(path)
    with pytest.raises(ValueError, match=r"nowhere\.tar is missing"):
        TarSource(tmp_path / "nowhere.tar")
    with pytest.raises(ValueError, match=r"has no \.tar archives"):
        TarSource(make_folder(tmp_path / "set"))
    with pytest.raises(ValueError, match="no archive given"):
        TarSource([])


def test_random_headers_never_hang_or_crash(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", plain("a/1.jpg", "b/1.jpg"), tarfile.USTAR_FORMAT)
    whole = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = whole.copy()
        field = rng.integers(0, 500, 8)
        damaged[field] = rng.integers(0, 256, 8)
        checksum = f"{int(damaged[:148].sum()) + int(damaged[156:512].sum()) + 256:06o}\0 ".encode()
        damaged[148:156] = np.frombuffer(checksum, dtype=np.uint8)
        path.write_bytes(damaged.tobytes())
        try:
            TarSource(path)
        except ValueError as error:
            assert "x.tar" in str(error)  # noqa: PT017


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2"])
def test_a_compressed_archive_says_how_to_unpack_it(tmp_path: Path, kind: str) -> None:
    with tarfile.open(tmp_path / "x.tar", f"w:{kind}") as archive:  # type: ignore[call-overload]
        archive.add(make_folder(tmp_path / "set"), "set")
    with pytest.raises(ValueError, match=r"compressed, which allows no random access; run \w+ -d"):
        TarSource(tmp_path / "x.tar")


def test_written_archives_read_back_as_bytes_and_labels(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    mixed = Subset(source, [4, 1, 5, 2, 0, 3])
    assert write_tar(mixed, tmp_path / "copy.tar") == [tmp_path / "copy.tar"]
    with tarfile.open(tmp_path / "copy.tar") as archive:
        assert archive.getnames()[:2] == ["Cy/0000.jpg", "Cy/0000.cls"]
        assert archive.extractfile("Cy/0001.cls").read() == b"2"
    for indexed in (True, False):
        copy = TarSource(tmp_path / "copy.tar")
        assert copy.labels.tolist() == mixed.labels.tolist()
        assert copy.names == list(PEOPLE)
        assert [copy.encoded(k) for k in range(6)] == [source.encoded(int(k)) for k in mixed.indices]
        if indexed:
            (tmp_path / "copy.tar.index").unlink()


def test_shards(tmp_path: Path) -> None:
    source = arrays(each=5, people=2)
    shards = write_tar(source, tmp_path / "shards", shard_size=4)
    assert [path.name for path in shards] == ["shard-000000.tar", "shard-000001.tar", "shard-000002.tar"]
    copy = TarSource(tmp_path / "shards")
    assert copy.labels.tolist() == source.labels.tolist()
    assert same_images(copy, source)
    with pytest.raises(ValueError, match="gap"):
        TarSource(make_tar(tmp_path / "one.tar", samples(a=1)))
    with pytest.raises(ValueError, match="shard_size=0 must be an integer of at least 1"):
        write_tar(source, tmp_path / "other", shard_size=0)
    with pytest.raises(ValueError, match="shards exists already"):
        write_tar(source, tmp_path / "shards", shard_size=4)


def test_images_without_identity_travel(tmp_path: Path) -> None:
    source = ArraySource(np.zeros((3, 4, 4, 3), dtype=np.uint8), [0, -1, 1], ["none", "b"])
    write_tar(source, tmp_path / "x.tar")
    copy = TarSource(tmp_path / "x.tar")
    assert copy.labels.tolist() == [0, -1, 1]
    assert copy.names == ["none", "b"]
    assert copy.members[1] == "none-0/0000.png"


@pytest.mark.parametrize("shard_size", [None, 2])
def test_a_failing_source_leaves_nothing_behind(tmp_path: Path, shard_size: int | None) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        write_tar(Failing(), tmp_path / "new" / "x.tar", shard_size=shard_size)
    assert list(tmp_path.iterdir()) == []


def test_an_index_is_used_while_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_tar(tmp_path / "x.tar", samples(a=0, b=1))
    index = tmp_path / "x.tar.index"
    plain_read = TarSource(path)
    assert not index.exists()
    assert same_images(TarSource(path, cache=True), plain_read)
    assert index.exists()
    with monkeypatch.context() as patch:
        patch.setattr("hypersphere.data.formats.tar.read_members", None)
        cached = TarSource(path)
    assert cached.labels.tolist() == [0, 1]
    assert cached.members == plain_read.members
    assert same_images(cached, plain_read)
    make_tar(path, samples(a=0, b=1, c=2))
    os.utime(path, ns=(1, 1))
    assert len(TarSource(path)) == 3


def test_a_damaged_index_is_not_believed(tmp_path: Path) -> None:
    """Whatever happens to an index, the images and labels are those of the archive."""
    path = make_tar(tmp_path / "x.tar", samples(**{name: number for number, name in enumerate("abcdefgh")}))
    index = tmp_path / "x.tar.index"
    right = TarSource(path, cache=True)
    whole = index.read_bytes()
    for damaged in mutations(whole, 300, seed=5):
        index.write_bytes(damaged)
        found = TarSource(path)
        assert found.members == right.members
        assert found.labels.tolist() == right.labels.tolist()
        assert [found.encoded(k) for k in range(8)] == [right.encoded(k) for k in range(8)]
    assert len(TarSource(path, cache=True)) == 8
    assert index.read_bytes() == whole, "an index that was wrong is written anew"


@pytest.mark.parametrize(
    "line", ["512\t99999999\t\ta/1.jpg", "-5\t10\t\ta/1.jpg", "512\tten\t\ta/1.jpg", "512\t10\t\t../1.jpg", "512"]
)
def test_an_index_that_points_outside_is_not_believed(tmp_path: Path, line: str) -> None:
    """Not even one with the right digest."""
    path = make_tar(tmp_path / "x.tar", plain("a/1.jpg"))
    body = f"{line}\n".encode()
    (tmp_path / "x.tar.index").write_bytes(_title(path.stat(), body) + b"\n" + body)
    assert TarSource(path).read(0).shape == TarSource(path, cache=True).read(0).shape
    assert read_index(path) is not None


def test_numbers_in_an_archive_are_bounded(tmp_path: Path) -> None:
    for text in (b"9" * 19, b"1" * 32, b"1" * 33, b"-2", b"1_0", b"1.0", b"", b"0x1", "१".encode()):
        path = make_tar(tmp_path / "x.tar", samples(a="0") | {"a.cls": text})
        with pytest.raises(ValueError, match=r"x\.tar: 'a\.cls'"):
            TarSource(path)
    path = make_tar(tmp_path / "x.tar", samples(a=2**63 - 1))
    with pytest.raises(ValueError, match=r"x\.tar: labels have a gap"):
        TarSource(path)
    assert TarSource(path, relabel=True).labels.tolist() == [0]


def test_a_member_behind_a_zeroed_header_is_noticed(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", plain("a/1.jpg", "b/1.jpg"))
    data = bytearray(path.read_bytes())
    second = data.index(b"b/1.jpg")
    data[second : second + 512] = bytes(512)
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"x\.tar: the archive ends at byte {second}, but more follows"):
        TarSource(path)


def test_damage_to_an_archive_is_noticed_or_harmless(tmp_path: Path) -> None:
    """Its headers have checksums, and images theirs; of what else is in it no damage can lose an image silently."""
    path = make_tar(tmp_path / "x.tar", samples(a=0, b=1, c=2))
    whole = path.read_bytes()
    right = TarSource(path).members
    for damaged in mutations(whole, 300, seed=6):
        path.write_bytes(damaged)
        found, message = outcome(lambda: TarSource(path).members)
        assert found == right or str(path) in message


def test_names_with_odd_characters_come_back(tmp_path: Path) -> None:
    names = ["carriage\rreturn", "Ä", "\udce9tienne", "two  spaces "]
    write_tar(ArraySource(np.zeros((4, 8, 8, 3), np.uint8), range(4), names), tmp_path / "x.tar")
    for _ in ("with the index", "without"):
        assert sorted(TarSource(tmp_path / "x.tar").names) == sorted(names)
        (tmp_path / "x.tar.index").unlink(missing_ok=True)
    back = ArraySource(np.zeros((1, 8, 8, 3), np.uint8), [0], ["back\\slash"])
    with pytest.raises(ValueError, match=r"back\\\\slash.* has a backslash"):
        write_tar(back, tmp_path / "y.tar")
