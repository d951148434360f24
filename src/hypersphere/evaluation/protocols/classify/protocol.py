"""Classification by prototypes: top-1, class margin, sample margins, accuracy by how often a class was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_choice, numbered_lines, parse_integer
from hypersphere.core.read_arrays import read_npy
from hypersphere.evaluation.arrays import Array, Ints, finite_rows, labels_for
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.embedding_quality import (
    FEW,
    MANY,
    accuracy_by_shots,
    class_accuracies,
    margins,
)
from hypersphere.evaluation.metrics.verification import Metrics
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource
from hypersphere.evaluation.protocols.known_protocols import PROTOCOLS, Evaluated
from hypersphere.evaluation.protocols.official_files import (
    INT32_MAX,
    counted,
    find_images,
    found_units,
    kept_names,
    line_of,
    missing_images,
    unit_rows,
)
from hypersphere.evaluation.protocols.worst import SHOWN
from hypersphere.evaluation.results.measurement import Measurement, ScoredPair
from hypersphere.evaluation.results.provenance import file_digests, joined_files
from hypersphere.evaluation.results.result import Result
from hypersphere.evaluation.statistics.choose_test import PairedBy, Pairing
from hypersphere.evaluation.statistics.estimate import proportion
from hypersphere.evaluation.statistics.histogram import COSINES, ScoreHistogram, score_histogram
from hypersphere.evaluation.statistics.scores import SortedScores

SIMILARITIES = ("cosine", "inner_product")
_BLOCK = 4096
_CLASSES = 1 << 20

RULES = (
    "A sample is given to the prototype that is most similar to it; of equal ones to the lowest class.",
    "Class margin: the smallest angle between two prototypes, in degrees. Sample margin: the cosine with its own "
    "prototype less the largest one with another.",
    "Mistakes: beside a sample the one most like the prototype of the class it was given to, of that class; score is "
    "the similarity with that class, threshold that with its own. The farthest beyond it come first.",
    f"Groups: classes with more than {MANY} training images are many, with fewer than {FEW} few; means over classes.",
)


@dataclass(frozen=True)
class Classify:
    """Samples with classes.

    Args:
        path: the list, for messages.
        names: of the samples.
        labels: (samples,) classes from 0.
        class_counts: (classes,) training samples of each, for the accuracy of groups; None without.
        files: the lists, by name, each with its digest.
    """

    path: Path
    names: tuple[str, ...]
    labels: Ints
    class_counts: Ints | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        labels_for("labels", self.labels, len(self.names))
        if len(self.names) == 0 or self.labels.min() < 0:
            raise ValueError(f"{self.path}: labels must be at least one class from 0 on")

    def place(self, sample: int) -> str:
        """The list, where there is one, and the line that name the k-th sample."""
        return line_of(self.path, sample)

    def evaluate(
        self,
        embeddings: Embeddings,
        prototypes: npt.ArrayLike,
        *,
        similarity: str = "cosine",
        allow_missing: bool = False,
    ) -> Result:
        """Top-1 accuracy and margins.

        Args:
            embeddings: of the samples.
            prototypes: (classes, dim) of a head.
            similarity: what decides: `cosine` or `inner_product`; margins are always of cosines.
            allow_missing: leave out samples that have no embedding, and count them.
        """
        check_choice("similarity", similarity, SIMILARITIES)
        centres = finite_rows("prototypes", prototypes, embeddings.dim)
        if self.labels.max() >= len(centres):
            first = int(np.argmax(self.labels >= len(centres)))
            which = f"{self.names[first]!r} is of class {self.labels[first]}"
            raise ValueError(f"{self.place(first)}: {which}; there are prototypes of {len(centres)}")
        if self.class_counts is not None and len(self.class_counts) != len(centres):
            counted_classes = f"class_counts has {len(self.class_counts)} entries"
            raise ValueError(f"{self.path}: {counted_classes}; there are prototypes of {len(centres)} classes")
        rows = find_images(embeddings, self.names, self.place, allow_missing)
        here = rows >= 0
        left_out = missing_images(self.names, rows, [embeddings])
        samples, labels = found_units(embeddings, rows[here]), self.labels[here]
        decided = _decide(samples, centres, labels, similarity)
        right = decided.chosen == labels
        found = margins(samples, centres, labels)
        metrics: Metrics = {
            "accuracy": proportion(int(right.sum()), len(right)),
            "class_margin": found.class_margin,
            "sample_margin": found.mean,
            "sample_margin_minimum": found.minimum,
            "sample_margin_share_positive": found.share_positive,
        }
        if self.class_counts is not None:
            groups = accuracy_by_shots(right, labels, self.class_counts)
            metrics.update({f"accuracy_{name}": estimate for name, estimate in groups.items()})
        measured = Measurement(
            metrics=metrics,
            counts={"samples": len(self.names), "classes": len(centres), **counted(left_out)},
            histograms={"samples": _histogram(decided, similarity)},
            worst={"mistakes": _mistakes(kept_names(self.names, here), labels, decided)},
            items={"right": right, "labels": labels},
            pairings={
                "accuracy": Pairing(PairedBy.DECISIONS, ("right",)),
                "class_margin": Pairing(PairedBy.NOTHING),
                "sample_margin_minimum": Pairing(PairedBy.NOTHING),
            },
        )
        measured.add_means({"sample_margin": found.each, "sample_margin_share_positive": found.each > 0})
        if self.class_counts is not None:
            for name, (classes, accuracies, _) in class_accuracies(right, labels, self.class_counts).items():
                measured.add_means({f"accuracy_{name}": accuracies}, classes)
        return Result.of(
            "classify",
            measured,
            embeddings,
            options={"similarity": similarity, "allow_missing": allow_missing},
            rules=RULES,
            decided=kept_names(self.names, here),
            files=self.files,
            left_out=left_out,
        )


def read_classify(path: str | Path, train: str | Path | None = None) -> Classify:
    """Read lists with `name class` on each line, as `ImageNet_LT_test.txt` and `ImageNet_LT_train.txt`.

    Args:
        path: the list of the samples to classify.
        train: the list of the training samples, which are counted by class.
    """
    path = Path(path)
    names, labels = _read_list(path)
    if train is None:
        return Classify(path, names, labels, files=file_digests([path]))
    _, seen = _read_list(Path(train))
    for where, given in ((path, labels), (Path(train), seen)):
        if given.max() >= max(len(seen), _CLASSES):
            first = int(np.argmax(given))
            raise ValueError(f"{line_of(where, first)}: class {given[first]}, but {train} has {len(seen):,} samples")
    counts = np.bincount(seen, minlength=int(labels.max()) + 1)
    unknown = np.flatnonzero(counts[labels] == 0)
    if len(unknown):
        first = int(unknown[0])
        which = f"{names[first]!r} is of class {labels[first]}"
        raise ValueError(f"{line_of(path, first)}: {which}, which {train} does not have")
    return Classify(path, names, labels, counts.astype(np.int64), file_digests([path, Path(train)]))


def _read_list(path: Path) -> tuple[tuple[str, ...], Ints]:
    found: dict[str, int] = {}
    labels: list[int] = []
    for line, text in numbered_lines(path):
        name, _, label = text.replace("\t", " ").rpartition(" ")
        where = f"{path}, line {line}"
        if not name.strip():
            raise ValueError(f"{where}: expected name and class")
        if found.setdefault(name.strip(), line) != line:
            raise ValueError(f"{where}: {name.strip()!r} was on line {found[name.strip()]} already")
        labels.append(parse_integer(label, f"{where}: the class", 0, INT32_MAX))
    if not labels:
        raise ValueError(f"{path}: no samples")
    return tuple(found), np.array(labels, dtype=np.int64)


@dataclass(frozen=True)
class _Decided:
    """(samples,) each: the class that was chosen, the similarity with its own class, and the largest with another."""

    chosen: Ints
    own: Array
    other: Array


def _decide(samples: Array, centres: Array, labels: Ints, similarity: str) -> _Decided:
    """The most similar prototype of each sample; the length of a sample makes no difference to which it is."""
    targets = unit_rows(centres, lambda k: f"prototype {k}") if similarity == "cosine" else centres
    parts = []
    for start in range(0, len(samples), _BLOCK):
        table, truth = samples[start : start + _BLOCK] @ targets.T, labels[start : start + _BLOCK]
        rows, chosen = np.arange(len(table)), table.argmax(axis=1)
        own = table[rows, truth]
        table[rows, truth] = -np.inf
        parts.append((chosen, own, table.max(axis=1)))
    return _Decided(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _histogram(decided: _Decided, similarity: str) -> ScoreHistogram:
    own, other = SortedScores(decided.own), SortedScores(decided.other)
    both = np.concatenate([decided.own, decided.other])
    low, high = float(both.min()), float(both.max())
    edges = COSINES if similarity == "cosine" else np.linspace(low, high if high > low else low + 1, 101)
    return score_histogram(own, other, edges, ("own prototype", "nearest other prototype"))


def _mistakes(names: Sequence[str], labels: Ints, decided: _Decided) -> list[ScoredPair]:
    """The samples that were given to another class, the farthest beyond their own first."""
    wrong = np.flatnonzero(decided.chosen != labels)
    over = decided.other[wrong] - decided.own[wrong]
    found = []
    for sample in wrong[np.argsort(-over, kind="stable")][:SHOWN].tolist():
        taken_for = int(decided.chosen[sample])
        members = np.flatnonzero(labels == taken_for)
        like = names[members[decided.own[members].argmax()]] if len(members) else f"class {taken_for}"
        scores = float(decided.other[sample]), float(decided.own[sample])
        found.append(ScoredPair(names[sample], like, *scores, f"class {labels[sample]} as {taken_for}"))
    return found


@PROTOCOLS.register("classify")
def run_classify(
    source: EmbeddingSource,
    *,
    test: str | Path,
    prototypes: str | Path | npt.ArrayLike,
    train: str | Path | None = None,
    similarity: str = "cosine",
) -> Evaluated:
    """Classification by prototypes: `test` and `train` are lists for `read_classify`, `prototypes` a (classes, dim)
    array or the path of an `.npy`; else as `Classify.evaluate`.
    """
    protocol = read_classify(test, train)
    path = Path(prototypes) if isinstance(prototypes, str | Path) else None
    values = np.asarray(prototypes) if path is None else read_npy(path)
    embeddings, images = source.gather(protocol.names, "classify", where=protocol.place)
    result = protocol.evaluate(embeddings, values, similarity=similarity, allow_missing=source.allow_missing)
    result = replace(
        result,
        options={"prototypes": "an array" if path is None else path.name, **result.options},
        files=result.files if path is None else joined_files([result.files, file_digests([path])]),
    )
    return Evaluated(result, protocol.path.name, {"": images})
