"""Draw the pictures of the documents, that of the rooms, and write the table of recipe keys: `make docs`."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import first_picture
import guide_pictures
import numpy as np
import recipe_keys
import record_tables
import rooms
import torch
from bench import FLOOR, Measured, draw_head_panels

from hypersphere.data import Augmentation
from hypersphere.engines import Similarity
from hypersphere.evaluation import roc_curve
from hypersphere.losses import AmpFace, ArcFace, CosFace, NormFace, Objective, SphereFace, SphereFaceR
from hypersphere.plots import draw_roc, new_figure, save_figure
from hypersphere.pocket import PocketFaces, contact_sheet
from hypersphere.theory import TOY_LOSSES, solve_toy
from hypersphere.training import RecordFile
from hypersphere_papers.laboratory import THEOREMS, draw_toy

IMAGES = Path(__file__).parents[1] / "docs" / "images"

RECORDS = Path(__file__).parents[1] / "papers" / "records"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "head.csv"
HEADS = (
    FLOOR,
    "hypersphere ArcFace",
    "hypersphere ArcFace (captured)",
    "hypersphere ArcFace (128 MiB budget)",
    "hypersphere SphereFace2",
    "plain torch ArcFace (compiled)",
    "plain torch ArcFace",
    "pytorch-metric-learning ArcFace",
    "CCE (no margin)",
)

MARGINS: dict[str, Objective] = {
    "cos θ (no margin)": NormFace(),
    "CosFace, m = 0.35": CosFace(margin=0.35),
    "ArcFace, m = 0.5": ArcFace(margin=0.5),
    "AmpFace, m = 0.35": AmpFace(margin=0.35),
    "SphereFace-R v1, m = 1.5": SphereFaceR(margin=1.5, version=1),
    "SphereFace, m = 4: ψ(θ)": SphereFace(margin=4, anneal=None),
}

REAL_FACES = {
    f"real/ladder/{name}": title
    for name, title in {
        "sfnet10-flips": "CosFace, flips alone",
        "sfnet10": "+ augmentation",
        "sfnet10-sphereface2": "+ SphereFace2, t = 5",
        "sfnet10-sphereface2-t8": "the same, t = 8",
        "sfnet10-scale16": "+ scale 16, margin 0.2",
        "sfnet10-growing-margin": "+ growing margin",
        "sfnet10-cleaned": "+ cleaning, 2 %",
        "sfnet10-subcenters": "+ two sub-centres",
        "sfnet10-class-balanced": "+ scale 16, class-balanced",
        "sfnet10-sst-flips": "SST, flips alone",
        "sfnet10-sst": "SST + augmentation",
        "sfnet10-sst-80": "the same, 80 epochs",
        "iresnet18": "IResNet-18, CosFace, 50 epochs",
        "iresnet18-scale16": "the same, scale 16, margin 0.2",
        "iresnet18-sphereface2": "the same, SphereFace2, t = 5",
    }.items()
}
"""Runs of docs/results/faces.md, and what they are called there."""
_LFW_PAIRS = 3000
"""Of one person, and as many of two."""

REAL_SETS = {"lfw-pairs": "LFW, 6,000 pairs", "held-out identities": "500 people held out, 30,000 pairs"}


def draw_margins() -> Any:
    """The target's logit over its angle, for each kind of margin."""
    angles = torch.linspace(0, math.pi, 721, dtype=torch.float64)
    figure = new_figure(7.0, 3.6)
    axes = figure.add_subplot()
    for name, loss in MARGINS.items():
        axes.plot(angles.rad2deg(), loss.with_margin(angles.cos()), label=name)
    axes.set(xlabel="target angle θ (degrees)", ylabel="target logit / s", xlim=(0, 180), xticks=range(0, 181, 30))
    axes.legend(loc="lower left")
    return figure


