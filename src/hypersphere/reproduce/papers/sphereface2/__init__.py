"""Wen et al., SphereFace2: Binary Classification is All You Need for Deep Face Recognition, ICLR 2022."""

from hypersphere.reproduce.papers.sphereface2 import illustrations, pocket_faces, real_faces, theorems

__all__ = ["illustrations", "pocket_faces", "real_faces", "theorems"]
