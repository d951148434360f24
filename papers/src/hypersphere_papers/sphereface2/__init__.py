"""Wen et al., SphereFace2: Binary Classification is All You Need for Deep Face Recognition, ICLR 2022."""

from hypersphere_papers.sphereface2 import (
    data_sets,
    few_people,
    illustrations,
    real_faces,
    searches,
    similarities,
    theorems,
)

__all__ = ["data_sets", "few_people", "illustrations", "real_faces", "searches", "similarities", "theorems"]
