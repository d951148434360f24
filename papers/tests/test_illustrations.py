"""Illustrations: every one is drawn, and what is computed in them holds."""

import pytest

from hypersphere_papers.laboratory import Entry, Job, find_item, load_catalogue

ENTRIES = load_catalogue().select(kind="illustration")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_an_illustration_is_drawn(entry: Entry) -> None:
    run = find_item(entry.id)
    assert run is not None
    outcome = run(Job(entry=entry))
    assert list(outcome.figures) == [entry.id.split("/")[1]]
    assert all(draw().axes for draw in outcome.figures.values())
    assert all(finding.verdict != "contradicted" for finding in outcome.findings)


def test_an_agent_that_sees_no_margin_is_a_mean_and_one_that_does_is_pushed() -> None:
    findings = _findings("normface/fig6")
    assert [finding.verdict for finding in findings] == ["held", "held"]


def test_the_gradient_of_a_normalised_vector_is_tangent() -> None:
    value = _findings("normface/fig4")[0]
    assert value.verdict == "held"
    assert abs(float(value.ours)) < 1e-12


def _findings(name: str) -> list:  # type: ignore[type-arg]
    run = find_item(name)
    assert run is not None
    return list(run(Job(entry=load_catalogue()[name])).findings)
