"""The tables of docs/results, and the counts beside them, are those of the runs on record."""

import csv
import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest

from hypersphere.evaluation import verify_pairs
from hypersphere.training import RecordFile
from hypersphere_papers.engine.result_file import shipped_results
from hypersphere_papers.laboratory import load_catalogue

ROOT = Path(__file__).parents[2]
RECORDS, RESULTS = ROOT / "papers" / "records", ROOT / "docs" / "results"
README, LOSSES, FACES = (path.read_text() for path in (ROOT / "README.md", RESULTS / "losses.md", RESULTS / "faces.md"))
MEAN = re.compile(r"\| \**(\d+\.\d+ ± \d+\.\d+)\**")
"""A cell of a table that has the mean of several seeds, and begins with it."""
SEARCHES = (
    *(f"TAR at FAR 1e-4, {people}" for people in ("held out", "LFW")),
    "TPIR at FPIR 1e-1, held out",
    "TPIR at FPIR 1e-2, LFW",
    *(f"rank-1 among distractors, {people}" for people in ("held out", "LFW")),
    *(f"TAR at FAR 1e-6 among distractors, {people}" for people in ("held out", "LFW")),
    "VR at FAR 0.1 %, LFW",
    "DIR at FAR 1 %, LFW",
)
"""The columns of the table of searches."""


def runs(*names: str) -> list[dict[str, Any]]:
    return [json.loads(line) for name in names for line in (RECORDS / name).read_text().splitlines()]


def printed(values: list[float], digits: int = 2) -> str:
    return f"{fmean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def by_setting(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Runs that ended, by what they were asked for; the first network of the losses is SFNet-10 unless named."""
    found = defaultdict(list)
    for run in records:
        if not run["stopped"]:
            found[run["cell"].replace("backbone.name=sfnet10, ", "")].append(run)
    return [group for group in found.values() if len(group) > 1]


def test_fits_of_items_on_faces_are_those_of_the_runs_on_record() -> None:
    """Mean ||x|| and the lowest train accuracy, of every row of every item."""
    files = ("results", "searches", "features", "rankings", "margins", "biases")
    known = set()
    for group in [each for name in files for each in by_setting(runs(f"losses/{name}.jsonl"))]:
        lowest = min(run["train_accuracy"] for run in group)
        known.add((round(fmean(run["norm"] for run in group), 4), round(100 * lowest, 4), len(group)))
    faces = [entry.id for entry in load_catalogue().select(kind="real") if entry.data == "faces"]
    results = shipped_results()
    fits = [fit for name in faces if name in results for fit in results[name].fits if fit.norm is not None]
    assert len(fits) > 100
    for fit in fits:
        assert (fit.norm, fit.lowest_train_accuracy, fit.seeds - len(fit.stopped)) in known, fit


@pytest.mark.parametrize(
    ("page", "names", "rows"),
    [(LOSSES, ("losses/results.jsonl", "losses/searches.jsonl"), 100), (FACES, ("faces/results.jsonl",), 11)],
    ids=["losses", "faces"],
)
def test_accuracies_of_a_row_are_of_one_setting(page: str, names: tuple[str, ...], rows: int) -> None:
    """On LFW and on people held out."""
    known = set()
    for group in by_setting([run for name in names for run in runs(name) if run.get("scores") or run["stopped"]]):
        scores = [
            [100 * run["scores"][title]["accuracy"] for run in group] for title in ("lfw-pairs", "held-out identities")
        ]
        known.add(tuple(printed(each) for each in scores))
    per_cents = [[mean for mean in MEAN.findall(line) if re.search(r"\.\d\d$", mean)] for line in page.splitlines()]
    found = [tuple(means) for means in per_cents if len(means) == 2]
    assert len(found) == rows
    assert [row for row in found if row not in known] == []


def test_rows_of_searches_are_of_one_setting() -> None:
    """Templates, distractors and trials: means over seeds, in which every person counts alike."""
    groups = defaultdict(list)
    for run in RecordFile(RECORDS / "losses" / "searches.jsonl").records.values():
        if SEARCHES[0] in run.arrays:
            groups[run.cell.replace("backbone.name=sfnet10, ", "")].append(run)
    known = {
        tuple(f"{100 * fmean(run.arrays[name].array().mean() for run in group):.1f}" for name in SEARCHES)
        for group in groups.values()
    }
    table = LOSSES[LOSSES.index("| loss | TAR@FAR=1e-4") : LOSSES.index("What a list of pairs does not show")]
    rows = [line.split("|")[2:7] for line in table.splitlines()[2:] if line]
    found = [tuple(re.findall(r"\d+\.\d", " ".join(row))) for row in rows]
    assert len(found) == 39
    assert [row for row in found if row not in known] == []


def test_rows_of_rankings_and_of_margins_are_of_one_setting() -> None:
    """Means over seeds in which every person counts alike, and the least fit."""
    known = set()
    for file, names, digits in (
        ("rankings", ("precisions", "rank-1", "rank-10"), 2),
        ("margins", ("train similarity", "train sample margin"), 3),
    ):
        groups = defaultdict(list)
        for run in RecordFile(RECORDS / "losses" / f"{file}.jsonl").records.values():
            groups[run.cell].append(run)
        for group in groups.values():
            columns = [
                [
                    run.numbers[name] if name in run.numbers else 100 * float(run.arrays[name].array().mean())
                    for run in group
                ]
                for name in names
            ]
            lowest = min(100 * (run.train_accuracy or 0) for run in group)
            known.add(" | ".join([*(printed(column, digits) for column in columns), f"{lowest:.1f}"]))
    tables = LOSSES[LOSSES.index("| | mAP, %") : LOSSES.index("### Biases of softmax")]
    found = [line.split(" | ", 1)[1].removesuffix(" |") for line in tables.splitlines() if MEAN.search(line)]
    assert len(found) == 17 + 5
    assert [row for row in found if row not in known] == []


