"""Heads and pair losses by the name of their loss."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Unpack, overload

import torch
from torch import Tensor, nn

from hypersphere.core import (
    check_choice,
    check_finite_number,
    check_flag,
    check_integer,
    check_positive,
    check_range,
    nearest,
)
from hypersphere.distributed import ClassShards, GroupLike
from hypersphere.engines import EngineOptions, Precision, compute_dtype
from hypersphere.geometry import EPS
from hypersphere.heads import head_options
from hypersphere.heads.head import Head
from hypersphere.heads.sampling import Sampler, check_sampling
from hypersphere.heads.start import check_norm, draw_rows_, fixed_prototypes
from hypersphere.heads.validate import check_embeddings, check_labels, check_place, to_compute_dtype
from hypersphere.losses import OBJECTIVES, Batch, Contrastive, Objective, SampleLoss, Triplet

_LEAST, _LARGEST, _PRINTED = 1e-30, 1e12, 1e300


class PairLoss(nn.Module):
    """A loss on the embeddings of a batch alone: `loss(embeddings, labels)`."""

    def __init__(self, objective: Objective, eps: float = EPS, validate: bool = True) -> None:
        super().__init__()
        self.objective = objective
        self.eps = check_positive("eps", eps)
        self.validate = check_flag("validate", validate)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        check_embeddings(embeddings, None, values=self.validate)
        labels = check_labels(labels, embeddings, None, values=self.validate)
        with torch.autocast(embeddings.device.type, enabled=False):
            x = to_compute_dtype(embeddings, compute_dtype(embeddings))
            loss: Tensor = self.objective(Batch(embeddings=x, labels=labels, prototypes=x, eps=self.eps))
        return loss


@overload
def create_head(
    name: Literal["ampface"], *, dim: int, num_classes: int, **options: Unpack[head_options.AmpFaceOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["arcface"], *, dim: int, num_classes: int, **options: Unpack[head_options.ArcFaceOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["c_contrastive"], *, dim: int, num_classes: int, **options: Unpack[head_options.CContrastiveOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["c_triplet"], *, dim: int, num_classes: int, **options: Unpack[head_options.CTripletOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["center"], *, dim: int, num_classes: int, **options: Unpack[head_options.CenterOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["circle"], *, dim: int, num_classes: int, **options: Unpack[head_options.CircleOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["coco"], *, dim: int, num_classes: int, **options: Unpack[head_options.CoCoOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["contrastive"], *, dim: int, num_classes: int, **options: Unpack[head_options.ContrastiveOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["cosface"], *, dim: int, num_classes: int, **options: Unpack[head_options.CosFaceOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["curricularface"],
    *,
    dim: int,
    num_classes: int,
    **options: Unpack[head_options.CurricularFaceOptions],
) -> Head: ...
@overload
def create_head(
    name: Literal["focal"], *, dim: int, num_classes: int, **options: Unpack[head_options.FocalOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["gm_softmax"], *, dim: int, num_classes: int, **options: Unpack[head_options.GMSoftmaxOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["hyperspherical_energy"],
    *,
    dim: int,
    num_classes: int,
    **options: Unpack[head_options.HypersphericalEnergyOptions],
) -> Head: ...
@overload
def create_head(
    name: Literal["l_softmax"], *, dim: int, num_classes: int, **options: Unpack[head_options.LSoftmaxOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["label_aware_smoothing"],
    *,
    dim: int,
    num_classes: int,
    **options: Unpack[head_options.LabelAwareSmoothingOptions],
) -> Head: ...
@overload
def create_head(
    name: Literal["label_smoothing"],
    *,
    dim: int,
    num_classes: int,
    **options: Unpack[head_options.LabelSmoothingOptions],
) -> Head: ...
@overload
def create_head(
    name: Literal["ldam"], *, dim: int, num_classes: int, **options: Unpack[head_options.LDAMOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["lm_softmax"], *, dim: int, num_classes: int, **options: Unpack[head_options.LMSoftmaxOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["modified_softmax"], *, dim: int, num_classes: int, **options: Unpack[head_options.HeadOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["normface"], *, dim: int, num_classes: int, **options: Unpack[head_options.NormFaceOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["sample_margin"], *, dim: int, num_classes: int, **options: Unpack[head_options.SampleMarginOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["softmax"], *, dim: int, num_classes: int, **options: Unpack[head_options.SoftmaxOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["sphereface"], *, dim: int, num_classes: int, **options: Unpack[head_options.SphereFaceOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["sphereface2"], *, dim: int, num_classes: int, **options: Unpack[head_options.SphereFace2Options]
) -> Head: ...
@overload
def create_head(
    name: Literal["sphereface_r"], *, dim: int, num_classes: int, **options: Unpack[head_options.SphereFaceROptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["triplet"], *, dim: int, num_classes: int, **options: Unpack[head_options.TripletOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["unified"], *, dim: int, num_classes: int, **options: Unpack[head_options.UnifiedOptions]
) -> Head: ...
@overload
def create_head(
    name: Literal["zero_centroid"], *, dim: int, num_classes: int, **options: Unpack[head_options.HeadOptions]
) -> Head: ...
@overload
def create_head(name: str, *, dim: int, num_classes: int, **options: Unpack[head_options.HeadOptions]) -> Head: ...
def create_head(
    name: str,
    *,
    dim: int,
    num_classes: int,
    prototypes: str | Tensor = "learned",
    prototype_norm: float | None = None,
    renormalize: bool = False,
    engine: str = "auto",
    chunk_size: int | None = None,
    precision: Precision | None = None,
    budget: int | None = None,
    eps: float = EPS,
    add: head_options.Additions | None = None,
    shard: GroupLike | None = None,
    sample: float | None = None,
    unbiased: bool = False,
    unit_gradients: bool = False,
    subcenters: int = 1,
    reduction: str = "mean",
    validate: bool = True,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Head:
    """A head by the name of its loss.

    Args:
        name: one of `list_heads()`.
        dim: width of the embeddings.
        num_classes: number of prototypes, at least 2.
        prototypes: `learned`; or fixed: `simplex` (num_classes <= dim + 1), `tammes`, or a (num_classes, dim) tensor.
        prototype_norm: of learned prototypes at the start, drawn uniformly on that sphere. By default they start as the
            rows of `torch.nn.Linear` where the loss sees their lengths (softmax and its kin, L-Softmax), and from
            N(0, 0.01^2), as InsightFace's, where it does not. SphereFace's, SphereFace2's and NormFace's code has 1.
        renormalize: bring the prototypes back to that norm in every `head.advance()`, as the code of these three does.
            The loss does not change, but how far a step turns a prototype does: it is refused where the loss learns
            their lengths.
        engine, chunk_size, precision, budget: see `hypersphere.engines.EngineOptions`.
        eps: the epsilon of NormFace eq. 3; the released code's is 1e-6.
        add: further losses that share the prototypes, each with its weight and options, for example
            `{"c_contrastive": {"weight": 0.01}, "sample_margin": {"weight": 0.5}}`.
        shard: processes to share the classes (docs/sharding.md): a process group, or a device mesh of one dimension.
            All of them make the head, with the same seed.
        sample: share of the classes that a call in training mode sees (PartialFC, docs/sampling.md), in (0, 1]: those
            of its labels always, and random others. Gradients of prototypes are then sparse: train with `RowSGD` or
            `RowAdamW`, which leave the other rows alone.
        unbiased: weigh the sampled classes, so that sums over the negatives keep their mean.
        unit_gradients: let `weight.grad` be the gradient of the normalised prototypes, for a step of
            `RowSGD(unit_eps=head.eps)`, which takes it through the normalisation in the same pass.
        subcenters: K prototypes of every class, learned; a sample meets the nearest of each (Deng et al., Sub-center
            ArcFace, ECCV 2020, eq. 4). For labels with noise: wrong images of a class gather at a prototype of their
            own. `weight` is then (K num_classes, dim), a class's prototypes side by side. For `cosface`, `arcface`,
            `ampface` and `unified`; not with `add`, `shard`, `sample`; the fused engine leaves it to the chunked one.
        reduction: `mean` over the batch, or `none`: a loss for every row, 0 where the mean leaves it out (label -1).
        validate: look for NaN, infinity and labels out of range in every call, for which a GPU is waited for. False
            skips these checks of values (no GPU sync); shapes and dtypes are checked in any case.
        device, dtype: of the prototypes; a loss's own parameters stay float32.
        options: the loss's own keywords; its docstring lists them.

    Example:
        >>> head = create_head("arcface", dim=512, num_classes=85_742, scale=64, margin=0.5)
        >>> loss = head(embeddings, labels)
    """
    dim, num_classes = check_integer("dim", dim, 1), check_integer("num_classes", num_classes, 2)
    check_place(device, dtype)
    eps = check_positive("eps", check_range("eps", eps, 0, 1))
    check_choice("reduction", reduction, ("mean", "none"))
    flags = {"renormalize": renormalize, "unbiased": unbiased, "unit_gradients": unit_gradients, "validate": validate}
    for flag, value in flags.items():
        check_flag(flag, value)
    if unbiased and sample is None:
        raise ValueError("unbiased=True is about a sample of the classes: give sample, for example sample=0.1")
    engine_options = EngineOptions(engine=engine, chunk_size=chunk_size, precision=precision, budget=budget)
    sizes = {"dim": dim, "num_classes": num_classes}
    added = _added(add, sizes)
    objective = _objective(name, sizes, options)
    objectives = [objective, *(extra for _, extra in added.values())]
    for each in objectives:
        _check_objective(each, reduction, unit_gradients)
    fixed = fixed_prototypes(prototypes, num_classes, dim)
    if check_integer("subcenters", subcenters, 1) > 1:
        others = {"add": bool(add), "shard": shard is not None, "sample": sample is not None}
        _check_subcenters(objective, others | {"prototypes": fixed is not None}, subcenters)
    norm = check_norm(prototype_norm, renormalize, fixed is None, objectives)
    sharding = None if shard is None else ClassShards(shard, num_classes, device)
    if fixed is not None:
        rows = (fixed if sharding is None else sharding.shard_of(fixed)).to(device=device, dtype=dtype)
    else:
        draw = partial(draw_rows_, norm=norm, normalized=objective.normalizes_prototypes)
        if sharding is None:
            rows = draw(torch.empty(num_classes * subcenters, dim, device=device, dtype=dtype))
        else:
            rows = sharding.draw(torch.empty(0, dim, device=device, dtype=dtype), draw)
    weight = rows if sharding is None else sharding.to_dtensor(rows)
    for each in objectives:
        each.reset_parameters()
        each.to(device=device)
        if sharding is not None:
            sharding.shard_parameters(each, each.per_class)
    sampler = None
    if sample is not None:
        check_sampling(objectives, unbiased)
        sampler = Sampler(sample, unbiased, 0 if sharding is None else sharding.group.rank)
    return Head(
        objective,
        nn.Parameter(weight) if fixed is None else weight,
        added=added,
        sharding=sharding,
        sampler=sampler,
        renormalize_to=norm if renormalize else None,
        engine_options=engine_options,
        eps=eps,
        unit_gradients=unit_gradients,
        reduction=reduction,
        validate=validate,
        subcenters=subcenters,
    )


def create_loss(name: str, *, eps: float = EPS, validate: bool = True, **options: Any) -> PairLoss:
    """A loss that needs no prototypes: `contrastive` or `triplet`; `eps` and `validate` are as of `create_head`.

    Example:
        >>> triplet = create_loss("triplet", margin=0.2, mining="hard")
        >>> loss = triplet(embeddings, labels)
    """
    pairs = {entry.name: entry for entry in (Contrastive, Triplet)}
    if name not in pairs:
        hint = "it needs prototypes: use create_head. " if name in OBJECTIVES.names() else ""
        raise ValueError(f"{name!r} is no pair loss; {hint}{nearest(str(name), pairs)}")
    return PairLoss(_objective(name, {}, options), eps, validate)


def list_heads(pattern: str = "*") -> list[str]:
    """The names of all losses that `create_head` knows, matching a shell pattern.

    Example:
        >>> list_heads("sphere*")
        ['sphereface', 'sphereface2', 'sphereface_r']
    """
    return OBJECTIVES.names(pattern)


def _added(add: head_options.Additions | None, sizes: Mapping[str, int]) -> dict[str, tuple[float, Objective]]:
    """The further losses, each with its weight."""
    if add is not None and not isinstance(add, Mapping):
        raise ValueError(f"add={add!r} must map names of losses to their options, for example {{'center': {{}}}}")
    added = {}
    for name, settings in (add or {}).items():
        if not isinstance(settings, Mapping):
            raise ValueError(f"add[{name!r}] must map option names to values, for example {{'weight': 0.01}}")
        weight = check_finite_number(f"add[{name!r}]['weight']", settings.get("weight", 1.0))
        rest = {key: value for key, value in settings.items() if key != "weight"}
        added[name] = weight, _objective(name, sizes, rest)
    return added


def _check_objective(objective: Objective, reduction: str, unit_gradients: bool) -> None:
    """Refuse a loss that cannot do what its head is asked for."""
    if reduction == "none" and not isinstance(objective, SampleLoss):
        raise ValueError(f"reduction='none': {objective.name} is one number of the whole batch, not one per sample")
    if unit_gradients and not (objective.normalizes_prototypes and objective.depends_on_scores_only):
        raise ValueError(f"unit_gradients=True: {objective.name} depends on more than scores with unit prototypes")


def _check_subcenters(objective: Objective, others: Mapping[str, bool], subcenters: int) -> None:
    """Refuse several prototypes of a class where the loss, or another option, knows of one."""
    if not objective.takes_subcenters:
        raise ValueError(
            f"subcenters={subcenters}: {objective.name} has one prototype per class; cosface, arcface, ampface and"
            " unified take several"
        )
    for name, given in others.items():
        if given:
            raise ValueError(f"subcenters={subcenters} goes without {name}: that is about one prototype per class")


def _objective(name: str, sizes: Mapping[str, int], options: Mapping[str, Any]) -> Objective:
    entry = OBJECTIVES[name]
    parameters = inspect.signature(entry).parameters
    known = {key: parameters[key] for key in parameters if key not in ("dim", "num_classes")}
    for key, value in options.items():
        kind = str(known[key].annotation).removesuffix(" | None") if key in known and value is not None else ""
        if kind == "bool":
            check_flag(key, value)
        if kind in ("int", "float") and getattr(value, "ndim", None):
            raise ValueError(f"{key}={value!r:.80} must be one number")
        if key not in known:
            hint = nearest(key, known) if known else "it takes no options"
            raise ValueError(f"{name} has no option {key!r}; {hint}")
        size = abs(value) if isinstance(value, int | float) else 0
        shown = str(value) if size < _PRINTED else "..."
        if 0 < size < math.inf and not _LEAST <= size <= _LARGEST:
            raise ValueError(
                f"{key}={shown} of {name} must be 0 or lie between {_LEAST:g} and {_LARGEST:g} (or their negatives):"
                " float32 overflows beyond"
            )
    declared = {key: size for key, size in sizes.items() if key in parameters}
    objective: Objective = entry(**declared, **options)
    objective.options = dict(options)
    return objective
