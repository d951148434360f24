"""What the API answers, with a real model and gallery and a fake detector."""

import asyncio
import dataclasses
import json
import logging
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from fastapi.testclient import TestClient

import hypersphere as hs
from hypersphere.recognition import Recognizer
from hypersphere.service import ServiceSettings
from hypersphere.service.answers import rounded_down
from hypersphere.service.work import Work
from tests.service.conftest import Service
from tests.service.photos import NO_FACE, TWO_FACES, ByWidth, noise, painted

CONSENT = {"consent": "door of the office"}


def enroll(client: TestClient, name: str, *photos: bytes, key: str = "", **fields: str) -> Any:
    files = [("photos", photo) for photo in photos]
    headers = {"Idempotency-Key": key} if key else {}
    return client.post("/v1/enroll", files=files, data={"name": name, **CONSENT, **fields}, headers=headers)


def verify(client: TestClient, first: bytes, second: bytes, **fields: str) -> Any:
    return client.post("/v1/verify", files={"first": first, "second": second}, data=fields)


def identify(client: TestClient, photo: bytes, **fields: str) -> Any:
    return client.post("/v1/identify", files={"photo": photo}, data=fields)


def test_verify_says_what_the_recognizer_says(client: TestClient, recognizer: Recognizer) -> None:
    one, two = painted(0), painted(0, 1)
    answer = verify(client, one, two, fmr="1e-2", crops="true")
    assert answer.status_code == 200
    said, wanted = answer.json(), recognizer.verify(one, two, 1e-2).as_dict()
    assert said["decision"]["score"] == rounded_down(wanted["score"])
    for name in ("match", "threshold", "fmr", "fmr_low", "fmr_high", "fnmr", "calibration", "calibration_digest"):
        assert said["decision"][name] == wanted[name], name
    assert said["decision"]["contract"] == recognizer.calibration.contract
    assert said["liveness"] == "liveness is not checked: a photo of a photo passes"
    for photo in said["photos"]:
        assert (photo["width"], photo["height"], len(photo["landmarks"])) == (112, 112, 5)
        assert photo["box"] == [10, 12, 100, 110]
        assert photo["crop"].startswith("data:image/png;base64,")
    assert verify(client, one, two).json()["photos"][0]["crop"] is None


def test_what_follows_from_a_score_follows_from_the_rounded_one(client: TestClient, recognizer: Recognizer) -> None:
    decision = verify(client, painted(1), painted(1, 1)).json()["decision"]
    llr = recognizer.calibration.llr
    assert decision["llr"] == round(min(llr.high, max(llr.low, llr.slope * decision["score"] + llr.offset)), 1)
    assert decision["fmr_at_score"] == recognizer.calibration.fmr_at(decision["score"] + 1e-9)


def test_enrol_identify_forget(client: TestClient) -> None:
    assert identify(client, painted(2)).json()["decision"]["gallery_size"] == 0
    made = enroll(client, "Ada", painted(2), painted(2, 1))
    assert made.status_code == 201
    assert made.json()["photos"] == 2
    found = identify(client, painted(2), fpir="0.1").json()
    assert found["match"]
    assert found["decision"]["candidates"][0]["subject"] == "Ada"
    assert found["decision"]["gallery_size"] == 1
    nobody = identify(client, noise()).json()
    assert not nobody["match"]
    assert nobody["sentence"].startswith("Nobody in the gallery. At this setting about one stranger in 100")
    assert nobody["verdict"] == "Nobody in the gallery"
    assert client.get("/v1/gallery").json()["size"] == 1
    assert client.get("/v1/subjects").json() == {"subjects": ["Ada"], "more": False}
    assert client.delete("/v1/subjects/Ada").json() == {"subject": "Ada", "removed": 1}
    assert client.delete("/v1/subjects/Ada").status_code == 404
    assert client.get("/v1/subjects").json()["subjects"] == []


def test_a_key_is_enrolled_once(client: TestClient) -> None:
    until = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
    answers = [enroll(client, "Ada", painted(2), key="one", keep_until=until) for _ in range(4)]
    assert {each.json()["template"] for each in answers} == {"one"}
    assert client.get("/v1/gallery").json()["size"] == 1
    other = enroll(client, "Bob", noise(1), key="one")
    assert (other.status_code, other.json()["error"]) == (409, "duplicate")


def test_retention(client: TestClient, recognizer: Recognizer) -> None:
    assert enroll(client, "Ada", painted(2), keep_until="2020-01-01").status_code == 422
    assert enroll(client, "Ada", painted(2), keep_until="9999-12-31").status_code == 422
    today = datetime.now(UTC).date()
    expires = enroll(client, "Ada", painted(2), keep_until=today.isoformat()).json()["expires"]
    assert datetime.fromtimestamp(expires, UTC).date() == today + timedelta(days=1)
    (record,) = recognizer.gallery.records()
    assert (record.expires, record.consent) == (expires, CONSENT["consent"])


