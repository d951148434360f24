"""Sorted scores, held or filled in blocks: counts at any threshold, curves, accuracy and histograms."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import hypersphere
from hypersphere.evaluation import (
    ScoreBuffer,
    SortedScores,
    accuracy_at,
    roc_curve,
    roc_from,
    score_histogram,
)

ANY = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(-1, 1, width=32),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.25, 0.5]),
)
SCORES = arrays(np.float32, st.integers(1, 80), elements=ANY)


def in_blocks(scores: np.ndarray) -> SortedScores:
    buffer = ScoreBuffer(len(scores))
    for part in np.array_split(scores, 3):
        buffer.add(part)
    return buffer.sorted()


def same_curves(genuine: np.ndarray, impostors: np.ndarray) -> None:
    truth = np.arange(len(genuine) + len(impostors)) < len(genuine)
    expected = roc_curve(np.concatenate([genuine, impostors]), truth)
    found = roc_from(in_blocks(genuine), in_blocks(impostors))
    np.testing.assert_array_equal(found.thresholds, expected.thresholds)
    np.testing.assert_array_equal(found.false_accepts, expected.false_accepts)
    np.testing.assert_array_equal(found.true_accepts, expected.true_accepts)
    assert (found.genuine, found.impostors) == (expected.genuine, expected.impostors)


@settings(deadline=None, max_examples=40)
@given(SCORES, SCORES)
def test_curves_are_identical(genuine: np.ndarray, impostors: np.ndarray) -> None:
    same_curves(genuine, impostors)


def test_many_ties_and_signs() -> None:
    generator = np.random.default_rng(0)
    genuine = np.round(generator.normal(0.3, 0.2, 3000), 2).astype(np.float32)
    impostors = np.concatenate([np.zeros(70_000), generator.normal(0, 0.05, 20_000)]).astype(np.float32)
    same_curves(genuine, impostors)


@settings(deadline=None, max_examples=40)
@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-1, 1)), SCORES)
def test_genuine_scores_may_be_finer(genuine: np.ndarray, impostors: np.ndarray) -> None:
    near = np.nextafter(impostors.astype(np.float64), np.inf)[:5]
    held = SortedScores(np.concatenate([genuine, near]))
    truth = np.arange(held.total + len(impostors)) < held.total
    expected = roc_curve(np.concatenate([held.values, impostors]), truth)
    found = roc_from(held, in_blocks(impostors))
    np.testing.assert_array_equal(found.thresholds, expected.thresholds)
    np.testing.assert_array_equal(found.false_accepts, expected.false_accepts)


@settings(deadline=None, max_examples=40)
@given(SCORES, arrays(np.float64, 5, elements=st.floats(allow_nan=False)))
def test_counts_at_any_threshold(scores: np.ndarray, thresholds: np.ndarray) -> None:
    wanted = np.concatenate([thresholds, scores.astype(np.float64)])
    held = in_blocks(scores)
    assert held.at_least(wanted).tolist() == [sum(float(score) >= at for score in scores) for at in wanted]
    assert held.total == len(scores)
    assert held.distinct().tolist() == sorted(set(scores.tolist()))
    ordered = sorted(scores.tolist(), reverse=True)
    assert [held.kth_largest(k + 1) for k in range(len(ordered))] == ordered


def test_accuracy_and_histogram() -> None:
    generator = np.random.default_rng(2)
    genuine = np.clip(generator.normal(0.4, 0.2, 500), -1, 1).astype(np.float32)
    impostors = np.clip(generator.normal(0.0, 0.2, 900), -1, 1).astype(np.float32)
    edges = np.linspace(-1, 1, 41)
    one, two = in_blocks(genuine), SortedScores(impostors)
    assert accuracy_at(one, two, 0.21).value == ((genuine >= 0.21).sum() + (impostors < 0.21).sum()) / 1400
    histogram = score_histogram(one, two, edges)
    np.testing.assert_array_equal(histogram.genuine, np.histogram(genuine.astype(float), edges)[0])
    np.testing.assert_array_equal(histogram.impostors, np.histogram(impostors.astype(float), edges)[0])
    assert histogram.outside == 0
    assert score_histogram(one, two, [-1, 0]).outside == (genuine > 0).sum() + (impostors > 0).sum()
    with pytest.raises(ValueError, match="rising"):
        score_histogram(one, two, [0, 0])


def test_what_was_given_is_sorted_in_place_only_if_asked() -> None:
    given_scores = np.float32([0.5, -1, 0.25])  # type: ignore[arg-type]
    assert SortedScores(given_scores).values.tolist() == [-1, 0.25, 0.5]
    assert given_scores.tolist() == [0.5, -1, 0.25]  # type: ignore[comparison-overlap]
    assert SortedScores(given_scores, copy=False).values is given_scores  # type: ignore[comparison-overlap]
    assert given_scores.tolist() == [-1, 0.25, 0.5]  # type: ignore[comparison-overlap]


def test_bad_blocks() -> None:
    buffer = ScoreBuffer(4)
    buffer.add(np.float32([[1, 2, 3]]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be float32"):
        buffer.add(np.array([0.1]))
    with pytest.raises(ValueError, match="3 scores were added of the 4"):
        buffer.sorted()
    with pytest.raises(ValueError, match="5 scores for a buffer of 4"):
        buffer.add(np.float32([1, 2]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="first in position 3"):
        buffer.add(np.float32([math.nan]))  # type: ignore[arg-type]
    buffer.add(np.float32([0]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k=5 must lie between 1"):
        buffer.sorted().kth_largest(5)
    with pytest.raises(ValueError, match="genuine holds no score"):
        roc_from(ScoreBuffer(0).sorted(), buffer.sorted())


STREAM = """
import json, re, sys
from pathlib import Path
import numpy as np
from hypersphere.evaluation import ScoreBuffer, roc_from
generator = np.random.default_rng(7)
genuine, impostors = ScoreBuffer(100_000), ScoreBuffer(100_000_000)
genuine.add((generator.standard_normal(100_000, dtype=np.float32) * 0.1 + 0.3).astype(np.float32))
for _ in range(100):
    impostors.add(generator.standard_normal(1_000_000, dtype=np.float32) * np.float32(0.06))
roc = roc_from(genuine.sorted(), impostors.sorted())
np.savez(sys.argv[1], thresholds=roc.thresholds, false_accepts=roc.false_accepts, true_accepts=roc.true_accepts)
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)) * 1024
print(json.dumps({"peak": peak, "values": [roc.auc(), roc.eer(), roc.tar_at(1e-6)]}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_hundred_million_impostors_within_a_gigabyte(tmp_path: Path) -> None:
    """The peak is that of the process's own memory: getrusage's is inherited from the process that started it."""
    source = str(Path(hypersphere.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", STREAM, str(tmp_path / "curve.npz")],
        env={"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["peak"] < 1 << 30
    generator = np.random.default_rng(7)
    genuine = (generator.standard_normal(100_000, dtype=np.float32) * 0.1 + 0.3).astype(np.float32)
    blocks = [generator.standard_normal(1_000_000, dtype=np.float32) * np.float32(0.06) for _ in range(100)]
    expected = roc_from(SortedScores(genuine), SortedScores(np.concatenate(blocks)))
    found = np.load(tmp_path / "curve.npz")
    np.testing.assert_array_equal(found["thresholds"], expected.thresholds)
    np.testing.assert_array_equal(found["false_accepts"], expected.false_accepts)
    np.testing.assert_array_equal(found["true_accepts"], expected.true_accepts)
    assert result["values"] == [expected.auc(), expected.eer(), expected.tar_at(1e-6)]
