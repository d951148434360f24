"""Distillation: a student learns to embed images as a teacher does.

The loss is the mean over the batch of 1 - cos(f(x), t(x)), f the student and t the teacher. The student's embeddings
are as wide as the teacher's: it is trained in the teacher's own space, so nothing is learned only to be thrown away,
and its embeddings may be compared with the teacher's.

With `centers`, the head's prototypes are no parameters but centres of the teacher's embeddings (AdaDistill, Boutros et
al., ECCV 2024): an image x of identity y with the teacher's unit embedding t moves its centre before the loss,

    w_y <- a w_y + (1 - a) t,    a = clip(cos(f(x), t) clip(cos(w_y, t), e, 1), e, 1),    e = 1e-6.

While the student knows little, a is small and the centre is the teacher's last word on one image; as it learns, the
centre becomes a mean of many, in which images that are far from it (hard or mislabelled ones) count more slowly. Of
several images of an identity in a batch, the centre is the mean of what each would make of it (the released code keeps
one of them).
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hypersphere.core import Reporter, check_choice, check_positive, whole_file
from hypersphere.core.read_arrays import read_npz
from hypersphere.data import Augmentation, ImageSource
from hypersphere.distributed import Group, World
from hypersphere.geometry import normalize
from hypersphere.models import Embedder, UnsupportedOperator, embedded_batches, load_model

_CHUNK = 256
_LEAST_SHARE = 1e-6


@dataclass(frozen=True, kw_only=True)
class TeacherSettings:
    """A model that the network learns to embed like; none by default.

    Args:
        model: its file, `.onnx` or `.safetensors`, or the folder of a run. Empty in recipes that need one: give
            `teacher.model=PATH`. `backbone.dim` must be its width.
        contract: of an ONNX file: a preset such as `opencv-sface`, or a file; by default that beside the model.
        views: what the teacher sees: `augmented`, the very images that the student sees, at every step; or `cached`,
            every training image once, as it is, and its mirror image (the target is the sum of both embeddings).
        weight: of the loss 1 - cos(student, teacher); `head.loss_weight` is that of the head's. Either may be 0 here,
            this one with `centers`.
        centers: let the head's prototypes be centres of the teacher's embeddings (AdaDistill) instead of learned ones.
        cache: file of the cached embeddings; `teacher.npz` in the run's folder by default. It states which model and
            which images it was made of, and is made anew for others.
    """

    model: str | None = None
    contract: str | None = None
    views: str = "augmented"
    weight: float = 1.0
    centers: bool = False
    cache: str | None = None

    def __post_init__(self) -> None:
        check_choice("views", self.views, ("augmented", "cached"))
        if self.weight != 0 or not self.centers:
            check_positive("weight", self.weight)
        for name in ("contract", "cache", "centers"):
            if getattr(self, name) not in (None, False) and self.model is None:
                raise ValueError(f"{name} belongs to a teacher: give teacher.model=PATH")
        if self.cache is not None and self.views != "cached":
            raise ValueError(f"cache={self.cache!r} belongs to views='cached', not {self.views!r}")


class Teacher:
    """What the teacher says of the images of a step, and the loss of a student that says otherwise.

    Args:
        settings: of the recipe.
        dim: width of the student's embeddings.
        source: the training images.
        augment: of the recipe: its normalisation is taken back before the images get the teacher's.
        world: the processes that train together: the main one writes the cache, the others wait and read it.
        folder: of the run.
        compile: hand the teacher's network to `torch.compile`.
        progress: called as `progress(done, total)` while the cache is made.
    """

    def __init__(
        self,
        settings: TeacherSettings,
        *,
        dim: int,
        source: ImageSource,
        augment: Augmentation,
        world: World,
        folder: Path,
        compile: bool = False,  # noqa: A002
        progress: Reporter | None = None,
    ) -> None:
        self.weight, self.cosine, device = settings.weight, torch.tensor(torch.nan), world.device
        self.group = Group(torch.distributed.group.WORLD) if world.size > 1 else None  # type: ignore[arg-type]
        embedder = load_teacher(settings, str(device))
        _check_fit(embedder, dim, source)
        self.targets: Tensor | None = None
        if settings.views == "cached":
            path = Path(settings.cache) if settings.cache is not None else folder / "teacher.npz"
            if not world.is_main:
                world.barrier()
            self.targets = cached_targets(embedder, source, path, progress if world.is_main else None).to(device)
            if world.is_main:
                world.barrier()
            return
        channels = source.batch([0]).shape[1]
        self.scale, self.offset = (each.to(device) for each in _renormalisation(augment, embedder, channels))
        self.bgr, self.channels = embedder.contract.colour == "bgr", embedder.contract.channels
        self.network = embedder.network
        if isinstance(self.network, nn.Module):
            self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if compile and device.type == "cuda":
            self.network = torch.compile(self.network)

    @torch.no_grad()
    def embed(self, images: Tensor, indices: Tensor, autocast: AbstractContextManager[Any]) -> Tensor:
        """Return the teacher's embeddings of a part of a batch, (B, dim).

        Args:
            images: what the student saw, as it saw them.
            indices: which images of the source they are, (B,).
            autocast: the precision of the network.
        """
        if self.targets is not None:
            return self.targets[indices.to(self.targets.device)]
        with autocast:
            embedded: Tensor = self.network(self.prepared(images))
        return embedded

    def loss(self, embeddings: Tensor, targets: Tensor) -> Tensor:
        """Return the weighted mean of 1 - cos over a part of a batch.

        Args:
            embeddings: the student's, (B, dim).
            targets: of the same images, what `embed` gave.
        """
        with torch.autocast(embeddings.device.type, enabled=False):
            cosines = (normalize(embeddings) * normalize(targets.to(embeddings.dtype))).sum(1)
        self.cosine = cosines.detach().mean()
        return self.weight * (1 - cosines).mean()

    @torch.no_grad()
    def move_centers(self, centers: Tensor, embeddings: Tensor, targets: Tensor, labels: Tensor) -> None:
        """Move the centres of the identities of a part of a batch, in place; every process moves those of all.

        Args:
            centers: (num_classes, dim).
            embeddings: the student's, (B, dim).
            targets: of the same images, what `embed` gave.
            labels: (B,); one labelled -1 moves nothing.
        """
        targets = normalize(targets.float())
        alike = (normalize(embeddings.float()) * targets).sum(1, keepdim=True)
        if self.group is not None:
            gathered = (self.group.all_gather(each).flatten(0, 1) for each in (alike, targets, labels))
            alike, targets, labels = gathered
        known = labels >= 0
        alike, targets, labels = alike[known], targets[known], labels[known]
        before = centers[labels].float()
        central = (normalize(before) * targets).sum(1, keepdim=True).clamp(_LEAST_SHARE, 1)
        share = (alike * central).clamp(_LEAST_SHARE, 1)
        sums, counts = torch.zeros_like(centers, dtype=torch.float32), centers.new_zeros(len(centers), 1)
        sums.index_add_(0, labels, share * before + (1 - share) * targets)
        counts.index_add_(0, labels, torch.ones_like(share, dtype=counts.dtype))
        centers.copy_(torch.where(counts > 0, sums / counts.clamp(min=1), centers))

    def prepared(self, images: Tensor) -> Tensor:
        """Images as the student reads them, as the teacher does: its channels, its order, its mean and deviation."""
        x = images.expand(-1, self.channels, -1, -1)
        x = x.flip(1) if self.bgr else x
        return x * self.scale + self.offset

    def log_values(self) -> dict[str, float]:
        """Return the mean cosine of the student's and the teacher's embeddings of the last images."""
        return {"teacher_cosine": float(self.cosine)}


def load_teacher(settings: TeacherSettings, device: str) -> Embedder:
    """Return the teacher on a device; cached embeddings of a graph that torch cannot compute come from onnxruntime."""
    if not settings.model:
        raise ValueError("teacher.model is empty: this recipe needs a model to learn from, teacher.model=PATH")
    try:
        return load_model(settings.model, settings.contract, device=device, runtime="torch")
    except UnsupportedOperator as error:
        if settings.views == "cached":
            return load_model(settings.model, settings.contract)
        raise ValueError(f"{error}; teacher.views=cached runs it once, by onnxruntime") from None


def cached_targets(embedder: Embedder, source: ImageSource, path: Path, progress: Reporter | None = None) -> Tensor:
    """(N, dim): the teacher's embedding of every image plus that of its mirror image, from a file where it has them.

    The file is made where it is missing, and anew where it was made by another model or of other images: it has the
    SHA-256 of the contract (with the digest of the weights) and of every image's bytes.

    Args:
        embedder: the teacher.
        source: the images.
        path: the `.npz`.
        progress: called as `progress(done, total)` while embeddings are made.
    """
    merged = embedder.with_flip("sum")
    key = _key(merged, source)
    if path.is_file():
        try:
            held = read_npz(path)
        except ValueError as error:
            warnings.warn(f"{error}; the teacher's embeddings are computed again", RuntimeWarning, stacklevel=2)
            held = {}
        values = held.get("embeddings")
        if str(held.get("key")) == key and values is not None and values.shape == (len(source), embedder.contract.dim):
            return torch.from_numpy(np.asarray(values, dtype=np.float32))
    how: dict[str, Any] = {"batch_size": _CHUNK, "workers": 0, "progress": progress, "name": embedder.name}
    batches = embedded_batches(
        source, np.arange(len(source)), lambda images: merged.raw(_fitting(images, embedder)), **how
    )
    embeddings = torch.cat([embedded for _, embedded in batches])
    with whole_file(path) as temporary:
        np.savez(temporary, embeddings=embeddings.numpy(), key=np.array(key))
    return embeddings


def _key(embedder: Embedder, source: ImageSource) -> str:
    found = hashlib.sha256(json.dumps(embedder.contract.table(), sort_keys=True).encode())
    for start in range(0, len(source), _CHUNK):
        found.update(source.batch(_places(start, source)).cpu().numpy().tobytes())
    return found.hexdigest()


def _places(start: int, source: ImageSource) -> Any:
    return np.arange(start, min(start + _CHUNK, len(source)))


def _fitting(images: Tensor, embedder: Embedder) -> Tensor:
    """8-bit images with the teacher's channels: grey ones three times."""
    return images.expand(-1, embedder.contract.channels, -1, -1).contiguous()


