"""What searches say of a network: templates, distractors and BLUFR's trials, decided person by person.

IJB, MegaFace and BLUFR themselves are not at hand. Their protocols, by the functions that evaluate them, take the
people here who are not trained on. What is kept of a run is how much of each person's was right, so that runs can be
compared by the same draws of people as on pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hypersphere.evaluation import (
    Embeddings,
    HighestScores,
    Matches,
    Roc,
    SortedScores,
    check_measurable,
    mate_ranks,
    mated,
    open_set_curve,
    open_set_scores,
    ranks_among,
    roc_from,
    tail_roc,
    verify_pairs,
)
from hypersphere.evaluation.protocols import Pooling, mate_pairs, pool_templates
from hypersphere.geometry import normalize
from hypersphere.training import Trained, UnseenPairs, read_log

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Measured = dict[str, Any]
HELD_OUT, LFW = "held out", "LFW"
"""What the people of the two sets are called in the names of measures: `rank-1, LFW`."""
PEOPLE_OF_SETS = {"held-out identities": HELD_OUT, "lfw-pairs": LFW}
"""By the titles of the two sets of pairs."""
PAIRS = {"lfw": "lfw-pairs", "pairs": "held-out identities"}
"""The titles of the two sets of pairs by the names of their decisions."""
RAW = tuple(f"{name} {similarity}" for name in PAIRS for similarity in ("inner", "euclidean"))
"""Decisions about pairs whose embeddings are not normalised: by inner products, and by distances."""
FARS, FPIRS = (1e-5, 1e-4, 1e-3), (1e-2, 1e-1)
"""Of templates; where people are too few for a rate, it is left out."""
DISTRACTOR_FARS = (1e-6, 1e-5)
CURVE_FARS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Where curves are kept."""
RANKS = 10
TRIALS = 10
SEARCHED = (
    *(f"TAR at FAR 1e-{digits}" for digits in (5, 4, 3)),
    *(f"TPIR at FPIR 1e-{digits}" for digits in (2, 1)),
    "rank-1",
    "rank-1 among distractors",
    *(f"TAR at FAR 1e-{digits} among distractors" for digits in (6, 5)),
    "VR at FAR 0.1 %",
    "DIR at FAR 1 %",
)
"""The measures that have a number of every person."""
_TEST_SHARE = 0.75
"""BLUFR trains on 1,500 of 5,749 people and tests on the others."""


@dataclass(frozen=True)
class People:
    """Images of people whom training did not see.

    An image labelled -1 is of nobody that is known. It is a distractor to people of another set; among its own people
    it is left out, for it may be of any of them: neither a mate nor an impostor.

    Args:
        embeddings: (images, dim), as the network gives them.
        labels: (images,) who is on each, numbered from 0; -1 where that is unknown.
    """

    embeddings: Tensor
    labels: Ints

    @property
    def units(self) -> Tensor:
        """(images, dim) in double precision."""
        return normalize(self.embeddings.double())

    def known(self) -> People:
        """The images whose people are known."""
        kept = np.flatnonzero(self.labels >= 0)
        return self if len(kept) == len(self.labels) else self._rows(kept)

    def with_mates(self) -> People:
        """Those with at least two images, numbered anew."""
        known = self.known()
        ours = known._rows(np.flatnonzero(np.bincount(known.labels)[known.labels] > 1))
        return People(ours.embeddings, np.unique(ours.labels, return_inverse=True)[1])

    def _rows(self, rows: Ints) -> People:
        return People(self.embeddings[torch.from_numpy(rows).to(self.embeddings.device)], self.labels[rows])


def measure_searches(trained: Trained, sets: Sequence[UnseenPairs], device: str) -> Mapping[str, Any]:
    """Measure what a run left behind on the people of its two validation sets; a `Measure` of `run_tasks`.

    Returns:
        by name: of every measure of `Evidence`, (people,) the share that was right of each person; curves; the last
        loss of the log; of a softmax head, the norms of its prototypes and the decisions of `RAW`.
    """
    people: dict[str, People] = {}
    found: Measured = {}
    free = not trained.head.objective.normalizes_prototypes
    for each in sets:
        embeddings = each.embeddings(trained.backbone, device)
        people[PEOPLE_OF_SETS[each.title]] = People(embeddings.to(device), each.people_on_images)
        found |= measure_raw_pairs(each, embeddings) if free else {}
    for name, one in people.items():
        found |= _named(measure_templates(one), name)
    held, lfw = people[HELD_OUT], people[LFW]
    found |= _named(measure_distractors(held, lfw), HELD_OUT) | _named(measure_distractors(lfw, held), LFW)
    found |= _named(measure_trials(lfw), LFW)
    log = [float(line["loss"]) for line in read_log(trained.folder / "log.jsonl") if "loss" in line]
    if log:
        found |= {"first loss": log[0], "last loss": log[-1]}
    if free:
        found["prototype norms"] = trained.head.weight.detach().norm(dim=1).cpu().numpy().astype(np.float16)
    return found


