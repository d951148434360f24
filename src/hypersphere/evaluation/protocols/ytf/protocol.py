"""YouTube Faces: 5,000 pairs of videos in ten splits, by the mean of the score matrix or by its histogram."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hypersphere.core import Reporter, check_choice, check_integer, check_positive, import_extra, part_of
from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.similarity import own_scores
from hypersphere.evaluation.metrics.verification import FARS, decided_histogram, pair_metrics, verify_pairs
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource
from hypersphere.evaluation.protocols.known_protocols import PROTOCOLS, Evaluated
from hypersphere.evaluation.protocols.official_files import (
    ALLOWED,
    counted,
    found_units,
    unit_rows,
)
from hypersphere.evaluation.protocols.worst import worst_decisions
from hypersphere.evaluation.protocols.ytf.files import read_splits
from hypersphere.evaluation.protocols.ytf.frame_pca import Projection, projections
from hypersphere.evaluation.results.measurement import LeftOut, Measurement
from hypersphere.evaluation.results.provenance import file_digests
from hypersphere.evaluation.results.result import RULE_SENTENCES, Result
from hypersphere.evaluation.statistics.bootstrap import bootstrap_pairs
from hypersphere.evaluation.statistics.choose_test import PairedBy, Pairing

CLASSIFIERS = ("mean", "hik_svm")
MEAN_SCORE = "mean of the score matrix"
SVM_PURPOSE = "classifier 'hik_svm' (leave it out with classifiers mean)"
_ROWS = 256
PCA_RULE = (
    "Embeddings are projected on the first principal components of the frames of the other nine splits, each frame "
    "once, and normalised then."
)
RULES = (
    "The score matrix of two videos holds the cosine of every frame of the one with every frame of the other.",
    "`accuracy`: the mean of the matrix against a threshold that is best on the other nine splits; mean over splits.",
    "`accuracy_hik_svm`: the matrix as a histogram over [-1, 1], divided by its sum, classified by a support vector "
    "machine with the histogram intersection kernel, trained on the other nine splits (NormFace sec. 5.3; the paper "
    "does not print C, which is an option here).",
    "The worst pairs are those of the mean score; of each video the first frame is shown.",
)


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
        pca: int | None = None,
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
            pca: how many principal components of the other splits' frames are kept (NormFace sec. 5.1); without, none.
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

        same, split = self.same[kept], self.split[kept]
        prepared = [None] if pca is None else self._projections(embeddings, frames, kept, pca)

        def units(video: str, projection: Projection | None) -> Array:
            if projection is None:
                return found_units(embeddings, frames[video])
            rows = frames[video]
            projected = projection(embeddings.values[rows])
            return unit_rows(projected, lambda k: f"the projected embedding of {embeddings.names[rows[k]]!r}")

        work = len(kept) * (len(prepared) + ("hik_svm" in classifiers))
        table = np.zeros((len(prepared), len(kept)))
        histograms = np.zeros((*table.shape, bins if "hik_svm" in classifiers else 0))
        for row, projection in enumerate(prepared):
            for done, pair in enumerate(kept.tolist()):
                matrix = units(self.left[pair], projection) @ units(self.right[pair], projection).T
                table[row, done] = matrix.mean(dtype=np.float64)
                if "hik_svm" in classifiers:
                    histograms[row, done] = _histogram(matrix, bins)
                if progress is not None:
                    progress(row * len(kept) + done + 1, work)
        people = self._people(kept)
        found = verify_pairs(table[0] if pca is None else table, same, split, people)
        scores = table[0] if pca is None else own_scores(table, split)
        measured = Measurement(
            metrics={"accuracy": found.accuracy, **pair_metrics(scores, same, people, fars)},
            counts={
                "pairs": len(self.same),
                "repeated_pairs": len(self.same) - len(set(map(frozenset, zip(self.left, self.right, strict=True)))),
                "pairs_left_out": LeftOut(len(self.same) - len(kept)),
                "videos": len(self.videos),
                "frames": sum(map(len, frames.values())),
                **counted(left_out),
            },
            details={"all": found.folds()},
            curves={MEAN_SCORE: found.roc},
            histograms={MEAN_SCORE: decided_histogram(found, scores, same, np.linspace(-1, 1, 101))},
            worst=worst_decisions(
                [embeddings.names[frames[self.left[pair]][0]] for pair in kept.tolist()],
                [embeddings.names[frames[self.right[pair]][0]] for pair in kept.tolist()],
                same,
                scores,
                split,
                found,
            ),
            items={"fold": split},
        )
        items = {"right": found.right, "scores": scores, "same": same}
        measured.add_decided_pairs(items | {"left_subject": people[0], "right_subject": people[1]}, fars)
        if "hik_svm" in classifiers:
            right = classify_by_histogram(histograms, same, split, cost, progress=part_of(progress, table.size, work))
            each = np.array([right[split == k].mean() for k in np.unique(split)])
            measured.metrics["accuracy_hik_svm"] = bootstrap_pairs(right, people, float(each.mean()))
            measured.details["hik_svm"] = {"fold_accuracies": each.tolist(), "deviation": float(each.std(ddof=1))}
            measured.items["right_hik_svm"] = right
            measured.pairings["accuracy_hik_svm"] = Pairing(PairedBy.DECISIONS, ("right_hik_svm",))
        return Result.of(
            "ytf",
            measured,
            embeddings,
            options={
                "similarity": "cosine",
                "classifiers": list(classifiers),
                "bins": bins,
                "cost": cost,
                "allow_missing": allow_missing,
                **({} if pca is None else {"pca": pca}),
            },
            rules=(*RULE_SENTENCES, *RULES, *([] if pca is None else [PCA_RULE])),
            decided=((self.left[pair], self.right[pair]) for pair in kept.tolist()),
            files=self.files,
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

    def _projections(
        self, embeddings: Embeddings, frames: Mapping[str, Ints], kept: Ints, components: int
    ) -> list[Projection]:
        """What the pairs of each split are compared in: learned from the videos of the other splits' pairs."""
        numbers = np.unique(self.split[kept])
        learned_from = {video: np.zeros(len(numbers), dtype=bool) for video in self.videos if video in frames}
        for pair in kept.tolist():
            for video in (self.left[pair], self.right[pair]):
                learned_from[video] |= numbers != self.split[pair]
        return projections(learned_from, lambda video: embeddings.values[frames[video]], components)

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
    pairs = read_splits(path)
    return Ytf(
        path=path,
        left=tuple(pair.left for pair in pairs),
        right=tuple(pair.right for pair in pairs),
        same=np.array([pair.same for pair in pairs]),
        split=np.array([pair.split for pair in pairs], dtype=np.int64) - 1,
        lines=np.array([pair.line for pair in pairs], dtype=np.int64),
        files=file_digests([path]),
    )


