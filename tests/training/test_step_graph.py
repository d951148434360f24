"""The gradients of a step as one CUDA graph: where it is refused, and, on a GPU, that it computes the same."""

import gc
from pathlib import Path
from typing import Any

import pytest
import torch

from hypersphere.training import Trainer
from hypersphere.training.step_graph import capture
from tests.training.small import held_trainer, on_gpu

RUN = ("train.steps=12", "train.batch_size=16", "optimizer.lr=0.05")


def trainer(folder: Path, *settings: str, device: str = "cpu", graph: bool = True) -> Trainer:
    return held_trainer(folder, (*RUN, *settings), device=device, graph=graph)


def test_a_step_on_the_cpu_is_no_graph(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="graph=True: the run is on cpu"):
        trainer(tmp_path)


@on_gpu
@pytest.mark.parametrize(
    ("setting", "cause"),
    [
        ("train.accumulate=2", "train.accumulate splits the batch"),
        ("train.precision=float16", "scales the loss"),
        ("train.mixup=0.2", "mixed anew"),
    ],
)
def test_what_no_graph_holds_is_refused(tmp_path: Path, setting: str, cause: str) -> None:
    with pytest.raises(ValueError, match=cause):
        trainer(tmp_path, setting, device="cuda")


@on_gpu
@pytest.mark.parametrize(
    "head",
    [
        ("head.name=softmax",),
        ("head.name=sphereface", "head.anneal={gamma=1.0}"),
        ("head.name=lm_softmax", "head.scale=5.0", "head.add.zero_centroid.weight=1.0"),
    ],
)
def test_a_graph_leaves_the_gradients_of_the_batch_it_is_given(tmp_path: Path, head: tuple[str, ...]) -> None:
    """Warming up, noting down and replaying give what a plain pass over the same weights gives, batch after batch."""
    run = trainer(tmp_path, *head, device="cuda")
    graph, parameters = run.step_graph, [*run.backbone.parameters(), *run.head.parameters()]
    assert graph is not None
    run.backbone.train()
    run.head.train()
    for step in range(9):
        images, labels = run.images.to_device(*run.images.load(step), step)
        expected_loss, _ = graph._compute(images, labels)
        expected = [parameter.grad for parameter in parameters]
        loss, embeddings = graph(images, labels)
        torch.testing.assert_close(loss, expected_loss, rtol=1e-3, atol=1e-5)
        assert len(embeddings) == len(labels)
        for parameter, wanted in zip(parameters, expected, strict=True):
            assert wanted is not None
            assert parameter.grad is not None
            difference = (parameter.grad - wanted).norm() / wanted.norm().clamp(min=1e-6)
            assert float(difference) < 0.02  # of TF32, and of sums in another order
        run.head.advance()
    assert graph.graph is not None


@on_gpu
def test_a_run_with_a_graph_learns(tmp_path: Path) -> None:
    """40 images in batches of 16: every third batch has 8 images, which are computed as usual."""
    run = trainer(tmp_path, "train.steps=60", device="cuda")
    run.run()
    images, labels = run.images.to_device(*run.images.load(0), 0)
    with torch.no_grad():
        found = run.head.predict(run.backbone(images))
    assert float((found == labels).float().mean()) > 0.8


@on_gpu
def test_a_graph_of_an_earlier_run_is_destroyed_before_the_next_is_captured() -> None:
    numbers = torch.zeros(8, device="cuda")
    earlier: list[Any] = [capture(lambda: numbers.add_(1))]
    earlier.append(earlier)  # a cycle, which waits for the garbage collector
    del earlier

    def step() -> torch.Tensor:
        gc.collect()
        return numbers.add_(1)

    graph, _ = capture(step)
    graph.replay()
    assert numbers.tolist() == [1.0] * 8