def test_rows_of_few_people_are_of_one_setting() -> None:
    """Angles of features in two and three dimensions: means over seeds; their ratio by seed, and the least fit."""
    groups: dict[tuple[str, int], list[tuple[float, float, float]]] = defaultdict(list)
    for run in RecordFile(RECORDS / "losses" / "features.jsonl").records.values():
        features, labels = (run.arrays[name].array().astype(np.float64) for name in ("features", "labels"))
        unit = features / np.linalg.norm(features, axis=1, keepdims=True)
        means = np.stack([unit[labels == label].mean(0) for label in np.unique(labels)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        within = np.degrees(np.arccos((unit * means[labels.astype(int)]).sum(1).clip(-1, 1))).mean()
        between = np.degrees(np.arccos((means @ means.T)[np.triu_indices(len(means), 1)].clip(-1, 1))).min()
        groups[run.cell, features.shape[1]].append((within, between, 100 * (run.train_accuracy or 0)))
    known = set()
    for group in groups.values():
        withins, betweens, fits = zip(*group, strict=True)
        ratios = ", ".join(f"{within / between:.3f}" for within, between, _ in group)
        known.add(f"{fmean(withins):.1f} | {fmean(betweens):.1f} | {ratios} | {min(fits):.1f}")
    table = LOSSES[LOSSES.index("| figure | setting |") : LOSSES.index("*Within* is")]
    found = [" | ".join(line.split(" | ")[2:]).removesuffix(" |") for line in table.splitlines()[2:] if line]
    assert len(found) == len(groups) == 14
    assert set(found) == known


def test_rows_of_cifar_are_of_one_setting() -> None:
    """Accuracy and class margin of CIFAR-10, imbalanced and balanced, of three seeds each."""
    known = {
        (
            printed([run["numbers"]["accuracy"] for run in group]),
            printed([run["numbers"]["class margin"] for run in group], 1),
        )
        for group in by_setting(runs("cifar/records.jsonl"))
    }
    page = (RESULTS / "cifar.md").read_text()
    tables = page[page.index("| long-tailed 100 |") : page.index("Three seeds each")]
    tables += page[page.index("| balanced |") : page.index("| LM-Softmax, s = 5 |")]
    tables += page[page.index("| small, balanced |") : page.index("| claim, small networks, a whole")]
    tables += page[page.index("| small, step 100 |") : page.index("| claim (Figs. 7, 8, 12")]
    found = [tuple(MEAN.findall(line)[:2]) for line in tables.splitlines() if MEAN.search(line)]
    assert len(found) == 96
    assert [row for row in found if row not in known] == []


def test_counts_of_runs() -> None:
    kept = [runs(f"losses/{name}.jsonl") for name in ("results", "searches")]
    every, stopped = sum(map(len, kept)), sum(bool(run["stopped"]) for part in kept for run in part)
    assert f"{every} runs are on record, {stopped} of which stopped." in LOSSES
    for name, part in zip(("results", "searches"), kept, strict=True):
        assert re.search(rf"losses/{name}\.jsonl\) \({len(part)}\b", LOSSES)
    for name in ("features", "rankings", "margins", "biases"):
        assert f"losses/{name}.jsonl) ({len(runs(f'losses/{name}.jsonl'))})" in LOSSES
    faces = runs("faces/results.jsonl")
    assert f"faces/results.jsonl), {len(faces)} of them" in FACES
    assert f"{len({run['cell'] for run in faces})} settings were tried in {len(faces)} runs" in FACES
    extents = Counter(result.extent for result in shipped_results().values())
    items = f"all {len(load_catalogue().entries)} of their figures and tables by name, {extents['run']} of them run"
    assert f"{items}, judged or drawn" in README
    assert not extents["partly run"]


def test_what_augmentation_costs_is_on_record() -> None:
    page = (ROOT / "docs" / "training-speed.md").read_text()
    rounds = defaultdict(list)
    for row in csv.DictReader((ROOT / "benchmarks" / "results" / "augmented_steps.csv").read_text().splitlines()):
        rounds[row["network_compiled"], row["pixels"]].append(row)
    for two in rounds.values():
        flips, every = (
            ", ".join(f"{int(row[key]):,}" for row in two) for key in ("flip_images_per_s", "all_images_per_s")
        )
        cost = ", ".join(f"{100 * float(row['share']):.1f}" for row in two)
        assert re.search(rf"\| {flips} \| {every} \| \**{cost} %", page)
    mean = {way: f"{100 * fmean(float(row['share']) for row in two):.1f} %" for way, two in rounds.items()}
    compiled, eager = mean["True", "compiled"], mean["False", "kernels"]
    assert f"cost {compiled} of a compiled step of IResNet-18 and {eager} of an eager one" in page


def test_models_together_have_the_accuracy_of_their_cosines() -> None:
    one, two, other, both = np.loadtxt(RECORDS / "faces" / "lfw-cosines.csv", delimiter=",", skiprows=1).T
    same, folds = np.tile(np.repeat([True, False], 300), 10), np.repeat(range(10), 600)
    rows = {
        "seeds 1 and 2 together": two,
        "all three, cosines averaged": (one + 2 * two) / 3,
        "CosFace, s = 16, m = 0.2": other,
        "SphereFace2 (seed 0) and CosFace, s = 16, together, `--merge unit`": both,
    }
    for title, cosines in rows.items():
        (line,) = (line for line in FACES.splitlines() if line.startswith(f"| {title} |"))
        accuracy = verify_pairs(cosines, same, folds).accuracy.value
        assert line.split("|")[3].strip().strip("*").startswith(f"{100 * accuracy:.2f} [")
