"""Pocket faces: painted people without number, for demos, tests and experiments that need no download."""

from hypersphere.pocket.dataset import PocketFaces, contact_sheet, verification_pairs

__all__ = [
    "PocketFaces",
    "contact_sheet",
    "verification_pairs",
]
