"""hypersphere: learn, measure, understand and use embeddings on the unit sphere."""

from hypersphere import geometry
from hypersphere.version import __version__

__all__ = ["__version__", "geometry"]
