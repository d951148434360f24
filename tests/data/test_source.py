"""The contract of a source: batches, subsets, labels without gaps, and the check before a run."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import hypersphere.data as room
from hypersphere.data import (
    ArraySource,
    FolderSource,
    Subset,
    UnreadableImage,
    batch,
    check_readable,
    names_of,
    readable,
)
from hypersphere.data.source import encoded_of, number_labels
from tests.data.samples import PEOPLE, arrays, make_folder, picture, saved


def test_a_batch_is_a_contiguous_tensor_of_bytes(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    for indices in ([5, 0, 2], np.array([5, 0, 2])):
        images = source.batch(indices)
        assert images.dtype == torch.uint8
        assert images.shape == (3, 3, 12, 10)
        assert images.is_contiguous()
        for image, index in zip(images, [5, 0, 2], strict=True):
            np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), source.read(index))
    with pytest.raises(ValueError, match="at least one index"):
        source.batch([])


def test_a_batch_of_two_sizes_names_both_images(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    (root / "Cy" / "0.jpg").write_bytes(saved(picture(1, 8, 9)))
    source = FolderSource(root)
    with pytest.raises(ValueError, match=r"Ada.0\.jpg is 10x12, .*Cy.0\.jpg is 9x8"):
        source.batch([0, 4])


def test_arrays() -> None:
    source = arrays()
    assert len(source) == 6
    assert source.num_classes == 3
    assert source.names == ["0", "1", "2"]
    assert source.describe(4) == "array: image 4"
    np.testing.assert_array_equal(source.batch([1, 3]).permute(0, 2, 3, 1).numpy(), source.images[[1, 3]])
    np.testing.assert_array_equal(batch(source, [1, 3]).numpy(), source.batch([1, 3]).numpy())
    source.read(0)[:] = 0
    np.testing.assert_array_equal(source.read(0), picture(0, 12, 12))
    assert arrays(channels=1).batch([0, 1]).shape == (2, 1, 12, 12)
    nobody = ArraySource(np.zeros((2, 4, 4, 3), dtype=np.uint8))
    assert nobody.labels.tolist() == [-1, -1]
    assert nobody.num_classes == 0


def test_arrays_of_another_form() -> None:
    good = np.zeros((2, 4, 4, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"float64 \(2, 4, 4, 3\); expected uint8"):
        ArraySource(good.astype(float), [0, 1])
    with pytest.raises(ValueError, match=r"2 images, but labels of shape \(3,\)"):
        ArraySource(good, [0, 1, 2])
    with pytest.raises(ValueError, match="array: no images"):
        ArraySource(good[:0], np.zeros(0, dtype=int))


def test_labels() -> None:
    labels, kept = number_labels(np.array([2, 0, -1, 1]), "it")
    assert labels.tolist() == [2, 0, -1, 1]
    assert labels.dtype == np.int64
    assert kept == [0, 1, 2]
    with pytest.raises(ValueError, match=r"it: labels have a gap: of 0..5, 2 have no image \(1, 4\)"):
        number_labels(np.array([0, 2, 3, 5]), "it")
    with pytest.raises(ValueError, match=r"9 have no image \(1, 2, 3, 4, 5 and 4 more\)"):
        number_labels(np.array([0, 10]), "it")
    with pytest.raises(ValueError, match=r"of 0..2, 1 have no image \(2\)"):
        number_labels(np.array([0, 1]), "it", num_classes=3)
    with pytest.raises(ValueError, match=r"label 3 is not in \[0, 3\)"):
        number_labels(np.array([0, 3]), "it", num_classes=3)
    with pytest.raises(ValueError, match="label -2 is negative"):
        number_labels(np.array([0, -2]), "it")
    with pytest.raises(ValueError, match="labels are float64"):
        number_labels(np.array([0.5]), "it")
    labels, kept = number_labels(np.array([9, -1, 4, 9]), "it", relabel=True)
    assert labels.tolist() == [1, -1, 0, 1]
    assert kept == [4, 9]


def test_a_subset_numbers_its_identities_anew(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    part = Subset(source, [5, 0, 4])
    assert part.labels.tolist() == [1, 0, 1]
    assert part.classes.tolist() == [0, 2]
    assert part.names == ["Ada", "Cy"]
    assert part.num_classes == 2
    assert part.describe(0) == source.describe(5)
    np.testing.assert_array_equal(part.read(2), source.read(4))
    np.testing.assert_array_equal(part.batch([0, 1]).numpy(), source.batch([5, 0]).numpy())
    nested = Subset(part, np.array([1]))
    assert nested.labels.tolist() == [0]
    assert encoded_of(nested, 0) == source.encoded(0)
    assert encoded_of(arrays(), 0) is None


def test_a_subset_keeps_images_without_identity() -> None:
    source = ArraySource(np.zeros((4, 2, 2, 3), dtype=np.uint8), [0, -1, 1, 2])
    part = Subset(source, [3, 1])
    assert part.labels.tolist() == [0, -1]
    for indices, message in [([4], r"index 4 is not in \[0, 4\)"), ([-1], "index -1"), ([[0]], "one dimension")]:
        with pytest.raises(ValueError, match=message):
            Subset(source, indices)  # type: ignore[arg-type]


def test_names_of_a_source_that_has_none() -> None:
    class Bare:
        num_classes = 2

    assert names_of(Bare()) == ["0", "1"]  # type: ignore[arg-type]


def spoil(root: Path) -> None:
    (root / "Ada" / "0.jpg").write_bytes(b"")
    (root / "Cy" / "1.jpg").write_bytes(saved(picture(1))[:200])


@pytest.mark.parametrize("workers", [0, 3])
def test_unreadable_images_are_counted_and_listed(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readable, "_CHUNK", 4)
    root = make_folder(tmp_path / "set", each=5)
    spoil(root)
    source = FolderSource(root)
    seen: list[tuple[int, int]] = []
    report = check_readable(source, lambda done, total: seen.append((done, total)), limit_share=0.2, workers=workers)
    assert report.checked == 15
    assert report.share == pytest.approx(2 / 15)
    assert [index for index, _ in report.unreadable] == [0, 11]
    assert "Ada" in report.unreadable[0][1]
    assert "empty" in report.unreadable[0][1]
    assert seen == [(4, 15), (8, 15), (12, 15), (15, 15)]
    assert check_readable(source, indices=[1, 2]).unreadable == []


def test_too_many_unreadable_images_refuse_the_run(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    spoil(root)
    with pytest.raises(
        ValueError, match=r"2 of 6 images cannot be read \(33.3%, more than the 1.0% allowed\): .*0\.jpg"
    ):
        check_readable(FolderSource(root))
    with pytest.raises(ValueError, match=r"limit_share=2 must be between 0 and 1"):
        check_readable(FolderSource(root), limit_share=2)


def test_a_file_that_went_away_is_unreadable(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    (source.root / source.files[3]).unlink()
    with pytest.raises(UnreadableImage, match=r"Bo_Lee.1\.jpg: No such file"):
        source.read(3)


def test_a_source_travels_to_worker_processes(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    copy = pickle.loads(pickle.dumps(Subset(source, [3, 4])))
    np.testing.assert_array_equal(copy.read(0), source.read(3))
    assert copy.names == list(PEOPLE[1:])


def test_the_room_imports_nothing_heavy() -> None:
    code = "import sys, hypersphere.data; print(sorted({'PIL', 'simplejpeg', 'scipy'} & set(sys.modules)))"
    path = {"PYTHONPATH": str(Path(room.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.strip() == "[]"
