"""Results: what is saved, reported and compared."""
