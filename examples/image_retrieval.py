"""Image retrieval: Circle loss beside the hardest triplets of the batch, measured by mean average precision.

python examples/image_retrieval.py
"""

import numpy as np
import torch

import hypersphere as hs
from hypersphere.evaluation import retrieve
from hypersphere.pocket import PocketFaces


def pixels(source: PocketFaces, indices: np.ndarray) -> torch.Tensor:
    return (source.batch(indices).float() - 127.5) / 127.5


def mean_average_precision(net: torch.nn.Module, source: PocketFaces) -> float:
    """The first image of everybody asks for the others; cameras are for re-identification: here each side is one."""
    net.eval()
    with torch.no_grad():
        x = torch.nn.functional.normalize(net(pixels(source, np.arange(len(source))))).numpy()
    net.train()
    asks = np.arange(len(source)) % source.images_per_identity == 0
    camera = asks.astype(np.int64)
    ids = source.labels
    found = retrieve(x[asks], x[~asks], ids[asks], ids[~asks], camera[asks], camera[~asks])
    print(f"mAP {100 * found.mean_ap.value:.1f} %, rank 1 {100 * found.cmc[1].value:.1f} %")
    return found.mean_ap.value


def main(steps: int = 150) -> tuple[float, float]:
    """Return the mean average precision before and after training, of objects that were never seen."""
    torch.manual_seed(0)
    things = PocketFaces(num_identities=40, images_per_identity=8, size=32)
    others = PocketFaces(num_identities=30, images_per_identity=6, size=32, first_identity=40)
    net = hs.create_backbone("cnn4", dim=64, input_size=(32, 32))
    extra = {"triplet": {"weight": 0.5, "mining": "hard", "margin": 0.3}}
    head = hs.create_head("circle", dim=64, num_classes=40, scale=16, prototype_norm=1, add=extra)
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=2e-3)
    before = mean_average_precision(net, others)
    for _ in range(steps):  # 8 things with 4 images each, as triplets need them
        chosen = (8 * torch.randperm(40)[:8, None] + torch.rand(8, 8).argsort(1)[:, :4]).flatten().numpy()
        loss = head(net(pixels(things, chosen)), torch.from_numpy(things.labels[chosen]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return before, mean_average_precision(net, others)


if __name__ == "__main__":
    main()
