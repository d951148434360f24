"""IJB's 1:1 verification: millions of pairs of templates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hypersphere.core import Reporter
from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints
from hypersphere.evaluation.metrics.roc import Roc, roc_from
from hypersphere.evaluation.metrics.verification import Metrics, curve_metrics
from hypersphere.evaluation.protocols.ijb.files import TemplatePairs
from hypersphere.evaluation.protocols.ijb.search import Templates
from hypersphere.evaluation.protocols.legacy import accepted_by_rule
from hypersphere.evaluation.protocols.worst import HighestPairs, worst_pairs
from hypersphere.evaluation.results.measurement import LeftOut, Measurement
from hypersphere.evaluation.statistics.bootstrap import bootstrap_mean
from hypersphere.evaluation.statistics.estimate import Estimate, check_measurable, rate_name
from hypersphere.evaluation.statistics.histogram import score_histogram
from hypersphere.evaluation.statistics.scores import ScoreBuffer, SortedScores

_LEFT = 256
_GATHER = 1 << 15
_SPARSE = 16
_TABLE = 1 << 24


def score_template_pairs(units: Array, left: Array, right: Array) -> Iterator[tuple[Any, Array]]:
    """Positions of pairs and their cosines (float32), part by part, all pairs in the end.

    Where pairs fill a good part of the table of left and right templates, its rows are matrix products; otherwise the
    vectors of each pair are multiplied by themselves.

    Args:
        units: (templates, dim).
        left, right: (pairs,) rows of it.
    """
    lefts, rights = np.unique(left), np.unique(right)
    if len(lefts) * len(rights) > _SPARSE * len(left):
        for start in range(0, len(left), _GATHER):
            part = slice(start, start + _GATHER)
            yield part, np.einsum("ij,ij->i", units[left[part]], units[right[part]])
        return
    owner = np.searchsorted(lefts, left).astype(np.uint16 if len(lefts) < 1 << 16 else np.int64)
    order = np.argsort(owner, kind="stable")
    ends = np.append(0, np.cumsum(np.bincount(owner, minlength=len(lefts))))
    column = np.zeros(len(units), dtype=np.int32)
    column[rights] = np.arange(len(rights))
    others = units[rights].T
    for top in range(0, len(lefts), _LEFT):
        inside = order[ends[top] : ends[min(top + _LEFT, len(lefts))]]
        scores = units[lefts[top : top + _LEFT]] @ others
        yield inside, scores[owner[inside].astype(np.int64) - top, column[right[inside]]]


def verify_templates(
    pairs: TemplatePairs,
    templates: Templates,
    rule: str,
    fars: Sequence[float],
    progress: Reporter | None = None,
) -> Measurement:
    """1:1: the curve of all pairs.

    Args:
        pairs: by the numbers of the templates.
        templates: those that have images left.
        rule: how TARs are read off the curve.
        fars: where.
        progress: called as `progress(done, total)` in pairs.
    """
    ids, shown = templates.ids, templates.shown
    left, right, same = _placed(pairs, ids)
    if same.all() or not same.any():
        raise ValueError(
            f"{pairs.path}: {len(same):,} of {len(pairs.same):,} pairs have images left, "
            f"{'all' if len(same) else 'none'} of one kind; pairs of one person and pairs of two are needed"
        )
    genuine_at, slot = np.flatnonzero(same), np.cumsum(same, dtype=np.int32) - 1
    genuine, buffer = np.zeros(len(genuine_at), dtype=np.float32), ScoreBuffer(len(same) - len(genuine_at))
    done = 0
    closest, farthest = HighestPairs(), HighestPairs()
    for part, scores in score_template_pairs(templates.units, left, right):
        mates = same[part]
        buffer.add(scores[~mates])
        genuine[slot[part][mates]] = scores[mates]
        near = np.flatnonzero(~mates & (scores > closest.enough))
        closest.add(scores[near], left[part][near], right[part][near])
        done += len(scores)
        if progress is not None:
            progress(done, len(same))
    held, impostors = SortedScores(genuine), buffer.sorted()
    roc = roc_from(held, impostors)
    owners = left[genuine_at]
    farthest.add(-genuine, owners, right[genuine_at])
    metrics, accepted = _tar_estimates(roc, genuine, owners, rule, fars)
    found = Measurement(
        metrics=metrics,
        counts={
            "pairs": len(pairs.same),
            "pairs_left_out": LeftOut(len(pairs.same) - len(same)),
            "repeated_pairs": pairs.repeated,
        },
        curves={"1:1": roc},
        histograms={"1:1": score_histogram(held, impostors).at_lowest(roc, fars)},
        worst=worst_pairs(closest, farthest, lambda row: shown[int(ids[row])]),
        items={"genuine_scores": genuine, "genuine_templates": ids[owners]},
    )
    found.add_means(accepted, ids[owners])
    return found


def _tar_estimates(
    roc: Roc, genuine: Array, owners: Array, rule: str, fars: Sequence[float]
) -> tuple[Metrics, dict[str, Floats]]:
    """The metrics of the curve, TAR by the rule with intervals that draw templates; and what single pairs add."""
    metrics, each = curve_metrics(roc, fars), {}
    for far in fars:
        if check_measurable(far, roc.impostors) is not None:
            continue
        accepted = accepted_by_rule(genuine, roc, far, rule)
        tar = bootstrap_mean(accepted, owners)
        name, missed = rate_name("tar@far", far), rate_name("fnmr@fmr", far)
        metrics[name], each[name] = tar, accepted
        metrics[missed] = Estimate(1 - tar.value, 1 - tar.high, 1 - tar.low, tar.n, tar.interval)
        each[missed] = 1 - accepted
    return metrics, each


def _placed(pairs: TemplatePairs, ids: Ints) -> tuple[Array, Array, Bools]:
    """Rows of the templates of the pairs whose templates both have images left."""
    largest = int(max(pairs.left.max(), pairs.right.max(), ids.max()))
    if largest < max(_TABLE, len(pairs.left)):
        where = np.full(largest + 1, -1, dtype=np.int32)
        where[ids] = np.arange(len(ids))
        left, right = where[pairs.left], where[pairs.right]
    else:
        left, right = _searched(pairs.left, ids), _searched(pairs.right, ids)
    here = (left >= 0) & (right >= 0)
    if here.all():
        return left, right, pairs.same
    return left[here], right[here], pairs.same[here]


def _searched(templates: Array, ids: Ints) -> Array:
    """The place of each template among the rising `ids`, -1 for others: slower than a table, whatever the numbers."""
    places = np.searchsorted(ids, templates).clip(max=len(ids) - 1)
    return np.where(ids[places] == templates, places, -1).astype(np.int32)
