"""What a loss does over several processes."""

import os
from pathlib import Path

import torch
import torch.multiprocessing

import hypersphere as hs


def _run(rank: int, store: str, out: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    try:
        torch.manual_seed(0)
        head = hs.create_head("curricularface", dim=4, num_classes=3, momentum=0.5)
        x = torch.randn(6, 4)
        labels = torch.tensor([0, 1, 2, 0, -1, -1])
        mine = slice(0, 4) if rank == 0 else slice(4, 6)
        head(x[mine], labels[mine])
        torch.save({"t": head.objective.t, "x": x, "labels": labels, "weight": head.weight.detach()}, f"{out}{rank}")
    finally:
        torch.distributed.destroy_process_group()


def test_curricularface_averages_t_over_all_samples_of_all_processes(tmp_path: Path) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.multiprocessing.spawn(_run, args=(str(tmp_path / "store"), str(tmp_path / "t")), nprocs=2)  # type: ignore[attr-defined]
    first, second = (torch.load(f"{tmp_path / 't'}{rank}", weights_only=True) for rank in range(2))
    cosines = torch.cosine_similarity(first["x"][:4], first["weight"][first["labels"][:4]])
    torch.testing.assert_close(first["t"], 0.5 * cosines.mean())
    assert torch.equal(first["t"], second["t"])
