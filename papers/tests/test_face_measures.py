"""What is measured of runs on real faces besides searches, and the items that are judged by it."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hypersphere.core.stored_array import StoredArray
from hypersphere.training import RecordFile, RunRecord
from hypersphere_papers.engine.evidence import settings_of
from hypersphere_papers.engine.face_measures import (
    RANKED,
    SIMILARITY_BINS,
    measure_ranking,
    measure_similarities,
)
from hypersphere_papers.engine.outcome import Outcome
from hypersphere_papers.engine.record_folder import FACE_RECORDS, SUBJECTS, RunFiles
from hypersphere_papers.engine.runs import Gathered, gather_runs
from hypersphere_papers.engine.setting import Setting
from hypersphere_papers.laboratory import Job, find_item, load_catalogue

SEEDS = (0, 1)
TOYS = ("sphereface/fig2", "sphereface/fig5", "sphereface2/fig7", "sphereface2/fig8")
RANKINGS = ("sphereface2/fig5", "largest-margins/table3", "largest-margins/table8")


@pytest.mark.parametrize("repeated", [1, 5])
def test_similarities_of_pairs_are_summed_up(repeated: int) -> None:
    """A weight is as good as so many pairs."""
    rng = np.random.default_rng(0)
    same = np.arange(4000) % 2 == 0
    cosines = (0.1 * rng.normal(size=4000) + 0.3 * same).astype(np.float32)
    times = np.where(cosines > 0.2, repeated, 1)
    found = measure_similarities(cosines, same, times / times.sum())
    own, other = (np.repeat(cosines[kind], times[kind]).astype(np.float64) for kind in (same, ~same))
    pooled = np.sqrt((own.var() + other.var()) / 2)
    assert found["separation"] == pytest.approx((own.mean() - other.mean()) / pooled, rel=1e-4)
    ordered = np.sort(np.repeat(cosines, times))
    count = len(ordered)
    assert found["range"] == pytest.approx(ordered[int(0.99 * count)] - ordered[int(0.01 * count)], abs=2e-3)
    for name, values in (("histogram same", own), ("histogram other", other)):
        middles = (SIMILARITY_BINS[1:] + SIMILARITY_BINS[:-1]) / 2
        assert found[name].sum() == pytest.approx(len(values) / count)
        assert np.average(middles, weights=found[name]) == pytest.approx(values.mean(), abs=5e-3)


def test_a_ranking_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.repeat(np.arange(20), rng.integers(2, 6, 20)))
    rows = rng.normal(size=(20, 6))[labels] + rng.normal(size=(len(labels), 6))
    unit = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    expected: dict[str, list[list[float]]] = {name: [[] for _ in range(20)] for name in RANKED}
    for query, person in enumerate(labels):
        order = [at for at in np.argsort(-(unit @ unit[query]), kind="stable") if at != query]
        places = [place for place, at in enumerate(order, start=1) if labels[at] == person]
        precision = float(np.mean([number / place for number, place in enumerate(places, start=1)]))
        for name, value in zip(RANKED, (precision, float(places[0] == 1), float(places[0] <= 10)), strict=True):
            expected[name][person].append(value)
    found = measure_ranking(unit, labels)
    for name in RANKED:
        np.testing.assert_allclose(found[name], [np.mean(values) for values in expected[name]], atol=1e-6)
    assert 0.1 < found["rank-1"].mean() < found["rank-10"].mean() < 1


def toy_arrays(setting: Setting, seed: int) -> dict[str, Any]:
    """Features near their prototypes, nearer for every setting with a larger margin."""
    recipe, rng = setting.recipe(seed), np.random.default_rng(seed)
    count, dim = recipe.data.most_images, recipe.backbone["dim"]
    assert count is not None
    angles = 2 * np.pi * np.arange(count) / count
    prototypes = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    if dim == 3:
        prototypes = np.concatenate([np.eye(3), -np.eye(3)])
    labels = np.repeat(np.arange(count), 12)
    margin = {"softmax": 0.0, "modified_softmax": 0.5}.get(str(recipe.head["name"]), 1.0)
    noise = rng.normal(size=(len(labels), dim)) * 0.05 / (1 + margin + float(recipe.head.get("margin", 0)))
    return {
        "features": (8 * (prototypes[labels] + noise)).astype(np.float16),
        "labels": labels.astype(np.int16),
        "prototypes": prototypes.astype(np.float32),
        "bias": np.array([-22.5 if dim == 2 else -15.0], dtype=np.float32),
    }


def ranking_arrays(setting: Setting, seed: int) -> tuple[dict[str, Any], dict[str, float]]:
    """LM-Softmax ranks best, and a larger t lets pairs overlap less."""
    rng, power = np.random.default_rng(seed), float(setting.recipe(seed).head.get("power", 1.0))
    best = 0.9 if "LM-Softmax" in setting.title else 0.3 + 0.002 * float(setting.recipe(seed).head.get("scale", 0))
    arrays: dict[str, Any] = {name: (best + 0.05 * rng.random(40)).astype(np.float32) for name in RANKED}
    numbers: dict[str, float] = {}
    for people in ("held out", "LFW"):
        numbers |= {f"separation, {people}": power + 0.01 * seed, f"range, {people}": 2 - 0.1 * power + 0.01 * seed}
        for name in ("histogram same", "histogram other"):
            arrays[f"{name}, {people}"] = rng.integers(0, 50, 200).astype(np.int16)
    return arrays, numbers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of all that the items ask for where real faces are on record."""
    place, catalogue = tmp_path_factory.mktemp("records"), load_catalogue()
    lines: dict[str, dict[str, RunRecord]] = {"features": {}, "rankings": {}}
    for name in (*TOYS, *RANKINGS):
        for setting in settings_of(Job(entry=catalogue[name], data=place, seeds=SEEDS)):
            for seed in SEEDS:
                toy = setting.measure == "features"
                arrays, numbers = (toy_arrays(setting, seed), {}) if toy else ranking_arrays(setting, seed)
                stored = {each: StoredArray.of(array) for each, array in arrays.items()}
                key = setting.key(seed)
                record = RunRecord("", seed, key, train_accuracy=0.99, arrays=stored, numbers=numbers)
                lines[setting.measure][key] = record
    for measure, records in lines.items():
        file = RecordFile(place / FACE_RECORDS[measure])
        for record in records.values():
            file.add(record)
    write_nobody(place)
    return place


