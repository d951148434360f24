"""Toys on real faces: features of two or three dimensions of the few people with most images."""

from __future__ import annotations

import math
from dataclasses import replace

from hypersphere_papers.engine.face_records import faces
from hypersphere_papers.engine.setting import Setting

_IMAGES = {2: 554, 6: 1326}
"""By the number of people, how many images they have."""
NOTE = (
    "Real faces ([losses.md](../results/losses.md#a-few-people-in-two-and-three-dimensions)): SFNet-4 at 16 x 16 on "
    "the people with most images. Features are those of the images trained on; numbers are means "
    "over seeds with Student's interval. The paper prints no network and no schedule."
)


def face_toy(
    title: str, head: str, *overrides: str, count: int, dim: int, batch: int = 32, steps: int = 2000
) -> Setting:
    """Features of so many dimensions of so many people.

    Args:
        title: of the setting.
        head: the loss.
        overrides: further settings.
        count: the people with most images of all.
        dim: 2 or 3.
        batch: images of a step.
        steps: about so many, in whole epochs.
    """
    epochs = math.ceil(steps / (_IMAGES[count] // batch))
    toy = (
        f"data.most_images={count}",
        "data.validation.identities=0",
        "data.size=[16,16]",
        "backbone.name=sfnet4",
        f"backbone.dim={dim}",
        f"train.batch_size={batch}",
        f"train.epochs={float(epochs)}",
        f"schedule.milestones=[{epochs * 6 // 10},{epochs * 17 // 20}]",
        "train.precision=float32",
        f"train.log_every={steps}",  # so few prototypes lie on one side for a while: no collapse
    )
    return replace(faces(title, head, *toy, *overrides), measure="features")
