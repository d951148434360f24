"""YouTube Faces: 5,000 pairs of videos in ten splits, by the mean of the score matrix or by its histogram."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import Reporter, check_choice, check_integer, is_integer, parse_integer, part_of
from hypersphere.core.read_lines import numbered_lines
from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.verification import FARS, pair_metrics, verify_pairs
from hypersphere.evaluation.protocols.official_files import (
    ALLOWED,
    common_options,
    counted,
    found_units,
)
from hypersphere.evaluation.protocols.registry import PROTOCOLS
from hypersphere.evaluation.protocols.worst import worst_decisions
from hypersphere.evaluation.protocols.ytf.svm import intersection_kernel, train_svm
from hypersphere.evaluation.results.provenance import file_digests, items_digest, joined_files
from hypersphere.evaluation.results.result import RULE_SENTENCES, LeftOut, Result
from hypersphere.evaluation.statistics.bootstrap import PairWeights, percentile_estimate
from hypersphere.evaluation.statistics.estimate import Estimate
from hypersphere.evaluation.statistics.histogram import MEAN_OF_FOLDS, score_histogram
from hypersphere.evaluation.statistics.scores import SortedScores

SPLITS = 10
CLASSIFIERS = ("mean", "hik_svm")
RULES = (
    "The score matrix of two videos holds the cosine of every frame of the one with every frame of the other.",
    "`accuracy`: the mean of the matrix against a threshold that is best on the other nine splits; mean over splits.",
    "`accuracy_hik_svm`: the matrix as a histogram over [-1, 1], divided by its sum, classified by a support vector "
    "machine with the histogram intersection kernel, trained on the other nine splits (NormFace sec. 5.3; the paper "
    "does not print C, which is an option here).",
    "The worst pairs are those of the mean score; of each video the first frame is shown.",
)


@PROTOCOLS.register("ytf")
@dataclass(frozen=True)
class Ytf:
    """Pairs of videos.

    Args:
        path: splits.txt.
        left, right: (pairs,) videos, such as `Ada_Lee/0`.
        same: (pairs,) truth.
        split: (pairs,) from 0.
        lines: (pairs,) where they stand.
        files: splits.txt with its digest.
    """

    path: Path
    left: tuple[str, ...]
    right: tuple[str, ...]
    same: Bools
    split: Ints
    lines: Ints
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def videos(self) -> tuple[str, ...]:
        """The different videos, in the order in which they come."""
        return tuple(dict.fromkeys(video for pair in zip(self.left, self.right, strict=True) for video in pair))

    def names_among(self, names: Sequence[str]) -> tuple[str, ...]:
        """The frames that belong to the videos: the images in a folder of that name."""
        wanted = set(self.videos)
        return tuple(name for name in names if name.rpartition("/")[0] in wanted)

    def evaluate(
        self,
        embeddings: Embeddings,
        *,
        classifiers: Sequence[str] = CLASSIFIERS,
        bins: int = 100,
        cost: float = 1.0,
        fars: Sequence[float] = FARS,
        allow_missing: bool = False,
        progress: Reporter | None = None,
    ) -> Result:
        """Accuracy over the splits, each tested with what the others taught.

        Args:
            embeddings: of the frames; those in the folder `Ada_Lee/0` are the frames of that video.
            classifiers: `mean`, `hik_svm`, or both.
            bins: of the histogram.
            cost: C of the support vector machine.
            fars: where the TAR of the mean score is wanted.
            allow_missing: leave out pairs with a video that has no frame, and count them.
            progress: called as `progress(done, total)` in pairs, which the support vector machine goes through again.
        """
        for name in classifiers:
            check_choice("classifiers", name, CLASSIFIERS)
        check_integer("bins", bins, 2)
        frames = _frames(embeddings, self.videos)
        kept = self._kept(frames, allow_missing)
        unreadable = [embeddings.unreadable[name] for name in self.names_among(list(embeddings.unreadable))]
        left_out = {
            "missing_videos": [video for video in self.videos if video not in frames],
            "unreadable_images": unreadable,
        }

        def units(video: str) -> Array:
            return found_units(embeddings, frames[video])

        work = len(kept) * (1 + ("hik_svm" in classifiers))
        scores, histograms = np.zeros(len(kept)), np.zeros((len(kept), bins))
        for done, pair in enumerate(kept.tolist()):
            matrix = units(self.left[pair]) @ units(self.right[pair]).T
            scores[done] = matrix.mean(dtype=np.float64)
            if "hik_svm" in classifiers:
                histograms[done] = _histogram(matrix, bins)
            if progress is not None:
                progress(done + 1, work)
        same, split = self.same[kept], self.split[kept]
        people = self._people(kept)
        found = verify_pairs(scores, same, split, people)
        metrics = {"accuracy": found.accuracy, **pair_metrics(scores, same, people, fars)}
        details: dict[str, Any] = {
            "all": {
                "fold_accuracies": found.fold_accuracies.tolist(),
                "fold_thresholds": found.fold_thresholds.tolist(),
                "deviation": found.deviation,
            }
        }
        items: dict[str, Array] = {"right": found.right, "scores": scores, "same": same, "fold": split}
        items |= {"left_subject": people[0], "right_subject": people[1]}
        if "hik_svm" in classifiers:
            right = classify_by_histogram(histograms, same, split, cost, progress=part_of(progress, len(kept), work))
            each = np.array([right[split == k].mean() for k in np.unique(split)])
            metrics["accuracy_hik_svm"] = _accuracy(each, right, people)
            details["hik_svm"] = {"fold_accuracies": each.tolist(), "deviation": float(each.std(ddof=1))}
            items["right_hik_svm"] = right
        return Result(
            protocol="ytf",
            metrics=metrics,
            options={
                "similarity": "cosine",
                "classifiers": list(classifiers),
                "bins": bins,
                "cost": cost,
                **common_options(embeddings, allow_missing),
            },
            rules=(*RULE_SENTENCES, *RULES),
            counts={
                "pairs": len(self.same),
                "repeated_pairs": len(self.same) - len(set(map(frozenset, zip(self.left, self.right, strict=True)))),
                "pairs_left_out": LeftOut(len(self.same) - len(kept)),
                "videos": len(self.videos),
                "frames": sum(map(len, frames.values())),
                **counted(left_out),
            },
            details=details,
            curves={"mean of the score matrix": found.roc},
            histograms={
                "mean of the score matrix": score_histogram(
                    SortedScores(scores[same]), SortedScores(scores[~same]), np.linspace(-1, 1, 101)
                ).at(float(found.fold_thresholds.mean()), MEAN_OF_FOLDS)
            },
            worst=worst_decisions(
                [embeddings.names[frames[self.left[pair]][0]] for pair in kept.tolist()],
                [embeddings.names[frames[self.right[pair]][0]] for pair in kept.tolist()],
                same,
                found.right,
                scores,
                found.fold_thresholds[np.unique(split, return_inverse=True)[1]],
            ),
            items=items,
            items_digest=items_digest((self.left[pair], self.right[pair]) for pair in kept.tolist()),
            files=joined_files([self.files, embeddings.files]),
            left_out=left_out,
        )

    def check_videos(self, names: Sequence[str]) -> None:
        """ValueError with file and line where a video has no frame among these names."""
        self._kept({name.rpartition("/")[0] for name in names}, allow_missing=False)

    def _kept(self, frames: Collection[str], allow_missing: bool) -> Ints:
        here = np.array([left in frames and right in frames for left, right in zip(self.left, self.right, strict=True)])
        if not here.all() and not allow_missing:
            first = int(np.argmin(here))
            video = self.left[first] if self.left[first] not in frames else self.right[first]
            raise ValueError(
                f"{self.path}, line {self.lines[first]}: there is no frame of {video!r}, and "
                f"{int((~here).sum()):,} pairs lack one; {ALLOWED} them out and counts them"
            )
        if not here.any():
            raise ValueError(f"{self.path}: no pair has frames of both videos; names are like {self.left[0]}/frame.jpg")
        return np.flatnonzero(here)

    def _people(self, kept: Ints) -> tuple[Ints, Ints]:
        """The numbers of the people on both sides of these pairs."""
        owners = [[videos[pair].rpartition("/")[0] for pair in kept.tolist()] for videos in (self.left, self.right)]
        _, numbers = np.unique(owners, return_inverse=True)
        left, right = numbers.reshape(2, -1).astype(np.int64)
        return left, right


def read_ytf(path: str | Path) -> Ytf:
    """Read `splits.txt`: a header, then `split, pair, first video, second video, is same` on each line.

    Args:
        path: the file. A video is `Person_Name/number`; pairs of one person must be marked 1, others 0.
    """
    path = Path(path)
    pairs: list[tuple[str, str, bool, int, int]] = []
    for number, text in numbered_lines(path):
        fields = [field.strip() for field in text.split(",")]
        if not pairs and not is_integer(fields[0]):
            continue
        where = f"{path}, line {number}"
        if len(fields) != 5:
            raise ValueError(f"{where}: {len(fields)} fields; expected split, pair, first video, second video, is same")
        split = parse_integer(fields[0], f"{where}: the split", 1, SPLITS)
        same = parse_integer(fields[4], f"{where}: is same", 0, 1)
        left, right = fields[2], fields[3]
        owners = [video.rpartition("/")[0] for video in (left, right)]
        if not all(owners):
            raise ValueError(f"{where}: {left!r} and {right!r} must be videos like 'Ada_Lee/0'")
        if bool(same) != (owners[0] == owners[1]):
            raise ValueError(f"{where}: is same is {same}, but the people are {owners[0]!r} and {owners[1]!r}")
        if pairs and split < pairs[-1][3]:
            raise ValueError(f"{where}: split {split} after split {pairs[-1][3]}; the list must rise")
        pairs.append((left, right, bool(same), split, number))
    if not pairs:
        raise ValueError(f"{path}: no pairs")
    splits = sorted({pair[3] for pair in pairs})
    if len(splits) != SPLITS:
        raise ValueError(f"{path}: {len(splits)} splits; the protocol has {SPLITS}")
    return Ytf(
        path,
        tuple(pair[0] for pair in pairs),
        tuple(pair[1] for pair in pairs),
        np.array([pair[2] for pair in pairs]),
        np.array([pair[3] for pair in pairs], dtype=np.int64) - 1,
        np.array([pair[4] for pair in pairs], dtype=np.int64),
        file_digests([path]),
    )


def classify_by_histogram(
    histograms: Floats, same: Bools, split: Ints, cost: float = 1.0, progress: Reporter | None = None
) -> Bools:
    """(pairs,) whether each was decided rightly by the machine trained on the other splits.

    Args:
        histograms: (pairs, bins).
        same: (pairs,) truth.
        split: (pairs,).
        cost: C.
        progress: called as `progress(done, total)` in pairs.
    """
    kernel = intersection_kernel(histograms, histograms)
    right = np.zeros(len(same), dtype=bool)
    for number in np.unique(split):
        tested, taught = np.flatnonzero(split == number), np.flatnonzero(split != number)
        machine = train_svm(kernel[np.ix_(taught, taught)], same[taught], cost)
        right[tested] = (machine.decide(kernel[np.ix_(tested, taught)]) >= 0) == same[tested]
        if progress is not None:
            progress(int((split <= number).sum()), len(split))
    return right


def _frames(embeddings: Embeddings, videos: Sequence[str]) -> dict[str, Ints]:
    """The rows of the frames of each video that has any."""
    found: dict[str, list[int]] = {}
    wanted = set(videos)
    for row, name in enumerate(embeddings.names):
        video = name.rpartition("/")[0]
        if video in wanted:
            found.setdefault(video, []).append(row)
    return {video: np.array(rows, dtype=np.int64) for video, rows in found.items()}


def _histogram(matrix: Array, bins: int) -> Floats:
    counts, _ = np.histogram(matrix.clip(-1, 1), bins=bins, range=(-1, 1))
    return counts / matrix.size


def _accuracy(each: Floats, right: Bools, people: tuple[Ints, Ints]) -> Estimate:
    weights = PairWeights(len(right), people)
    drawn = np.array([float(w @ right) / w.sum() if w.any() else np.nan for w in weights.draws(1000, 0)])
    return percentile_estimate(float(each.mean()), drawn, len(right), weights.count, weights.name)
