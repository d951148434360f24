"""`calibrate`, `verify`, `enroll`, `identify`, `forget` and `cluster`, with painted faces and a detector that knows."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.data import encode, open_source, write_source
from hypersphere.evaluation import embed_files
from hypersphere.models import Contract, ModelCard, save_folder
from hypersphere.pocket import PocketFaces
from hypersphere.recognition import calibration, load_calibration, recognizer
from hypersphere.recognition.gallery import addresses
from tests.recognition.drawn import drawn_photo
from tests.recognition.test_recognizer import FACES, KnownFaces

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People, a small model that is calibrated on them, and photos with drawn faces."""
    here = tmp_path_factory.mktemp("photos")
    write_source(PocketFaces(num_identities=12, images_per_identity=4, size=16), here / "people", quality=95)
    for path in (here / "people").iterdir():
        path.rename(path.with_name(f"x{int(path.name)}"))
    torch.manual_seed(0)
    network = hs.create_backbone("cnn4", dim=4, input_size=(16, 16)).eval()
    contract = Contract(input_size=(16, 16), flip="sum", alignment="insightface-112")
    save_folder(here / "net", network, contract, {"name": "cnn4", "dim": 4}, ModelCard(title="net").text())
    assert (
        main(["-q", "calibrate", str(here / "net"), str(here / "people"), "--galleries", "3", "--device", "cpu"]) == 0
    )
    faces = PocketFaces(num_identities=3, images_per_identity=2, size=112)
    (here / "album").mkdir()
    for index in range(6):
        (here / "album" / f"{index}.png").write_bytes(encode(faces.read(index)))
    (here / "one.png").write_bytes(encode(drawn_photo((200, 200), FACES[:1])))
    (here / "two.png").write_bytes(encode(drawn_photo((200, 200), FACES)))
    return here


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return folder


