"""Items: values judged by the catalogue, results written and read, pages that show what was and was not run."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from hypersphere.plots import Line, Panel, draw_panels
from hypersphere_papers.engine.item_details import how_sure, item_details
from hypersphere_papers.engine.item_section import WORDS, findings_csv, item_section
from hypersphere_papers.engine.outcome import checked, number
from hypersphere_papers.engine.pages import make_pages
from hypersphere_papers.engine.result_file import shipped_results, write_result
from hypersphere_papers.engine.verdict import Verdict
from hypersphere_papers.laboratory import (
    Entry,
    Finding,
    Job,
    Outcome,
    Result,
    find_item,
    item,
    load_catalogue,
    read_result,
    read_results,
    run_entry,
    write_pages,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "reproduction"
RESULTS = ROOT / "papers" / "records" / "results"
ENTRY = Entry(
    id="p/fig1",
    title="t",
    kind="theory",
    values={"a": 2.5, "b": 100.0},
    tolerance=0.1,
    tolerances={"b": 1.0},
    reasons={"b": "printed wrongly"},
)


def test_a_value_is_judged_by_its_tolerance() -> None:
    job = Job(entry=ENTRY)
    assert job.value("a", 2.54) == Finding(what="a", ours="2.54", paper="2.5", tolerance=0.1, verdict="held")
    assert job.value("a", 2.7).verdict == "contradicted"
    assert job.value("b", 100.9).note == ""
    off = job.value("b", 102.0, note="seed 0")
    assert (off.verdict, off.note) == ("contradicted", "printed wrongly; seed 0")
    with pytest.raises(ValueError, match="has no value 'c'"):
        job.value("c", 1.0)


def test_a_statement_is_true_or_not_and_a_number_is_neither() -> None:
    found = [checked("x", "1", held=True), checked("y", "2", held=False), number("z", "3", "4", "why")]
    assert [finding.verdict for finding in found] == ["held", "contradicted", None]
    assert (found[2].paper, found[2].note) == ("4", "why")


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        (("held", None, "held"), "held"),
        (("held", "undecided"), "undecided"),
        (("undecided", "contradicted", "held"), "contradicted"),
        ((None, None), "drawn"),
        ((), "drawn"),
    ],
)
def test_the_verdict_on_an_item_is_that_on_all_of_it(
    verdicts: tuple[Verdict | None, ...], whole: str, tmp_path: Path
) -> None:
    outcome = Outcome(findings=[Finding(what="w", ours="o", verdict=verdict) for verdict in verdicts])
    result = write_result(tmp_path, "p/fig1", outcome, command="c", seconds=1.0, seeds=(0,))
    assert result.state == whole


def result_of(findings: tuple[Finding, ...]) -> Result:
    return Result(
        id="p/fig1",
        command="c",
        date="2026-11-16",
        seconds=1.0,
        machine="m",
        versions={"python": "3"},
        seeds=(0, 1),
        findings=findings,
    )


LOST = Finding(
    what="no run", ours="not measured", verdict="undecided", note="0 of 3 seeds are on record", measured=False
)
BEST = Finding(
    what="the best is inside", ours="m = 2, 86.1; over m = 1 not measured", verdict="undecided", measured=False
)
HELD = Finding(what="a is better", ours="+1.00", verdict="held", detectable=0.25)
UNFIT = Finding(what="b is better", ours="+2", verdict="undecided", alone="held", detectable=2.0, note="did not fit")
ROW = Finding(what="a: accuracy", ours="85.0", paper="LFW 99", row="a")
NONE = Finding(what="r", ours="not measured", measured=False)
AGREES = replace(HELD, proxy=True)


@pytest.mark.parametrize(
    ("findings", "extent", "state", "summary"),
    [
        ((), "run", "drawn", "drawn"),
        ((ROW,), "run", "drawn", "drawn"),
        ((HELD, ROW, NONE), "run", "held", "1 held"),
        ((AGREES, ROW), "run", "proxy", "1 agrees"),
        ((HELD, replace(UNFIT, proxy=True)), "run", "held", "1 held, 1 cannot tell"),
        ((LOST, HELD), "partly run", "undecided", "1 held, 1 not measured"),
        ((ROW, LOST, BEST), "not run", "not run", "2 not measured"),
        ((NONE,), "not run", "not run", "drawn"),
    ],
)
def test_an_item_is_run_as_far_as_its_sentences_are_measured(
    findings: tuple[Finding, ...], extent: str, state: str, summary: str
) -> None:
    result = result_of(findings)
    assert (result.extent, result.state, result.summary()) == (extent, state, summary)


def test_a_section_begins_with_its_conclusion_and_folds_what_is_not_judged() -> None:
    entry = Entry(id="p/table1", title="t", kind="real", needs="MNIST", claim="A beats B.")
    text = "\n".join(item_details(entry, result_of((ROW, LOST, HELD, UNFIT, replace(NONE, what="c")))))
    assert text.startswith(
        """- **Found**: 1 held, 1 undecided, 1 not measured (partly run).
