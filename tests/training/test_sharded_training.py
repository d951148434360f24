"""Training with classes shared out over processes: the run of one process, also when their number changes midway."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

import hypersphere.training.loading as module
from hypersphere.distributed import World
from hypersphere.training import Trainer, load_recipe
from hypersphere.training.finished_run import newest_head
from hypersphere.training.logs import read_log
from tests.heads.shard_worker import run_processes
from tests.training.small import RECIPE, final

SETTINGS = [
    *("backbone={name='sfnet4',dim=8}", "data.size=[16,16]", "data.identities=5", "optimizer.max_grad_norm=1.0"),
    *("data.images_per_identity=6", "train.steps=3", "train.log_every=1", "train.checkpoint_every=1"),
]
RUNS: dict[str, list[str]] = {
    "cosface": ["head={name='cosface',scale=16,margin=0.1,sharded=true}"],
    "softmax": [
        "head={name='softmax',sharded=true,add={center={},normface={}}}",
        "optimizer={name='adamw',lr=0.001,max_grad_norm=1.0}",
    ],
    "sphereface2": ["head={name='sphereface2',scale=8,sharded=true}", "train.accumulate=2"],
    "sampled": ["head={name='cosface',scale=16,sharded=true,sample=0.9}", "train.mixup=0.2"],
}


def trainer(folder: Path, name: str, rank: int = 0, size: int = 1, *settings: str) -> Trainer:
    recipe = load_recipe(folder / "recipe.toml", [*SETTINGS, *RUNS[name], *settings])
    return Trainer(recipe, folder / name, world=World(rank, size))


def three_processes(rank: int, folder: Path) -> None:
    for name in RUNS:
        trainer(folder, name, rank, 3).run(until=1)


def two_processes(rank: int, folder: Path) -> None:
    for name in RUNS:
        trainer(folder, name, rank, 2).run(until=2)


def refused(rank: int, folder: Path) -> list[str]:
    """An overflow in one process is one in all: no step is made."""
    for name in ("cosface", "softmax"):
        run = trainer(folder, name, rank, distributed.get_world_size(), "train.precision=float16")
        before = run.head.full_state_dict()["weight"]
        scale = run.state.scaler.scale(torch.ones(())).item()
        for parameter in (*run.backbone.parameters(), *run.head.parameters()):
            parameter.grad = torch.ones_like(parameter)
        if rank == 1:
            gradient: Any = run.head.weight.grad
            gradient.to_local().fill_(float("inf"))
        run.state.update(run.world, None)
        assert torch.equal(before, run.head.full_state_dict()["weight"])
        assert run.state.scaler.get_scale() == scale / 2
    return []


def mixed(rank: int, folder: Path) -> list[float]:
    """The shares of mixup that this process drew."""
    kept, shares = module.mixup, []  # type: ignore[attr-defined]

    def noting(*args: Any) -> Any:
        made = kept(*args)
        shares.append(made[2])
        return made

    module.mixup = noting  # type: ignore[assignment, attr-defined]
    trainer(folder, "sampled", rank, distributed.get_world_size(), "train.mixup=1.0").run(until=2)
    return shares


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The runs of one process, and of three, then two, then one."""
    alone, changing = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("changing")
    for folder in (alone, changing):
        (folder / "recipe.toml").write_text(RECIPE)
    for name in RUNS:
        if name != "sampled":
            trainer(alone, name).run()
    run_processes(three_processes, changing, 3)
    for path in changing.glob("result-*"):
        path.unlink()
    (changing / "store").unlink()
    run_processes(two_processes, changing, 2)
    for name in RUNS:
        trainer(changing, name).run()
    return alone, changing


@pytest.mark.parametrize("name", [name for name in RUNS if name != "sampled"])
def test_a_run_is_the_same_on_three_then_two_then_one_process(folders: tuple[Path, Path], name: str) -> None:
    one, many = (folder / name for folder in folders)
    for key, value in newest_head(one).items():
        torch.testing.assert_close(newest_head(many)[key], value, rtol=1e-4, atol=1e-5)
    states: list[Any] = [final(one)["backbone"], final(many)["backbone"]]
    for key, value in states[0].items():
        torch.testing.assert_close(states[1][key], value, rtol=1e-4, atol=1e-5)
    logs = [read_log(folder / "log.jsonl") for folder in (one, many)]
    for mine, theirs in zip(*logs, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        assert mine["class_margin"] == pytest.approx(theirs["class_margin"], rel=1e-4)


def test_sampled_classes_train_sharded(folders: tuple[Path, Path]) -> None:
    log = read_log(folders[1] / "sampled" / "log.jsonl")
    assert [entry["step"] for entry in log] == [1, 2, 3]
    assert newest_head(folders[1] / "sampled")["weight"].isfinite().all()


def test_damaged_shards_are_passed_over(folders: tuple[Path, Path]) -> None:
    run = trainer(folders[1], "cosface")
    data = next(run.checkpoints.shards(3).glob("*.safetensors"))
    data.write_bytes(data.read_bytes()[:-8])
    with pytest.warns(RuntimeWarning, match="missing or damaged.*the one of step 2 is taken instead"):
        assert run.run(until=2).steps == 2
    assert sorted(path.name for path in run.checkpoints.folder.glob("*.shards")) == [
        f"step-{step:09d}.shards" for step in (1, 2, 3)
    ]


def test_an_overflow_in_one_process_is_one_in_all(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    run_processes(refused, tmp_path, 2)


def test_one_loss_of_all_rows_has_one_share_of_mixup(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    first, second = run_processes(mixed, tmp_path, 2)
    assert first == second
    assert len(set(first)) == 2


def test_sharded_is_true_or_false(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    recipe = load_recipe(tmp_path / "recipe.toml", ["head.sharded=2"])
    with pytest.raises(ValueError, match="head.sharded=2 must be true or false"):
        Trainer(recipe, tmp_path / "run")
