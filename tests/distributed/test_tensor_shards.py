"""Checkpoints that re-shard: what P processes write, Q processes read bit for bit; and no file can make us run it."""

import contextlib
import hashlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed
from torch.distributed.checkpoint import FileSystemReader  # type: ignore[attr-defined]
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING, BytesStorageMetadata, Metadata

import hypersphere as hs
from hypersphere.distributed import is_sharded
from hypersphere.distributed.tensor_shards import check_shards, load_shards, read_shards, save_shards
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
    assert len(list((tmp_path / "sgd-2").glob("*.distcp"))) == 3, "each process writes its own rows"
    assert str(tmp_path).encode() not in (tmp_path / "sgd-2" / ".metadata").read_bytes()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_shards(tmp_path / "shards", {"a": torch.arange(6.0).view(3, 2)})
    return tmp_path / "shards"


class Runs:
    """Unpickled freely, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def with_index(folder: Path, index: Any) -> None:
    """Replace the index, with digests that fit."""
    (folder / ".metadata").write_bytes(index if isinstance(index, bytes) else pickle.dumps(index))
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    del digests["digests.json"]
    (folder / "digests.json").write_text(json.dumps(digests))


def index_of(folder: Path) -> Any:
    return pickle.loads((folder / ".metadata").read_bytes())


@pytest.mark.parametrize("where", ["alone", "planner_data", "a tensor"])
def test_an_index_that_would_run_something_is_refused(saved: Path, tmp_path: Path, where: str) -> None:
    trap: Any = Runs(tmp_path / "ran")
    if where != "alone":
        index = index_of(saved)
        if where == "planner_data":
            index.planner_data = trap
        else:
            index.state_dict_metadata["a"] = trap
        trap = index
    with_index(saved, trap)
    for call in (check_shards, read_shards, lambda folder: load_shards(folder, {"a": torch.zeros(3, 2)})):
        with pytest.raises(ValueError, match=r"refused \(it asks for posix.mkdir"):
            call(saved)
    assert not (tmp_path / "ran").exists()
    with contextlib.suppress(AttributeError):
        FileSystemReader(saved).read_metadata()
    assert (tmp_path / "ran").exists(), "torch's own reader would have run it: the trap works"


CHANGED: list[tuple[Any, str, Any]] = [
    (Metadata, "changed", (None, {"changed": 1})),
    (torch.serialization._get_layout, "changed", {"changed": 1}),
    (_MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST, "changed", {"changed": 1}),
]


@pytest.mark.parametrize(("target", "name", "state"), CHANGED, ids=["class", "function", "member"])
def test_an_index_cannot_change_what_it_names(saved: Path, target: Any, name: str, state: Any) -> None:
    """BUILD sets attributes, also of an object that the unpickler only looked up: they would outlive the file."""
    data = pickle.dumps(target, 2)[:-1] + pickle.dumps(state, 2)[2:-1] + pickle.BUILD + pickle.STOP
    assert pickle.loads(data) is target
    assert getattr(target, name) == 1, "Python's own unpickler would have done it: the trap works"
    delattr(target, name)
    with_index(saved, data)
    with pytest.raises(ValueError, match="refused .it changes"):
        read_shards(saved)
    assert not hasattr(target, name)


def test_an_index_with_holes_is_refused(saved: Path) -> None:
    for path in (("storage_data",), ("state_dict_metadata", "a", "size"), ("state_dict_metadata", "a", "properties")):
        index = index_of(saved)
        owner = index
        for key in path[:-1]:
            owner = owner[key] if isinstance(owner, dict) else getattr(owner, key)
        vars(owner).pop(path[-1])
        kept = (saved / ".metadata").read_bytes()
        with_index(saved, index)
        with pytest.raises(ValueError, match="refused"):
            read_shards(saved)
        (saved / ".metadata").write_bytes(kept)


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


def test_only_tensors_in_files_of_the_folder(saved: Path) -> None:
    index = index_of(saved)
    info = next(iter(index.storage_data.values()))
    for path in ("../other.distcp", "/etc/passwd", "__0_0.distcp/../x"):
        info.relative_path = path
        with_index(saved, index)
        with pytest.raises(ValueError, match="it names a file outside the folder"):
            read_shards(saved)
    info.relative_path, info.transform_descriptors = "__0_0.distcp", ["zstd"]
    with_index(saved, index)
    with pytest.raises(ValueError, match="transformed by"):
        read_shards(saved)
    info.transform_descriptors = None
    index.state_dict_metadata["code"] = BytesStorageMetadata()
    with_index(saved, index)
    with pytest.raises(ValueError, match="BytesStorageMetadata, which no index of tensors needs"):
        read_shards(saved)
    with_index(saved, [1, 2])
    with pytest.raises(ValueError, match="no index of tensors"):
        read_shards(saved)


@pytest.mark.parametrize("size", [(2**40, 3), (-1, 3), (2**62, 2**62)])
def test_no_memory_is_taken_for_shapes_without_data(saved: Path, size: tuple[int, ...]) -> None:
    index = index_of(saved)
    next(iter(index.state_dict_metadata.values())).size = torch.Size(size)
    with_index(saved, index)
    with pytest.raises(ValueError, match=r"refused \((its tensors take|.* has the shape)"):
        read_shards(saved)


def test_no_memory_is_taken_for_a_stated_byte_array(saved: Path) -> None:
    with_index(saved, [])
    (saved / ".metadata").write_bytes(pickle.PROTO + b"\5" + pickle.BYTEARRAY8 + (2**60).to_bytes(8, "little"))
    digests = json.loads((saved / "digests.json").read_text())
    digests[".metadata"] = hashlib.sha256((saved / ".metadata").read_bytes()).hexdigest()
    (saved / "digests.json").write_text(json.dumps(digests))
    with pytest.raises(ValueError, match="holds a byte array"):
        read_shards(saved)


def test_a_file_of_data_cannot_run_anything(saved: Path, tmp_path: Path) -> None:
    data = saved / "__0_0.distcp"
    torch.save(Runs(tmp_path / "ran"), data)
    with pytest.raises(ValueError, match="missing or damaged"):
        read_shards(saved)
    index = index_of(saved)
    next(iter(index.storage_data.values())).length = data.stat().st_size
    with_index(saved, index)
    with pytest.raises(ValueError, match=r"not readable \(process 0: Weights only load failed"):
        read_shards(saved)
    assert not (tmp_path / "ran").exists()


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
    data = saved / "__0_0.distcp"
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="missing or damaged"):
        check_shards(saved)
    save_shards(saved, {"a": torch.zeros(3, 2)})
    digests = json.loads((saved / "digests.json").read_text())
    del digests["__0_0.distcp"]
    (saved / "digests.json").write_text(json.dumps(digests))
    with pytest.raises(ValueError, match="it names '__0_0.distcp', which digests.json does not"):
        check_shards(saved)
    (saved / "digests.json").unlink()
    with pytest.raises(ValueError, match="digests.json is missing"):
        check_shards(saved)
