"""How good embeddings are, with honest uncertainty."""

from hypersphere.evaluation.embed import embed
from hypersphere.evaluation.verification import Roc, Verification, roc_curve, verify_pairs, wilson_interval

__all__ = ["Roc", "Verification", "embed", "roc_curve", "verify_pairs", "wilson_interval"]
