"""The benchmarks that are scripts still fit the code they measure."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def evaluation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`benchmarks/evaluation.py` with narrow embeddings."""
    spec = importlib.util.spec_from_file_location(
        "benchmark_evaluation", Path(__file__).parent.parent / "benchmarks" / "evaluation.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmark_evaluation", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DIM", 32)
    return module


@pytest.mark.parametrize("task", ["ijb", "megaface"])
def test_evaluation_finds_what_the_dense_way_finds(evaluation: ModuleType, task: str, tmp_path: Path) -> None:
    ours, dense = (evaluation.run(task, who, 0.013) for who in (evaluation.OURS, evaluation.DENSE))
    assert ours.size == dense.size
    evaluation.check_agreement(ours, dense)
    evaluation.append_rows(tmp_path / "rows.csv", 1, [dense, ours])
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 3
