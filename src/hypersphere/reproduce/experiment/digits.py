"""Settings that train on MNIST, for the `real` items."""

from __future__ import annotations

import json

from hypersphere.reproduce.experiment.mnist import open_digits
from hypersphere.reproduce.experiment.record_folder import image_path
from hypersphere.reproduce.experiment.setting import Setting
from hypersphere.reproduce.job import Job

PLANE_STEPS, PLANE_BATCH = 624, 64
"""Of the runs with 2-D features: so few that a slow CPU is done in minutes."""
LONG_BATCH = 256
"""Of the same runs where a number of epochs is asked for, as of all others."""
_IMAGES = 60_000
"""That MNIST has to train on."""


def steps_of_epochs(job: Job, batch_size: int, epochs: int) -> int:
    """The steps of so many epochs, without the last batch of each where it is not full."""
    path = image_path(job.data, "mnist")
    images = _IMAGES if path is None else len(open_digits(path)[0])
    return epochs * (images // batch_size)


def digits(job: Job, title: str, head: str, *overrides: str, steps: int, measure: str = "classes") -> Setting:
    """A classification of digits, tested on MNIST's test images."""
    path = image_path(job.data, "mnist")
    source = () if path is None else (f"data.source={json.dumps(str(path))}",)
    return Setting(title, (*source, f"head.name={head}", f"train.steps={steps}", *overrides), measure, "mnist")


def plane_steps(job: Job) -> int:
    """The steps of a run with 2-D features: few, or those of the job's epochs."""
    return PLANE_STEPS if job.epochs is None else steps_of_epochs(job, LONG_BATCH, job.epochs)


def plane(job: Job, title: str, head: str, *overrides: str) -> Setting:
    """A LeNet with 2-D features of digits."""
    batch_size = PLANE_BATCH if job.epochs is None else LONG_BATCH
    net = ("backbone.name=lenet", "backbone.dim=2", f"train.batch_size={batch_size}")
    return digits(job, title, head, *net, *overrides, steps=plane_steps(job), measure="features")


def how(job: Job) -> str:
    """How 2-D features were made."""
    length = f"{job.epochs} epochs" if job.epochs is not None else f"{PLANE_STEPS} steps of batches of {PLANE_BATCH}"
    return (
        f"A LeNet with two convolutions a stage and 2-D features, {length} of MNIST; the paper does not print its "
        "network. 10,000 training images are drawn."
    )
