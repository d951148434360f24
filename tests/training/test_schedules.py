"""Learning rates over a run."""

import math

import pytest

from hypersphere.training.schedules import Schedule


def test_step_by_iteration_and_by_epoch() -> None:
    schedule = Schedule(name="step", milestones=(16_000, 24_000, 28_000))
    factors = [schedule.factor(step, 30_000, 100) for step in (0, 15_999, 16_000, 24_000, 29_999)]
    assert factors == pytest.approx([1, 1, 0.1, 0.01, 0.001])
    epochs = Schedule(name="step", milestones=(10, 20), unit="epoch", gamma=0.5)
    assert [epochs.factor(step, 3000, 100) for step in (999, 1000, 2000)] == [1, 0.5, 0.25]


def test_cosine_and_linear_go_from_one_to_the_floor() -> None:
    for kind in ("cosine", "linear"):
        schedule = Schedule(name=kind, floor=0.1)
        assert schedule.factor(0, 100, 10) == 1
        assert schedule.factor(50, 100, 10) == pytest.approx(0.55)
        assert schedule.factor(100, 100, 10) == pytest.approx(0.1)
    assert Schedule(name="cosine").factor(25, 100, 10) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)


def test_warm_up_then_the_schedule() -> None:
    schedule = Schedule(name="linear", warmup=1, unit="epoch")
    factors = [schedule.factor(step, 100, 10) for step in range(12)]
    assert factors[:10] == pytest.approx([(step + 1) / 11 for step in range(10)])
    assert factors[10] == 1
    assert factors[11] < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "stpe"}, "did you mean 'step'"),
        ({"name": "step"}, "it needs them"),
        ({"name": "cosine", "milestones": (1,)}, "milestones belong to name='step'"),
        ({"name": "step", "milestones": (3, 1)}, "must grow"),
        ({"warmup": -1}, "warmup=-1 must be at least 0"),
    ],
)
def test_bad_schedules(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schedule(**options)  # type: ignore[arg-type]
