"""Runs on real faces: read from a record file, trained where the faces are at hand, and judged as others are."""

import io
import tarfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hypersphere.core.stored_array import StoredArray
from hypersphere.evaluation import verify_pairs
from hypersphere.training import RecordFile, RunRecord, SetScore, run_key
from hypersphere_papers.engine import runs
from hypersphere_papers.engine.evidence import Evidence, settings_of
from hypersphere_papers.engine.face_measures import weigh_people_alike
from hypersphere_papers.engine.face_records import (
    A_SOFTMAX,
    SMALL,
    SOFTMAX,
    SPHEREFACE2,
    faces,
    searched,
)
from hypersphere_papers.engine.face_searches import HELD_OUT, LFW, SEARCHED
from hypersphere_papers.engine.outcome import Finding
from hypersphere_papers.engine.record import Record
from hypersphere_papers.engine.record_folder import FACE_RECORDS, SEARCHES, SUBJECTS, RunFiles
from hypersphere_papers.engine.run_plan import RunPlan
from hypersphere_papers.engine.runs import Gathered, gather_runs, task_of
from hypersphere_papers.engine.setting import FACE_FILES, Setting, unique
from hypersphere_papers.engine.verdict import gain_of
from hypersphere_papers.laboratory import Job, RunOptions, find_item, load_catalogue, missing, run_entry
from hypersphere_papers.sphereface2.data_sets import count_people

PAIRS = {"lfw": 80, "pairs": 120}
RECORDS = FACE_RECORDS["verification"]


def subjects() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.integers(0, 30, (2, count)).astype(np.int16) for name, count in PAIRS.items()}


