"""Keys with roles: what each may ask, how long and how much, and what of it is on record."""

import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from hypersphere.cli import main
from hypersphere.recognition import Recognizer
from hypersphere.service import KeyFile
from hypersphere.service.service_state import ServiceState
from tests.service.conftest import Service
from tests.service.photos import noise, painted
from tests.service.test_api import enroll, identify, verify
from tests.service.test_guard import Clock

ASKED: dict[str, tuple[str, ...]] = {
    "verify": ("verify", "administer"),
    "identify": ("identify", "administer"),
    "enroll": ("enroll", "administer"),
    "gallery": ("identify", "enroll", "administer"),
    "report": ("verify", "identify", "enroll", "administer"),
    "subjects": ("administer",),
    "forget": ("administer",),
    "projection": ("administer",),
    "metrics": ("administer",),
}


def asked(client: TestClient) -> dict[str, Any]:
    return {
        "verify": verify(client, painted(0), painted(0)),
        "identify": identify(client, painted(0)),
        "enroll": enroll(client, "Bob", painted(1)),
        "gallery": client.get("/v1/gallery"),
        "report": client.get("/v1/report"),
        "subjects": client.get("/v1/subjects"),
        "forget": client.delete("/v1/subjects/Bob"),
        "projection": client.get("/v1/projection"),
        "metrics": client.get("/metrics"),
    }


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def use(client: TestClient, token: str) -> TestClient:
    client.headers["Authorization"] = f"Bearer {token}"
    return client


@pytest.mark.parametrize("role", ["verify", "identify", "enroll", "administer"])
def test_a_role_may_ask_its_own(service: Service, keys: KeyFile, role: str) -> None:
    client = client_of(service, keys, role)
    for name, answer in asked(client).items():
        if role in ASKED[name]:
            assert answer.status_code in (200, 201, 404), (name, answer.text)
        else:
            assert (answer.status_code, answer.json()["error"]) == (403, "role"), name


def client_of(service: Service, keys: KeyFile, *roles: str, **limits: Any) -> TestClient:
    """A client with a key of these roles."""
    token = keys.add("door", roles, **limits)
    return use(service(keys=str(keys.path)), token)


def test_keys_are_taken_renewed_and_removed_while_it_runs(
    service: Service, keys: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypersphere.service.keys._LOOK_AGAIN", 0)
    client = client_of(service, keys, "verify")
    old = client.headers["Authorization"].partition(" ")[2]
    new = keys.rotate("door", 3600)
    assert [use(client, token).get("/v1/report").status_code for token in (old, new)] == [200, 200]
    newest = keys.rotate("door", 0)
    answers = [use(client, token).get("/v1/report").status_code for token in (old, new, newest)]
    assert answers == [403, 403, 200]
    keys.path.write_text("{")
    assert client.get("/v1/report").status_code == 200, "a damaged file changes nothing"
    keys.path.write_text('{"keys": []}')
    assert client.get("/v1/report").status_code == 403


def test_a_key_expires(service: Service, keys: KeyFile) -> None:
    assert client_of(service, keys, "verify", expires=time.time() - 1).get("/v1/report").status_code == 403


def test_quota_and_rate_are_a_keys_own(service: Service, keys: KeyFile) -> None:
    """Who has no token takes nothing of them, and neither does another key at the same address."""
    clock = Clock()
    door, hall = keys.add("door", ["verify"], quota=3), keys.add("hall", ["verify"], rate=100.0)
    client = service(keys=str(keys.path), state=ServiceState(clock=clock), rate=2, burst=4)
    assert {use(client, "wrong").get("/v1/report").status_code for _ in range(20)} == {403}
    assert [use(client, door).get("/v1/report").status_code for _ in range(5)] == [200] * 3 + [429] * 2
    assert client.get("/v1/report").json()["error"] == "rate"
    clock.now += 10
    assert client.get("/v1/report").json()["error"] == "quota"
    assert {use(client, hall).get("/v1/report").status_code for _ in range(50)} == {200}
    clock.now += 8 * 3600
    assert use(client, door).get("/v1/report").status_code == 200


def test_the_trail_says_who_searched(service: Service, keys: KeyFile, recognizer: Recognizer) -> None:
    recognizer.enroll("Ada", painted(2), consent="door")
    token = keys.add("door", ["identify"])
    client = use(service(keys=str(keys.path)), token)
    identify(client, painted(2), fpir="0.1")
    identify(client, noise())
    said: list[tuple[str, str]] = []
    end = time.monotonic() + 60
    while len(said) < 2:
        assert time.monotonic() < end
        time.sleep(0.1)
        said = [(entry.subject, entry.detail) for entry in recognizer.gallery.audit() if entry.action == "search"]
    assert said == [("Ada", "match, by door"), ("", "no match, by door")]


def test_keys_that_are_refused(keys: KeyFile) -> None:
    keys.add("door", ["verify"])
    for name, roles, words in (
        ("door", ["verify"], "has a key 'door' already"),
        ("", ["verify"], "must have 1 to 100 printable characters"),
        ("hall", [], "roles of the key 'hall' are missing"),
        ("hall", ["open"], "'open'"),
    ):
        with pytest.raises(ValueError, match=words):
            keys.add(name, roles)
    with pytest.raises(ValueError, match="has no key 'hall'"):
        keys.remove("hall")
    keys.path.write_text("[]")
    with pytest.raises(ValueError, match="not a file of keys"):
        keys.keys()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "keys.json")
    limits = ["--days", "30", "--rate", "5", "--quota", "1000", "--non-matches", "50"]
    assert main(["keys", "add", file, "door", "--role", "identify", "--role", "verify", *limits, "-q"]) == 0
    first = capsys.readouterr().out.strip()
    (key,) = KeyFile(file).keys()
    assert (key.roles, key.rate, key.quota, key.non_matches) == (("identify", "verify"), 5.0, 1000, 50)
    assert key.expires is not None
    assert 29 < (key.expires - time.time()) / 86400 < 31
    assert main(["keys", "rotate", file, "door", "--grace", "1", "-q"]) == 0
    assert len(first) > 40
    assert capsys.readouterr().out.strip() != first
    assert main(["keys", "list", file]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith("door: identify, verify, 1,000 requests a day, until ")
    assert first not in Path(file).read_text()
    assert main(["keys", "remove", file, "door"]) == 0
    assert KeyFile(file).keys() == ()
