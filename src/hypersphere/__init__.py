"""hypersphere: learn, measure, understand and use embeddings on the unit sphere."""

from hypersphere import geometry
from hypersphere.backbones import create_backbone, list_backbones
from hypersphere.evaluation.protocols import list_protocols
from hypersphere.heads import Head, PairLoss, RowAdamW, RowSGD, create_head, create_loss, list_heads
from hypersphere.version import __version__

__all__ = [
    "Head",
    "PairLoss",
    "RowAdamW",
    "RowSGD",
    "__version__",
    "create_backbone",
    "create_head",
    "create_loss",
    "geometry",
    "list_backbones",
    "list_heads",
    "list_protocols",
]
