"""Preparation and flips, against plain arithmetic."""

import subprocess
import sys

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


class Sums(torch.nn.Module):
    """The sum of an image's pixels; notes how many images each pass had."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[int] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.passes.append(len(images))
        return images.flatten(1).sum(1, keepdim=True)


@pytest.mark.parametrize(("flip", "passes"), [("none", [4, 4, 1]), ("sum", [4, 4, 4, 4, 2])])
def test_on_a_cpu_a_network_reads_few_images_at_a_time(flip: str, passes: list[int]) -> None:
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (9, 3, 112, 112), dtype=np.uint8))
    network = Sums()
    model = Embedder(Contract(input_size=(112, 112), mean=(0.0,), std=(1.0,), dim=1, flip=flip), network)
    sums = images.float().flatten(1).sum(1, keepdim=True) * (1 if flip == "none" else 2)
    torch.testing.assert_close(model.raw(images), sums)
    assert network.passes == passes


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator is meant")
def test_a_large_batch_does_not_ask_the_system_for_memory_again_and_again() -> None:
    code = """
import resource, torch, hypersphere as hs
model = hs.models.load_model(hs.__path__[0] + "/starter")
images = torch.randint(0, 256, (16, 3, 112, 112), dtype=torch.uint8)
model.raw(images)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
model.raw(images)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50_000  # pages; some 400,000 in one pass
