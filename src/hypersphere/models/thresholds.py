"""Thresholds of a model, each with the false-match rate it was calibrated for: the file `thresholds.json` beside it."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hypersphere.core import (
    build,
    check_flag,
    check_integer,
    check_range,
    check_rising,
    read_sealed,
    sealed_text,
    write_atomically,
)
from hypersphere.models.catalogue import STARTER, STARTER_FOLDER

C = TypeVar("C")
THRESHOLDS_FILE = "thresholds.json"
_ROUNDING = 1e-5
"""Cosines of unit vectors in single precision may lie so far beyond -1 and 1."""
_EXACT = 1e-9


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """One row: accept a pair if the cosine of its unit vectors is at least `threshold`.

    Args:
        fmr: the false-match rate that was asked for; the set's own is not above it.
        threshold: the cosine.
        false_matches: impostor pairs of the set that are accepted.
        fmr_low, fmr_high: 95 % interval of the false-match rate at this threshold, over people.
        fnmr, fnmr_low, fnmr_high: the false-non-match rate there, with the same interval.
        indicative: fewer than 30 false matches would be expected at `fmr` (the rule of 30): take it as a hint.
    """

    fmr: float
    threshold: float
    false_matches: int
    fmr_low: float
    fmr_high: float
    fnmr: float
    fnmr_low: float
    fnmr_high: float
    indicative: bool

    def __post_init__(self) -> None:
        check_range("fmr", self.fmr, 1e-12, 1)
        check_cosine("threshold", self.threshold)
        check_integer("false_matches", self.false_matches, 0)
        check_rising("fmr_low, fmr_high", (self.fmr_low, self.fmr_high), 0, 1)
        check_rising("fnmr_low, fnmr, fnmr_high", (self.fnmr_low, self.fnmr, self.fnmr_high), 0, 1)
        check_flag("indicative", self.indicative)


@dataclass(frozen=True, kw_only=True)
class ThresholdTable:
    """The thresholds of a model and the set of people they were calibrated on.

    Args:
        model: digest of the model's weights, as its contract has it.
        people: which people, in words.
        digest: SHA-256 over names and bytes of their images.
        identities, images: how many.
        genuine, impostors: pairs of one person, and of two.
        method: how intervals were made.
        thresholds: the rows, by falling rate.
    """

    model: str
    people: str
    digest: str
    identities: int
    images: int
    genuine: int
    impostors: int
    method: str
    thresholds: tuple[Threshold, ...]

    def __post_init__(self) -> None:
        for name, least in (("identities", 2), ("images", 0), ("genuine", 1), ("impostors", 1)):
            check_integer(name, getattr(self, name), least)
        rows = self.thresholds
        if not rows:
            raise ValueError("thresholds is an empty list")
        check_rising("fmr, from the last row to the first", [row.fmr for row in rows[::-1]], 0, 1, strictly=True)
        check_rising("threshold", [row.threshold for row in rows], -2, 2)
        check_rising("fnmr", [row.fnmr for row in rows], 0, 1)
        for row in rows:
            self._check_counts(row)

    def _check_counts(self, row: Threshold) -> None:
        """Raise ValueError unless the rates of a row are those of its false matches among the impostor pairs."""
        expected, measured = row.fmr * self.impostors, row.false_matches / self.impostors
        if not row.fmr_low - _EXACT <= measured <= min(row.fmr_high, row.fmr) + _EXACT or expected < 3 * (1 - _EXACT):
            raise ValueError(
                f"false_matches={row.false_matches:,} of {self.impostors:,} impostor pairs does not fit "
                f"fmr={row.fmr:g} with the interval [{row.fmr_low:g}, {row.fmr_high:g}]"
            )
        if row.indicative != (expected < 30):
            raise ValueError(
                f"indicative={row.indicative} where {expected:.1f} false matches are expected (rule of 30)"
            )

    def at(self, fmr: float) -> Threshold:
        """The row of the largest rate that is not above `fmr`; ValueError where the table has none.

        Example:
            >>> round(load_thresholds("starter").at(1e-3).threshold, 2)
            0.43
        """
        check_range("fmr", fmr, 0, 1)
        for row in self.thresholds:
            if row.fmr <= fmr * (1 + 1e-9):
                return row
        least = self.thresholds[-1].fmr
        raise ValueError(f"fmr={fmr:g} is below {least:g}, the smallest rate that {self.impostors:,} pairs support")


def load_thresholds(path: str | Path) -> ThresholdTable:
    """The thresholds of a model.

    Args:
        path: `thresholds.json`, the folder that holds it, or `"starter"`.
    """
    place = STARTER_FOLDER if path == STARTER else Path(path)
    place = place / THRESHOLDS_FILE if place.is_dir() else place
    return read_calibrated(place, ThresholdTable, "table of thresholds")


def save_thresholds(table: ThresholdTable, path: str | Path) -> None:
    """Write a table as JSON with its seal, whole or not at all."""
    write_atomically(path, sealed_text(dataclasses.asdict(table), indent=1))


def read_calibrated(path: Path, schema: type[C], kind: str) -> C:
    """Read a sealed file that decisions rest on; one without a seal is read with a warning.

    Such files were written before there were seals. Their numbers are checked as those of others are, so they need not
    be measured again at once; but nobody can tell whether they were changed.
    """
    table, sealed = read_sealed(path, kind)
    try:
        calibrated = build(schema, table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not sealed:
        warnings.warn(
            f"{path}: this {kind} has no seal, so nobody can tell whether it was changed after it was measured; "
            "`hypersphere calibrate` writes a sealed one",
            RuntimeWarning,
            stacklevel=2,
        )
    return calibrated


def check_cosine(name: str, value: float) -> None:
    """Raise ValueError unless a number can be the cosine of two unit vectors in single precision."""
    check_range(name, value, -1 - _ROUNDING, 1 + _ROUNDING)
