"""Write what is made from the runs on record: a table of each record file, and the tables of docs/results.

    python tools/record_tables.py

Beside `papers/records/*/NAME.jsonl` stands `NAME.csv`, a row for each setting: means and deviations over its seeds.
A page has its tables between `<!-- NAME -->` and `<!-- end of NAME -->`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from hypersphere.training import RecordFile, RunRecord

ROOT = Path(__file__).parents[1]
RECORDS, PAGES = ROOT / "papers" / "records", ROOT / "docs" / "results"
FIRST_NETWORK = "backbone.name=sfnet10, "
"""Of the losses on real faces, unless the setting names another; some runs were asked for with it."""
R_W = ("CosFace", "ArcFace", "NormFace", "LDAM", "LM-Softmax")
Settings = Mapping[str, Sequence[RunRecord]]

LOSSES = {
    "softmax, optimizer.lr=0.1": "softmax",
    "softmax, head.add={contrastive={weight=0.05,margin=1.0}}, train.sampler=identity,"
    " train.images_per_identity=2, optimizer.lr=0.1": "softmax + contrastive",
    "softmax, head.add={triplet={weight=0.05}}, train.sampler=identity, train.images_per_identity=2,"
    " optimizer.lr=0.1": "softmax + triplet",
    "modified_softmax, optimizer.lr=0.1": "modified softmax (m = 1)",
    "normface, optimizer.lr=0.1": "NormFace",
    "normface, head.add={c_contrastive={weight=0.01}}, optimizer.lr=0.1": "NormFace + C-contrastive",
    "ampface, optimizer.lr=0.02": "AmpFace",
    "l_softmax, head.margin=4, optimizer.lr=0.1": "L-Softmax, m = 4",
    "sphereface, head.margin=2, optimizer.lr=0.1": "SphereFace, m = 2",
    "sphereface, head.margin=3, optimizer.lr=0.1": "SphereFace, m = 3",
    "sphereface, optimizer.lr=0.1": "SphereFace, m = 4",
    "sphereface_r, optimizer.lr=0.1": "SphereFace-R v0",
    "arcface, optimizer.lr=0.1": "ArcFace",
    "cosface, optimizer.lr=0.02": "CosFace",
    "lm_softmax, optimizer.lr=0.02": "LM-Softmax",
    "sphereface2, optimizer.lr=0.1": "SphereFace2-C, t = 3",
    "sphereface2, head.margin_type=a, optimizer.lr=0.1": "SphereFace2-A, t = 3",
    "sphereface2, head.margin_type=m, optimizer.lr=0.1": "SphereFace2-M, t = 3",
    "sphereface2, head.balance=0.7, head.power=5.0, optimizer.lr=0.1": "SphereFace2-C, t = 5",
}
"""Settings of docs/results/losses.md, and what they are called there."""

_DEEP = ", data.most_images=560, train.epochs=48.0, schedule.milestones=[28,40], optimizer.lr="
DEEP_LOSSES = {
    f"{cell}{_DEEP}{lr}": title
    for cell, lr, title in (
        ("softmax", 0.1, "softmax"),
        ("modified_softmax", 0.1, "modified softmax (m = 1)"),
        ("normface", 0.1, "NormFace"),
        ("ampface, head.prototype_norm=1.0", 0.02, "AmpFace"),
        ("sphereface, head.margin=2", 0.1, "SphereFace, m = 2"),
        ("sphereface, head.margin=3", 0.1, "SphereFace, m = 3"),
        ("sphereface", 0.1, "SphereFace, m = 4"),
        ("sphereface_r", 0.02, "SphereFace-R v0"),
        ("arcface", 0.02, "ArcFace"),
        ("cosface, head.prototype_norm=1.0", 0.02, "CosFace"),
        ("lm_softmax, head.prototype_norm=1.0", 0.02, "LM-Softmax"),
        ("sphereface2", 0.1, "SphereFace2-C, t = 3"),
        ("sphereface2, head.margin_type=a", 0.1, "SphereFace2-A, t = 3"),
        ("sphereface2, head.margin_type=m", 0.1, "SphereFace2-M, t = 3"),
    )
}
"""The same on the 560 people with most images."""


def settings_of(path: Path) -> Settings:
    """Return the runs of a record file by setting, in the order of its first run."""
    found: dict[str, list[RunRecord]] = {}
    for run in RecordFile(path).records.values():
        found.setdefault(run.cell.replace(FIRST_NETWORK, ""), []).append(run)
    return found


def numbers_of(run: RunRecord) -> dict[str, float]:
    """Return what was measured of a run, by the heads of the table; shares in per cent."""
    numbers = {} if run.train_accuracy is None else {"train accuracy, %": 100 * run.train_accuracy}
    numbers |= {} if run.norm is None else {"mean norm": run.norm}
    for name, score in run.scores.items():
        numbers |= {f"{name}, %": 100 * score.accuracy, f"{name}: EER, %": 100 * score.eer}
        numbers |= {f"{name}: TAR at FAR {far}, %": 100 * share for far, share in score.tar.items()}
    return numbers | run.numbers


def settings_csv(settings: Settings) -> str:
    """Return the table of a record file."""
    measured = {name: [numbers_of(run) for run in runs if not run.stopped] for name, runs in settings.items()}
    heads = list(dict.fromkeys(head for rows in measured.values() for row in rows for head in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["setting", "runs", "stopped", *(part for head in heads for part in (head, "±"))])
    for name, runs in settings.items():
        cells: list[str] = []
        for head in heads:
            values = [row[head] for row in measured[name] if head in row]
            cells += [f"{fmean(values):.6g}" if values else "", f"{stdev(values):.2g}" if len(values) > 1 else ""]
        writer.writerow([name, len(runs), sum(bool(run.stopped) for run in runs), *cells])
    return text.getvalue()


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return `84.43 ± 0.72`."""
    return f"{fmean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the lines of a Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def face_table(settings: Settings, titles: Mapping[str, str]) -> str:
    """Return accuracies of losses on real faces: on LFW and on the people held out."""
    rows = []
    for cell, title in titles.items():
        runs = [run for run in settings[cell] if not run.stopped]
        accuracies = [
            spread([100 * run.scores[name].accuracy for run in runs]) for name in ("lfw-pairs", "held-out identities")
        ]
        fit = min(100 * (run.train_accuracy or 0.0) for run in runs)
        rate = cell.rpartition("optimizer.lr=")[2]
        rows.append([title, rate, *accuracies, f"{fit:.1f}", f"{len(runs)} of {len(settings[cell])}"])
    return table(["loss", "rate", "LFW, %", "held-out pairs, %", "least fit, %", "seeds"], rows)


