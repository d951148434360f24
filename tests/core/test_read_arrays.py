"""The reader of `.npy` and `.npz` files: the same arrays or a ValueError that names the file."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hypersphere.core import read_arrays
from hypersphere.core.read_arrays import read_npy, read_npz
from tests.mutate import attempt, mutations

ARRAYS: dict[str, npt.NDArray[Any]] = {
    "rows": np.arange(12.0).reshape(3, 4),
    "columns": np.asfortranarray(np.arange(24, dtype=np.float32).reshape(4, 6)),
    "one": np.array(3),
    "text": np.array(["a", "b\u00e9"]),
    "bytes": np.array([b"x", b"yz"]),
    "truths": np.array([True, False, True]),
    "none": np.zeros((0, 4), np.float16),
    "big_endian": np.arange(3, dtype=">i4"),
    "complex": np.ones((2, 1), np.complex64),
    "many": np.ones((2, 3, 4, 5), np.uint8),
}


def _header(descr: str = "'<f8'", fortran: str = "False", shape: str = "(3, 4)", more: str = "") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, {more}}}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back(tmp_path: Path, name: str) -> None:
    array = ARRAYS[name]
    np.save(tmp_path / "a.npy", array)
    for mapped in (False, True):
        found = read_npy(tmp_path / "a.npy", mapped=mapped)
        np.testing.assert_array_equal(found, array)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **dict[str, Any]({"a": array, "set/\u00e9": array}))
        both = read_npz(tmp_path / "a.npz")
        assert list(both) == ["a", "set/\u00e9"]
        np.testing.assert_array_equal(both["a"], array)
        assert (both["a"].dtype, both["a"].shape) == (array.dtype, array.shape)


def test_entries_of_a_header_stand_in_any_order(tmp_path: Path) -> None:
    text = b'{"shape": (2,), "fortran_order": False, "descr": "<i2"}'
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + b"\1\0\2\0")
    assert read_npy(tmp_path / "a.npy").tolist() == [1, 2]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a readable"),
        (b"\x93NUMPY\7\0", "version"),
        (b"\x93NUMPY\2\0\xff\xff\xff\x7f", "EOF"),
        (b"\x93NUMPY\1\0\x40\0{", "EOF"),
        (_header("'|O'"), "Python objects"),
        (_header("[('a', '<f8')]") + bytes(96), "neither numbers nor text"),
        (_header("'<f3'"), "descr"),
        (_header(fortran="1"), "fortran_order"),
        (_header(shape="(-1,)"), "not a readable"),
        (_header(shape="(99999999999999999999,)"), "not a readable"),
        (_header(shape="(4000000000, 4000000000)"), "not a readable"),
        (_header(shape="(1000000000000,)"), "not a readable"),
        (_header(more="'more': True"), "correct keys"),
        (_header() + bytes(95), "not a readable"),
        (_header() + bytes(97), "ends at byte"),
    ],
)
def test_damage_of_an_array_is_named(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    for mapped in (False, True):
        with pytest.raises(ValueError, match=why) as caught:
            read_npy(path, mapped=mapped)
        assert str(path) in str(caught.value)


def test_no_memory_is_taken_for_a_header_that_is_only_stated(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\2\0" + struct.pack("<I", 662_372_470) + bytes(176))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"a\.npy: .*662,372,470 bytes"):
        read_npy(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7


def test_a_pickle_is_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", a=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="Python objects"):
        read_npy(tmp_path / "a.npy")
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_npz(tmp_path / "a.npz")


def test_absence_and_kinds(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.ones(3))
    for read in (read_npy, read_npz):
        with pytest.raises(ValueError, match=r"none\.npz: there is no such file"):
            read(tmp_path / "none.npz")
        with pytest.raises(ValueError, match=str(tmp_path)):
            read(tmp_path)
    with pytest.raises(ValueError, match="magic string"):
        read_npy(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(ValueError, match="not a zip file"):
        read_npz(tmp_path / "a.npy")


def test_more_than_the_limit_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_arrays, "NPZ_LIMIT", 1_000_000)
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(2_000_000, np.uint8))
    with pytest.raises(ValueError, match="its arrays have 2,000,128 bytes; at most 1,000,000 are read"):
        read_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", a=np.zeros(2_000_000, np.uint8))
    assert read_npz(tmp_path / "a.npz")["a"].shape == (2_000_000,), "stored, it has what its file has"


def _arrays_equal(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return list(found) == list(wanted) and all(np.array_equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_mutated_npz_files_give_the_same_arrays_or_are_refused_by_name(
    tmp_path: Path, save: Callable[..., None]
) -> None:
    wanted: dict[str, Any] = {name: ARRAYS[name] for name in ("rows", "truths", "text")}
    path = tmp_path / "a.npz"
    save(path, **wanted)
    for data in mutations(path.read_bytes(), 500, seed=2):
        path.write_bytes(data)
        found = attempt(read_npz, path)
        assert found is None or _arrays_equal(found, wanted)


def test_mutated_npy_headers_give_the_same_shape_or_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    array = ARRAYS["rows"]
    np.save(path, array)
    good = path.read_bytes()
    for data in mutations(good[:128], 500, seed=3):
        path.write_bytes(data + good[128:])
        found = attempt(read_npy, path)
        assert found is None or found.nbytes <= len(data) + array.nbytes
