"""Several processes are one run: the same losses and weights as one process, up to rounding."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hypersphere.distributed import World, join_world
from hypersphere.training import Trainer, load_recipe
from hypersphere.training.logs import read_log
from tests.models.networks import linear_onnx
from tests.training.small import RECIPE, final

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


def torchrun(*command: str) -> subprocess.CompletedProcess[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run([*launch, *command], env=ENVIRONMENT, capture_output=True, text=True, check=False)


def close(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key]) for key in a)
    return a == b


@pytest.mark.parametrize(
    "settings",
    [["head.name=arcface", "train.accumulate=2"], ["head.name=curricularface", "optimizer.max_grad_norm=1.0"]],
    ids=lambda settings: settings[0],
)
def test_two_processes_train_as_one(path: Path, tmp_path: Path, settings: list[str]) -> None:
    settings = [*SETTINGS, *settings]
    run = torchrun(
        "-m", "hypersphere", "train", str(path), *settings, "--out", str(tmp_path / "two"), "--device", "cpu"
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("verification accuracy") == 1
    Trainer(load_recipe(path, settings), tmp_path / "one").run()
    one, two = final(tmp_path / "one"), final(tmp_path / "two")
    for part in ("backbone", "head", "batches"):
        assert close(one[part], two[part]), part
    logs = [read_log(tmp_path / name / "log.jsonl") for name in ("one", "two")]
    for mine, theirs in zip(*logs, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4)


def test_two_processes_share_a_teacher_and_the_prototypes_of_a_moving_average(path: Path, tmp_path: Path) -> None:
    linear_onnx(tmp_path / "teacher.onnx", size=32, dim=8)
    (tmp_path / "teacher.contract.toml").write_text("input_size = [32, 32]\n")
    settings = [*SETTINGS, "head.name=arcface", "train.semi_siamese=6", "train.ema=0.9", "train.sampler=identity"]
    settings += ["train.images_per_identity=2", f"teacher.model={tmp_path / 'teacher.onnx'}", "teacher.views=cached"]
    words = [*settings, "--out", str(tmp_path / "two"), "--device", "cpu"]
    run = torchrun("-m", "hypersphere", "train", str(path), *words)
    assert run.returncode == 0, run.stderr
    Trainer(load_recipe(path, settings), tmp_path / "one").run()
    one, two = final(tmp_path / "one"), final(tmp_path / "two")
    for part in ("backbone", "head", "average"):
        assert close(one[part], two[part]), part


OVERFLOW = """
import sys
from pathlib import Path
import torch
from hypersphere.distributed import join_world
from hypersphere.training import Trainer, load_recipe
with join_world("cpu") as world:
    recipe = load_recipe(Path(sys.argv[1]), ["train.precision=float16"])
    trainer = Trainer(recipe, Path(sys.argv[2]), world=world)
    before = trainer.head.weight.detach().clone()
    scale = trainer.scaler.scale(torch.ones(())).item()
    for parameter in (*trainer.backbone.parameters(), *trainer.head.parameters()):
        parameter.grad = torch.ones_like(parameter)
    if world.rank == 1:
        next(trainer.backbone.parameters()).grad.fill_(float("inf"))
    trainer._update()
    assert torch.equal(before, trainer.head.weight), "a step was made on an overflow"
    assert trainer.scaler.get_scale() == scale / 2
"""

STOPPED = """
import sys
from pathlib import Path
import torch
from hypersphere.distributed import join_world
from hypersphere.training import Trainer, TrainingStopped, load_recipe
with join_world("cpu") as world:
    recipe = load_recipe(Path(sys.argv[1]), ["train.log_every=1"])
    trainer = Trainer(recipe, Path(sys.argv[2]), world=world)
    if world.rank == 1:
        with torch.no_grad():
            trainer.head.weight.fill_(float("nan"))
    try:
        trainer.run()
    except TrainingStopped as cause:
        assert ("the loss is nan" in str(cause)) == world.is_main, cause
    else:
        raise AssertionError("it went on")
"""


@pytest.mark.parametrize("code", [OVERFLOW, STOPPED], ids=["overflow", "nan"])
def test_what_happens_to_one_process_happens_to_all(path: Path, tmp_path: Path, code: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(code)
    run = torchrun(str(script), str(path), str(tmp_path / "run"))
    assert run.returncode == 0, run.stderr


def test_unlabelled_images_do_not_shift_the_mean_over_processes(path: Path, tmp_path: Path) -> None:
    class Two(World):
        def all_reduce(self, value: torch.Tensor) -> torch.Tensor:
            return value + 6

    trainer = Trainer(load_recipe(path), tmp_path / "run")
    trainer.world, trainer.images.unlabelled = Two(0, 2), True
    labels = torch.tensor([0, 1, -1, -1, -1, -1])
    assert float(trainer._weight(labels, trainer._counted(labels))) == 2 * 2 / 8
    trainer.head.sharding = object()  # type: ignore[assignment]  # its loss is already that of all processes' rows
    assert float(trainer._weight(labels, trainer._counted(labels))) == 8 / 8


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
