"""Damaged input of every kind: an answer that is right, or an error of the library's own that names what is wrong."""

import sys
from collections.abc import Iterator

import pytest

from tests.fuzz.pool import OUTCOMES, Pool, generator, open_pool
from tests.fuzz.surfaces import SELF_TEST, SURFACES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of child processes are those of Linux")
SEED = 0


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with open_pool() as opened:
        yield opened


@pytest.mark.parametrize("surface", SURFACES)
def test_damaged_input_is_answered_or_refused(surface: str, pool: Pool) -> None:
    tally = pool.run(surface, SEED, 0, SURFACES[surface].inputs)
    assert tally.inputs == SURFACES[surface].inputs
    shown = [f"--only {each['number']}: {each['outcome']}, {each['detail']}" for each in tally.failures[:10]]
    again = f"python -m tests.fuzz --surface '{surface}' --seed {SEED} "
    assert tally.counts["clean"] == tally.inputs, f"{tally.counts}\n" + "\n".join(again + line for line in shown)


def test_there_are_as_many_inputs_as_promised() -> None:
    assert sum(surface.inputs for surface in SURFACES.values()) >= 20_000


def test_every_failure_is_seen_and_put_down_to_its_input(pool: Pool) -> None:
    """Of a surface that fails in every way: its inputs are made again, one by one, and their outcomes expected."""
    ways = ("clean", "clean", "other", "silent", "crash", "hang", "memory", "other")
    seed = 71
    expected = [ways[generator(SELF_TEST.name, seed, number).randrange(8)] for number in range(10)]
    tally = pool.run(SELF_TEST.name, seed, 0, len(expected), cpu_seconds=1)
    assert tally.counts == {name: expected.count(name) for name in OUTCOMES}
    assert set(expected) == set(OUTCOMES)
    seen = {failure["number"]: failure["outcome"] for failure in tally.failures}
    assert seen == {number: outcome for number, outcome in enumerate(expected) if outcome != "clean"}
