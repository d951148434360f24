"""Recipes: everything a run depends on, as frozen dataclasses read from TOML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from hypersphere.core import as_table, build, check_choice, check_positive, check_range
from hypersphere.data import Augmentation
from hypersphere.training.recipe_names import find_recipe
from hypersphere.training.recipe_tables import load_table, merge_tables, with_settings
from hypersphere.training.schedules import Schedule
from hypersphere.training.semi_siamese import check_semi_siamese
from hypersphere.training.teacher import TeacherSettings, check_teaching

_FILLED_IN = {
    "backbone": ("input_size", "channels"),
    "head": ("dim", "num_classes", "device", "dtype", "shard", "reduction"),
}
_MOST_IMAGES = 10**8
_LARGEST_SIDE = 4096
_LARGEST_DIM = 2**16


@dataclass(frozen=True, kw_only=True)
class StageStart:
    """`train.start` of a second stage: the end of the first stage, whose folder is the parent of the second's.

    Args:
        stage: its number.
    """

    stage: Literal[1]


@dataclass(frozen=True, kw_only=True)
class ValidationSettings:
    """What a run is scored on at every checkpoint, besides what it trains on.

    Args:
        identities: how many identities are held out of the training images; below 1, which share of them. They are
            drawn, with `data.seed`, from those with at least two images.
        count: pairs of their images, half of them of one person; fewer where there are not so many.
        pairs: a list of pairs to score besides, such as LFW's `pairs.txt`.
        images: where the images of that list are: a folder, an archive, a pack.
        flip: merge the embedding of each image with that of its mirror image.
        flip_merge: how: `sum` (NormFace), or `concat`, side by side (SphereFace).
    """

    identities: float = 0.0
    count: int = 6000
    pairs: str | None = None
    images: str | None = None
    flip: bool = False
    flip_merge: str = "sum"

    def __post_init__(self) -> None:
        check_choice("flip_merge", self.flip_merge, ("sum", "concat"))
        check_range("identities", self.identities, 0)
        if self.identities >= 1 and self.identities != int(self.identities):
            raise ValueError(f"identities={self.identities} must be a share below 1, or a whole number")
        check_range("count", self.count, 2, _MOST_IMAGES)
        if self.count % 2:
            raise ValueError(f"count={self.count} must be even: half of the pairs are of one person")
        if (self.pairs is None) != (self.images is None):
            raise ValueError("pairs and images belong together: the list, and where its images are")


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The training images.

    Args:
        source: `pocket` for procedural faces, or the path of a data set (folder, list, tar, .rec, idx, CIFAR). Empty in
            recipes for data that cannot be shipped: give `data.source=PATH`.
        format: of a path; guessed by default.
        size: height and width of the images.
        resize: resize images of another size, instead of refusing them. The aspect ratio is not kept.
        grey: one channel instead of three.
        check: read every image of a path once before the run starts; those that cannot be read are left out.
        unreadable: the share of such images above which the run does not start.
        identities, images_per_identity, difficulty: of pocket faces.
        imbalance: `long_tailed` or `step`, made by leaving images out.
        imbalance_ratio: rho, the largest class over the smallest.
        minority: mu, the share of small classes of `step`.
        label_noise: share of the labels of each class that are altered.
        most_images: only the so many identities with most images.
        images_per_class: at most so many images of every class, chosen at random, before `imbalance` leaves out more.
        exclude: a list of images to leave out of training, as `hypersphere data doubtful` writes it. Which identities
            are held out for validation, and their images, stay the same.
        device: read all images once, before the run, and hold their bytes there: `cuda` for sets that fit the card,
            `cpu` for the machine's memory. By default images are read when their step comes.
        validation: what the run is scored on.
        seed: of the images, of imbalance, of noise and of held-out identities.
    """

    source: str = "pocket"
    format: str | None = None
    size: tuple[int, int] = (64, 64)
    resize: bool = False
    grey: bool = False
    check: bool = True
    unreadable: float = 0.01
    identities: int = 200
    images_per_identity: int = 20
    difficulty: float = 1.0
    imbalance: str | None = None
    imbalance_ratio: float = 100.0
    minority: float = 0.5
    label_noise: float = 0.0
    most_images: int | None = None
    images_per_class: int | None = None
    exclude: str | None = None
    device: str | None = None
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.device is not None:
            check_choice("device", self.device, ("cpu", "cuda"))
        if self.imbalance is not None:
            check_choice("imbalance", self.imbalance, ("long_tailed", "step"))
        check_range("unreadable", self.unreadable, 0, 1)
        check_range("imbalance_ratio", self.imbalance_ratio, 1)
        check_range("minority", self.minority, 0, 1)
        check_range("label_noise", self.label_noise, 0, 1)
        check_range("identities", self.identities, 2)
        check_range("images_per_identity", self.images_per_identity, 1)
        if self.images_per_class is not None:
            check_range("images_per_class", self.images_per_class, 1)
        if self.source == "pocket" and self.identities * self.images_per_identity > _MOST_IMAGES:
            raise ValueError(f"identities times images_per_identity must be at most {_MOST_IMAGES:,}")
        for side in self.size:
            check_range("size", side, 1, _LARGEST_SIDE)


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """SGD, AdamW or Adam.

    Args:
        name: `sgd`, `adamw`, or `adam` (whose weight decay is added to the gradient).
        lr: learning rate before the schedule.
        momentum: of SGD.
        weight_decay: of the weights.
        prototype_lr_factor: of the learning rate of the prototypes; biases and factors of classes keep the full one.
        prototype_weight_decay: of the prototypes; the same as the rest's by default.
        max_grad_norm: largest norm of all gradients together.
    """

    name: str = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    prototype_lr_factor: float = 1.0
    prototype_weight_decay: float | None = None
    max_grad_norm: float | None = None

    def __post_init__(self) -> None:
        check_choice("name", self.name, ("sgd", "adamw", "adam"))
        check_positive("lr", self.lr)
        check_range("momentum", self.momentum, 0, 1)
        check_range("weight_decay", self.weight_decay, 0)
        check_range("prototype_lr_factor", self.prototype_lr_factor, 0)
        if self.prototype_weight_decay is not None:
            check_range("prototype_weight_decay", self.prototype_weight_decay, 0)
        if self.max_grad_norm is not None:
            check_positive("max_grad_norm", self.max_grad_norm)


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The run itself.

    Args:
        steps: optimizer steps; or give `epochs`.
        epochs: passes over the data.
        batch_size: images per optimizer step, over all processes and accumulated parts.
        accumulate: parts a batch is split into.
        sampler: `shuffled`; `class_balanced`; or `identity` with `images_per_identity` images of each.
        images_per_identity: K of the identity sampler.
        precision: of the backbone, and of the head's products in the fused engine: `float32`, `bfloat16` or `float16`
            (with a gradient scaler).
        snapshots: how many copies of the weights to keep from the end of the run; scores are then averaged over them
            (NormFace).
        snapshot_every: steps from one to the next.
        ema: decay of a moving average of the backbone's weights, which is then what is saved as the model.
        mixup: alpha of mixup; 0 switches off what a base or a first stage has.
        cutmix: alpha of CutMix, 1 in its paper; 0 likewise. With both, a fair coin of each batch chooses one.
        semi_siamese: train with prototypes that are the moving average's embeddings of other images; the negatives are
            so many identities, those seen last. For data with few images of each identity.
        gallery_ema: decay of the average that gives these prototypes, which is 1 / (1 - decay) steps behind; `ema` by
            default, and then the two are one.
        gallery_view: what that average sees: `augmented`, the images that the network sees; or `plain`, as they are.
        log_every, checkpoint_every: in steps; the end is always saved.
        keep: checkpoints to keep.
        start: what to begin from: a file with a backbone's weights, or the folder of a run. The weights of an
            ImageNet classifier fit `resnet50`: its last layer is left out, neck and projection stay new. A second stage
            has `{ stage = 1 }`, the end of the first.
        start_head: begin from the head of that run too, not from a new one.
        freeze_backbone: train the head alone.
        shift_batch_norm: let the statistics of a frozen backbone's BatchNorm follow the data.
        seed: of weights, order and augmentation.
    """

    steps: int | None = None
    epochs: float | None = None
    batch_size: int = 128
    accumulate: int = 1
    sampler: str = "shuffled"
    images_per_identity: int = 4
    precision: str = "float32"
    ema: float | None = None
    mixup: float | None = None
    cutmix: float | None = None
    semi_siamese: int | None = None
    gallery_ema: float | None = None
    gallery_view: str = "augmented"
    log_every: int = 20
    checkpoint_every: int = 200
    keep: int = 3
    snapshots: int = 0
    snapshot_every: int = 1000
    start: str | StageStart | None = None
    start_head: bool = False
    freeze_backbone: bool = False
    shift_batch_norm: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs")
        check_positive("steps or epochs", self.steps if self.steps is not None else self.epochs)
        check_choice("sampler", self.sampler, ("shuffled", "class_balanced", "identity"))
        check_choice("precision", self.precision, ("float32", "bfloat16", "float16"))
        for name in ("batch_size", "accumulate", "log_every", "checkpoint_every", "keep", "images_per_identity"):
            check_range(name, getattr(self, name), 1)
        if self.sampler == "identity" and self.batch_size % (self.accumulate * self.images_per_identity):
            raise ValueError(
                f"batch_size={self.batch_size} must be a multiple of accumulate={self.accumulate} times"
                f" images_per_identity={self.images_per_identity}: an identity's images stay together"
            )
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size={self.batch_size} must be a multiple of accumulate={self.accumulate}")
        check_range("snapshots", self.snapshots, 0)
        check_range("snapshot_every", self.snapshot_every, 1)
        if isinstance(self.start, str) and not self.start.strip():
            raise ValueError("start is empty; name a file of weights or the folder of a run, or leave it out")
        if self.start_head and self.start is None:
            raise ValueError("start_head needs start, the folder of the run that the head comes from")
        if self.shift_batch_norm and not self.freeze_backbone:
            raise ValueError("shift_batch_norm belongs to freeze_backbone=true: otherwise the statistics move anyway")
        check_choice("gallery_view", self.gallery_view, ("augmented", "plain"))
        for name in ("ema", "gallery_ema"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 0, 1)
        for name in ("mixup", "cutmix"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 0)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A whole run.

    Args:
        about: in a sentence, what it is.
        data: the images.
        augment: what is done to them.
        backbone: `name`, `dim` and the other keywords of `create_backbone`.
        head: `name`, `add` and the other keywords of `create_head`; `sharded = true` shares its classes out over the
            processes of the run, `loss_weight` is a factor on its loss (10 in SphereFace2's released configurations).
        before_neck: losses on the features before the backbone's neck, each with its `weight` and options: the triplet
            loss of the re-identification baseline.
        losses: by name, the options of losses that may stand in for the head's when they are compared.
        optimizer, schedule, train: how it is trained.
        teacher: a model to learn from.
        second: what a second stage changes; it begins from the backbone of the first.
    """

    about: str = ""
    data: DataSettings = field(default_factory=DataSettings)
    augment: Augmentation = field(default_factory=Augmentation)
    backbone: Mapping[str, Any] = field(default_factory=lambda: {"name": "sfnet4", "dim": 512})
    head: Mapping[str, Any] = field(default_factory=lambda: {"name": "softmax"})
    before_neck: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    losses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    schedule: Schedule = field(default_factory=Schedule)
    train: TrainSettings
    teacher: TeacherSettings = field(default_factory=TeacherSettings)
    second: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in ("backbone", "head"):
            if not isinstance(getattr(self, part).get("name"), str):
                raise ValueError(f"{part}.name is missing")
        for part, filled in _FILLED_IN.items():
            for key in filled:
                if key in getattr(self, part):
                    raise ValueError(f"{part}.{key} is not for recipes: the run itself sets it")
        dim = self.backbone.get("dim")
        if isinstance(dim, bool) or not isinstance(dim, int) or not 1 <= dim <= _LARGEST_DIM:
            raise ValueError(f"backbone.dim={dim!r} must be a whole number from 1 to {_LARGEST_DIM:,}")
        for name in ("mixup", "cutmix"):
            if getattr(self.train, name) and self.before_neck:
                raise ValueError(f"train.{name} mixes identities, which losses before_neck compare: choose one of them")
        check_teaching(self.teacher, self.train, self.head)
        check_semi_siamese(self.train, self.head)
        self.stages()

    def head_options(self) -> dict[str, Any]:
        """Return the keywords of `create_head` among the keys of `head`."""
        return {key: value for key, value in self.head.items() if key not in ("sharded", "loss_weight")}

    def stages(self) -> list[Recipe]:
        """Return this recipe alone; or its two stages, the second being the first with what `second` changes."""
        if not self.second:
            return [self]
        first = replace(self, second={})
        begun = merge_tables(as_table(first), {"train": {"start": {"stage": 1}}})
        try:
            return [first, build(Recipe, merge_tables(begun, self.second))]
        except ValueError as error:
            raise ValueError(f"second: {error}") from None


