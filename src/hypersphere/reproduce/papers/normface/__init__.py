"""Wang et al., NormFace: L2 Hypersphere Embedding for Face Verification, ACM MM 2017."""

from hypersphere.reproduce.papers.normface import digits, illustrations, pocket_faces, real_faces, theorems

__all__ = ["digits", "illustrations", "pocket_faces", "real_faces", "theorems"]
