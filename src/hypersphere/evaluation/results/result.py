"""The result of a protocol: metrics, the choices they depend on, and what a report draws; written as `result.json`."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import Staged, as_table
from hypersphere.evaluation.arrays import Array, Floats
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.roc import RULES, Roc
from hypersphere.evaluation.metrics.verification import Metrics
from hypersphere.evaluation.results.measurement import LeftOut, Measurement, ScoredPair
from hypersphere.evaluation.results.provenance import items_digest, joined_files
from hypersphere.evaluation.statistics.choose_test import Pairing
from hypersphere.evaluation.statistics.estimate import Estimate, NotMeasurable
from hypersphere.evaluation.statistics.histogram import ScoreHistogram
from hypersphere.version import __version__

SCHEMA = 1
"""The version of result.json; a field that goes or changes its meaning raises it."""

RULE_SENTENCES = tuple(rule.replace("\n", " ") for rule in re.split(r"\n(?=[A-Z])", RULES))
"""`RULES`, one sentence or two about each estimate."""

DRAWN_POINTS = 1000
LISTED_NAMES = 1000
"""Of what was left out, so many names are written; their number is in the counts."""


def now() -> str:
    """The date and time, to the minute, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True)
class Result:
    """What a protocol found.

    Args:
        protocol: its name.
        metrics: estimates by name, such as `accuracy`, `eer`, `tar@far=1e-3`; shares are fractions.
        options: every declared choice that the metrics depend on, as plain values.
        rules: in sentences, how the metrics are computed.
        counts, details, curves, cmc, histograms, worst, items, pairings: as in `Measurement`.
        items_digest: of the items' names: two results can be compared if it is equal.
        files: the lists that were read, by name, each with its digest.
        left_out: by what they are (`missing_images`, `unreadable_images`, ...), the names of what was left out.
        command: what was typed, if a command made it.
        date: when it was measured.
    """

    protocol: str
    metrics: Metrics
    options: Mapping[str, Any]
    rules: Sequence[str] = RULE_SENTENCES
    counts: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    curves: Mapping[str, Roc] = field(default_factory=dict)
    cmc: Mapping[str, Floats] = field(default_factory=dict)
    histograms: Mapping[str, ScoreHistogram] = field(default_factory=dict)
    worst: Mapping[str, Sequence[ScoredPair]] = field(default_factory=dict)
    items: Mapping[str, Array] = field(default_factory=dict)
    pairings: Mapping[str, Pairing] = field(default_factory=dict)
    items_digest: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    command: str = ""
    date: str = field(default_factory=now)

    @classmethod
    def of(
        cls,
        protocol: str,
        found: Measurement,
        embeddings: Embeddings | Sequence[Embeddings],
        *,
        options: Mapping[str, Any],
        rules: Sequence[str],
        decided: Iterable[object],
        files: Mapping[str, str],
        left_out: Mapping[str, Sequence[str]],
        others: Mapping[str, Embeddings] | None = None,
    ) -> Result:
        """The result of a protocol that has measured embeddings.

        Args:
            protocol: its name.
            found: what was measured.
            embeddings: those that were, as the options tell them: one, or a list of several.
            options: the protocol's own.
            rules: the protocol's own.
            decided: names of the items that were decided, in order.
            files: the protocol's own.
            left_out: as in `Result`.
            others: further embeddings, by the option that tells them.
        """
        several = [embeddings] if isinstance(embeddings, Embeddings) else list(embeddings)
        more = others or {}
        told = [as_table(dict(made.options)) for made in (*several, *more.values())]
        named = {"embeddings": told[0] if isinstance(embeddings, Embeddings) else told[: len(several)]}
        named |= dict(zip(more, told[len(several) :], strict=True))
        parts = {part.name: getattr(found, part.name) for part in dataclasses.fields(Measurement)}
        parts["pairings"] = {name: each for name, each in found.pairings.items() if name in found.metrics}
        return cls(
            protocol=protocol,
            options={**options, **named},
            rules=rules,
            items_digest=items_digest(decided),
            files=joined_files([files, *(made.files for made in (*several, *more.values()))]),
            left_out=left_out,
            **parts,
        )


