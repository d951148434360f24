"""Classes shared out over processes: the loss and gradients of one process, and no more said than needed."""

from pathlib import Path
from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.heads import step_bytes, step_collectives
from tests.heads.shard_worker import CASES, MOST, D, compiled_step, every_size, everything, run_once, run_processes

P, N = MOST, 3 * MOST
INPUTS = [("all_gather", [1], 8), ("all_gather", [3, D], 4), ("all_gather", [3], 8)]
TO_EMBEDDINGS = [("reduce_scatter", [P, 3, D], 4)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_once(everything, tmp_path_factory)


def test_every_loss_and_gradient_is_that_of_one_process(found: list[dict[str, Any]]) -> None:
    wrong = {what: value for each in found for what, value in each["equality"].items() if not value < 1e-12}
    assert not wrong, f"{len(wrong)} errors, such as {list(wrong.items())[:20]}"
    assert len(found[0]["equality"]) > 3 * (4 * len(CASES) + 3 * len(hs.list_heads()))


def test_a_parallel_network_and_a_sharded_head_train_as_one_process(found: list[dict[str, Any]]) -> None:
    wrong = {what: value for each in found for what, value in each["parallel"].items() if not value < 1e-12}
    assert not wrong
    assert len(found[0]["parallel"]) == 4 * (3 * 5 + 1 + 1)


def test_losses_per_sample_are_those_of_one_process(found: list[dict[str, Any]]) -> None:
    wrong = {what: value for each in found for what, value in each["unreduced"].items() if not value < 1e-12}
    assert not wrong, f"{len(wrong)} errors, such as {list(wrong.items())[:20]}"
    assert len(found[0]["unreduced"]) > 2 * 3 * 30


@pytest.mark.parametrize(
    ("loss", "forward", "backward"),
    [
        ("arcface {'chunk_size': 1, 'margin_steps': 5}", [("all_gather", [2, N], 4)], []),
        ("lm_softmax {}", [("all_gather", [2, N], 4)], []),
        ("ldam {'class_counts': True}", [("all_gather", [2, N], 4)], []),
        ("sample_margin {}", [("all_gather", [2, N], 4)], []),
        ("sphereface2 {'bias': 'class'}", [("all_reduce", [], 4)], []),
        ("sphereface2 {}", [("all_reduce", [], 4)], [("all_reduce", [], 4)]),
        ("c_contrastive {}", [("all_reduce", [], 4)], []),
        ("center {}", [("all_reduce", [], 4)], []),
        ("curricularface {}", [("all_reduce", [N], 4), ("all_gather", [2, N], 4)], []),
        ("c_triplet {}", [("all_reduce", [N], 4), ("all_gather", [2, N], 4)], [("all_reduce", [N], 4)]),
        ("c_triplet {'negatives': 'hardest'}", [("all_gather", [2, N], 4)], []),
        ("softmax {}", [("all_gather", [2, N], 4), ("all_reduce", [N], 4)], []),
        ("normface {}", [("all_gather", [2, N], 4)], [("all_reduce", [], 4)]),
    ],
)
def test_what_is_exchanged(found: list[dict[str, Any]], loss: str, forward: list[Any], backward: list[Any]) -> None:
    noted = found[0]["collectives"][loss]
    assert noted[: len(INPUTS) + len(forward)] == INPUTS + forward
    assert sorted(noted[len(INPUTS) + len(forward) :]) == sorted(backward + TO_EMBEDDINGS)


def test_planned_bytes_are_those_counted(found: list[dict[str, Any]]) -> None:
    shares = {"all_gather": P - 1, "all_reduce": 2 * (P - 1) / P, "reduce_scatter": (P - 1) / P}
    for name, options in CASES:
        noted = found[0]["collectives"].get(f"{name} {options}")
        if noted is None:
            continue
        chosen = dict(options)
        if "class_counts" in options:
            chosen["class_counts"] = list(range(1, 2 * P + 1))
        counted = sum(shares[what] * size * int(torch.Size(shape).numel()) for what, shape, size in noted)
        assert step_bytes(name, rows=N, dim=D, processes=P, **chosen) == pytest.approx(counted), (name, options)


def test_the_plan_of_eight_gpus() -> None:
    settings: dict[str, Any] = {"rows": 1024, "dim": 512, "processes": 8, "dtype": torch.bfloat16}
    cosface, sphereface2 = step_collectives("cosface", **settings), step_collectives("sphereface2", **settings)
    assert [sent.bytes for sent in cosface] == [7 * 8, 7 * 128 * 1024, 7 * 128 * 8, 7 * 2 * 1024 * 4, 7 / 8 * 2**21]
    assert [sent.collective for sent in cosface] == [*["all-gather"] * 4, "reduce-scatter"]
    assert sum(sent.bytes for sent in sphereface2[3:]) == 7 / 8 * 2**21 + 2 * 2 * 7 / 8 * 4
    with pytest.raises(ValueError, match="rows=10 must be a multiple of processes=4"):
        step_collectives("cosface", rows=10, dim=8, processes=4)


def test_a_sharded_head_is_copied_and_loaded_like_any_module_but_not_moved(found: list[dict[str, Any]]) -> None:
    for own in found:
        handled = own["handled"]
        assert (handled["loaded"], handled["copied"], handled["again"]) == (0, 0, 0)
        assert handled["refused"] == "a sharded head stays on cpu: make it with device='meta'"
        assert handled["device"] == "cpu"


@pytest.mark.slow
def test_every_option_and_batch_on_every_number_of_processes(tmp_path: Path) -> None:
    for errors in run_processes(every_size, tmp_path):
        assert not {what: value for what, value in errors.items() if not value < 1e-12}


@pytest.mark.slow
def test_a_compiled_step_runs_a_sharded_head_eagerly(tmp_path: Path) -> None:
    for found in run_processes(compiled_step, tmp_path, 2):
        assert found == {"loss": True, "embeddings": True, "prototypes": True}


def test_sharding_needs_processes() -> None:
    with pytest.raises(ValueError, match="shard needs processes"):
        hs.create_head("arcface", dim=4, num_classes=5, shard=object())  # type: ignore[call-overload]
