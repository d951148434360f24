"""Protocols, each read from its official files."""

from hypersphere.evaluation.protocols.pair_list import PairList, read_pairs
from hypersphere.evaluation.protocols.pairs import evaluate_pairs
from hypersphere.evaluation.protocols.registry import PROTOCOLS, list_protocols

__all__ = ["PROTOCOLS", "PairList", "evaluate_pairs", "list_protocols", "read_pairs"]
