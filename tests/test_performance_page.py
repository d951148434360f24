"""What augmentation costs on docs/performance.md is what was measured."""

import csv
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[1]


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
