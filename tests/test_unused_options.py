"""The list of options that no test runs: what a command line runs, and what there is to run."""

import subprocess
import sys

import pytest

from hypersphere.cli import main
from tests import options_run
from tools.unused_options import declared, named, unused


def test_every_command_and_option_is_declared_once() -> None:
    names = declared()
    assert {"theory", "theory toy --seed", "evaluate pairs --far", "data pack", "train --compile", "--json"} <= names
    assert not [name for name in names if name.endswith(("--help", "--no-compile", "-q")) or "theory --json" in name]


def test_a_command_line_runs_its_options() -> None:
    words = ["evaluate", "-q", "pairs", "--far", "0.1", "--json", "--no-normalize", "--pairs=x"]
    names = {"evaluate pairs", "evaluate pairs --far", "evaluate pairs --no-normalize", "evaluate pairs --pairs"}
    assert named(words) == {*names, "--json", "--quiet"}
    assert named(["train", "r", "--no-compile", "--", "--seed"]) == {"train", "train --compile"}
    assert not set(unused(declared()))
    assert unused(declared() - {"train --seed"}) == ["train --seed"]


def test_a_command_that_fails_has_run_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options_run, "RAN", ran := set[str]())
    assert main(["advise", "--dim", "64", "--scale", "3"]) == 2
    assert main(["-v", "advise", "--dim", "64", "--classes", "10"]) == 0
    assert ran == {"advise", "advise --dim", "advise --classes", "--verbose"}


def test_another_process_has_run_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options_run, "RAN", ran := set[str]())
    subprocess.run([sys.executable, "-c", "", "hypersphere", "theory", "--list"], check=True)
    assert ran == {"theory", "theory --list"}