def write_nobody(folder: Path) -> None:
    """A file of people of pairs, whom no item here asks for."""
    people = np.zeros((2, 8), dtype=np.int16)
    np.savez_compressed(folder / SUBJECTS, lfw=people, pairs=people)


def gather(settings: Sequence[Setting], folder: Path, seeds: tuple[int, ...] = SEEDS) -> Gathered:
    return gather_runs(settings, seeds, RunFiles(folder, folder))


def judge(name: str, folder: Path, seeds: tuple[int, ...] = SEEDS) -> Outcome:
    """What an item finds."""
    job = Job(entry=load_catalogue()[name], data=folder, seeds=seeds)
    item = find_item(name)
    assert item is not None
    return item(replace(job, gathered=gather(settings_of(job), folder, seeds)))


def draw(outcome: Outcome) -> None:
    """Draw its figures, and write none."""
    assert outcome.figures
    for figure in outcome.figures.values():
        assert figure().axes


@pytest.mark.parametrize("name", TOYS)
def test_toys_are_judged_from_the_record(name: str, folder: Path) -> None:
    result = judge(name, folder)
    draw(result)
    assert result.notes[0].startswith("Real faces")
    assert [finding.verdict for finding in result.findings if finding.ours == "not measured"] == []
    if name == "sphereface2/fig7":
        (figure,) = result.figures.values()
        lines = [len(axes.lines) for axes in figure().axes]
        assert lines == [6 + 6, 6 + 6 + 2, 6 + 6 + 2]  # prototypes; the line of every class; the two of one class
    if name == "sphereface2/fig8":
        (finding,) = result.findings
        assert finding.ours == "100.0 %, 100.0 % of the training images, by seed"
    if name == "sphereface/fig2":
        said = "fall from modified softmax, 200 steps to A-Softmax, m = 4, 200 steps"
        assert said in result.findings[1].what
        assert [finding.verdict for finding in result.findings] == ["held"] * 4