def tail_table(settings: Settings) -> str:
    """Return what R_w does to the losses on long-tailed CIFAR-10."""
    rows = []
    for ratio in (100, 10):
        for loss in R_W:
            pairs = [settings[f"long-tailed {ratio}: {loss}, lambda = {weight}"] for weight in (0, 5)]
            numbers = [
                spread([run.numbers[name] for run in runs], digits)
                for name, digits in (("accuracy", 2), ("class margin", 1))
                for runs in pairs
            ]
            fit = min(run.numbers["train accuracy"] for runs in pairs for run in runs)
            rows.append([f"{loss}, ratio {ratio}", *numbers, f"{fit:.1f}"])
    heads = ["loss", "accuracy, %", "with R_w", "class margin, degrees", "with R_w", "least fit, %"]
    return table(heads, rows)


def counts(settings: Iterable[Settings]) -> str:
    """Return how many runs are on record."""
    runs = [run for file in settings for group in file.values() for run in group]
    return f"{len(runs):,} runs are on record, {sum(bool(run.stopped) for run in runs)} of which stopped."


def texts() -> dict[Path, str]:
    """Return every file that is made from the records, with what it should hold."""
    files = {path: settings_of(path) for path in sorted(RECORDS.glob("*/*.jsonl"))}
    made = {path.with_suffix(".csv"): settings_csv(settings) for path, settings in files.items()}
    faces, cifar = files[RECORDS / "losses" / "results.jsonl"], files[RECORDS / "cifar" / "records.jsonl"]
    made[PAGES / "losses.md"] = with_parts(
        PAGES / "losses.md",
        {
            "losses": face_table(faces, LOSSES),
            "deep": face_table(faces, DEEP_LOSSES),
            "counts": counts(settings for path, settings in files.items() if path.parent.name == "losses"),
        },
    )
    made[PAGES / "cifar.md"] = with_parts(PAGES / "cifar.md", {"tails": tail_table(cifar), "counts": counts([cifar])})
    return made


def with_parts(page: Path, parts: Mapping[str, str]) -> str:
    """Return a page with its made parts written anew."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        marked = rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->\n)"
        if len(re.findall(marked, text, flags=re.DOTALL)) != 1:
            raise ValueError(f"{page}: expected one part between <!-- {name} --> and <!-- end of {name} -->")
        text = re.sub(marked, lambda found, part=part: f"{found[1]}\n{part}\n\n{found[2]}", text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def main() -> None:
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
