"""Several embeddings of one person become one template."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation import Embeddings
from hypersphere.evaluation.arrays import finite_rows, finite_scores, labels_for
from hypersphere.evaluation.protocols.templates import Pooling, pool_templates


def pool_template(
    unit: npt.ArrayLike, *, media: npt.ArrayLike | None = None, quality: npt.ArrayLike | None = None
) -> npt.NDArray[np.float32]:
    """The unit vector of the sum over media of their mean embeddings, as IJB pools them.

    Args:
        unit: (images, dim) unit vectors of one person.
        media: (images,) whole numbers: which photo or video each is from; each image stands for itself by default.
        quality: (images,) weights above 0; equal by default.

    Example:
        >>> pool_template([[1.0, 0.0], [0.0, 1.0]])
        array([0.70710677, 0.70710677], dtype=float32)
    """
    rows = finite_rows("unit", unit)
    count = len(rows)
    weights = None if quality is None else finite_scores("quality", quality).astype(np.float64)
    if weights is not None and (weights.shape != (count,) or not (weights > 0).all()):
        raise ValueError(f"quality must hold {count} numbers above 0, one for each image")
    _, (template,) = pool_templates(
        Embeddings([str(place) for place in range(count)], rows, {}),
        np.arange(count),
        np.zeros(count, np.int64),
        np.arange(count) if media is None else labels_for("media", media, count),
        weights,
        Pooling(detector_score=weights is not None),
    )
    pooled: npt.NDArray[np.float32] = template
    return pooled
