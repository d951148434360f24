"""Classification by prototypes: top-1, class margin, sample margins, accuracy by how often a class was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hypersphere.core import check_choice
from hypersphere.evaluation.arrays import Array, Ints, finite_rows, labels_for
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.figures import proportion
from hypersphere.evaluation.protocols.files import (
    common_options,
    digest,
    find_images,
    integer,
    numbered_lines,
    unit_rows,
)
from hypersphere.evaluation.protocols.registry import PROTOCOLS
from hypersphere.evaluation.quality import FEW, MANY, accuracy_by_shots, margins
from hypersphere.evaluation.results import Result
from hypersphere.evaluation.verification import Metrics

SIMILARITIES = ("cosine", "inner_product")
_BLOCK = 4096

RULES = (
    "A sample is given to the prototype that is most similar to it; of equal ones to the lowest class.",
    "Class margin: the smallest angle between two prototypes, in degrees. Sample margin: the cosine with its own "
    "prototype less the largest one with another.",
    f"Groups: classes with more than {MANY} training images are many, with fewer than {FEW} few; means over classes.",
)


@PROTOCOLS.register("classify")
@dataclass(frozen=True)
class Classify:
    """Samples with classes.

    Args:
        path: the list, for messages.
        names: of the samples.
        labels: (samples,) classes from 0.
        class_counts: (classes,) training samples of each, for the accuracy of groups; None without.
    """

    path: Path
    names: tuple[str, ...]
    labels: Ints
    class_counts: Ints | None = None

    def __post_init__(self) -> None:
        labels_for("labels", self.labels, len(self.names))
        if len(self.names) == 0 or self.labels.min() < 0:
            raise ValueError(f"{self.path}: labels must be at least one class from 0 on")

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
            raise ValueError(f"{self.path}: {which}; there are prototypes of {len(centres)}")
        if self.class_counts is not None and len(self.class_counts) != len(centres):
            raise ValueError(f"class_counts has {len(self.class_counts)} entries; there are {len(centres)} classes")
        rows = find_images(embeddings, self.names, str(self.path), allow_missing)
        here = rows >= 0
        samples, labels = embeddings.values[rows[here]], self.labels[here]
        right = _nearest(samples, centres, similarity) == labels
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
            metrics.update({f"accuracy_{name}": figure for name, figure in groups.items()})
        return Result(
            protocol="classify",
            metrics=metrics,
            options={"similarity": similarity, **common_options(embeddings, allow_missing)},
            rules=RULES,
            counts={"samples": len(self.names), "classes": len(centres), "missing_images": int((~here).sum())},
            items={"right": right, "labels": labels},
            items_digest=digest(np.array(self.names)[here].tolist()),
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
        return Classify(path, names, labels)
    _, seen = _read_list(Path(train))
    counts = np.bincount(seen, minlength=int(labels.max()) + 1)
    unknown = np.flatnonzero(counts[labels] == 0)
    if len(unknown):
        raise ValueError(f"{path}: {names[unknown[0]]!r} is of class {labels[unknown[0]]}, which {train} does not have")
    return Classify(path, names, labels, counts.astype(np.int64))


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
        labels.append(integer(label, "the class", where))
        if labels[-1] < 0:
            raise ValueError(f"{where}: class {labels[-1]}; classes count from 0")
    if not labels:
        raise ValueError(f"{path}: no samples")
    return tuple(found), np.array(labels, dtype=np.int64)


def _nearest(samples: Array, centres: Array, similarity: str) -> Ints:
    """(samples,) the most similar prototype; the length of a sample makes no difference."""
    targets = unit_rows(centres, "prototype") if similarity == "cosine" else centres
    parts: Sequence[Ints] = [
        (samples[start : start + _BLOCK] @ targets.T).argmax(axis=1) for start in range(0, len(samples), _BLOCK)
    ]
    return np.concatenate(parts)
