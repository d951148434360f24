"""Lists and archives that name files outside of their root: refused, and nothing outside is ever opened."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hypersphere.data import ListSource, NamedImages, TarSource
from tests.data.samples import picture, saved
from tests.strace import needs_strace, record, texts_of

NAMES = ("../secret.jpg", "a/../../secret.jpg", "{outside}/secret.jpg", "link.jpg", "linked/secret.jpg", "a\0b.jpg")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a link to a file, and one to a folder, outside of it."""
    for folder in ("outside", "root/a"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "outside" / "secret.jpg").write_bytes(saved(picture(0)))
    (tmp_path / "secret.jpg").write_bytes(saved(picture(0)))
    root = tmp_path / "root"
    (root / "a" / "0.jpg").write_bytes(saved(picture(1)))
    (root / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (root / "linked").symlink_to(tmp_path / "outside")
    return root


def of_a_list(root: Path, name: str) -> object:
    (root / "list.txt").write_text(f"a/0.jpg 0\n{name} 1\n")
    return ListSource(root / "list.txt")


def of_a_tar(root: Path, name: str) -> object:
    with tarfile.open(root / "x.tar", "w") as archive:
        archive.add(root / "a" / "0.jpg", "a/0.jpg")
        member = tarfile.TarInfo(f"b/{name}" if name.startswith("link") else name)
        if name.startswith("link"):
            member.type, member.linkname = tarfile.SYMTYPE, "../../secret.jpg"
        if "\0" in name:  # which ends a name in a plain header
            member.pax_headers = {"path": name}
        archive.addfile(member)
    return TarSource(root / "x.tar")


def of_pairs(root: Path, name: str) -> object:
    return NamedImages(root, [name.removesuffix(".jpg")])


READERS: dict[str, Callable[[Path, str], object]] = {"list": of_a_list, "tar": of_a_tar, "pairs": of_pairs}


@needs_strace
@pytest.mark.parametrize("kind", READERS)
def test_nothing_outside_of_the_root_is_opened(root: Path, tmp_path: Path, kind: str) -> None:
    def work() -> None:
        (root / "a" / "0.jpg").read_bytes()
        for name in NAMES:
            with pytest.raises(ValueError, match=r".+"):
                READERS[kind](root, name.format(outside=tmp_path / "outside"))

    calls = record(work, tmp_path / "calls")
    opened = [text.decode() for call in calls if call.startswith("openat(") for text in texts_of(call)]
    assert str(root / "a" / "0.jpg") in opened
    assert [name for name in opened if "secret" in name or name.startswith(str(tmp_path / "outside"))] == []
