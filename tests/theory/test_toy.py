"""The toy problem of Learning Towards the Largest Margins (App. C.1)."""

import pytest
import torch

from hypersphere.theory import OPTIMUM_DEGREES, TOY_LOSSES, solve_toy

LM = TOY_LOSSES[3]


def test_lm_softmax_reaches_the_papers_margin() -> None:
    solution = solve_toy(LM, steps=1500)
    assert solution.class_margin_degrees == pytest.approx(LM.paper_degrees, abs=0.05)
    assert solution.class_margin_degrees < OPTIMUM_DEGREES
    own = solution.prototypes[solution.labels]
    assert float((own * solution.features).sum(1).min()) > 0.999
    assert solution.converged
    assert solution.late_change_degrees < 0.01


def test_one_that_is_stopped_early_says_so() -> None:
    assert not any(solve_toy(loss, steps=steps).converged for loss in TOY_LOSSES for steps in (1, 2, 3, 60))
    first = solve_toy(LM, steps=1)
    start = torch.nn.functional.normalize(torch.randn(8, 3, generator=torch.Generator().manual_seed(0)))
    turned = (start * first.prototypes).sum(1).clamp(-1, 1).acos().rad2deg().max()
    assert first.late_turn_degrees == pytest.approx(float(turned), abs=0.05)
    before = (start @ start.T - 2 * torch.eye(8)).max().acos().rad2deg()
    assert first.late_change_degrees == pytest.approx(abs(first.class_margin_degrees - float(before)), abs=0.01)


def test_the_same_seed_gives_the_same_solution() -> None:
    reports: list[tuple[int, int]] = []
    first, second = (solve_toy(LM, steps=5, progress=lambda *at: reports.append(at)) for _ in range(2))
    assert torch.equal(first.prototypes, second.prototypes)
    assert not torch.equal(first.prototypes, solve_toy(LM, steps=5, seed=1).prototypes)
    assert reports[4] == (5, 5)


@pytest.mark.slow
def test_fully_trained_normface_ends_where_lm_softmax_does() -> None:
    assert solve_toy(TOY_LOSSES[0], steps=20_000).class_margin_degrees == pytest.approx(LM.paper_degrees, abs=0.05)