@pytest.mark.parametrize("name", RANKINGS)
def test_rankings_and_similarities_are_judged_from_the_record(name: str, folder: Path) -> None:
    result = judge(name, folder)
    draw(result)
    assert not [finding for finding in result.findings if finding.ours == "not measured"]
    found = {finding.what: finding for finding in result.findings}
    if name == "sphereface2/fig5":
        assert found["pairs of people held out overlap less from t = 1 to t = 2"].verdict == "held"
        assert found["the range of people of LFW grows from t = 2 to t = 3"].verdict == "contradicted"
    if name == "largest-margins/table3":
        assert found["LM-Softmax (s = 10) is better than CE"].verdict == "held"
        assert found["CE: mAP, %"].paper == "Market mAP 82.8"
    if name == "largest-margins/table8":
        assert found["CE: rank-10, %"].paper == "Market rank-10 98.7"


@pytest.mark.parametrize("name", [*TOYS, *RANKINGS])
def test_a_seed_that_is_not_on_record_leaves_sentences_undecided(name: str, folder: Path) -> None:
    judged = [finding for finding in judge(name, folder, (*SEEDS, 2)).findings if finding.verdict]
    assert judged
    assert {finding.verdict for finding in judged} == {"undecided"}
    assert all("2 of 3 seeds are on record" in finding.note for finding in judged)


@pytest.mark.parametrize(("size", "verdict"), [(0.05, "held"), (0.5, "contradicted")])
def test_biases_are_near_zero_against_the_logits(size: float, verdict: str, tmp_path: Path) -> None:
    (setting,) = settings_of(Job(entry=load_catalogue()["sphereface/fig10"]))
    file = RecordFile(tmp_path / FACE_RECORDS["biases"])
    for seed in SEEDS:
        biases = 4.0 * size * np.where(np.arange(60) < 50 + seed, 1.0, 20.0)  # most are small, a few are not
        stored, key = {"bias": StoredArray.of(biases)}, setting.key(seed)
        file.add(RunRecord("", seed, key, train_accuracy=0.99, arrays=stored, numbers={"logit spread": 4.0}))
    write_nobody(tmp_path)
    result = judge("sphereface/fig10", tmp_path)
    draw(result)
    *_, claim = result.findings
    shares = "83.3 %, 85.0 %" if size < 0.1 else "0.0 %, 0.0 %"
    assert (claim.ours, claim.verdict) == (f"{shares} of the biases, by seed", verdict)
    (tmp_path / FACE_RECORDS["biases"]).unlink()
    missing = judge("sphereface/fig10", tmp_path)
    assert missing.figures == {}
    assert {finding.ours for finding in missing.findings} == {"not measured"}


