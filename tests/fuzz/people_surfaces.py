"""Surfaces of the recognition of people: galleries, calibrations, photos, detectors, resumed work, the service."""

import json
import random
import shutil
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.core import sealed_text
from hypersphere.data import encode, write_source
from hypersphere.evaluation.embed_files import OpenTask
from hypersphere.models import Contract, import_model, load_model
from hypersphere.pocket import PocketFaces
from hypersphere.recognition import (
    AlignTask,
    Recognizer,
    align_photos,
    align_report,
    decide,
    load_calibration,
    load_detector,
    open_gallery,
    read_photo,
    save_calibration,
)
from tests.data.samples import picture, saved
from tests.fuzz.mutate import JSON, Files, mutate
from tests.fuzz.surface import CallSurface, Damaged, FileSurface, Surface, unchanged
from tests.models import peers
from tests.models.networks import linear_onnx
from tests.recognition.detect.test_one_shot import SIDE, write_network, yunet_outputs
from tests.recognition.gallery.people import units
from tests.recognition.made_up_people import calibrated
from tests.recognition.test_align_folder import FACES, Known, numbered

DIM = 8
CONTRACT = Contract(input_size=(112, 112), dim=DIM, digest="0123456789abcdef")
PEOPLE = ("Ada", "Bob", "Cyd", "Dee", "late", "Eve")
ROWS = units(len(PEOPLE) + 1, dim=DIM)
_FORGERS = "errors only: a forger can write any numbers"


def make_gallery(folder: Path) -> None:
    with open_gallery(folder / "people.db", contract=CONTRACT, create=True) as gallery:
        for name, row in zip(PEOPLE, ROWS[:-1], strict=True):
            expires = 1.0 if name == "late" else None
            gallery.enroll(name, row, key=name, metadata={"site": "x"}, consent="yes", expires=expires)


def read_gallery(folder: Path) -> Any:
    """Identify everybody, forget one, and identify again."""
    with open_gallery(folder / "people.db", contract=CONTRACT) as gallery:
        before = gallery.search(ROWS, 3), gallery.subjects(), gallery.search(ROWS[:1], 1, where={"site": "y"})
        forgotten, purged = gallery.forget("Bob"), gallery.purge()
        return [_named(before), forgotten, purged, _named((gallery.search(ROWS, 3), gallery.size()))]


def _named(answers: Any) -> str:
    return repr(answers)


def make_log(folder: Path) -> None:
    """What a process that was killed leaves: everything is in the log."""
    make = folder / "make"
    make.mkdir()
    gallery = open_gallery(make / "people.db", contract=CONTRACT, create=True)
    for name, row in zip(PEOPLE, ROWS[:-1], strict=True):
        gallery.enroll(name, row, key=name)
    for name in ("people.db", "people.db-wal"):
        shutil.copyfile(make / name, folder / name)
    gallery.close()
    shutil.rmtree(make)


def read_log(folder: Path) -> Any:
    with open_gallery(folder / "people.db", contract=CONTRACT) as gallery:
        return gallery.subjects(), [found[0].subject for found in gallery.search(ROWS[:-1], 1) if found]


def one_moment(damaged: Damaged) -> str | None:
    """The people of one moment: those who were enrolled until then, each of them found."""
    states = [(sorted(PEOPLE[:count]), count) for count in range(len(PEOPLE) + 1)]
    for names, count in states:
        if damaged.found[0] == names:
            first = damaged.found[1][:count]
            return None if first == list(PEOPLE[:count]) else f"{names}, but found are {first}"
    return f"{damaged.found[0]} is nobody's moment"


def make_calibration(folder: Path) -> None:
    save_calibration(calibrated(), folder / "calibration.json")


def read_calibration(folder: Path) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibration = load_calibration(folder / "calibration.json")
    for warning in caught:  # that there is no seal: enough for whoever reads it, for a digest is no signature
        raise ValueError(str(warning.message))
    return [decide(score, calibration, 1e-2).match for score in (-0.9, 0.0, 0.5, 0.9)]


def read_forged_calibration(folder: Path) -> Any:
    calibration = load_calibration(folder / "calibration.json")
    return [decide(score, calibration, fmr) for score in (-1.0, 0.0, 1.0) for fmr in (1e-3, 1e-2)]


def resealed(files: dict[str, bytes], change: Files) -> Files:
    """A calibration of other numbers with the seal that they have."""
    data = change.get("calibration.json")
    try:
        table = json.loads(data or b"")
        table.pop("seal", None)
        return {"calibration.json": sealed_text(table)}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return change


