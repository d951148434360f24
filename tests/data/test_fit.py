"""Images of one size and one number of channels."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hypersphere.data import ArraySource, Fitted, FolderSource, UnreadableImage
from tests.data.samples import PEOPLE, arrays, make_folder, picture, saved


def test_images_that_fit_are_left_alone(tmp_path: Path) -> None:
    source = FolderSource(make_folder(tmp_path / "set"))
    for resize in (False, True):
        fitted = Fitted(source, (12, 10), resize=resize)
        np.testing.assert_array_equal(fitted.batch([3, 0]).numpy(), source.batch([3, 0]).numpy())
        assert fitted.names == list(PEOPLE)
        assert (len(fitted), fitted.num_classes, fitted.labels.tolist()) == (6, 3, [0, 0, 1, 1, 2, 2])
        assert fitted.describe(2) == source.describe(2)


def test_another_size_is_refused_by_name_with_both_sizes(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    (root / "Cy" / "1.jpg").write_bytes(saved(picture(1, 20, 30)))
    fitted = Fitted(FolderSource(root), (12, 10))
    with pytest.raises(
        ValueError, match=r"Cy.1\.jpg is 30x20 \(width x height\), but size=\[12, 10\] asks for 10x12: "
    ):
        fitted.batch([0, 5])
    with pytest.raises(ValueError, match=r"resized \(resize=True\)") as refused:
        fitted.read(5)
    assert not isinstance(refused.value, UnreadableImage), "it can be read: it must not be left out silently"


@pytest.mark.parametrize("size", [(12, 10), (7, 31), (40, 40), (5, 4)])
def test_resized_as_pillow_does(tmp_path: Path, size: tuple[int, int]) -> None:
    root = make_folder(tmp_path / "set")
    (root / "Cy" / "1.jpg").write_bytes(saved(picture(1, 20, 30)))
    source = FolderSource(root)
    images = Fitted(source, size, resize=True).batch([0, 5])
    assert images.shape == (2, 3, *size)
    for image, index in zip(images, (0, 5), strict=True):
        expected = Image.fromarray(source.read(index)).resize(size[::-1], Image.Resampling.BILINEAR)
        assert np.abs(image.permute(1, 2, 0).numpy().astype(int) - np.asarray(expected)).max() <= 1


@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("sides", [[(30, 20)] * 9, [(30, 20)] * 4 + [(16, 12)] * 3 + [(9, 9)] + [(30, 20)]])
def test_a_batch_is_bit_for_bit_its_images(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, grey: bool, sides: list[tuple[int, int]]
) -> None:
    (tmp_path / "Ada").mkdir()
    for number, (height, width) in enumerate(sides):
        (tmp_path / "Ada" / f"{number}.jpg").write_bytes(saved(picture(number, height, width)))
    fitted = Fitted(FolderSource(tmp_path), (16, 12), grey=grey, resize=True)
    single = np.stack([fitted.read(index) for index in range(len(sides))])
    for at_once in (2**24, 2 * 30 * 20 * 3, 1):
        monkeypatch.setattr("hypersphere.data.fit._AT_ONCE", at_once)
        images = fitted.batch(range(len(sides)))
        assert images.is_contiguous()
        np.testing.assert_array_equal(images.permute(0, 2, 3, 1).numpy(), single)


@pytest.mark.parametrize("size", [(56, 56), (112, 96), (200, 200), (7, 31)])
def test_many_images_resized_together_are_those_resized_alone(size: tuple[int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (64, 112, 112, 3), dtype=np.uint8)
    fitted = Fitted(ArraySource(images), size, resize=True)
    single = np.stack([fitted.read(index) for index in range(64)])
    np.testing.assert_array_equal(fitted.batch(range(64)).permute(0, 2, 3, 1).numpy(), single)


def test_colour_becomes_grey_and_grey_colour() -> None:
    colour = arrays(side=8)
    image = colour.read(0).astype(float)
    luma = 0.299 * image[:, :, 0] + 0.587 * image[:, :, 1] + 0.114 * image[:, :, 2]
    grey = Fitted(colour, (8, 8), grey=True)
    assert grey.batch([0]).shape == (1, 1, 8, 8)
    assert np.abs(grey.read(0)[:, :, 0] - luma).max() <= 1
    extremes = ArraySource(np.stack([np.full((2, 2, 3), 255, np.uint8), np.zeros((2, 2, 3), np.uint8)]), [0, 1])
    assert Fitted(extremes, (2, 2), grey=True).batch([0, 1])[:, 0, 0, 0].tolist() == [255, 0]
    flat = arrays(side=8, channels=1)
    back = Fitted(flat, (8, 8)).batch([1])
    assert back.shape == (1, 3, 8, 8)
    assert (back == back[:, :1]).all()
    np.testing.assert_array_equal(Fitted(flat, (8, 8), grey=True).read(1), flat.read(1))


def test_a_wrong_size() -> None:
    with pytest.raises(ValueError, match="size=0 must be an integer of at least 1"):
        Fitted(arrays(), (0, 4))