def test_consent_is_needed(client: TestClient) -> None:
    answer = client.post("/v1/enroll", files=[("photos", painted(2))], data={"name": "Ada"})
    assert answer.status_code == 422
    assert "consent" in answer.json()["message"]


def test_names_of_every_kind(client: TestClient) -> None:
    names = ["<img src=x onerror=alert(1)>", "a/b", "...", "Ärzte 名", "50% & more?#"]
    for name in names:
        assert enroll(client, name, painted(2)).status_code == 201
    assert client.get("/v1/subjects").json()["subjects"] == sorted(names)
    assert client.get("/v1/subjects", params={"after": "...", "limit": 1}).json()["more"]
    for name in names:
        assert client.delete(f"/v1/subjects/{quote(name, safe='')}").json()["removed"] == 1
    for name in ("a\nb", ".", ".."):
        assert enroll(client, name, painted(2)).status_code == 422


@pytest.mark.parametrize(("width", "count"), [(NO_FACE, 0), (TWO_FACES, 2)])
def test_one_face_or_422_with_the_count(client: TestClient, width: int, count: int) -> None:
    wrong = noise(width=width)
    answer = verify(client, painted(0), wrong)
    assert answer.status_code == 422
    assert (answer.json()["error"], answer.json()["photo"], answer.json()["faces"]) == ("face_count", 2, count)
    assert identify(client, wrong).json()["faces"] == count
    assert enroll(client, "Ada", painted(0), wrong).json()["photo"] == 2
    assert client.get("/v1/gallery").json()["size"] == 0


def test_rates_that_nothing_supports_are_refused(client: TestClient) -> None:
    for fmr in ("1e-9", "0", "2", "nan", "many"):
        assert verify(client, painted(0), painted(0), fmr=fmr).status_code == 422, fmr
    assert identify(client, painted(0), fpir="1e-12").status_code == 422


def test_the_report(client: TestClient, recognizer: Recognizer) -> None:
    report, calibration = client.get("/v1/report").json(), recognizer.calibration
    assert [row["threshold"] for row in report["table"]["thresholds"]] == [
        row.threshold for row in calibration.table.thresholds
    ]
    np.testing.assert_allclose(report["spread"]["fmr"], calibration.curve.fmr)
    assert report["contract"] == calibration.contract
    assert report["detector"] == "by width"


def test_the_projection_keeps_what_three_axes_hold(client: TestClient, recognizer: Recognizer) -> None:
    assert client.get("/v1/projection").json()["points"] == []
    for person in range(5):
        for number in range(2):
            enroll(client, f"person {person}", painted(person, number))
    told = client.get("/v1/projection").json()
    unit = np.stack([np.frombuffer(each.vector, "<f2") for each in recognizer.gallery.records()]).astype(np.float64)
    values, vectors = np.linalg.eigh(unit.T @ unit)
    np.testing.assert_allclose(told["shares"], values[::-1][:3] / values.sum(), atol=1e-4)
    at = np.array([[point[axis] for axis in "xyz"] for point in told["points"]])
    np.testing.assert_allclose(np.abs(at), np.abs(unit @ vectors[:, ::-1][:, :3]), atol=1e-3)
    assert {key for point in told["points"] for key in point} == {"subject", "x", "y", "z"}


