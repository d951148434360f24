"""LFW by the BLUFR protocol: ten trials of verification over all pairs, and of open-set identification."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import Reporter, check_integer
from hypersphere.evaluation.arrays import Array, Floats, Ints
from hypersphere.evaluation.bootstrap import percentile_figure, subject_draws
from hypersphere.evaluation.counting import ScoreCounts
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.figures import Figure, NotMeasurable, check_measurable, rate_name, wilson_interval
from hypersphere.evaluation.identification import open_set_roc
from hypersphere.evaluation.inputs import digest, file_digests, joined_files
from hypersphere.evaluation.items import TRIALS as BY_TRIALS
from hypersphere.evaluation.protocols.files import common_options, counted, find_images, missing_images, unit_rows
from hypersphere.evaluation.protocols.registry import PROTOCOLS
from hypersphere.evaluation.results import RULE_SENTENCES, Result
from hypersphere.evaluation.roc import Roc, roc_from
from hypersphere.evaluation.search import search_gallery
from hypersphere.evaluation.verification import Metrics

TRIALS = 10
_BLOCK = 2048
_NUMBERED = re.compile(r"(?P<person>.+)_\d+\.\w+")

RULES = (
    "Verification: in every trial all pairs of test images; identification: the trial's probes against its gallery.",
    "DIR: share of probes of enrolled people whose best entry is their own and scores at least the threshold; its FAR "
    "is the share of other probes whose best entry does.",
    "The protocol's authors report mean - sd over the trials (sd with n - 1): `..._less_sd`.",
    "Intervals are of the trials as drawn: Student's t for means, bootstrap over trials for mean - sd.",
)


@dataclass(frozen=True)
class Trial:
    """One trial: rows of the image list, from 0."""

    train: Ints
    test: Ints
    gallery: Ints
    probes: Ints


@PROTOCOLS.register("blufr")
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

    def evaluate(
        self,
        embeddings: Embeddings,
        *,
        fars: Sequence[float] = (1e-3,),
        open_set_fars: Sequence[float] = (1e-2,),
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
        rows = find_images(embeddings, self.names, str(self.path), allow_missing)
        verification, identification = [], []
        for done, trial in enumerate(self.trials, start=1):
            part = _present(trial, rows)
            units = _prepared(embeddings.values, rows, part, pca)
            verification.append(_verify(units, self.labels, part.test))
            identification.append(_identify(units, self.labels, part, f"{self.path}, trial {done}"))
            if progress is not None:
                progress(done, len(self.trials))
        metrics: Metrics = {}
        details: dict[str, Any] = {}
        for name, curves, rates in (("vr", verification, fars), ("dir", identification, open_set_fars)):
            for rate in rates:
                _summarise(rate_name(f"{name}@far", rate), curves, rate, metrics, details)
        left_out = missing_images(self.names, rows, [embeddings])
        return Result(
            protocol="blufr",
            metrics=metrics,
            options={"similarity": "cosine", "pca": pca, **common_options(embeddings, allow_missing)},
            rules=(*RULE_SENTENCES, *RULES),
            counts={
                "images": len(self.names),
                **counted(left_out),
                "trials": len(self.trials),
                "genuine_pairs_a_trial": min(roc.genuine for roc in verification),
                "impostor_pairs_a_trial": min(roc.impostors for roc in verification),
            },
            details=details,
            curves={"verification, trial 1": verification[0], "open set, trial 1": identification[0]},
            items={f"{BY_TRIALS}{name}": detail["trials"] for name, detail in details.items()},
            items_digest=digest(np.array(self.names)[rows >= 0].tolist()),
            files=joined_files([self.files, embeddings.files]),
            left_out=left_out,
        )


def read_blufr(path: str | Path) -> Blufr:
    """Read `blufr_lfw_config.mat`.

    Args:
        path: the file, with imageList, labels, trainIndex, testIndex, galIndex and probIndex.
    """
    path = Path(path)
    table = _load(path)
    names = [str(np.asarray(cell).ravel()[0]) for cell in _entry(table, "imageList", path).ravel()]
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        if name in first:
            raise ValueError(f"{path}: imageList{{{place}}} is {name!r}, which imageList{{{first[name]}}} is already")
        first[name] = place
    labels = _entry(table, "labels", path).ravel()
    if labels.shape != (len(names),):
        raise ValueError(f"{path}: labels has {labels.size} entries; imageList has {len(names)}")
    sets = {key: _cells(table, key, path, len(names)) for key in ("trainIndex", "testIndex", "galIndex", "probIndex")}
    trials = []
    for number, parts in enumerate(zip(*sets.values(), strict=True), start=1):
        trial = Trial(*parts)
        _check_trial(trial, f"{path}, trial {number}")
        trials.append(trial)
    return Blufr(path, tuple(map(_in_folder, names)), labels.astype(np.int64), tuple(trials), file_digests([path]))


def _load(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    try:
        table: dict[str, Any] = loadmat(path)
    except NotImplementedError:
        raise ValueError(f"{path}: written by MATLAB 7.3 as HDF5; save it again with -v7") from None
    except Exception as error:  # scipy raises whatever the bytes led to
        raise ValueError(f"{path}: not a MATLAB file ({error})") from None
    return table


def _entry(table: dict[str, Any], key: str, path: Path) -> Array:
    if key not in table or np.size(table[key]) == 0:
        raise ValueError(f"{path}: {key} is missing or empty; it has {', '.join(k for k in table if k[0] != '_')}")
    return np.asarray(table[key])


def _cells(table: dict[str, Any], key: str, path: Path, count: int) -> list[Ints]:
    """The index sets of a cell array, from 0, each checked."""
    cells = _entry(table, key, path).ravel()
    if len(cells) != TRIALS:
        raise ValueError(f"{path}: {key} has {len(cells)} trials; the protocol has {TRIALS}")
    found = []
    for number, cell in enumerate(cells, start=1):
        indices = np.asarray(cell).ravel().astype(np.int64)
        where = f"{path}: {key}{{{number}}}"
        if len(indices) == 0:
            raise ValueError(f"{where} is empty")
        outside = indices[(indices < 1) | (indices > count)]
        if len(outside):
            raise ValueError(f"{where} holds {outside[0]}; imageList has 1 to {count}")
        different, times = np.unique(indices, return_counts=True)
        if (times > 1).any():
            raise ValueError(f"{where} holds {different[np.argmax(times > 1)]} twice")
        found.append(indices - 1)
    return found


def _check_trial(trial: Trial, where: str) -> None:
    both = np.intersect1d(trial.gallery, trial.probes)
    if len(both):
        raise ValueError(f"{where}: image {both[0] + 1} is in galIndex and in probIndex")
    apart = np.setxor1d(trial.test, np.union1d(trial.gallery, trial.probes))
    if len(apart):
        raise ValueError(f"{where}: testIndex must be galIndex and probIndex together; image {apart[0] + 1} is not")
    shared = np.intersect1d(trial.train, trial.test)
    if len(shared):
        raise ValueError(f"{where}: image {shared[0] + 1} is in trainIndex and in testIndex")


def _in_folder(name: str) -> str:
    match = _NUMBERED.fullmatch(name)
    return f"{match['person']}/{name}" if match is not None else name


def _present(trial: Trial, rows: Ints) -> Trial:
    return Trial(*(part[rows[part] >= 0] for part in (trial.train, trial.test, trial.gallery, trial.probes)))


def _prepared(values: Array, rows: Ints, trial: Trial, pca: int | None) -> Array:
    """(images, dim) unit vectors of the trial's test images at their places in the image list; zeros elsewhere."""
    tested = values[rows[trial.test]]
    if pca is not None:
        tested = _projected(values[rows[trial.train]], tested, pca)
    units = np.zeros((len(rows), tested.shape[1]), dtype=np.float32)
    units[trial.test] = unit_rows(tested, "test image")
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


