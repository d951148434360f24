"""Checkpoints that re-shard: what P processes write, Q processes read bit for bit; and forged files are refused."""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed

import hypersphere as hs
from hypersphere.distributed import is_sharded
from hypersphere.distributed.tensor_shards import check_shards, load_shards, read_shards, save_shards
from hypersphere.training import Trainer, recipe_from_table
from hypersphere.training.shard_state import load_replicated_state, load_state, replicated_state, save_state
from tests.heads.shard_worker import run_processes

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
}


def made(kind: str, group: Any, seed: int) -> tuple[hs.Head, torch.optim.Optimizer]:
    """A head with rows per class of three kinds, and a scale; four classes, so that the third process has none."""
    torch.manual_seed(seed)
    head = hs.create_head("softmax", dim=3, num_classes=4, shard=group, add={"center": {}, "normface": {}})
    return head, OPTIMIZERS[kind](head.parameters())


def step(head: hs.Head, optimizer: torch.optim.Optimizer) -> None:
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    optimizer.zero_grad()
    head(x, torch.tensor([0, 1, 2, 3, 3, -1])).backward()
    optimizer.step()


def whole(head: hs.Head, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The whole state of both, as plain tensors."""
    found = head.full_state_dict()
    for name, parameter in head.named_parameters():
        for key, value in optimizer.state[parameter].items():
            sharded = is_sharded(value)
            found[f"{name} {key}"] = value.full_tensor() if sharded else value.clone()
    return found


def differing(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    return [key for key in a.keys() | b.keys() if key not in a or key not in b or not torch.equal(a[key], b[key])]


def journey(rank: int, folder: Path) -> list[str]:
    """1 -> 2 -> 3 -> 1 processes; returns what was not the same after a stop."""
    groups = {size: distributed.new_group(list(range(size))) for size in (1, 2, 3)}
    wrong: list[str] = []
    for kind in OPTIMIZERS:
        for stop, size in enumerate((1, 2, 3, 1)):
            distributed.barrier()
            if rank >= size:
                continue
            head, optimizer = made(kind, groups[size], seed=stop)
            if stop > 0:
                before = torch.load(folder / f"{kind}-{stop - 1}.pt", weights_only=True)
                load_replicated_state(head, optimizer, *before["common"])
                load_state(folder / f"{kind}-{stop - 1}", head, optimizer)
                wrong += [f"{kind} {stop}: {key}" for key in differing(whole(head, optimizer), before["whole"])]
            for _ in range(2):
                step(head, optimizer)
            state = whole(head, optimizer)
            save_state(folder / f"{kind}-{stop}", head, optimizer)
            if rank == 0:
                saved = {"common": replicated_state(head, optimizer), "whole": state}
                torch.save(saved, folder / f"{kind}-{stop}.pt")
    return wrong


def test_what_some_processes_save_others_load(tmp_path: Path) -> None:
    assert run_processes(journey, tmp_path, 3) == [[], [], []]
    for kind in OPTIMIZERS:
        for stop in range(4):
            saved = torch.load(tmp_path / f"{kind}-{stop}.pt", weights_only=True)
            head, optimizer = made(kind, None, seed=9)
            load_replicated_state(head, optimizer, *saved["common"])
            load_state(tmp_path / f"{kind}-{stop}", head, optimizer)
            assert not differing(whole(head, optimizer), saved["whole"]), "without any process group"
            tensors = read_shards(tmp_path / f"{kind}-{stop}")
            assert torch.equal(tensors["head.weight"], saved["whole"]["weight"])
    files = list((tmp_path / "sgd-2").glob("*.safetensors"))
    assert len({path.name[:11] for path in files}) == 3, "each process writes its own rows"
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in files)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_shards(tmp_path / "shards", {"a": torch.arange(6.0).view(3, 2)})
    return tmp_path / "shards"


def forge(folder: Path, change: Callable[[dict[str, Any], list[list[int]]], None]) -> None:
    """Rewrite the header of the only file, with a digest that fits.

    Args:
        folder: of one tensor `a`.
        change: of the header, and of the offsets of `a` in it.
    """
    (path,) = folder.glob("*.safetensors")
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    places = json.loads(header["__metadata__"]["DCP_SHARDING_INFO"])
    change(header, places)
    header["__metadata__"].setdefault("DCP_SHARDING_INFO", json.dumps(places))
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    sign(folder)


def sign(folder: Path) -> None:
    """Write the digests of the files as they are."""
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.safetensors")}
    (folder / "digests.json").write_text(json.dumps(digests))


def moved(offset: Any) -> Callable[[dict[str, Any], Any], None]:
    def change(header: dict[str, Any], places: Any) -> None:
        del header["__metadata__"]["DCP_SHARDING_INFO"]
        places["a"]["saved_offsets"] = offset

    return change


def replaced(text: str) -> Callable[[dict[str, Any], Any], None]:
    def change(header: dict[str, Any], places: Any) -> None:
        header["__metadata__"]["DCP_SHARDING_INFO"] = text

    return change


def larger(header: dict[str, Any], places: Any) -> None:
    header["a"]["shape"] = [2**40, 3]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (moved([2**40, 0]), "but the files have 6 numbers of it"),
        (moved([-1, 0]), "has rows at -1"),
        (moved([2**62, 2**62]), "refused"),
        (moved([1, 0]), r"'a' is \(4, 2\), but the files have 6"),
        (moved("x"), "refused"),
        (moved(None), "refused"),
        (replaced("{}"), "refused"),
        (replaced("[" * 100_000), "refused"),
        (replaced("no json"), "refused"),
        (larger, "refused"),
    ],
)
def test_a_forged_header_is_refused_and_takes_no_memory(
    saved: Path, change: Callable[[dict[str, Any], Any], None], why: str
) -> None:
    forge(saved, change)
    for call in (check_shards, read_shards, lambda folder: load_shards(folder, {"a": torch.zeros(3, 2)})):
        with pytest.raises(ValueError, match=why):
            call(saved)


def test_files_that_nobody_signed_are_refused(saved: Path) -> None:
    (path,) = saved.glob("*.safetensors")
    other = path.with_name(path.name.replace("shard-00001", "shard-00002"))
    other.write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match="shard-00002.*: it is not in digests.json"):
        read_shards(saved)
    sign(saved)
    with pytest.raises(ValueError, match=r"'a' is \(3, 2\), but the files have 12 numbers of it"):
        read_shards(saved)
    other.unlink()
    for name in ("../other.safetensors", "/etc/passwd", ".metadata"):
        (saved / "digests.json").write_text(json.dumps({name: "0"}))
        with pytest.raises(ValueError, match="is no file of shards"):
            read_shards(saved)


def test_what_shards_need_is_told_before_a_run_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    recipe = recipe_from_table({"head": {"name": "softmax", "sharded": True}, "train": {"steps": 1}})
    with pytest.raises(ModuleNotFoundError, match="a checkpoint of sharded classes needs safetensors"):
        Trainer(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_state_of_another_head_changes_nothing(tmp_path: Path) -> None:
    head, optimizer = made("sgd", None, seed=0)
    step(head, optimizer)
    save_state(tmp_path / "state", head, optimizer)
    larger = hs.create_head("softmax", dim=3, num_classes=5, add={"center": {}, "normface": {}})
    plain = hs.create_head("softmax", dim=3, num_classes=4)
    for other, why in ((larger, "4 classes, this head 5"), (plain, "belongs to no parameter of this head")):
        fresh = OPTIMIZERS["sgd"](other.parameters())
        with pytest.raises(ValueError, match=why):
            load_state(tmp_path / "state", other, fresh)
        assert not fresh.state


def test_damage_is_found_and_a_failed_save_leaves_the_old_one(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, data: bytes) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("hypersphere.distributed.tensor_shards.write_atomically", broken)
    with pytest.raises(OSError, match="disk full"):
        save_shards(saved, {"a": torch.zeros(3, 2)})
    assert torch.equal(read_shards(saved)["a"], torch.arange(6.0).view(3, 2))
    assert [path.name for path in saved.parent.iterdir()] == ["shards"]
    monkeypatch.undo()
    save_shards(saved, {"a": torch.arange(6.0).view(3, 2)})
    assert [path.name for path in saved.parent.iterdir()] == ["shards"], "replaced, and nothing left beside it"
    with pytest.raises(ValueError, match="no 'b' in it; there are a"):
        load_shards(saved, {"b": torch.zeros(3, 2)})
    with pytest.raises(ValueError, match=r"'a' is torch.float32 \(3, 2\), not torch.float32 \(2, 2\)"):
        load_shards(saved, {"a": torch.zeros(2, 2)})
    (data,) = saved.glob("*.safetensors")
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="missing or damaged"):
        check_shards(saved)
    save_shards(saved, {"a": torch.zeros(3, 2)})
    digests = json.loads((saved / "digests.json").read_text())
    del digests[data.name]
    (saved / "digests.json").write_text(json.dumps(digests))
    with pytest.raises(ValueError, match="it is not in digests.json"):
        check_shards(saved)
    (saved / "digests.json").unlink()
    with pytest.raises(ValueError, match="digests.json is missing"):
        check_shards(saved)
