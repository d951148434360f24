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


def test_the_same_seed_gives_the_same_solution() -> None:
    reports: list[tuple[int, int]] = []
    first, second = (solve_toy(LM, steps=5, progress=lambda *at: reports.append(at)) for _ in range(2))
    assert torch.equal(first.prototypes, second.prototypes)
    assert not torch.equal(first.prototypes, solve_toy(LM, steps=5, seed=1).prototypes)
    assert reports[4] == (5, 5)


@pytest.mark.slow
def test_fully_trained_normface_ends_where_lm_softmax_does() -> None:
    assert solve_toy(TOY_LOSSES[0], steps=20_000).class_margin_degrees == pytest.approx(LM.paper_degrees, abs=0.05)
