"""Wang et al., NormFace: L2 Hypersphere Embedding for Face Verification, ACM MM 2017."""

from hypersphere_papers.normface import digits, illustrations, real_faces, theorems, tuned_faces

__all__ = ["digits", "illustrations", "real_faces", "theorems", "tuned_faces"]