def estimate_table(estimate: Estimate | NotMeasurable) -> dict[str, Any]:
    """An estimate as result.json has it."""
    if isinstance(estimate, NotMeasurable):
        return {"not_measurable": True, "n": estimate.n, "needed": estimate.needed}
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "interval": estimate.interval,
        "unit": estimate.unit,
    }


def result_table(result: Result) -> dict[str, Any]:
    """A result as result.json has it, without the items; docs/result-files.md describes every field."""
    return {
        "schema": SCHEMA,
        "hypersphere": __version__,
        "command": result.command,
        "date": result.date,
        "protocol": result.protocol,
        "metrics": {name: estimate_table(estimate) for name, estimate in result.metrics.items()},
        "options": _plain(result.options),
        "rules": list(result.rules),
        "counts": _plain(result.counts),
        "counts_left_out": [name for name, count in result.counts.items() if isinstance(count, LeftOut)],
        "files": dict(result.files),
        "left_out": {what: list(names[:LISTED_NAMES]) for what, names in result.left_out.items() if names},
        "details": _plain(result.details),
        "curves": {name: _curve(roc) for name, roc in result.curves.items()},
        "cmc": {name: [float(rate) for rate in rates] for name, rates in result.cmc.items()},
        "histograms": {
            name: {
                "edges": histogram.edges.tolist(),
                "genuine": histogram.genuine.tolist(),
                "impostors": histogram.impostors.tolist(),
                "outside": histogram.outside,
                "kinds": list(histogram.kinds),
                "threshold": _plain(histogram.threshold),
                "threshold_rule": histogram.threshold_rule,
            }
            for name, histogram in result.histograms.items()
        },
        "worst": {kind: [_pair(pair) for pair in pairs] for kind, pairs in result.worst.items()},
        "pairings": {name: pairing.table() for name, pairing in result.pairings.items()},
        "items_digest": result.items_digest,
    }


def write_result(result: Result, folder: str | Path) -> Path:
    """Write `result.json`, and `items.npz` with the outcome of every item where there are any; all or nothing.

    Args:
        result: what was found.
        folder: made if need be; files of an earlier result are replaced.

    Returns:
        the path of result.json.
    """
    target = Path(folder)
    table = result_table(result)
    with Staged() as stage:
        if result.items:
            arrays = {name: np.asarray(values) for name, values in result.items.items()}
            objects = [name for name, values in arrays.items() if values.dtype.hasobject]
            if objects:
                raise ValueError(f"items {objects[0]!r} hold objects; only numbers and text are saved")
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
            stage.open(target / "items.npz", replace=True).write(buffer.getvalue())
            table["items_sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()
        text = json.dumps(table, indent=1, allow_nan=False)
        stage.open(target / "result.json", replace=True).write(text.encode() + b"\n")
    if not result.items:
        (target / "items.npz").unlink(missing_ok=True)
    return target / "result.json"


def thinned(roc: Roc, points: int = DRAWN_POINTS) -> Roc:
    """A curve with at most about `points` of its points, for drawing: spread over the logarithm of FAR and over TAR."""
    count = len(roc.thresholds)
    if count <= points:
        return roc
    marks = np.geomspace(1, roc.impostors, points // 2), np.linspace(0, roc.genuine, points // 2)
    by_far = np.searchsorted(roc.false_accepts, marks[0], side="right") - 1
    by_tar = np.searchsorted(roc.true_accepts, marks[1], side="left")
    kept = np.unique(np.concatenate([[0, count - 1], by_far, by_tar]).clip(0, count - 1))
    return Roc(roc.thresholds[kept], roc.false_accepts[kept], roc.true_accepts[kept], roc.impostors, roc.genuine)


def _pair(pair: ScoredPair) -> dict[str, Any]:
    table = {name: _plain(value) for name, value in dataclasses.asdict(pair).items()}
    return table if pair.note else {name: value for name, value in table.items() if name != "note"}


def _curve(roc: Roc) -> dict[str, Any]:
    few = thinned(roc)
    return {
        "thresholds": [_plain(value) for value in few.thresholds.tolist()],
        "false_accepts": few.false_accepts.tolist(),
        "true_accepts": few.true_accepts.tolist(),
        "impostors": few.impostors,
        "genuine": few.genuine,
    }


def _plain(value: Any) -> Any:
    """A value that JSON can hold; what is not finite becomes text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
