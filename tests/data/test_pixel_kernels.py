"""The kernels of augmentation do what torch's operators do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hypersphere.data import Augmentation, pixels
from hypersphere.data.augment import KINDS
from hypersphere.engines.triton.available import use_triton

pytest.importorskip("triton")
ROUNDING = 1e-6
PLACES = 5e-5
"""Of a GPU, which rounds the place of a pixel once where torch rounds it three times: 1e-5 of a pixel's width."""
EVERYTHING: dict[str, Any] = dict.fromkeys(KINDS, 0.5)


def images(channels: int, height: int, width: int) -> Tensor:
    shape = (6, channels, height, width)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def augmented(options: dict[str, Any], x: Tensor) -> Tensor:
    return Augmentation(**options)(x, torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({}, 0.0),
        ({"flip": 0.5}, 0.0),
        ({"flip": 0.5, "shift": 0.5, "crop": 0.5}, 0.0),
        ({"rotate": 1.0, "zoom": 0.5}, ROUNDING),
        ({"crop": 1.0, "crop_resize": True}, ROUNDING),
        ({"photometric": 0.5}, ROUNDING),
        ({"grey": 0.5, "erase": 0.5}, 0.0),
        (EVERYTHING, ROUNDING),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_kernels_are_the_operators(
    options: dict[str, Any], tolerance: float, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, scale = images(channels, 36, 33), {"mean": (0.1, 0.2, 0.3)[:channels], "std": 0.4}
    wanted = augmented({**options, **scale}, x)
    monkeypatch.setattr(pixels, "runs_kernels", lambda x: True)
    got = augmented({**options, **scale}, x)
    assert got.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(got.contiguous(), wanted, rtol=0, atol=tolerance)


def test_an_image_of_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "_BLOCK", 64)
    x = images(3, 20, 24)
    wanted = augmented(EVERYTHING, x)
    monkeypatch.setattr(pixels, "runs_kernels", lambda x: True)
    torch.testing.assert_close(augmented(EVERYTHING, x), wanted, rtol=0, atol=ROUNDING)


def test_a_cpu_and_an_empty_batch_have_no_kernels() -> None:
    assert not pixels.runs_kernels(images(3, 4, 4))
    assert Augmentation(flip=0.5, photometric=0.5)(images(3, 4, 4)[:0], torch.Generator()).shape == (0, 3, 4, 4)


@pytest.mark.gpu
@pytest.mark.parametrize("channels", [1, 3])
def test_kernels_on_a_gpu(channels: int) -> None:
    x = images(channels, 112, 112).cuda()
    assert pixels.runs_kernels(x)
    still: dict[str, Any] = {"flip": 0.5, "shift": 0.5, "grey": 0.5, "erase": 0.5}
    with use_triton(wanted=False):
        assert not pixels.runs_kernels(x)
        wanted, wanted_still = augmented(EVERYTHING, x), augmented(still, x)
    torch.testing.assert_close(augmented(EVERYTHING, x).contiguous(), wanted, rtol=0, atol=PLACES)
    assert torch.equal(augmented(still, x), wanted_still)
