"""The Tammes problem in 3-D (largest-margins eq. 2.3): the best packings that are known."""

from __future__ import annotations

BEST_KNOWN = {
    2: 180.0,
    3: 120.0,
    4: 109.4712206,
    5: 90.0,
    6: 90.0,
    7: 77.8695421,
    8: 74.8584922,
    9: 70.5287794,
    10: 66.1468220,
    11: 63.4349488,
    12: 63.4349488,
    13: 57.1367031,
    14: 55.6705700,
    15: 53.6578501,
    16: 52.2443957,
    17: 51.0903285,
    18: 49.5566548,
    19: 47.6919141,
    20: 47.4310362,
}
"""Degrees, from Sloane's tables of spherical codes; proven optimal up to 14 and for 24."""
