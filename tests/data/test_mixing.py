"""Mixup and CutMix: what is mixed with what, and in which share."""

import pytest
import torch
from torch import Tensor

from hypersphere.data.mixing import cutmix, mixup


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
        mixup(torch.zeros(2, 1, dtype=torch.uint8), seeded(), alpha=1)


def coded(count: int = 6, height: int = 20, width: int = 12) -> Tensor:
    """Every pixel says which image it is of."""
    return torch.arange(count).float().view(-1, 1, 1, 1).expand(-1, 3, height, width).contiguous()


@pytest.mark.parametrize("seed", range(20))
def test_cutmix_pastes_one_rectangle_and_counts_it(seed: int) -> None:
    x = coded()
    mixed, permutation, weight = cutmix(x, seeded(seed), alpha=1.0)
    assert sorted(permutation.tolist()) == list(range(6))
    assert torch.equal(x, coded())
    foreign = {tuple(map(tuple, (image[0] != number).nonzero().tolist())) for number, image in enumerate(mixed)}
    pasted = max(foreign, key=len)  # an image that was paired with itself shows none
    assert foreign <= {(), pasted}
    rows, columns = {row for row, _ in pasted}, {column for _, column in pasted}
    assert len(pasted) == len(rows) * len(columns)
    if pasted:
        assert weight == 1 - len(pasted) / 240
        assert len(rows) == max(rows) - min(rows) + 1
        for number, image in enumerate(mixed):
            assert (image[:, min(rows) : max(rows) + 1, min(columns) : max(columns) + 1] == permutation[number]).all()
    again = cutmix(x, seeded(seed), alpha=1.0)
    assert torch.equal(again[0], mixed)
    assert again[2] == weight


def test_cutmix_shares_follow_the_paper() -> None:
    """Lambda is uniform for alpha 1; the box is cut at the border, so that more stays than lambda says."""
    x, generator = torch.zeros(2, 1, 200, 200), seeded()
    weights = torch.tensor([cutmix(x, generator, 1.0)[2] for _ in range(1500)])
    draws = torch.rand(4, 400_000, generator=seeded(1))
    half = (1 - draws[0]).sqrt() / 2
    sides = [(middle + half).clamp(max=1) - (middle - half).clamp(min=0) for middle in draws[1:3]]
    wanted = 1 - sides[0] * sides[1]
    assert abs(weights.mean() - wanted.mean()) < 0.02
    assert abs(weights.std() - wanted.std()) < 0.02
    assert weights.min() >= 0


def test_cutmix_keeps_the_memory_format() -> None:
    x = torch.rand(4, 3, 8, 8, generator=seeded()).contiguous(memory_format=torch.channels_last)
    assert cutmix(x, seeded(), 1.0)[0].is_contiguous(memory_format=torch.channels_last)


def test_cutmix_refuses() -> None:
    with pytest.raises(ValueError, match="alpha=-1"):
        cutmix(torch.zeros(2, 1, 4, 4), seeded(), alpha=-1)
    with pytest.raises(ValueError, match="cutmix needs floating"):
        cutmix(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), seeded(), alpha=1)
    with pytest.raises(ValueError, match="cutmix needs \\(B, C, H, W\\)"):
        cutmix(torch.zeros(2, 4), seeded(), alpha=1)
