"""Re-identification on Market-1501 and DukeMTMC-reID."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hypersphere.core import Reporter, check_names
from hypersphere.data import is_image_name
from hypersphere.data.formats.market import DISTRACTOR, FOLDERS, JUNK, parse_name
from hypersphere.evaluation.arrays import Array, Bools, Ints
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.metrics.retrieval import Retrieval, retrieve
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource
from hypersphere.evaluation.protocols.known_protocols import PROTOCOLS, Evaluated
from hypersphere.evaluation.protocols.official_files import (
    counted,
    find_images,
    found_units,
    kept_names,
    missing_images,
)
from hypersphere.evaluation.protocols.worst import SHOWN
from hypersphere.evaluation.results.measurement import LeftOut, Measurement, ScoredPair
from hypersphere.evaluation.results.provenance import items_digest
from hypersphere.evaluation.results.result import Result

RULES = (
    "For each query the gallery is ranked by cosine, ties in the order of the gallery; left out are images of the "
    "query's person by the query's camera, and junk (-1). Distractors (0000) stay.",
    "Average precision: `step`, the mean of the precisions at the mates; `trapezoid` joins precisions by lines, as "
    "Market-1501's own program does.",
    "Queries without a mate seen by another camera are left out and counted. Intervals draw the queries' people.",
    "The worst pairs are those of the queries with the lowest average precision: beside each its first entry of "
    "another person, and its last mate.",
)


@dataclass(frozen=True)
class Reid:
    """Queries and a gallery.

    Args:
        path: the folder, or the list that names the images.
        queries, gallery: images, such as `query/0002_c1s1_000451_03.jpg`.
        files: the two folders, each with the digest of its names.
    """

    path: Path
    queries: tuple[str, ...]
    gallery: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The images it needs."""
        return self.queries + self.gallery

    def place(self, _: int) -> str:
        """What names the k-th image: the folder, whose files are the list."""
        return str(self.path)

    def evaluate(
        self,
        embeddings: Embeddings,
        *,
        area: str = "step",
        allow_missing: bool = False,
        progress: Reporter | None = None,
    ) -> Result:
        """Mean average precision, and CMC at 1, 5 and 10.

        Args:
            embeddings: compared by cosine.
            area: under the precision-recall curve: `step` or `trapezoid`.
            allow_missing: leave out images that have no embedding, and count them.
            progress: called as `progress(done, total)` in queries.
        """
        rows = find_images(embeddings, self.names, self.place, allow_missing)
        near, far = rows[: len(self.queries)], rows[len(self.queries) :]
        if (near < 0).all() or (far < 0).all():
            raise ValueError(f"{self.path}: no {'query' if (near < 0).all() else 'gallery image'} has an embedding")
        people, cameras = _parsed(self.queries, self.path)
        known, places = _parsed(self.gallery, self.path)
        here, there = near >= 0, far >= 0
        asked, entries = found_units(embeddings, near[here]), found_units(embeddings, far[there])
        found = retrieve(
            asked,
            entries,
            people[here],
            known[there],
            cameras[here],
            places[there],
            area=area,
            progress=progress,
        )
        answered = found.first_ranks > 0
        left_out = missing_images(self.names, rows, [embeddings])
        without = kept_names(kept_names(self.queries, here), ~answered)
        depth = min(50, int(there.sum()))
        measured = Measurement(
            metrics={"map": found.mean_ap, **{f"rank-{rank}": estimate for rank, estimate in found.cmc.items()}},
            counts={
                "queries": len(self.queries),
                "queries_without_mate": LeftOut(found.without_mate),
                "gallery": len(self.gallery),
                "junk": int((known == JUNK).sum()),
                "distractors": int((known == DISTRACTOR).sum()),
                **counted(left_out),
            },
            cmc={"queries": np.array([(found.first_ranks[answered] <= rank).mean() for rank in range(1, depth + 1)])},
            worst=self._worst(found, here, there, asked, entries),
        )
        ranks = {f"rank-{rank}": found.first_ranks[answered] <= rank for rank in found.cmc}
        measured.add_means({"map": found.average_precisions[answered], **ranks}, people[here][answered])
        return Result.of(
            "reid",
            measured,
            embeddings,
            options={"similarity": "cosine", "area": area, "allow_missing": allow_missing},
            rules=RULES,
            decided=kept_names(self.names, rows >= 0),
            files=self.files,
            left_out={**left_out, "queries_without_mate": without},
        )

    def _worst(
        self, found: Retrieval, here: Bools, there: Bools, asked: Array, entries: Array
    ) -> dict[str, list[ScoredPair]]:
        """Of the queries with the lowest average precision the first entry of another person, and the last mate."""
        people, cameras = _parsed(self.queries, self.path)
        known, places = _parsed(self.gallery, self.path)
        queries, gallery = np.flatnonzero(here), np.flatnonzero(there)
        worst: dict[str, list[ScoredPair]] = {"false matches": [], "false non-matches": []}
        for row in np.argsort(found.average_precisions, kind="stable")[:SHOWN].tolist():
            if not found.average_precisions[row] < 1:
                break
            query = queries[row]
            scores, same = entries @ asked[row], known[gallery] == people[query]
            mates = same & (places[gallery] != cameras[query])
            others = ~same & (known[gallery] != JUNK)
            first, last = np.where(others, scores, -np.inf).argmax(), np.where(mates, scores, np.inf).argmin()
            for kind, place in zip(worst, (first, last), strict=True):
                pair = self.queries[query], self.gallery[gallery[place]]
                worst[kind].append(ScoredPair(*pair, float(scores[place])))
        return worst


