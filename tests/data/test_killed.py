"""A conversion that is killed leaves no half-written target, and can be run again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hypersphere.data.formats.folder
from hypersphere.data import ArraySource, ImageSource, open_source, write_source
from tests.data.samples import arrays, make_folder

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "folder": ("out", {}),
    "tar": ("out.tar", {}),
    "shards": ("out", {"format": "tar", "shard_size": 2}),
    "rec": ("out/x.rec", {}),
    "bin": ("out.bin", {}),
    "mnist": ("out", {"format": "mnist"}),
    "cifar": ("out", {"format": "cifar"}),
    "market": ("out", {"format": "market"}),
}


def source_for(kind: str) -> ImageSource:
    made = arrays(side=32, channels=1 if kind == "mnist" else 3)
    return ArraySource(made.images, made.labels, ["Ada", "Bo", "Cy"])


def killed_at(event: int, work: Callable[[], None]) -> bool:
    """Do the work in a forked process that is killed before its n-th image, sync or rename; whether it was."""
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL
        return status != 0
    left = event

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given, **named)

        return counting

    try:
        for name in ("fsync", "replace", "rename"):
            setattr(os, name, counted(getattr(os, name)))
        hypersphere.data.formats.folder.encode = counted(hypersphere.data.formats.folder.encode)  # type: ignore[attr-defined]
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def content(path: Path, options: dict[str, Any]) -> tuple[list[int], list[bytes]] | None:
    """Labels and pixels; None where there is no such set."""
    try:
        source = open_source(path, options.get("format"))
    except ValueError:
        return None
    return source.labels.tolist(), [source.read(index).tobytes() for index in range(len(source))]


@pytest.mark.parametrize("kind", TARGETS)
def test_a_killed_conversion_can_be_run_again(tmp_path: Path, kind: str) -> None:
    """Killed before every image, sync and rename in turn: the target is not there, or whole."""
    name, options = TARGETS[kind]
    source = source_for(kind)
    write_source(source, tmp_path / "right" / name, **options)
    right = content(tmp_path / "right" / name, options)
    assert right is not None

    def write(target: Path) -> None:
        write_source(source, target, **options)

    event, target = 0, tmp_path / "0" / name
    while killed_at(event, partial(write, target)):
        found = content(target, options)
        if found is None:
            assert not target.is_file()
            write(target)
            found = content(target, options)
        assert found == right
        event += 1
        target = tmp_path / str(event) / name
    assert event >= 3, "it was killed before it had ended"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["out.rec", "out.tar", "out"])
def test_the_command_killed_at_random_times_can_be_run_again(tmp_path: Path, name: str) -> None:
    root = make_folder(tmp_path / "set", each=150, people=tuple(f"person {number}" for number in range(20)))
    command = [sys.executable, "-m", "hypersphere", "data", "pack", str(root), str(tmp_path / name)]
    chance = random.Random(4)
    begun = time.monotonic()
    subprocess.run([*command[:-1], str(tmp_path / "whole" / name)], check=True, capture_output=True)
    takes = time.monotonic() - begun
    for _ in range(10):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.5, 1.0) * takes)
        process.kill()
        process.wait()
        if (tmp_path / name).exists():
            break
    else:
        subprocess.run(command, check=True, capture_output=True)
    assert content(tmp_path / name, {}) == content(tmp_path / "whole" / name, {})


def test_a_file_of_somebody_else_is_not_replaced(tmp_path: Path) -> None:
    """What a killed conversion left has the same content; anything else is refused."""
    for kind, name, other in (
        ("rec", "x.rec", "property"),
        ("mnist", "", "t10k-labels-idx1-ubyte.gz"),
        ("rec", "x.rec", "x.names.txt"),
    ):
        folder = tmp_path / other
        folder.mkdir()
        (folder / other).write_bytes(b"mine")
        options: dict[str, Any] = {"split": "test"} if kind == "mnist" else {}
        with pytest.raises(ValueError, match=f"{other} exists already"):
            write_source(source_for(kind), folder / name, kind, **options)
        assert [path.name for path in folder.iterdir()] == [other]
        assert (folder / other).read_bytes() == b"mine"


def test_many_batches_of_cifar_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.data.formats.cifar.BATCH", 4)
    images = np.random.default_rng(0).integers(0, 256, (10, 32, 32, 3), dtype=np.uint8)
    write_source(ArraySource(images, np.arange(10)), tmp_path / "set", "cifar")
    assert sorted(path.name for path in (tmp_path / "set").glob("*.bin")) == [f"data_batch_{k}.bin" for k in (1, 2, 3)]
    found = open_source(tmp_path / "set", "cifar")
    assert found.labels.tolist() == list(range(10))
    assert all(np.array_equal(found.read(k), images[k]) for k in range(10))
