"""Class and sample margins against plain loops in float64."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hypersphere.geometry import class_margin, margins, regular_simplex, sample_margins, summarize_sample_margins

D = torch.float64


def brute_class_margin(points: Tensor) -> float:
    wide = [row / row.norm() for row in points.double()]
    return min(
        2 * math.atan2(float((a - b).norm()), float((a + b).norm())) for i, a in enumerate(wide) for b in wide[:i]
    )


@pytest.mark.parametrize("block", [None, 1, 2, 7, 13, 100])
def test_class_margin_is_the_smallest_angle(block: int | None) -> None:
    points = torch.randn(13, 5, generator=torch.Generator().manual_seed(0), dtype=D) * 7
    assert class_margin(points, block=block).item() == pytest.approx(brute_class_margin(points), rel=1e-13)


@pytest.mark.parametrize("angle", [1e-9, 1e-6, 1e-3, math.pi - 1e-5])
def test_tiny_angles_are_accurate(angle: float) -> None:
    points = torch.tensor([[1.0, 0.0, 0.0], [math.cos(angle), math.sin(angle), 0.0]], dtype=D)
    assert class_margin(points).item() == pytest.approx(angle, rel=1e-6)


def test_the_closest_pair_is_found_among_float32_near_ties() -> None:
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(300, 64, generator=generator)
    pairs = torch.cat([base, base + 1e-4 * torch.randn(300, 64, generator=generator)])
    assert class_margin(pairs, block=64).item() == pytest.approx(brute_class_margin(pairs), rel=1e-9)


def test_lengths_do_not_matter() -> None:
    points = torch.randn(6, 4, generator=torch.Generator().manual_seed(2), dtype=D)
    lengths = torch.tensor([1e-200, 1.0, 1e200, 3.0, 1e-12, 7.0], dtype=D)[:, None]
    assert class_margin(points * lengths).item() == pytest.approx(class_margin(points).item(), rel=1e-12)


def test_only_blocks_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    product = Tensor.__matmul__

    def watch(a: Tensor, b: Tensor) -> Tensor:
        shapes.append((a.shape[0], b.shape[-1]))
        return product(a, b)

    monkeypatch.setattr(Tensor, "__matmul__", watch)
    seen: list[tuple[int, int]] = []
    class_margin(torch.randn(1000, 3), block=128, progress=lambda *at: seen.append(at))
    assert max(max(shape) for shape in shapes) <= 128
    assert seen[-1] == (36, 36)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 8), st.integers(2, 5), st.integers(0, 2**16))
def test_rotation_scaling_and_order_change_nothing(count: int, dim: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(count, dim, generator=generator, dtype=D)
    rotation = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=D))[0]
    order = torch.randperm(count, generator=generator)
    moved = 3 * (points @ rotation)[order]
    assert class_margin(moved).item() == pytest.approx(class_margin(points).item(), abs=1e-10)


@pytest.mark.slow
def test_a_hundred_thousand_prototypes() -> None:
    points = torch.randn(100_000, 16, generator=torch.Generator().manual_seed(3))
    points[99_999] = points[5] + 1e-5 * points[6]
    angle = class_margin(points)
    assert angle.item() == pytest.approx(brute_class_margin(points[[5, 99_999]]), rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, D])
def test_sample_margins_against_a_loop(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    x, w = torch.randn(9, 5, generator=generator, dtype=dtype), torch.randn(6, 5, generator=generator, dtype=dtype)
    labels = torch.tensor([0, 5, -1, 2, 2, 1, -1, 3, 4])
    margins = sample_margins(x, w, labels)
    for i, label in enumerate(labels.tolist()):
        if label == -1:
            assert math.isnan(margins[i].item())
            continue
        cosines = [float(torch.cosine_similarity(x[i], row, dim=0)) for row in w]
        other = max(value for j, value in enumerate(cosines) if j != label)
        assert margins[i].item() == pytest.approx(cosines[label] - other, abs=1e-6)


def test_the_largest_sample_margin_is_that_of_the_simplex() -> None:
    points = regular_simplex(10, 12)
    summary = summarize_sample_margins(sample_margins(points, points, torch.arange(10)))
    assert summary.minimum == pytest.approx(10 / 9)
    assert summary.mean == pytest.approx(10 / 9)
    assert summary.share_positive == 1


def test_summary_leaves_the_unlabelled_out() -> None:
    summary = summarize_sample_margins(torch.tensor([0.5, -0.25, math.nan]))
    assert (summary.mean, summary.minimum, summary.share_positive) == (0.125, -0.25, 0.5)
    with pytest.raises(ValueError, match="no number"):
        summarize_sample_margins(torch.tensor([math.nan]))


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (torch.ones(1, 3), "needs at least 2"),
        (torch.ones(3), r"prototypes has shape \(3,\)"),
        (torch.tensor([[1.0, 0.0], [0.0, 0.0]]), "prototypes row 1 is the zero vector"),
        (torch.tensor([[1.0, 0.0], [math.nan, 0.0]]), "prototypes row 1 is not finite"),
    ],
)
def test_bad_prototypes(points: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        class_margin(points)


def test_bad_samples() -> None:
    x, w, y = torch.eye(3), torch.eye(3), torch.arange(3)
    with pytest.raises(ValueError, match="labels holds 3; with 3 classes"):
        sample_margins(x, w, y + 1)
    with pytest.raises(ValueError, match="embeddings have dimension 2, prototypes 3"):
        sample_margins(x[:, :2], w, y)
    with pytest.raises(ValueError, match=r"labels has shape \(2,\)"):
        sample_margins(x, w, y[:2])
    with pytest.raises(ValueError, match="must hold integers"):
        sample_margins(x, w, y.float())
    with pytest.raises(ValueError, match="block=0"):
        class_margin(w, block=0)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 9), st.integers(2, 9), st.integers(0, 2**16))
def test_sample_margins_in_blocks_of_any_size(count: int, classes: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(n, 4, generator=generator, dtype=D) for n in (count, classes))
    labels = torch.randint(-1, classes, (count,), generator=generator)
    rotation = torch.linalg.qr(torch.randn(4, 4, generator=generator, dtype=D))[0]
    whole = sample_margins(x, w, labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(margins, "_BLOCK", 2)
        torch.testing.assert_close(sample_margins(x, w, labels), whole, equal_nan=True)
    torch.testing.assert_close(sample_margins(5 * x @ rotation, w @ rotation, labels), whole, equal_nan=True)
    order = torch.randperm(classes, generator=generator)
    moved = torch.where(labels >= 0, order.argsort()[labels], -1)
    torch.testing.assert_close(sample_margins(x, w[order], moved), whole, equal_nan=True)


def test_margins_of_no_samples_and_of_half_precision() -> None:
    w = torch.eye(3, dtype=torch.bfloat16, requires_grad=True)
    assert sample_margins(torch.ones(0, 3), w, torch.arange(0)).shape == (0,)
    measured = sample_margins(w, w, torch.arange(3))
    assert measured.dtype == torch.float32
    assert not measured.requires_grad
    assert measured.tolist() == pytest.approx([1, 1, 1])
    assert class_margin(w).item() == pytest.approx(math.pi / 2)


def test_coarser_float32_products_do_not_change_the_margin() -> None:
    generator = torch.Generator().manual_seed(8)
    base = torch.randn(40, 32, generator=generator)
    pairs = torch.cat([base, base + 1e-3 * torch.randn(40, 32, generator=generator)])
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert class_margin(pairs, block=32).item() == pytest.approx(brute_class_margin(pairs), rel=1e-9)
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("scale", [0.0, 1e-9])
def test_collapsed_prototypes(scale: float) -> None:
    generator = torch.Generator().manual_seed(9)
    points = torch.ones(50, 8, dtype=D) + scale * torch.randn(50, 8, generator=generator, dtype=D)
    assert class_margin(points, block=16).item() == pytest.approx(brute_class_margin(points), rel=1e-6, abs=1e-15)
