"""The losses with prototypes of pytorch-metric-learning, with its constructors and calls, computed by our heads."""

from typing import TYPE_CHECKING, Any

from hypersphere.core import nearest
from hypersphere.pml.classification import (
    ArcFaceLoss,
    ClassificationLoss,
    CosFaceLoss,
    LargeMarginSoftmaxLoss,
    NormalizedSoftmaxLoss,
    SphereFaceLoss,
)

if not TYPE_CHECKING:  # mypy takes any attribute of a module that has a __getattr__ for an Any

    def __getattr__(name: str) -> Any:
        raise AttributeError(
            f"hypersphere.pml has no {name!r}; {nearest(name, __all__)}. Pair losses, miners and distances stay those "
            "of pytorch-metric-learning"
        )


__all__ = [
    "ArcFaceLoss",
    "ClassificationLoss",
    "CosFaceLoss",
    "LargeMarginSoftmaxLoss",
    "NormalizedSoftmaxLoss",
    "SphereFaceLoss",
]
