"""Liu et al., SphereFace: Deep Hypersphere Embedding for Face Recognition, CVPR 2017."""

from hypersphere_papers.sphereface import digits, few_people, illustrations, real_faces, searches, theorems

__all__ = ["digits", "few_people", "illustrations", "real_faces", "searches", "theorems"]
