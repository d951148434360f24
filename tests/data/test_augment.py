"""Augmentation: off means off, on means exactly what it says, and the generator decides everything."""

import hashlib
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from hypersphere.data import pixels
from hypersphere.data.augment import KINDS, Augmentation, more_draws

EVERYTHING = Augmentation(
    flip=0.5,
    shift=0.8,
    rotate=0.5,
    zoom=0.5,
    crop=0.5,
    low_resolution=0.5,
    photometric=0.7,
    grey=0.3,
    erase=0.5,
    mean=(0.4, 0.5, 0.6),
    std=0.25,
)
EACH = {name: Augmentation(**dict[str, Any]({name: 1.0})) for name in KINDS}


def images(count: int = 16, channels: int = 3, height: int = 24, width: int = 20) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    smooth = functional.interpolate(torch.rand(count, channels, 4, 4, generator=generator), (height, width))
    return (smooth * 255).to(torch.uint8)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plain(x: Tensor) -> Tensor:
    return (x.float() / 255 - 0.5) / 0.5


def test_nothing_switched_on_is_normalisation_alone() -> None:
    x = images()
    assert torch.equal(Augmentation()(x, seeded()), plain(x))
    exact = Augmentation(mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))(x, seeded())
    wanted = (x.float() / 255 - torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)) / torch.tensor([0.4, 0.5, 0.6]).view(
        3, 1, 1
    )
    assert torch.equal(exact, wanted)


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("channels", [1, 3])
def test_shapes_and_types(size: int, channels: int) -> None:
    x = images(8, channels)[:size]
    kept = x.clone()
    out = Augmentation(**dict[str, Any].fromkeys(KINDS, 1.0))(x, seeded())  # type: ignore[arg-type]
    assert (out.shape, out.dtype, out.is_contiguous()) == (x.shape, torch.float32, True)
    assert torch.equal(x, kept)
    assert out.abs().max() <= 1 + 1e-6 if size else True


def test_the_generator_decides_everything() -> None:
    x = images()
    torch.manual_seed(1)
    first = EVERYTHING(x, seeded(3))
    torch.manual_seed(2)
    assert torch.equal(first, EVERYTHING(x, seeded(3)))
    assert not torch.equal(first, EVERYTHING(x, seeded(4)))
    generator = seeded(3)
    state = generator.get_state()
    EVERYTHING(x, generator)
    second = EVERYTHING(x, generator)
    assert not torch.equal(first, second)
    assert torch.equal(first, EVERYTHING(x, generator.set_state(state)))


def test_an_image_does_not_depend_on_those_after_it() -> None:
    x = images(16)
    few, many = EVERYTHING(x[:5], seeded()), EVERYTHING(x, seeded())
    torch.testing.assert_close(few, many[:5])


def test_parts_of_a_batch_are_changed_as_the_whole() -> None:
    x, whole = images(16), EVERYTHING(images(16), seeded())
    generator = seeded()
    Augmentation.draw(10, generator)
    torch.testing.assert_close(EVERYTHING(x[10:], generator), whole[10:])


def test_what_was_there_first_has_not_changed() -> None:
    """Flips and shifts of seed 0, bit by bit as before there were rotation, zoom and crop."""
    out = Augmentation(flip=0.5, shift=0.7, max_shift=3)(images(64), seeded())
    assert hashlib.sha256(out.numpy().tobytes()).hexdigest()[:16] == "b7f0bad2e060fd56"


def test_more_draws_are_uniform_and_independent() -> None:
    u = torch.rand(20_000, 16, generator=seeded())
    more = more_draws(u, 15)
    assert torch.equal(more[:, :4], more_draws(u, 4))
    assert more.min() >= 0
    assert more.max() < 1
    counts = torch.stack([each.histc(20, 0, 1) for each in more.T])
    assert ((counts - 1000) ** 2 / 1000).sum(1).max() < 50  # chi squared of 19 degrees of freedom
    correlations = torch.corrcoef(torch.cat([u, more], 1).T)
    assert (correlations - torch.eye(31)).abs().max() < 0.03


