"""A result as one offline page: figures, curves, the worst pairs, options and rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypersphere.data.images import Image
from hypersphere.evaluation.figures import Figure, NotMeasurable
from hypersphere.evaluation.results import Result, ScoredPair, thinned
from hypersphere.plots import ImagePair, Page, draw_cmc, draw_det, draw_roc, draw_score_histogram, percent

Pictures = Callable[[str], Image | None]
"""The image of a name; None where it cannot be shown."""

_NO_SHARES = ("margin", "fisher", "degrees")
_LOST = ("missing", "left_out", "without", "unreadable")
"""In the names of counts of what was left out."""
_NAMED = 20


def write_report(result: Result, folder: str | Path, *, title: str = "", pictures: Pictures | None = None) -> Path:
    """Write `report.html`.

    Args:
        result: what was found.
        folder: made if need be.
        title: of the page.
        pictures: shows the images of the worst pairs.

    Returns:
        the path of the page.
    """
    page = Page(title or f"Evaluation: {result.protocol}", _lead(result))
    lost = lost_counts(result)
    if lost:
        page.text(f"Not all of the protocol was measured: {', '.join(lost)}.")
    page.heading("Figures")
    rows = [[name, *figure_cells(name, figure)] for name, figure in result.metrics.items()]
    page.table(["metric", "value", "95 % interval", "n", "interval by"], rows)
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
    return [
        f"{count:,} {words(name)}"
        for name, count in result.counts.items()
        if count and any(sign in name for sign in _LOST)
    ]


def figure_cells(name: str, figure: Figure | NotMeasurable) -> list[str]:
    """Value, interval, count and kind of interval of a figure, in words."""
    if isinstance(figure, NotMeasurable):
        return [str(figure), "", f"{figure.n:,}", f"needs n={figure.needed:,}"]
    numbers = figure.value, figure.low, figure.high
    value, low, high = (percent(x) if is_share(name) else f"{x:.4g}" for x in numbers)
    return [value, f"{low} to {high}", f"{figure.n:,}", figure.interval]


def is_share(name: str) -> bool:
    """Whether a metric is a share, which is shown in percent."""
    return "share" in name or not any(word in name for word in _NO_SHARES)


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


def _add_folds(page: Page, result: Result) -> None:
    rows = []
    for name, detail in result.details.items():
        if isinstance(detail, Mapping) and "fold_accuracies" in detail:
            folds = detail["fold_accuracies"]
            mean = sum(folds) / len(folds)
            rows.append([name, *(f"{100 * each:.2f}" for each in (mean, detail["deviation"], *folds))])
    if rows:
        page.heading("Folds")
        header = ["set", "mean", "sd", *(str(k) for k in range(1, max(map(len, rows)) - 2))]
        full = [[*row, *[""] * (len(header) - len(row))] for row in rows]
        page.table(header, full, "Accuracy in % of each fold at the threshold of the others; sd is over folds (n - 1).")


def _add_curves(page: Page, result: Result) -> None:
    if result.curves:
        page.heading("Trade-off")
        few = {name: thinned(roc) for name, roc in result.curves.items()}
        genuine, impostor = (max(getattr(roc, kind) for roc in few.values()) for kind in ("genuine", "impostors"))
        roc = draw_roc({name: (each.far, each.tar) for name, each in few.items()}, genuine=genuine, impostor=impostor)
        det = draw_det({name: (each.far, each.fnmr) for name, each in few.items()}, genuine=genuine, impostor=impostor)
        page.figure({"ROC": roc, "DET": det}, "Receiver operating characteristic, and detection errors.", columns=2)
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
        below = f"; the line is {histogram.threshold_rule}" if line else ""
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
            said = [Path(name).stem for name in (pair.left, pair.right)] + [pair.note] * bool(pair.note)
            shown.append(ImagePair(left, right, " · ".join([f"{pair.score:.3f}", *said])))
        if shown:
            decided = any(pair.threshold is not None for pair in pairs)
            first = "the farthest beyond the threshold" if decided else "the worst"
            page.pairs(shown, f"Score and names; {first} first.")
        if others:
            page.table(["pair", "score", "threshold"], [_cells(pair) for pair in others])


def _cells(pair: ScoredPair) -> list[str]:
    limit = "" if pair.threshold is None else f"{pair.threshold:.4f}"
    return [" · ".join(filter(None, (pair.left, pair.right, pair.note))), f"{pair.score:.4f}", limit]
