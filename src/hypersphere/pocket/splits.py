"""Who may look at which pocket people. The ranges never meet: who was looked at once is not new any more."""

from __future__ import annotations

TRAINING = range(10_000_000)
"""Recipes train on people from 0 on."""

VALIDATION = range(10_000_000, 20_000_000)
"""`train`, `compare` and the demo score on these; settings of the shipped recipes were chosen on some of them."""

TEST = range(30_000_000, 40_000_000)
"""For judging an experiment once. Nobody chooses a setting by looking at them."""

TUNING = range(40_000_000, 50_000_000)
"""For choosing the settings of an experiment."""
