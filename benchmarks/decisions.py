"""How often decisions are wrong on people that the calibration does not know: LFW's pairs, searches and groups.

    hypersphere embed lfw112.tar lfw.npy --model starter
    python benchmarks/decisions.py lfw.npy lfw-pairs.txt [--photos raw.tar] [--csv FILE]

Embeddings are of LFW's aligned images, named `Person/Person_0001.jpg`. Every second person of LFW by name calibrates
the starter model (`tools/make_starter.py`); the others, who are measured here, do not. With `--photos`, unaligned ones,
faces are found and aligned first.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import hypersphere as hs
from hypersphere.evaluation import Estimate, bootstrap_mean, load_embeddings, search_gallery
from hypersphere.evaluation.protocols import read_pairs
from hypersphere.evaluation.statistics.bootstrap import bootstrap_pairs
from hypersphere.recognition import (
    Calibration,
    DegenerateLandmarks,
    FaceCountError,
    Recognizer,
    cluster_faces,
    cluster_quality,
    load_calibration,
    pool_template,
)

RESULTS = Path(__file__).parent / "results" / "decisions.csv"


@dataclass(frozen=True)
class Row:
    """One measured rate: of what, at which stated rate and threshold, with its interval over people and its count."""

    task: str
    stated: str
    threshold: float
    measure: str
    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, eq=False)
class People:
    """Unit vectors by person."""

    unit: np.ndarray
    person: np.ndarray

    @property
    def several(self) -> np.ndarray:
        """(images,) whether the person has another image."""
        found: np.ndarray = np.bincount(self.person)[self.person] > 1
        return found


def row(task: str, stated: str, threshold: float, measure: str, estimate: Estimate) -> Row:
    """A row of an estimate."""
    return Row(task, stated, threshold, measure, estimate.value, estimate.low, estimate.high, estimate.n)


def verified(unit: np.ndarray, names: list[str], pairs: Path, calibration: Calibration) -> Iterator[Row]:
    """False-match and false-non-match rates of a list of pairs at calibrated thresholds."""
    listed = read_pairs(pairs)
    place = {name: k for k, name in enumerate(names)}
    assert listed.subjects is not None
    everyone = np.unique(np.concatenate(listed.subjects), return_inverse=True)[1]
    kept = np.array([a in place and b in place for a, b in zip(listed.left, listed.right, strict=True)])
    left, right = (
        np.array([place[name] for name in np.asarray(side)[kept].tolist()]) for side in (listed.left, listed.right)
    )
    first, second = everyone[: len(kept)][kept], everyone[len(kept) :][kept]
    same = listed.same[kept]
    scores = np.einsum("nd,nd->n", unit[left], unit[right])
    for fmr in (1e-1, 1e-2, 1e-3, 1e-4):
        threshold = calibration.table.at(fmr).threshold
        for measure, kind in (("FMR", ~same), ("FNMR", same)):
            wrong = (scores >= threshold) != same
            estimate = bootstrap_pairs(wrong[kind], (first[kind], second[kind]))
            yield row("verify LFW's pairs", f"FMR {fmr:.0e}", threshold, measure, estimate)


def searched(people: People, calibration: Calibration, enrolled: np.ndarray, pooled: bool) -> Iterator[Row]:
    """FPIR of people who are not enrolled and FNIR of those who are, one probe image each time.

    Args:
        people: all images.
        calibration: whose thresholds are used.
        enrolled: people to enrol, all with two images or more: by their first one, or `pooled`, by all but the last.
        pooled: several images to a template; then only the last image of a person is searched.
    """
    gallery, mates = [], []
    for person in enrolled.tolist():
        own = np.flatnonzero(people.person == person)
        rows = own[:-1] if pooled else own[:1]
        gallery.append(pool_template(people.unit[rows]))
        mates += own[len(rows) :].tolist()
    strangers = np.flatnonzero(~np.isin(people.person, enrolled))
    templates = np.stack(gallery)
    found = {
        kind: search_gallery(people.unit[rows], templates, 1)
        for kind, rows in (("mates", mates), ("others", strangers))
    }
    right = enrolled[found["mates"].indices[:, 0]] == people.person[mates]
    what = "templates of all images but one" if pooled else "one image each"
    for fpir in (1e-1, 1e-2):
        at = calibration.search_at(fpir, len(templates))
        stated = f"FPIR {fpir:.0e}, N = {len(templates):,}{', extrapolated' if at.extrapolated else ''}"
        hits = right & (found["mates"].scores[:, 0] >= at.threshold)
        false = found["others"].scores[:, 0] >= at.threshold
        task = f"identify, {what}"
        yield row(task, stated, at.threshold, "FPIR", bootstrap_mean(false, people.person[strangers]))
        yield row(task, stated, at.threshold, "FNIR", bootstrap_mean(~hits, people.person[mates]))


def grouped(people: People, calibration: Calibration) -> Iterator[Row]:
    """Quality of groups of all images of people with two or more."""
    kept = people.several
    unit, person = people.unit[kept], people.person[kept]
    for linkage in hs.recognition.LINKAGES:
        for fmr in (1e-2, 1e-3, 1e-4):
            threshold = calibration.table.at(fmr).threshold
            quality = cluster_quality(cluster_faces(unit, threshold, linkage=linkage), person)
            task = f"cluster, {linkage} linkage, {quality.people:,} people in {quality.groups:,} groups"
            for name, value in dataclasses.asdict(quality).items():
                if isinstance(value, float):
                    yield Row(task, f"FMR {fmr:.0e}", threshold, name, value, value, value, int(kept.sum()))


def from_photos(photos: Path, people: People, names: list[str], calibration: Calibration) -> Iterator[Row]:
    """Unaligned photos, by the detector, against the other aligned images of their people; the ready crops beside."""
    recognizer = Recognizer(calibration=calibration, model="starter", face="largest")
    source, listed = hs.data.open_every_image(photos)
    place = {name: k for k, name in enumerate(names)}
    failed, found = [], {}
    for index, name in enumerate(listed):
        try:
            found[name] = recognizer.embed(source.read(index))
            failed.append(False)
        except (FaceCountError, DegenerateLandmarks):
            failed.append(True)
    yield row("find a face on a photo", "", 0.0, "failed", bootstrap_mean(np.array(failed)))
    both = [name for name in found if name in place]
    cosines = np.array([found[name] @ people.unit[place[name]] for name in both])
    yield row("our crop against the ready one", "", 0.0, "cosine", bootstrap_mean(cosines, share=False, unit="cosine"))
    for fmr in (1e-2, 1e-3):
        threshold = calibration.table.at(fmr).threshold
        for what, vectors in (("our crops", found), ("ready crops", {n: people.unit[place[n]] for n in both})):
            missed, whose = [], []
            for name in both:
                own = place[name]
                others = np.flatnonzero((people.person == people.person[own]) & (np.arange(len(names)) != own))
                missed += (people.unit[others] @ vectors[name] < threshold).tolist()
                whose += [int(people.person[own])] * len(others)
            estimate = bootstrap_mean(np.array(missed), np.array(whose))
            yield row(f"verify photos, {what}", f"FMR {fmr:.0e}", threshold, "FNMR", estimate)


def main() -> None:
    """Measure, print and append to the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--calibration", default="starter")
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    options = parser.parse_args()
    calibration = load_calibration(options.calibration)
    made = load_embeddings(options.embeddings, options.embeddings.with_suffix(".txt"))
    names = list(made.names)
    person = np.unique([name.partition("/")[0] for name in names], return_inverse=True)[1]
    unit = (made.values / np.linalg.norm(made.values, axis=1, keepdims=True)).astype(np.float32)
    others = person % 2 == 1
    names = [name for name, kept in zip(names, others.tolist(), strict=True) if kept]
    unit, person = unit[others], person[others]
    people = People(unit, person)
    several = np.unique(person[people.several])
    some = np.sort(np.random.default_rng(0).permutation(several)[:499])
    rows = [
        *verified(unit, names, options.pairs, calibration),
        *searched(people, calibration, some, pooled=False),
        *searched(people, calibration, several, pooled=False),
        *searched(people, calibration, several, pooled=True),
        *grouped(people, calibration),
    ]
    if options.photos is not None:
        rows += from_photos(options.photos, people, names, calibration)
    for each in rows:
        print(f"{each.task:60} {each.stated:36} {each.threshold:.3f}  {each.measure:16} {each.value:.5f} "
              f"[{each.low:.5f}, {each.high:.5f}]  n={each.n:,}")  # fmt: skip
    with options.csv.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([field.name for field in dataclasses.fields(Row)])
        table.writerows(dataclasses.astuple(each) for each in rows)


if __name__ == "__main__":
    main()
