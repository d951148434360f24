"""Protocols, each read from its official files."""

from hypersphere.evaluation.protocols.blufr.protocol import Blufr, read_blufr
from hypersphere.evaluation.protocols.classify.protocol import Classify, read_classify
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource
from hypersphere.evaluation.protocols.ijb.protocol import PRESETS, Ijb, IjbOptions, read_ijb
from hypersphere.evaluation.protocols.known_protocols import PROTOCOLS, Evaluated, list_protocols
from hypersphere.evaluation.protocols.megaface.protocol import Megaface, read_megaface
from hypersphere.evaluation.protocols.megaface.search import mate_pairs
from hypersphere.evaluation.protocols.pairs.pair_list import PairList, read_pairs
from hypersphere.evaluation.protocols.pairs.protocol import evaluate_pairs
from hypersphere.evaluation.protocols.reid.protocol import Reid, read_reid, reid_among
from hypersphere.evaluation.protocols.run_protocol import evaluate, protocol_options, run_protocol
from hypersphere.evaluation.protocols.templates import Pooling, pool_templates
from hypersphere.evaluation.protocols.write_evaluated import write_evaluated
from hypersphere.evaluation.protocols.ytf.protocol import Ytf, read_ytf

__all__ = [
    "PRESETS",
    "PROTOCOLS",
    "Blufr",
    "Classify",
    "EmbeddingSource",
    "Evaluated",
    "Ijb",
    "IjbOptions",
    "Megaface",
    "PairList",
    "Pooling",
    "Reid",
    "Ytf",
    "evaluate",
    "evaluate_pairs",
    "list_protocols",
    "mate_pairs",
    "pool_templates",
    "protocol_options",
    "read_blufr",
    "read_classify",
    "read_ijb",
    "read_megaface",
    "read_pairs",
    "read_reid",
    "read_ytf",
    "reid_among",
    "run_protocol",
    "write_evaluated",
]
