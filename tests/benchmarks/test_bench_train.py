"""`benchmarks/speed.py train`, small."""

from pathlib import Path

import pytest
from bench import measure_training
from speed import main

from hypersphere.data.augment import KINDS


def test_bench_train_prints_a_row_and_appends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_training, "_IDENTITIES", 8)
    monkeypatch.setattr(measure_training, "_IMAGES", 4)
    csv = tmp_path / "train.csv"
    small = [
        "--size",
        "32",
        "--batch-size",
        "8",
        "--classes",
        "5",
        "--steps",
        "2",
        "--warmup",
        "1",
        "--precision",
        "float32",
    ]
    command = ["train", "--backbones", "cnn4", "--workers", "0", "--no-compile", "--device", "cpu", *small]
    for chosen in ([], ["--augment", "flip"]):
        assert main([*command, *chosen, "--csv", str(csv)]) == 0
    assert capsys.readouterr().out.count("cnn4") == 2
    header, *rows = csv.read_text().splitlines()
    assert header.startswith("date_utc,backbone,batch")
    assert [dict(zip(header.split(","), row.split(","), strict=True))["augment"] for row in rows] == ["all", "flip"]
    assert set(measure_training.AUGMENTS["all"]) == set(KINDS)


def test_bench_train_refuses_nothing_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--steps", "0"]) == 2
    assert "--steps=0 must be an integer of at least 1" in capsys.readouterr().err


def test_bench_train_measures_one_process(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["train", "--steps", "1"]) == 2
    assert "bench train measures one process: start it without torchrun" in capsys.readouterr().err
