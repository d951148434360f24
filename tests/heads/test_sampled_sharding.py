"""Every process samples its own classes: the same numbers as one process has on the classes sampled by all."""

import pytest

from tests.heads.sampled_worker import MOST, everything
from tests.heads.shard_worker import run_once

Found = list[dict[str, dict[str, float]]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    made: Found = run_once(everything, tmp_path_factory, MOST)
    return made


@pytest.mark.parametrize(("part", "least"), [("equality", 200), ("subset", 40), ("unbiased", 10), ("training", 50)])
def test_errors(found: Found, part: str, least: int) -> None:
    """`equality`: a sample of everything; `subset`: of some classes; `unbiased`: the mean over all samples;
    `training`: steps of RowSGD and RowAdamW, and only of the sampled rows."""
    assert len(found[0][part]) >= least
    wrong = {what: value for each in found for what, value in each[part].items() if not value < 1e-11}
    assert not wrong, f"{len(wrong)} errors, such as {list(wrong.items())[:12]}"
