"""Checkpoints: whole, verified, pruned; logs without duplicates."""

import json
import shutil
import warnings
from pathlib import Path

import pytest
import torch

from hypersphere.core.config import digest
from hypersphere.core.files import write_atomically
from hypersphere.distributed.tensor_shards import save_shards
from hypersphere.training.checkpoints import Checkpoints, load_weights
from hypersphere.training.logs import JsonLines, read_log
from tests.mutate import attempt, mutations


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
    what = "no complete checkpoint" if damage == "no-digest" else "damaged"
    with pytest.warns(RuntimeWarning, match=f"step-000000002.pt: {what} .*; the one of step 1 is taken instead"):
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
    with pytest.raises(ValueError, match=r"no complete checkpoint .*; there are \[3\]"):
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


def files(folder: Path, step: int) -> list[Path]:
    return [folder / f"step-{step:09d}.{ending}" for ending in ("pt", "json")]


def test_files_under_the_name_of_another_step_are_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (3, 8, 12):
        checkpoints.save(step, state(step))
    for old, new in zip(files(tmp_path, 3), files(tmp_path, 12), strict=True):
        new.write_bytes(old.read_bytes())
    with pytest.warns(RuntimeWarning, match=r"12.pt: not of this step .* of step 3\); the one of step 8 is taken"):
        assert checkpoints.load_newest()[0] == 8  # type: ignore[index]
    side = files(tmp_path, 12)[1]
    about = {**json.loads(side.read_text()), "step": 12}
    del about["digest"]
    side.write_text(json.dumps({**about, "digest": digest(about)}))
    with pytest.raises(ValueError, match="its state is not that of step 12"):
        checkpoints.load(12)


def test_exchanged_shards_are_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (4, 8, 12):
        save_shards(checkpoints.shards(step), {"a": torch.full((3,), float(step))})
        checkpoints.save(step, state(step))
    one, two = checkpoints.shards(4), checkpoints.shards(12)
    one.rename(tmp_path / "between")
    two.rename(one)
    (tmp_path / "between").rename(two)
    with pytest.warns(RuntimeWarning, match="12.shards: not the shards of this checkpoint .* step 8 is taken instead"):
        assert checkpoints.load_newest(sharded=True)[0] == 8  # type: ignore[index]
    shutil.rmtree(two)
    with pytest.raises(ValueError, match="not the shards of this checkpoint"):
        checkpoints.load(12)
    (data,) = checkpoints.shards(8).glob("*.safetensors")
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    with pytest.warns(RuntimeWarning, match="missing or damaged .*; there is no other"):
        assert checkpoints.load_newest(sharded=True) is None


def test_a_deleted_file_of_weights_is_told(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step, score in ((1, 0.5), (2, 0.9), (3, 0.1)):
        checkpoints.save(step, state(step), score)
    for step in (2, 3):
        files(tmp_path, step)[0].unlink()
    with pytest.warns(RuntimeWarning, match="3.pt: missing .*2.pt: missing .*; the one of step 1 is taken instead"):
        assert checkpoints.load_newest()[0] == 1  # type: ignore[index]
    with pytest.warns(RuntimeWarning, match="2.pt: missing .*; the best is one of the others"):
        assert checkpoints.best() == 1


def test_no_damage_of_a_side_file_is_silent(tmp_path: Path) -> None:
    """Of each damaged copy: it says the same as before, or a warning names it, whatever is asked."""
    checkpoints = Checkpoints(tmp_path)
    for step, score in ((1, 0.5), (2, 0.9)):
        checkpoints.save(step, state(step), score)
    side = files(tmp_path, 2)[1]
    good, silent = side.read_bytes(), 0
    for copy in mutations(good, 400, seed=12):
        side.write_bytes(copy)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found, best = checkpoints.load_newest(), checkpoints.best()
        assert found is not None
        if caught:
            assert (found[0], best) == (1, 1)
            assert all("step-000000002.pt: " in str(each.message) for each in caught)
        else:
            silent += 1
            assert (found[0], best) == (2, 2)
    assert silent < 100, "most copies are damaged"


def test_damaged_ones_are_not_removed_but_what_a_kill_left_is(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, state(1), 0.9)
    files(tmp_path, 1)[1].write_bytes(b"?")
    files(tmp_path, 2)[0].write_bytes(b"half a prune")
    with pytest.warns(RuntimeWarning, match="1.pt: damaged .*; the best is one of the others"):
        checkpoints.save(3, state(3), 0.1)
    assert [path.name[8:] for path in sorted(tmp_path.iterdir())] == [
        "000001.json",
        "000001.pt",
        "000003.json",
        "000003.pt",
    ]


def test_weights_of_others_are_read_or_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.arange(6.0)}, path)
    for copy in mutations(path.read_bytes(), 200, seed=3):
        path.write_bytes(copy)
        attempt(load_weights, path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="weights.pt: no file of weights"):
        load_weights(path)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_lines_of_a_log_are_left_out_with_a_warning(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonLines(path)
    log.begin(0)
    for step in range(1, 30):
        log.write({"step": step, "loss": step / 2})
    good = path.read_bytes()
    for copy in (*mutations(good, 150, seed=seed), good + b"null\n", good + b"[]\n3\n", b"\xff" + good):
        path.write_bytes(copy)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            JsonLines(path).begin(29)
        assert all(str(path) in str(each.message) and "left out" in str(each.message) for each in caught)
        assert all(record["step"] <= 29 for record in read_log(path)), "and now the file is clean"
    path.write_bytes(b'{"step": 1}\nnull\n{"step": 2}\n{"step": 3')
    with pytest.warns(RuntimeWarning, match="log.jsonl, line 2: no record with the step it belongs to: left out"):
        assert read_log(path) == [{"step": 1}, {"step": 2}]


@pytest.mark.parametrize("field", [20, 24])
def test_no_memory_is_taken_for_what_a_directory_only_states(tmp_path: Path, field: int) -> None:
    """20: bytes that are stored; 24: bytes that they unpack to."""
    path = tmp_path / "weights.pt"
    torch.save({"w": torch.zeros(4)}, path)
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + field : entry + field + 4] = (2**31).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"weights\.pt: no file of weights \(its directory states"):
        load_weights(path)
