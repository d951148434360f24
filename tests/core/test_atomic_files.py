"""Files are written all or not at all: full disks, links, signals and other errors leave what was there."""

import errno
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hypersphere.core.files import Staged, file_digest, remove_partial, staged_folder, whole_file, write_atomically


@pytest.mark.usefixtures("real_syncs")
def test_staged_files_appear_together(tmp_path: Path) -> None:
    first, second = tmp_path / "new" / "deep" / "a", tmp_path / "b"
    with Staged() as stage:
        stage.open(first).write(b"1")
        stage.open(second).write(b"2")
        assert not first.exists()
        assert not second.exists()
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "deep", "new"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_nothing_behind(tmp_path: Path, failure: type[BaseException]) -> None:
    def write() -> None:
        with Staged() as stage:
            stage.open(tmp_path / "new" / "deep" / "a").write(b"1")
            raise failure

    def fill() -> None:
        with staged_folder(tmp_path / "other" / "folder") as folder:
            (folder / "a").write_bytes(b"1")
            raise failure

    for work in (write, fill):
        with pytest.raises(failure):
            work()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def full(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    def write() -> None:
        with Staged() as stage:
            stage.open(tmp_path / "a").write(b"1")
            stage.open(tmp_path / "b").write(b"2")

    with pytest.raises(OSError, match="No space left"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_failing_rename_takes_the_others_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if target.name == "b":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", failing)

    def write() -> None:
        with Staged() as stage:
            stage.open(tmp_path / "a").write(b"1")
            stage.open(tmp_path / "b").write(b"2")

    with pytest.raises(OSError, match="Input/output"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(ValueError, match="a exists already"), Staged() as stage:
        stage.open(tmp_path / "a")
    with pytest.raises(ValueError, match="a exists already"), staged_folder(tmp_path / "a"):
        pass
    assert (tmp_path / "a").read_bytes() == b"old"
    with Staged() as stage:
        stage.open(tmp_path / "a", replace=True).write(b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("real_syncs")
def test_writing_replaces_a_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    for data in (b"one", b"two" * 100_000, b""):
        write_atomically(path, data)
        assert path.read_bytes() == data
        assert file_digest(path) == hashlib.sha256(data).hexdigest()
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("seed", range(3))
def test_an_error_at_any_call_names_the_file_and_leaves_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A disk that fails at a random call of the system, with a random error, a few hundred times."""
    chance = random.Random(seed)
    failing = chance.choice([28, 122, 27, 5, 30])
    left = 0
    real = {"open": os.open, "fsync": os.fsync, "replace": os.replace}

    def call(name: str, *args: object, **keywords: object) -> object:
        nonlocal left
        left -= 1
        if left == 0:
            raise OSError(failing, os.strerror(failing))
        return real[name](*args, **keywords)

    for name in real:
        monkeypatch.setattr(os, name, lambda *args, _name=name, **keywords: call(_name, *args, **keywords))
    path = tmp_path / "file.bin"
    old = b"old"
    left = 0
    write_atomically(path, old)
    for _ in range(100):
        new, failing = chance.randbytes(chance.choice([1, 100, 200_000])), chance.choice([28, 122, 27, 5, 30])
        left = place = chance.randint(1, 6)
        if place == 6:
            write_atomically(path, new)
        else:
            with pytest.raises(OSError, match=re.escape(os.strerror(failing))) as caught:
                write_atomically(path, new)
            assert str(tmp_path) in str(caught.value)
        old = new if place > 3 else old  # from the fourth call on the rename is done, and its folder is synced
        left = 0
        assert path.read_bytes() == old
        assert names(tmp_path) == ["file.bin"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_is_full_while_writing_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    real = os.open

    def full(name: object, flags: int, mode: int = 0o777) -> int:
        return real("/dev/full" if ".partial" in str(name) else str(name), flags & ~os.O_EXCL, mode)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match=r"file: not written \(No space left on device\); the previous one is untouched"):
        write_atomically(path, b"x" * 10**6)
    assert path.read_bytes() == b"old"


def test_a_writer_that_wants_a_name_has_one_with_the_ending(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "picture.png"
    with whole_file(path) as temporary:
        assert temporary.parent == path.parent
        assert temporary.suffix == ".png"
        temporary.write_bytes(b"picture")
    assert path.read_bytes() == b"picture"

    def fails(error: BaseException) -> None:
        with whole_file(path) as temporary:
            temporary.write_bytes(b"half")
            raise error

    with pytest.raises(OSError, match=r"picture.png: not written \(No space left on device\); the previous one is unt"):
        fails(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        fails(FileNotFoundError(errno.ENOENT, "No such file", "elsewhere"))
    with pytest.raises(SystemExit):
        fails(SystemExit(143))
    assert path.read_bytes() == b"picture"
    assert names(path.parent) == ["picture.png"]


def test_no_link_beside_a_file_is_followed(tmp_path: Path) -> None:
    """Names that were fixed once, and now cannot be foreseen."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in (".file.png.partial", ".file.partial.png", ".file.partial"):
        (tmp_path / name).symlink_to(victim)
    write_atomically(tmp_path / "file.png", b"1")
    with whole_file(tmp_path / "file.png") as temporary:
        temporary.write_bytes(b"2")
    (tmp_path / "link").symlink_to(victim)
    write_atomically(tmp_path / "link", b"3")
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "link").is_symlink()


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from hypersphere.core.files import Staged\n"
        "with Staged() as stage:\n"
        "    stage.open(__import__('pathlib').Path(sys.argv[1])).write(b'x')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    source = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "file")], check=False, env=source)
    assert ended.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    (tmp_path / ".shards.1234.partial").mkdir()
    (tmp_path / ".shards.1234.partial" / "data").write_bytes(b"x")
    (tmp_path / "kept").write_bytes(b"x")
    remove_partial(tmp_path)
    assert names(tmp_path) == ["kept"]
