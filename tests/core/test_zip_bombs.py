"""Archives that mean harm, to the reader of torch's weights: refused, and nothing is written."""

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from hypersphere.training.checkpoints import load_weights
from tests.limits import cost_of


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
def test_they_are_refused_and_cost_little(tmp_path: Path, kind: str) -> None:
    """Within 2 s of the processor and 100 MB, and no file is made beside them."""
    path = tmp_path / "in" / "a.pt"
    path.parent.mkdir()
    path.write_bytes(ARCHIVES[kind]())

    def read() -> None:
        with pytest.raises(ValueError, match=r"a\.pt: "):
            load_weights(path)

    [cost] = cost_of(read)
    assert cost.seconds <= 2
    assert cost.mebibytes <= 100
    assert [each.name for each in tmp_path.rglob("*")] == ["in", path.name]
