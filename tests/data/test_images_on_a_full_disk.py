"""Sets of images on a disk that is full: the error names the file, and nothing is left."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import ArraySource, write_source

resource = pytest.importorskip("resource", reason="needs limits of file sizes")


@pytest.fixture
def _full() -> Iterator[None]:
    """Files of at most 4,000 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("_full")
@pytest.mark.parametrize(
    ("format", "file"),
    [
        ("bin", "set/out"),
        ("rec", r"set/out\.rec"),
        ("tar", r"set/out\.tar"),
        ("folder", r"set/out/bo/0000\.png"),
        ("market", r"set/out/bounding_box_train/0001_c1s1_000000_00\.png"),
        ("mnist", r"set/out/train-images-idx3-ubyte\.gz"),
        ("cifar", r"set/out/data_batch_1\.bin"),
    ],
)
def test_the_file_that_was_not_written_is_named(tmp_path: Path, format: str, file: str) -> None:  # noqa: A002
    side = {"mnist": (28, 28, 1), "cifar": (32, 32, 3)}.get(format, (48, 48, 3))
    images = np.random.default_rng(0).integers(0, 256, (12, *side), np.uint8)
    source = ArraySource(images, np.repeat(np.arange(2), 6), ["bo", "cy"])
    out = tmp_path / "set" / f"out{'.rec' if format == 'rec' else '.tar' if format == 'tar' else ''}"
    with pytest.raises(OSError, match=rf"{file}: not written \(File too large\)"):
        write_source(source, out, format)
    assert not list(tmp_path.iterdir())
