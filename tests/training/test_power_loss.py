"""Power is lost at any moment of a run: what was synced is there afterwards, and the run goes on from it.

The file system is played by `Disk`. It watches `os.fsync`, the moment at which the bytes of a file and the names in a
folder become durable, and pictures what a machine would find after power came back. There are two pictures of each
moment: the bare one has only what was synced; the other has also the names that were made, changed or removed since, as
a journal may have written them already, but of each file only the bytes that were synced.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersphere.training import Trainer, load_recipe, read_log
from hypersphere.training.checkpoints import Checkpoints
from tests.training.small import RECIPE, final, same

Picture = dict[str, bytes | None]
"""By path, the bytes of a file; None for a folder."""


class Disk:
    """Keeps what is durable below a folder, and a picture of it at every change."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.bytes: dict[int, bytes] = {}
        self.names: dict[int, dict[str, tuple[int, bool]]] = {root.stat().st_ino: {}}
        self.pictures: list[Picture] = []
        self.open: list[int] = []
        """Handles that keep every file alive, so that no number of a file is used twice."""
        flush = os.fsync

        def fsync(handle: int) -> None:
            self.look()
            flush(handle)
            self.sync(handle)
            self.look()

        monkeypatch.setattr(os, "fsync", fsync)
        for name in ("replace", "rename", "unlink", "mkdir", "rmdir"):
            monkeypatch.setattr(os, name, self.watched(getattr(os, name)))

    def watched(self, call):  # type: ignore[no-untyped-def]
        def then_look(*args: object, **keywords: object) -> object:
            result = call(*args, **keywords)
            self.look()
            return result

        return then_look

    def sync(self, handle: int) -> None:
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode):
            self.open.append(os.dup(handle))
            self.bytes[about.st_ino] = Path(f"/proc/self/fd/{handle}").read_bytes()
        else:
            self.names[about.st_ino] = {
                entry.name: (entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in os.scandir(handle)
            }

    def look(self) -> None:
        self.pictures += [dict(self.bare(self.root.stat().st_ino, "")), dict(self.journalled(self.root, ""))]

    def bare(self, folder: int, above: str) -> Iterator[tuple[str, bytes | None]]:
        for name, (number, is_folder) in self.names.get(folder, {}).items():
            yield above + name, None if is_folder else self.bytes.get(number, b"")
            if is_folder:
                yield from self.bare(number, f"{above}{name}/")

    def journalled(self, folder: Path, above: str) -> Iterator[tuple[str, bytes | None]]:
        for entry in os.scandir(folder):
            is_folder = entry.is_dir(follow_symlinks=False)
            yield above + entry.name, None if is_folder else self.bytes.get(entry.inode(), b"")
            if is_folder:
                yield from self.journalled(Path(entry.path), f"{above}{entry.name}/")

    def different(self) -> list[Picture]:
        """The pictures without those that look like the one before of their kind."""
        kept: list[Picture] = []
        for picture in self.pictures:
            if picture not in kept[-8:]:
                kept.append(picture)
        return kept


def lay_out(picture: Picture, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in picture.items():
        if data is None:
            (folder / name).mkdir(parents=True, exist_ok=True)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


@pytest.mark.filterwarnings("ignore:.*no complete checkpoint:RuntimeWarning")
@pytest.mark.parametrize("settings", [[], ["head.sharded=true", "head.name=arcface"]], ids=["plain", "sharded"])
def test_what_was_synced_is_a_run_to_go_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str]
) -> None:
    path, disk_folder = tmp_path / "recipe.toml", tmp_path / "disk"
    path.write_text(RECIPE)
    recipe = load_recipe(path, ["train.steps=12", "train.checkpoint_every=3", "train.keep=2", *settings])
    Trainer(recipe, tmp_path / "whole").run()
    disk_folder.mkdir()
    with monkeypatch.context() as patches:
        disk = Disk(disk_folder, patches)
        Trainer(recipe, disk_folder / "run").run()
    for handle in disk.open:
        os.close(handle)
    states = {step: Checkpoints(tmp_path / "whole" / "checkpoints").load(step)["backbone"] for step in (9, 12)}
    different, reached, resumed = disk.different(), [0], set()
    assert len(different) > 20
    for number, picture in enumerate(different):
        lay_out(picture, tmp_path / "after")
        checkpoints = Checkpoints(tmp_path / "after" / "run" / "checkpoints")
        found = checkpoints.load_newest(sharded="head.sharded=true" in settings)
        step = 0 if found is None else found[0]
        if found is not None and step in states:
            assert same(found[1]["backbone"], states[step])
        assert step >= max(reached) - 3, "at most the checkpoint that was being written is lost"
        reached.append(step)
        if step not in resumed or number % 16 == 0:
            resumed.add(step)
            Trainer(recipe, tmp_path / "after" / "run").run()
            assert same(final(tmp_path / "after" / "run"), final(tmp_path / "whole"))
            assert read_log(tmp_path / "after" / "run" / "log.jsonl") == read_log(tmp_path / "whole" / "log.jsonl")
    assert set(reached) == {0, 3, 6, 9, 12}
    assert reached[-1] == 12