def read_reid(path: str | Path) -> Reid:
    """The queries and the gallery of a folder in the layout of Market-1501 or DukeMTMC-reID; only names are read.

    Args:
        path: the folder that holds `query` and `bounding_box_test`.
    """
    path = Path(path)
    names: list[str] = []
    for split in ("query", "gallery"):
        folder = path / FOLDERS[split]
        if not folder.is_dir():
            raise ValueError(f"{folder} is missing; expected the folders {FOLDERS['query']} and {FOLDERS['gallery']}")
        names += sorted(f"{folder.name}/{entry.name}" for entry in folder.iterdir() if is_image_name(entry.name))
    check_names(names, str(path))
    protocol = reid_among(names, path)
    named = {"query": protocol.queries, "gallery": protocol.gallery}
    return replace(protocol, files={f"{FOLDERS[split]} (names)": items_digest(each) for split, each in named.items()})


def reid_among(names: Sequence[str], path: str | Path = "names") -> Reid:
    """The queries and the gallery among images: those in a folder `query`, and those in `bounding_box_test`.

    Args:
        names: of all images.
        path: where they come from, for messages.
    """
    path = Path(path)
    parts = [tuple(n for n in names if n.split("/")[-2:-1] == [FOLDERS[split]]) for split in ("query", "gallery")]
    for split, part in zip(("query", "gallery"), parts, strict=True):
        if not part:
            raise ValueError(f"{path}: no images in {FOLDERS[split]}")
    people, _ = _parsed(parts[0], path)
    _parsed(parts[1], path)
    if (people <= DISTRACTOR).any():
        first = parts[0][int(np.argmax(people <= DISTRACTOR))]
        raise ValueError(f"{path}: {first!r} is junk or a distractor, which cannot be a query")
    return Reid(path, parts[0], parts[1])


def _parsed(names: tuple[str, ...], path: Path) -> tuple[Ints, Ints]:
    """People and cameras."""
    numbers = np.array([parse_name(name.rpartition("/")[2], path) for name in names], dtype=np.int64)
    return numbers[:, 0], numbers[:, 1]


@PROTOCOLS.register("reid")
def run_reid(source: EmbeddingSource, *, market: str | Path | None = None, area: str = "step") -> Evaluated:
    """Market-1501 or DukeMTMC-reID: `market` is the folder with `query` and `bounding_box_test`, where the images are
    too unless the source has others; without, both are looked for among the names of all images. Else as
    `Reid.evaluate`.
    """
    protocol = reid_among(source.image_names()) if market is None else read_reid(market)
    if market is not None and source.model and not source.images:
        source = replace(source, images=[Path(market)])
    embeddings, images = source.gather(protocol.names, "reid", where=protocol.place)
    with source.measuring("ranking", "queries") as progress:
        result = protocol.evaluate(embeddings, area=area, allow_missing=source.allow_missing, progress=progress)
    return Evaluated(result, "" if market is None else protocol.path.name, {"": images})
