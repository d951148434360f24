"""MegaFace challenge 1: FaceScrub probes among up to a million distractors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import numpy as np

from hypersphere.core import Reporter, check_choice, check_integer
from hypersphere.data import NamedImages
from hypersphere.evaluation.arrays import Array, Bools, Ints, numbered
from hypersphere.evaluation.embeddings import Embeddings, load_embeddings
from hypersphere.evaluation.metrics.identification import cmc, ranks_among
from hypersphere.evaluation.metrics.search import Matches
from hypersphere.evaluation.metrics.tail import HighestScores, tail_roc
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource
from hypersphere.evaluation.protocols.known_protocols import PROTOCOLS, Evaluated
from hypersphere.evaluation.protocols.megaface.files import last_parts, listed_images, read_noise, without_suffix
from hypersphere.evaluation.protocols.megaface.search import DEPTH, mate_pairs, scores_to_keep, search_distractors
from hypersphere.evaluation.protocols.official_files import (
    counted,
    find_images,
    found_units,
    missing_images,
    read_json_table,
    unit_rows,
)
from hypersphere.evaluation.results.measurement import LeftOut, Measurement, ScoredPair
from hypersphere.evaluation.results.provenance import file_digests
from hypersphere.evaluation.results.result import RULE_SENTENCES, Result
from hypersphere.evaluation.statistics.bootstrap import bootstrap_mean
from hypersphere.evaluation.statistics.estimate import check_measurable, rate_name
from hypersphere.evaluation.statistics.histogram import ScoreHistogram, score_histogram
from hypersphere.evaluation.statistics.scores import SortedScores

CLEANINGS = ("none", "remove", "centre")
FARS = (1e-4, 1e-5, 1e-6)
CURVE = "FaceScrub against distractors"
_SHOWN = 10
_SAMPLED = 1 << 22

RULES = (
    "Every image of a person is a probe for every other one of the same person, which alone stands among the "
    "distractors; further images of that person do not.",
    "Rank: a distractor with the mate's score goes before it.",
    "Verification: genuine pairs are those of one person, impostor pairs every probe with every distractor.",
    "cleaning `remove` leaves out the images on the noise lists; `centre` (InsightFace's program, without its random "
    "noise) puts the sum of the person's clean unit vectors in the place of a noisy probe, and a noisy distractor is "
    "never accepted, but counted.",
    "Intervals draw the people of the probes, the distractors and thresholds held.",
    "The histogram's impostor pairs are of so many distractors as its legend says; metrics are of all.",
)


@dataclass(frozen=True)
class Megaface:
    """The lists of the challenge.

    Args:
        path, distractor_path: the lists of the probes and of the distractors.
        probes: images.
        people: (probes,) who is on them.
        distractors: images of others.
        noisy_probes, noisy_distractors: which of them the noise lists name; None without a list.
        unlisted_noise: how many entries of the noise lists are in neither list.
        files: the lists, by name, each with its digest.
    """

    path: Path
    distractor_path: Path
    probes: tuple[str, ...]
    people: Ints
    distractors: tuple[str, ...]
    noisy_probes: Bools | None
    noisy_distractors: Bools | None
    unlisted_noise: int
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The images it needs."""
        return self.probes + self.distractors

    def place(self, image: int) -> str:
        """The list and the entry that name the k-th of `names`."""
        if image >= len(self.probes):
            return self.distractor_place(image - len(self.probes))
        return f"{self.path}, path[{image}]"

    def distractor_place(self, image: int) -> str:
        """The list and the entry that name the k-th distractor."""
        return f"{self.distractor_path}, path[{image}]"

    def evaluate(
        self,
        embeddings: Embeddings,
        distractors: Embeddings | None = None,
        *,
        cleaning: str = "none",
        limit: int | None = None,
        ranks: Sequence[int] = (1, 5, 10),
        fars: Sequence[float] = FARS,
        allow_missing: bool = False,
        progress: Reporter | None = None,
    ) -> Result:
        """Rank-k identification among the distractors, and TAR at low FARs.

        Args:
            embeddings: of the probes, and of the distractors if these are not given apart.
            distractors: of the distractors; they may be mapped from a file, and are read in blocks.
            cleaning: what becomes of the images on the noise lists: `none`, `remove` or `centre`.
            limit: only the first so many distractors.
            ranks: which, at most 100.
            fars: where TAR is wanted.
            allow_missing: leave out images that have no embedding, and people left with one image, and count them.
            progress: called as `progress(done, total)` in distractors.
        """
        check_choice("cleaning", cleaning, CLEANINGS)
        if cleaning != "none" and (self.noisy_probes is None or self.noisy_distractors is None):
            raise ValueError(f"cleaning={cleaning!r} needs both noise lists")
        if not all(1 <= rank <= DEPTH for rank in ranks):
            raise ValueError(f"ranks={list(ranks)} must lie between 1 and {DEPTH}")
        others = embeddings if distractors is None else distractors
        rows = find_images(embeddings, self.probes, self.place, allow_missing)
        listed = self.listed(limit)
        far_rows = find_images(others, listed, self.distractor_place, allow_missing)
        if others.dim != embeddings.dim:
            raise ValueError(f"distractors have dimension {others.dim}; the probes' is {embeddings.dim}")
        units, people, names = self._prepared(embeddings, rows, cleaning, allow_missing)
        left, right, genuine = mate_pairs(units, people)
        kept, total = self._clean_rows(far_rows, cleaning)
        usable = [far for far in fars if check_measurable(far, len(units) * total) is None]
        tail = HighestScores(scores_to_keep(max(usable, default=0), len(units) * total))
        sample = _Sample(len(units) * len(kept))

        def each(scores: Array) -> None:
            tail.add(scores)
            sample.add(scores)

        nearest = search_distractors(units, others, kept, each, progress)
        tail.total = len(units) * total
        places = ranks_among(genuine, Matches(nearest.indices[left], nearest.scores[left]))
        roc = tail_roc(genuine, tail)
        people_of = people[left]
        depth = nearest.scores.shape[1]
        left_out = missing_images(self.probes + listed, np.concatenate([rows, far_rows]), [embeddings, others])
        measured = Measurement(
            metrics={f"rank-{rank}": estimate for rank, estimate in cmc(places, ranks, people_of).items()},
            counts={
                "probes": len(self.probes),
                "probes_left_out": LeftOut(len(self.probes) - len(units)),
                "people": len(np.unique(people)),
                "distractors": total,
                "distractors_left_out": LeftOut(len(far_rows) - len(kept)),
                **counted(left_out),
                "noise_entries_not_listed": self.unlisted_noise,
            },
            curves={CURVE: roc},
            histograms={CURVE: sample.histogram(genuine).at_lowest(roc, fars)},
            cmc={"FaceScrub among distractors": np.array([(places <= rank).mean() for rank in range(1, depth + 1)])},
            worst=_worst(names, left, right, genuine, nearest, others),
        )
        measured.add_means({f"rank-{rank}": places <= rank for rank in ranks}, people_of)
        for far in fars:
            missing, name = check_measurable(far, roc.impostors), rate_name("tar@far", far)
            accepted = genuine >= roc.thresholds[roc.point_at(far)]
            measured.metrics[name] = bootstrap_mean(accepted, people_of) if missing is None else missing
            if missing is None:
                measured.add_means({name: accepted}, people_of)
        return Result.of(
            "megaface",
            measured,
            embeddings,
            options={"similarity": "cosine", "cleaning": cleaning, "limit": limit, "allow_missing": allow_missing},
            rules=(*RULE_SENTENCES, *RULES),
            decided=[*names, *(name for name, row in zip(listed, far_rows, strict=True) if row >= 0)],
            files=self.files,
            left_out=left_out,
            others={} if distractors is None else {"distractors": distractors},
        )

    def listed(self, limit: int | None) -> tuple[str, ...]:
        """The distractors, or the first so many of them."""
        if limit is None:
            return self.distractors
        if check_integer("limit", limit, 1) > len(self.distractors):
            raise ValueError(f"limit={limit} is above the number of distractors, {len(self.distractors)}")
        return self.distractors[:limit]

    def _prepared(
        self, embeddings: Embeddings, rows: Ints, cleaning: str, allow_missing: bool
    ) -> tuple[Array, Ints, list[str]]:
        """Unit vectors of the probes that take part, their people and their names."""
        noisy = np.zeros(len(rows), dtype=bool) if self.noisy_probes is None else self.noisy_probes
        here = rows >= 0
        units = np.zeros((len(rows), embeddings.dim), dtype=np.float32)
        units[here] = found_units(embeddings, rows[here])
        if cleaning == "remove":
            here &= ~noisy
        elif cleaning == "centre":
            for place in np.flatnonzero(noisy & here):
                clean = (self.people == self.people[place]) & ~noisy & here
                if clean.any():
                    units[place] = self._centre(units[clean], int(place))
        counts = np.bincount(self.people[here], minlength=int(self.people.max()) + 1)
        alone = here & (counts[self.people] < 2)
        if alone.any() and not allow_missing and cleaning == "none":
            first = self.probes[int(np.argmax(alone))]
            raise ValueError(f"{self.path}: {first!r} has no other image of its person left")
        here &= ~alone
        if not here.any():
            raise ValueError(f"{self.path}: nobody has two images left")
        return units[here], self.people[here], [self.probes[place] for place in np.flatnonzero(here)]

    def _centre(self, clean: Array, place: int) -> Array:
        """The direction of the sum of a person's clean unit vectors, for the probe at a place."""
        total = clean.sum(axis=0, dtype=np.float64)[None]
        middle: Array = unit_rows(total, lambda _: f"the centre of the person of {self.probes[place]!r}")[0]
        return middle

    def _clean_rows(self, rows: Ints, cleaning: str) -> tuple[Ints, int]:
        """Rows of the distractors to search, and how many count."""
        clean = rows >= 0
        total = int(clean.sum())
        if cleaning != "none" and self.noisy_distractors is not None:
            clean &= ~self.noisy_distractors[: len(rows)]
        return rows[clean], int(clean.sum()) if cleaning == "remove" else total


