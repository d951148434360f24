"""Augmentation: off means off, on means exactly what it says, and the generator decides everything."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from hypersphere.data.augment import Augmentation, mixup

EVERYTHING = Augmentation(
    flip=0.5, shift=0.8, low_resolution=0.5, photometric=0.7, grey=0.3, erase=0.5, mean=(0.4, 0.5, 0.6), std=0.25
)
EACH = {
    "flip": Augmentation(flip=1.0),
    "shift": Augmentation(shift=1.0),
    "low_resolution": Augmentation(low_resolution=1.0),
    "photometric": Augmentation(photometric=1.0),
    "grey": Augmentation(grey=1.0),
    "erase": Augmentation(erase=1.0),
}


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
    augment = Augmentation(flip=1, shift=1, low_resolution=1, photometric=1, grey=1, erase=1)
    out = augment(x, seeded())
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
    half = (Augmentation(**{name: 0.5})(x, seeded()) != plain(x)).flatten(1).any(1)
    assert 0.35 < half.float().mean() < 0.6
    assert not (half & ~changed).any()


def test_flip() -> None:
    x = images()
    assert torch.equal(EACH["flip"](x, seeded()), plain(x).flip(-1))


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


def test_low_resolution_loses_detail_and_keeps_the_mean() -> None:
    x = (torch.rand(64, 3, 32, 32, generator=seeded()) * 255).to(torch.uint8)
    out = Augmentation(low_resolution=1.0, min_scale=0.25)(x, seeded())
    assert (out.var((2, 3)) < plain(x).var((2, 3))).float().mean() > 0.9
    assert (out.mean((2, 3)) - plain(x).mean((2, 3))).abs().max() < 0.1
    flat = torch.full((4, 3, 17, 23), 90, dtype=torch.uint8)
    torch.testing.assert_close(Augmentation(low_resolution=1.0)(flat, seeded()), plain(flat))


def test_brightness_contrast_and_saturation_alone() -> None:
    x = images().div(4, rounding_mode="floor") + 64
    off = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0}
    unit = {"mean": 0.0, "std": 1.0, "photometric": 1.0}
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
        ({"std": 0}, "std=0"),
        ({"std": (0.5, 0.5, -1)}, "std=-1"),
        ({"mean": float("nan")}, "mean=nan"),
    ],
)
def test_bad_settings(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Augmentation(**options)


def test_bad_images() -> None:
    for wrong in (images().float(), images()[0], images(channels=2)):
        with pytest.raises(ValueError, match="expected uint8"):
            Augmentation()(wrong, seeded())
    with pytest.raises(ValueError, match="mean has 3 numbers, but the images 1 channels"):
        Augmentation(mean=(0.1, 0.2, 0.3))(images(channels=1), seeded())


def test_mixup_mixes_with_a_permutation() -> None:
    x = torch.rand(10, 3, 4, 4, generator=seeded())
    mixed, permutation, weight = mixup(x, seeded(1), alpha=0.4)
    assert 0 <= weight <= 1
    assert sorted(permutation.tolist()) == list(range(10))
    torch.testing.assert_close(mixed, weight * x + (1 - weight) * x[permutation])
    again = mixup(x, seeded(1), alpha=0.4)
    assert torch.equal(again[0], mixed)
    assert again[2] == weight
    assert mixup(x, seeded(2), alpha=0.4)[2] != weight


def test_mixup_weights_are_beta() -> None:
    x = torch.zeros(2, 1)
    generator = seeded()
    for alpha in (0.2, 1.0, 5.0):
        weights = torch.tensor([mixup(x, generator, alpha)[2] for _ in range(2000)])
        assert abs(weights.mean() - 0.5) < 0.03
        assert weights.var().item() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.12)


def test_mixup_refuses() -> None:
    with pytest.raises(ValueError, match="alpha=0"):
        mixup(torch.zeros(2, 1), seeded(), alpha=0)
    with pytest.raises(ValueError, match="uint8"):
        mixup(images(), seeded(), alpha=1)


@pytest.mark.gpu
def test_the_device_makes_no_difference() -> None:
    x = images()
    torch.testing.assert_close(EVERYTHING(x.cuda(), seeded()).cpu(), EVERYTHING(x, seeded()), atol=1e-5, rtol=1e-5)
