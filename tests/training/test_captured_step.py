"""Whole steps from tables on the device: the same run, bit for bit, as images loaded and rates set step by step."""

from pathlib import Path

import pytest
import torch

from hypersphere.training import Trainer, captured_step
from hypersphere.training.captured_step import CapturedStep
from hypersphere.training.eager_step import EagerStep
from tests.training.small import eager, held_trainer, on_gpu

RUN = (
    "train.steps=20",
    "train.batch_size=16",
    "optimizer.name=sgd",
    "optimizer.lr=0.05",
    "schedule.name=cosine",
    "train.log_every=7",
)
CHANGES = ("augment.flip=0.5", "augment.shift=1.0", "augment.max_shift=2", "augment.photometric=0.5")
HEADS = (
    ("head.name=softmax", "train.checkpoint_every=9"),
    ("head.name=sphereface", "head.anneal={gamma=1.0}", "optimizer.max_grad_norm=1.0"),
    (
        "head.name=lm_softmax",
        "head.scale=5.0",
        "head.add.zero_centroid.weight=1.0",
        "optimizer.prototype_lr_factor=3.0",
    ),
)
MIXED = ("head.name=softmax", "train.mixup=0.4")


def trainer(folder: Path, *settings: str, device: str = "cpu", graph: bool = False) -> Trainer:
    return held_trainer(folder, (*RUN, *CHANGES, *settings), device=device, graph=graph)


def weights(run: Trainer) -> list[torch.Tensor]:
    return [value.detach().clone() for value in (*run.backbone.state_dict().values(), *run.head.state_dict().values())]


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks in a short run, the last of them not full."""
    monkeypatch.setattr(captured_step, "_BLOCK", 8)


@pytest.mark.parametrize("head", [*HEADS, MIXED])
def test_whole_steps_are_the_same_run(tmp_path: Path, head: tuple[str, ...]) -> None:
    plain, whole = trainer(tmp_path / "plain", *head), trainer(tmp_path / "whole", *head)
    whole.take_step = CapturedStep(eager(whole), compile=False)
    plain.run()
    whole.run()
    for expected, found in zip(weights(plain), weights(whole), strict=True):
        assert torch.equal(expected, found)
    assert (tmp_path / "plain/log.jsonl").read_text() == (tmp_path / "whole/log.jsonl").read_text()


def test_a_run_of_whole_steps_goes_on_where_it_stopped(tmp_path: Path) -> None:
    settings = ("head.name=softmax", "train.checkpoint_every=6")
    plain = trainer(tmp_path / "plain", *settings)
    plain.run()
    for until in (15, None):  # the second begins again at the checkpoint of step 12, in the midst of a block
        whole = trainer(tmp_path / "whole", *settings)
        whole.take_step = CapturedStep(eager(whole), compile=False)
        whole.run(until=until)
    for expected, found in zip(weights(plain), weights(whole), strict=True):
        assert torch.equal(expected, found)


def test_a_trainer_that_runs_again_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """Its tables are of the steps after the checkpoint, and momenta are those that were read."""
    settings = ("head.name=softmax", "train.checkpoint_every=6")
    plain, whole = trainer(tmp_path / "plain", *settings), trainer(tmp_path / "whole", *settings)
    whole.take_step = CapturedStep(eager(whole), compile=False)
    plain.run()
    for until in (15, None):  # the checkpoint of step 12 is in the midst of the block that step 14 was of
        whole.run(until=until)
    for expected, found in zip(weights(plain), weights(whole), strict=True):
        assert torch.equal(expected, found)


@on_gpu
def test_a_trainer_that_runs_again_forgets_its_graph(tmp_path: Path) -> None:
    """The graph wrote to the momenta that the checkpoint's have replaced."""
    again = trainer(tmp_path / "again", "train.checkpoint_every=6", device="cuda", graph=True)
    assert isinstance(again.take_step, CapturedStep)
    again.run(until=12)
    graph = again.take_step.graph
    assert graph is not None
    again.run(until=18)
    assert again.take_step.graph not in (None, graph)


@on_gpu
@pytest.mark.parametrize(
    "setting",
    ["optimizer.name=adamw", "train.ema=0.9", "train.accumulate=2", "train.precision=float16", "train.cutmix=1.0"],
)
def test_what_is_no_whole_step(tmp_path: Path, setting: str) -> None:
    can = trainer(tmp_path / "can", device="cuda", graph=True)
    cannot = trainer(tmp_path / "cannot", setting, device="cuda", graph=True)
    assert isinstance(can.take_step, CapturedStep)
    assert isinstance(cannot.take_step, EagerStep)


def test_a_step_on_the_cpu_is_taken_as_usual(tmp_path: Path) -> None:
    assert isinstance(trainer(tmp_path, graph=True).take_step, EagerStep)


@on_gpu
@pytest.mark.parametrize("head", [*HEADS, MIXED])
def test_a_replayed_step_moves_weights_as_a_plain_one(tmp_path: Path, head: tuple[str, ...]) -> None:
    run = trainer(tmp_path, *head, device="cuda", graph=True)
    taken = run.take_step
    assert isinstance(taken, CapturedStep)
    with taken.opened(0, 20):
        compare_steps(run, taken)
    assert taken.graph is not None


def compare_steps(run: Trainer, taken: CapturedStep) -> None:
    optimizer = run.state.optimizer
    for step in range(9):
        before = weights(run)
        kept = {key: value.clone() for key, value in run.backbone.state_dict().items()}
        state = [optimizer.state[p].get("momentum_buffer") for p in run.backbone.parameters()]
        momenta = [None if each is None else each.clone() for each in state]
        own = {key: value.clone() for key, value in run.head.state_dict().items()}
        heads = [optimizer.state[p].get("momentum_buffer") for p in run.head.parameters()]
        head_momenta = [None if each is None else each.clone() for each in heads]
        if step > 3:  # what a plain step does, undone before the replayed one
            images, labels = run.images.to_device(*run.images.load(step), step)
            taken.eager.take(step, images, labels)
            expected = weights(run)
            with torch.no_grad():
                for name, value in run.backbone.state_dict().items():
                    value.copy_(kept[name])
                for name, value in run.head.state_dict().items():
                    value.copy_(own[name])
                for buffer, was in zip((*state, *heads), (*momenta, *head_momenta), strict=True):
                    assert buffer is not None
                    assert was is not None
                    buffer.copy_(was)
        loss, embeddings, labels = taken(step)
        assert bool(torch.isfinite(loss))
        assert len(embeddings) == len(labels) == 16
        if step > 3:
            for old, wanted, new in zip(before, expected, weights(run), strict=True):
                if wanted.is_floating_point():
                    moved = (wanted - old).norm().clamp(min=1e-6)
                    assert float((new - wanted).norm() / moved) < 0.02  # of TF32, and of sums in another order
                else:
                    assert torch.equal(new, wanted)


@on_gpu
def test_a_run_of_replayed_steps_learns(tmp_path: Path) -> None:
    run = trainer(tmp_path, "train.steps=300", device="cuda", graph=True)
    run.run()
    images, labels = run.images.to_device(*run.images.load(0), 0)
    with torch.no_grad():
        found = run.head.predict(run.backbone(images))
    assert float((found == labels).float().mean()) > 0.8


@on_gpu
def test_a_graph_of_an_earlier_run_is_destroyed_before_the_next_is_captured(tmp_path: Path) -> None:
    runs: list[object] = []
    for number in range(2):
        run = trainer(tmp_path / str(number), device="cuda", graph=True)
        run.run()
        runs = [run, runs]
        runs.append(runs)  # a cycle, which waits for the garbage collector
