"""Unit vectors of made-up people, and their calibration."""

from functools import cache

import numpy as np

from hypersphere.models import Contract
from hypersphere.recognition import Calibration, CalibrationSet, calibrate

CONTRACT = Contract(input_size=(112, 112), dim=16, alignment="insightface-112", digest="0123456789abcdef")
PERSON = np.repeat(np.arange(40), np.random.default_rng(1).integers(1, 6, 40))


@cache
def vectors(spread: float = 0.8) -> np.ndarray:
    """(images, 16) float32 unit vectors of the people of PERSON."""
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(40, 16))[PERSON] + spread * rng.normal(size=(len(PERSON), 16))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


@cache
def calibrated() -> Calibration:
    """Of all of them."""
    about = CalibrationSet(people="40 made-up people", digest="d" * 64, images=len(PERSON))
    return calibrate(vectors(), PERSON, CONTRACT, about, galleries=6, replicates=60)
