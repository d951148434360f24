"""Many processes: the network is replicated by DDP, the classes are shared out. The loss is that of one process.

torchrun --standalone --nproc-per-node 2 examples/ddp_sharded_head.py
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hypersphere as hs

NUM_CLASSES, PER_PROCESS = 1001, 32  # the last process has a class less


def main(steps: int = 20) -> None:
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)

    torch.manual_seed(0)  # the same on every process: they draw one set of prototypes together
    net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32)).to(device)
    net = DistributedDataParallel(net)
    head = hs.create_head(
        "arcface", dim=32, num_classes=NUM_CLASSES, scale=16, margin=0.1, shard=dist.group.WORLD, device=device
    )
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
    centers = torch.randn(NUM_CLASSES, 64)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        labels = torch.randint(64, (size * PER_PROCESS,), generator=generator)
        inputs = centers[labels] + 0.1 * torch.randn(len(labels), 64, generator=generator)
        mine = slice(rank, None, size)  # every process gives its own rows
        loss = head(net(inputs[mine].to(device)), labels[mine].to(device))
        optimizer.zero_grad()
        loss.backward()  # the gradients of prototypes stay where their classes are
        optimizer.step()
        if rank == 0 and step in (0, steps - 1):
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    whole = head.full_state_dict()["weight"]  # all processes call it; a file would be written by one
    if rank == 0:
        print(f"{size} processes, {head.weight.to_local().shape[0]} of {len(whole)} prototypes here", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