def run_record(setting: Setting, seed: int, separation: float, **options: Any) -> RunRecord:
    """A run whose scores of pairs are so far apart."""
    rng, scores = np.random.default_rng(seed), {}
    for name, title in (("lfw", "lfw-pairs"), ("pairs", "held-out identities")):
        same = np.arange(PAIRS[name]) % 2 == 0
        values = (rng.normal(size=PAIRS[name]) + separation * same).astype(np.float32)
        scores[title] = SetScore.of([verify_pairs(values, same, 10)])
    key = setting.key(seed)
    return RunRecord(setting.title, seed, key, train_accuracy=0.99, norm=3.0, scores=scores, seconds=2.0, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two settings with two seeds on record."""
    record = RecordFile(tmp_path / RECORDS)
    for seed in (0, 1):
        record.add(run_record(SOFTMAX, seed, 0.3))
        record.add(run_record(A_SOFTMAX[2], seed, 4.0))
    np.savez_compressed(tmp_path / SUBJECTS, **subjects())  # type: ignore[arg-type]
    return tmp_path


def gather(settings: list[Setting], folder: Path, said: list[str] | None = None) -> Any:
    announce = (lambda _: None) if said is None else said.append
    return gather_runs(settings, (0, 1), RunFiles(folder, folder), announce=announce)


def test_a_run_on_record_keeps_its_decisions_and_its_people(folder: Path) -> None:
    record = gather([SOFTMAX], folder).records[SOFTMAX.key(1)]
    kept = RecordFile(folder / RECORDS).records[SOFTMAX.key(1)]
    assert (record.seed, record.numbers["train accuracy"], record.numbers["norm"]) == (1, 99.0, 3.0)
    for name, title in (("lfw", "lfw-pairs"), ("pairs", "held-out identities")):
        assert (record.arrays[name] == kept.scores[title].decisions(PAIRS[name])).all()
        assert (record.arrays[f"{name} subjects"] == subjects()[name]).all()
    assert record.numbers["lfw"] == pytest.approx(100 * kept.scores["lfw-pairs"].accuracy)
    alike = weigh_people_alike(*subjects()["pairs"])
    assert record.numbers["pairs"] == pytest.approx(100 * alike @ record.arrays["pairs"])


def test_an_item_is_judged_from_the_record_alone(folder: Path, tmp_path: Path) -> None:
    options = RunOptions(data=folder, seeds=(0, 1))
    result = run_entry(load_catalogue()["sphereface/table3"], tmp_path / "out", options)
    found = {finding.what: finding for finding in result.findings}
    assert found["A-Softmax, m = 2 is at least as good as softmax, on LFW"].verdict == "held"
    missing = found["A-Softmax, m = 3 is better than A-Softmax, m = 2, on LFW"]
    assert (missing.verdict, missing.ours) == ("undecided", "not measured")
    assert missing.note == "A-Softmax, m = 3: 0 of 2 seeds are on record"


def test_what_is_not_on_record_is_said(folder: Path) -> None:
    said: list[str] = []
    assert len(gather([SOFTMAX, A_SOFTMAX[4]], folder, said).records) == 2
    assert said == [
        f"2 of 4 runs are not on record; with faces.tar, lfw-pairs.txt, lfw112.tar in {folder} they would be trained"
    ]


def test_where_the_faces_are_missing_runs_are_trained_and_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in FACE_FILES:
        (folder / entry.partition("=")[2]).touch()
    asked = []

    def train(
        tasks: list[Any], world: Any, options: Any, *, jobs: int, report: Any, on_error: Any
    ) -> Iterator[RunRecord]:
        for number, task in enumerate(tasks):
            assert task.measure is None
            asked.append(task.recipe)
            report(number, 1, 4)
            report(number, 3, 4)
            yield run_record(A_SOFTMAX[4], task.recipe.train.seed, 2.0)

    shown: list[Any] = []

    class Bar:
        def begin(self, done: int) -> None:
            shown.append(done)

        def __call__(self, done: int, total: int, note: str = "") -> None:
            shown.append((done, total, note))

    monkeypatch.setattr(runs, "run_tasks", train)
    monkeypatch.setattr(RunPlan, "_steps_of", lambda self, task, stage: 4)
    monkeypatch.setattr(RunPlan, "_tried", lambda self, task, device: 2.5)
    said: list[str] = []
    records = gather_runs(
        [SOFTMAX, A_SOFTMAX[4]],
        (0, 1),
        RunFiles(folder, folder),
        progress=lambda title, unit: nullcontext(Bar()),
        announce=said.append,
    ).records
    assert len(records) == 4
    assert said == [
        "2 runs to train, 8 steps in all (2 more are on record)",
        "about 20 s on cpu with --jobs 1, after the images are decoded",
        "2 runs put on record, 0 failed",
    ]
    none, one, both = (f"{count} of 2 runs done" for count in range(3))
    first = [1, (1, 8, none), (3, 8, none), (4, 8, one)]
    assert shown == [*first, (5, 8, one), (7, 8, one), (8, 8, both)]
    assert [recipe.train.seed for recipe in asked] == [0, 1]
    assert {recipe.data.source for recipe in asked} == {str(folder / "faces.tar")}
    assert {run_key(recipe) for recipe in asked} == {A_SOFTMAX[4].key(seed) for seed in (0, 1)}
    assert len(gather([A_SOFTMAX[4]], folder).records) == len(RecordFile(folder / RECORDS).records) - 4
    assert len(asked) == 2


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    files = "faces.tar, lfw-pairs.txt, lfw112.tar"
    wanted = rf"the faces to train on \({files}\) or runs on record \(subjects.npz, results.jsonl, .*biases.jsonl\)"
    with pytest.raises(ValueError, match=f"expected {wanted}; it is empty; --data papers/records/losses has runs"):
        gather([SOFTMAX], tmp_path)
    for name in ("faces-0.tar", "lfw-pairs.txt", *(f"model-{number}.onnx" for number in range(9))):
        (tmp_path / name).touch()
    found = "found lfw-pairs.txt, faces-0.tar, model-0.onnx, .* and 3 more"
    with pytest.raises(ValueError, match=f"{found}; missing of the faces: faces.tar, lfw112.tar; --data papers"):
        gather([SOFTMAX], tmp_path)
    assert "missing of the faces" in missing(load_catalogue()["sphereface/table3"], tmp_path)
    table9 = load_catalogue()["sphereface2/table9"]
    assert missing(table9, tmp_path).startswith(f"{tmp_path} has no lfw-people.txt; needs LFW's people.txt")
    (tmp_path / "lfw-people.txt").touch()
    assert missing(table9, tmp_path) == missing(table9, tmp_path / "lfw-people.txt") == ""
    with pytest.raises(ValueError, match="faces-0.tar is a file; expected a folder with the faces to train on"):
        gather([SOFTMAX], tmp_path / "faces-0.tar")
    np.savez_compressed(tmp_path / SUBJECTS, lfw=np.zeros((2, 3)), pairs=np.zeros(3))
    with pytest.raises(ValueError, match="no array of two rows named pairs"):
        RunFiles(tmp_path, tmp_path).people()


def test_steps_and_seconds_of_runs_are_known_before_they_start(tmp_path: Path) -> None:
    """Steps of the images at hand; seconds of runs of this machine, or of a few steps that are tried."""
    with tarfile.open(tmp_path / "faces.tar", "w") as archive:
        for number in range(48):
            picture = io.BytesIO()
            Image.fromarray(np.full((16, 16, 3), 5 * number, dtype=np.uint8)).save(picture, "png")
            entry = tarfile.TarInfo(f"person{number % 8}/{number}.png")
            entry.size = len(picture.getvalue())
            picture.seek(0)
            archive.addfile(entry, picture)
    tiny = ("data.validation.identities=2", "train.batch_size=12", "train.epochs=2.5", "data.most_images=6")
    setting = faces("tiny", "softmax", *SMALL, *tiny)
    files = RunFiles(tmp_path, tmp_path)
    plan = RunPlan({f"{seed}": task_of(setting, seed, f"{seed}", tmp_path, files) for seed in (0, 1)})
    assert plan.steps == {"0": 8, "1": 8}
    assert 0 < plan.seconds([], jobs=1, device="cpu") < 1000
    known = [(setting.recipe(0), 4.0)]
    assert plan.seconds(known, jobs=1, device="cpu") == pytest.approx(64.0)
    assert plan.seconds(known, jobs=2, device="cpu") == pytest.approx(32.0)


def search_record(setting: Setting, seed: int, right: float, **options: Any) -> RunRecord:
    """A run that is right about so many of its people."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {f"{name}, {who}": rng.random(60) < right for name in SEARCHED for who in (HELD_OUT, LFW)}
    for who in (HELD_OUT, LFW):
        found[f"CMC, {who}"] = np.linspace(right, 1, 10, dtype=np.float32)
        found[f"template ROC, {who}"] = np.linspace(0, right, 6, dtype=np.float32)
        found[f"distractor ROC, {who}"] = np.linspace(0, right, 4, dtype=np.float32)
    found["prototype norms"] = np.log([2, 2, 3, 5, 9, 40, 300]).astype(np.float16)
    stored = {name: StoredArray.of(array) for name, array in found.items()}
    key = searched(setting).key(seed)
    losses = {"first loss": 8.5, "last loss": 1.0}
    return RunRecord(setting.title, seed, key, train_accuracy=0.99, numbers=losses, arrays=stored, **options)


SEARCH_ITEMS = ("sphereface/table5", "sphereface2/table7")


@pytest.fixture(scope="module")
def searched_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of everything that the items on searches ask for; SphereFace and SphereFace2 are the best."""
    folder, catalogue = tmp_path_factory.mktemp("searches"), load_catalogue()
    lines = {}
    items = [Job(entry=catalogue[name], seeds=(0, 1)) for name in SEARCH_ITEMS]
    for setting in [searched(SOFTMAX), *(setting for item in items for setting in settings_of(item))]:
        ours = setting.title in (A_SOFTMAX[4].title, SPHEREFACE2.title)
        for seed in (0, 1):
            record = search_record(setting, seed, 0.9 if ours else 0.3)
            lines[record.recipe] = record
    file = RecordFile(folder / SEARCHES)
    for record in lines.values():
        file.add(record)
    images = np.array([2, 2, 3, 5, 9, 40, 300], dtype=np.int16)
    np.savez_compressed(folder / SUBJECTS, images=images, **subjects())  # type: ignore[arg-type]
    return folder


@pytest.mark.parametrize("name", SEARCH_ITEMS)
def test_searches_are_judged_person_by_person(name: str, searched_folder: Path, tmp_path: Path) -> None:
    result = run_entry(load_catalogue()[name], tmp_path, RunOptions(data=searched_folder, seeds=(0, 1)))
    assert not [finding for finding in result.findings if finding.ours == "not measured"]
    judged = {finding.what: finding for finding in result.findings if finding.verdict}
    assert judged
    assert result.figures
    if name == "sphereface2/table7":
        better = judged["SphereFace2 is better than CosFace: TAR at FAR 1e-5 of people of LFW"]
        assert better.verdict == "held"
        assert better.ours.startswith("+")
    if name == "sphereface/table5":
        said = "A-Softmax, m = 4 is better than softmax: rank-1 among distractors of people held out"
        assert judged[said].verdict == "held"
        printed = [finding for finding in result.findings if finding.paper == "rank-1 72.729"]
        assert len(printed) == 1, "the paper's number stands once beside ours"


def test_lengths_of_prototypes_are_held_against_the_images_of_their_people(
    searched_folder: Path, tmp_path: Path
) -> None:
    result = run_entry(load_catalogue()["sphereface/fig9"], tmp_path, RunOptions(data=searched_folder, seeds=(0, 1)))
    (finding,) = result.findings
    assert finding.what == "classes with more samples have longer prototypes, on real faces"
    assert finding.ours == "correlation 1.00 (seeds: 1.00, 1.00)"
    assert finding.note.startswith("7 classes of 2 to 300 samples")


def test_searches_of_a_run_are_not_those_of_its_pairs(folder: Path) -> None:
    found = searched(SOFTMAX)
    assert found.key(0) != SOFTMAX.key(0)
    assert gather([found], folder).records == {}
    RecordFile(folder / SEARCHES).add(search_record(SOFTMAX, 0, 0.5))
    record = gather([SOFTMAX, found], folder).records
    searches = record[found.key(0)]
    assert searches.numbers["rank-1, LFW"] == pytest.approx(100 * searches.arrays["rank-1, LFW"].mean())
    assert (searches.arrays["rank-1, LFW subjects"] == np.arange(60)).all()
    assert "lfw" not in searches.numbers
    assert "rank-1, LFW" not in record[SOFTMAX.key(0)].numbers


def test_a_run_that_was_searched_with_counts_for_its_pairs(folder: Path) -> None:
    new = A_SOFTMAX[4]
    RecordFile(folder / SEARCHES).add(run_record(searched(new), 0, 4.0))
    record = gather([new, searched(new)], folder).records
    assert record[new.key(0)].numbers["lfw"] > 50
    assert record[searched(new).key(0)].stopped == "its searches were not measured"


def test_a_run_whose_biases_were_measured_counts_for_its_pairs(folder: Path) -> None:
    RecordFile(folder / "biases.jsonl").add(run_record(A_SOFTMAX[4].measured_by("biases"), 0, 4.0))
    assert gather([A_SOFTMAX[4]], folder).records[A_SOFTMAX[4].key(0)].numbers["lfw"] > 50


def test_the_people_of_lfw_are_counted_by_its_own_list(tmp_path: Path) -> None:
    path = tmp_path / "lfw-people.txt"
    path.write_text("2\n2\nAda_Lee\t3\nBo\t1\n1\nCy\t4\n")
    assert count_people(path) == (3, 8)
    result = run_entry(load_catalogue()["sphereface2/table9"], tmp_path / "out", RunOptions(data=tmp_path))
    assert [(each.ours, each.paper, each.verdict) for each in result.findings] == [
        ("3", "5749", "contradicted"),
        ("8", "13233", "contradicted"),
    ]
    for damaged in ("2\n2\nAda_Lee\t3\n", "1\n1\nAda_Lee\t3\nBo\t1\n", "1\n1\nAda_Lee 3\n", "1\n1\nAda_Lee\tx\n"):
        path.write_text(damaged)
        with pytest.raises(ValueError, match="lfw-people"):
            count_people(path)


def test_what_is_said_of_training_from_scratch_is_judged(folder: Path, tmp_path: Path) -> None:
    searches = RecordFile(folder / SEARCHES)
    entry = load_catalogue()["normface/table2"]
    for setting in settings_of(Job(entry=entry, seeds=(0, 1))):
        for seed in (0, 1):
            arrays = search_record(setting, seed, 0.5).arrays
            numbers = {"first loss": 5.3, "last loss": 4.7}
            searches.add(run_record(searched(setting), seed, 2.0, arrays=arrays, numbers=numbers))
    searches.add(run_record(searched(SOFTMAX), 0, 2.0))
    result = run_entry(entry, tmp_path / "out", RunOptions(data=folder, seeds=(0, 1)))
    found = {finding.what: finding for finding in result.findings}
    loss = found["sec. 3.3: with s = 1 the loss is trapped above the bound of Prop. 2"]
    assert loss.verdict == "held"
    assert loss.ours.startswith("5.30 to 4.70, bound 4.30, a guess 5.30")
    fits = found["sec. 5.2: with the weights alone normalised, training from scratch collapses"]
    assert (fits.verdict, fits.ours) == ("contradicted", "fits 99.0, 99.0 % of its training images")
    alone = "features normalised, from scratch: training images right, mean length of the embeddings, by seed"
    assert found[alone].ours.startswith("99.0 %, ")
    assert found[alone].note == ""


@pytest.mark.parametrize(("stopped", "verdict"), [("", "contradicted"), ("a collapse", "held")])
def test_eq_1_fails_to_converge_or_not(stopped: str, verdict: str, folder: Path, tmp_path: Path) -> None:
    records = RecordFile(folder / RECORDS)
    entry = load_catalogue()["sphereface2/table2"]
    *_, naive, control, _ = settings_of(Job(entry=entry, seeds=(0, 1)))
    for seed in (0, 1):
        records.add(run_record(naive, seed, 2.0, stopped=stopped))
        records.add(run_record(control, seed, 2.0))
    result = run_entry(entry, tmp_path / "out", RunOptions(data=folder, seeds=(0, 1)))
    (finding,) = (each for each in result.findings if "eq. 1" in each.what)
    assert (finding.verdict, finding.ours) == (verdict, stopped or "fits 99.0 %")


def test_tuned_networks_are_judged_from_the_record(folder: Path, tmp_path: Path) -> None:
    catalogue, searches = load_catalogue(), RecordFile(folder / SEARCHES)
    for name in ("normface/fig8", "normface/table1", "normface/table4"):
        for setting in settings_of(Job(entry=catalogue[name], data=folder, seeds=(0, 1))):
            for seed in (0, 1):
                few = {which: StoredArray.of(np.arange(count) < 10) for which, count in PAIRS.items()}
                arrays = {f"{which} {how}": few[which] for how in ("inner", "euclidean") for which in PAIRS}
                searches.add(run_record(searched(setting), seed, 4.0, arrays=arrays))
    searches.add(run_record(searched(SOFTMAX), 0, 2.0))
    judged: dict[str, Finding] = {}
    for name in ("normface/fig8", "normface/table1", "normface/table4"):
        result = run_entry(catalogue[name], tmp_path / "out", RunOptions(data=folder, seeds=(0, 1)))
        assert not [finding for finding in result.findings if finding.ours == "not measured"]
        judged |= {finding.what: finding for finding in result.findings if finding.verdict}
    for network in ("softmax + center", "softmax + contrastive"):
        raises = f"{network}: normalising raises the accuracy of"
        assert judged[f"{raises} inner products, on LFW"].verdict == "held"
        assert judged[f"{raises} Euclidean distances, on people held out"].verdict == "held"
    assert "C-contrastive, normalised is better than plain softmax, on LFW" in judged
    assert "accuracy changes less with the weight of C-contrastive than with that of center loss, on LFW" in judged


def test_people_count_alike_however_many_pairs_they_have() -> None:
    left, right = np.array([0, 0, 0, 1, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 0, 1])
    weights = weigh_people_alike(left, right)
    assert weights == pytest.approx([1 / 12] * 3 + [1 / 4] + [1 / 8] * 2 + [1 / 4])
    worse, better = np.zeros((2, 7)), np.array([[1.0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 1]])
    gain = gain_of(worse, better, (left, right), weights)
    assert gain.value == pytest.approx(100 * (0.25 + 0.5) / 2)
    assert gain.seeds == pytest.approx([25.0, 50.0])
    plain = gain_of(worse, better, (left, right))
    assert plain.value == pytest.approx(100 * (3 / 7 + 2 / 7) / 2)


@pytest.mark.parametrize(("pairs_of_the_first", "verdict"), [(2, "held"), (40, "undecided")])
def test_what_depends_on_how_people_count_is_undecided(pairs_of_the_first: int, verdict: str) -> None:
    """Every person but the first gains: with many pairs of the first, pairs alone would say the contrary."""
    people_ = np.concatenate([np.zeros(pairs_of_the_first, dtype=np.int64), np.arange(1, 20)])
    better = (people_ > 0).astype(bool)
    arrays = {"pairs subjects": np.stack([people_, people_]), "pairs weights": weigh_people_alike(people_, people_)}
    records = {
        setting: [
            Record("", seed, 1.0, "", numbers={"train accuracy": 99.0}, arrays={"pairs": right, **arrays})
            for seed in (0, 1)
        ]
        for setting, right in ((SOFTMAX, ~better), (A_SOFTMAX[2], better))
    }
    evidence = Evidence(Job(entry=load_catalogue()["sphereface/table3"], seeds=(0, 1)), records)
    found = evidence.better(A_SOFTMAX[2], SOFTMAX, "pairs")
    assert found.verdict == verdict
    assert ("by pairs, not people" in found.note) == (verdict == "undecided")


@pytest.mark.parametrize(("pairs_of_the_first", "verdict"), [(2, "held"), (60, "undecided")])
def test_a_loss_by_noise_that_depends_on_how_people_count_is_undecided(pairs_of_the_first: int, verdict: str) -> None:
    """With noise SphereFace2 fails the first person alone, its rivals all others."""
    job = Job(entry=load_catalogue()["sphereface2/fig10"], seeds=(0, 1))
    people_ = np.concatenate([np.zeros(pairs_of_the_first, dtype=np.int64), np.arange(1, 30)])
    both, records = np.stack([people_, people_]), {}
    for key, (setting, seed) in unique(settings_of(job), job.seeds).items():
        fails = people_ == 0 if "SphereFace2" in setting.title else people_ > 0
        right = ~fails if "noise" in setting.title else np.ones(len(people_), dtype=bool)
        arrays = {"lfw": right, "pairs": right, "lfw subjects": both, "pairs subjects": both}
        arrays["pairs weights"] = weigh_people_alike(people_, people_)
        numbers = {"train accuracy": 99.0, "lfw": 80.0, "pairs": 80.0}
        records[key] = Record("", seed, 1.0, "", numbers=numbers, arrays=arrays)
    run = find_item(job.entry.id)
    assert run is not None
    outcome = run(replace(job, gathered=Gathered(records)))
    judged = [finding for finding in outcome.findings if finding.what.endswith("on people held out")]
    assert len(judged) == 8
    assert {finding.verdict for finding in judged} == {verdict}
    assert all(("by pairs, not people" in finding.note) == (verdict == "undecided") for finding in judged)
