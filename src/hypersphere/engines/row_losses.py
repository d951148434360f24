"""What a loss makes of the two numbers of a row, for the fused engine to compute beside them.

Most losses are elementary functions of a row's target cosine and of its reduced negatives. Written with torch's
operators, such a function takes some fifty launches forward and backward, which at 10^4 to 10^5 classes last longer
than the products. A loss that can state its function in numbers hands it over, and one kernel computes it with its
derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MarginSoftmaxRow:
    """softplus(value - scale t), t = m0 cos(theta_y + m2) - m3, value the logsumexp of the negatives.

    Rows labelled -1 are left out of the mean.

    Args:
        scale: s.
        m0: factor of the target's cosine.
        m2: added to its angle, in radians.
        m3: subtracted from it.
        detached: the derivative of t is that of cos_y itself.
    """

    scale: float
    m0: float = 1.0
    m2: float = 0.0
    m3: float = 0.0
    detached: bool = False


@dataclass(frozen=True, kw_only=True)
class SphereFace2Row:
    """(positive_weight softplus(-(r (g(cos_y) - m) + b)) + negative_weight value) / r, value the sum of softplus.

    A row labelled -1 has the second term alone, and counts.

    Args:
        scale: r.
        margin: m of the target.
        negative_margin: m_n, in the offset r m_n + b of the negatives' terms.
        positive_weight, negative_weight: lambda and 1 - lambda.
        power: of the similarity adjustment g.
        detached: the derivative of g is 1.

    The bias b, where there is one, is a tensor of its own.
    """

    scale: float
    margin: float
    negative_margin: float
    positive_weight: float
    negative_weight: float
    power: float
    detached: bool


RowLoss = MarginSoftmaxRow | SphereFace2Row
