"""Neural-collapse metrics, against plain loops and at full collapse."""

import math

import pytest
import torch

from hypersphere.geometry import regular_simplex, uniform_sphere
from hypersphere.theory import neural_collapse


def test_a_simplex_has_collapsed() -> None:
    simplex = 3 * regular_simplex(5, 8)
    features = 2 * simplex.repeat_interleave(4, 0)
    found = neural_collapse(features + 7.0, torch.arange(5).repeat_interleave(4), simplex)
    assert found.within < 1e-20
    assert max(found.unequal_norms, found.unequal_angles, found.off_simplex, found.off_dual) < 1e-7
    assert neural_collapse(features, torch.arange(5).repeat_interleave(4), simplex).disagreement == 0


def test_against_loops() -> None:
    g = torch.Generator().manual_seed(0)
    classes, dim = 3, 4
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
    x = torch.randn(9, dim, generator=g, dtype=torch.float64)
    w = uniform_sphere(classes, dim, generator=g)
    means = [sum(x[i] for i in range(9) if labels[i] == c) / int((labels == c).sum()) for c in range(classes)]
    centre = sum(means) / classes
    within = sum(torch.outer(x[i] - means[labels[i]], x[i] - means[labels[i]]) for i in range(9)) / 9
    between = sum(torch.outer(m - centre, m - centre) for m in means) / classes  # type: ignore[arg-type, misc]
    found = neural_collapse(x, labels, w)
    assert found.within == pytest.approx(float(torch.trace(within @ torch.linalg.pinv(between))) / classes, rel=1e-9)
    lengths = torch.stack([(m - centre).norm() for m in means])
    assert found.unequal_norms == pytest.approx(float(lengths.std(correction=0) / lengths.mean()))
    cosines = [
        float((means[a] - centre) @ (means[b] - centre) / lengths[a] / lengths[b])
        for a in range(classes)
        for b in range(classes)
        if a != b
    ]
    assert found.off_simplex == pytest.approx(sum(abs(c + 0.5) for c in cosines) / 6)
    average = sum(cosines) / 6
    assert found.unequal_angles == pytest.approx(math.sqrt(sum((c - average) ** 2 for c in cosines) / 6))
    m = torch.stack(means) - centre  # type: ignore[arg-type]
    assert found.off_dual == pytest.approx(float((w / w.norm() - m / m.norm()).norm()))
    wrong = sum(
        int((w @ x[i]).argmax()) != min(range(classes), key=lambda c: float((x[i] - means[c]).norm())) for i in range(9)
    )
    assert found.disagreement == pytest.approx(wrong / 9)


def test_bad_input() -> None:
    x, w = torch.ones(4, 3), torch.eye(3)
    for labels, message in (
        (torch.tensor([0, 1, 1, 0]), "every class"),
        (torch.tensor([0, 1, 2, 3]), "every class"),
        (torch.tensor([0, 1, 2, -1]), "every class"),
        (torch.tensor([0, 1, 2]), "labels has shape"),
        (torch.tensor([0, 1, 2, 2]), "same mean"),
    ):
        with pytest.raises(ValueError, match=message):
            neural_collapse(x, labels, w)
    with pytest.raises(ValueError, match="must be"):
        neural_collapse(x, torch.tensor([0, 1, 2, 2]), torch.eye(4))
