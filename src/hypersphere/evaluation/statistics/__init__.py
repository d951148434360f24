"""Estimates with intervals, the bootstrap, and paired tests."""
