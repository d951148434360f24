"""`embed_to_file` goes on from parts: whatever was done to them meanwhile, the file is that of an unbroken run."""

import random
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.data import write_source
from hypersphere.evaluation import EmbedTask, embed_files, embed_to_file
from hypersphere.evaluation.embeddings import Embeddings, write_embeddings
from hypersphere.models import Contract, ModelCard, save_folder
from hypersphere.pocket import PocketFaces
from tests.damage import Files, damaged, flipped, read_files, write_files

SUFFIXES = (".npy", ".txt", ".json")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[EmbedTask, Files, list[bytes]]:
    """A task of four parts, one image of which cannot be read; the files of a run that ended after two, and a whole."""
    here = tmp_path_factory.mktemp("embed")
    write_source(PocketFaces(num_identities=4, images_per_identity=4, size=16), here / "people", quality=90)
    (here / "people" / "1" / "a.jpg").write_bytes(b"\xff\xd8\xff nothing")
    torch.manual_seed(0)
    network = hs.create_backbone("cnn4", dim=4, input_size=(16, 16)).eval()
    contract = Contract(input_size=(16, 16))
    save_folder(here / "net", network, contract, {"name": "cnn4", "dim": 4}, ModelCard(title="net").text())
    task = EmbedTask(
        images=str(here / "people"), model=str(here / "net"), batch_size=5, workers=0, allow_unreadable=True
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embed_files, "PART", 1)
        embed_to_file(task, here / "whole.npy")
        _end_after_two(task, here / "faces.npy")
    parts = read_files(here / ".faces.npy.parts")
    assert sum(name.startswith("part-") and not name.endswith(".json") for name in parts) == 2
    return task, parts, [(here / f"whole{suffix}").read_bytes() for suffix in SUFFIXES]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed_files, "PART", 1)


def _end_after_two(task: EmbedTask, out: Path) -> None:
    def until_the_third(done: int, total: int) -> None:
        if done >= 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_to_file(task, out, progress=until_the_third)


def resumed(task: EmbedTask, parts: Files, folder: Path) -> tuple[list[bytes], list[str]]:
    """What the command writes that goes on from these files, and its warnings."""
    for suffix in SUFFIXES:
        (folder / f"faces{suffix}").unlink(missing_ok=True)
    write_files(folder / ".faces.npy.parts", parts)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        embed_to_file(task, folder / "faces.npy")
    return [(folder / f"faces{suffix}").read_bytes() for suffix in SUFFIXES], [str(each.message) for each in warned]


def check(begun: tuple[EmbedTask, Files, list[bytes]], folder: Path, seed: int, count: int) -> None:
    task, parts, whole = begun
    chance = random.Random(seed)
    for _ in range(count):
        what, files = damaged(parts, chance)
        written, _ = resumed(task, files, folder)
        assert written == whole, what


def test_damaged_parts_are_not_used(begun: tuple[EmbedTask, Files, list[bytes]], tmp_path: Path) -> None:
    check(begun, tmp_path, seed=0, count=25)


@pytest.mark.slow
def test_damaged_parts_are_not_used_500_times(begun: tuple[EmbedTask, Files, list[bytes]], tmp_path: Path) -> None:
    check(begun, tmp_path, seed=1, count=500)


def test_a_flipped_part_is_named_and_made_again(begun: tuple[EmbedTask, Files, list[bytes]], tmp_path: Path) -> None:
    task, parts, whole = begun
    assert resumed(task, parts, tmp_path) == (whole, [])
    name = max(name for name in parts if name.startswith("part-"))
    written, warned = resumed(task, {**parts, name: flipped(parts[name], len(parts[name]) - 3, 5)}, tmp_path)
    assert written == whole
    assert len(warned) == 1
    assert "1 finished part of 4 cannot be used and will be made again" in warned[0]
    assert name in warned[0]


def test_a_disk_that_is_full_while_writing_names_the_file(tmp_path: Path) -> None:
    """NumPy would say "65536 requested and 8160 written", and nothing more."""
    resource = pytest.importorskip("resource", reason="needs limits of file sizes")
    vectors = Embeddings([str(row) for row in range(1024)], np.zeros((1024, 64), np.float32))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32768, hard))
    try:
        with pytest.raises(OSError, match=r"embeddings\.npy: not written \(File too large\)"):
            write_embeddings(tmp_path, "", vectors)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
    write_embeddings(tmp_path, "", vectors)
    np.testing.assert_array_equal(np.load(tmp_path / "embeddings.npy"), vectors.values)
