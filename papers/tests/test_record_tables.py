"""What is made from the runs on record is made from them: tables beside the records, tables of docs/results."""

import csv
import io
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from hypersphere.training import RecordFile, RunRecord, SetScore
from hypersphere_papers.laboratory import load_catalogue, shipped_results
from tools import record_tables, rekey_records

MADE = record_tables.texts()


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_a_made_file_is_up_to_date(path: Path) -> None:
    assert path.read_text() == MADE[path], "run `python tools/record_tables.py`"


@pytest.mark.parametrize("path", sorted(record_tables.PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_a_page_of_results_is_short(path: Path) -> None:
    assert len(path.read_text().split()) <= 4000


def run(seed: int, accuracy: float, stopped: str = "") -> RunRecord:
    score = SetScore(accuracy, 0.0, 1.0, 0.1, {"0.01": 0.5}, "")
    scores = {} if stopped else {"lfw-pairs": score}
    return RunRecord("a", seed, f"key {seed}", stopped=stopped, scores=scores, numbers={} if stopped else {"mAP": 2.0})


def test_a_row_has_means_and_deviations_of_the_seeds_that_ended() -> None:
    runs = [run(0, 0.8), run(1, 0.9), run(2, 0.0, "the loss is nan")]
    (row,) = csv.DictReader(io.StringIO(record_tables.settings_csv({"a": runs})))
    assert (row["setting"], row["runs"], row["stopped"], row["mAP"]) == ("a", "3", "1", "2")
    assert (row["lfw-pairs, %"], row["lfw-pairs: EER, %"]) == ("85", "10")
    text = record_tables.settings_csv({"a": runs[:2]}).splitlines()[1]
    assert ",85,7.1," in text
    assert record_tables.counts([{"a": runs}, {"b": runs[:1]}]) == "4 runs are on record, 1 of which stopped."


def test_a_table_of_faces() -> None:
    runs = [
        replace(each, scores={**each.scores, "held-out identities": each.scores["lfw-pairs"]})
        for each in (run(0, 0.8), run(1, 0.9))
    ]
    runs = [replace(each, train_accuracy=0.99) for each in runs] + [run(2, 0.0, "collapsed")]
    text = record_tables.face_table({"softmax, optimizer.lr=0.1": runs}, {"softmax, optimizer.lr=0.1": "softmax"})
    assert text.splitlines()[2] == "| softmax | 0.1 | 85.00 ± 7.07 | 85.00 ± 7.07 | 99.0 | 2 of 3 |"


def test_a_page_without_its_place_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- one -->\n<!-- end of one -->\n")
    assert record_tables.with_parts(page, {"one": "text"}) == "<!-- one -->\n\ntext\n\n<!-- end of one -->\n"
    with pytest.raises(ValueError, match="page.md: expected one part between <!-- two --> and <!-- end of two -->"):
        record_tables.with_parts(page, {"two": "text"})


def test_every_run_on_record_has_a_key_of_its_settings_but_for_few() -> None:
    """The map of keys of version 1 knows all runs of then whose settings are known."""
    keys = set(rekey_records.read_keys().values())
    old = []
    for path in sorted(record_tables.RECORDS.glob("*/*.jsonl")):
        old += [key for key in RecordFile(path).records if "-" not in key]
    assert len(old) == 29
    assert not keys.intersection(old)
    assert len(keys) == 1157


def test_a_line_gets_the_key_of_version_2_and_keeps_all_else(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    RecordFile(path).add(replace(run(0, 0.9), recipe="old"))
    (line,) = path.read_text().splitlines()
    keys = {("results.jsonl", "old"): "2-new"}
    path.write_text(rekey_records.rekeyed(line, "results.jsonl", keys) + "\n")
    (found,) = RecordFile(path).records.values()
    assert found == replace(run(0, 0.9), recipe="2-new")
    assert rekey_records.rekeyed(line, "searches.jsonl", keys) == line


def test_no_withdrawn_run_is_judged() -> None:
    """A run that is trained again has the key of the withdrawn one, but took another time."""
    folder = record_tables.RECORDS / "losses"
    with (folder / "withdrawn.csv").open(newline="") as file:
        withdrawn = [(row["recipe"], float(row["seconds"])) for row in csv.DictReader(file)]
    assert len(withdrawn) == 27
    for path in folder.glob("*.jsonl"):
        runs = RecordFile(path).records.values()
        assert not {(run.recipe, round(run.seconds, 2)) for run in runs}.intersection(withdrawn), path


def test_fits_of_items_on_faces_are_those_of_the_runs_on_record() -> None:
    """Mean ||x|| and the lowest train accuracy, of every row of every item."""
    groups = defaultdict(list)
    for path in sorted((record_tables.RECORDS / "losses").glob("*.jsonl")):
        for name, runs in record_tables.settings_of(path).items():
            groups[path, name] = [each for each in runs if not each.stopped]
    known = {
        (
            round(fmean(each.norm or 0 for each in runs), 4),
            round(100 * min(each.train_accuracy or 0 for each in runs), 4),
            len(runs),
        )
        for runs in groups.values()
        if runs
    }
    faces = [entry.id for entry in load_catalogue().select(kind="real") if entry.data == "faces"]
    results = shipped_results()
    fits = [fit for name in faces if name in results for fit in results[name].fits if fit.norm is not None]
    assert len(fits) > 100
    for fit in fits:
        assert (fit.norm, fit.lowest_train_accuracy, fit.seeds - len(fit.stopped)) in known, fit
