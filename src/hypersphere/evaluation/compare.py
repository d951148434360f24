"""Two results of the same data side by side, with paired tests."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import Reporter
from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.figures import Figure, NotMeasurable
from hypersphere.evaluation.paired import Difference, compare_means, compare_tar, mcnemar
from hypersphere.evaluation.report import figure_cells, flat
from hypersphere.evaluation.results import SCHEMA
from hypersphere.plots import Page, points

_DECISIONS = {"accuracy": "right", "rank-1": "right", "accuracy_hik_svm": "right_hik_svm"}
"""The items that say, one by one, what a figure counts."""


@dataclass(frozen=True)
class SavedResult:
    """A result read back.

    Args:
        folder: where it lies.
        table: of result.json.
        metrics: its figures.
        items: the outcome of every item, where they were saved.
    """

    folder: Path
    table: Mapping[str, Any]
    metrics: Mapping[str, Figure | NotMeasurable]
    items: Mapping[str, Array]


@dataclass(frozen=True)
class ComparedMetric:
    """A metric of two results; `difference`, second minus first, where a paired test could be made."""

    name: str
    first: Figure | NotMeasurable
    second: Figure | NotMeasurable
    difference: Difference | None


def read_result(folder: str | Path) -> SavedResult:
    """The result in a folder, or of the path of its result.json."""
    path = Path(folder)
    path = path if path.name == "result.json" else path / "result.json"
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file; give the folder of an evaluation") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not JSON ({error})") from None
    if not isinstance(table, dict) or table.get("schema") != SCHEMA:
        raise ValueError(f"{path}: not a result of schema {SCHEMA}")
    try:
        metrics = {name: _figure(entry) for name, entry in table["metrics"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: its metrics are damaged ({error})") from None
    return SavedResult(path.parent, table, metrics, _items(path.with_name("items.npz")))


def compare_results(
    first: SavedResult, second: SavedResult, *, replicates: int = 1000, progress: Reporter | None = None
) -> list[ComparedMetric]:
    """The metrics that both have, with tests where decisions and scores of the same items are known.

    `accuracy` and rank 1 get McNemar's exact test, TAR and mAP the paired bootstrap, over subjects where known.

    Args:
        first, second: of the same protocol and the same items.
        replicates: of the bootstrap.
        progress: called as `progress(done, total)`.
    """
    for key, what in (("protocol", "protocols"), ("items_digest", "pairs (lists, folds or missing images differ)")):
        if first.table[key] != second.table[key]:
            raise ValueError(f"{first.folder} and {second.folder} are results of different {what}; nothing is paired")
    names = [name for name in first.metrics if name in second.metrics]
    rows = []
    for done, name in enumerate(names, start=1):
        one, two = first.metrics[name], second.metrics[name]
        rows.append(ComparedMetric(name, one, two, _difference(name, first.items, second.items, replicates)))
        if progress is not None:
            progress(done, len(names))
    return rows


def write_comparison(rows: list[ComparedMetric], first: SavedResult, second: SavedResult, folder: str | Path) -> Path:
    """Write `compare.html`; returns its path."""
    page = Page(f"{first.folder.name} and {second.folder.name}", f"Two results of {first.table['protocol']}")
    page.heading("Figures")
    cells = [
        [row.name, *(figure_cells(row.name, figure)[0] for figure in (row.first, row.second)), *difference_cells(row)]
        for row in rows
    ]
    page.table(
        ["metric", first.folder.name, second.folder.name, "second - first, points", "p", "test"],
        cells,
        "Differences in percentage points with 95 % intervals; p is two-sided, of no difference. A test is made where "
        "decisions or scores of the same pairs are known.",
    )
    page.heading("Options that differ")
    options = [flat(result.table["options"]) for result in (first, second)]
    keys = [key for key in {**options[0], **options[1]} if options[0].get(key) != options[1].get(key)]
    page.table(["option", "first", "second"], [[key, *(one.get(key, "") for one in options)] for key in keys])
    return page.save(Path(folder) / "compare.html")


def difference_cells(row: ComparedMetric) -> list[str]:
    """Difference, p and test, in words."""
    if row.difference is None:
        return ["", "", ""]
    figure = row.difference.figure
    return [points(figure.value, figure.low, figure.high), f"{row.difference.p_value:.3g}", row.difference.test]


def _difference(name: str, one: Mapping[str, Array], two: Mapping[str, Array], replicates: int) -> Difference | None:
    shared = set(one) & set(two)
    if name in _DECISIONS and _DECISIONS[name] in shared:
        return mcnemar(one[_DECISIONS[name]], two[_DECISIONS[name]])
    if name == "map" and "average_precisions" in shared:
        people = one["left_subject"], one["right_subject"]
        precisions = one["average_precisions"], two["average_precisions"]
        return compare_means(*precisions, subjects=people, replicates=replicates)
    if name.startswith("tar@far=") and {"scores", "same"} <= shared:
        far = float(name.removeprefix("tar@far="))
        subjects = (one["left_subject"], one["right_subject"]) if "left_subject" in one else None
        found = compare_tar(one["scores"], two["scores"], one["same"], far, subjects=subjects, replicates=replicates)
        return None if isinstance(found, NotMeasurable) else found
    return None


def _figure(entry: Mapping[str, Any]) -> Figure | NotMeasurable:
    if entry.get("not_measurable"):
        return NotMeasurable(int(entry["n"]), int(entry["needed"]))
    value, low, high = (float(entry[key]) for key in ("value", "low", "high"))
    if not all(map(math.isfinite, (value, low, high))):
        raise KeyError("a value that is not finite")
    return Figure(value, low, high, int(entry["n"]), str(entry["interval"]))


def _items(path: Path) -> dict[str, Array]:
    if not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as items:
            return {name: items[name] for name in items.files}
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path}: damaged ({error})") from None
