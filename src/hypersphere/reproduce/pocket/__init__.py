"""The `pocket` items: the papers' experiments on pocket faces, each judged by its claim.

A setting is a recipe with overrides; a run is a setting and a seed, kept as a record of a few kilobytes in a cache.
Items name their settings, share runs, and judge.
"""

from hypersphere.reproduce.pocket import (  # register their items
    imbalance_items,
    margin_items,
    normface_items,
    ranking_items,
    sphereface2_items,
    sphereface_items,
)
from hypersphere.reproduce.pocket.estimate import Plan, estimate_seconds, plan_runs
from hypersphere.reproduce.pocket.evidence import settings_of
from hypersphere.reproduce.pocket.runs import Gathered, gather
from hypersphere.reproduce.pocket.settings import Setting

__all__ = [
    "Gathered",
    "Plan",
    "Setting",
    "estimate_seconds",
    "gather",
    "imbalance_items",
    "margin_items",
    "normface_items",
    "plan_runs",
    "ranking_items",
    "settings_of",
    "sphereface2_items",
    "sphereface_items",
]
