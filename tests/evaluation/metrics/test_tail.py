import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.evaluation import roc_curve
from hypersphere.evaluation.metrics.tail import HighestScores, tail_roc

BLOCKS = st.lists(st.lists(st.integers(-20, 20), max_size=30), min_size=1, max_size=6).filter(any)


@settings(deadline=None)
@given(BLOCKS, st.lists(st.integers(-20, 20), min_size=1, max_size=20), st.integers(1, 40))
def test_the_tail_of_a_curve_is_that_of_the_whole(blocks: list[list[int]], genuine: list[int], keep: int) -> None:
    highest = HighestScores(keep)
    for block in blocks:
        highest.add(np.array(block, dtype=np.float32))
    everything = np.array([score for block in blocks for score in block], dtype=np.float32)
    own = np.array(genuine, dtype=np.float32)
    assert highest.total == len(everything)
    assert highest.values().tolist() == sorted(everything.tolist())[-keep:]
    whole = roc_curve(np.append(own, everything), np.arange(len(own) + len(everything)) < len(own))
    part = tail_roc(own, highest)
    for allowed in range(min(keep, len(everything))):
        far = allowed / len(everything)
        assert part.tar_at(far) == whole.tar_at(far)
    assert (part.impostors, part.genuine) == (len(everything), len(own))


def test_many_blocks_are_kept_small() -> None:
    rng = np.random.default_rng(0)
    highest = HighestScores(50)
    scores = rng.normal(size=(400, 100)).astype(np.float32)
    for block in scores.reshape(40, 10, 100):
        highest.add(block)
        assert highest._waiting < 2 * 50 + 1024 + 1000
    assert highest.values().tolist() == np.sort(scores.ravel())[-50:].tolist()


def test_a_curve_needs_both_kinds() -> None:
    with pytest.raises(ValueError, match="pairs of one person and of pairs of two"):
        tail_roc([1.0], HighestScores(3))
    with pytest.raises(ValueError, match="keep=0"):
        HighestScores(0)