def test_more_draws_are_splitmix64() -> None:
    u = torch.rand(4, 3, generator=seeded())
    for row, found in zip(u.tolist(), more_draws(u, 3).tolist(), strict=True):
        first, second, third = (int(each * 2**24) for each in row)
        state = (first << 40) ^ (second << 16) ^ third
        for each in found:
            state = (state + 0x9E3779B97F4A7C15) % 2**64
            z = state
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
            assert each == ((z ^ (z >> 31)) >> 40) / 2**24


def test_a_setting_changes_its_own_effect_alone() -> None:
    """The same draws are made whatever is switched on."""
    x = images()
    first, second = seeded(), seeded()
    Augmentation()(x, first)
    EVERYTHING(x, second)
    assert torch.equal(first.get_state(), second.get_state())
    flipped = Augmentation(flip=0.5)(x, seeded())
    both = Augmentation(flip=0.5, erase=0.5)(x, seeded())
    assert ((both == flipped) | (both == 0)).all()


@pytest.mark.parametrize("name", EACH)
def test_probability_half_changes_half_and_one_changes_all(name: str) -> None:
    x = images(400)
    changed = (EACH[name](x, seeded()) != plain(x)).flatten(1).any(1)
    assert changed.float().mean() > 0.85
    half = (Augmentation(**dict[str, Any]({name: 0.5}))(x, seeded()) != plain(x)).flatten(1).any(1)
    assert 0.35 < half.float().mean() < 0.6
    assert not (half & ~changed).any()


def test_flip() -> None:
    x = images()
    assert torch.equal(EACH["flip"](x, seeded()), plain(x).flip(-1))
    never = Augmentation(flip=0.5, shift=1e-12)
    assert torch.equal(Augmentation(flip=0.5)(x, seeded()), never(x, seeded()))


@pytest.mark.parametrize("resize", [False, True])
def test_a_flip_mirrors_what_is_cropped(*, resize: bool) -> None:
    x = images()
    out = Augmentation(crop=1.0, crop_resize=resize)(x, seeded())
    both = Augmentation(crop=1.0, crop_resize=resize, flip=1.0)(x, seeded())
    torch.testing.assert_close(both, out.flip(-1), atol=1e-5, rtol=0)


def test_shift_is_a_crop_of_the_padded_image() -> None:
    x = images(200)
    out = Augmentation(shift=1.0, max_shift=3, mean=0.0, std=1.0)(x, seeded())
    padded = functional.pad(x.float() / 255, (3, 3, 3, 3))
    moves = set()
    for before, after in zip(padded, out, strict=True):
        fits = [(i, j) for i in range(7) for j in range(7) if torch.equal(before[:, i : i + 24, j : j + 20], after)]
        assert fits
        moves.update(fits)
    assert len(moves) == 49


def sampled(image: Tensor, inverse: Tensor) -> Tensor:
    """One image (C, H, W) in float64 under a 3 x 3 map from output to source pixels; black outside, pixel by pixel."""
    _, height, width = image.shape
    out = torch.zeros(image.shape, dtype=torch.float64)
    for y in range(height):
        for x in range(width):
            across, down, _ = (inverse @ torch.tensor([x, y, 1.0], dtype=torch.float64)).tolist()
            for row in (math.floor(down), math.floor(down) + 1):
                for column in (math.floor(across), math.floor(across) + 1):
                    if 0 <= row < height and 0 <= column < width:
                        weight = (1 - abs(down - row)) * (1 - abs(across - column))
                        out[:, y, x] += weight * image[:, row, column]
    return out


def matrix(*rows: tuple[float, float, float]) -> Tensor:
    return torch.tensor([*rows, (0, 0, 1)], dtype=torch.float64)


def about_the_middle(of: Tensor, height: int, width: int) -> Tensor:
    x, y = (width - 1) / 2, (height - 1) / 2
    return matrix((1, 0, x), (0, 1, y)) @ of @ matrix((1, 0, -x), (0, 1, -y))