def draw_adjustment() -> Any:
    """SphereFace2's similarity adjustment for several t (its Fig. 6)."""
    cosines = torch.linspace(-1, 1, 801, dtype=torch.float64)
    figure = new_figure(5.0, 3.4)
    axes = figure.add_subplot()
    for power in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0):
        axes.plot(cosines, Similarity(power).value(cosines), label=f"t = {power:g}")
    axes.set(xlabel="cos θ", ylabel="g(cos θ)", xlim=(-1, 1), ylim=(-1, 1))
    axes.legend(loc="upper left")
    return figure


def draw_spheres() -> Any:
    """The spheres of the toy problem."""
    return draw_toy({loss: solve_toy(loss) for loss in TOY_LOSSES})


def draw_pocket_faces() -> Any:
    """A contact sheet of pocket faces, an identity a row."""
    source = PocketFaces(num_identities=6, images_per_identity=12, size=64)
    figure = new_figure(5.2, 2.7)
    axes = figure.add_subplot()
    axes.imshow(contact_sheet(source, range(6), 12))
    axes.set_axis_off()
    return figure


def draw_augmentation() -> Any:
    """Pocket faces under each kind of augmentation, a kind a row, and under all of them."""
    faces = PocketFaces(num_identities=8, images_per_identity=1, size=64).batch(range(8))
    sets: dict[str, dict[str, Any]] = {
        "as they are": {},
        "flip": {"flip": 0.5},
        "shift": {"shift": 1.0, "max_shift": 6},
        "rotate": {"rotate": 1.0},
        "zoom": {"zoom": 1.0, "zoom_range": (0.7, 1.4)},
        "crop": {"crop": 1.0},
        "crop, resized": {"crop": 1.0, "crop_area": (0.4, 1.0), "crop_resize": True},
        "low_resolution": {"low_resolution": 1.0},
        "photometric": {"photometric": 1.0},
        "grey": {"grey": 0.5},
        "erase": {"erase": 1.0},
        "a mixture": {
            **dict.fromkeys(("flip", "rotate", "zoom", "shift", "erase"), 0.5),
            **dict.fromkeys(("crop", "low_resolution", "photometric", "grey"), 0.2),
        },
    }
    figure = new_figure(5.2, 6.0)
    for number, (name, settings) in enumerate(sets.items(), 1):
        changed = Augmentation(**settings)(faces, torch.Generator().manual_seed(3)) / 2 + 0.5
        shown = torch.nn.functional.pad(changed.clamp(0, 1), (0, 4), value=1.0)
        axes = figure.add_subplot(len(sets), 1, number)
        axes.imshow(torch.cat(list(shown.permute(0, 2, 3, 1)), 1))
        axes.set(xticks=[], yticks=[], frame_on=False)
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


def draw_item(name: str, figure: str) -> Callable[[], Any]:
    """A figure of `hypersphere theory NAME`."""

    def draw() -> Any:
        return THEOREMS[name].compute().figures[figure]()

    return draw


def draw_heads() -> Any:
    """Time and memory of heads over the number of classes: the last figures of every contestant on a GPU."""
    with RESULTS.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["median_ms"] and "NVIDIA" in row["device"]]
    found: dict[int, dict[str, Measured | str]] = {}
    for row in rows:
        if row["contestant"] in HEADS:
            numbers = (float(row[key]) for key in ("median_ms", "low_ms", "high_ms", "hot_ms", "memory_mib"))
            found.setdefault(int(row["classes"]), {})[row["contestant"]] = Measured(*numbers)
    return draw_head_panels(
        {size: {name: found[size][name] for name in HEADS if name in found[size]} for size in sorted(found)}
    )


def real_runs(cell: str, name: str, folder: str = "losses") -> list[float]:
    """Per cent of a set's pairs that each run of a cell decides rightly."""
    record = RecordFile(RECORDS / folder / "results.jsonl")
    runs = [run for run in record.records.values() if run.cell == cell and not run.stopped]
    return [100 * run.scores[name].accuracy for run in runs]


