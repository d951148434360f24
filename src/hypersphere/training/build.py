"""The parts of a run, made as its recipe says: network, head, optimizer, order of the images."""

from __future__ import annotations

import inspect
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from hypersphere.backbones import create_backbone
from hypersphere.backbones.resnet import ResNet
from hypersphere.core import Reporter, check_finite_number
from hypersphere.data import ClassBalancedBatches, IdentityBatches, ImageSource, ShuffledBatches
from hypersphere.distributed import World
from hypersphere.distributed.tensor_shards import check_shards_supported
from hypersphere.heads import Head, PairLoss, create_head, create_loss
from hypersphere.losses import OBJECTIVES
from hypersphere.optim import RowAdamW, RowSGD
from hypersphere.training.checkpoints import load_weights
from hypersphere.training.finished_run import load_run, newest_head
from hypersphere.training.own_loss import try_own_loss
from hypersphere.training.recipe import Recipe, StageStart
from hypersphere.training.semi_siamese import remember, starting_prototypes
from hypersphere.training.teacher import Teacher

Tensors = tuple[Tensor, ...] | list[Tensor]
Batches = ShuffledBatches | ClassBalancedBatches | IdentityBatches
_NOT_CHECKED = ("sharded", "loss_weight", "prototypes", "sample", "unbiased")
_FEW_CLASSES = 100
_PRECISIONS = {"bfloat16": torch.bfloat16, "float16": torch.float16}
_NEW_IN_RESNET = ("projection.", "bnneck.")


def check_parts(recipe: Recipe) -> None:
    """Raise ValueError where the network or a loss cannot be made, before any image is read.

    What depends on the number of classes is left to `make_head`.
    """
    if sharded_head(recipe):
        check_shards_supported()
    if recipe.train.gallery_view == "plain" and recipe.data.device is None:
        raise ValueError("train.gallery_view=plain needs images in memory, to have them twice: data.device=cuda or cpu")
    create = partial(create_backbone, input_size=recipe.data.size, channels=1 if recipe.data.grey else 3)
    with torch.device("meta"):
        create(**recipe.backbone)
    options = {key: value for key, value in recipe.head.items() if key not in _NOT_CHECKED}
    counts = options.get("class_counts", [1] * _FEW_CLASSES)
    if not isinstance(counts, list | tuple):
        raise ValueError(f"head.class_counts={counts!r} must be a list, the number of images of each class")
    if "class_counts" in inspect.signature(OBJECTIVES[options["name"]]).parameters:
        options["class_counts"] = counts
    head = create_head(dim=recipe.backbone["dim"], num_classes=len(counts), **options)
    if not type(head.objective).__module__.startswith("hypersphere."):
        try_own_loss(head)
    make_neck_losses(recipe)


def check_split(recipe: Recipe, world: World) -> None:
    """Raise ValueError where the parts of a batch cannot be of one size."""
    size, accumulate = recipe.train.batch_size, recipe.train.accumulate
    if size % (accumulate * world.size):
        raise ValueError(
            f"batch_size={size} must be a multiple of accumulate x processes = {accumulate} x {world.size}"
        )


def make_backbone(recipe: Recipe, start: Path | None) -> nn.Module:
    """Return the network, with the weights it starts from, frozen where the recipe says so."""
    data, settings = recipe.data, recipe.train
    network = create_backbone(input_size=data.size, channels=1 if data.grey else 3, **recipe.backbone)
    if start is not None:
        try:
            if start.is_dir():
                network.load_state_dict(load_run(start)[1].state_dict())
            else:
                _load_file(network, load_weights(start))
        except RuntimeError as error:
            name = recipe.backbone["name"]
            raise ValueError(f"train.start={start}: the weights do not fit {name} ({error})") from None
    return network.requires_grad_(not settings.freeze_backbone)


