"""The last lines of a test run: what was skipped, and why."""

from tests.conftest import skipped_lines


def test_each_reason_is_said_once_with_its_count() -> None:
    reasons = ["Skipped: no browser", "Skipped: needs a GPU", "Skipped: no browser"]
    assert skipped_lines(reasons) == ["skipped 2: no browser", "skipped 1: needs a GPU"]
    assert skipped_lines([]) == []