_OF_LEARNED_PROTOTYPES = ("prototype_norm", "renormalize")


def load_recipe(path: str | Path, settings: Sequence[str] = ()) -> Recipe:
    """Return a recipe from a TOML file, or a shipped one by name (`pocket/faces`), with `key.sub=value` settings.

    A setting `head.name=other` brings that loss's options from the recipe's `losses` table instead of the head's own;
    beside `head.prototypes=simplex` without those of learned prototypes.
    """
    path = find_recipe(path)
    table = load_table(path)
    try:
        return recipe_from_table(table, settings)
    except ValueError as error:
        message = str(error)
        if settings and _problem(table, []) != message:
            one = (setting for setting in settings if _problem(table, [setting]) == message)
            message = f"{next(one, ' '.join(settings))} over {path}: {message}"
        raise ValueError(message if str(path) in message else f"{path}: {message}") from None


def _problem(table: Mapping[str, Any], settings: Sequence[str]) -> str | None:
    """Return what is wrong with a table and some settings; None where nothing is."""
    try:
        recipe_from_table(table, settings)
    except ValueError as error:
        return str(error)
    return None


def recipe_keys() -> list[str]:
    """Return the keys of a recipe: all of its tables', and the common ones of networks and heads."""
    parts = {
        "data": DataSettings,
        "augment": Augmentation,
        "optimizer": OptimizerSettings,
        "schedule": Schedule,
        "teacher": TeacherSettings,
    }
    tables = [f"{part}.{entry.name}" for part, schema in parts.items() for entry in fields(schema)]
    common = ["backbone.name", "backbone.dim", "head.scale", "head.margin", "head.name"]
    return [*tables, *common, *(f"train.{entry.name}" for entry in fields(TrainSettings))]


def recipe_from_table(table: Mapping[str, Any], settings: Sequence[str] = ()) -> Recipe:
    """Return a recipe from a table as a TOML file has it, with settings on top as in `load_recipe`."""
    changed = with_settings({}, settings)
    own, losses = table.get("head"), table.get("losses")
    before, name = (each.get("name") if isinstance(each, Mapping) else None for each in (own, changed.get("head")))
    if isinstance(name, str) and name != before:
        found = losses.get(name) if isinstance(losses, Mapping) else None
        options = dict(found) if isinstance(found, Mapping) else {}
        if changed["head"].get("prototypes", "learned") != "learned":
            options = {key: value for key, value in options.items() if key not in _OF_LEARNED_PROTOTYPES}
        table = merge_tables(table, {"head": {"name": name, **options}})
    return build(Recipe, merge_tables(table, changed))
