"""hypersphere: learn, measure, understand and use embeddings on the unit sphere."""

from hypersphere import geometry
from hypersphere.heads import Head, PairLoss, create_head, create_loss, list_heads
from hypersphere.version import __version__

__all__ = ["Head", "PairLoss", "__version__", "create_head", "create_loss", "geometry", "list_heads"]
