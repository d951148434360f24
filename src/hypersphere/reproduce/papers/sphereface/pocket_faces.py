"""SphereFace on pocket faces: Fig. 10."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hypersphere.data import long_tailed_counts
from hypersphere.plots import Line, Panel, draw_panels
from hypersphere.reproduce.experiment.evidence import Evidence, experiment
from hypersphere.reproduce.experiment.setting import SOFTMAX, classes
from hypersphere.reproduce.experiment.verdict import of_correlation, over_seeds
from hypersphere.reproduce.outcome import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EVEN = SOFTMAX.but("softmax", "train.steps=1240")
_TAILED_COUNTS = long_tailed_counts(100, 60, 20.0)
_LONG_TAILED = classes(
    "CE",
    "softmax",
    "data.imbalance=long_tailed",
    "data.imbalance_ratio=20.0",
    count=100,
    images=60,
    steps=1500,
)


@experiment("sphereface/fig10", [_EVEN, _LONG_TAILED])
def biases(evidence: Evidence) -> Outcome:
    """Fig. 10: the biases of the last layer, and how they go with the size of a class."""
    spreads = evidence.values(_EVEN, "logit spread")
    all_biases = [record.arrays.get("bias", np.full(1, np.nan)) for record in evidence.records[_EVEN]]
    shares = np.array([bias.std() for bias in all_biases]) / spreads

    tailed = [record.arrays.get("bias", np.full(100, np.nan)) for record in evidence.records[_LONG_TAILED]]
    correlations = [float(np.corrcoef(bias, _TAILED_COUNTS)[0, 1]) for bias in tailed]

    def histogram() -> Figure:
        bins = np.linspace(-1, 1, 81) * max(float(np.abs(bias).max()) for bias in all_biases)
        lines = [
            Line(f"seed {seed}", (bins[1:] + bins[:-1]) / 2, np.histogram(bias, bins)[0])
            for seed, bias in zip(evidence.job.seeds, all_biases, strict=True)
        ]
        points = [
            Line(f"seed {seed}", _TAILED_COUNTS, bias, "o")
            for seed, bias in zip(evidence.job.seeds, tailed, strict=True)
        ]
        return draw_panels(
            [
                Panel("softmax, 200 people, 20 images each", "bias", "people", lines),
                Panel("softmax, 100 people, long-tailed", "training images of the person", "bias", points),
            ],
            width=4.8,
        )

    claim = evidence.judged(
        over_seeds(0.1 - shares),
        f"deviation of the biases over that of the logits: {', '.join(f'{share:.3f}' for share in shares)}",
        (_EVEN,),
        note="near zero: below 0.1. All classes have 20 images, so nothing asks for a bias",
    )
    grows = evidence.judged(
        of_correlation(float(np.mean(correlations)), len(_TAILED_COUNTS)),
        ", ".join(f"{correlation:+.2f}" for correlation in correlations),
        (_LONG_TAILED,),
        sentence="the bias of a class grows with its number of images: correlation over 100 people with 60 to 3 images",
    )
    ended = float(np.mean([bias.std() for bias in all_biases]))
    how = (
        "Pocket faces: cnn4 as a classifier of 200 people with 20 images of 32 x 32 each, 1,240 steps of AdamW, and of "
        "100 people with 60 to 3 images, 1,500 steps. Biases start as those of torch's linear layer, evenly "
        f"within 1/8 of zero, a deviation of 0.072; that of the 200 people's is {ended:.3f} after training."
    )
    return Outcome(findings=[claim, grows], figures={"fig10": histogram}, notes=[how])
