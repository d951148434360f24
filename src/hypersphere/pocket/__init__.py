"""Pocket faces: painted people without number, for demos, tests and experiments that need no download."""

from hypersphere.pocket.dataset import PocketFaces, contact_sheet, verification_pairs
from hypersphere.pocket.splits import TEST, TRAINING, TUNING, VALIDATION

__all__ = [
    "TEST",
    "TRAINING",
    "TUNING",
    "VALIDATION",
    "PocketFaces",
    "contact_sheet",
    "verification_pairs",
]
