"""A pocket small enough for tests."""

from collections.abc import Iterator

import pytest

from hypersphere.reproduce.experiment import evidence, measure, painted


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fewer people, pairs and new images to test with."""
    evidence._unseen_subjects.cache_clear()
    monkeypatch.setattr(painted, "NEW_IMAGES", 2)
    monkeypatch.setattr(painted, "UNSEEN", 20)
    monkeypatch.setattr(measure, "UNSEEN", 20)
    monkeypatch.setattr(measure, "PAIRS", 40)
    monkeypatch.setattr(measure._Labelled, "labels", painted.unseen_labels())
    yield
    evidence._unseen_subjects.cache_clear()
