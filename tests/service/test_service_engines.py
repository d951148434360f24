"""The service over the engines of servers: the same answers, and 503 where the engine is down, overloaded or slow."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import hypersphere as hs
from hypersphere.data import encode
from hypersphere.recognition import Recognizer
from tests.recognition.drawn import drawn_photo
from tests.recognition.gallery.servers import Server
from tests.service.conftest import Service
from tests.service.photos import ByWidth, noise, painted
from tests.service.test_api import enroll, identify, verify
from tests.service.test_server import ask, form
from tests.service.test_server import served as command

_NUMBERS = count()


@pytest.fixture(params=["postgres", "milvus"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def served(service: Service, server: Server, starter: hs.Embedder) -> Iterator[Callable[..., TestClient]]:
    """Make clients of services that have one gallery of the server, each with a recognizer of its own."""
    address, made = server.address_of(f"service{next(_NUMBERS)}"), []

    def make(**settings: Any) -> TestClient:
        made.append(Recognizer(starter, detector=ByWidth(), calibration="albums", gallery=address))
        assert made[-1].gallery.info().size == 0
        return service(recognizer=made[-1], **{"gallery_seconds": 30, **settings})

    yield make
    for recognizer in made:
        recognizer.close()


def unavailable(answers: dict[str, Any]) -> None:
    """Every answer says that the gallery does not answer."""
    told = {name: (answer.status_code, answer.json()["error"]) for name, answer in answers.items()}
    assert set(told.values()) == {(503, "gallery_unavailable")}, told
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers.values())


def questions(client: TestClient) -> dict[str, Any]:
    """One request of each kind that needs the gallery."""
    return {
        "identify": identify(client, painted(2)),
        "enroll": enroll(client, "Bob", painted(3)),
        "forget": client.delete("/v1/subjects/Ada"),
        "subjects": client.get("/v1/subjects"),
        "gallery": client.get("/v1/gallery"),
        "projection": client.get("/v1/projection"),
        "readyz": client.get("/readyz"),
    }


def test_enrol_identify_forget(served: Callable[..., TestClient]) -> None:
    one, two = served(), served()
    for _ in range(2):
        made = enroll(one, "Ada", painted(2), painted(2, 1), key="ada-1")
        assert (made.status_code, made.json()["template"]) == (201, "ada-1")
    assert enroll(two, "Bob", noise(1), key="ada-1").json()["error"] == "duplicate"
    found = identify(two, painted(2), fpir="0.1").json()
    assert [each["subject"] for each in found["decision"]["candidates"]] == ["Ada"]
    assert found["decision"]["gallery_size"] == 1
    nobody = identify(two, noise()).json()
    assert nobody["sentence"].startswith("Nobody in the gallery. At this setting about one stranger in")
    assert two.get("/v1/gallery").json()["size"] == 1
    assert two.delete("/v1/subjects/Ada").json() == {"subject": "Ada", "removed": 1}
    assert one.delete("/v1/subjects/Ada").status_code == 404
    assert identify(one, painted(2)).json()["decision"]["gallery_size"] == 0
    assert one.get("/v1/projection").json()["points"] == []


def test_an_engine_that_is_down_is_503_and_comes_back(served: Callable[..., TestClient], server: Server) -> None:
    client = served()
    assert enroll(client, "Ada", painted(2)).status_code == 201
    server.kill()
    try:
        unavailable(questions(client))
        assert "hypersphere_gallery_up 0" in client.get("/metrics").text
        assert verify(client, painted(0), painted(0)).status_code == 200
    finally:
        server.start()
    found = identify(client, painted(2), fpir="0.1").json()
    assert found["decision"]["candidates"][0]["subject"] == "Ada"
    assert client.get("/v1/subjects").json()["subjects"] == ["Ada"]
    assert client.get("/readyz").status_code == 200


def test_an_engine_that_hangs_is_503(served: Callable[..., TestClient], server: Server) -> None:
    patient, hasty = served(), served(gallery_seconds=0.2)
    enroll(patient, "Ada", painted(2))
    with server.frozen():
        unavailable({"identify": identify(hasty, painted(2)), "gallery": hasty.get("/v1/gallery")})
    found = identify(patient, painted(2), fpir="0.1").json()
    assert found["decision"]["candidates"][0]["subject"] == "Ada"


@pytest.mark.slow
def test_the_command_with_two_processes_on_a_server(server: Server, tmp_path: Path) -> None:
    photo = encode(drawn_photo())
    with command(tmp_path, "--gallery", server.address_of("command"), "--workers", "2") as port:
        assert ask(port, "POST", "/v1/enroll", *form(name="Ada", consent="door", photos=photo))[0] == 201
        for _ in range(6):
            status, text = ask(port, "POST", "/v1/identify", *form(photo=photo, fpir="0.1"))
            assert (status, json.loads(text)["decision"]["candidates"][0]["subject"]) == (200, "Ada")
        server.kill()
        try:
            assert [ask(port, "POST", "/v1/identify", *form(photo=photo))[0] for _ in range(4)] == [503] * 4
        finally:
            server.start()
        assert {ask(port, "POST", "/v1/identify", *form(photo=photo))[0] for _ in range(4)} == {200}
        assert json.loads(ask(port, "DELETE", "/v1/subjects/Ada")[1]) == {"subject": "Ada", "removed": 1}
        assert {ask(port, "GET", "/v1/subjects")[1] for _ in range(4)} == {'{"subjects":[],"more":false}'}
