"""Print the tables of docs/results/faces.md from the runs on record: `python tools/faces_tables.py FOLDER`.

FOLDER holds faces.tar, lfw112.tar and lfw-pairs.txt, which say who is in which pair: intervals of differences are over
people. A row is a recipe of recipes/real/ladder; its runs are those of the recipe with seeds 0, 1 and 2.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from hypersphere.training import RecordFile, RunRecord, compare_runs, load_recipe, validation_sets

ROOT = Path(__file__).parents[1]
LADDER = ROOT / "recipes" / "real" / "ladder"
RECORD = ROOT / "papers" / "records" / "faces" / "results.jsonl"
DATA = ("source=faces.tar", "validation.pairs=lfw-pairs.txt", "validation.images=lfw112.tar")
SEEDS = (0, 1, 2)
HELD_OUT, LFW = "held-out identities", "lfw-pairs"
REFERENCE = "sfnet10"


def settings(folder: Path = Path()) -> list[str]:
    """The settings that say where the data lie."""
    return [f"data.{key}={folder / name}" for key, name in (each.split("=") for each in DATA)]


def runs_of(path: Path, record: RecordFile) -> list[RunRecord]:
    """The runs on record of a recipe."""
    taught = ["teacher.model=sface.onnx"] if path.stem.startswith("distilled") else []
    found = []
    for seed in SEEDS:
        recipe = load_recipe(path, [*settings(), *taught, f"train.seed={seed}"])
        if run := record.find(recipe):
            found.append(run)
    return found


def mean_and_deviation(values: list[float]) -> str:
    """Per cent, with the deviation over seeds where there are several."""
    spread = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.2f}{spread}"


def cells(runs: list[RunRecord]) -> list[str]:
    """What a row says of its own runs."""
    lfw = [run.scores[LFW] for run in runs]
    held = [run.scores[HELD_OUT].accuracy for run in runs if HELD_OUT in run.scores]
    one = f" [{100 * lfw[0].low:.2f}, {100 * lfw[0].high:.2f}]" if len(lfw) == 1 else ""
    tar = ", ".join(f"{100 * statistics.mean(each.tar[far] for each in lfw):.1f}" for far in ("0.01", "0.001"))
    return [
        mean_and_deviation([each.accuracy for each in lfw]) + one,
        tar,
        f"{100 * statistics.mean(each.eer for each in lfw):.1f}",
        mean_and_deviation(held) if held else "",
        f"{100 * statistics.mean(run.train_accuracy or 0.0 for run in runs):.1f}",
        str(len(runs)),
        f"{statistics.mean(run.seconds for run in runs) / 60:.1f}",
    ]


def main() -> None:
    """Print a table of all rows, with the difference of each from the reference."""
    sets = {each.title: each for each in validation_sets(load_recipe("real/faces", settings(Path(sys.argv[1]))))}
    record = RecordFile(RECORD)
    reference = runs_of(LADDER / f"{REFERENCE}.toml", record)
    titles = ("LFW, %", "TAR@FAR=1e-2, 1e-3, %", "EER, %", "held-out pairs, %", "fit, %", "seeds", "minutes")
    print("|".join(["", "recipe", *titles, f"against {REFERENCE}: LFW", "held out", ""]))
    for path in sorted(LADDER.glob("*.toml")):
        runs = [run for run in runs_of(path, record) if not run.stopped]
        gains = []
        for title in (LFW, HELD_OUT):
            if runs and path.stem != REFERENCE and all(title in run.scores for run in runs):
                gain = compare_runs(reference, runs, sets[title]).estimate
                gains.append(f"{100 * gain.value:+.2f} [{100 * gain.low:+.2f}, {100 * gain.high:+.2f}]")
            else:
                gains.append("")
        measured = cells(runs) if runs else ["none"]
        print("|".join(["", f"`real/ladder/{path.stem}`", *measured, *gains, ""]), flush=True)


if __name__ == "__main__":
    main()
