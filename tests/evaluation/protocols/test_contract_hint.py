"""Accuracy near chance: what is tried, and what is said."""

from pathlib import Path

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.data import encode
from hypersphere.evaluation import Estimate
from hypersphere.models import Contract, Embedder

SIDE = 8


def colours(x: torch.Tensor) -> torch.Tensor:
    """A network of pixels from 0 to 255 in the order BGR: what is beyond them, or green and red exchanged, it loses."""
    blue, _, red = x.mean((2, 3)).unbind(1)
    inside = ((x >= 0) & (x <= 255)).all(3).all(2).all(1) & (x.amax((1, 2, 3)) > 2)
    angle = torch.where(inside, torch.where(blue > red, blue, 0.0), 0.0) / 20
    return torch.stack([angle.cos(), angle.sin()], 1)


@pytest.fixture
def lfw(tmp_path: Path) -> Path:
    """Ten people of three images each, who differ in the brightness of blue, and a list of 60 pairs."""
    rng, lines = np.random.default_rng(0), []
    (tmp_path / "images").mkdir()
    for person in range(10):
        for photo in range(3):
            image = rng.integers(0, 4, (SIDE, SIDE, 3), dtype=np.uint8)
            image[..., 2] += np.uint8(20 + 12 * person)
            (tmp_path / "images" / f"{person}-{photo}.png").write_bytes(encode(image))
    for k in range(30):
        person, photo = k % 10, k // 10
        other, next_photo = (person + 1) % 10, (photo + 1) % 3
        lines.append(f"{person}-{photo}.png\t{person}-{next_photo}.png\t1")
        lines.append(f"{person}-{photo}.png\t{other}-{next_photo}.png\t0")
    (tmp_path / "pairs.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def embedder(**settings: object) -> Embedder:
    return Embedder(Contract(**{"input_size": (SIDE, SIDE), "dim": 2, **settings}), colours, name="sky")  # type: ignore[arg-type]


def evaluated(model: Embedder, lfw: Path) -> float:
    accuracy = hs.evaluate("pairs", model=model, images=lfw / "images", pairs=lfw / "pairs.txt").metrics["accuracy"]
    assert isinstance(accuracy, Estimate)
    return accuracy.value


def test_a_wrong_contract_is_named_with_the_one_that_fits(lfw: Path) -> None:
    right = evaluated(embedder(colour="bgr", mean=(0.0,), std=(1.0,)), lfw)
    assert right > 0.9
    with pytest.warns(RuntimeWarning, match=r"near chance\. .* another \d+%; the contract that fits is: colour"):
        evaluated(embedder(), lfw)


def test_a_model_that_no_contract_mends(lfw: Path) -> None:
    model = Embedder(Contract(input_size=(SIDE, SIDE), dim=2), lambda x: torch.ones(len(x), 2), name="none")
    with pytest.warns(RuntimeWarning, match="no other order of colours, scale or alignment does better"):
        evaluated(model, lfw)


def test_rows_of_other_names(lfw: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in (lfw / "images").iterdir())
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    np.save(tmp_path / "e.npy", np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32))
    with pytest.warns(RuntimeWarning, match="do the names belong to the rows"):
        hs.evaluate("pairs", embeddings=tmp_path / "e.npy", names=tmp_path / "names.txt", pairs=lfw / "pairs.txt")
