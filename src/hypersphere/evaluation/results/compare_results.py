"""Two results of the same data side by side, with paired tests."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersphere.core import Reporter, read_json
from hypersphere.core.read_arrays import read_npz
from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.results.metric_tables import estimate_cells, not_measurable
from hypersphere.evaluation.results.origin import origin
from hypersphere.evaluation.results.report import flat
from hypersphere.evaluation.results.result import SCHEMA, now
from hypersphere.evaluation.statistics.choose_test import PairedBy, Pairing, ResultPair
from hypersphere.evaluation.statistics.estimate import Estimate, NotMeasurable, complement
from hypersphere.evaluation.statistics.paired_tests import Difference
from hypersphere.plots import Page, points
from hypersphere.version import __version__

_MISFIT = (ValueError, LookupError, TypeError, ArithmeticError)
NO_TEST = {
    "missing": "not tested: not measurable",
    "fixed": "not tested: a fact of prototypes or a minimum, which estimates nothing",
    "items": "not tested: its single outcomes are not kept",
}
"""Why an estimate of two results stands without a test."""


_NEEDED = {"protocol": str, "items_digest": str, "hypersphere": str, "options": dict}
"""What every result.json has beside its metrics, for comparing and for the head of a page."""


@dataclass(frozen=True)
class SavedResult:
    """A result read back.

    Args:
        folder: where it lies.
        table: of result.json.
        metrics: its estimates.
        items: the outcome of every item, where they were saved.
        pairings: by metric, which test compares it.
    """

    folder: Path
    table: Mapping[str, Any]
    metrics: Mapping[str, Estimate | NotMeasurable]
    items: Mapping[str, Array]
    pairings: Mapping[str, Pairing]


@dataclass(frozen=True)
class ComparedMetric:
    """A metric of two results; `difference`, second minus first, or `why_not` a paired test could not be made."""

    name: str
    first: Estimate | NotMeasurable
    second: Estimate | NotMeasurable
    difference: Difference | None
    why_not: str = ""


def read_result(folder: str | Path) -> SavedResult:
    """The result in a folder, or of the path of its result.json."""
    path = Path(folder)
    path = path if path.name == "result.json" else path / "result.json"
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file; give the folder of an evaluation")
    table = read_json(path)
    if not isinstance(table, dict) or table.get("schema") != SCHEMA:
        raise ValueError(f"{path}: not a result of schema {SCHEMA}")
    for key, kind in _NEEDED.items():
        if not isinstance(table.get(key), kind):
            raise ValueError(f"{path}: its {key!r} is missing or damaged")
    try:
        origin(table)
        metrics = {name: _estimate(entry) for name, entry in table["metrics"].items()}
        pairings = {name: Pairing.from_table(entry) for name, entry in table.get("pairings", {}).items()}
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path}: its metrics are damaged ({error})") from None
    items = path.with_name("items.npz")
    if (
        "items_sha256" in table
        and items.is_file()
        and hashlib.sha256(items.read_bytes()).hexdigest() != table["items_sha256"]
    ):
        raise ValueError(f"{items}: not the items of {path.name} beside it; was the evaluation killed? Run it again")
    return SavedResult(path.parent, table, metrics, _items(items), pairings)


def compare_results(
    first: SavedResult, second: SavedResult, *, replicates: int = 1000, progress: Reporter | None = None
) -> list[ComparedMetric]:
    """The metrics that both have, with tests where decisions and scores of the same items are known.

    `accuracy` gets McNemar's exact test; rates of a curve, ranks, means and TPIR the paired bootstrap, over subjects
    where known; estimates by trials Student's paired t test. What cannot be tested says why.

    Args:
        first, second: of the same protocol and the same items.
        replicates: of the bootstrap.
        progress: called as `progress(done, total)`.
    """
    for key, what in (("protocol", "protocols"), ("items_digest", "items (lists, folds or missing images differ)")):
        if first.table[key] != second.table[key]:
            raise ValueError(f"{first.folder} and {second.folder} are results of different {what}; nothing is paired")
    names = [name for name in first.metrics if name in second.metrics]
    reasons = {name: _untestable(name, first, second) for name in names}
    pairings = {name: first.pairings[name] for name in names if name in first.pairings and not reasons[name]}
    pair = ResultPair(first.items, second.items, pairings, replicates)
    rows = []
    for done, name in enumerate(names, start=1):
        try:
            found = pair.difference(name)
        except _MISFIT as error:
            raise ValueError(f"{first.folder}, {second.folder}: the items of {name} do not fit ({error})") from None
        why_not = reasons[name] or ("" if found is not None else NO_TEST["items"])
        rows.append(ComparedMetric(name, first.metrics[name], second.metrics[name], found, why_not))
        if progress is not None:
            progress(done, len(names))
    return rows


def write_comparison(
    rows: list[ComparedMetric], first: SavedResult, second: SavedResult, folder: str | Path, *, command: str = ""
) -> Path:
    """Write `compare.html`; returns its path.

    Args:
        rows: of `compare_results`.
        first, second: the results.
        folder: made if need be.
        command: what was typed, if a command made it.
    """
    page = Page(f"{first.folder.name} and {second.folder.name}", f"Two results of {first.table['protocol']}")
    page.origin({"command": command, "compared": now(), "version": f"hypersphere {__version__}"})
    both = [origin(result.table) for result in (first, second)]
    page.table(
        ["", first.folder.name, second.folder.name],
        [[name, *(one[name] for one in both)] for name in both[0] if any(one[name] for one in both)],
        text=True,
    )
    page.heading("Metrics")
    cells: list[Sequence[object] | str] = [
        [row.name, *(estimate_cells(estimate)[0] for estimate in (row.first, row.second)), *difference_cells(row)]
        for row in shown_rows(rows)
    ]
    missing = not_measurable(unmeasured(rows))
    page.table(
        ["metric", first.folder.name, second.folder.name, "second - first, points", "p", "test"],
        [*cells, missing] if missing else cells,
        "Differences with 95 % intervals, of shares in percentage points; fnmr is 1 - tar and changes by as much, the "
        'other way. p is two-sided, of no difference; "at most" where no draw of the bootstrap contradicts.',
    )
    page.text(*only_in_one(first, second))
    page.heading("Options that differ")
    options = [flat(result.table["options"]) for result in (first, second)]
    keys = [key for key in {**options[0], **options[1]} if options[0].get(key) != options[1].get(key)]
    if keys:
        differing = [[key, *(one.get(key, "") for one in options)] for key in keys]
        page.table(["option", first.folder.name, second.folder.name], differing, text=True)
    else:
        page.text("None.")
    return page.save(Path(folder) / "compare.html")


def shown_rows(rows: Sequence[ComparedMetric]) -> list[ComparedMetric]:
    """Return the metrics that both results measured; an FNMR is left out where its TAR, 1 - FNMR, is shown."""
    names, missing = {row.name for row in rows}, unmeasured(rows)
    return [row for row in rows if row.name not in missing and complement(row.name) not in names]


def unmeasured(rows: Sequence[ComparedMetric]) -> dict[str, Estimate | NotMeasurable]:
    """Return by name the metrics that one of the results, or both, could not measure, with the reason."""
    return {row.name: each for row in rows for each in (row.first, row.second) if isinstance(each, NotMeasurable)}


def only_in_one(first: SavedResult, second: SavedResult) -> list[str]:
    """Sentences on estimates that one result has and the other has not."""
    found = []
    for own, other in ((first, second), (second, first)):
        names = [name for name in own.metrics if name not in other.metrics]
        if names:
            found.append(f"Not compared, only in {own.folder.name}: {', '.join(names)}.")
    return found


def difference_cells(row: ComparedMetric) -> list[str]:
    """Difference, p and test, in words."""
    if row.difference is None or isinstance(row.first, NotMeasurable):
        return ["", "", row.why_not]
    estimate = row.difference.estimate
    numbers = estimate.value, estimate.low, estimate.high
    plain = "{:+.4g} [{:+.4g}, {:+.4g}]".format(*numbers)
    shown = points(*numbers) if row.first.unit == "share" else plain
    return [shown, "at most " * row.difference.at_floor + f"{row.difference.p_value:.3g}", row.difference.test]


def _untestable(name: str, first: SavedResult, second: SavedResult) -> str:
    """Why no test of a metric can be made, whatever was saved."""
    if any(isinstance(result.metrics[name], NotMeasurable) for result in (first, second)):
        return NO_TEST["missing"]
    pairings = [result.pairings[name] for result in (first, second) if name in result.pairings]
    if any(pairing.by == PairedBy.NOTHING for pairing in pairings):
        return NO_TEST["fixed"]
    return "" if len(pairings) == 2 and pairings[0] == pairings[1] else NO_TEST["items"]


def _estimate(entry: Mapping[str, Any]) -> Estimate | NotMeasurable:
    if entry.get("not_measurable"):
        return NotMeasurable(int(entry["n"]), int(entry["needed"]))
    value, low, high = (float(entry[key]) for key in ("value", "low", "high"))
    if not all(map(math.isfinite, (value, low, high))):
        raise KeyError("a value that is not finite")
    return Estimate(value, low, high, int(entry["n"]), str(entry["interval"]), entry.get("unit", "share"))


def _items(path: Path) -> dict[str, Array]:
    return read_npz(path) if path.is_file() else {}
