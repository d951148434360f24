"""Zhou et al., Learning Towards the Largest Margins, ICLR 2022."""

from hypersphere_papers.largest_margins import (
    balanced,
    digits,
    imbalanced,
    ranking,
    real_faces,
    theorems,
    two_stages,
)

__all__ = ["balanced", "digits", "imbalanced", "ranking", "real_faces", "theorems", "two_stages"]
