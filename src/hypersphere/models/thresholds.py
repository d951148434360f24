"""Thresholds of a model, each with the false-match rate it was calibrated for: the file `thresholds.json` beside it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from hypersphere.core import build, check_range, read_json, write_atomically
from hypersphere.models.model_file import STARTER, STARTER_FOLDER

THRESHOLDS_FILE = "thresholds.json"


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

    def at(self, fmr: float) -> Threshold:
        """The row of the largest rate that is not above `fmr`; ValueError where the table has none.

        Example:
            >>> round(load_thresholds("starter").at(1e-3).threshold, 2)
            0.58
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
    table = read_json(place)
    if not isinstance(table, dict):
        raise ValueError(f"{place}: expected a table of thresholds")
    try:
        return build(ThresholdTable, table)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def save_thresholds(table: ThresholdTable, path: str | Path) -> None:
    """Write a table as JSON, whole or not at all."""
    write_atomically(path, f"{json.dumps(dataclasses.asdict(table), indent=1)}\n".encode())
