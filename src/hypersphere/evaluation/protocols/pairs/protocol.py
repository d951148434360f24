"""Pair verification: LFW, CALFW, CPLFW, AgeDB-30, CFP, packs and any pair list; one set or several pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hypersphere.core import Reporter
from hypersphere.data import NamedImages
from hypersphere.evaluation.arrays import Array, Floats, Ints, numbered
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.similarity import Comparison, own_scores
from hypersphere.evaluation.metrics.verification import (
    FARS,
    Metrics,
    Verification,
    curve_metrics,
    decided_histogram,
    pair_metrics,
    verify_pairs,
)
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource
from hypersphere.evaluation.protocols.known_protocols import PROTOCOLS, Evaluated
from hypersphere.evaluation.protocols.official_files import counted
from hypersphere.evaluation.protocols.pairs.contract_hint import fitting_contract, is_near_chance
from hypersphere.evaluation.protocols.pairs.data_folder import find_data, images_of_lists
from hypersphere.evaluation.protocols.pairs.pair_list import PairList, read_pairs
from hypersphere.evaluation.protocols.pairs.pair_rows import PairRows, pooled
from hypersphere.evaluation.protocols.worst import worst_decisions
from hypersphere.evaluation.results.measurement import LeftOut, Measurement
from hypersphere.evaluation.results.result import RULE_SENTENCES, Result
from hypersphere.evaluation.statistics.bootstrap import bootstrap_pairs
from hypersphere.evaluation.statistics.choose_test import PairedBy, Pairing
from hypersphere.evaluation.statistics.estimate import Estimate, NotMeasurable
from hypersphere.models import PRESETS, Embedder

RULES = (
    "Accuracy: the mean over folds, each decided at the threshold that is best on the other folds.",
    "Best accuracy: all pairs at the one threshold that is best on these pairs themselves, which is optimistic.",
    *RULE_SENTENCES,
)
POOLED_RULE = (
    "Pooled: metrics without the name of a set are of all pairs of all sets together, at common thresholds; fold k is "
    "fold k of every set."
)
LEARNED_RULE = (
    "Learned: mean and PCA of a fold come from the pairs of the other folds, each image counted as often as it occurs; "
    "curves join the folds' scores."
)
FITTED_RULE = "Learned: mean and PCA come from images that are not in these pairs, and are the same for all folds."
BINS = 80


def evaluate_pairs(
    sets: Sequence[tuple[PairList, Embeddings | Sequence[Embeddings]]],
    comparison: Comparison | None = None,
    *,
    allow_missing: bool = False,
    fars: Sequence[float] = FARS,
    replicates: int = 1000,
    progress: Reporter | None = None,
) -> Result:
    """Verify the pairs of one set, or of several: then each by itself, and all pooled (SphereFace2 sec. 3.1).

    Args:
        sets: each set of pairs with its embeddings; of several (late snapshots) the scores are averaged, and
            `mean_snapshot_accuracy` is the mean of their accuracies (NormFace sec. 5.1).
        comparison: how embeddings are compared; cosines by default.
        allow_missing: leave out pairs whose images have no embedding, and count them.
        fars: where TAR and FNMR are wanted.
        replicates: draws of subjects, for intervals of sets whose people are known.
        progress: called as `progress(done, total)`, by set.

    Example:
        >>> pairs = hs.evaluation.protocols.read_pairs("lfw-pairs.txt")
        >>> result = evaluate_pairs([(pairs, hs.evaluation.load_embeddings("E.npy", "L.txt"))])
        >>> accuracy = result.metrics["accuracy"]
    """
    how = comparison or Comparison()
    if len({pairs.title for pairs, _ in sets}) < len(sets) or not sets:
        raise ValueError(
            f"sets must have different titles: {', '.join(pairs.title for pairs, _ in sets) or 'none given'}"
        )
    made = [[several] if isinstance(several, Embeddings) else list(several) for _, several in sets]
    gathered = [PairRows.of(pairs, own, allow_missing) for (pairs, _), own in zip(sets, made, strict=True)]
    whole = gathered[0] if len(sets) == 1 else pooled(gathered)
    parts = [("", whole), *((f"{one.pairs.title}/", one) for one in gathered if len(sets) > 1)]
    pairs, measured = whole.pairs, Measurement(items={"fold": whole.pairs.folds})
    for done, (prefix, part) in enumerate(parts, start=1):
        found, scores = _measure(part, how, fars, replicates, prefix, measured)
        if not prefix:
            low, high = (-1.0, 1.0) if how.similarity == "cosine" else (float(scores.min()), float(scores.max()))
            edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
            measured.histograms["all"] = decided_histogram(found, scores, pairs.same, edges)
            measured.worst = worst_decisions(pairs.left, pairs.right, pairs.same, scores, pairs.folds, found)
        if progress is not None:
            progress(done, len(parts))
    measured.counts = {
        "pairs": len(pairs),
        "genuine": int(pairs.same.sum()),
        "impostors": int((~pairs.same).sum()),
        "repeated_pairs": len(pairs) - len({frozenset(both) for both in zip(pairs.left, pairs.right, strict=True)}),
        "images": len(whole.names),
        **counted(whole.missing),
        "pairs_left_out": LeftOut(whole.missing_pairs),
    }
    decided = zip(pairs.left, pairs.right, pairs.same.tolist(), pairs.folds.tolist(), strict=True)
    return Result.of(
        "pairs",
        measured,
        [each for own in made for each in own],
        options={
            "center": how.center,
            "pca": how.pca,
            "normalize": how.normalize,
            "similarity": how.similarity,
            "folds": len(np.unique(pairs.folds)),
            "allow_missing": allow_missing,
            "sets": [one.pairs.title for one in gathered],
            "merge": "mean of scores" if whole.several else "none",
            "intervals": "pairs taken as independent" if pairs.subjects is None else f"{replicates} draws of subjects",
            **({} if how.fit is None else {"fit": f"{len(how.fit):,} other images"}),
        },
        rules=RULES + (POOLED_RULE,) * (len(sets) > 1) + _learned_rule(how),
        decided=(f"{left}\t{right}\t{same}\t{fold}" for left, right, same, fold in decided),
        files=pairs.files,
        left_out=whole.missing,
    )


def _measure(
    data: PairRows, how: Comparison, fars: Sequence[float], replicates: int, prefix: str, measured: Measurement
) -> tuple[Verification, Floats]:
    """Add the metrics of a set, whose names begin with `prefix`; returns its decisions and scores."""
    pairs = data.pairs
    parts = [how.fold_scores(values, data.left, data.right, pairs.folds, data.names) for values in data.values]
    table: Floats = np.mean(parts, axis=0)
    people = None if pairs.subjects is None else _numbered(pairs.subjects)
    decided = verify_pairs(table, pairs.same, pairs.folds, people)
    scores, roc = own_scores(table, pairs.folds), decided.roc
    error = decided.deviation / np.sqrt(len(decided.fold_accuracies))
    metrics: Metrics = {"accuracy": decided.accuracy}
    details = {"pairs": len(pairs), "standard_error": error, **decided.folds()}
    items: dict[str, Array] = {"right": decided.right, "scores": scores, "same": pairs.same}
    if people is not None:
        items |= {"left_subject": people[0], "right_subject": people[1]}
    measured.add_decided_pairs(items, fars, prefix)
    if data.several:
        each_own = [verify_pairs(part, pairs.same, pairs.folds) for part in parts]
        rights, name = np.mean([each.right for each in each_own], axis=0), "mean_snapshot_accuracy"
        metrics[name] = bootstrap_pairs(rights, people)
        details["snapshot_accuracies"] = [each.accuracy.value for each in each_own]
        value = f"{prefix}value:{name}"
        measured.items[value] = rights
        subjects = measured.pairings[f"{prefix}auc"].subjects
        measured.pairings[f"{prefix}{name}"] = Pairing(PairedBy.MEANS, (value,), subjects=subjects)
    details["best_threshold"] = roc.best_threshold()
    metrics["best_accuracy"] = bootstrap_pairs((scores >= roc.best_threshold()) == pairs.same, people)
    if people is None:
        metrics |= curve_metrics(roc, fars)
    else:
        metrics |= pair_metrics(scores, pairs.same, people, fars, replicates=replicates)
    title = prefix.removesuffix("/") or "all"
    measured.metrics |= {f"{prefix}{name}": estimate for name, estimate in metrics.items()}
    measured.details[title], measured.curves[title] = details, roc
    return decided, scores


def _learned_rule(how: Comparison) -> tuple[str, ...]:
    if not how.learns:
        return ()
    return (LEARNED_RULE if how.fit is None else FITTED_RULE,)


def _numbered(subjects: tuple[Sequence[str], Sequence[str]]) -> tuple[Ints, Ints]:
    count = len(subjects[0])
    numbers = numbered([*subjects[0], *subjects[1]])
    return numbers[:count], numbers[count:]


@PROTOCOLS.register("pairs")
def run_pairs(
    source: EmbeddingSource,
    *,
    pairs: str | Path | Sequence[str | Path] = (),
    data: str | Path | None = None,
    similarity: str = "cosine",
    normalize: bool = True,
    center: bool = False,
    pca: int | None = None,
    fit: str | Path | None = None,
    fars: Sequence[float] = FARS,
) -> Evaluated:
    """Pair lists: `pairs` are lists for `read_pairs`, or `data` stands for list and images: a `.bin`, or a folder that
    holds both. How embeddings are compared is as for `Comparison`, whose `fit` is made of the images at this path (or
    read from an array, beside ready embeddings); else as `evaluate_pairs`.
    """
    how = Comparison(similarity=similarity, normalize=normalize, center=center, pca=pca)
    if fit is not None and not how.learns:
        raise ValueError(f"{source.option('fit')} is what a mean or PCA is learned from: give {source.option('pca')} N")
    paths = [Path(path) for path in ([pairs] if isinstance(pairs, str | Path) else pairs)]
    if data is not None:
        paths, source = find_data(Path(data), paths, source)
    if not paths:
        raise ValueError(f"give {source.option('pairs')} LIST, or {source.option('data')} PATH")
    lists = [read_pairs(path) for path in paths]
    images = images_of_lists(paths, lists, source)
    for one, own in zip(lists, images, strict=True):
        if own is not None and not source.allow_missing:
            one.check_images(own.missing, own.files)
    titles = [one.title for one in lists]
    made = source.of_sets(titles, images)
    if fit is not None:
        how = replace(how, fit=source.of_others(Path(fit)))
    with source.measuring("measuring", "sets") as progress:
        result = evaluate_pairs(
            list(zip(lists, made, strict=True)), how, allow_missing=source.allow_missing, fars=fars, progress=progress
        )
    warning = _chance_warning(result.metrics["accuracy"], source, lists[0], images[0])
    return Evaluated(result, ", ".join(titles), dict(zip(titles, images, strict=True)), warning)


def _chance_warning(
    accuracy: Estimate | NotMeasurable, source: EmbeddingSource, pairs: PairList, images: NamedImages | None
) -> str:
    """What is likely wrong where pairs are decided hardly better than by chance; nothing where they are."""
    if isinstance(accuracy, NotMeasurable) or not is_near_chance(accuracy.value, pairs):
        return ""
    said = f"the accuracy, {accuracy.value:.2%}, is near chance"
    if images is None or len(source.model) != 1:
        return f"{said}: do the names belong to the rows of the embeddings, and the list to these images?"
    (given,) = source.model
    model = given if isinstance(given, Embedder) else source.opened(given)[0]
    with source.measuring("trying other contracts", "contracts") as progress:
        fits, share, own = fitting_contract(model, images, pairs, resize=source.resize, progress=progress)
    if fits:
        where = f"give {source.option('contract')} {fits}" if fits in PRESETS else f"the contract that fits is: {fits}"
        return (
            f"{said}. The contract in use is probably not the model's: on 200 of these images it decides {own:.0%} of "
            f"pairs rightly, another {share:.0%}; {where}"
        )
    return (
        f"{said}, and no other order of colours, scale or alignment does better on 200 of these images: is the model "
        "trained, are the images cropped as it wants them (`hypersphere align`), and does the list belong to them?"
    )