def _verify(units: Array, labels: Ints, test: Ints) -> Roc:
    """The curve of all pairs of test images."""
    genuine, impostors = ScoreCounts(), ScoreCounts()
    for top in range(0, len(test), _BLOCK):
        left, right = test[top : top + _BLOCK], test[top:]
        scores = units[left] @ units[right].T
        later = np.arange(len(right)) > np.arange(len(left))[:, None]
        same = labels[left][:, None] == labels[right]
        genuine.add(scores[later & same])
        impostors.add(scores[later & ~same])
    return roc_from(genuine, impostors)


def _identify(units: Array, labels: Ints, trial: Trial, where: str) -> Roc:
    try:
        matches = search_gallery(units[trial.probes], units[trial.gallery], 1)
        return open_set_roc(matches, labels[trial.probes], labels[trial.gallery])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _summarise(name: str, curves: list[Roc], rate: float, metrics: Metrics, details: dict[str, Any]) -> None:
    """Mean and mean - sd of the rate at which genuine ones are accepted, over the trials."""
    fewest = min(roc.impostors for roc in curves)
    own, rest = name.split("@")
    lowered = f"{own}_less_sd@{rest}"
    missing = check_measurable(rate, fewest)
    if isinstance(missing, NotMeasurable):
        metrics[name] = metrics[lowered] = missing
        return
    values = np.array([roc.tar_at(rate) for roc in curves])
    deviation = float(values.std(ddof=1))
    metrics[name] = _mean(values, deviation)
    drawn = np.array([_lowered(np.repeat(values, times)) for times in subject_draws(len(values), 1000, 0)])
    metrics[lowered] = percentile_figure(
        _lowered(values), drawn, len(values), len(values), "bootstrap over trials", share=False
    )
    details[name] = {"trials": values, "sd": deviation}


def _lowered(values: Floats) -> float:
    return float(values.mean() - values.std(ddof=1))


def _mean(values: Floats, deviation: float) -> Figure:
    from scipy.special import stdtrit

    mean, count = float(values.mean()), len(values)
    if deviation == 0:
        return Figure(mean, *wilson_interval(mean * count, count), count, "wilson over trials")
    half = float(stdtrit(count - 1, 0.975)) * deviation / count**0.5
    return Figure(mean, max(0.0, mean - half), min(1.0, mean + half), count, "student t over trials")
