"""`hypersphere compare` that is killed, and started again, ends with the same record; two at once are refused."""

import os
import random
import signal
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch

from hypersphere.cli import main
from hypersphere.core import hold_folder
from hypersphere.core.read_json import parse_json
from tests.heads.shard_worker import warm_context
from tests.training.small import RECIPE


def compare_until_killed(left: int, words: list[str]) -> None:
    """Run the command; die at one of its syncs and renames, the `left`th."""

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    replace = os.replace
    os.fsync = lambda file: count()  # type: ignore[assignment]
    os.replace = lambda *names: (count(), replace(*names), count())  # type: ignore[assignment, func-returns-value]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        sys.exit(main(words))


def records(folder: Path) -> dict[str, object]:
    """The runs by recipe, without how long they took and the seal, which hangs on it."""
    lines = [parse_json(line, "results") for line in (folder / "results.jsonl").read_text().splitlines()]
    return {line["recipe"]: {**line, "seconds": 0, "seal": ""} for line in lines}


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_a_killed_comparison_ends_with_the_same_record(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)

    def words(folder: str) -> list[str]:
        out = ["--device", "cpu", "--out", str(tmp_path / folder)]
        return ["compare", str(path), "--heads", "arcface,softmax", *out, "train.steps=8"]

    assert main(words("whole")) == 0
    chance, whole = random.Random(kills), records(tmp_path / "whole")
    for _ in range(kills):
        process = warm_context().Process(target=compare_until_killed, args=(chance.randrange(3, 40), words("killed")))
        process.start()
        process.join()
        assert process.exitcode in (-signal.SIGKILL, 0)
        if (tmp_path / "killed" / "results.jsonl").exists():
            assert records(tmp_path / "killed").items() <= whole.items(), "what is on record is whole"
    assert main(words("killed")) == 0
    assert records(tmp_path / "killed") == whole
    assert not list((tmp_path / "killed").rglob("*.partial*"))


def test_two_comparisons_in_one_folder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    with hold_folder(tmp_path / "out"):
        assert main(["compare", str(path), "--device", "cpu", "--out", str(tmp_path / "out")]) == 1
    assert f"out is in use by process {os.getpid()} on " in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "out").iterdir()] == [".lock"]
