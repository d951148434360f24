"""Checkpoints: whole, verified, pruned; logs without duplicates."""

import json
from pathlib import Path

import pytest
import torch

from hypersphere.core.files import write_atomically
from hypersphere.training.checkpoints import Checkpoints
from hypersphere.training.logs import JsonLines, read_log


def state(value: float) -> dict[str, object]:
    return {"weights": torch.full((3,), value), "step": int(value), "nested": {"list": [1, "x", None, 2.5]}}


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "deep" / "folder")
    assert checkpoints.load_newest() is None
    checkpoints.save(7, state(7))
    found = checkpoints.load_newest()
    assert found is not None
    assert found[0] == 7
    assert torch.equal(found[1]["weights"], torch.full((3,), 7.0))
    assert found[1]["nested"] == {"list": [1, "x", None, 2.5]}


def test_the_last_few_and_the_best_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step, score in enumerate([0.1, 0.9, 0.3, None, 0.5]):
        checkpoints.save(step, state(step), score)
    assert checkpoints.steps() == [1, 3, 4]
    assert checkpoints.best() == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"step-{step:09d}.{ending}" for step in (1, 3, 4) for ending in ("json", "pt")
    ]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "no-digest", "bad-digest"])
def test_a_torn_newest_one_falls_back_with_a_warning(tmp_path: Path, damage: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, state(1))
    path = checkpoints.save(2, state(2))
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "no-digest":
        path.with_suffix(".json").unlink()
    else:
        path.with_suffix(".json").write_text("{")
    if damage.endswith("digest"):
        found = checkpoints.load_newest()
    else:
        with pytest.warns(RuntimeWarning, match="step-000000002.pt: damaged .*; the one of step 1 is taken instead"):
            found = checkpoints.load_newest()
    assert found is not None
    assert found[0] == 1


def test_nothing_but_plain_data_is_loaded(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"thing": Path("x")})
    with pytest.raises(Exception, match="[Ww]eights.only"):
        checkpoints.load(1)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    write_atomically(target, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"file: not written \(No space left on device\); the previous one is untouched"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_unknown_step(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, state(3))
    with pytest.raises(ValueError, match=r"no complete checkpoint; there are \[3\]"):
        checkpoints.load(4)
    with pytest.raises(ValueError, match="keep=0"):
        Checkpoints(tmp_path, keep=0)


def test_a_log_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonLines(path)
    log.begin(0)
    for step in range(1, 6):
        log.write({"step": step, "loss": step / 2})
    with path.open("a") as file:
        file.write('{"step": 6, "lo')
    again = JsonLines(path)
    again.begin(3)
    again.write({"step": 4, "loss": 9.0})
    assert [(record["step"], record["loss"]) for record in read_log(path)] == [(1, 0.5), (2, 1.0), (3, 1.5), (4, 9.0)]
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_score_that_is_no_number_is_not_the_best(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    for step, score in enumerate((float("nan"), 0.5, 0.7, 0.1), start=1):
        checkpoints.save(step, {}, score)
    assert checkpoints.best() == 3
