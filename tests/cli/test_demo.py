"""The demo, small: its table and report, and that finished and interrupted runs are taken up."""

import argparse
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.cli import demo, main
from hypersphere.cli.demo import run_demo
from hypersphere.core import Progress, load_toml
from hypersphere.evaluation import Estimate, pair_metrics, verify_pairs
from hypersphere.training import DemoExtent, DemoOutcome, Trainer, demo_row, load_recipe
from hypersphere.training.demo import train_timed
from hypersphere.training.demo_report import FARS, LOSSES, RECIPE, _verdict, page_row
from hypersphere.version import __version__
from tests.plots.reader import Reader

SMALL = DemoExtent(steps=2, people=12, pairs=600)


def test_the_demo_and_the_demo_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "new"
    monkeypatch.setattr(hs.training, "DemoExtent", lambda: SMALL)
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    assert main(["demo", "--out", str(out), "--seed", "3"]) == 0
    first = capsys.readouterr().out
    rows = re.findall(r"^(\w+) +([\d.]+) % \[([\d.]+), ([\d.]+)\].* (\d+)$", first, flags=re.MULTILINE)
    assert [found[0] for found in rows] == list(LOSSES.values())
    assert all(float(low) < float(value) < float(high) for _, value, low, high, _ in rows)
    assert str(out / "report.html") in first
    assert max(len(line) for line in first.splitlines()[:-1]) <= 80

    reader = Reader((out / "report.html").read_text(encoding="utf-8"))
    assert reader.tags.count("h2") == 8
    for _, value, low, high, _ in rows:
        assert f"{value} %[{low}, {high}]" in reader.words, "an interval is below its value"
    assert len(re.findall(r"[\d.]+ %\[[\d.]+, [\d.]+\]", reader.words)) == 9, "three in each row"
    top = reader.words[: reader.words.index("accuracy [95 %]")]
    for text in ("cnn4", "pocket faces", f"hypersphere demo --seed 3 --out {out}", f"hypersphere {__version__}", "UTC"):
        assert text in top, "whose it is"
    assert reader.words.count("best") > 1
    assert "chosen by accuracy on half of them, softmax from 8 settings, the other two from more" in reader.words
    assert re.search(r"\d\.\d{3} (≥|<) \d\.\d{3}", reader.words), "a score beside the threshold of its fold"
    assert f"hypersphere demo --seed 3 --out {out}" in reader.words
    assert RECIPE.read_text() in reader.words
    described = [value for _, name, value in reader.attributes if name == "alt" and value]
    assert len(described) == len(set(described)) == 1 + 1 + 3 + 4 + 4

    saved = {path: path.stat().st_mtime_ns for path in out.rglob("*.pt")}
    assert len(saved) == 3
    with patch("hypersphere.plots.page._drawn", return_value="data:,"):
        run_demo(out, 3, SMALL)
    assert capsys.readouterr().out == first
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.pt")} == saved


@pytest.mark.parametrize("own", [None, "active"])
def test_waiting_threads_sleep_before_torch_is_imported(monkeypatch: pytest.MonkeyPatch, own: str | None) -> None:
    class Importing:
        @property
        def training(self) -> None:
            assert os.environ["OMP_WAIT_POLICY"] == (own or "passive")
            raise KeyboardInterrupt

    monkeypatch.setenv("OMP_WAIT_POLICY", own or "")
    if own is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setattr(demo, "hs", Importing())
    with pytest.raises(KeyboardInterrupt):
        demo.run(argparse.Namespace(out=Path("runs"), seed=0))


def test_seconds_are_those_of_all_calls_or_unknown(tmp_path: Path) -> None:
    recipe = load_recipe(RECIPE, ["data.identities=2", "data.images_per_identity=4", "backbone={name='cnn4', dim=2}"])
    settings = replace(recipe.train, steps=3, epochs=None, batch_size=4, checkpoint_every=1)
    recipe = replace(recipe, backbone={"name": "cnn4", "dim": 2}, train=settings)

    Trainer(recipe, tmp_path / "killed").run(until=1)
    assert train_timed(Trainer(recipe, tmp_path / "killed"), "x", Progress)[1] is None

    Trainer(recipe, tmp_path / "stopped").run(until=1)
    clock = tmp_path / "stopped" / "seconds.json"
    clock.write_text(json.dumps({"seconds": 1000}))
    seconds = train_timed(Trainer(recipe, tmp_path / "stopped"), "x", Progress)[1]
    assert seconds is not None
    assert seconds > 1000
    assert json.loads(clock.read_text())["seconds"] >= seconds
    assert (
        train_timed(Trainer(recipe, tmp_path / "stopped"), "x", Progress)[1] == json.loads(clock.read_text())["seconds"]
    )


def test_an_interruption_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe(RECIPE)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_timed(Trainer(recipe, tmp_path), "x", Progress)
    assert json.loads((tmp_path / "seconds.json").read_text())["seconds"] > 0


@pytest.mark.parametrize(
    ("gain", "word"),
    [
        (Estimate(0.01, 0.001, 0.02, 9, ""), "better than softmax"),
        (Estimate(-0.01, -0.02, -0.001, 9, ""), "worse than softmax"),
        (Estimate(0.01, -0.001, 0.02, 9, ""), "no clear difference"),
    ],
)
def test_the_verdict_follows_the_interval(gain: Estimate, word: str) -> None:
    assert word in _verdict(outcome(gain))


def test_what_cannot_be_measured_is_a_dash() -> None:
    for cells in (demo_row(outcome(None)), page_row(outcome(None))):
        assert cells[2] == "–"
        assert cells[4].startswith("100.0 %"), "300 impostors are enough for FAR 1e-2"
        assert cells[5] == "–", "and too few for 1e-3"
        assert cells[6] == "–"
    assert page_row(outcome(None))[4].startswith("100.0 %\n[")


def outcome(gain: Estimate | None) -> DemoOutcome:
    same = np.arange(600) % 2 == 0
    scores = np.where(same, 0.9, 0.1)
    subjects = np.arange(600) % 20, np.where(same, np.arange(600) % 20, (np.arange(600) + 1) % 20)
    result, metrics = verify_pairs(scores, same), pair_metrics(scores, same, subjects, FARS, replicates=20)
    return DemoOutcome("ArcFace", load_recipe(RECIPE), Path("x"), scores, result, metrics, gain, [], None)


def test_the_recipe_names_the_options_of_each_loss() -> None:
    table = load_toml(RECIPE)
    assert {table["head"]["name"], *table["losses"]} >= set(LOSSES)
    assert table["data"]["source"] == "pocket"


def test_a_negative_seed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seed", "-1", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "hypersphere: --seed -1 must be 0 or more\n"
