"""The rows of docs/results/faces.md are those of the runs on record."""

import re
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from hypersphere.evaluation import verify_pairs
from tools.record_tables import settings_of

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "papers" / "records" / "faces"
FACES = (ROOT / "docs" / "results" / "faces.md").read_text()
MEAN = re.compile(r"\| \**(\d+\.\d+ ± \d+\.\d+)\**")
"""A cell of a table that has the mean of several seeds, and begins with it."""


def test_accuracies_of_a_row_are_of_one_setting() -> None:
    """On LFW and on people held out."""
    known = set()
    for runs in settings_of(RECORDS / "results.jsonl").values():
        ended = [run for run in runs if not run.stopped]
        if len(ended) > 1:
            scores = [
                [100 * run.scores[name].accuracy for run in ended] for name in ("lfw-pairs", "held-out identities")
            ]
            known.add(tuple(f"{fmean(each):.2f} ± {stdev(each):.2f}" for each in scores))
    per_cents = [[mean for mean in MEAN.findall(line) if re.search(r"\.\d\d$", mean)] for line in FACES.splitlines()]
    rows = [tuple(means) for means in per_cents if len(means) == 2]
    assert len(rows) == 11
    assert [row for row in rows if row not in known] == []


def test_models_together_have_the_accuracy_of_their_cosines() -> None:
    one, two, other, both = np.loadtxt(RECORDS / "lfw-cosines.csv", delimiter=",", skiprows=1).T
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
