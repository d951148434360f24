"""Losses by family, one registry for all: softmax, margins, binary, proxies, pairs and regularisers."""

from hypersphere.losses.angular import RELEASED_ANNEAL, LSoftmax, SphereFace, SphereFaceR
from hypersphere.losses.batch import OBJECTIVES, Batch, Objective, SampleLoss
from hypersphere.losses.largest_margins import LDAM, GMSoftmax, LMSoftmax
from hypersphere.losses.logits import Logits
from hypersphere.losses.margin_softmax import AmpFace, ArcFace, Circle, CosFace, CurricularFace, Unified
from hypersphere.losses.pairs import Contrastive, Triplet
from hypersphere.losses.proxies import CContrastive, CTriplet
from hypersphere.losses.regularizers import Center, HypersphericalEnergy, SampleMargin, ZeroCentroid
from hypersphere.losses.sampled import Sample
from hypersphere.losses.sharded import ShardedBatch
from hypersphere.losses.softmax import (
    CoCo,
    Focal,
    LabelAwareSmoothing,
    LabelSmoothing,
    ModifiedSoftmax,
    NormFace,
    Softmax,
)
from hypersphere.losses.sphereface2 import SphereFace2

__all__ = [
    "LDAM",
    "OBJECTIVES",
    "RELEASED_ANNEAL",
    "AmpFace",
    "ArcFace",
    "Batch",
    "CContrastive",
    "CTriplet",
    "Center",
    "Circle",
    "CoCo",
    "Contrastive",
    "CosFace",
    "CurricularFace",
    "Focal",
    "GMSoftmax",
    "HypersphericalEnergy",
    "LMSoftmax",
    "LSoftmax",
    "LabelAwareSmoothing",
    "LabelSmoothing",
    "Logits",
    "ModifiedSoftmax",
    "NormFace",
    "Objective",
    "Sample",
    "SampleLoss",
    "SampleMargin",
    "ShardedBatch",
    "Softmax",
    "SphereFace",
    "SphereFace2",
    "SphereFaceR",
    "Triplet",
    "Unified",
    "ZeroCentroid",
]
