"""The reader of MATLAB files: what scipy reads, or a ValueError that names the file."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from hypersphere.evaluation.protocols.blufr.files import read_config
from hypersphere.evaluation.protocols.mat import read_mat
from tests.evaluation.protocols.official import cell_array, write_blufr
from tests.mutate import attempt, mutations

KEYS = ("imageList", "labels", "trainIndex", "testIndex", "galIndex", "probIndex")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_numbers_are_those_of_scipy(tmp_path: Path, dtype: str, compressed: bool) -> None:
    path = tmp_path / "a.mat"
    table = {"a": np.arange(24).reshape(4, 6).astype(dtype), "b": np.arange(12).reshape(2, 3, 2).astype(dtype)}
    savemat(path, {**table, "c": np.ones(3)}, do_compression=compressed)
    found, wanted = read_mat(path, ("a", "b")), loadmat(path)
    assert sorted(found) == ["a", "b"]
    for name in found:
        np.testing.assert_array_equal(found[name], wanted[name])
        assert found[name].dtype == wanted[name].dtype


@pytest.mark.parametrize("compressed", [False, True])
def test_cells_and_text_are_those_of_scipy(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "a.mat"
    names = ["Ada_0001.jpg", "B\u00e9la_1.png", "\u674e.jpg", "abc", "x"]
    savemat(
        path, {"names": cell_array(names), "sets": cell_array([np.arange(3), np.eye(2)])}, do_compression=compressed
    )
    found, wanted = read_mat(path, ("names", "sets")), loadmat(path)
    assert [cell.item() for cell in found["names"].ravel()] == names
    assert [cell.ravel()[0] for cell in wanted["names"].ravel()] == names
    for ours, theirs in zip(found["sets"].ravel(), wanted["sets"].ravel(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("compressed", [False, True])
def test_the_configuration_of_blufr_is_that_of_scipy(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "config.mat"
    write_blufr(path)
    savemat(path, {name: value for name, value in loadmat(path).items() if name in KEYS}, do_compression=compressed)
    wanted = loadmat(path)
    _, labels, trials = read_config(path)
    assert labels.tolist() == wanted["labels"].ravel().astype(int).tolist()
    for number, trial in enumerate(trials):
        for key, part in zip(KEYS[2:], (trial.train, trial.test, trial.gallery, trial.probes), strict=True):
            assert part.tolist() == (wanted[key][number, 0].ravel().astype(int) - 1).tolist()


def _file(*elements: tuple[int, bytes]) -> bytes:
    start = b"MATLAB 5.0".ljust(124) + b"\x00\x01IM"
    return start + b"".join(struct.pack("<II", kind, len(data)) + data for kind, data in elements)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a MATLAB file"),
        (b"MATLAB 7.3".ljust(124) + b"\x00\x02IM", "save it again with -v7"),
        (_file((14, b""))[:-3], "ends within a tag"),
        (_file()[:128] + struct.pack("<II", 14, 1 << 31), "of which 0 are there"),
        (_file((14, b"")), "without flags"),
        (_file((9, bytes(8))), "where an array was expected"),
        (_file((15, b"nonsense")), "damaged"),
        (_file((15, zlib.compress(bytes(8))[:-2])), "cut off"),
        (_file((15, zlib.compress(bytes(300_000_000), 1))), "more than 268,435,456 bytes"),
    ],
)
def test_damage_is_named(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "a.mat"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=why) as caught:
        read_mat(path, ("a",))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("compressed", [False, True])
def test_mutated_files_are_read_or_refused_by_name(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "config.mat"
    write_blufr(path, people=30, each=2)
    savemat(path, {name: value for name, value in loadmat(path).items() if name in KEYS}, do_compression=compressed)
    wanted = read_config(path)
    for data in mutations(path.read_bytes(), 300, seed=5):
        path.write_bytes(data)
        found = attempt(read_config, path)
        if compressed and found is not None:
            assert found[0] == wanted[0]
            assert found[1].tolist() == wanted[1].tolist()