def write_photos(path: Path, names: Sequence[str]) -> None:
    rng = np.random.default_rng(0)
    with tarfile.open(path, "w") as archive:
        for name in names:
            content = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(content, "JPEG")
            entry = tarfile.TarInfo(name)
            entry.size = content.tell()
            content.seek(0)
            archive.addfile(entry, content)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve people with four photos, two of them with six; and four people of LFW."""
    place = tmp_path_factory.mktemp("photos")
    write_photos(place / "faces.tar", [f"p{p:02}/{i}.jpg" for p in range(12) for i in range(6 if p in (3, 7) else 4)])
    lines = ["2\t2", *("Ann\t1\t2", "Bob\t1\t2", "Ann\t1\tBob\t1", "Ann\t2\tBob\t2")]
    lines += ["Cy\t1\t2", "Dee\t1\t2", "Cy\t1\tDee\t1", "Cy\t2\tDee\t2"]
    (place / "lfw-pairs.txt").write_text("\n".join(lines) + "\n")
    names = [f"{name}/{name}_000{i}.jpg" for name in ("Ann", "Bob", "Cy", "Dee") for i in (1, 2)]
    write_photos(place / "lfw112.tar", names)
    write_nobody(place)
    return place


TINY = ("train.batch_size=8", "train.epochs=1.0", "schedule.milestones=[1]", "train.precision=float32")


def test_a_toy_leaves_the_features_of_the_people_with_most_images(photos: Path) -> None:
    (setting,) = settings_of(Job(entry=load_catalogue()["sphereface2/fig8"], data=photos))
    tiny = setting.but("tiny", *TINY, "data.most_images=2", "data.size=[16,16]")
    record = gather([tiny], photos, (0,)).records[tiny.key(0)]
    assert record.arrays["features"].shape == (12, 3)
    assert record.arrays["features"].dtype == np.float32
    assert record.arrays["labels"].tolist() == 6 * [0] + 6 * [1]
    assert (record.arrays["prototypes"].shape, record.arrays["bias"].shape) == ((2, 3), (1,))
    assert np.isfinite(record.numbers["train accuracy"])
    (line,) = (photos / FACE_RECORDS["features"]).read_text().splitlines()
    cell = json.loads(line)["cell"]
    assert cell.startswith("sphereface2, data.most_images=6, ")
    assert len(line) - len(cell) < 3000


def test_biases_are_kept_beside_the_spread_of_the_logits(photos: Path) -> None:
    (setting,) = settings_of(Job(entry=load_catalogue()["sphereface/fig10"]))
    tiny = setting.but("tiny", *TINY, "data.validation.identities=0", "data.most_images=5", "backbone.dim=16")
    record = gather([tiny], photos, (0,)).records[tiny.key(0)]
    assert record.arrays["bias"].shape == (5,)
    assert 0 < np.abs(record.arrays["bias"]).max() < 1
    assert record.numbers["logit spread"] > 0


def test_margins_are_those_of_the_images_trained_on(photos: Path) -> None:
    *_, setting = settings_of(Job(entry=load_catalogue()["largest-margins/fig6"]))
    tiny = setting.but("tiny", *TINY, "data.validation.identities=0", "data.most_images=5", "backbone.dim=16")
    record = gather([tiny], photos, (0,)).records[tiny.key(0)]
    for name in ("similarity", "margin"):
        assert record.arrays[f"train histogram {name}"].sum() == pytest.approx(5)  # every person counts alike
    assert -2 <= record.numbers["train sample margin"] < record.numbers["train similarity"] + 1 <= 2


@pytest.mark.parametrize(("least", "verdict"), [(0.5, "held"), (0.05, "contradicted")])
def test_margins_stay_large_for_every_scale_or_not(least: float, verdict: str, tmp_path: Path) -> None:
    *settings, rival = settings_of(Job(entry=load_catalogue()["largest-margins/fig6"]))
    file = RecordFile(tmp_path / FACE_RECORDS["margins"])
    for number, setting in enumerate((*settings, rival)):
        mean = 0.1 if setting is rival else least + 0.1 * number
        for seed in SEEDS:
            numbers = {f"train {name}": mean + 0.001 * seed * number for name in ("similarity", "sample margin")}
            stored = {f"train histogram {name}": StoredArray.of(np.ones(80)) for name in ("similarity", "margin")}
            key = setting.key(seed)
            file.add(RunRecord("", seed, key, train_accuracy=0.99, arrays=stored, numbers=numbers))
    write_nobody(tmp_path)
    result = judge("largest-margins/fig6", tmp_path)
    draw(result)
    assert [finding.verdict for finding in result.findings if finding.verdict] == [verdict] * 2


def test_a_ranking_is_measured_of_the_people_held_out(photos: Path) -> None:
    entry = load_catalogue()["largest-margins/table3"]
    (setting,) = (
        each for each in settings_of(Job(entry=entry, data=photos)) if each.title == "LM-Softmax times s (s = 64)"
    )
    assert setting.recipe(0).head["loss_weight"] == 64.0
    printed = next(each for each in settings_of(Job(entry=entry, data=photos)) if each.title == "LM-Softmax (s = 64)")
    assert printed.recipe(0).head["loss_weight"] == 1.0
    small = ("data.most_images=8", "data.validation.identities=4", "data.validation.count=20")
    tiny = setting.but("tiny", *TINY, *small)
    record = gather([tiny], photos, (0,)).records[tiny.key(0)]
    for name in RANKED:
        assert record.arrays[name].shape == (4,)
        assert record.numbers[name] == pytest.approx(100 * record.arrays[name].mean())
    assert record.arrays["histogram same, LFW"].sum() == 4
    assert record.arrays["histogram other, held out"].sum() == pytest.approx(0.5)
    assert record.numbers["range, LFW"] > 0
