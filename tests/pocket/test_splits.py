"""Who may look at which pocket people."""

import itertools

from hypersphere.pocket import TEST, TRAINING, TUNING, VALIDATION


def test_no_two_splits_share_a_person() -> None:
    for one, other in itertools.combinations((TRAINING, VALIDATION, TEST, TUNING), 2):
        assert one.stop <= other.start
