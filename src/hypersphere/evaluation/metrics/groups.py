"""Error rates within and across groups of people (ISO/IEC 19795-10's differential performance), worst first."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hypersphere.core import nearest, read_bounded
from hypersphere.evaluation.arrays import Ints, labels_for
from hypersphere.evaluation.metrics.calibrate import drawn_pairs, weighed
from hypersphere.evaluation.statistics.bootstrap import percentile_estimate, subject_draws
from hypersphere.evaluation.statistics.estimate import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = "across groups"
_LARGEST_LIST = 2**26


@dataclass(frozen=True)
class GroupRate:
    """An error rate of one group.

    Args:
        group: its name, or `across groups` for comparisons of people of two groups.
        people: of the group who are compared.
        comparisons: pairs of images.
        errors: how many of them are decided wrongly.
        rate: their share, with a 95 % interval over people.
    """

    group: str
    people: int
    comparisons: int
    errors: int
    rate: Estimate


def rates_by_group(
    wrong: npt.ArrayLike,
    left: npt.ArrayLike,
    right: npt.ArrayLike,
    groups: Sequence[str],
    *,
    replicates: int = 1000,
    seed: int = 0,
) -> list[GroupRate]:
    """Return the share of wrong decisions within each group and across groups, the worst group first.

    Of impostor pairs these are false-match rates, of genuine pairs false-non-match rates. Pairs of people whose group
    is not known are left out.

    Args:
        wrong: (pairs,) whether each was decided wrongly.
        left, right: (pairs,) whole numbers: the person on the first and on the second image.
        groups: the group of person 0, 1, ...; an empty name where it is not known.
        replicates, seed: of the bootstrap over people.

    Example:
        >>> rates = rates_by_group([True, False, False], [0, 1, 0], [1, 2, 2], ["a", "a", "b"])
        >>> [(group_rates.group, group_rates.errors, group_rates.comparisons) for group_rates in rates]
        [('a', 1, 1), ('across groups', 0, 2)]
    """
    errors = np.asarray(wrong, dtype=bool)
    first, second = (labels_for(name, side, len(errors)) for name, side in (("left", left), ("right", right)))
    names = np.asarray(groups)
    if len(first) and max(first.max(), second.max()) >= len(names):
        raise ValueError(f"groups has {len(names)} entries, but there is a person {max(first.max(), second.max())}")
    same = names[first] == names[second]
    known = (names[first] != "") & (names[second] != "")
    parts = [(str(name), same & (names[first] == name)) for name in np.unique(names) if name]
    parts = [(name, part) for name, part in [*parts, (ACROSS, known & ~same)] if part.any()]
    if not parts:
        raise ValueError("no pair of people whose groups are known")
    rates = [_rate(name, errors, first, second, part, replicates, seed) for name, part in parts]
    return sorted(rates, key=lambda each: (each.group == ACROSS, -each.rate.value))


def _rate(
    name: str, errors: npt.NDArray[np.bool_], first: Ints, second: Ints, part: npt.NDArray[np.bool_], *draws: int
) -> GroupRate:
    people, numbered = np.unique(np.concatenate([first[part], second[part]]), return_inverse=True)
    left, right, wrong = numbered[: part.sum()], numbered[part.sum() :], errors[part]
    total, missed = weighed(left, right, len(people)), weighed(left[wrong], right[wrong], len(people))
    shares = []
    for drawn in subject_draws(len(people), *draws):
        compared = drawn_pairs(drawn, total)
        shares.append(drawn_pairs(drawn, missed) / compared if compared else np.nan)
    value, count = int(wrong.sum()), int(part.sum())
    rate = percentile_estimate(value / count, np.array(shares), count, len(people), "bootstrap over subjects")
    return GroupRate(name, len(people), count, value, rate)


def read_groups(path: str | Path, column: str | None = None) -> dict[str, str]:
    """Return the group of each image from a CSV: by the name in its first column, without folder and ending.

    Groups are read, never guessed: an image whose cell is empty has none.

    Args:
        path: with a first line that names the columns.
        column: the group's; the second by default.
    """
    path = Path(path)
    text = read_bounded(path, _LARGEST_LIST, "CSV").decode("utf-8", "replace")
    rows = csv.reader(io.StringIO(text))
    header = next(rows, [])
    if len(header) < 2:
        raise ValueError(f"{path}: its first line must name at least two columns, the image's and a group's")
    column = header[1] if column is None else column
    if column not in header[1:]:
        raise ValueError(f"{path}: there is no column {column!r}; {nearest(column, header[1:])}")
    place, groups = header.index(column), dict[str, str]()
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(header):
            raise ValueError(f"{path}, line {line}: {len(row)} cells; the first line names {len(header)} columns")
        name = Path(row[0]).stem
        if groups.setdefault(name, row[place]) != row[place]:
            raise ValueError(f"{path}, line {line}: {row[0]!r} is in two groups")
    return groups


def draw_groups(rates: Sequence[GroupRate], title: str) -> Figure:
    """Draw the rates with their intervals, the worst group at the top."""
    from hypersphere.plots import COLORS, new_figure

    figure = new_figure(6.4, 1.2 + 0.35 * len(rates))
    axes = figure.subplots()
    heights = np.arange(len(rates))[::-1]
    values = np.array([100 * group_rates.rate.value for group_rates in rates])
    low, high = (100 * np.array([getattr(group_rates.rate, side) for group_rates in rates]) for side in ("low", "high"))
    axes.errorbar(values, heights, xerr=[values - low, high - values], fmt="o", color=COLORS[0], capsize=3)
    axes.set_yticks(heights, [f"{group_rates.group} ({group_rates.people:,} people)" for group_rates in rates])
    axes.set_xlim(left=0)
    axes.set_xlabel(title)
    return figure