def answer(capsys: Capture, *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = main(["--json", *words, *([] if words[0] == "forget" else ["--device", "cpu"])])
    out = capsys.readouterr().out
    return status, json.loads(out) if out else {}


def test_a_calibration_lies_beside_its_model(here: Path, capsys: Capture) -> None:
    made = load_calibration("net", hs.load_model("net").contract)
    unit = hs.load_model("net")(open_source("people")).numpy()
    labels = open_source("people").labels
    table = made.table
    assert (table.identities, table.images, table.people) == (12, 48, "12 people of people")
    assert table.digest == hs.data.images_digest(open_source("people"))
    rows = hs.evaluation.calibrate_thresholds(unit, labels)
    assert [row.threshold for row in table.thresholds] == pytest.approx([row.threshold for row in rows], abs=1e-6)
    assert made.disjoint_from == ()
    Path("others.txt").write_text("10\nAda\t3\nBo\t4\n")
    words = ["calibrate", "net", "people", "--galleries", "2", "--out", "new.json", "--disjoint-from", "others.txt"]
    assert main([*words, "--people", "painted ones", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "painted ones: 48 images, 72 pairs of one person and 1,056 of two" in out
    assert "C_llr" in out
    assert "calibration: new.json" in out
    assert load_calibration("new.json").disjoint_from == ("others.txt",)


def test_people_whom_somebody_trained_on_are_refused(here: Path, capsys: Capture) -> None:
    Path("trained.txt").write_text("X_3\n")
    assert main(["calibrate", "net", "people", "--disjoint-from", "trained.txt", "--device", "cpu"]) == 2
    assert "shares 1 person with trained.txt: x3" in capsys.readouterr().err


def test_the_calibration_of_the_package_is_not_replaced(here: Path, capsys: Capture) -> None:
    assert main(["calibrate", "starter", "people", "--device", "cpu"]) == 2
    assert "calibration.json belongs to the package: give --out FILE" in capsys.readouterr().err


def test_a_list_of_pairs_is_enough(here: Path, capsys: Capture) -> None:
    names = sorted(path.name for path in (here / "people").iterdir())
    files = {name: sorted(path.name for path in (here / "people" / name).iterdir()) for name in names}
    lines = []
    for name in names:
        lines += [f"{name}/{files[name][0]} {name}/{files[name][k]} 1" for k in (1, 2, 3)]
    for k, one in enumerate(names):
        lines += [f"{one}/{files[one][0]} {two}/{files[two][1]} 0" for two in names[k + 1 :]]
    Path("pairs.txt").write_text("\n".join(lines) + "\n")
    words = ["calibrate", "net", "people", "--pairs", "pairs.txt", "--out", "pairs.json", "--device", "cpu"]
    status = main(words)
    told = capsys.readouterr()
    assert status == 0, told.err
    made = load_calibration("pairs.json")
    assert (made.table.genuine, made.table.impostors, made.searches) == (36, 66, ())
    assert main([*words, "--held-out", "pocket/faces"]) == 2


def test_verify_says_match_by_its_status(here: Path, capsys: Capture) -> None:
    one, two = (sorted((here / "people" / name).iterdir())[0] for name in ("x0", "x1"))
    options = ["--model", "net", "--aligned", "--fmr", "0.1"]
    status, document = answer(capsys, "verify", str(one), str(one), *options)
    assert (status, document["match"], document["fmr"]) == (0, True, 0.1)
    assert document["score"] == pytest.approx(1, abs=1e-6)
    assert document["liveness_checked"] is False
    assert document["calibration"] == "12 people of people"
    status, document = answer(capsys, "verify", str(one), str(two), *options[:3], "--fmr", "0.01")
    assert status == (0 if document["match"] else 1)
    for wrong in (["missing.jpg", str(one)], [str(one), "people"]):
        assert answer(capsys, "verify", *wrong, *options)[0] == 2
    assert answer(capsys, "verify", str(one), str(two), *options[:3], "--fmr", "1e-9")[0] == 2
    assert main(["verify", "one.png", "one.png", *options, "--device", "cpu"]) == 2
    assert "one.png is 200 x 200 pixels; an aligned crop for net has 16 x 16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("verify missing.jpg one.png", "missing.jpg is missing"),
        ("verify one.png missing.jpg", "missing.jpg is missing"),
        ("verify one.png people", "people is a folder; expected a photo"),
        ("verify one.png one.png --model missing", "--model missing is missing"),
        ("verify one.png one.png --model album", "calibration.json is missing: the model was not calibrated"),
        (
            "verify one.png one.png --calibration missing.json",
            "--calibration missing.json is missing; expected portraits",
        ),
        ("verify one.png one.png --detector missing.onnx", "--detector missing.onnx is missing"),
        ("verify one.png one.png --fmr 1e-12", "1e-12"),
        ("enroll Ada one.png missing.jpg", "missing.jpg is missing"),
        ("enroll Ada one.png --gallery people", "people: no address of a gallery"),
        ("enroll Ada one.png --gallery text.db", "text.db: not a gallery of hypersphere"),
        ("identify missing.jpg", "missing.jpg is missing"),
        ("identify one.png --gallery missing.db", "missing.db: there is no such gallery"),
        ("identify one.png --gallery text.db", "text.db: not a gallery of hypersphere"),
        ("identify one.png --gallery empty.db --fpir 2", "fpir=2"),
        ("cluster missing.jpg", "missing.jpg"),
        ("cluster album --fmr 1e-12", "1e-12"),
        ("calibrate net missing.jpg", "missing.jpg"),
        ("calibrate net people --disjoint-from latin.txt", "latin.txt: byte 4 is not UTF-8 text (line 1)"),
        ("embed missing.jpg out.npy", "missing.jpg is missing"),
        ("embed album out.npy --format folder --model missing", "missing is missing"),
        ("embed album out.npy --format mnist", "album"),
        ("serve --model missing", "missing is missing; a model is"),
        ("serve --gallery text.db", "text.db: not a gallery of hypersphere"),
    ],
)
def test_what_is_missing_is_told_before_a_model_is_loaded(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: str, told: str
) -> None:
    Path("text.db").write_text("no gallery")
    Path("latin.txt").write_bytes(b"Andr\xe9 ")
    if not Path("empty.db").exists():
        contract = hs.models.Contract(input_size=(16, 16), dim=4, digest="0123456789abcdef")
        hs.open_gallery("empty.db", contract=contract, create=True).close()
    for place in (hs, recognizer, embed_files):
        monkeypatch.setattr(place, "load_model", lambda *_, **__: pytest.fail("the model was loaded"))
    device = [] if words.startswith("serve") else ["--device", "cpu"]
    assert main([*words.split(), *device, *(["--port", "0"] if not device else [])]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_verify_photos(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognizer, "load_detector", lambda _: KnownFaces(1))
    assert main(["verify", "one.png", "one.png", "--page", "page.html", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "no --model: the starter model of the package" in out
    lines = out.splitlines()
    assert lines[1] == "Probably the same person."
    assert lines[2].startswith(
        "At this setting about one pair of strangers in 1,000 would pass for one person, and about"
    )
    assert "  match at FMR 1e-03 [" in out
    assert "for family albums: --calibration albums" in out
    assert "liveness is not checked" in out
    assert "<h1>Probably the same person</h1>" in Path("page.html").read_text()
    monkeypatch.setattr(recognizer, "load_detector", lambda _: KnownFaces(2))
    assert main(["verify", "one.png", "two.png", "--device", "cpu"]) == 2
    assert "one.png: 2 faces were found; expected one" in capsys.readouterr().err
    assert main(["verify", "two.png", "two.png", "--face", "largest", "--device", "cpu"]) == 0


def test_an_error_is_never_a_no(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ModuleNotFoundError("detecting faces needs onnxruntime")

    monkeypatch.setattr(recognizer, "load_detector", broken)
    assert main(["verify", "one.png", "one.png", "--device", "cpu"]) == 2
    assert "detecting faces needs onnxruntime" in capsys.readouterr().err
    assert main(["identify", "one.png", "--gallery", "x.db", "--device", "cpu"]) == 2


def test_enrol_identify_forget(here: Path, capsys: Capture) -> None:
    options = ["--aligned", "--gallery", "people.db"]
    for person in range(3):
        photos = [f"album/{2 * person}.png", f"album/{2 * person + 1}.png"]
        status, document = answer(capsys, "enroll", f"person {person}", *photos, "--consent", "asked", *options)
        assert (status, document["subject"]) == (0, f"person {person}")
    status, document = answer(capsys, "identify", "album/2.png", "--fpir", "0.1", *options)
    assert (status, document["match"], document["gallery_size"]) == (0, True, 3)
    assert document["candidates"][0]["subject"] == "person 1"
    for person in range(3):
        assert answer(capsys, "forget", f"person {person}", "--gallery", "people.db")[0] == 0
    assert main(["identify", "album/2.png", *options, "--device", "cpu"]) == 1
    out = capsys.readouterr().out
    assert "Nobody: the gallery is empty." in out
    assert "no match at FPIR 1e-02 [" in out
    assert main(["forget", "person 1", "--gallery", "people.db"]) == 2
    assert "nobody is enrolled as 'person 1'" in capsys.readouterr().err
    assert main(["enroll", "x", "album/0.png", "--days", "-1", *options, "--device", "cpu"]) == 2


def test_the_users_own_gallery(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    status, document = answer(capsys, "enroll", "Ada", "album/0.png", "--aligned", "--days", "30", "--key", "a")
    assert status == 0
    assert document["gallery"] == str(tmp_path / "hypersphere" / "gallery.db")
    assert Path(document["gallery"]).is_file()
    with hs.open_gallery(document["gallery"]) as gallery:
        assert gallery.info().size == 1


def test_cluster_writes_page_and_table(here: Path, capsys: Capture) -> None:
    words = ["cluster", "album", "--aligned", "--fmr", "1e-2", "--page", "groups.html", "--out", "groups.csv"]
    status, document = answer(capsys, *words)
    assert status == 0
    assert [face["photo"] for face in document["faces"]] == [f"{k}.png" for k in range(6)]
    assert document["threshold"]["fmr"] == 0.01
    rows = list(csv.DictReader(Path("groups.csv").read_text().splitlines()))
    assert [int(row["group"]) for row in rows] == [face["group"] for face in document["faces"]]
    assert min(face["group"] for face in document["faces"]) == 1  # as the page and the screen count
    assert "6 faces: " in Path("groups.html").read_text()
    assert main(["cluster", "album", "--aligned", "--out", "groups.txt", "--device", "cpu"]) == 2


def test_cluster_names_what_it_leaves_out(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognizer, "load_detector", lambda _: KnownFaces(2))
    assert main(["cluster", "two.png", "--device", "cpu"]) == 0
    assert "2 faces of 1 photo:" in capsys.readouterr().out
    monkeypatch.setattr(recognizer, "load_detector", lambda _: KnownFaces(0))
    assert main(["cluster", "album", "--device", "cpu"]) == 2
    assert "no face was found on any of 6 photos" in capsys.readouterr().err


def test_find_lists_the_photos_of_a_person(here: Path, capsys: Capture) -> None:
    words = ["find", "album/2.png", "album", "--aligned", "--fmr", "1e-1"]
    status, document = answer(capsys, *words, "--out", "found.csv", "--page", "found.html")
    assert status == 0
    assert document["photos"][0] == "2.png"
    scores = [face["score"] for face in document["faces"]]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 6
    assert [face["match"] for face in document["faces"]] == [
        score >= document["threshold"]["threshold"] for score in scores
    ]
    rows = list(csv.DictReader(Path("found.csv").read_text().splitlines()))
    assert {row["photo"]: float(row["score"]) for row in rows} == {
        face["photo"]: pytest.approx(face["score"], abs=1e-4) for face in document["faces"]
    }
    assert f"<h1>Probably on {len(document['photos'])} of 6 photos</h1>" in Path("found.html").read_text()
    assert main([*words, "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert f"Probably on {len(document['photos'])} of 6 photos.\nAt this setting about one face of a stranger in" in out
    assert "  1.000  2.png" in out
    assert "of 6 faces expected, if all were strangers" in out


def test_find_tells_nobody_by_its_status(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognizer, "load_detector", lambda _: KnownFaces(1))
    Path("grey").mkdir()
    Path("grey/1.png").write_bytes(encode(np.full((200, 200, 3), 127, np.uint8)))
    status, document = answer(capsys, "find", "one.png", "grey", "two.png")
    assert [Path(face["photo"]).name for face in document["faces"]] == ["two.png", "1.png"]
    status, document = answer(capsys, "find", "one.png", "grey")
    assert (status, document["photos"]) == (1, [])
    assert document["sentence"].startswith("Probably on none of 1 photo. At this setting")
    assert answer(capsys, "find", "one.png", "gone")[0] == 2
    assert answer(capsys, "find", "gone.png", "grey")[0] == 2


def test_identify_takes_folders_and_several_photos(here: Path, capsys: Capture) -> None:
    options = ["--aligned", "--gallery", "several.db"]
    for person in range(2):
        photos = [f"album/{2 * person}.png", f"album/{2 * person + 1}.png"]
        assert answer(capsys, "enroll", f"person {person}", *photos, *options)[0] == 0
    assert main(["identify", "album", "--fpir", "0.1", *options, "--out", "who.csv", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert " of 6 on 6 photos recognised.\nAt this setting about one stranger in" in out
    assert "  0.png: person 0 (" in out
    assert list(csv.DictReader(Path("who.csv").read_text().splitlines()))[2]["name"] == "person 1"
    status, document = answer(capsys, "identify", "album/0.png", "album/3.png", "--fpir", "0.1", *options)
    assert status == 0
    assert [face["candidates"][0]["subject"] for face in document["faces"]] == ["person 0", "person 1"]
    assert document["photos"] == ["album/0.png", "album/3.png"]


def test_identify_opens_the_gallery_and_the_calibration_once(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"gallery": 0, "calibration": 0}

    def counting(name: str, function: Any) -> Any:
        def counted(*values: Any, **named: Any) -> Any:
            counts[name] += 1
            return function(*values, **named)

        return counted

    options = ["--aligned", "--gallery", "once.db"]
    assert answer(capsys, "enroll", "Ada", "album/0.png", *options)[0] == 0
    for name, function in (("gallery", "SqliteGallery"), ("calibration", "read_calibrated")):
        module = addresses if name == "gallery" else calibration
        monkeypatch.setattr(module, function, counting(name, getattr(module, function)))
    for words in (["identify", "album/0.png", "--fpir", "0.1"], ["enroll", "Ada", "album/1.png"]):
        assert answer(capsys, *words, *options)[0] == 0
        assert counts == {"gallery": 1, "calibration": 1}
        counts.update(gallery=0, calibration=0)


def test_gallery_list_names_who_is_enrolled(here: Path, capsys: Capture) -> None:
    options = ["--aligned", "--gallery", "listed.db"]
    assert answer(capsys, "enroll", "Grace", "album/0.png", *options)[0] == 0
    for _ in range(2):
        assert answer(capsys, "enroll", "Ada", "album/2.png", "--consent", "asked", "--days", "9", *options)[0] == 0
    capsys.readouterr()
    assert main(["gallery", "list", "listed.db"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("Ada: 2 templates since 2")
    assert ", until 2" in first
    assert first.endswith(", consent: asked")
    assert second.startswith("Grace: 1 template since 2")


def test_a_second_rate_looks_at_no_photo_again(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_again(*_: object) -> None:
        raise ValueError("looked at again")

    monkeypatch.setattr(recognizer, "load_detector", lambda _: KnownFaces(2))
    Path("kept").mkdir()
    for name in "ab":
        Path(f"kept/{name}.png").write_bytes(encode(drawn_photo((200, 200), FACES)))
    Path("kept/broken.png").write_bytes(b"broken")
    status, first = answer(capsys, "cluster", "kept", "--fmr", "1e-3")
    assert status == 0
    monkeypatch.setattr(KnownFaces, "__call__", look_again)
    status, second = answer(capsys, "cluster", "kept", "--fmr", "1e-1")
    assert (status, second["faces"], second["left_out"]) == (0, first["faces"], first["left_out"])
    assert main(["cluster", "kept", "--no-cache", "--device", "cpu"]) == 2
    assert "looked at again" in capsys.readouterr().err


def test_cluster_sorts_photos_into_folders(here: Path, capsys: Capture) -> None:
    words = ["cluster", "album", "--aligned", "--fmr", "1e-2", "--sort", "sorted"]
    status, document = answer(capsys, *words)
    assert status == 0
    by_photo = {face["photo"]: face["group"] for face in document["faces"]}
    sizes = [list(by_photo.values()).count(group) for group in by_photo.values()]
    for (photo, group), size in zip(by_photo.items(), sizes, strict=True):
        copy = Path("sorted", f"group-{group}" if size > 1 else "alone", photo)
        assert copy.read_bytes() == Path("album", photo).read_bytes()
    assert len(list(Path("sorted").rglob("*.png"))) == 6
    assert main([*words, "--device", "cpu"]) == 2
    assert "sorted exists already" in capsys.readouterr().err
