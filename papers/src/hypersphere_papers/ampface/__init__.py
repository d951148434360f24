"""The appendix of Unifying Margin-Based Softmax Losses in Face Recognition (AmpFace)."""

from hypersphere_papers.ampface import angle_curves, decision_regions, real_faces, theorems

__all__ = ["angle_curves", "decision_regions", "real_faces", "theorems"]
