"""Settings that several items share."""

from __future__ import annotations

from hypersphere.reproduce.pocket.settings import Setting, people

SOFTMAX = people("softmax", "softmax")
CENTER = people("softmax + center", "softmax", "head.add.center.weight=0.003")
A_SOFTMAX = {m: people(f"A-Softmax, m = {m}", "sphereface", f"head.margin={m}") for m in (1, 2, 3, 4)}


def cosface(title: str, margin: float = 0.2, *more: str) -> Setting:
    """CosFace at s = 24."""
    return people(title, "cosface", f"head.margin={margin}", *more)


def arcface(title: str, margin: float = 0.3, *more: str) -> Setting:
    """ArcFace at s = 24."""
    return people(title, "arcface", f"head.margin={margin}", *more)


def sphereface2(
    title: str, *more: str, balance: float = 0.97, scale: float = 40.0, margin: float = 0.4, power: float = 3.0
) -> Setting:
    """SphereFace2; lambda is nearer to 1 than in the paper, which suits runs of 620 steps."""
    options = (f"head.balance={balance}", f"head.scale={scale}", f"head.margin={margin}", f"head.power={power}")
    return people(title, "sphereface2", *options, *more)


COSFACE, ARCFACE, SPHEREFACE2 = cosface("CosFace"), arcface("ArcFace"), sphereface2("SphereFace2")
