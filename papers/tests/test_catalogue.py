"""The catalogue: complete, consistent, and true to what can run."""

import math
import re
from pathlib import Path

import pytest

from hypersphere_papers.laboratory import KINDS, Entry, find_item, item_ids, load_catalogue, missing

ROOT = Path(__file__).parents[2]
CATALOGUE = load_catalogue()
COUNTS = {  # figures, tables
    "sphereface": (12, 7),
    "normface": (9, 5),
    "sphereface2": (10, 16),
    "largest-margins": (16, 9),
    "ampface": (13, 1),
}


@pytest.mark.parametrize("paper", COUNTS)
def test_every_figure_and_table_is_there_in_order(paper: str) -> None:
    figures, tables = COUNTS[paper]
    first = [5, *range(7, 19)] if paper == "ampface" else range(1, figures + 1)
    second = [3] if paper == "ampface" else range(1, tables + 1)
    wanted = [*(f"{paper}/fig{n}" for n in first), *(f"{paper}/table{n}" for n in second)]
    assert len(wanted) == figures + tables
    assert [entry.id for entry in CATALOGUE.select(paper=paper)] == wanted


def test_there_are_98() -> None:
    assert len(CATALOGUE.entries) == 98
    assert set(CATALOGUE.papers) == set(COUNTS)
    assert sum(len(CATALOGUE.select(kind=kind)) for kind in KINDS) == 98


@pytest.mark.parametrize("entry", CATALOGUE.entries.values(), ids=lambda entry: entry.id)
def test_an_entry_is_usable(entry: Entry) -> None:
    assert entry.title
    assert not entry.title.endswith(".")
    if entry.recipe:
        assert (ROOT / "papers" / "recipes" / f"{entry.recipe}.toml").is_file()
    if "papers/records/" in entry.needs:
        assert entry.claim.endswith(".")
    if entry.kind == "real" and find_item(entry.id) is None:
        assert missing(entry, None).startswith("needs ")
    if entry.values and find_item(entry.id) is not None and entry.kind == "theory":
        assert entry.tolerance is not None or set(entry.values) == set(entry.reasons)
    for name in re.findall(r"`papers/recipes/([\w-]+)`", entry.note):
        assert (ROOT / "papers" / "recipes" / f"{name}.toml").is_file()


def test_only_entries_of_the_catalogue_run_and_all_theory_does() -> None:
    assert set(item_ids()) <= set(CATALOGUE.entries)
    for entry in CATALOGUE.select(kind="theory"):
        assert find_item(entry.id) is not None, entry.id


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("sphereface/table4", "SphereFace, LFW", 99.42),
        ("sphereface2/table2", "PN, EH, AM, Combined", 93.87),
        ("sphereface2/table12", "ArcFace w/ SA, IJB-C FPIR 1e-1", 87.55),
        ("largest-margins/table5", "NormFace (s = 64) + 0.5 R_sm, MNIST acc", 99.34),
        ("largest-margins/table6", "LM-Softmax (lambda = 0), CIFAR-10 step 100 m_cls", 0.45),
        ("ampface/table3", "SphereFace m1 = 1.8, MF Id", 79.26),
        ("normface/fig5", "bound at n = 10,575, s = 1", 8.27),
    ],
)
def test_numbers_of_the_papers(name: str, value: str, number: float) -> None:
    assert CATALOGUE[name].printed(value) == number


def test_what_a_paper_does_not_print_is_nan() -> None:
    assert math.isnan(CATALOGUE["largest-margins/table5"].printed("ArcFace (s = 64), CIFAR-10 acc"))


def test_numbers_and_commands_are_spelled_out() -> None:
    assert CATALOGUE["normface/fig5"].number == "Fig. 5"
    assert CATALOGUE["sphereface2/table13"].number == "Table 13"
    assert CATALOGUE["normface/fig5"].command == "hypersphere reproduce normface/fig5"
    assert CATALOGUE["normface/fig2"].command == "hypersphere reproduce normface/fig2 --data PATH"


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown item 'normface/figure5'; did you mean 'normface/fig5'\?"):
        CATALOGUE["normface/figure5"]
    with pytest.raises(ValueError, match="kind='theorie' is unknown; did you mean 'theory'"):
        CATALOGUE.select(kind="theorie")
    with pytest.raises(ValueError, match="sphereface/table4 has no value 'SphereFace, LWF'"):
        CATALOGUE["sphereface/table4"].printed("SphereFace, LWF")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "exact"}, "kind='exact' is unknown"),
        ({"columns": ("a", "b"), "rows": {"x": (1.0,)}}, "row 'x' has 1 numbers for 2 columns"),
        ({"columns": ("a, b",)}, "must not contain"),
        ({"reasons": {"y": "why"}}, "'y' is no value"),
        ({"kind": "real"}, "must say which data"),
    ],
)
def test_a_wrong_entry_is_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Entry(**{"id": "p/fig1", "title": "t", "kind": "theory", **wrong})  # type: ignore[arg-type]


def test_a_paper_is_no_item_but_has_some() -> None:
    with pytest.raises(ValueError, match="'normface' is a paper; name one or several of its items: normface/"):
        CATALOGUE["normface"]
