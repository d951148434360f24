"""The terms of a training loss: the head's, those before the network's neck, semi-siamese training, the teacher's.

The loss of a part of the batch is w (head + neck losses) + teacher. w makes the mean over parts and processes a mean
over the samples that count, and the teacher's term counts every image. Terms are added in this order: another order
would round the gradients otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from hypersphere.heads import Head, PairLoss
from hypersphere.training.build import make_neck_losses
from hypersphere.training.loading import Mixture, TrainingImages
from hypersphere.training.recipe import Recipe
from hypersphere.training.semi_siamese import SemiSiamese
from hypersphere.training.teacher import Teacher

Autocast = Callable[[], AbstractContextManager[Any]]


@dataclass
class BatchPart:
    """A part of a batch with what the network made of it.

    Args:
        images: as the network saw them: of a mixture, the mixed ones.
        labels: of the images before they were mixed.
        indices: of the images in their source.
        embeddings: of the network.
        before_neck: its features before the neck; the embeddings where no loss wants them.
        mixture: how images were mixed; None where they were not.
        targets: the teacher's embeddings, once they were asked for.
    """

    images: Tensor
    labels: Tensor
    indices: Tensor
    embeddings: Tensor
    before_neck: Tensor
    mixture: Mixture | None = None
    targets: Tensor | None = None


class LossTerm(Protocol):
    """A term of the loss."""

    def __call__(self, part: BatchPart) -> Tensor:
        """Return the term of a part of a batch, with its weight."""


@dataclass
class HeadTerm:
    """The head's loss; of mixed images that of both labels, each with its share."""

    head: Head
    weight: float
    teacher: TeacherTerm | None = None
    """Moves the prototypes before the loss, where they are centres of a teacher's embeddings."""

    def __call__(self, part: BatchPart) -> Tensor:
        if part.mixture is not None:
            _, order, share, rest = part.mixture
            own, other = self.head(part.embeddings, part.labels), self.head(part.embeddings, part.labels[order])
            mixed: Tensor = self.weight * (share * own + rest * other)
            return mixed
        if self.teacher is not None:
            targets = self.teacher.targets(part)
            self.teacher.teacher.move_centers(self.head.weight, part.embeddings, targets, part.labels)
        loss: Tensor = self.weight * self.head(part.embeddings, part.labels)
        return loss


@dataclass
class SemiSiameseTerm:
    """The loss of probes against the gallery network's embeddings of the same identities."""

    semi_siamese: SemiSiamese
    weight: float
    images: TrainingImages
    plain: bool
    """Whether the gallery network sees images as they are, not augmented."""
    autocast: Autocast

    def __call__(self, part: BatchPart) -> Tensor:
        shown = self.images.plain(part.indices) if self.plain else part.images
        return self.weight * self.semi_siamese.loss(part.embeddings, shown, part.labels, self.autocast())


@dataclass
class NeckTerm:
    """A pair loss on the features before the network's neck."""

    loss: PairLoss
    weight: float

    def __call__(self, part: BatchPart) -> Tensor:
        loss: Tensor = self.weight * self.loss(part.before_neck, part.labels)
        return loss


@dataclass
class TeacherTerm:
    """The loss of a student that embeds otherwise than its teacher."""

    teacher: Teacher
    autocast: Autocast

    def targets(self, part: BatchPart) -> Tensor:
        """Return the teacher's embeddings of the part, computed once."""
        if part.targets is None:
            part.targets = self.teacher.embed(part.images, part.indices, self.autocast())
        return part.targets

    def __call__(self, part: BatchPart) -> Tensor:
        return self.teacher.loss(part.embeddings, self.targets(part))


@dataclass
class TrainingLoss:
    """The weighted sum of a run's terms.

    Args:
        labelled: the terms that labels decide; a head of weight 0 is none of them.
        taught: the teacher's term.
    """

    labelled: list[LossTerm]
    taught: TeacherTerm | None = None

    def __call__(self, part: BatchPart, weight: Tensor | float) -> Tensor:
        """Return the loss of a part of a batch; `weight` is of the terms that labels decide."""
        loss = torch.zeros((), device=part.embeddings.device)
        for term in self.labelled:
            loss = loss + term(part)
        loss = weight * loss
        return loss if self.taught is None else loss + self.taught(part)

    def log_values(self) -> dict[str, float]:
        """Return what the teacher's term has to say of the last step."""
        return {} if self.taught is None else self.taught.teacher.log_values()


def make_loss(
    recipe: Recipe,
    head: Head,
    images: TrainingImages,
    semi_siamese: SemiSiamese | None,
    teacher: Teacher | None,
    *,
    autocast: Autocast,
) -> TrainingLoss:
    """Return the loss of a recipe; `autocast` gives the context of the network's precision."""
    weight = float(recipe.head.get("loss_weight", 1.0))
    taught = None if teacher is None else TeacherTerm(teacher, autocast)
    terms: list[LossTerm] = []
    if semi_siamese is not None:
        plain = recipe.train.gallery_view != "augmented"
        terms.append(SemiSiameseTerm(semi_siamese, weight, images, plain, autocast))
    elif weight:
        terms.append(HeadTerm(head, weight, taught if recipe.teacher.centers else None))
    terms += [NeckTerm(loss, factor) for factor, loss in make_neck_losses(recipe)]
    return TrainingLoss(terms, taught)
