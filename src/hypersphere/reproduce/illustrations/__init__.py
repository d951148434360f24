"""The `illustration` items: schematics of the papers, redrawn; where one shows geometry, the geometry is computed."""

from hypersphere.reproduce.illustrations import normface, sphereface, sphereface2

__all__ = ["normface", "sphereface", "sphereface2"]
