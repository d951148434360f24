"""LFW by the BLUFR protocol: ten trials of verification over all pairs, and of open-set identification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hypersphere.core import Reporter, check_integer
from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.identification import open_set_curve, open_set_histogram, open_set_scores
from hypersphere.evaluation.metrics.roc import Roc, roc_from
from hypersphere.evaluation.metrics.search import search_gallery
from hypersphere.evaluation.protocols.blufr.files import Trial, read_config
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource
from hypersphere.evaluation.protocols.known_protocols import PROTOCOLS, Evaluated
from hypersphere.evaluation.protocols.official_files import (
    counted,
    find_images,
    kept_names,
    missing_images,
    unit_rows,
)
from hypersphere.evaluation.protocols.worst import HighestPairs, worst_pairs
from hypersphere.evaluation.results.measurement import Measurement
from hypersphere.evaluation.results.provenance import file_digests
from hypersphere.evaluation.results.result import RULE_SENTENCES, Result
from hypersphere.evaluation.statistics.bootstrap import percentile_estimate, subject_draws
from hypersphere.evaluation.statistics.choose_test import PairedBy, Pairing
from hypersphere.evaluation.statistics.estimate import (
    Estimate,
    check_measurable,
    rate_name,
    wilson_interval,
)
from hypersphere.evaluation.statistics.histogram import score_histogram
from hypersphere.evaluation.statistics.scores import ScoreBuffer, SortedScores

FARS, OPEN_SET_FARS = (1e-3,), (1e-2,)
_BLOCK = 2048
VERIFICATION, OPEN_SET = "verification, trial 1", "open set, trial 1"

RULES = (
    "Verification: in every trial all pairs of test images; identification: the trial's probes against its gallery.",
    "DIR: share of probes of enrolled people whose best entry is their own and scores at least the threshold; its FAR "
    "is the share of other probes whose best entry does.",
    "The protocol's authors report mean - sd over the trials (sd with n - 1): `..._less_sd`.",
    "Curves, histograms and worst pairs are those of trial 1.",
    "Intervals are of the trials as drawn: Student's t for means, bootstrap over trials for mean - sd.",
)


@dataclass(frozen=True)
class Blufr:
    """The protocol as its configuration file has it.

    Args:
        path: the file.
        names: the images, as LFW lays them out: `Ada_Lee/Ada_Lee_0001.jpg`.
        labels: (images,) people.
        trials: ten.
        files: the file with its digest.
    """

    path: Path
    names: tuple[str, ...]
    labels: Ints
    trials: tuple[Trial, ...]
    files: Mapping[str, str] = field(default_factory=dict)

    def place(self, image: int) -> str:
        """The file and the entry that name the k-th image."""
        return f"{self.path}, imageList{{{image + 1}}}"

    def evaluate(
        self,
        embeddings: Embeddings,
        *,
        fars: Sequence[float] = FARS,
        open_set_fars: Sequence[float] = OPEN_SET_FARS,
        pca: int | None = None,
        allow_missing: bool = False,
        progress: Reporter | None = None,
    ) -> Result:
        """VR at a FAR and rank-1 DIR at a FAR, over the trials.

        Args:
            embeddings: compared by cosine.
            fars: of verification; the authors report 0.1 %.
            open_set_fars: of identification; the authors report 1 %.
            pca: how many components of a PCA fitted on each trial's training images (NormFace); without, none.
            allow_missing: leave out images that have no embedding, and count them.
            progress: called as `progress(done, total)` in trials.
        """
        rows = find_images(embeddings, self.names, self.place, allow_missing)
        verification, identification = [], []
        measured = Measurement()
        for done, trial in enumerate(self.trials, start=1):
            part = _present(trial, rows)
            units = _prepared(embeddings, rows, part, pca)
            scores = _verify(units, self.labels, part.test, done == 1)
            verification.append(roc_from(scores.genuine, scores.impostors))
            found = _identify(units, self.labels, part, f"{self.path}, trial {done}")
            identification.append(open_set_curve(*found))
            if done == 1:
                drawn = score_histogram(scores.genuine, scores.impostors)
                measured.histograms[VERIFICATION] = drawn.at_lowest(verification[0], fars)
                picture = open_set_histogram(*found).at_lowest(identification[0], open_set_fars)
                measured.histograms[OPEN_SET] = picture
                measured.worst = worst_pairs(scores.closest, scores.farthest, self.names.__getitem__)
            if progress is not None:
                progress(done, len(self.trials))
        for name, curves, rates in (("vr", verification, fars), ("dir", identification, open_set_fars)):
            for rate in rates:
                _summarise(name, rate, curves, measured)
        left_out = missing_images(self.names, rows, [embeddings])
        measured.counts = {
            "images": len(self.names),
            **counted(left_out),
            "trials": len(self.trials),
            "genuine_pairs_a_trial": min(roc.genuine for roc in verification),
            "impostor_pairs_a_trial": min(roc.impostors for roc in verification),
        }
        measured.curves = {VERIFICATION: verification[0], OPEN_SET: identification[0]}
        return Result.of(
            "blufr",
            measured,
            embeddings,
            options={"similarity": "cosine", "pca": pca, "allow_missing": allow_missing},
            rules=(*RULE_SENTENCES, *RULES),
            decided=kept_names(self.names, rows >= 0),
            files=self.files,
            left_out=left_out,
        )


def _present(trial: Trial, rows: Ints) -> Trial:
    return Trial(*(part[rows[part] >= 0] for part in (trial.train, trial.test, trial.gallery, trial.probes)))


def _prepared(embeddings: Embeddings, rows: Ints, trial: Trial, pca: int | None) -> Array:
    """(images, dim) unit vectors of the trial's test images at their places in the image list; zeros elsewhere."""
    values, own = embeddings.values, rows[trial.test]
    tested = values[own]
    if pca is not None:
        tested = _projected(values[rows[trial.train]], tested, pca)
    units = np.zeros((len(rows), tested.shape[1]), dtype=np.float32)
    units[trial.test] = unit_rows(tested, lambda k: f"the embedding of {embeddings.names[own[k]]!r}")
    return units


