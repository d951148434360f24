"""The page of a comparison: the table over seeds, then curves, training and hardest pairs of a run of each cell."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypersphere.core import as_table, to_toml
from hypersphere.evaluation import Difference, compare_accuracy, pair_metrics
from hypersphere.evaluation.results.result import now
from hypersphere.plots import Page, percent, points
from hypersphere.training.demo_report import COLUMNS, FARS, DemoOutcome, add_curves, add_hardest, add_training, page_row
from hypersphere.training.finished_run import load_run
from hypersphere.training.jobs import Task
from hypersphere.training.logs import read_log
from hypersphere.training.recipe_stages import SECOND
from hypersphere.training.run_records import RunRecord
from hypersphere.training.validation import UnseenPairs
from hypersphere.version import __version__


@dataclass(frozen=True)
class Compared:
    """What a comparison has trained and found.

    Args:
        tasks: all runs.
        runs: their records by cell, in the order of the seeds.
        sets: the validation sets; the page is about the first.
        first: the cell that the others are compared with.
        gains: of the others, by set and cell.
        command: that was typed.
    """

    tasks: Sequence[Task]
    runs: Mapping[str, Sequence[RunRecord]]
    sets: Sequence[UnseenPairs]
    first: str
    gains: Mapping[str, Mapping[str, Difference]]
    command: str


def write_comparison_page(compared: Compared, path: str | Path, device: str = "cpu") -> Path:
    """Write the page of a comparison; the first run of each cell that did not stop is measured again and drawn.

    Args:
        compared: what it shows.
        path: of the page; a partial file is never left.
        device: to measure on.
    """
    pairs = compared.sets[0]
    shown = _outcomes(compared, pairs, device)
    if not shown:
        raise ValueError("every run stopped: there is nothing to draw")
    page = Page(
        f"{', '.join(compared.runs)}, compared",
        f"The same recipe trained with each, then asked about {len(pairs.same):,} pairs of images of people whom"
        " training never saw: is this one person, or two?",
    )
    recipe = next(iter(shown.values())).recipe
    page.origin(
        {
            "model": f"{recipe.backbone['name']} with {recipe.backbone['dim']} dimensions",
            "data": f"{recipe.data.source}; {len(pairs.same):,} pairs of {pairs.title}",
            "command": compared.command,
            "measured": now(),
            "version": f"hypersphere {__version__}",
        }
    )
    page.heading("Result")
    page.text(_answer(compared, pairs))
    _seeds(page, compared, pairs)
    page.heading("One run of each")
    accuracies = [outcome.result.accuracy.value for outcome in shown.values()]
    page.table(
        [f"against {compared.first}" if column.startswith("against") else column for column in COLUMNS],
        [page_row(outcome) for outcome in shown.values()],
        "Of the first seed that did not stop; curves, histograms and pairs below are of these runs. In brackets 95 %"
        " intervals by bootstrap over people; they know of no other seeds, the table above does.",
        best=accuracies.index(max(accuracies)),
    )
    add_curves(page, shown, pairs)
    add_training(page, shown)
    add_hardest(page, shown, pairs)
    page.heading("How to reproduce this")
    page.code(compared.command)
    page.options({f"run of {outcome.title}": str(outcome.folder) for outcome in shown.values()})
    page.text(f"The recipe of {compared.first}, with every default filled in:")
    page.code(to_toml(as_table(recipe)))
    return page.save(path)


def _outcomes(compared: Compared, pairs: UnseenPairs, device: str) -> dict[str, DemoOutcome]:
    """By cell, its first run that did not stop, measured on the first validation set."""
    outcomes: dict[str, DemoOutcome] = {}
    for cell, records in compared.runs.items():
        record = next((record for record in records if not record.stopped), None)
        if record is None:
            continue
        task = next(task for task in compared.tasks if (task.cell, task.recipe.train.seed) == (cell, record.seed))
        folder = task.folder / SECOND if (task.folder / SECOND).is_dir() else task.folder
        if not folder.is_dir():
            raise ValueError(f"{folder}: the run of {cell} is gone; to train it again, remove its line from the record")
        scores = pairs.scores(load_run(folder)[1].to(device), device)
        result = pairs.judge(scores)
        gain = None
        if outcomes:
            right = outcomes[compared.first].result.right
            gain = compare_accuracy(right, result.right, subjects=pairs.subjects).estimate
        outcomes[cell] = DemoOutcome(
            title=cell,
            recipe=task.recipe,
            folder=folder,
            scores=scores,
            result=result,
            metrics=pair_metrics(scores, pairs.same, pairs.subjects, FARS),
            gain=gain,
            log=read_log(folder / "log.jsonl"),
            seconds=record.seconds,
        )
    return outcomes


def _answer(compared: Compared, pairs: UnseenPairs) -> str:
    """What follows, in a sentence."""
    gains = compared.gains.get(pairs.title, {})
    better = [cell for cell, gain in gains.items() if gain.estimate.low > 0]
    worse = [cell for cell, gain in gains.items() if gain.estimate.high < 0]
    if not gains:
        return f"Only {compared.first} has finished: there is nothing to compare it with."
    if not better and not worse:
        return f"No clear difference from {compared.first}: every interval of a gain holds 0."
    sentences = [
        f"{', '.join(cells)}: {word} than {compared.first}, by more than the choice of people and seeds explains."
        for cells, word in ((better, "better"), (worse, "worse"))
        if cells
    ]
    return " ".join(sentences)


def _seeds(page: Page, compared: Compared, pairs: UnseenPairs) -> None:
    rows = []
    for cell, records in compared.runs.items():
        values = [record.scores[pairs.title].accuracy for record in records if not record.stopped]
        gain = compared.gains.get(pairs.title, {}).get(cell)
        rows.append(
            (
                cell,
                percent(statistics.mean(values), 2) if values else "–",
                f"{100 * statistics.stdev(values):.2f}" if len(values) > 1 else "–",
                points(gain.estimate.value, gain.estimate.low, gain.estimate.high) if gain is not None else "–",
                f"{len(values)} of {len(records)}",
            )
        )
    page.table(
        ["cell", "accuracy", "deviation", f"points against {compared.first} [95 %]", "runs that finished"],
        rows,
        "Accuracy: share of pairs decided rightly, in ten folds, each at the threshold that is best on the other nine;"
        " mean and standard deviation over seeds, in points. The interval knows of other people and, as far as there"
        " are several, of other seeds.",
    )
