"""Experiments: settings, their runs, what is measured of them, and verdicts."""