def _named(found: Measured, people: str) -> Measured:
    return {f"{name}, {people}": value for name, value in found.items()}


def measure_raw_pairs(pairs: UnseenPairs, embeddings: Tensor) -> Measured:
    """NormFace Table 1, before: whether each pair is decided rightly by the inner product and by the distance.

    Args:
        pairs: one of the two sets.
        embeddings: (images, dim), as the network gives them.
    """
    name = next(name for name, title in PAIRS.items() if title == pairs.title)
    one, two = (embeddings[torch.from_numpy(side)].double() for side in (pairs.left, pairs.right))
    scores = {"inner": (one * two).sum(1), "euclidean": -(one - two).norm(dim=1)}
    folds = 10 if pairs.folds is None else pairs.folds
    return {f"{name} {how}": verify_pairs(values.numpy(), pairs.same, folds).right for how, values in scores.items()}


def measure_templates(people: People) -> Measured:
    """IJB: two templates of each person, every second image in the second; 1:1 and, in two galleries, 1:N.

    Returns:
        whether the genuine pair of each person is accepted at a FAR of all pairs of a first and a second template;
        whether the first template of the person is the best entry of its half of the people (rank-1), and scores at
        least the threshold of a FPIR of the people of the other half; the ROC of 1:1.
    """
    ours = people.with_mates()
    turn = _turns(ours.labels) % 2
    vectors = Embeddings([str(row) for row in range(len(turn))], ours.embeddings.cpu().numpy())
    rows = np.arange(len(turn))
    _, units = pool_templates(vectors, rows, 2 * ours.labels + turn, rows, None, Pooling(detector_score=False))
    gallery, probes = (torch.from_numpy(units[part::2]).to(ours.embeddings.device) for part in (0, 1))
    scores = probes.double() @ gallery.double().T
    roc, genuine = _template_roc(scores)
    found: Measured = {"template ROC": np.array([roc.tar_at(far) for far in CURVE_FARS], dtype=np.float32)}
    for far in FARS:
        if check_measurable(far, roc.impostors) is None:
            found[f"TAR at FAR {_rate(far)}"] = genuine >= roc.thresholds[roc.point_at(far)]
    return found | _identify(scores)


def _template_roc(scores: Tensor) -> tuple[Roc, Floats]:
    """The curve of all pairs of (people, people) scores, and the genuine ones, which are on the diagonal."""
    genuine = scores.diagonal().float().cpu().numpy()
    apart = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    return roc_from(SortedScores(genuine), SortedScores(scores[apart].float().cpu().numpy())), genuine


