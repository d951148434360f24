"""Whether photos that are enrolled together are of one person."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hypersphere.recognition import Calibration, pool_template
from hypersphere.service.problems import refused

_FMR = 0.01


def check_one_person(units: Sequence[npt.NDArray[np.float32]], calibration: Calibration) -> None:
    """Refuse photos of which one is unlike the others together, at a false-match rate of 0.01.

    A template of two people's photos would match both. Photos of one person that are refused so are as unlike as those
    of two: the template would be a bad one.
    """
    rates = [row for row in calibration.table.thresholds if row.fmr <= _FMR]
    if len(units) < 2 or not rates:
        return
    row = max(rates, key=lambda row: row.fmr)
    for number, unit in enumerate(units, start=1):
        others = [each for index, each in enumerate(units, start=1) if index != number]
        if float(pool_template(np.stack(others)) @ unit) < row.threshold:
            message = (
                f"photo {number} is not of the person on the others, at an FMR of {row.fmr:g}; send photos of one "
                "person, or leave this one out"
            )
            raise refused(422, "different_people", message, photo=number)