def sane(damaged: Damaged) -> str | None:
    """A score of -1 is no match, whatever a forger wrote."""
    return "a score of -1 is a match" if any("match=True" in text for text in damaged.found[:2]) else None


def make_photos(folder: Path) -> None:
    (folder / "a.jpg").write_bytes(saved(picture(1, 40, 30), exif=_turned()))
    (folder / "b.png").write_bytes(encode(picture(2, 24, 24)))


def _turned() -> Any:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def read_photos(folder: Path) -> Any:
    return [read_photo(folder / name).shape for name in ("a.jpg", "b.png")]


def make_detector(folder: Path) -> None:
    write_network(folder / "yunet.onnx", yunet_outputs())


def read_detector(folder: Path) -> Any:
    [faces] = load_detector(folder / "yunet.onnx", threads=1)([np.full((SIDE, SIDE, 3), 200, np.uint8)])
    return [[*face.box, face.score, *np.ravel(face.landmarks).tolist()] for face in faces]


def finite_faces(damaged: Damaged) -> str | None:
    return None if "nan" not in repr(damaged.found) and "inf" not in repr(damaged.found) else "a face without a place"


def make_onnx(folder: Path) -> None:
    linear_onnx(folder / "linear.onnx")
    contract = Contract(input_size=(8, 8), colour="rgb")
    (folder / "linear.contract.json").write_text(json.dumps(contract.table()))


def read_onnx_by_torch(folder: Path) -> Any:
    model = load_model(folder / "linear.onnx", runtime="torch")
    return model(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))


_PEER = Contract(input_size=(112, 112))


def make_import(folder: Path) -> None:
    torch.manual_seed(0)
    state = {name: torch.rand(shape) + 0.1 for name, shape in peers.sfnet(4, batch_norm=False, dim=2)}
    torch.save({"backbone": state, "head": {"w": torch.ones(2, 4)}}, folder / "peer.pth")


def read_import(folder: Path) -> Any:
    imported = import_model(folder / "peer.pth", folder / "out.safetensors", _PEER, replace=True)
    return imported.contract.backbone


def _embedding_task(folder: Path) -> int:
    from hypersphere.cli import main

    words = ["--model", str(folder / "net"), "--batch-size", "2", "--device", "cpu"]
    return main(["embed", str(folder / "people"), str(folder / "faces.npy"), *words])


def make_embedding(folder: Path) -> None:
    """A small model, images, and the parts of a command that was interrupted."""
    from hypersphere.models import ModelCard, save_folder

    write_source(PocketFaces(num_identities=4, images_per_identity=10, size=16), folder / "people", quality=90)
    torch.manual_seed(0)
    network = hs.create_backbone("cnn4", dim=4, input_size=(16, 16)).eval()
    contract = Contract(input_size=(16, 16), flip="sum")
    save_folder(folder / "net", network, contract, {"name": "cnn4", "dim": 4}, ModelCard(title="net").text())
    whole: Callable[[OpenTask, int], object] = OpenTask.embed_part

    def until_the_last(self: OpenTask, number: int) -> object:
        if number == 2:
            raise KeyboardInterrupt
        return whole(self, number)

    OpenTask.embed_part = until_the_last  # type: ignore[method-assign,assignment]
    try:
        assert _embedding_task(folder) == 130
    finally:
        OpenTask.embed_part = whole  # type: ignore[method-assign,assignment]


def read_embedding(folder: Path) -> Any:
    status = _embedding_task(folder)
    if status:
        raise ValueError(f"{folder}: status {status}")
    return np.load(folder / "faces.npy")


def make_alignment(folder: Path) -> None:
    for number, name in enumerate(FACES):
        (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "photos" / name).write_bytes(numbered(number))
    Known.calls, Known.fails_after = 0, 3
    try:
        _align(folder)
    except KeyboardInterrupt:
        pass
    finally:
        Known.fails_after = None