def classify_by_histogram(
    histograms: Floats, same: Bools, split: Ints, cost: float = 1.0, progress: Reporter | None = None
) -> Bools:
    """(pairs,) whether each was decided rightly by scikit-learn's machine, trained on the other splits.

    Args:
        histograms: (1, pairs, bins), or (splits, pairs, bins) with those that each split is decided by.
        same: (pairs,) truth.
        split: (pairs,).
        cost: C.
        progress: called as `progress(done, total)` in pairs.
    """
    check_positive("cost", cost)
    svm = import_extra("sklearn.svm", SVM_PURPOSE)
    kernel = intersection_kernel(histograms[0], histograms[0])
    right = np.zeros(len(same), dtype=bool)
    for row, number in enumerate(np.unique(split)):
        if row and len(histograms) > 1:
            kernel = intersection_kernel(histograms[row], histograms[row])
        tested, taught = np.flatnonzero(split == number), np.flatnonzero(split != number)
        machine = svm.SVC(C=cost, kernel="precomputed").fit(kernel[np.ix_(taught, taught)], same[taught])
        right[tested] = machine.predict(kernel[np.ix_(tested, taught)]) == same[tested]
        if progress is not None:
            progress(int((split <= number).sum()), len(split))
    return right


def intersection_kernel(first: Array, second: Array) -> Floats:
    """(n, m) sums over the bins of the smaller count: K(a, b) = sum_k min(a_k, b_k) (Barla et al. 2003).

    Args:
        first: (n, bins).
        second: (m, bins).
    """
    kernel = np.zeros((len(first), len(second)))
    for top in range(0, len(first), _ROWS):
        part = kernel[top : top + _ROWS]
        for left, right in zip(first[top : top + _ROWS].T, second.T, strict=True):
            if left.any() and right.any():
                part += np.minimum(left[:, None], right)
    return kernel


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


@PROTOCOLS.register("ytf")
def run_ytf(
    source: EmbeddingSource,
    *,
    splits: str | Path,
    classifiers: Sequence[str] = CLASSIFIERS,
    bins: int = 100,
    cost: float = 1.0,
    pca: int | None = None,
    fars: Sequence[float] = FARS,
) -> Evaluated:
    """YouTube Faces: `splits` is `splits.txt`, the frames are what lies in the folders of its videos; else as
    `Ytf.evaluate`.
    """
    if "hik_svm" in classifiers:
        import_extra("sklearn.svm", SVM_PURPOSE)
    protocol = read_ytf(splits)
    names = protocol.names_among(source.image_names())
    if not source.allow_missing:
        protocol.check_videos(names)
    embeddings, images = source.gather(names, "ytf")
    with source.measuring("measuring", "pairs") as progress:
        result = protocol.evaluate(
            embeddings,
            classifiers=classifiers,
            bins=bins,
            cost=cost,
            pca=pca,
            fars=fars,
            allow_missing=source.allow_missing,
            progress=progress,
        )
    return Evaluated(result, protocol.path.name, {"": images})
