"""Closed-set classification."""
