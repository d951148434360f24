"""Losses, backbones and protocols of the user's own, by `--plugin FILE` and by entry points."""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from hypersphere.backbones import BACKBONES
from hypersphere.cli import main
from hypersphere.core import plugins
from hypersphere.evaluation.protocols import PROTOCOLS
from hypersphere.losses import OBJECTIVES
from tests.training.small import RECIPE

OWN_LOSS = Path(__file__).parents[2] / "examples" / "own_loss.py"

LACKING = """
import torch
from hypersphere.losses import OBJECTIVES, SampleLoss

@OBJECTIVES.register("lacking")
class Lacking(SampleLoss):
    def samples(self, batch):
        {body}
"""

PROTOCOL = """
from hypersphere.evaluation import Estimate
from hypersphere.evaluation.results.measurement import Measurement
from hypersphere.evaluation.results.result import Result
from hypersphere.evaluation.protocols import PROTOCOLS, Evaluated

@PROTOCOLS.register("mean_length")
def mean_length(source, *, factor=1.0, word="none"):
    embeddings, _ = source.gather(source.image_names(), "own")
    length = float((embeddings.values ** 2).sum(1).mean() ** 0.5)
    found = Measurement(metrics={"length": Estimate(factor * length, 0.0, 9.0, 4, "exact")})
    options = {"factor": factor, "word": word}
    result = Result.of(
        "mean_length", found, embeddings, options=options, rules=[], decided=[], files={}, left_out={}
    )
    return Evaluated(result, "own", {})
"""


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers, and the modules of plugins, are gone after it."""
    for registry in (OBJECTIVES, BACKBONES, PROTOCOLS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("hypersphere_plugin_"):
            del sys.modules[name]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_the_example_is_compared(jobs: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "cells"), "--device", "cpu", "train.steps=4", "--jobs", jobs]
    command = ["compare", str(recipe), "--heads", "arcface,quadratic_margin", "--plugin", str(OWN_LOSS), *out]
    assert main(command) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows[1:3]] == ["arcface", "quadratic_margin"]
    fit = float(rows[2].split()[-3])
    assert 0 <= fit <= 100  # cosines are what a loss compares that says nothing of logits


def test_changed_code_does_not_go_on_with_its_runs(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN_LOSS.read_text())
    out = ["--out", str(tmp_path / "cells"), "--device", "cpu", "train.steps=2"]
    command = ["compare", str(recipe), "--heads", "quadratic_margin", "--plugin", str(own), *out]
    assert main(command) == 0
    own.write_text(OWN_LOSS.read_text() + "\n")
    assert main(command) == 2
    assert "has runs of another version of own.py; name another folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return batch.cosines()", "the loss 'lacking' cannot be computed: AttributeError"),
        ("return batch.embeddings", "the loss 'lacking' cannot be computed"),
        ("return torch.ones(len(batch.labels))", "the loss 'lacking' has no gradient for the embeddings"),
        ("return batch.embeddings.sum(1) / 0", "the loss 'lacking' is"),
        (
            "return batch.embeddings.square().sum(1)\n    def logits(self, batch):\n        return batch.nothing",
            "its `logits` cannot be computed: AttributeError",
        ),
    ],
)
@pytest.mark.parametrize("command", ["train", "compare"])
def test_what_a_loss_lacks_is_said_before_the_first_step(
    command: str, body: str, said: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "lacking.py"
    own.write_text(LACKING.format(body=body))
    settings = ["head.name=lacking", "--plugin", str(own), "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main([command, str(recipe), *settings]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("out/**/*.pt"))


def test_a_loss_without_logits_trains(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "lacking.py"
    body = "return batch.embeddings.square().sum(1)\n    def logits(self, batch):\n        return None"
    own.write_text(LACKING.format(body=body))
    settings = ["head.name=lacking", "train.steps=2", "--plugin", str(own), "--out", str(tmp_path / "out")]
    assert main(["compare", str(recipe), *settings, "--device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-3] == "-"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("none.py", None, "is no Python file"),
        ("own.txt", "", "is no Python file"),
        ("broken.py", "1 / 0", "broken.py cannot be loaded: ZeroDivisionError: division by zero"),
        ("twice.py", LACKING.format(body="...").replace("lacking", "arcface"), "'arcface' is registered twice"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named(
    name: str, text: str | None, said: str, recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    assert main(["train", str(recipe), "--plugin", str(tmp_path / name), "--dry-run"]) == 2
    assert said in capsys.readouterr().err


def test_an_own_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own_protocol.py"
    own.write_text(PROTOCOL)
    np.save(tmp_path / "e.npy", np.full((4, 4), 0.5, dtype=np.float32))
    (tmp_path / "names.txt").write_text("a\nb\nc\nd\n")
    files = ["--embeddings", str(tmp_path / "e.npy"), "--names", str(tmp_path / "names.txt"), "--plugin", str(own)]
    command = [
        "evaluate",
        "own",
        "mean_length",
        "factor=2.0",
        "word=far",
        *files,
        "--allow-missing",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(command) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert re.search(r'"value": 2\.0', json.dumps(result["metrics"]))
    assert result["options"]["word"] == "far"
    assert main([*command[:3], "nothing", *command[3:]]) == 2
    assert "'nothing' is no option of a protocol: write key=value" in capsys.readouterr().err


def test_installed_plugins_are_loaded(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plugin_that_is_installed.py").write_text(LACKING.format(body="return batch.embeddings.sum(1)"))
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("own", "plugin_that_is_installed", plugins.ENTRY_POINTS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    assert main(["train", str(recipe), "head.name=lacking", "--dry-run"]) == 0
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint("own", "no_such", plugins.ENTRY_POINTS)])
    assert main(["train", str(recipe), "--dry-run"]) == 2
    assert "the plugin own (no_such) cannot be loaded: ModuleNotFoundError" in capsys.readouterr().err
    sys.modules.pop("plugin_that_is_installed", None)


def test_the_example_is_trained(recipe: Path, tmp_path: Path) -> None:
    words = ["head.name=quadratic_margin", "train.steps=2", "--plugin", str(OWN_LOSS), "--out", str(tmp_path / "run")]
    assert main(["train", str(recipe), *words, "--device", "cpu"]) == 0
    assert (tmp_path / "run" / "log.jsonl").is_file()