def draw_real_runs(cells: dict[str, str], folder: str) -> Any:
    """Accuracy of every run of some cells on real faces: a dot a seed, a line at the mean."""
    figure = new_figure(9.0, 1.2 + 0.23 * len(cells))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (name, title) in zip(panels, REAL_SETS.items(), strict=True):
        for row, cell in enumerate(cells):
            values = real_runs(cell, name, folder)
            axes.plot(values, [row] * len(values), "o", color="C0", alpha=0.6)
            axes.plot([sum(values) / len(values)] * 2, [row - 0.3, row + 0.3], color="C1", linewidth=2)
        axes.set(xlabel="pairs decided rightly, %", title=title)
    panels[0].set_yticks(range(len(cells)), list(cells.values()))
    panels[0].invert_yaxis()
    return figure


def draw_real_faces_roc() -> Any:
    """The ROC curves on LFW of IResNet-18 in docs/results/faces.md."""
    folder = RECORDS / "faces"
    same = np.tile(np.repeat([True, False], 300), 10)
    one, two = np.loadtxt(folder / "lfw-cosines.csv", delimiter=",", skiprows=1, usecols=(0, 1)).T
    scores = {"three SphereFace2 together": (one + 2 * two) / 3, "SphereFace2": one}
    rocs = {title: roc_curve(each, same) for title, each in scores.items()}
    curves = {title: (roc.far, roc.tar) for title, roc in rocs.items()}
    with (folder / "ensemble-roc.csv").open(newline="") as file:
        rows = [(int(row["false_accepts"]), int(row["true_accepts"])) for row in csv.DictReader(file)]
    far, tar = np.array(rows, dtype=np.float64).T / _LFW_PAIRS
    return draw_roc({**curves, "three CosFace together": (far, tar)}, genuine=_LFW_PAIRS, impostor=_LFW_PAIRS)


def draw_real_sphereface2() -> Any:
    """Accuracy on real faces over SphereFace2's t, a line for each lambda."""
    figure = new_figure(8.0, 3.2)
    powers = (1.0, 2.0, 3.0, 5.0)
    for axes, (name, title) in zip(figure.subplots(1, 2), REAL_SETS.items(), strict=True):
        for balance in (0.6, 0.7, 0.8):
            means = []
            for power in powers:
                chosen = f"sphereface2, head.balance={balance}, head.power={power}, optimizer.lr=0.1"
                values = real_runs("sphereface2, optimizer.lr=0.1" if (balance, power) == (0.7, 3.0) else chosen, name)
                means.append(sum(values) / len(values))
            axes.plot(powers, means, "o-", label=f"λ = {balance}")
        axes.set(xlabel="t", ylabel="pairs decided rightly, %", title=title)
        axes.legend(loc="lower right")
    return figure


PICTURES = {
    "before-and-after": first_picture.draw_before_and_after,
    "heads": draw_heads,
    "margins": draw_margins,
    "adjustment": draw_adjustment,
    "pocket-faces": draw_pocket_faces,
    "augmentation": draw_augmentation,
    "spheres": draw_spheres,
    "real-losses": lambda: draw_real_runs(record_tables.LOSSES, "losses"),
    "real-losses-deep": lambda: draw_real_runs(record_tables.DEEP_LOSSES, "losses"),
    "real-faces": lambda: draw_real_runs(REAL_FACES, "faces"),
    "real-faces-roc": draw_real_faces_roc,
    "real-sphereface2": draw_real_sphereface2,
    "nearest": draw_item("nearest", "fig7"),
    "termination": draw_item("termination", "termination"),
    "decisions": draw_item("decisions", "fig17"),
    **guide_pictures.PICTURES,
}


def main() -> None:
    """Write the tables of recipe keys and of runs on record, then draw all pictures."""
    recipe_keys.main()
    record_tables.main()
    rooms.main()
    torch.set_num_threads(1)
    for name, draw in PICTURES.items():
        print(save_figure(draw(), IMAGES / f"{name}.png").relative_to(IMAGES.parents[1]), flush=True)


if __name__ == "__main__":
    main()