def _check_fit(embedder: Embedder, dim: int, source: ImageSource) -> None:
    contract, name = embedder.contract, embedder.name
    if contract.dim != dim:
        raise ValueError(f"the teacher {name} gives {contract.dim} numbers: use backbone.dim={contract.dim}, not {dim}")
    channels, *size = source.batch([0]).shape[1:]
    if tuple(size) != contract.input_size:
        wanted = list(contract.input_size)
        raise ValueError(f"the images are {size}, but the teacher {name} takes {wanted}: use data.size={wanted}")
    if channels > contract.channels:
        raise ValueError(f"the teacher {name} takes grey images: use data.grey=true")


def _renormalisation(augment: Augmentation, embedder: Embedder, channels: int) -> tuple[Tensor, Tensor]:
    """Factor and offset, (1, C, 1, 1), from the student's (x / 255 - mean) / std to the teacher's (x - mean) / std."""
    contract = embedder.contract

    def levels(values: float | tuple[float, ...], count: int) -> Tensor:
        given = torch.tensor(values, dtype=torch.float64).reshape(-1)
        return given.expand(count) if len(given) == 1 else given

    mean, std = (255 * levels(each, channels) for each in (augment.mean, augment.std))
    mean, std = (each.expand(contract.channels) if channels == 1 else each for each in (mean, std))
    if contract.colour == "bgr":
        mean, std = mean.flip(0), std.flip(0)
    own_mean, own_std = (levels(each, contract.channels) for each in (contract.mean, contract.std))
    shape = (1, -1, 1, 1)
    return (std / own_std).view(shape).float(), ((mean - own_mean) / own_std).view(shape).float()


