"""Attacks that turn answers into a template: each worked against a service that told scores without a match."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from fastapi.testclient import TestClient

import hypersphere as hs
from hypersphere.data import encode
from hypersphere.recognition import Recognizer
from hypersphere.service import KeyFile
from tests.service.conftest import Service
from tests.service.photos import noise, painted
from tests.service.served import service as served_service
from tests.service.test_api import enroll, identify, verify
from tests.service.test_server import ask, form

STRICT = "1e-3"
"""Painted faces and noise are alike to a model of photos; this sets a threshold between them."""
Unit = npt.NDArray[np.float32]
Asked = Callable[[bytes], dict[str, Any] | None]
"""Send a photo to /v1/identify; None where it is refused."""


def score_of(answer: dict[str, Any]) -> float | None:
    """The best score that an answer has anywhere."""
    decision = answer["decision"]
    scores = [decision["best_score"], *(each["score"] for each in decision["candidates"])]
    return max((score for score in scores if score is not None), default=None)


def recovered(ask_for: Asked, photos: Sequence[bytes], units: Sequence[Unit]) -> Unit | None:
    """The template by least squares of scores of ordinary photos; None where too few scores are told."""
    rows, scores = [], []
    for photo, unit in zip(photos, units, strict=True):
        answer = ask_for(photo)
        if answer is not None and (score := score_of(answer)) is not None:
            rows.append(unit)
            scores.append(score + 0.005)
    if len(rows) < 20:
        return None
    template: Unit = np.linalg.lstsq(np.stack(rows), np.array(scores), rcond=1e-3)[0]
    return template / np.linalg.norm(template)


def climbed(ask_for: Asked, start: npt.NDArray[np.uint8], steps: int) -> tuple[bool, int]:
    """Change a photo at random and keep what scores higher: whether it was identified, and after how many questions."""
    rng, photo, best = np.random.default_rng(0), start.astype(np.float64), -1.0
    for step in range(1, steps + 1):
        changed = photo + rng.normal(0, 25, (14, 14, 3)).repeat(photo.shape[0] // 14, 0).repeat(photo.shape[1] // 14, 1)
        answer = ask_for(encode(changed.clip(0, 255).astype(np.uint8)))
        if answer is None:
            return False, step
        if answer["match"]:
            return True, step
        score = score_of(answer)
        if score is not None and score > best:
            photo, best = changed, score
    return False, steps


def crops(count: int) -> list[bytes]:
    """Ordinary photos for the fake detector: painted faces under changing light."""
    rng, found = np.random.default_rng(1), []
    faces = hs.pocket.PocketFaces(num_identities=count, images_per_identity=1, size=112)
    for number in range(count):
        found.append(encode((faces.read(number) * rng.uniform(0.6, 1.0)).astype(np.uint8)))
    return found


def asker(client: TestClient) -> Asked:
    def ask_for(photo: bytes) -> dict[str, Any] | None:
        answer = identify(client, photo)
        return answer.json() if answer.status_code == 200 else None

    return ask_for


@pytest.mark.parametrize(("scores", "worked"), [(True, True), (False, False)])
def test_scores_of_ordinary_photos_give_no_template(
    service: Service, recognizer: Recognizer, scores: bool, worked: bool
) -> None:
    """With the right to see scores the attack works, so that it would be seen if it worked without."""
    client = service(scores=scores, non_matches=0)
    enroll(client, "Ada", painted(2))
    victim, photos = recognizer.embed(painted(2)), crops(60)
    found = recovered(asker(client), photos, [recognizer.embed(photo) for photo in photos])
    assert (found is not None and float(found @ victim) > 0.6) == worked


def test_no_answer_without_a_match_has_a_number_of_the_score(client: TestClient) -> None:
    enroll(client, "Ada", painted(2))
    said = identify(client, noise()).json()
    assert score_of(said) is None
    assert "score" not in said["sentence"]
    decision = verify(client, painted(2), noise()).json()
    assert [decision["decision"][name] for name in ("score", "llr", "fmr_at_score")] == [None] * 3
    assert "score" not in decision["sentence"]
    assert "LLR" not in decision["sentence"]
    match = identify(client, painted(2), fpir="0.1").json()
    assert match["match"]
    assert match["verdict"] == "Probably Ada"
    assert score_of(match) is None, "changed photos that still match would lead to the template"
    assert verify(client, painted(2), painted(2)).json()["decision"]["score"] is not None


def test_two_people_are_not_enrolled_as_one(client: TestClient) -> None:
    answer = enroll(client, "Ada", painted(2), noise(1))
    assert (answer.status_code, answer.json()["error"]) == (422, "different_people")
    assert client.get("/v1/gallery").json()["size"] == 0
    assert enroll(client, "Ada", painted(2), painted(2, 1), painted(2)).status_code == 201


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_attacks_on_a_service_that_listens(tmp_path: Path) -> None:
    """With a key that may identify: no template, no victim's match by climbing, and an end of the questions."""
    keys = KeyFile(tmp_path / "keys.json")
    admin, door = keys.add("admin", ["administer"]), keys.add("door", ["identify"], non_matches=100)
    recognizer, words = Recognizer(detector=None), ["--keys", "keys.json", "--rate", "0", "--detector", ""]
    victim = painted(3)
    with served_service(tmp_path, *words, "--workers", "2") as served:

        def asked(token: str, path: str, *words: Any) -> tuple[int, dict[str, Any]]:
            body, headers = form(**words[0]) if words else (b"", {})
            headers = {**headers, "Authorization": f"Bearer {token}"}
            status, text = ask(served.port, "POST" if words else "GET", path, body, headers)
            return status, json.loads(text)

        assert asked(admin, "/v1/enroll", {"photos": victim, "name": "Ada", "consent": "door"})[0] == 201

        def ask_for(photo: bytes) -> dict[str, Any] | None:
            status, answer = asked(door, "/v1/identify", {"photo": photo, "fpir": STRICT})
            return answer if status == 200 else None

        photos = [noise(seed) for seed in range(40)]
        assert recovered(ask_for, photos, [recognizer.embed(photo) for photo in photos]) is None
        assert climbed(ask_for, np.full((112, 112, 3), 128, np.uint8), 40)[0] is False
        status, refusal = asked(door, "/v1/projection")
        assert (status, refusal["error"]) == (403, "role")
        used = 80
        while (told := ask_for(noise(41))) is not None:
            assert not told["match"]
            used += 1
        assert used == 100
        assert asked(door, "/v1/identify", {"photo": victim})[0] == 429
    with served_service(tmp_path, *words, "--workers", "1") as served:
        status, refusal = asked(door, "/v1/identify", {"photo": victim})
        assert (status, refusal["error"]) == (429, "non_matches"), "a restart gives nothing back"
