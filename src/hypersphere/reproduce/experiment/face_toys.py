"""Toys on real faces: features of two or three dimensions of the few people with most images."""

from __future__ import annotations

from dataclasses import replace

from hypersphere.reproduce.experiment.face_records import faces
from hypersphere.reproduce.experiment.setting import Setting

_BATCH = 128
_IMAGES = {2: 554, 6: 1326}
"""By the number of people, how many images they have."""
_STEPS = 3000
NOTE = (
    "Real faces ([losses.md](../results/losses.md)): SFNet-4 at 28 x 28 on the people with most images, 3,000 steps of "
    "batches of 128, flipped at random. Features are those of the images trained on; numbers are means over seeds with "
    "Student's interval. The paper prints no network and no schedule."
)


def face_toy(title: str, head: str, *overrides: str, count: int, dim: int) -> Setting:
    """Features of so many dimensions of so many people.

    Args:
        title: of the setting.
        head: the loss.
        overrides: further settings.
        count: the people with most images of all.
        dim: 2 or 3.
    """
    epochs = _STEPS // (_IMAGES[count] // _BATCH)
    toy = (
        f"data.most_images={count}",
        "data.validation.identities=0",
        "data.size=[28,28]",
        "backbone.name=sfnet4",
        f"backbone.dim={dim}",
        f"train.batch_size={_BATCH}",
        f"train.epochs={float(epochs)}",
        f"schedule.milestones=[{epochs * 6 // 10},{epochs * 17 // 20}]",
        "train.precision=float32",
        f"train.log_every={_STEPS}",  # so few prototypes lie on one side for a while: no collapse
    )
    return replace(faces(title, head, *toy, *overrides), measure="features")