def read_megaface(
    probes: str | Path,
    distractors: str | Path,
    *,
    probe_noise: str | Path | None = None,
    distractor_noise: str | Path | None = None,
    allow_missing: bool = False,
) -> Megaface:
    """Read the devkit's lists, and InsightFace's noise lists if given.

    Args:
        probes: `facescrub_features_list.json`, with `id` and `path`.
        distractors: `megaface_features_list.json_1000000_1`, with `path`.
        probe_noise: `facescrub_noises.txt`, a file name on each line.
        distractor_noise: `megaface_noises.txt`, a path on each line, or a number, a tab and a path.
        allow_missing: whether there may be probes without another image of their person.
    """
    probe_list, far_list = Path(probes), Path(distractors)
    table = read_json_table(probe_list)
    images = listed_images(table, probe_list)
    owners = table.get("id")
    if not isinstance(owners, list) or len(owners) != len(images):
        raise ValueError(f"{probe_list}: 'id' must be a list of {len(images)} people, one for each path")
    people = numbered([str(owner) for owner in owners])
    times = np.bincount(people)
    if (times[people] < 2).any() and not allow_missing:
        place = int(np.argmax(times[people] < 2))
        raise ValueError(f"{probe_list}: path[{place}], {images[place]!r}, has no other image of {owners[place]!r}")
    others = listed_images(read_json_table(far_list), far_list)
    noise = [None if path is None else read_noise(Path(path)) for path in (probe_noise, distractor_noise)]
    stems = [without_suffix(PurePosixPath(name).name) for name in images]
    near = None if noise[0] is None else np.array([stem in noise[0] for stem in stems])
    far = None if noise[1] is None else np.array([without_suffix(last_parts(name)) in noise[1] for name in others])
    listed = sum(len(names) for names in noise if names is not None)
    hit = sum(int(marks.sum()) for marks in (near, far) if marks is not None)
    files = file_digests([probe_list, far_list, *(Path(path) for path in (probe_noise, distractor_noise) if path)])
    return Megaface(
        path=probe_list,
        distractor_path=far_list,
        probes=images,
        people=people,
        distractors=others,
        noisy_probes=near,
        noisy_distractors=far,
        unlisted_noise=listed - hit,
        files=files,
    )


