"""Prototypes in one file, from any number of processes."""

from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import distributed

import hypersphere as hs
from hypersphere.models import load_prototypes, save_prototypes
from tests.heads.shard_worker import run_processes


def export(rank: int, folder: Path) -> None:
    torch.manual_seed(0)
    head = hs.create_head("arcface", dim=3, num_classes=7, shard=distributed.group.WORLD)
    save_prototypes(folder / "prototypes.safetensors", head)


def test_any_number_of_processes_writes_one_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    head = hs.create_head("arcface", dim=3, num_classes=7)
    save_prototypes(tmp_path / "one.safetensors", head)
    run_processes(export, tmp_path, 2)
    one, two = (tmp_path / name for name in ("one.safetensors", "prototypes.safetensors"))
    assert torch.equal(load_prototypes(one), head.weight)
    assert torch.equal(load_prototypes(two), head.weight)
    fixed = hs.create_head("arcface", dim=3, num_classes=7, prototypes=load_prototypes(two))
    assert torch.equal(fixed.weight, head.weight)


def test_what_is_no_file_of_prototypes(tmp_path: Path) -> None:
    head = hs.create_head("arcface", dim=3, num_classes=7)
    with pytest.raises(ValueError, match=r"ends in \.safetensors"):
        save_prototypes(tmp_path / "p.pt", head)
    with pytest.raises(ValueError, match="is missing"):
        load_prototypes(tmp_path / "p.safetensors")
    safetensors.torch.save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="no file of prototypes"):
        load_prototypes(tmp_path / "other.safetensors")