def crop_boxes(
    more: Tensor, height: int, width: int, area: tuple[float, float], least: float
) -> list[tuple[int, int, int, int]]:
    """Top, bottom, left, right, from the draws, as torchvision's RandomResizedCrop finds them."""
    boxes = []
    for row in more.double().tolist():
        for a, r in zip(row[7:11], row[11:15], strict=True):
            size = (area[0] + (area[1] - area[0]) * a) * height * width
            ratio = math.exp(math.log(least) + (math.log(1 / least) - math.log(least)) * r)
            wide, tall = round(math.sqrt(size * ratio)), round(math.sqrt(size / ratio))
            if wide <= width and tall <= height:
                break
        else:
            raise AssertionError("choose another seed")
        top, left = int(row[5] * (height - tall + 1)), int(row[6] * (width - wide + 1))
        boxes.append((top, top + tall, left, left + wide))
    return boxes


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("resize", [False, True])
def test_one_resampling_is_the_composition_of_its_parts(channels: int, *, resize: bool) -> None:
    """Crop, flip, zoom, rotation, shift, each written down as a matrix, against pixels summed one by one."""
    x = images(8, channels, 12, 14)
    u = torch.rand(8, 16, generator=seeded(5))
    more = more_draws(u, 15)
    augment = Augmentation(
        **dict[str, Any].fromkeys(("flip", "shift", "rotate", "zoom", "crop"), 0.6),  # type: ignore[arg-type]
        max_shift=2,
        max_rotation=25,
        zoom_range=(0.7, 1.5),
        crop_area=(0.3, 0.9),
        crop_resize=resize,
        mean=0.0,
        std=1.0,
    )
    out = augment(x, seeded(5))
    boxes = crop_boxes(more, 12, 14, (0.3, 0.9), 0.75)
    for image, result, (flip, shift, row, column, *_), later, box in zip(
        x.double() / 255, out, u.double().tolist(), more.double().tolist(), boxes, strict=True
    ):
        turned, angle, zoomed, size, cropped = later[:5]
        radians = math.radians(25 * (2 * angle - 1)) if turned < 0.6 else 0.0
        factor = 0.7 * (1.5 / 0.7) ** size if zoomed < 0.6 else 1.0
        down, across = (int(row * 5) - 2, int(column * 5) - 2) if shift < 0.6 else (0, 0)
        back = matrix((1, 0, across), (0, 1, down))
        cos, sin = math.cos(radians), math.sin(radians)
        back = about_the_middle(matrix((cos, -sin, 0), (sin, cos, 0)), 12, 14) @ back
        back = about_the_middle(matrix((1 / factor, 0, 0), (0, 1 / factor, 0)), 12, 14) @ back
        if flip < 0.6:
            back = about_the_middle(matrix((-1, 0, 0), (0, 1, 0)), 12, 14) @ back
        top, bottom, left, right = box if cropped < 0.6 else (0, 12, 0, 14)
        source = image.clone()
        if resize:
            high, wide = (bottom - top) / 12, (right - left) / 14
            back = matrix((wide, 0, left + wide / 2 - 0.5), (0, high, top + high / 2 - 0.5)) @ back
        else:
            source = torch.zeros_like(image)
            source[:, top:bottom, left:right] = image[:, top:bottom, left:right]
        torch.testing.assert_close(result.double(), sampled(source, back), atol=1e-5, rtol=0)


def test_rotation_turns_as_degrees_do() -> None:
    """A quarter turn counter-clockwise, exactly where the draw says so: torch's own rot90."""
    x = images(200, 3, 16, 16)
    more = more_draws(torch.rand(200, 16, generator=seeded()), 2)[:, 1]
    out = Augmentation(rotate=1.0, max_rotation=180, mean=0.0, std=1.0)(x, seeded())
    near = (more - 0.75).abs().argmin()  # + 90 degrees
    assert (more[near] - 0.75).abs() < 0.01
    turned = torch.rot90(x[near].float() / 255, 1, (1, 2))
    other = torch.rot90(x[near].float() / 255, -1, (1, 2))
    assert (out[near] - turned).abs().mean() < (out[near] - other).abs().mean() / 3


