"""MegaFace."""
