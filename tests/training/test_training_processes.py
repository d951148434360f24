"""Several processes are one run: the same losses and weights as one process, up to rounding."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

from hypersphere.cli import main
from hypersphere.distributed import World, join_world
from hypersphere.training import Trainer, TrainingStopped, load_recipe
from hypersphere.training.logs import read_log
from tests.heads.shard_worker import run_processes
from tests.models.networks import linear_onnx
from tests.training.small import RECIPE, eager, final

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
SETTINGS = ["backbone={name='sfnet4',dim=8}", "data.size=[32,32]", "train.steps=8", "train.log_every=2"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE)
    return file


def close(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key]) for key in a)
    return a == b


RUNS = {
    "arcface": ["head.name=arcface", "train.accumulate=2"],
    "curricularface": ["head.name=curricularface", "head.add.center.weight=0.1", "optimizer.max_grad_norm=1.0"],
    "teacher": [
        *("head.name=arcface", "train.semi_siamese=6", "train.ema=0.9", "train.sampler=identity"),
        *("train.images_per_identity=2", "teacher.model=teacher.onnx", "teacher.views=cached"),
    ],
}
"""The third has a teacher, and prototypes of a moving average."""


def in_a_process(rank: int, folder: Path) -> None:
    """Train the runs, then let one process fail: what happens to one happens to all."""
    os.chdir(folder)
    world, path = World(rank, 2), folder / "recipe.toml"
    for name, settings in RUNS.items():
        Trainer(load_recipe(path, [*SETTINGS, *settings]), folder / "two" / name, world=world).run()
    overflow_in_one(path, world)
    nan_in_one(path, world)


def overflow_in_one(path: Path, world: World) -> None:
    trainer = Trainer(load_recipe(path, ["train.precision=float16"]), path.parent / "overflow", world=world)
    before = trainer.head.weight.detach().clone()
    scale = trainer.state.scaler.scale(torch.ones(())).item()
    for parameter in (*trainer.backbone.parameters(), *trainer.head.parameters()):
        parameter.grad = torch.ones_like(parameter)
    if world.rank == 1:
        gradient = next(trainer.backbone.parameters()).grad
        assert gradient is not None
        gradient.fill_(float("inf"))
    trainer.state.update(world, None)
    assert torch.equal(before, trainer.head.weight), "a step was made on an overflow"
    assert trainer.state.scaler.get_scale() == scale / 2


def nan_in_one(path: Path, world: World) -> None:
    trainer = Trainer(load_recipe(path, ["train.log_every=1"]), path.parent / "nan", world=world)
    if world.rank == 1:
        with torch.no_grad():
            trainer.head.weight.fill_(float("nan"))
    with pytest.raises(TrainingStopped) as cause:
        trainer.run()
    assert ("the loss is nan" in str(cause.value)) == world.is_main


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of two processes; they have failed together already, or this fails."""
    folder = tmp_path_factory.mktemp("processes")
    (folder / "recipe.toml").write_text(RECIPE)
    linear_onnx(folder / "teacher.onnx", size=32, dim=8)
    (folder / "teacher.contract.toml").write_text("input_size = [32, 32]\n")
    run_processes(in_a_process, folder, 2)
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_train_as_one(runs: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    Trainer(load_recipe(runs / "recipe.toml", [*SETTINGS, *RUNS[name]]), runs / "one" / name).run()
    compare_runs(runs / "one" / name, runs / "two" / name)


def compare_runs(one: Path, two: Path) -> None:
    """Compare networks, heads, averages and losses."""
    states = final(one), final(two)
    assert states[0].keys() == states[1].keys()
    for part in ("backbone", "head", "batches", "average"):
        if part in states[0]:
            assert close(states[0][part], states[1][part]), part
    for mine, theirs in zip(*(read_log(folder / "log.jsonl") for folder in (one, two)), strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4)


def command(rank: int, folder: Path) -> str:
    """Run the command in a process that has torchrun's variables; return what it prints."""
    words = [*SETTINGS, *RUNS["arcface"], "--out", str(folder / "run"), "--device", "cpu"]
    with redirect_stdout(io.StringIO()) as out:
        assert main(["train", str(folder / "recipe.toml"), *words]) == 0
    return out.getvalue()


def test_the_command_in_two_processes_trains_as_the_trainer(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    said = run_processes(command, tmp_path, 2, torchrun=True)
    assert [each.count("verification accuracy") for each in said] == [1, 0]
    compare_runs(runs / "two" / "arcface", tmp_path / "run")


@pytest.mark.slow
def test_torchrun_trains_as_one_process(runs: Path, tmp_path: Path) -> None:
    """The command, started by torchrun: it trains what the trainer trains, and one process speaks."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = [*SETTINGS, *RUNS["arcface"], "--out", str(tmp_path / "run"), "--device", "cpu"]
    run = subprocess.run(
        [*launch, "-m", "hypersphere", "train", str(runs / "recipe.toml"), *words],
        env=ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("verification accuracy") == 1
    compare_runs(runs / "two" / "arcface", tmp_path / "run")


def test_unlabelled_images_do_not_shift_the_mean_over_processes(path: Path, tmp_path: Path) -> None:
    class Two(World):
        def all_reduce(self, value: torch.Tensor) -> torch.Tensor:
            return value + 6

    trainer = Trainer(load_recipe(path), tmp_path / "run")
    step = eager(trainer)
    step.world, trainer.images.unlabelled = Two(0, 2), True
    labels = torch.tensor([0, 1, -1, -1, -1, -1])
    assert float(step.weight(labels, step.counted(labels))) == 2 * 2 / 8
    trainer.head.sharding = object()  # type: ignore[assignment]  # its loss is already that of all processes' rows
    assert float(step.weight(labels, step.counted(labels))) == 8 / 8


def test_processes_that_see_other_checkpoints_are_refused(path: Path, tmp_path: Path) -> None:
    class Two(World):
        def agree(self, number: int) -> bool:
            return number == 4

    recipe = load_recipe(path)
    trainer = Trainer(recipe, tmp_path / "run")
    trainer.world = Two(0, 1)
    with pytest.raises(ValueError, match="the processes do not see the same checkpoints"):
        trainer.run()


def test_without_torchrun_there_is_one_process() -> None:
    with join_world("cpu") as world:
        assert world == World(0, 1, torch.device("cpu"))
        assert float(world.all_reduce(torch.tensor(3.0))) == 3
        assert world.any(True)
        assert not world.any(False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="no CUDA device"), join_world("cuda"):
        pass


def test_a_batch_that_cannot_be_shared(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path, ["train.accumulate=4"])
    with pytest.raises(ValueError, match="batch_size=12 must be a multiple of"):
        Trainer(recipe, tmp_path / "run", world=World(0, 2))