@pytest.mark.parametrize(
    "still",
    [
        {"rotate": 1.0, "max_rotation": 0.0},
        {"zoom": 1.0, "zoom_range": (1.0, 1.0)},
        {"shift": 1.0, "max_shift": 0},
        {"crop": 1.0, "crop_area": (1.0, 1.0), "crop_ratio": 1.0},
        {"crop": 1.0, "crop_area": (1.0, 1.0), "crop_ratio": 1.0, "crop_resize": True},
        {"rotate": 1e-9, "zoom": 1e-9, "crop": 1e-9, "crop_resize": True},
    ],
)
def test_a_map_that_moves_nothing_returns_the_image_exactly(still: dict[str, Any]) -> None:
    for x in (images(8, 3, 24, 24), images(8, 1, 113, 113)):
        assert torch.equal(Augmentation(**still)(x, seeded()), plain(x))
    flipped = Augmentation(flip=1.0, **still)(x, seeded())
    assert torch.equal(flipped, plain(x).flip(-1))


def test_crop_keeps_a_rectangle_in_its_place() -> None:
    x = images(100).clamp(min=1)
    out = Augmentation(crop=1.0, mean=0.0, std=1.0)(x, seeded())
    more = more_draws(torch.rand(100, 16, generator=seeded()), 15)
    for before, after, (top, bottom, left, right) in zip(
        x.float() / 255, out, crop_boxes(more, 24, 20, (0.2, 1.0), 0.75), strict=True
    ):
        wanted = torch.zeros_like(before)
        wanted[:, top:bottom, left:right] = before[:, top:bottom, left:right]
        assert torch.equal(after, wanted)


def test_a_crop_of_which_no_rectangle_fits_is_cut() -> None:
    x = images(50, 1, 40, 4).clamp(min=1)
    out = Augmentation(crop=1.0, crop_area=(0.9, 1.0), crop_ratio=1.0, mean=0.0, std=1.0)(x, seeded())
    rows = (out > 0).any(3).sum(2)[:, 0]
    assert ((rows >= 12) & (rows <= 13)).all()
    assert (out > 0).any(2).all()


@pytest.mark.parametrize(("height", "width"), [(24, 20), (31, 31), (112, 96), (1, 5)])
def test_low_resolution_is_a_resize_there_and_back(height: int, width: int) -> None:
    x = (torch.rand(40, 3, height, width, generator=seeded()) * 255).to(torch.uint8)
    out = Augmentation(low_resolution=0.7, min_scale=0.05, mean=0.0, std=1.0)(x, seeded(1))
    u = torch.rand(40, 16, generator=seeded(1))
    for image, result, chance, share in zip(x.double() / 255, out, u[:, 4], u[:, 5], strict=True):
        if chance >= 0.7:
            assert torch.equal(result, (image * 255).float() / 255)
            continue
        scale = 0.05 + 0.95 * share
        small = [int((scale * size).round().clamp(min=1)) for size in (height, width)]
        low = image[None]
        for size in ((small[0], width), small):  # one after the other: torch 2.13 errs where only the width is 1
            low = functional.interpolate(low, tuple(size), mode="bilinear", antialias=True)
        wanted = functional.interpolate(low, (height, width), mode="bilinear")[0]
        torch.testing.assert_close(result.double(), wanted, atol=1e-5, rtol=0)


def test_low_resolution_works_on_the_chosen_images_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(40, 3, 24, 20, generator=seeded())
    scale = torch.where(torch.rand(40, 1, generator=seeded(1)) < 0.3, 0.4, 1.0)
    lowered, worked = pixels._lowered, []
    monkeypatch.setattr(pixels, "_lowered", lambda *given: worked.append(len(given[0])) or lowered(*given))  # type: ignore[func-returns-value]
    out = pixels.lower_resolution(x, scale)
    assert torch.equal(out, torch.where(scale[:, :, None, None] < 1, lowered(x, scale), x))
    assert worked == [int((scale < 1).sum())]
    assert 0 < worked[0] < 20


