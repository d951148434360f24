"""A result as one offline page: whose it is, metrics, curves, the worst pairs, options and rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypersphere.data import Image
from hypersphere.evaluation.results.measurement import LeftOut, ScoredPair
from hypersphere.evaluation.results.metric_tables import metric_tables, not_measurable
from hypersphere.evaluation.results.origin import origin
from hypersphere.evaluation.results.result import Result, result_table, thinned
from hypersphere.plots import ImagePair, Page, draw_cmc, draw_det, draw_roc, draw_score_histogram

Pictures = Callable[[str], Image | None]
"""The image of a name; None where it cannot be shown."""

_NAMED = 20


def write_report(
    result: Result, folder: str | Path, *, title: str = "", pictures: Pictures | None = None, warning: str = ""
) -> Path:
    """Write `report.html`.

    Args:
        result: what was found.
        folder: made if need be.
        title: of the page.
        pictures: shows the images of the worst pairs.
        warning: why the result may say nothing of the model; first on the page.

    Returns:
        the path of the page.
    """
    page = Page(title or f"Evaluation: {result.protocol}", _lead(result))
    page.origin(origin(result_table(result)))
    if warning:
        page.text(f"Warning: {warning}")
    lost = lost_counts(result)
    if lost:
        page.text(f"Not all of the protocol was measured: {', '.join(lost)}.")
    _add_metrics(page, result)
    _add_folds(page, result)
    _add_curves(page, result)
    _add_worst(page, result, pictures)
    page.heading("Counts")
    page.options({words(name): f"{count:,}" for name, count in result.counts.items()})
    for what, names in result.left_out.items():
        if names:
            page.heading(words(what).capitalize())
            more = f"and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
            page.text(*names[:_NAMED], *([more] if more else []))
    if result.files:
        page.heading("Files")
        page.options(result.files)
        page.text("Each with the first 16 digits of its SHA-256.")
    page.heading("Options")
    page.options(flat(result.options))
    page.heading("Rules")
    page.text(*result.rules)
    return page.save(Path(folder) / "report.html")


def lost_counts(result: Result) -> list[str]:
    """What was left out, in words; nothing if all of the protocol was measured."""
    return [f"{count:,} {words(name)}" for name, count in result.counts.items() if count and isinstance(count, LeftOut)]


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options as one table, `a.b` for inner ones."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{name}.")
        elif isinstance(value, list | tuple) and any(isinstance(entry, Mapping) for entry in value):
            found |= flat({str(place): entry for place, entry in enumerate(value, start=1)}, f"{name}.")
        else:
            found[name] = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
    return found


def words(name: str) -> str:
    """A name of a field as words."""
    return name.replace("_", " ")


def _lead(result: Result) -> str:
    parts = [f"{result.counts[key]:,} {words(key)}" for key in ("pairs", "probes", "images") if key in result.counts]
    return ", ".join(parts)


def _add_metrics(page: Page, result: Result) -> None:
    page.heading("Metrics")
    missing = not_measurable(result.metrics)
    tables = metric_tables(result.metrics)
    for table in tables[:-1]:
        page.table(table.header, table.rows, table.caption)
    for table in tables[-1:]:
        page.table(table.header, [*table.rows, missing] if missing else table.rows, table.caption)
    if missing and not tables:
        page.text(missing)


def _add_folds(page: Page, result: Result) -> None:
    rows: list[list[str]] = []
    for name, detail in result.details.items():
        if isinstance(detail, Mapping) and "fold_accuracies" in detail:
            folds = detail["fold_accuracies"]
            mean = sum(folds) / len(folds)
            rows.append(
                [f"{name}: accuracy, %", *(f"{100 * each:.2f}" for each in (mean, detail["deviation"], *folds))]
            )
            if "fold_thresholds" in detail:
                limits = detail["fold_thresholds"]
                rows.append(
                    [f"{name}: threshold", f"{sum(limits) / len(limits):.3f}", "", *map("{:.3f}".format, limits)]
                )
    if rows:
        page.heading("Folds")
        header = ["", "mean", "sd", *(str(k) for k in range(1, max(map(len, rows)) - 2))]
        full = [[*row, *[""] * (len(header) - len(row))] for row in rows]
        page.table(
            header, full, "Each fold is decided at the threshold that is best on the others; sd: over folds (n - 1)."
        )


def _add_curves(page: Page, result: Result) -> None:
    if result.curves:
        page.heading("Trade-off")
        few = {name: thinned(roc) for name, roc in result.curves.items()}
        genuine, impostor = (max(getattr(roc, kind) for roc in few.values()) for kind in ("genuine", "impostors"))
        roc = draw_roc({name: (each.far, each.tar) for name, each in few.items()}, genuine=genuine, impostor=impostor)
        det = draw_det({name: (each.far, each.fnmr) for name, each in few.items()}, genuine=genuine, impostor=impostor)
        page.figure(
            {"ROC": roc, "DET": det},
            "Receiver operating characteristic (the axis of accepts is stretched at both ends), and detection error "
            "trade-off. In the grey parts fewer than three pairs decide.",
            columns=2,
        )
    for name, histogram in result.histograms.items():
        drawn = draw_score_histogram(
            histogram.edges,
            histogram.genuine,
            histogram.impostors,
            histogram.threshold,
            str(result.options.get("similarity", "score")),
            histogram.kinds,
        )
        line = histogram.threshold is not None and math.isfinite(histogram.threshold)
        below = f"; the line is {histogram.threshold_rule}{_spread(result, name)}" if line else ""
        page.figure({f"Histogram of scores, {name}": drawn}, f"Scores of {name}{below}.")
    if result.cmc:
        page.heading("Identification")
        page.figure({"CMC": draw_cmc(result.cmc)}, "Share of probes whose mate is among the first so many.")


def _add_worst(page: Page, result: Result, pictures: Pictures | None) -> None:
    for kind, pairs in result.worst.items():
        page.heading(f"Worst {kind}")
        if not pairs:
            page.text("None.")
            continue
        shown, others = [], []
        for pair in pairs:
            left, right = (None if pictures is None else pictures(name) for name in (pair.left, pair.right))
            if left is None or right is None:
                others.append(pair)
                continue
            names = [Path(name).stem for name in (pair.left, pair.right)]
            shown.append(ImagePair(left, right, _decision(pair), "\n".join(filter(None, (*names, pair.note)))))
        if shown:
            decided = any(pair.threshold is not None for pair in pairs)
            said = "Score and threshold of the pair's fold; the farthest beyond it first."
            page.pairs(shown, said if decided else "Score; the worst first.")
        if others:
            page.table(["pair", "score", "threshold"], [_cells(pair) for pair in others])


def _decision(pair: ScoredPair) -> str:
    """The score beside the threshold that it was held against."""
    if pair.threshold is None:
        return f"{pair.score:.3f}"
    return f"{pair.score:.3f} {'≥' if pair.score >= pair.threshold else '<'} {pair.threshold:.3f}"


def _spread(result: Result, name: str) -> str:
    """From where to where the folds' thresholds go, if a histogram's pairs were decided at several."""
    limits = result.details.get(name, {}).get("fold_thresholds", [])
    return f" ({min(limits):.3f} to {max(limits):.3f})" if limits else ""


def _cells(pair: ScoredPair) -> list[str]:
    limit = "" if pair.threshold is None else f"{pair.threshold:.4f}"
    return [" · ".join(filter(None, (pair.left, pair.right, pair.note))), f"{pair.score:.4f}", limit]
