"""Objectives: the softmax family, binary, agents, pairs and regularisers, one registry for all."""

from hypersphere.losses.adaptive import Circle, CurricularFace
from hypersphere.losses.agents import CContrastive, CTriplet
from hypersphere.losses.angular import RELEASED_ANNEAL, LSoftmax, SphereFace
from hypersphere.losses.base import OBJECTIVES, Batch, Objective, SampleLoss
from hypersphere.losses.binary import SphereFace2
from hypersphere.losses.cosine import AmpFace, ArcFace, CoCo, CosFace, SphereFaceR, Unified
from hypersphere.losses.largest import LDAM, GMSoftmax, LMSoftmax
from hypersphere.losses.logits import Logits
from hypersphere.losses.pairs import Contrastive, Triplet
from hypersphere.losses.regularisers import Center, HypersphericalEnergy, SampleMargin, ZeroCentroid
from hypersphere.losses.sampled import Sample
from hypersphere.losses.sharded import Classes, ShardedBatch
from hypersphere.losses.softmax import Focal, LabelAwareSmoothing, LabelSmoothing, ModifiedSoftmax, NormFace, Softmax

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
    "Classes",
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