def test_low_resolution_loses_detail_and_keeps_the_mean() -> None:
    x = (torch.rand(64, 3, 32, 32, generator=seeded()) * 255).to(torch.uint8)
    out = Augmentation(low_resolution=1.0, min_scale=0.25)(x, seeded())
    assert (out.var((2, 3)) < plain(x).var((2, 3))).float().mean() > 0.9
    assert (out.mean((2, 3)) - plain(x).mean((2, 3))).abs().max() < 0.1
    flat = torch.full((4, 3, 17, 23), 90, dtype=torch.uint8)
    torch.testing.assert_close(Augmentation(low_resolution=1.0)(flat, seeded()), plain(flat))


def test_brightness_contrast_and_saturation_alone() -> None:
    x = images().div(4, rounding_mode="floor") + 64
    off: dict[str, Any] = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0}
    unit: dict[str, Any] = {"mean": 0.0, "std": 1.0, "photometric": 1.0}
    base = x.float() / 255
    bright = Augmentation(**{**off, **unit, "brightness": 0.5})(x, seeded())
    ratio = bright / base
    assert (ratio.amax((1, 2, 3)) - ratio.amin((1, 2, 3))).max() < 1e-5
    assert 0.5 <= ratio.min() < 0.8
    assert 1.2 < ratio.max() <= 1.5
    luma = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    hard = Augmentation(**{**off, **unit, "contrast": 0.5})(x, seeded())
    torch.testing.assert_close((hard * luma).sum(1).mean((1, 2)), (base * luma).sum(1).mean((1, 2)))
    pale = Augmentation(**{**off, **unit, "saturation": 0.5})(x, seeded())
    torch.testing.assert_close((pale * luma).sum(1), (base * luma).sum(1))
    torch.testing.assert_close(Augmentation(**{**off, **unit})(x, seeded()), base)


def test_photometric_is_the_formula() -> None:
    x = images(30)
    out = Augmentation(photometric=0.6, brightness=0.3, contrast=0.8, saturation=1.0, mean=0.0, std=1.0)(x, seeded())
    u = torch.rand(30, 16, generator=seeded()).double()
    weights = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64).view(3, 1, 1)
    for image, result, (chance, *shares) in zip(x.double() / 255, out, u[:, 6:10].tolist(), strict=True):
        strengths = zip((0.3, 0.8, 1.0), shares, strict=True)
        bright, hard, rich = (1 + strength * (2 * share - 1) for strength, share in strengths)
        wanted = (image * bright).clamp(0, 1)
        middle = (wanted * weights).sum(0).mean()
        wanted = (middle + hard * (wanted - middle)).clamp(0, 1)
        grey = (wanted * weights).sum(0)
        wanted = (grey + rich * (wanted - grey)).clamp(0, 1)
        torch.testing.assert_close(result.double(), wanted if chance < 0.6 else image, atol=1e-6, rtol=0)


def test_grey_has_one_colour() -> None:
    out = EACH["grey"](images(), seeded())
    assert torch.equal(out[:, 0], out[:, 1])
    assert torch.equal(out[:, 0], out[:, 2])
    single = images(channels=1)
    assert torch.equal(Augmentation(grey=1.0)(single, seeded()), plain(single))


@given(
    low=st.floats(0.02, 0.3),
    more=st.floats(0, 0.3),
    ratio=st.floats(0.2, 1),
    seed=st.integers(0, 1000),
)
@settings(deadline=None)
def test_erasing_makes_one_rectangle_of_the_mean_colour(low: float, more: float, ratio: float, seed: int) -> None:
    x = torch.full((20, 3, 64, 48), 255, dtype=torch.uint8)
    augment = Augmentation(erase=1.0, erase_area=(low, low + more), erase_ratio=ratio, mean=(0.1, 0.2, 0.3))
    hole = augment(x, seeded(seed)) == 0
    assert (hole == hole[:, :1]).all()
    for each in hole[:, 0]:
        rows, columns = each.any(1).nonzero(), each.any(0).nonzero()
        tall, wide = int(rows.max() - rows.min()) + 1, int(columns.max() - columns.min()) + 1
        assert each.sum() == tall * wide
        assert tall * wide <= (low + more) * 64 * 48 + 64
        if tall < 64 and wide < 48:
            assert tall * wide >= low * 64 * 48 - 64
            assert ratio * (wide - 0.5) - 0.5 <= tall <= (wide + 0.5) / ratio + 0.5


