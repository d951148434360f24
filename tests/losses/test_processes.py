"""What a loss does over several processes."""

from pathlib import Path

import torch

import hypersphere as hs
from tests.heads.shard_worker import run_processes


def curricularface(rank: int, folder: Path) -> dict[str, object]:
    torch.manual_seed(0)
    head = hs.create_head("curricularface", dim=4, num_classes=3, momentum=0.5)
    x = torch.randn(6, 4)
    labels = torch.tensor([0, 1, 2, 0, -1, -1])
    mine = slice(0, 4) if rank == 0 else slice(4, 6)
    head(x[mine], labels[mine])
    return {"t": head.objective.t, "x": x, "labels": labels, "weight": head.weight.detach()}


def test_curricularface_averages_t_over_all_samples_of_all_processes(tmp_path: Path) -> None:
    first, second = run_processes(curricularface, tmp_path, 2)
    cosines = torch.cosine_similarity(first["x"][:4], first["weight"][first["labels"][:4]])
    torch.testing.assert_close(first["t"], 0.5 * cosines.mean())
    assert torch.equal(first["t"], second["t"])