def _load_file(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load weights that others trained; a ResNet's may have ImageNet's classifier, but no neck and no projection."""
    if isinstance(network, ResNet):
        kept = {key: value for key, value in network.state_dict().items() if key.startswith(_NEW_IN_RESNET)}
        weights = kept | {key: value for key, value in weights.items() if not key.startswith("fc.")}
    network.load_state_dict(weights)


def sharded_head(recipe: Recipe) -> bool:
    """Return whether the classes are shared out over the processes, however many there are."""
    sharded = recipe.head.get("sharded", False)
    if not isinstance(sharded, bool):
        raise ValueError(f"head.sharded={sharded!r} must be true or false")
    return sharded


def make_head(recipe: Recipe, source: ImageSource, start: Path | None, world: World) -> Head:
    """Return the head, with class counts where its loss needs them, and the start run's state where it is kept.

    Its products are as narrow as the network's, unless the recipe says otherwise: so a GPU takes the fused engine.
    """
    options = recipe.head_options()
    if sharded_head(recipe) and world.size > 1:
        options |= {"shard": torch.distributed.group.WORLD, "device": world.device}
    parameters = inspect.signature(OBJECTIVES[options["name"]]).parameters
    if "class_counts" in parameters and "class_counts" not in options:
        labels = np.asarray(source.labels)
        options["class_counts"] = np.bincount(labels[labels >= 0], minlength=source.num_classes).tolist()
    options.setdefault("precision", None if recipe.train.precision == "float32" else recipe.train.precision)
    options.setdefault("validate", False)
    queued = recipe.train.semi_siamese is not None
    dim, moved = recipe.backbone["dim"], queued or recipe.teacher.centers
    if moved:
        options["prototypes"] = starting_prototypes(source.num_classes, dim)
        options.pop("prototype_norm", None)  # a recipe of learned prototypes may be the base
    head = create_head(dim=dim, num_classes=source.num_classes, **options)
    if queued:
        remember(head)
    if head.sampler is not None and head.sharding is None and world.size > 1:
        raise ValueError(
            f"head.sample on {world.size} processes needs sharded classes: equal heads would draw different ones"
        )
    if recipe.train.start_head and start is not None:
        try:
            head.load_state_dict(newest_head(start))
        except RuntimeError as error:
            raise ValueError(f"train.start={start}: its head does not fit ({error})") from None
    return head if head.sharding is not None else head.to(world.device)


def make_neck_losses(recipe: Recipe) -> list[tuple[float, PairLoss]]:
    """Return the weighted losses on the features before the network's neck."""
    if recipe.before_neck and not recipe.backbone.get("bnneck", False):
        raise ValueError("before_neck needs a network with a neck: backbone.bnneck=true (SFNet, resnet50, cnn4)")
    made = []
    for name, options in recipe.before_neck.items():
        rest = {key: value for key, value in options.items() if key != "weight"}
        weight = check_finite_number(f"before_neck.{name}.weight", options.get("weight", 1.0))
        made.append((weight, create_loss(name, validate=False, **rest)))
    return made


def start_of(recipe: Recipe, folder: Path) -> Path | None:
    """Return where a run in a folder begins from: a file of weights, the folder of a run, or None."""
    start = recipe.train.start
    if isinstance(start, StageStart):
        return folder.parent
    return None if start is None else Path(start)


def make_optimizer(recipe: Recipe, backbone: nn.Module, head: Head) -> torch.optim.Optimizer:
    """Return the optimizer; each group's `base` is its learning rate before the schedule."""
    settings = recipe.optimizer
    trained = [p for p in backbone.parameters() if p.requires_grad]
    own = [p for name, p in head.named_parameters() if name != "weight" and p.requires_grad]
    prototypes = [head.weight] if isinstance(head.weight, nn.Parameter) else []
    rows = {id(value) for value in head.per_class().values()} if sharded_head(recipe) else set()
    decay = settings.weight_decay if settings.prototype_weight_decay is None else settings.prototype_weight_decay
    groups: list[dict[str, Any]] = [
        {"params": trained, "base": settings.lr, "weight_decay": settings.weight_decay},
        {"params": prototypes, "base": settings.lr * settings.prototype_lr_factor, "weight_decay": decay},
        {"params": [p for p in own if id(p) in rows], "base": settings.lr, "weight_decay": 0.0},
        {"params": [p for p in own if id(p) not in rows], "base": settings.lr, "weight_decay": 0.0},
    ]
    if head.unit_gradients:
        if settings.name != "sgd" or settings.max_grad_norm is not None:
            raise ValueError("head.unit_gradients needs optimizer.name=sgd, and no optimizer.max_grad_norm")
        groups[1]["unit_eps"] = head.eps
    groups = [group for group in groups if group["params"]]
    fused = head.weight.device.type == "cuda"
    if settings.name == "sgd":
        return RowSGD(groups, settings.lr, momentum=settings.momentum, fused=fused)
    fused = fused and head.sharding is None  # torch's fused steps know no sharded tensors; RowSGD does those itself
    if settings.name == "adamw":
        return RowAdamW(groups, settings.lr, fused=fused)
    if head.sampler is not None:
        raise ValueError(f"head.sample needs optimizer.name sgd or adamw, which leave rows alone; not {settings.name}")
    return torch.optim.Adam(groups, lr=settings.lr, fused=fused)


def make_scaler(recipe: Recipe, world: World) -> torch.amp.GradScaler:
    """Return what scales the loss under float16, and skips the step on every rank if any rank overflowed."""
    enabled, device = recipe.train.precision == "float16", world.device.type
    if world.size > 1 and enabled:
        from hypersphere.training.loss_scaler import LossScaler

        return LossScaler(device)
    return torch.amp.GradScaler(device, enabled=enabled)


def autocast(recipe: Recipe, world: World) -> torch.autocast:
    """Return the context of the precision that a recipe gives the network."""
    dtype = _PRECISIONS.get(recipe.train.precision)
    return torch.autocast(world.device.type, dtype=dtype, enabled=dtype is not None)


def make_teacher(
    recipe: Recipe,
    source: ImageSource,
    folder: Path,
    world: World,
    *,
    compile: bool,  # noqa: A002
    progress: Reporter | None,
) -> Teacher | None:
    """Return the teacher of a recipe that has one; the arguments are those of `Teacher`."""
    if recipe.teacher.model is None:
        return None
    return Teacher(
        recipe.teacher,
        dim=recipe.backbone["dim"],
        source=source,
        augment=recipe.augment,
        world=world,
        folder=folder,
        compile=compile,
        progress=progress,
    )


def make_batches(recipe: Recipe, source: ImageSource, world: World) -> Batches:
    """Return the order of the images: this process's part of every batch."""
    settings, labels = recipe.train, np.asarray(source.labels)
    _check_held_out(recipe, labels)
    share: dict[str, Any] = {"seed": settings.seed, "rank": world.rank, "world_size": world.size}
    if settings.sampler == "identity":
        identities, rest = divmod(settings.batch_size, settings.images_per_identity)
        if rest:
            raise ValueError(
                f"batch_size={settings.batch_size} must be a multiple of images_per_identity="
                f"{settings.images_per_identity}"
            )
        return IdentityBatches(labels, identities, settings.images_per_identity, **share)
    if settings.sampler == "class_balanced":
        return ClassBalancedBatches(labels, settings.batch_size, **share)
    return ShuffledBatches(len(labels), settings.batch_size, **share)


def _check_held_out(recipe: Recipe, labels: npt.NDArray[Any]) -> None:
    """Refuse a batch that is more than the people held out leave to train on."""
    held, settings = recipe.data.validation.identities, recipe.train
    left = int((labels >= 0).sum()) if settings.sampler == "class_balanced" else len(labels)
    if settings.sampler == "identity" or not held or left >= settings.batch_size:
        return
    raise ValueError(
        f"train.batch_size={settings.batch_size} is more than the {left} images that are left to train on:"
        f" data.validation.identities={held:g} holds out the others; give train.batch_size={left} or fewer, or hold out"
        " fewer people"
    )


def total_steps(recipe: Recipe, batches: Batches) -> int:
    """Return how many optimizer steps the run has."""
    settings = recipe.train
    if settings.steps is not None:
        return settings.steps
    assert settings.epochs is not None
    return max(1, math.ceil(settings.epochs * batches.batches_per_epoch))


def make_averages(recipe: Recipe, network: nn.Module) -> dict[str, AveragedModel]:
    """Return the moving averages of a run: the `average` that is its model, the `gallery` of semi-siamese training."""
    decays = {"average": recipe.train.ema, "gallery": recipe.train.gallery_ema}
    return {name: make_average(network, decay) for name, decay in decays.items() if decay is not None}


def make_average(network: nn.Module, decay: float) -> AveragedModel:
    """Return an exponential moving average of a network's weights and buffers; counters are copied as they are."""

    def move(averages: Tensors, current: Tensors, _: Tensor | int) -> None:
        if averages[0].is_floating_point():
            torch._foreach_lerp_(averages, current, 1 - decay)
        else:
            torch._foreach_copy_(averages, current)

    average = AveragedModel(network, multi_avg_fn=move, use_buffers=True).eval().requires_grad_(False)
    average.n_averaged.fill_(1)  # the first step moves the weights that the run began with, and does not replace them
    return average