def test_a_gallery_that_does_not_answer_is_503(client: TestClient, recognizer: Recognizer) -> None:
    enroll(client, "Ada", painted(2))
    recognizer.gallery.path.unlink()  # type: ignore[attr-defined]
    for answer in (
        identify(client, painted(2)),
        enroll(client, "Bob", painted(3)),
        client.delete("/v1/subjects/Ada"),
        client.get("/v1/subjects"),
        client.get("/v1/projection"),
        client.get("/readyz"),
    ):
        assert (answer.status_code, answer.json()["error"]) == (503, "gallery_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
    assert client.get("/healthz").json()["status"] == "ok"
    assert "hypersphere_gallery_up 0" in client.get("/metrics").text
    assert verify(client, painted(0), painted(0)).status_code == 200


def test_faces_that_come_during_a_search_are_searched_together(
    recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    recognizer.enroll("Ada", painted(2), consent="door")
    units = [recognizer.embed(painted(person)) for person in range(6)]
    alone = [recognizer.search(unit, 0.1) for unit in units]
    counts, begun = [], threading.Event()
    search = recognizer.gallery.search

    def slow(probes: Any, k: int) -> Any:
        counts.append(len(probes))
        begun.wait(20)
        return search(probes, k)

    monkeypatch.setattr(recognizer.gallery, "search", slow)
    work = Work(recognizer, ServiceSettings(gallery_seconds=60))

    async def together() -> list[Any]:
        tasks = [asyncio.create_task(work.search(unit, 0.1)) for unit in units]
        while not counts:
            await asyncio.sleep(0.01)
        begun.set()
        return await asyncio.gather(*tasks)

    decisions = asyncio.run(together())
    assert counts == [6] or (counts[0] < 6 and len(counts) == 2)
    assert [each.match for each in decisions] == [each.match for each in alone]
    for one, several in zip(alone, decisions, strict=True):
        assert one.best_score == pytest.approx(several.best_score, abs=1e-5)


def test_a_gallery_that_hangs_is_503(service: Service, recognizer: Recognizer, monkeypatch: pytest.MonkeyPatch) -> None:
    client, release = service(gallery_seconds=0.05), threading.Event()
    monkeypatch.setattr(recognizer.gallery, "size", lambda: release.wait(20))
    answer = identify(client, painted(2))
    release.set()
    assert (answer.status_code, answer.json()["error"]) == (503, "gallery_unavailable")


def test_a_gallery_of_another_model_is_409(service: Service, starter: hs.Embedder, tmp_path: Path) -> None:
    other = dataclasses.replace(starter.contract, alignment="sphereface-112x96")
    hs.open_gallery(tmp_path / "other.db", contract=other, create=True).close()
    wrong = Recognizer(starter, detector=ByWidth(), calibration="albums", gallery=str(tmp_path / "other.db"))
    client = service(recognizer=wrong)
    for answer in (identify(client, painted(2)), enroll(client, "Ada", painted(2)), client.get("/v1/subjects")):
        assert (answer.status_code, answer.json()["error"]) == (409, "gallery_mismatch")


def test_two_services_see_one_gallery(service: Service, recognizer: Recognizer, starter: Any) -> None:
    address = str(recognizer.gallery.path)  # type: ignore[attr-defined]
    other = Recognizer(starter, detector=ByWidth(), calibration="albums", gallery=address)
    first, second = service(), service(recognizer=other)
    enroll(first, "Ada", painted(2))
    assert identify(second, painted(2), fpir="0.1").json()["match"]
    second.delete("/v1/subjects/Ada")
    assert not identify(first, painted(2), fpir="0.1").json()["match"]
    other.close()


def test_logs_are_json_without_names(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="hypersphere.service"):
        enroll(client, "Ada Lovelace", painted(2), key="her-key")
        client.get("/v1/subjects", params={"after": "Lovelace"})
        client.delete("/v1/subjects/Ada Lovelace")
        client.get("/Ada Lovelace")
    lines = [json.loads(record.message) for record in caplog.records if record.name == "hypersphere.service"]
    requests = [line for line in lines if line["event"] == "request"]
    assert [(line["route"], line["status"]) for line in requests] == [
        ("/v1/enroll", 201),
        ("/v1/subjects", 200),
        ("/v1/subjects/{name:path}", 200),
        ("other", 404),
    ]
    assert "Lovelace" not in caplog.text
    assert "her-key" not in caplog.text


def test_the_audit_trail_is_the_gallerys(client: TestClient, recognizer: Recognizer) -> None:
    enroll(client, "Ada", painted(2))
    client.delete("/v1/subjects/Ada")
    entries = [(entry.action, entry.subject, entry.detail) for entry in recognizer.gallery.audit()]
    assert [action for action, _, _ in entries] == ["enroll", "request", "forget", "request"]
    assert entries[1] == ("request", "Ada", "enroll by everybody")
    assert entries[3] == ("request", "Ada", "forget by everybody")


def test_metrics_count_what_was_asked(client: TestClient) -> None:
    verify(client, painted(0), painted(0))
    verify(client, painted(0), noise())
    enroll(client, "Ada", painted(2))
    text = client.get("/metrics").text
    for line in (
        'hypersphere_requests_total{route="/v1/verify",method="POST",status="200"} 2',
        'hypersphere_decisions_total{kind="verify",match="true"} 1',
        'hypersphere_decisions_total{kind="verify",match="false"} 1',
        'hypersphere_request_seconds_count{route="/v1/verify"} 2',
        'hypersphere_request_seconds_bucket{route="/v1/verify",le="+Inf"} 2',
        "hypersphere_gallery_templates 1",
        "hypersphere_gallery_up 1",
        "hypersphere_queue_requests 0",
        "hypersphere_workers_busy 0",
    ):
        assert line in text.splitlines()
    assert "Ada" not in text


def test_a_fault_says_nothing_of_the_request(service: Service, recognizer: Recognizer, monkeypatch: Any) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("secret of Ada")

    client = service()
    monkeypatch.setattr(recognizer, "portrait", broken)
    answer = verify(client, painted(0), painted(0))
    assert answer.status_code == 500
    assert "Ada" not in answer.text
