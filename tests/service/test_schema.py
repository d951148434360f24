"""Schemathesis asks every endpoint by the schema, rightly and wrongly: no fault, and no answer the schema lacks."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

import hypersphere as hs
from hypersphere.recognition import Recognizer
from hypersphere.service import ServiceSettings, create_app
from tests.service.photos import ByWidth

schemathesis = pytest.importorskip("schemathesis", reason="needs the package schemathesis")

OPERATIONS = [
    ("POST", "/v1/verify"),
    ("POST", "/v1/enroll"),
    ("POST", "/v1/identify"),
    ("GET", "/v1/subjects"),
    ("DELETE", "/v1/subjects/{name}"),
    ("GET", "/v1/gallery"),
    ("GET", "/v1/projection"),
    ("GET", "/v1/report"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    address = str(tmp_path_factory.mktemp("gallery") / "people.db")
    with Recognizer(hs.load_model("starter"), detector=ByWidth(), calibration="albums", gallery=address) as recognizer:
        app = create_app(recognizer, ServiceSettings(rate=0, non_matches=0))
        schema = schemathesis.openapi.from_dict(app.openapi())
        schema.app = app
        yield schema


def has_input(operation: Any) -> bool:
    """Whether there is anything to ask wrongly."""
    return bool(operation.definition.raw.get("parameters") or operation.definition.raw.get("requestBody"))


def ask(schema: Any, method: str, path: str, examples: int) -> None:
    """Send drawn requests. A photo is bytes to the schema, so valid by it and refused: that check is left out."""
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    operation = schema[path][method]
    wrong = schemathesis.GenerationMode.NEGATIVE

    @seed(0)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy() | operation.as_strategy(wrong) if has_input(operation) else operation.as_strategy()
    )
    def asked(case: Any) -> None:
        case.call_and_validate(base_url="http://127.0.0.1:8000", excluded_checks=[positive_data_acceptance])

    asked()


def test_the_schema_has_every_endpoint(schema: Any) -> None:
    there = {(method.upper(), path) for path, item in schema.raw_schema["paths"].items() for method in item}
    assert there == set(OPERATIONS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_a_few_requests_of_each_kind(schema: Any, method: str, path: str) -> None:
    ask(schema, method, path, 10)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_a_thousand_requests_of_each_kind(schema: Any, method: str, path: str) -> None:
    ask(schema, method, path, 1000)


def test_no_embedding_comes_in_or_goes_out(schema: Any) -> None:
    parts = schema.raw_schema["components"]["schemas"].values()
    names = {name for part in parts for name in part.get("properties", {})}
    assert {"score", "landmarks"} <= names
    assert not [name for name in names if re.search("embed|vector|unit|feature", name)]
