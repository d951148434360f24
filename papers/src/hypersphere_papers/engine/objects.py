"""Settings that train on CIFAR-10, balanced and imbalanced, for the `real` items."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np

from hypersphere.data import long_tailed_counts, step_counts
from hypersphere_papers.engine.job import Job
from hypersphere_papers.engine.record_folder import image_path
from hypersphere_papers.engine.setting import Setting

IMAGES = 5000
"""Of every class, to train on."""
_EPOCHS, _LEAST_STEPS = 60, 8000
"""Of every run but two slow losses' on balanced classes; long-tailed 100, whose epochs are short, has 83."""
_BALANCED_BATCH, _IMBALANCED_BATCH = 256, 128
EPOCH_STEPS = math.ceil(10 * IMAGES / _BALANCED_BATCH)
"""Of the balanced runs."""
_LENGTHS_MATTER = ("softmax", "focal")
"""Losses whose prototypes have lengths; those of all others start as long as torch's linear layer's, 1 / sqrt(3)."""

LM_WEIGHT = 5.0
"""On LM-Softmax, whose gradients are s times smaller than those of the others by eq. 3.5's 1/s; its optimum stays."""

_LIGHT = (
    "data.size=[16,16]",
    "augment.shift=0.0",
    "backbone.name=sfnet4",
    "backbone.dim=512",
    "backbone.batch_norm=true",
)
"""SFNet-4 with BatchNorm at 16 x 16, flips alone: a run takes a minute of a CPU's core, and fits."""
_LIGHT_BALANCED, _LIGHT_IMBALANCED = 1000, 2000
"""Images of every class, and of the largest one."""
_LIGHT_STEPS = 1600
"""LM-Softmax has twice as many."""

NOTE = (
    "CIFAR-10's own 50,000 images to train and 10,000 to test on ([cifar.md](../results/cifar.md)); a ResNet-10 half "
    "as wide as the paper's ResNet-18, 60 epochs of 200 (83 of long-tailed 100; on balanced classes 120 for LM-Softmax "
    "and for NormFace at s = 64, which fit more slowly), the rate warmed up over 500 steps, otherwise as App. C. "
    "Numbers are means over seeds with Student's interval; gains of accuracy have theirs over test images and seeds."
)

LIGHT_NOTE = (
    "Small: runs that a CPU trains, an SFNet-4 with BatchNorm on 16 x 16 pixels and at most 1,000 images of a class "
    "(of imbalanced classes 2,000), 1,600 steps of 128 (LM-Softmax 3,200), flips alone. Right on about 60 % of the "
    "test images (balanced classes), they fit their training images, whose similarities and sample margins are shown, "
    "each class counting alike."
)


def measured(name: str, small: bool) -> str:
    """What a number is called in a record: of the small networks, right on few test images, that of training images."""
    return f"train {name}" if small and name in ("similarity", "sample margin") else name


def balanced(
    job: Job, title: str, head: str, *overrides: str, measure: str = "classes", light: bool = False
) -> Setting:
    """A loss on all of CIFAR-10 (App. C.2), or `light`; LM-Softmax, and NormFace at s = 64, for twice the steps."""
    if light:
        return replace(_light(job, title, head, _LIGHT_BALANCED, 10 * _LIGHT_BALANCED, *overrides), measure=measure)
    slow = head == "lm_softmax" or (head == "normface" and "head.scale=64.0" in overrides)
    steps = _steps(job, 10 * IMAGES, _BALANCED_BATCH) * (2 if slow and job.epochs is None else 1)
    return replace(_objects(job, title, head, steps, *overrides), measure=measure)


def imbalanced(
    job: Job, kind: str, ratio: float, title: str, head: str, *overrides: str, light: bool = False
) -> Setting:
    """A loss on CIFAR-10 with fewer images of some classes (App. C.3).

    Args:
        job: of the item.
        kind: `long_tailed` or `step`.
        ratio: rho, the largest class over the smallest.
        title: of the setting.
        head: the loss.
        overrides: further settings.
        light: small enough for a CPU.
    """
    largest = _LIGHT_IMBALANCED if light else IMAGES
    counts = (long_tailed_counts if kind == "long_tailed" else step_counts)(10, largest, ratio)
    uneven = (f"data.imbalance={kind}", f"data.imbalance_ratio={ratio}", "optimizer.weight_decay=2e-4", *overrides)
    if light:
        return _light(job, title, head, largest, int(np.sum(counts)), *uneven)
    steps = _steps(job, int(np.sum(counts)), _IMBALANCED_BATCH)
    return _objects(job, title, head, steps, f"train.batch_size={_IMBALANCED_BATCH}", *uneven)


def _light(job: Job, title: str, head: str, largest: int, images: int, *overrides: str) -> Setting:
    """A loss at the size that a CPU trains, with so many images of the largest class and in all."""
    steps = _LIGHT_STEPS * (2 if head == "lm_softmax" else 1)
    if job.epochs is not None:
        steps = job.epochs * math.ceil(images / _IMBALANCED_BATCH)
    small = (*_LIGHT, f"data.images_per_class={largest}", f"train.batch_size={_IMBALANCED_BATCH}")
    return replace(_objects(job, title, head, steps, *small, *overrides), small=True)


def _steps(job: Job, images: int, batch_size: int) -> int:
    each = math.ceil(images / batch_size)
    return max(_EPOCHS * each, _LEAST_STEPS) if job.epochs is None else job.epochs * each


def _objects(job: Job, title: str, head: str, steps: int, *overrides: str) -> Setting:
    path = image_path(job.data, "cifar10")
    source = () if path is None else (f"data.source={json.dumps(str(path))}",)
    fixed = any(entry.startswith("head.prototypes=") for entry in overrides)
    start = () if fixed or head in _LENGTHS_MATTER else ("head.prototype_norm=0.577",)
    chosen = (*source, f"head.name={head}", f"train.steps={steps}", *start, *overrides)
    return Setting(title, chosen, "classes", "cifar10")
