"""The losses with prototypes of pytorch-metric-learning, with its constructors and calls, computed by our heads."""

from hypersphere.pml.classification import (
    ArcFaceLoss,
    ClassificationLoss,
    CosFaceLoss,
    LargeMarginSoftmaxLoss,
    NormalizedSoftmaxLoss,
    SphereFaceLoss,
)

__all__ = [
    "ArcFaceLoss",
    "ClassificationLoss",
    "CosFaceLoss",
    "LargeMarginSoftmaxLoss",
    "NormalizedSoftmaxLoss",
    "SphereFaceLoss",
]
