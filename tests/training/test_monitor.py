"""When a run is stopped for collapse, and when it is not."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.training import Monitor, TrainingStopped


def collapsed(name: str = "ampface", **options: Any) -> tuple[hs.Head, Tensor, Tensor]:
    """A head whose prototypes point one way, and samples that point the other."""
    torch.manual_seed(0)
    head = hs.create_head(name, dim=4, num_classes=6, **options)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([1.0, 0, 0, 0]) + 0.01 * torch.randn(6, 4))
    return head, torch.tensor([[-1.0, 0, 0, 0]]).repeat(8, 1) + 0.01 * torch.randn(8, 4), torch.arange(8) % 6


def test_collapse_must_last_and_be_late() -> None:
    head, embeddings, labels = collapsed()
    monitor = Monitor(6, patience=3)
    for _ in range(20):
        monitor.look(head, embeddings, labels, 1.0, done=0.1)
    monitor = Monitor(6, patience=3)
    for _ in range(2):
        figures = monitor.look(head, embeddings, labels, 1.0, done=0.5)
    assert figures["norm"] == pytest.approx(float(embeddings.norm(dim=1).mean()))
    with pytest.raises(TrainingStopped, match="polar collapse"):
        monitor.look(head, embeddings, labels, 1.0, done=0.5)


def test_a_falling_loss_is_no_collapse() -> None:
    head, embeddings, labels = collapsed()
    monitor = Monitor(6, patience=3)
    for look in range(50):
        monitor.look(head, embeddings, labels, 0.9**look, done=1.0)


def test_a_healthy_look_starts_the_count_again() -> None:
    head, embeddings, labels = collapsed()
    monitor = Monitor(6, patience=3)
    for _ in range(10):
        monitor.look(head, embeddings, labels, 1.0, done=1.0)
        monitor.look(head, embeddings, labels, 1.0, done=1.0)
        monitor.look(head, -embeddings, labels, 1.0, done=1.0)


def test_the_count_survives_a_resumed_run() -> None:
    head, embeddings, labels = collapsed()
    first = Monitor(6, patience=3)
    for _ in range(2):
        first.look(head, embeddings, labels, 1.0, done=1.0)
    second = Monitor(6, patience=3)
    second.load_state_dict(first.state_dict())
    assert math.isclose(second.state["collapsed_loss"], 1.0)
    with pytest.raises(TrainingStopped):
        second.look(head, embeddings, labels, 1.0, done=1.0)


@pytest.mark.parametrize(
    ("name", "options", "advised", "not_advised"),
    [
        ("ampface", {"wrong_class_relu": False}, "head.wrong_class_relu", "head.balance"),
        ("ampface", {}, "raise head.margin (1 is none)", "lower head.margin"),
        ("ampface", {"margin": 1.0}, "head.margin_steps", "raise head.margin"),
        ("sphereface2", {"margin": 0.0}, "; lower the learning rate", "head.margin"),
        ("arcface", {}, "head.margin_steps", "wrong_class_relu"),
        ("c_triplet", {}, "lower head.margin", "wrong_class_relu"),
        ("normface", {}, "; lower the learning rate", "margin"),
    ],
)
def test_only_options_of_the_head_are_advised(
    name: str, options: dict[str, Any], advised: str, not_advised: str
) -> None:
    head, embeddings, labels = collapsed(name, **options)
    monitor = Monitor(6, patience=1)
    with pytest.raises(TrainingStopped) as stopped:
        monitor.look(head, embeddings, labels, 1.0, done=1.0)
    assert advised in str(stopped.value)
    assert not_advised not in str(stopped.value)


def test_a_collapse_that_no_look_stopped_is_warned_of() -> None:
    head, embeddings, labels = collapsed("ampface", wrong_class_relu=False)
    monitor = Monitor(6)
    assert monitor.warning(head.objective) == ""
    for look in range(50):
        monitor.look(head, embeddings, labels, 0.9**look, done=1.0)
    assert "turn head.wrong_class_relu on" in monitor.warning(head.objective)
    assert "% of the last batch" in monitor.warning(head.objective)
    resumed = Monitor(6)
    resumed.load_state_dict(monitor.state_dict())
    assert resumed.warning(head.objective) == monitor.warning(head.objective)
    monitor.look(head, -embeddings, labels, 1.0, done=1.0)
    assert monitor.warning(head.objective) == ""
