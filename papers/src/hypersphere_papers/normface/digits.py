"""NormFace on MNIST with features of two dimensions: Figs. 2 and 3."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hypersphere.geometry import normalize
from hypersphere.plots import draw_features, new_figure
from hypersphere_papers.engine.digits import how, judge_planes, plane
from hypersphere_papers.engine.evidence import Evidence, experiment
from hypersphere_papers.engine.feature_spread import features_of
from hypersphere_papers.engine.outcome import Finding, Outcome
from hypersphere_papers.engine.verdict import over_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@experiment("normface/fig2", lambda job: [plane(job, "softmax, without bias", "softmax", "head.bias=false")])
@judge_planes
def radial(evidence: Evidence) -> Outcome:
    """Fig. 2: 2-D features under softmax, and the probability of class 0 over the plane."""
    ((setting, records),) = evidence.records.items()
    shares = np.array([mixed_up(*features_of(record, "")[1:]) for record in records])
    euclidean, angular = shares.mean(0)
    findings = [
        evidence.row(setting, "accuracy"),
        evidence.judged(
            over_seeds(shares[:, 0] - 2 * shares[:, 1]),
            f"{100 * euclidean:.1f} % against {100 * angular:.1f} % of random triplets",
            (setting,),
            sentence="a feature is nearer to one of another class than to one of its own more than twice as often by "
            "distance as by angle",
        ),
    ]
    title, features, labels = features_of(records[0], setting.title)
    weight = torch.from_numpy(records[0].arrays["prototypes"])
    figures = {"fig2": lambda: _draw_radial(title, features, labels, weight)}
    return Outcome(findings=findings, figures=figures, notes=[how(evidence.job)])


def mixed_up(features: Tensor, labels: Tensor, *, triplets: int = 200_000) -> tuple[float, float]:
    """Shares of random triplets (a, p of a's class, n of another) with n nearer to a than p: by distance, by angle."""
    g = torch.Generator().manual_seed(0)
    a, p, n = torch.randint(len(labels), (3, triplets * 12), generator=g)
    kept = (labels[a] == labels[p]) & (labels[a] != labels[n]) & (a != p)
    a, p, n = (index[kept] for index in (a, p, n))
    unit = normalize(features)
    euclidean = (features[a] - features[n]).norm(dim=1) < (features[a] - features[p]).norm(dim=1)
    angular = (unit[a] * unit[n]).sum(1) > (unit[a] * unit[p]).sum(1)
    return float(euclidean.double().mean()), float(angular.double().mean())


def _draw_radial(title: str, features: Tensor, labels: Tensor, weight: Tensor) -> Figure:
    figure = new_figure(8.0, 3.6)
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    reach = 1.05 * float(features.abs().max())
    left.scatter(features[:, 0].numpy(), features[:, 1].numpy(), c=labels.numpy(), cmap="tab10", s=1.5, rasterized=True)
    left.set(
        title=title, xlabel="feature 1", ylabel="feature 2", xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal"
    )
    grid = torch.linspace(-reach, reach, 300)
    plane = torch.stack(torch.meshgrid(grid, grid, indexing="xy"), dim=-1)
    probability = (plane @ weight.T).softmax(-1)[..., 0].numpy()
    picture = right.imshow(probability, origin="lower", extent=(-reach, reach, -reach, reach), cmap="cividis")
    figure.colorbar(picture, ax=right, label="probability of class 0")
    right.set(title="class 0 over the plane", xlabel="feature 1", ylabel="feature 2")
    right.grid(visible=False)
    return figure


@experiment("normface/fig3", lambda job: [plane(job, "with bias", "softmax", "head.bias=true")])
@judge_planes
def bias_at_zero(evidence: Evidence) -> Outcome:
    """Fig. 3: with a bias a class may lie around zero, where its directions mean nothing."""
    (records,) = evidence.records.values()
    panels, shares, findings = [], [], []
    for seed, record in zip(evidence.job.seeds, records, strict=True):
        title, features, labels = features_of(record, f"seed {seed}")
        centres = torch.stack([features[labels == c].mean(0) for c in range(10)]).norm(dim=1)
        share = float(centres.min() / centres.median())
        nearest = int(centres.argmin())
        unit = normalize(features[labels == nearest])
        turn = math.degrees(math.acos(min(1.0, float(unit.mean(0).norm()))))
        panels.append((title, features, labels))
        shares.append(share)
        what = f"seed {seed}: shortest class centre / median, and how far its directions spread, degrees"
        findings.append(Finding(what=what, ours=f"{share:.2f} (class {nearest}), {turn:.0f}"))
    findings.append(
        evidence.judged(
            None,
            f"shortest over median centre {min(shares):.2f} over {len(shares)} runs",
            list(evidence.records),
            sentence="with a bias some run has a class around zero (its centre at less than 0.4 of the median length)",
            note="a sentence about some run: few runs do not decide it; the paper shows two selected ones",
        )
    )
    return Outcome(findings=findings, figures={"fig3": lambda: draw_features(panels)}, notes=[how(evidence.job)])
