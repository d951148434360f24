"""From pytorch-metric-learning: change one import, load the old checkpoint, and get the same loss.

pip install pytorch-metric-learning && python examples/from_pytorch_metric_learning.py
"""

import tempfile
from pathlib import Path

import torch
from pytorch_metric_learning import losses

import hypersphere as hs


def main() -> tuple[float, float]:
    """Return the loss by theirs and by ours."""
    torch.manual_seed(0)
    embeddings, labels = torch.randn(32, 64), torch.randint(100, (32,))
    old = losses.ArcFaceLoss(num_classes=100, embedding_size=64, margin=20, scale=30)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "loss.pt"
        torch.save(old.state_dict(), checkpoint)

        new = hs.pml.ArcFaceLoss(num_classes=100, embedding_size=64, margin=20, scale=30)
        new.load_state_dict(torch.load(checkpoint, weights_only=True))

    theirs, ours = old(embeddings, labels).item(), new(embeddings, labels).item()
    print(f"theirs {theirs:.6f}, ours {ours:.6f}")

    # What the head behind it can do besides:
    new.head.predict(embeddings)  # classes, without an N x C matrix
    new.head.nearest(embeddings, labels)  # cosine of the own prototype, and the largest other
    hs.pml.ArcFaceLoss(num_classes=100_000, embedding_size=64, sample=0.1)  # a tenth of the classes a step
    return theirs, ours


if __name__ == "__main__":
    main()
