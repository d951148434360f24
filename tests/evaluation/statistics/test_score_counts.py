"""Counted scores give the integers of scores in memory, whatever the blocks, pages and ties."""

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

from hypersphere.evaluation import (
    ScoreCounts,
    SortedScores,
    accuracy_at,
    roc_curve,
    roc_from,
    score_histogram,
)
from hypersphere.evaluation.statistics import score_counts as counting

ANY = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(-1, 1, width=32),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.25, 0.5]),
)
SCORES = arrays(np.float32, st.integers(1, 80), elements=ANY)


def counted(scores: np.ndarray, buffer_size: int) -> ScoreCounts:
    counts = ScoreCounts(buffer_size)
    for part in np.array_split(scores, 3):
        counts.add(part)
    return counts


def same_curves(genuine: np.ndarray, impostors: np.ndarray, buffer_size: int) -> None:
    expected = roc_from(SortedScores(genuine), SortedScores(impostors))
    found = roc_from(counted(genuine, buffer_size), counted(impostors, buffer_size))
    np.testing.assert_array_equal(found.thresholds, expected.thresholds)
    np.testing.assert_array_equal(found.false_accepts, expected.false_accepts)
    np.testing.assert_array_equal(found.true_accepts, expected.true_accepts)
    assert (found.genuine, found.impostors) == (expected.genuine, expected.impostors)


@pytest.fixture(params=[1, 3, 1 << 15], ids=["counters", "both", "lists"])
def _pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_LIST", request.param)


@pytest.mark.usefixtures("_pages")
class TestAgainstMemory:
    @settings(deadline=None, max_examples=40)
    @given(SCORES, SCORES, st.integers(1, 50))
    def test_curves_are_identical(self, genuine: np.ndarray, impostors: np.ndarray, buffer_size: int) -> None:
        same_curves(genuine, impostors, buffer_size)

    @settings(deadline=None, max_examples=40)
    @given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-1, 1)), SCORES)
    def test_genuine_scores_may_be_finer(self, genuine: np.ndarray, impostors: np.ndarray) -> None:
        near = np.nextafter(impostors.astype(np.float64), np.inf)[:5]
        held = SortedScores(np.concatenate([genuine, near]))
        truth = np.arange(held.total + len(impostors)) < held.total
        expected = roc_curve(np.concatenate([held.values, impostors]), truth)
        for other in (counted(impostors, 7), SortedScores(impostors)):
            found = roc_from(held, other)
            np.testing.assert_array_equal(found.thresholds, expected.thresholds)
            np.testing.assert_array_equal(found.false_accepts, expected.false_accepts)

    @settings(deadline=None, max_examples=40)
    @given(SCORES, arrays(np.float64, 5, elements=st.floats(allow_nan=False)), st.integers(1, 50))
    def test_counts_at_any_threshold(self, scores: np.ndarray, thresholds: np.ndarray, buffer_size: int) -> None:
        wanted = np.concatenate([thresholds, scores.astype(np.float64)])
        counts = counted(scores, buffer_size)
        expected = [sum(float(score) >= threshold for score in scores) for threshold in wanted]
        assert counts.at_least(wanted).tolist() == expected
        assert SortedScores(scores).at_least(wanted).tolist() == expected
        assert counts.total == len(scores)
        assert counts.distinct().tolist() == sorted(set(scores.tolist()))
        ordered = sorted(scores.tolist(), reverse=True)
        assert [counts.kth_largest(k + 1) for k in range(len(ordered))] == ordered

    def test_many_ties_and_signs(self) -> None:
        generator = np.random.default_rng(0)
        genuine = np.round(generator.normal(0.3, 0.2, 3000), 2).astype(np.float32)
        impostors = np.concatenate([np.zeros(70_000), generator.normal(0, 0.05, 20_000)]).astype(np.float32)
        same_curves(genuine, impostors, 4096)


def test_a_page_that_fills_becomes_counters_that_widen() -> None:
    scores = np.repeat(np.float32([0.5, 0.50001, 0.7]), [70_000, 300, 5])
    counts = counted(np.random.default_rng(0).permutation(scores), 10_000)
    assert counts.at_least([0.0, 0.500005, 0.6, 0.8]).tolist() == [70_305, 305, 5, 0]
    assert max(page.dtype.itemsize for page in counts._pages.values()) == 4


def test_accuracy_and_histogram_of_either() -> None:
    generator = np.random.default_rng(2)
    genuine = np.clip(generator.normal(0.4, 0.2, 500), -1, 1).astype(np.float32)
    impostors = np.clip(generator.normal(0.0, 0.2, 900), -1, 1).astype(np.float32)
    edges = np.linspace(-1, 1, 41)
    for kind in (SortedScores, lambda x: counted(x, 128)):
        one, two = kind(genuine), kind(impostors)
        assert accuracy_at(one, two, 0.21).value == ((genuine >= 0.21).sum() + (impostors < 0.21).sum()) / 1400
        histogram = score_histogram(one, two, edges)
        np.testing.assert_array_equal(histogram.genuine, np.histogram(genuine.astype(float), edges)[0])
        np.testing.assert_array_equal(histogram.impostors, np.histogram(impostors.astype(float), edges)[0])
        assert histogram.outside == 0
        assert score_histogram(one, two, [-1, 0]).outside == (genuine > 0).sum() + (impostors > 0).sum()


def test_bad_blocks() -> None:
    counts = ScoreCounts(4)
    counts.add(np.float32([1, 2, 3]))
    with pytest.raises(ValueError, match="first in position 4"):
        counts.add(np.float32([1, math.nan]))
    with pytest.raises(ValueError, match="must be float32"):
        counts.add(np.array([0.1]))
    assert counts.total == 3
    with pytest.raises(ValueError, match="k=4 must lie between 1"):
        counts.kth_largest(4)
    with pytest.raises(ValueError, match="genuine holds no score"):
        roc_from(ScoreCounts(), counts)
    with pytest.raises(ValueError, match="rising"):
        score_histogram(counts, counts, [0, 0])


STREAM = """
import json, re, sys
from pathlib import Path
import numpy as np
from hypersphere.evaluation import ScoreCounts, roc_from
generator = np.random.default_rng(7)
genuine, impostors = ScoreCounts(), ScoreCounts()
genuine.add((generator.standard_normal(100_000, dtype=np.float32) * 0.1 + 0.3).astype(np.float32))
for _ in range(100):
    impostors.add(generator.standard_normal(1_000_000, dtype=np.float32) * np.float32(0.06))
roc = roc_from(genuine, impostors)
np.savez(sys.argv[1], thresholds=roc.thresholds, false_accepts=roc.false_accepts, true_accepts=roc.true_accepts)
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"peak": peak, "values": [roc.auc(), roc.eer(), roc.tar_at(1e-6)]}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_hundred_million_impostors_within_a_gigabyte(tmp_path: Path) -> None:
    """The peak is that of the process's own memory: getrusage's is inherited from the process that started it."""
    source = str(Path(counting.__file__).parents[2])
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
