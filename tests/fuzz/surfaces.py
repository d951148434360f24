"""All surfaces by name, and one that fails in every way, for a test of the pool."""

import mmap
import os
import random
from pathlib import Path

from tests.fuzz.call_surfaces import CALLS
from tests.fuzz.data_surfaces import DATA
from tests.fuzz.hostile_surfaces import HOSTILE
from tests.fuzz.measure_surfaces import MEASURES
from tests.fuzz.people_surfaces import PEOPLE_SURFACES
from tests.fuzz.run_surfaces import RUNS
from tests.fuzz.surface import CallSurface, Surface

SURFACES: dict[str, Surface] = {
    surface.name: surface for surface in (*RUNS, *DATA, *MEASURES, *PEOPLE_SURFACES, *CALLS, *HOSTILE)
}


def _fail(rng: random.Random, folder: Path) -> str | None:
    """Fail by the number of the draw: 0 and 1 are clean."""
    way = rng.randrange(8)
    if way == 1:
        raise ValueError("margin=-1 must be positive")
    if way == 2:
        raise KeyError("margin")
    if way == 3:
        return "a wrong answer"
    if way == 4:
        os.abort()
    while way == 5:
        pass
    if way == 6:
        mmap.mmap(-1, 1 << 30).close()
    if way == 7:
        raise ValueError("must be positive")
    return None


SELF_TEST = CallSurface("self test", 0, _fail, "", words=("margin",))