def _align(folder: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(align_report, "load_detector", lambda *_, **__: Known())
        return align_photos(AlignTask(photos=str(folder / "photos"), out=str(folder / "out")))


def read_alignment(folder: Path) -> Any:
    report = _align(folder)
    crops = {path.name: path.read_bytes() for path in sorted((folder / "out").rglob("[!.]*.png"))}
    return [(each.photo, each.failure) for each in report.photos], crops


@cache
def _service(folder: str) -> Any:
    from fastapi.testclient import TestClient

    from hypersphere.service import ServiceSettings, create_app
    from tests.service.photos import ByWidth

    recognizer = Recognizer("starter", detector=ByWidth(), calibration="albums", gallery=f"{folder}/served.db")
    client = TestClient(
        create_app(recognizer, ServiceSettings(rate=0, non_matches=0)), base_url="http://127.0.0.1:8000"
    )
    return client.__enter__()


_ENDPOINTS = (
    ("POST", "/v1/verify"),
    ("POST", "/v1/identify"),
    ("POST", "/v1/enroll"),
    ("GET", "/v1/subjects"),
    ("DELETE", "/v1/subjects/Ada"),
    ("GET", "/v1/gallery"),
    ("GET", "/healthz"),
)
_FORM = (
    b'--x\r\nContent-Disposition: form-data; name="%b"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n%b\r\n'
    b'--x\r\nContent-Disposition: form-data; name="second"; filename="b.png"\r\n\r\n%b\r\n'
    b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nAda\r\n'
    b'--x\r\nContent-Disposition: form-data; name="consent"\r\n\r\nyes\r\n--x--\r\n'
)


def call_service(rng: random.Random, folder: Path) -> str | None:
    """Send a damaged request: its form, its address or its headers."""
    from tests.service.photos import painted

    client = _service(str(folder))
    method, path = rng.choice(_ENDPOINTS)
    photo = painted(rng.randrange(4))
    body = _FORM % (rng.choice((b"photo", b"photos", b"first")), photo, painted(1))
    query, headers = "?after=a&limit=3", '{"Content-Type": "multipart/form-data; boundary=x", "X-Request-Id": "abc"}'
    files = {"body": body, "query": query.encode(), "headers.json": headers.encode()}
    change = mutate(rng, files, {name: JSON if name != "body" else _bytes() for name in files}, list(files))
    sent = {name: data if data is not None else b"" for name, data in {**files, **change}.items()}
    try:
        table = json.loads(sent["headers.json"])
        fields = {str(key).encode(): str(value).encode() for key, value in table.items()}
    except (ValueError, AttributeError, RecursionError):
        fields = {b"Content-Type": sent["headers.json"]}
    fields = {key: value for key, value in fields.items() if key.isalnum() or key.replace(b"-", b"").isalnum()}
    from httpx import InvalidURL

    try:
        answer = client.request(method, path + sent["query"].decode("latin-1"), content=sent["body"], headers=fields)
    except (InvalidURL, UnicodeError):
        return None
    if answer.status_code >= 500:
        return f"{method} {path}: {answer.status_code} {answer.text:.200}"
    answer.json()
    return None


def _bytes() -> Any:
    from tests.fuzz.mutate import BYTES

    return BYTES


class ServiceSurface(CallSurface):
    """The service, started before its memory is measured."""

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        for seed in range(20):
            call_service(random.Random(seed), folder)


PEOPLE_SURFACES: list[Surface] = [
    FileSurface("gallery", 150, make_gallery, read_gallery, unchanged, "the same answers, or a refusal", writes=True),
    FileSurface(
        "gallery, log of a killed process", 60, make_log, read_log, one_moment,
        "the people of one moment, each found", only=("*-wal",), writes=True,
    ),
    FileSurface("calibration", 200, make_calibration, read_calibration, unchanged, "the seal covers all"),
    FileSurface(
        "calibration, sealed anew", 200, make_calibration, read_forged_calibration, sane,
        "a score of -1 is no match", seal=resealed,
    ),
    FileSurface("photos", 150, make_photos, read_photos, promise="errors only: other bytes are other pixels"),
    FileSurface("detector", 60, make_detector, read_detector, finite_faces, "faces are finite"),
    FileSurface("ONNX, by torch", 150, make_onnx, read_onnx_by_torch),
    FileSurface("import", 60, make_import, read_import, promise=_FORGERS, writes=True),
    FileSurface(
        "embed, resumed", 40, make_embedding, read_embedding, unchanged, "the vectors of a run without interruption",
        only=(".faces.npy.parts/*",), writes=True,
    ),
    FileSurface(
        "align, resumed", 60, make_alignment, read_alignment, unchanged, "the crops of a run without interruption",
        only=("out/*",), writes=True,
    ),
    ServiceSurface("service", 60, call_service, "no status of 500 or more", memory=1 << 30),
]  # fmt: skip