def check_teaching(settings: TeacherSettings, train: Any, head: Mapping[str, Any]) -> None:
    """Raise ValueError where a recipe with a teacher asks for what cannot be had.

    Args:
        settings: of the teacher.
        train: `TrainSettings` of the same recipe.
        head: its table of the head.
    """
    weight = head.get("loss_weight", 1.0)
    if settings.centers:
        _check_centers(weight, train, head)
    if settings.model is None:
        check_positive("head.loss_weight", weight)
        return
    if weight != 0:
        check_positive("head.loss_weight", weight)
    if train.freeze_backbone:
        raise ValueError("a teacher teaches the backbone: leave train.freeze_backbone out")
    if settings.views == "cached" and (train.mixup or train.cutmix):
        raise ValueError("train.mixup and train.cutmix make images that no cache holds: use teacher.views=augmented")


def _check_centers(weight: float, train: Any, head: Mapping[str, Any]) -> None:
    """Raise ValueError where prototypes that are the teacher's centres do not go with another setting."""
    check_positive("head.loss_weight, with teacher.centers,", weight)
    if train.mixup or train.cutmix or train.semi_siamese is not None:
        raise ValueError("teacher.centers goes without train.mixup, train.cutmix and train.semi_siamese")
    for name in ("sharded", "sample", "subcenters", "prototypes", "renormalize", "unit_gradients"):
        if head.get(name):
            raise ValueError(f"head.{name} is about learned prototypes: with teacher.centers there are none")