def test_erasing_is_the_algorithm() -> None:
    x = images(60).clamp(min=1)
    out = Augmentation(erase=0.5, mean=0.0, std=1.0)(x, seeded())
    u = torch.rand(60, 16, generator=seeded()).double().tolist()
    for image, result, (chance, area, ratio, row, column) in zip(
        x.float() / 255, out, (each[11:] for each in u), strict=True
    ):
        size, slope = (0.02 + 0.38 * area) * 24 * 20, 0.3 + (1 / 0.3 - 0.3) * ratio
        tall, wide = min(round(math.sqrt(size * slope)), 24), min(round(math.sqrt(size / slope)), 20)
        top, left = int(row * (24 - tall + 1)), int(column * (20 - wide + 1))
        wanted = image.clone()
        wanted[:, top : top + tall, left : left + wide] = 0
        assert torch.equal(result, wanted if chance < 0.5 else image)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flip": 1.5}, "flip=1.5"),
        ({"erase": -0.1}, "erase=-0.1"),
        ({"brightness": 2}, "brightness=2"),
        ({"min_scale": 0}, "min_scale=0"),
        ({"max_shift": 1.5}, "max_shift=1.5"),
        ({"erase_area": (0.5, 0.2)}, "erase_area=0.5"),
        ({"erase_ratio": 3}, "erase_ratio=3"),
        ({"rotate": 2}, "rotate=2"),
        ({"max_rotation": -1}, "max_rotation=-1"),
        ({"zoom": -1}, "zoom=-1"),
        ({"zoom_range": (0.01, 1.0)}, "zoom_range=0.01"),
        ({"zoom_range": (1.2, 0.8)}, "zoom_range=1.2"),
        ({"crop": 1.1}, "crop=1.1"),
        ({"crop_area": (0.0, 1.0)}, "crop_area=0"),
        ({"crop_area": (0.2, 1.5)}, "crop_area=1.5"),
        ({"crop_ratio": 1.5}, "crop_ratio=1.5"),
        ({"crop_resize": 1}, "crop_resize=1"),
        ({"std": 0}, "std=0"),
        ({"std": (0.5, 0.5, -1)}, "std=-1"),
        ({"mean": float("nan")}, "mean=nan"),
    ],
)
def test_bad_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Augmentation(**options)


def test_bad_images() -> None:
    for wrong in (images().float(), images()[0], images(channels=2)):
        with pytest.raises(ValueError, match="expected uint8"):
            Augmentation()(wrong, seeded())
    with pytest.raises(ValueError, match="mean has 3 numbers, but the images 1 channels"):
        Augmentation(mean=(0.1, 0.2, 0.3))(images(channels=1), seeded())


def test_what_happens_to_pixels_never_waits_for_the_device() -> None:
    """One graph holds all of it: nothing there looks at a value."""
    x = images(4)
    eager, change = EVERYTHING(x, seeded()), torch.compile(EVERYTHING.apply, fullgraph=True, backend="eager")
    assert torch.equal(EVERYTHING._changed(x, seeded(), change), eager)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_is_equal_up_to_rounding() -> None:
    x = images(6)
    torch.testing.assert_close(EVERYTHING.compiled()(x, seeded()), EVERYTHING(x, seeded()), atol=1e-5, rtol=0)


@pytest.mark.gpu
def test_the_device_makes_no_difference() -> None:
    x = images()
    torch.testing.assert_close(EVERYTHING(x.cuda(), seeded()).cpu(), EVERYTHING(x, seeded()), atol=1e-5, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_on_a_gpu_the_host_does_not_wait() -> None:
    x = images().cuda()
    EVERYTHING(x, seeded())
    torch.cuda.set_sync_debug_mode("error")
    try:
        EVERYTHING(x, seeded())
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:TensorFloat32 tensor cores")
def test_compiled_on_a_gpu() -> None:
    x = images().cuda()
    torch.testing.assert_close(EVERYTHING.compiled()(x, seeded()), EVERYTHING(x, seeded()), atol=1e-4, rtol=0)
