"""Settings that train on MNIST, for the `real` items."""

from __future__ import annotations

import functools
import json

from hypersphere_papers.engine.evidence import Evidence, Judge
from hypersphere_papers.engine.job import Job
from hypersphere_papers.engine.mnist import open_digits
from hypersphere_papers.engine.outcome import Outcome
from hypersphere_papers.engine.record_folder import image_path, is_record_folder
from hypersphere_papers.engine.setting import Setting

PLANE_STEPS, PLANE_BATCH = 624, 64
"""Of the runs with 2-D features: so few that a slow CPU is done in minutes."""
LONG_BATCH = 256
"""Of the same runs where they have whole epochs, as of all others."""
_RECORDED_EPOCHS = 20
"""Of the runs on record."""
_IMAGES = 60_000
"""That MNIST has to train on."""


def epochs_of(job: Job) -> int | None:
    """The epochs that were asked for; those of the runs on record where a folder of them is given."""
    return _RECORDED_EPOCHS if job.epochs is None and is_record_folder(job.data) else job.epochs


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
    """The steps of a run with 2-D features: few, or those of the epochs."""
    epochs = epochs_of(job)
    return PLANE_STEPS if epochs is None else steps_of_epochs(job, LONG_BATCH, epochs)


def plane(job: Job, title: str, head: str, *overrides: str) -> Setting:
    """A LeNet with 2-D features of digits."""
    batch_size = PLANE_BATCH if epochs_of(job) is None else LONG_BATCH
    net = ("backbone.name=lenet", "backbone.dim=2", f"train.batch_size={batch_size}")
    return digits(job, title, head, *net, *overrides, steps=plane_steps(job), measure="features")


def judge_planes(judge: Judge) -> Judge:
    """Decorator: only where all runs have features they are judged; otherwise it is said which have none."""

    @functools.wraps(judge)
    def judge_or_say(evidence: Evidence) -> Outcome:
        without = [setting for setting in evidence.records if evidence.stopped(setting)]
        if not without:
            return judge(evidence)
        finding = evidence.judged(None, "", without, sentence=evidence.job.entry.title)
        return Outcome(findings=[finding], notes=[how(evidence.job)])

    return judge_or_say


def how(job: Job) -> str:
    """How 2-D features were made."""
    epochs = epochs_of(job)
    length = f"{PLANE_STEPS} steps of batches of {PLANE_BATCH}" if epochs is None else f"{epochs} epochs"
    return (
        f"A LeNet with two convolutions a stage and 2-D features, {length} of MNIST; the paper does not print its "
        "network. Features are of 4,000 images drawn by lot, in half precision."
    )