def _identify(scores: Tensor) -> Measured:
    """1:N of (probes, entries) scores of as many people: each half of the entries is a gallery by itself."""
    count = len(scores)
    people = np.arange(count)
    found: Measured = {"rank-1": np.zeros(count, dtype=bool)}
    for half in (0, 1):
        entries = people[half::2]
        matches = _best(scores[:, half::2], 1)
        here = mated(people, entries)
        found["rank-1"][here] = mate_ranks(matches, people, entries)[here] == 1
        accepted, with_mate = open_set_scores(matches, people, entries, 1)
        roc = open_set_curve(accepted, with_mate)
        for fpir in FPIRS:
            name = f"TPIR at FPIR {_rate(fpir)}"
            if check_measurable(fpir, count // 2) is None:  # the fewer without a mate of the two galleries
                right = found.setdefault(name, np.zeros(count, dtype=bool))
                right[here] = accepted[here] >= roc.thresholds[roc.point_at(fpir)]
    return found


def measure_distractors(people: People, others: People) -> Measured:
    """MegaFace: one image of a person searched by another among the images of other people.

    Returns:
        of each person with two images, the share of ordered pairs that has the mate before all distractors, and that
        is accepted at a FAR of all pairs of a probe and a distractor; the CMC and the ROC, in which people count alike.
    """
    ours = people.with_mates()
    left, _, genuine = mate_pairs(ours.units.float().cpu().numpy(), ours.labels)
    scores = ours.units @ others.units.T
    nearest = _best(scores, RANKS)
    places = ranks_among(genuine, Matches(nearest.indices[left], nearest.scores[left]))
    roc = tail_roc(genuine, _highest(scores.flatten(), max(CURVE_FARS[:4]), scores.numel()))
    owners = ours.labels[left]
    found: Measured = {"rank-1 among distractors": _by_person(places == 1, owners)}
    for far in DISTRACTOR_FARS:
        accepted = genuine >= roc.thresholds[roc.point_at(far)]
        found[f"TAR at FAR {_rate(far)} among distractors"] = _by_person(accepted, owners)
    found["CMC"] = np.array([_by_person(places <= rank, owners).mean() for rank in range(1, RANKS + 1)], np.float32)
    thresholds = [roc.thresholds[roc.point_at(far)] for far in CURVE_FARS[:4]]
    found["distractor ROC"] = np.array([_by_person(genuine >= t, owners).mean() for t in thresholds], np.float32)
    return found


def draw_trials(labels: Ints, trials: int = TRIALS) -> list[tuple[Ints, Ints]]:
    """Trials as BLUFR's: of each, the images tested, and those of them that are the gallery.

    Three quarters of the people are tested. Half of those who have several images are enrolled, with one.
    """
    drawn, several = [], np.bincount(labels) > 1
    for trial in range(trials):
        generator = np.random.default_rng([15, trial])
        order = generator.permutation(len(several))
        tested = order[: round(_TEST_SHARE * len(order))]
        enrolled = [person for person in tested if several[person]]
        first = np.array([generator.choice(np.flatnonzero(labels == p)) for p in enrolled[: len(enrolled) // 2]])
        drawn.append((np.flatnonzero(np.isin(labels, tested)), np.sort(first)))
    return drawn


def measure_trials(people: People, trials: int = TRIALS) -> Measured:
    """BLUFR: verification over all pairs of tested images, and open-set identification of the others by a gallery.

    Returns:
        over all trials, of each person with two images who is tested, the share of genuine pairs that is accepted at a
        FAR of 0.1 %; and of each who is enrolled, the share of probes whose best entry is right and is accepted at a
        FAR of 1 % of the probes of others.
    """
    people = people.known()
    count, units = len(np.bincount(people.labels)), people.units
    sums = {name: np.zeros((2, count)) for name in ("VR at FAR 0.1 %", "DIR at FAR 1 %")}
    for tested, gallery in draw_trials(people.labels, trials):
        labels, rows = people.labels[tested], torch.from_numpy(tested).to(units.device)
        scores = units[rows] @ units[rows].T
        accepted, owners = _verify(scores, labels)
        _add(sums["VR at FAR 0.1 %"], accepted, owners)
        probes, entries = np.isin(tested, gallery, invert=True), np.isin(tested, gallery)
        near = scores[torch.from_numpy(probes).to(units.device)][:, torch.from_numpy(entries).to(units.device)]
        found, with_mate = open_set_scores(_best(near, 1), labels[probes], labels[entries], 1)
        roc = open_set_curve(found, with_mate)
        right = found >= roc.thresholds[roc.point_at(1e-2)]
        _add(sums["DIR at FAR 1 %"], right[with_mate], labels[probes][with_mate])
    return {name: (right[total > 0] / total[total > 0]).astype(np.float32) for name, (right, total) in sums.items()}


def _verify(scores: Tensor, labels: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Of (images, images) scores: whether each genuine pair is accepted at a FAR of 0.1 %, and whose it is."""
    people = torch.from_numpy(labels).to(scores.device)
    later = torch.ones_like(scores, dtype=torch.bool).triu(1)
    same = people[:, None] == people
    genuine_at = later & same
    genuine = scores[genuine_at].float().cpu().numpy()
    impostors = scores[later & ~same]
    roc = tail_roc(genuine, _highest(impostors, 1e-3, len(impostors)))
    owners = labels[torch.nonzero(genuine_at)[:, 0].cpu().numpy()]
    return genuine >= roc.thresholds[roc.point_at(1e-3)], owners


def _best(scores: Tensor, count: int) -> Matches:
    """The best entries of each row."""
    values, indices = scores.topk(min(count, scores.shape[1]), dim=1)
    return Matches(indices.cpu().numpy(), values.float().cpu().numpy())


def _highest(scores: Tensor, far: float, total: int) -> HighestScores:
    """The impostor scores that decide a curve up to a FAR."""
    keep = min(int(far * total) + 2, total)
    tail = HighestScores(keep)
    tail.add(scores.topk(keep).values.float().cpu().numpy())
    tail.total = total
    return tail


def _turns(labels: Ints) -> Ints:
    """(images,) how many images of the same person come before each."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    turns = np.arange(len(labels)) - np.repeat(starts, np.diff(np.append(starts, len(labels))))
    found = np.empty_like(turns)
    found[order] = turns
    return found


def _by_person(right: npt.NDArray[np.bool_], owners: Ints) -> Floats:
    """(people,) the mean over the rows of each."""
    return (np.bincount(owners, weights=right) / np.bincount(owners)).astype(np.float32)


def _add(sums: npt.NDArray[np.float64], right: npt.NDArray[np.bool_], owners: Ints) -> None:
    sums[0] += np.bincount(owners, weights=right, minlength=sums.shape[1])
    sums[1] += np.bincount(owners, minlength=sums.shape[1])


def _rate(rate: float) -> str:
    """`1e-3`."""
    return f"1e-{round(-np.log10(rate))}"