- **How sure**: 2 by a 95 % interval (± 0.25 to 2, in the units of the rows); 1 of them left undecided for the \
reason beside them; seeds 0, 1.

|  | ours | verdict | ± 95 % | note |
| --- | --- | --- | --- | --- |
| a is better | +1.00 | held | 0.25 |  |
| b is better | +2 | undecided | 2 | did not fit; by the interval alone: held |

<details><summary>1 number behind them, not judged</summary>

|  | paper, its data | ours |
| --- | --- | --- |
| a: accuracy | LFW 99 | 85.0 |

</details>

<details><summary>Not on record: 1 sentence, 1 number</summary>

- 0 of 3 seeds are on record: no run.
- c.

</details>
"""
    )


def test_a_proxy_says_whether_it_agrees_and_how_many_rows_were_run() -> None:
    entry = Entry(
        id="p/table1",
        title="t",
        kind="real",
        needs="MNIST",
        claim="A beats B.",
        columns=("LFW",),
        rows={"a": (99.0,), "b": (98.0,)},
        stands_in="all",
        proxy="x for y",
        rates="unequal.",
    )
    result = result_of((ROW, AGREES, replace(HELD, proxy=True, verdict="contradicted")))
    assert (result.state, result.state_in_words, result.rows_run(entry)) == ("proxy", "proxy: disagrees", 1)
    lines = item_section(entry, result, "results")
    assert lines[2] == "**Rates**: unequal."
    assert lines[4] == "t (proxy: x for y) (MNIST)."
    assert lines[6] == "Claim: A beats B. **1 agrees, 1 disagrees**. 1 of 2 printed rows."
    assert "| a is better | +1.00 | agrees |" in lines
    assert "| a is better | +1.00 | **disagrees** |" in lines
    with pytest.raises(ValueError, match="the comparison is a proxy"):
        replace(entry, stands_in="part")
    with pytest.raises(ValueError, match="go together"):
        replace(entry, proxy="")


def test_an_item_that_was_not_measured_is_not_run() -> None:
    entry = Entry(id="p/fig1", title="t", kind="real", needs="MNIST", claim="c.")
    text = "\n".join(item_details(entry, result_of((LOST, BEST))))
    assert "- **Found**: 2 not measured (not run).\n\n<details>" in text
    assert "How sure" not in text


def test_theory_is_sure_by_tolerance_or_computation() -> None:
    findings = (Job(entry=ENTRY).value("a", 2.54), checked("x", "1", held=True))
    assert how_sure(ENTRY, result_of(findings)) == "1 by a stated tolerance, 1 by computation"


def test_an_id_is_registered_once() -> None:
    with pytest.raises(ValueError, match="'normface/fig5' is registered twice"):
        item("normface/fig5")(lambda job: Outcome())


def test_a_result_comes_back_as_it_was_written(tmp_path: Path) -> None:
    panel = Panel("t", "x", "y", [Line("l", [0, 1], [0, 1])])
    outcome = Outcome(
        findings=[
            Finding(what="a", ours="1", verdict="contradicted", note="why"),
            Finding(what="b", ours="2", verdict="held"),
            Finding(what="c", ours="3", verdict="undecided", detectable=0.25),
        ],
        figures={"fig1": lambda: draw_panels([panel]), "more": lambda: draw_panels([panel])},
        notes=["note"],
    )
    result = write_result(tmp_path, "p/fig1", outcome, command="c", seconds=1.23, seeds=(0, 1))
    assert read_results(tmp_path) == {"p/fig1": result}
    assert result.figures == ("p-fig1", "p-fig1-more")
    assert (result.summary(), result.differs) == ("1 held, 1 contradicted, 1 undecided", False)
    assert {path.name for path in (tmp_path / "images").iterdir()} == {
        f"p-fig1{more}.{ending}" for more in ("", "-more") for ending in ("png", "svg")
    }
    assert set(result.versions) == {"python", "torch", "numpy", "hypersphere"}


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text, message in (("{", ", line 1: not JSON"), ("[]", ": expected an object"), ('{"id": 3}', ": id=3 must be")):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"x.json{message}"):
            read_result(path)


def test_a_result_of_an_unknown_verdict_is_refused(tmp_path: Path) -> None:
    outcome = Outcome(findings=[Finding(what="a", ours="1", verdict="held")])
    write_result(tmp_path, "p/fig1", outcome, command="c", seconds=1.0, seeds=(0,))
    path = tmp_path / "results" / "p-fig1.json"
    path.write_text(path.read_text().replace('"held"', '"hold"'))
    with pytest.raises(ValueError, match=r"p-fig1.json: findings\[0\].verdict='hold' is unknown; did you mean 'held'"):
        read_result(path)


def test_what_cannot_run_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs CASIA-WebFace .*papers/recipes/normface-resnet28.toml"):
        run_entry(load_catalogue()["normface/table5"], tmp_path)


def test_pages_show_what_was_run_and_what_was_not(tmp_path: Path) -> None:
    catalogue = load_catalogue()
    run_entry(catalogue["sphereface2/fig6"], tmp_path)
    write_pages(tmp_path, catalogue)
    page = (tmp_path / "sphereface2.md").read_text()
    assert "| g(-0.2) at t = 3 | -0.9 | -0.872 | held |" in page
    assert "![Fig. 6](images/sphereface2-fig6.png)" in page
    assert "[table](results/sphereface2-fig6.csv)" in page
    assert (tmp_path / "results" / "sphereface2-fig6.csv").read_text().count("\n") == 3
    assert "ROC curves on IJB-B and IJB-C (proxy: 34,000 faces of 5,741 people, SFNet-10" in page
    assert "galleries of the IJB protocols (faces).\n\n**Not run.** It needs the protocol files of IJB-B" in page
    index = (tmp_path / "index.md").read_text()
    assert (
        "| [Fig. 6](sphereface2.md#fig-6) | theory | The similarity adjustment g for several t | 2 held |  |" in index
    )
    assert "| all | 1 | 0 | 0 | 0 | 0 | 97 | 0 | 401 |" in index
    assert "| all | 2 | 0 | 0 | 0 | 0 | 0 | 0 |" in index


def test_the_pages_of_the_docs_are_up_to_date() -> None:
    results = read_results(DOCS)
    for name, text in make_pages(load_catalogue(), results, "../../papers/records/results").items():
        assert text == (DOCS / f"{name}.md").read_text(), (
            f"{name}: hypersphere reproduce --pages --out docs/reproduction"
        )
        assert len(text.split()) <= 4000
    tables = {path.stem: path.read_text() for path in RESULTS.glob("*.csv")}
    assert tables == {name.replace("/", "-"): findings_csv(result) for name, result in results.items()}


def test_an_item_has_few_words_on_its_page_and_all_in_its_table() -> None:
    catalogue, results = load_catalogue(), read_results(DOCS)
    for name, result in results.items():
        lines = item_section(catalogue[name], result, "results")
        assert sum(len(line.split()) for line in lines) <= WORDS, name
        assert sum(line.startswith("![") for line in lines) == min(1, len(result.figures))
        assert len(list(csv.reader(io.StringIO(findings_csv(result))))) == 1 + len(result.findings)


def test_the_contradicted_comes_first_where_not_all_has_room() -> None:
    long = " ".join(["word"] * 30)
    findings = [
        Finding(what=f"{verdict} {number} {long}", ours="1", verdict=verdict)
        for number in range(2)
        for verdict in get_args(Verdict)
    ]
    text = "\n".join(item_section(ENTRY, result_of(tuple(findings)), "results"))
    rows = [line for line in text.splitlines() if line.startswith("| ") and "word" in line]
    assert [row.split()[1] for row in rows] == ["contradicted", "contradicted", "held"]
    assert "All 6 sentences: [table](results/p-fig1.csv)" in text


def test_the_docs_have_every_picture_and_no_other() -> None:
    named = {name for result in read_results(DOCS).values() for name in result.figures}
    assert {path.stem for path in (DOCS / "images").glob("*.png")} == named
    assert sum(path.stat().st_size for path in DOCS.rglob("*") if path.suffix != ".svg") < 6_000_000


@pytest.mark.parametrize("path", sorted((DOCS / "results").glob("*.json")), ids=lambda path: path.stem)
def test_a_result_of_the_docs_is_whole(path: Path) -> None:
    result = read_result(path)
    entry = load_catalogue()[result.id]
    assert path.stem == result.id.replace("/", "-")
    assert find_item(result.id) is not None
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", result.date)
    assert result.findings or result.figures
    if entry.kind == "theory":
        assert not result.differs
        assert set(entry.values) <= {finding.what for finding in result.findings}
    assert "/" not in json.loads(path.read_text())["machine"]


def test_the_results_of_the_docs_come_with_the_package() -> None:
    assert shipped_results() == read_results(DOCS)


def test_every_theory_item_has_a_result() -> None:
    run = read_results(DOCS)
    missing = [entry.id for entry in load_catalogue().select(kind="theory") if entry.id not in run]
    assert not missing
