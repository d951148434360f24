"""Preparation and flips, against plain arithmetic."""

import numpy as np
import pytest
import torch

from hypersphere.models import Contract, Embedder

IMAGES = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (5, 3, 4, 6), dtype=np.uint8))


def embedder(**settings: object) -> Embedder:
    weights = torch.from_numpy(np.random.default_rng(1).normal(size=(72, 2)).astype(np.float32))
    contract = Contract(**{"input_size": (4, 6), "dim": 2, **settings})  # type: ignore[arg-type]
    return Embedder(contract, lambda x: x.flatten(1) @ weights, name="linear")


def plain(image: np.ndarray, contract: Contract, weights: np.ndarray) -> np.ndarray:
    pixels = image[::-1] if contract.colour == "bgr" else image
    mean, std = (np.broadcast_to(v, 3) for v in (contract.mean, contract.std))
    total = np.zeros(2)
    for channel in range(3):
        for row in range(4):
            for column in range(6):
                value = (float(pixels[channel, row, column]) - mean[channel]) / std[channel]
                total += value * weights[channel * 24 + row * 6 + column]
    return total


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"colour": "bgr", "mean": (0.0,), "std": (1.0,)},
        {"colour": "bgr", "mean": (10.0, 20.0, 30.0), "std": (1.0, 2.0, 3.0)},
    ],
)
@pytest.mark.parametrize("flip", ["none", "concat", "sum", "mean"])
def test_against_plain_loops(settings: dict[str, object], flip: str) -> None:
    weights = np.random.default_rng(1).normal(size=(72, 2))
    model = embedder(**settings).with_flip(flip)
    found = model.raw(IMAGES).numpy()
    for image, embedding in zip(IMAGES.numpy(), found, strict=True):
        one = plain(image, model.contract, weights)
        two = plain(image[:, :, ::-1], model.contract, weights)
        wanted = {"none": one, "concat": np.append(one, two), "sum": one + two, "mean": (one + two) / 2}[flip]
        np.testing.assert_allclose(embedding, wanted, rtol=1e-4, atol=1e-3)


def test_mirror_images_go_in_one_pass() -> None:
    batches = []
    contract = Contract(input_size=(4, 6), dim=1, flip="sum")

    def network(x: torch.Tensor) -> torch.Tensor:
        batches.append(len(x))
        return x.flatten(1)[:, :1]

    Embedder(contract, network).raw(IMAGES)
    assert batches == [10]


def test_other_images_and_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"images are torch.uint8 \(5, 3, 4, 4\); linear takes \(3, 4, 6\)"):
        embedder().raw(IMAGES[..., :4])
    with pytest.raises(ValueError, match="images are torch.float32"):
        embedder().raw(IMAGES.float())
    with pytest.raises(ValueError, match=r"linear returned \(5, 2\); expected \(5, 3\)"):
        embedder(dim=3).raw(IMAGES)
