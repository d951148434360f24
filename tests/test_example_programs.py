"""Every program of examples/ runs, is short and does what its first sentence says."""

import io
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hypersphere.losses import OBJECTIVES
from tests.heads.shard_worker import run_processes

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
FOREIGN = "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"


def foreign_package(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test of an example whose package warns of things that are not ours."""
    for warning in FOREIGN:
        test = pytest.mark.filterwarnings(warning)(test)
    return test


def program(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def test_every_program_is_short_listed_and_tested() -> None:
    listed = re.findall(r"\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text())
    assert sorted(listed) == PROGRAMS
    tests = Path(__file__).read_text()
    for name in PROGRAMS:
        text = (EXAMPLES / f"{name}.py").read_text()
        assert len(text.splitlines()) <= 60, name
        assert f'"{name}"' in tests or f"{name}.py" in tests, f"no test runs {name}"


def test_plain_pytorch() -> None:
    assert program("plain_pytorch")["main"](steps=120) > 0.7


@pytest.mark.parametrize(
    ("name", "package"),
    [("with_lightning", "lightning"), ("with_accelerate", "accelerate"), ("with_hf_trainer", "transformers")],
)
@foreign_package
def test_a_trainer_of_another_package(name: str, package: str) -> None:
    pytest.importorskip(package, reason=f"an example needs {package}")
    losses = program(name)["main"]()
    assert losses[-1] < 0.7 * losses[0]


def sharded_classes(rank: int, folder: Path) -> str:
    with redirect_stdout(io.StringIO()) as out:
        program("ddp_sharded_head")["main"]()
    return out.getvalue()


def test_sharded_classes(tmp_path: Path) -> None:
    check_sharded_classes(run_processes(sharded_classes, tmp_path, 2, torchrun=True)[0])


@pytest.mark.slow
def test_sharded_classes_by_torchrun() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = subprocess.run(
        [*launch, str(EXAMPLES / "ddp_sharded_head.py")], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    check_sharded_classes(run.stdout)


def check_sharded_classes(printed: str) -> None:
    first, last = (float(value) for value in re.findall(r"loss ([\d.]+)", printed))
    assert last < first
    assert "2 processes, 501 of 1001 prototypes here" in printed


def test_from_pytorch_metric_learning() -> None:
    pytest.importorskip("pytorch_metric_learning", reason="needs the extra hypersphere-learn[bench]")
    theirs, ours = program("from_pytorch_metric_learning")["main"]()
    assert ours == pytest.approx(theirs, rel=1e-5)


def combined_margin(x: Tensor, weight: Tensor, labels: Tensor, margins: tuple[float, float, float]) -> Tensor:
    """The loss of arcface_torch as its CombinedMarginLoss has it: the angle is moved in place, without a gradient."""
    logits = nn.functional.linear(nn.functional.normalize(x), nn.functional.normalize(weight)).clamp(-1, 1)
    rows, (_, m2, m3) = torch.arange(len(labels)), margins
    target = logits.detach()[rows, labels]
    shift = torch.zeros_like(logits)
    shift[rows, labels] = (target.acos() + m2).cos() - target if m3 == 0 else -target.new_full((), m3)
    return nn.functional.cross_entropy(64.0 * (logits + shift), labels)


@pytest.mark.parametrize("margins", [(1.0, 0.5, 0.0), (1.0, 0.0, 0.4)])
def test_from_arcface_torch(margins: tuple[float, float, float], tmp_path: Path) -> None:
    weight = torch.randn(26, 8, generator=torch.Generator().manual_seed(0))
    for rank, rows in enumerate(weight.tensor_split(12)):  # more ranks than have one digit
        state = {"epoch": 1, "state_dict_softmax_fc": {"weight": rows.clone()}}
        torch.save(state, tmp_path / f"checkpoint_gpu_{rank}.pt")
    module = program("from_arcface_torch")
    head = module["main"](tmp_path, 26, margins)
    assert torch.equal(head.weight, weight)
    labels = torch.tensor([0, 1, 2, 3, 20])
    x = (weight[labels] + torch.randn(5, 8, generator=torch.Generator().manual_seed(1))).requires_grad_()
    ours, theirs = head(x, labels), combined_margin(x, weight, labels, margins)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(value, x)[0] for value in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="have 26 classes, not 27: is a rank's file missing"):
        module["main"](tmp_path, 27)
    with pytest.raises(ValueError, match=r"has no checkpoint_gpu_\*\.pt"):
        module["main"](tmp_path / "none", 27)
    with pytest.raises(ValueError, match="alone"):
        module["head_like"]((1.0, 0.3, 0.2), dim=2, num_classes=2)


def test_a_speaker_model() -> None:
    assert program("speaker_projection")["main"]() < 0.2


def test_image_retrieval() -> None:
    before, after = program("image_retrieval")["main"]()
    assert after > before + 0.05


def test_imbalanced_classes() -> None:
    found = program("imbalanced")["main"]()
    assert found["ldam"]["few"] > found["softmax"]["few"]


def test_an_own_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OBJECTIVES, "_entries", dict(OBJECTIVES._entries))
    found = program("own_loss")["main"]()
    torch.testing.assert_close(found["dense"], found["chunked"])
