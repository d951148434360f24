import numpy as np
import pytest
from sklearn.svm import SVC

from hypersphere.evaluation.protocols.ytf.svm import intersection_kernel, train_svm


def histograms(count: int = 120, bins: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    same = rng.random(count) < 0.5
    samples = rng.normal(np.where(same, 0.25, 0.0)[:, None], 0.25, (count, 15)).clip(-1, 1)
    return np.array([np.histogram(row, bins, (-1, 1))[0] / 15 for row in samples]), same


def test_the_kernel_is_that_of_plain_loops() -> None:
    rows, _ = histograms(12)
    wanted = [[sum(min(a, b) for a, b in zip(x, y, strict=True)) for y in rows[:7]] for x in rows]
    np.testing.assert_allclose(intersection_kernel(rows, rows[:7]), wanted, rtol=1e-14)


@pytest.mark.parametrize("cost", [0.01, 1.0, 100.0])
def test_decisions_are_those_of_libsvm(cost: float) -> None:
    rows, same = histograms()
    kernel = intersection_kernel(rows, rows)
    taught = slice(0, 80)
    peer = SVC(C=cost, kernel="precomputed", tol=1e-8).fit(kernel[taught, taught], same[taught])
    machine = train_svm(kernel[taught, taught], same[taught], cost, tolerance=1e-8)
    wanted = peer.decision_function(kernel[80:, taught])
    np.testing.assert_allclose(machine.decide(kernel[80:, taught]), wanted, atol=1e-5 * max(1, cost))
    assert (np.sign(machine.decide(kernel[80:, taught])) == np.sign(wanted)).all()


def test_the_solution_satisfies_the_optimality_conditions() -> None:
    rows, same = histograms(60, seed=3)
    kernel = intersection_kernel(rows, rows)
    machine = train_svm(kernel, same, 1.0, tolerance=1e-9)
    sign = np.where(same, 1, -1)
    alpha, value = machine.coefficients * sign, sign * machine.decide(kernel)
    assert abs(machine.coefficients.sum()) < 1e-9
    assert ((alpha >= 0) & (alpha <= 1)).all()
    assert (value[alpha == 0] >= 1 - 1e-8).all()
    assert (value[alpha == 1] <= 1 + 1e-8).all()
    np.testing.assert_allclose(value[(alpha > 0) & (alpha < 1)], 1, atol=1e-8)


def test_two_samples_and_equal_samples_work() -> None:
    kernel = np.array([[1.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(train_svm(kernel, [True, False], 100).decide(kernel), [1, -1])
    machine = train_svm(np.ones((4, 4)), [True, True, False, True], 1.0)
    assert np.isfinite(machine.decide(np.ones((1, 4)))).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positive": [True, True]}, "both classes"),
        ({"cost": 0}, "cost=0 must be positive"),
        ({"kernel": np.ones((2, 3))}, "must be square"),
        ({"steps": 1, "kernel": np.eye(4), "positive": [True, False, True, False]}, "no solution within steps=1"),
    ],
)
def test_wrong_arguments_are_refused(change: dict, message: str) -> None:
    arguments = {"kernel": np.eye(2), "positive": [True, False], "cost": 1.0} | change
    with pytest.raises(ValueError, match=message):
        train_svm(**arguments)