def _projected(train: Array, tested: Array, components: int) -> Array:
    """The test embeddings less the mean of the training ones, in the latter's first principal directions."""
    check_integer("pca", components, 1)
    if components > min(train.shape):
        raise ValueError(
            f"pca={components} must be at most {min(train.shape)}: {len(train)} images of {train.shape[1]}"
        )
    centre = train.mean(axis=0, dtype=np.float64)
    _, _, directions = np.linalg.svd(train - centre, full_matrices=False)
    projected: Array = (tested - centre) @ directions[:components].T
    return projected


@dataclass(frozen=True)
class _Scores:
    """Of all pairs of a trial's test images: the two kinds, the impostors most alike, and the mates least alike."""

    genuine: SortedScores
    impostors: SortedScores
    closest: HighestPairs
    farthest: HighestPairs


def _verify(units: Array, labels: Ints, test: Ints, keep: bool) -> _Scores:
    """The scores of a trial; with `keep` the pairs at the ends too."""
    of_person = np.unique(labels[test], return_counts=True)[1]
    together = int((of_person * (of_person - 1) // 2).sum())
    genuine, impostors = ScoreBuffer(together), ScoreBuffer(len(test) * (len(test) - 1) // 2 - together)
    closest, farthest = HighestPairs(), HighestPairs()
    for top in range(0, len(test), _BLOCK):
        left, right = test[top : top + _BLOCK], test[top:]
        scores = units[left] @ units[right].T
        later = np.arange(len(right)) > np.arange(len(left))[:, None]
        same = labels[left][:, None] == labels[right]
        mates, others = later & same, later & ~same
        genuine.add(scores[mates])
        impostors.add(scores[others])
        if keep:
            one, two = farthest.among(-scores, mates)
            farthest.add(-scores[one, two], left[one], right[two])
            one, two = closest.among(scores, others)
            closest.add(scores[one, two], left[one], right[two])
    return _Scores(genuine.sorted(), impostors.sorted(), closest, farthest)


def _identify(units: Array, labels: Ints, trial: Trial, where: str) -> tuple[Array, Bools]:
    """The scores of the open set, and which probes have a mate."""
    try:
        matches = search_gallery(units[trial.probes], units[trial.gallery], 1)
        return open_set_scores(matches, labels[trial.probes], labels[trial.gallery], 1)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _summarise(kind: str, rate: float, curves: list[Roc], measured: Measurement) -> None:
    """Mean and mean - sd of the rate at which genuine ones are accepted, over the trials."""
    name, lowered = rate_name(f"{kind}@far", rate), rate_name(f"{kind}_less_sd@far", rate)
    metrics = measured.metrics
    missing = check_measurable(rate, min(roc.impostors for roc in curves))
    if missing is not None:
        metrics[name] = metrics[lowered] = missing
        return
    values = np.array([roc.tar_at(rate) for roc in curves])
    deviation = float(values.std(ddof=1))
    metrics[name] = _mean(values, deviation)
    metrics[lowered] = metrics[name]
    if deviation > 0:
        drawn = np.array([_lowered(np.repeat(values, times)) for times in subject_draws(len(values), 1000, 0)])
        metrics[lowered] = percentile_estimate(
            _lowered(values), drawn, len(values), len(values), "bootstrap over trials", share=False
        )
    measured.details[name] = {"trials": values, "sd": deviation}
    measured.items[f"trials:{name}"] = values
    measured.pairings[name] = Pairing(PairedBy.TRIALS, (f"trials:{name}",))
    measured.pairings[lowered] = Pairing(PairedBy.TRIALS_LESS_SD, (f"trials:{name}",))


def _lowered(values: Floats) -> float:
    return float(values.mean() - values.std(ddof=1))


def _mean(values: Floats, deviation: float) -> Estimate:
    from scipy.special import stdtrit

    mean, count = float(values.mean()), len(values)
    if deviation == 0:
        return Estimate(mean, *wilson_interval(mean * count, count), count, "wilson over trials")
    half = float(stdtrit(count - 1, 0.975)) * deviation / count**0.5
    return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half), count, "student t over trials")


def read_blufr(path: str | Path) -> Blufr:
    """Read `blufr_lfw_config.mat`.

    Args:
        path: the file, with imageList, labels, trainIndex, testIndex, galIndex and probIndex.
    """
    path = Path(path)
    names, labels, trials = read_config(path)
    return Blufr(path, names, labels, trials, file_digests([path]))


@PROTOCOLS.register("blufr")
def run_blufr(
    source: EmbeddingSource,
    *,
    config: str | Path,
    pca: int | None = None,
    fars: Sequence[float] = FARS,
    open_set_fars: Sequence[float] = OPEN_SET_FARS,
) -> Evaluated:
    """LFW by BLUFR: `config` is `blufr_lfw_config.mat`; else as `Blufr.evaluate`."""
    protocol = read_blufr(config)
    embeddings, images = source.gather(protocol.names, "blufr", where=protocol.place)
    with source.measuring("measuring", "trials") as progress:
        result = protocol.evaluate(
            embeddings,
            fars=fars,
            open_set_fars=open_set_fars,
            pca=pca,
            allow_missing=source.allow_missing,
            progress=progress,
        )
    return Evaluated(result, protocol.path.name, {"": images})
