"""Your own loss in 15 lines: it then runs on every engine, sharded and sampled, like those of the library.

python examples/own_loss.py
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

import hypersphere as hs
from hypersphere.losses import OBJECTIVES, Batch, SampleLoss


@OBJECTIVES.register("quadratic_margin")
class QuadraticMargin(SampleLoss):
    """Softmax of s (cos_y - m (1 - cos_y)^2) against s cos_j: the margin vanishes as a sample arrives."""

    def __init__(self, *, scale: float = 16.0, margin: float = 0.2) -> None:
        super().__init__()
        self.scale, self.margin = scale, margin

    def with_margin(self, cos_y: Tensor) -> Tensor:
        return cos_y - self.margin * (1 - cos_y) ** 2

    def samples(self, batch: Batch) -> Tensor:
        negatives = batch.reduce("logsumexp", scale=self.scale)  # over all classes but the sample's own
        return softplus(negatives.value - self.scale * self.with_margin(negatives.target))


def main() -> dict[str, Tensor]:
    """Return the loss by engine: one that holds all logits, and one that never does."""
    found = {}
    for engine in ("dense", "chunked"):
        torch.manual_seed(0)
        head = hs.create_head("quadratic_margin", dim=16, num_classes=100, margin=0.3, engine=engine)
        embeddings, labels = torch.randn(8, 16, requires_grad=True), torch.arange(8)
        loss = head(embeddings, labels)
        loss.backward()
        found[engine] = loss.detach()
        print(f"{engine}: loss {loss.item():.6f}, norm of the gradient {embeddings.grad.norm():.6f}")
    return found


if __name__ == "__main__":
    main()
