"""Whether a converted model gives the embeddings and the decisions of the one that it was made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.protocols import PairList, evaluate_pairs
from hypersphere.evaluation.statistics.estimate import Estimate, NotMeasurable
from hypersphere.evaluation.statistics.paired_tests import Difference, mcnemar


@dataclass(frozen=True)
class Parity:
    """How near the embeddings of two models are.

    Args:
        images: of how many images.
        mean_cosine, least_cosine: between the two embeddings of an image.
    """

    images: int
    mean_cosine: float
    least_cosine: float


@dataclass(frozen=True)
class PairParity:
    """How two models decide the same pairs.

    Args:
        title: of the pairs.
        before, after: accuracy of the first and of the second, by folds.
        difference: second less first, by McNemar's exact test.
    """

    title: str
    before: Estimate | NotMeasurable
    after: Estimate | NotMeasurable
    difference: Difference


def embedding_parity(first: npt.ArrayLike, second: npt.ArrayLike) -> Parity:
    """Compare two models' embeddings of the same images.

    Args:
        first, second: (N, dim), a row for each image.

    Example:
        >>> embedding_parity([[3, 0], [0, 2]], [[1, 0], [3, 4]])
        Parity(images=2, mean_cosine=0.9, least_cosine=0.8)
    """
    one, two = (np.asarray(each, np.float64) for each in (first, second))
    if one.shape != two.shape or one.ndim != 2 or not len(one):
        raise ValueError(f"first is {one.shape}, second {two.shape}; expected two arrays of one shape (N, dim)")
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise ValueError("first or second has an embedding that is zero or not finite")
    cosines = (one * two).sum(1) / lengths
    return Parity(len(one), float(cosines.mean()), float(cosines.min()))


def pair_parity(first: Embeddings, second: Embeddings, pairs: PairList) -> PairParity:
    """Compare two models' decisions on the same pairs.

    Args:
        first, second: the embeddings of all images of the list, by the one and by the other.
        pairs: to be verified.

    Example:
        >>> pairs = hs.evaluation.protocols.read_pairs("lfw-pairs.txt")
        >>> embeddings = hs.evaluation.load_embeddings("E.npy", "L.txt")
        >>> pair_parity(embeddings, embeddings, pairs).difference.estimate.value
        0.0
    """
    before, after = (evaluate_pairs([(pairs, each)]) for each in (first, second))
    difference = mcnemar(before.items["right"], after.items["right"])
    return PairParity(pairs.title, before.metrics["accuracy"], after.metrics["accuracy"], difference)
