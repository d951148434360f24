"""Augmentation of the batches of steps in a row, planned for several steps at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hypersphere.core import check_integer
from hypersphere.data.augment import Augmentation, Layout, check_images, onto


class AugmentedSteps:
    """What an `Augmentation` makes of the batches of steps, each by random numbers of its own.

    A plan is some 190 operations on a few numbers of each image, which take the host as long for one batch as for
    several. It is made, and sent to the images' device, for several steps at once, those from a multiple of `ahead` on.
    Every row is planned for itself: the numbers are those of each step alone.

    Args:
        augment: what becomes of an image.
        draw: called as `draw(step, images)`: the random numbers of so many images of a step, (images, 16).
        ahead: steps that are planned at once.
        compile: compile what happens to pixels, as `Augmentation.compiled` does.

    Example:
        >>> def draw(step: int, images: int) -> Tensor:
        ...     return Augmentation.draw(images, torch.Generator().manual_seed(step))
        >>> augment = AugmentedSteps(Augmentation(flip=0.5, rotate=0.5), draw, ahead=8)
        >>> images = augment(source.batch(batches.batch_at(3)), step=3)
    """

    def __init__(
        self,
        augment: Augmentation,
        draw: Callable[[int, int], Tensor],
        *,
        ahead: int = 1,
        compile: bool = False,  # noqa: A002
    ) -> None:
        self.augment, self.draw, self.ahead = augment, draw, check_integer("ahead", ahead, 1)
        self._change = augment.change(compile=compile)
        self._planned: tuple[object, ...] = ()
        self._numbers, self._layout = torch.empty(0), Layout()

    def __call__(self, images: Tensor, step: int) -> Tensor:
        """Return the images of a step changed and normalised, as `Augmentation` does."""
        check_images(images)
        first = step - step % self.ahead
        wanted = first, images.shape, images.device
        if self._planned != wanted:
            draws = torch.cat([self.draw(each, len(images)) for each in range(first, first + self.ahead)])
            numbers, self._layout = self.augment.plan(draws, *images.shape[1:])
            self._numbers = onto(numbers.view(self.ahead, len(images), numbers.shape[1]), images.device)
            self._planned = wanted
        return self._change(images, self._numbers[step - first], self._layout)