class _Sample:
    """Impostor scores for a picture: those of every k-th distractor of a block, few enough to be counted in passing.

    Args:
        total: how many scores will come.
    """

    def __init__(self, total: int) -> None:
        self.step = -(-total // _SAMPLED)
        self.parts: list[Array] = []

    def add(self, scores: Array) -> None:
        """Look at a block, (probes, distractors)."""
        self.parts.append(scores[:, :: self.step].reshape(-1))

    def histogram(self, genuine: Array) -> ScoreHistogram:
        """Of the sample and the genuine scores."""
        of = f", 1 distractor in {self.step:,}" if self.step > 1 else ""
        others = SortedScores(np.concatenate(self.parts))
        return score_histogram(SortedScores(genuine), others, kinds=("one person", f"two people{of}"))


def _worst(
    names: list[str], left: Ints, right: Ints, genuine: Array, nearest: Matches, others: Embeddings
) -> dict[str, list[ScoredPair]]:
    """The distractors that are most like a probe, and the mates that are least like each other."""
    top = np.argsort(-nearest.scores[:, 0], kind="stable")[:_SHOWN].tolist()
    low = np.argsort(genuine, kind="stable")
    low = low[left[low] < right[low]][:_SHOWN]
    return {
        "false matches": [
            ScoredPair(names[p], others.names[int(nearest.indices[p, 0])], float(nearest.scores[p, 0])) for p in top
        ],
        "false non-matches": [ScoredPair(names[left[k]], names[right[k]], float(genuine[k])) for k in low.tolist()],
    }


@PROTOCOLS.register("megaface")
def run_megaface(
    source: EmbeddingSource,
    *,
    probes: str | Path,
    distractors: str | Path,
    probe_noise: str | Path | None = None,
    distractor_noise: str | Path | None = None,
    cleaning: str | None = None,
    limit: int | None = None,
    distractor_embeddings: str | Path | None = None,
    distractor_names: str | Path | None = None,
    distractor_images: str | Path | None = None,
) -> Evaluated:
    """MegaFace challenge 1: lists as for `read_megaface`; cleaning is `remove` by default where both noise lists are
    given. Embeddings or images of the distractors may lie apart. Else as `Megaface.evaluate`.
    """
    protocol = read_megaface(
        probes,
        distractors,
        probe_noise=probe_noise,
        distractor_noise=distractor_noise,
        allow_missing=source.allow_missing,
    )
    listed = protocol.listed(limit)
    others, far_images = None, None
    if distractor_embeddings is None and distractor_images is None:
        wanted = protocol.probes + listed
        embeddings, images = source.gather(wanted, "probes and distractors", where=protocol.place)
    else:
        embeddings, images = source.gather(protocol.probes, "probes", where=protocol.place)
        if distractor_images is not None:
            far_images = NamedImages(Path(distractor_images), listed)
        if distractor_embeddings is None:
            apart = replace(source, images=[Path(str(distractor_images))])
            others, _ = apart.gather(listed, "distractors", "-distractors", where=protocol.distractor_place)
        elif distractor_names is None:
            raise ValueError(f"{source.option('distractor_embeddings')} needs {source.option('distractor_names')}")
        else:
            others = load_embeddings(distractor_embeddings, distractor_names)
    with source.measuring("searching", "distractors") as progress:
        result = protocol.evaluate(
            embeddings,
            others,
            cleaning=cleaning or ("remove" if probe_noise and distractor_noise else "none"),
            limit=limit,
            allow_missing=source.allow_missing,
            progress=progress,
        )
    return Evaluated(result, protocol.distractor_path.name, {"": images, "distractors": far_images})
