"""What is saved of single items, so that two results can be compared by paired tests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.arrays import Array

VALUE, SUBJECT, TRIALS, OPEN_SET, MATED = "value:", "subject:", "trials:", "open_set:", "mated:"
"""How the names of items begin: each item's share in a metric, and whose it is; a metric by trials; scores of an open
set by gallery, and which probes have a mate there."""


def outcomes(values: Mapping[str, npt.ArrayLike], subjects: npt.ArrayLike | None = None) -> dict[str, Array]:
    """Items of metrics that are means over items.

    Args:
        values: by metric, (n,) numbers whose mean it is, such as whether each decision is right.
        subjects: (n,) whose items they are; None where every item stands for itself.
    """
    items = {f"{VALUE}{name}": np.asarray(each) for name, each in values.items()}
    if subjects is not None:
        items |= {f"{SUBJECT}{name}": np.asarray(subjects) for name in values}
    return items
