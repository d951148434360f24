"""The keywords of `create_head`, loss by loss, for editors and type checkers; a test compares them with the losses.

`HeadOptions` has those of every head, described by `create_head`, and each of the others adds the options of one loss,
described by the loss's own docstring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor

from hypersphere.distributed import GroupLike
from hypersphere.engines import Precision

Additions = Mapping[str, Mapping[str, Any]]


class HeadOptions(TypedDict, total=False):
    """Keywords of every head."""

    prototypes: str | Tensor
    prototype_norm: float | None
    renormalize: bool
    engine: str
    chunk_size: int | None
    precision: Precision | None
    budget: int | None
    eps: float
    add: Additions | None
    shard: GroupLike | None
    sample: float | None
    unbiased: bool
    unit_gradients: bool
    subcenters: int
    reduction: str
    validate: bool
    device: torch.device | str | None
    dtype: torch.dtype | None


class AmpFaceOptions(HeadOptions, total=False):
    """Of `ampface`."""

    scale: float
    margin: float
    wrong_class_relu: bool
    margin_grad: str
    margin_steps: int


class ArcFaceOptions(HeadOptions, total=False):
    """Of `arcface`."""

    scale: float
    margin: float
    power: float
    margin_grad: str
    margin_steps: int


class CContrastiveOptions(HeadOptions, total=False):
    """Of `c_contrastive`."""

    margin: float


class CTripletOptions(HeadOptions, total=False):
    """Of `c_triplet`."""

    margin: float
    negatives: str
    center: bool


class CenterOptions(HeadOptions, total=False):
    """Of `center`."""

    alpha: float
    normalize: bool


class CircleOptions(HeadOptions, total=False):
    """Of `circle`."""

    scale: float
    margin: float


class CoCoOptions(HeadOptions, total=False):
    """Of `coco`."""

    scale: float


class ContrastiveOptions(HeadOptions, total=False):
    """Of `contrastive`."""

    margin: float
    distance: str


class CosFaceOptions(HeadOptions, total=False):
    """Of `cosface`."""

    scale: float
    margin: float
    power: float
    margin_grad: str
    margin_steps: int


class CurricularFaceOptions(HeadOptions, total=False):
    """Of `curricularface`."""

    scale: float
    margin: float
    momentum: float
    margin_grad: str


class FocalOptions(HeadOptions, total=False):
    """Of `focal`."""

    gamma: float
    bias: bool


class GMSoftmaxOptions(HeadOptions, total=False):
    """Of `gm_softmax`."""

    scale: float
    alpha1: float
    beta1: float
    alpha2: float
    beta2: float


class HypersphericalEnergyOptions(HeadOptions, total=False):
    """Of `hyperspherical_energy`."""

    exponent: float


class LSoftmaxOptions(HeadOptions, total=False):
    """Of `l_softmax`."""

    margin: int
    anneal: Mapping[str, float] | None
    margin_grad: str


class LabelAwareSmoothingOptions(HeadOptions, total=False):
    """Of `label_aware_smoothing`."""

    class_counts: Sequence[float] | Tensor | None
    head_smoothing: float
    tail_smoothing: float
    bias: bool
    weight_scaling: bool


class LabelSmoothingOptions(HeadOptions, total=False):
    """Of `label_smoothing`."""

    smoothing: float
    bias: bool


class LDAMOptions(HeadOptions, total=False):
    """Of `ldam`."""

    class_counts: Sequence[int] | Tensor | None
    max_margin: float
    scale: float


class LMSoftmaxOptions(HeadOptions, total=False):
    """Of `lm_softmax`."""

    scale: float


class NormFaceOptions(HeadOptions, total=False):
    """Of `normface`."""

    scale: float | None
    learnable_scale: bool | None
    normalize: str
    power: float


class SampleMarginOptions(HeadOptions, total=False):
    """Of `sample_margin`."""

    form: str


class SoftmaxOptions(HeadOptions, total=False):
    """Of `softmax`."""

    bias: bool


class SphereFaceOptions(HeadOptions, total=False):
    """Of `sphereface`."""

    margin: int
    scale: float | None
    anneal: Mapping[str, float] | None
    margin_grad: str


class SphereFace2Options(HeadOptions, total=False):
    """Of `sphereface2`."""

    balance: float | None
    scale: float
    margin: float | None
    power: float
    margin_type: str
    negative_margin: float | None
    bias: str | None
    margin_grad: str
    adjustment_grad: str


class SphereFaceROptions(HeadOptions, total=False):
    """Of `sphereface_r`."""

    scale: float
    margin: float
    version: int
    margin_grad: str


class TripletOptions(HeadOptions, total=False):
    """Of `triplet`."""

    margin: float
    mining: str
    distance: str


class UnifiedOptions(HeadOptions, total=False):
    """Of `unified`."""

    scale: float
    m0: float
    m1: float
    m2: float
    m3: float
    wrong_class_relu: bool
    power: float
    margin_grad: str
    margin_steps: int
