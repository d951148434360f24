"""Archives that mean harm, to the readers of `.npz` arrays and of torch's weights: refused, and nothing is written."""

import io
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hypersphere.core.read_arrays import read_npz
from hypersphere.training.checkpoints import load_weights
from tests.limits import cost_of

READERS: dict[str, Callable[[Path], Any]] = {".npz": read_npz, ".pt": load_weights}


def array(count: int) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(count, np.uint8))
    return stream.getvalue()


def archive(entries: Iterable[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as made:
        for name, data in entries:
            made.writestr(name, data)
    return stream.getvalue()


def many_entries(count: int) -> bytes:
    """An archive of so many arrays, by chance as torch names its own."""
    return archive((f"archive/data/{number}.npy", b"x") for number in range(count))


ARCHIVES = {
    "slip": lambda: archive([("../evil.npy", array(3))]),
    "absolute": lambda: archive([("/evil.npy", array(3))]),
    "ratio": lambda: archive([("a.npy", array(100_000_000))], zipfile.ZIP_DEFLATED),
    "nested": lambda: archive([("a.npy", archive([("b.npy", array(3))]))]),
    "many": lambda: many_entries(100_000),
}


@pytest.mark.parametrize("kind", ["slip", "absolute", "ratio", "nested", pytest.param("many", marks=pytest.mark.slow)])
@pytest.mark.parametrize("suffix", READERS)
def test_they_are_refused_and_cost_little(tmp_path: Path, kind: str, suffix: str) -> None:
    """Within 2 s of the processor and 100 MB, and no file is made beside them."""
    path = tmp_path / "in" / f"a{suffix}"
    path.parent.mkdir()
    path.write_bytes(ARCHIVES[kind]())

    def read() -> None:
        with pytest.raises(ValueError, match=f"a{suffix}: "):
            READERS[suffix](path)

    [cost] = cost_of(read)
    assert cost.seconds <= 2
    assert cost.mebibytes <= 100
    assert [each.name for each in tmp_path.rglob("*")] == ["in", path.name]


def test_more_arrays_than_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(many_entries(10_001))
    with pytest.raises(ValueError, match="it states 10,001 arrays or more; at most 10,000 are read"):
        read_npz(tmp_path / "a.npz")
