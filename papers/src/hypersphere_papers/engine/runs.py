"""The runs that settings need: found on record, or trained now, several at once, and put on record."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from hypersphere.core import counted, duration
from hypersphere.distributed import World
from hypersphere.training import (
    Measure,
    Recipe,
    RunRecord,
    Task,
    TrainingReporter,
    load_recipe,
    machine_name,
    run_tasks,
)
from hypersphere_papers.engine.class_runs import ClassMeasure, class_images
from hypersphere_papers.engine.face_measures import (
    measure_biases,
    measure_features,
    measure_margins,
    measure_rankings,
)
from hypersphere_papers.engine.face_searches import measure_searches
from hypersphere_papers.engine.record import Record, as_record
from hypersphere_papers.engine.record_folder import RunFiles, face_overrides, not_at_hand
from hypersphere_papers.engine.run_plan import RunPlan
from hypersphere_papers.engine.setting import RECIPES, Setting, unique

Announce = Callable[[str], None]
"""Called with a sentence before something long begins."""
ProgressFactory = Callable[[str, str], contextlib.AbstractContextManager[TrainingReporter]]
"""Called with a title and a unit; `Progress` is one."""
Wanted = Mapping[str, tuple[Setting, int]]
"""Setting and seed of runs, by key."""
_FACE_MEASURES: Mapping[str, Measure | None] = {
    "verification": None,
    "searches": measure_searches,
    "rankings": measure_rankings,
    "features": measure_features,
    "margins": measure_margins,
    "biases": measure_biases,
}
"""What measures more of a run on faces than its pairs."""


class _Silence:
    def begin(self, done: int) -> None:
        pass

    def __call__(self, done: int, total: int, note: str = "") -> None:
        pass


@contextlib.contextmanager
def silent(title: str, unit: str) -> Iterator[TrainingReporter]:
    """Progress that nobody sees."""
    yield _Silence()


@dataclass(frozen=True)
class Gathered:
    """The records of settings.

    Args:
        records: by key.
        failures: by key, the message of a run that broke.
    """

    records: Mapping[str, Record] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


def gather_runs(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    files: RunFiles,
    *,
    jobs: int = 1,
    device: str = "cpu",
    progress: ProgressFactory = silent,
    announce: Announce = lambda _: None,
    train: bool = True,
) -> Gathered:
    """Return the runs of all settings and seeds: from the record files, or trained now where the images are at hand.

    A run whose training stops itself (a collapse) has a record that says so. One that breaks has none: its message is
    among the failures, the others go on, and the next call tries it again.

    Args:
        settings: each run once, however often it is named.
        seeds: runs of each.
        files: where runs are on record.
        jobs: processes that train at once.
        device: of all of them.
        progress: makes the bar, over the steps of all runs.
        announce: told what is not on record, how many runs are trained and about how long that takes, and which broke.
        train: whether runs that are not on record are trained, where their images are at hand.
    """
    wanted = unique(settings, seeds)
    found = {key: run for key, (setting, seed) in wanted.items() if (run := files.find(setting, seed))}
    left = {key: each for key, each in wanted.items() if key not in found}
    trained = {key: (setting, seed) for key, (setting, seed) in left.items() if train and files.has_images(setting)}
    if len(left) > len(trained):
        names = "; ".join(not_at_hand([setting for key, (setting, _) in left.items() if key not in trained]).values())
        announce(
            f"{len(left) - len(trained)} of {len(wanted)} runs are not on record; with {names} in {files.data} they "
            "would be trained"
        )
    failures: dict[str, str] = {}
    if trained:
        known = [(wanted[key], run) for key, run in found.items()]
        failures = _train(trained, known, files, jobs=jobs, device=device, progress=progress, announce=announce)
        found = {key: run for key, (setting, seed) in wanted.items() if (run := files.find(setting, seed))}
    people = files.people() if any(wanted[key][0].data == "faces" for key in found) else {}
    return Gathered({key: as_record(run, wanted[key][0], people) for key, run in found.items()}, failures)


def task_of(setting: Setting, seed: int, key: str, folder: Path, files: RunFiles) -> Task:
    """Return a run to do.

    Args:
        setting, seed: what to train.
        key: what its record is filed under.
        folder: of the run.
        files: say where the images lie.
    """
    if setting.data == "faces":
        assert files.data is not None
        card = [] if torch.cuda.is_available() else ["data.device=cpu"]
        overrides = [*face_overrides(files.data), *card, *setting.overrides, f"train.seed={seed}"]
        recipe = load_recipe(RECIPES["faces"], overrides)
        return Task(setting.cell, recipe, folder, key, _FACE_MEASURES[setting.measure])
    recipe = setting.recipe(seed)
    measure = ClassMeasure(setting.measure, recipe, files.cache / "images")
    return Task(setting.title, recipe, folder, key, measure, measure.watch, measure.source)


def _train(
    wanted: Wanted,
    known: Sequence[tuple[tuple[Setting, int], RunRecord]],
    files: RunFiles,
    *,
    jobs: int,
    device: str,
    progress: ProgressFactory,
    announce: Announce,
) -> dict[str, str]:
    """Train runs and put them on record; returns by key what went wrong.

    Args:
        wanted: the runs.
        known: those that are on record: they tell how long a step takes.
        files, jobs, device, progress, announce: as of `gather_runs`.
    """
    world, failures = World(device=torch.device(device)), dict[str, str]()
    with tempfile.TemporaryDirectory() as place:
        tasks = {key: task_of(setting, seed, key, Path(place) / key, files) for key, (setting, seed) in wanted.items()}
        plan, more = RunPlan(tasks), f" ({len(known)} more are on record)" if known else ""
        announce(f"{counted(len(tasks), 'run')} to train, {sum(plan.steps.values()):,} steps in all{more}")
        seconds = plan.seconds(_told(known, machine_name(world.device)), jobs=jobs, device=device)
        announce(f"about {duration(seconds)} on {device} with --jobs {jobs}, after the images are decoded")
        with progress("training", "steps") as bar:
            shown = _AllSteps(bar, plan.steps)
            for faces in (True, False):
                chosen = [task for key, task in tasks.items() if (wanted[key][0].data == "faces") == faces]
                shown.names = [task.key for task in chosen]

                def fail(number: int, error: Exception, names: Sequence[str] = tuple(shown.names)) -> None:
                    setting, seed = wanted[names[number]]
                    failures[names[number]] = f"{setting.title}, seed {seed}: {type(error).__name__}: {error}"
                    shown.finish(names[number])

                options = {"workers": 1, "compile": False} if faces else {"graph": world.device.type == "cuda"}
                _decode(chosen, files.cache)
                for run in run_tasks(
                    chosen, world, options, jobs=min(jobs, len(chosen) or 1), report=shown, on_error=fail
                ):
                    files.file(wanted[run.recipe][0]).add(run)
                    shown.finish(run.recipe)
    announce(f"{len(wanted) - len(failures)} runs put on record, {len(failures)} failed")
    for problem in failures.values():
        announce(f"failed: {problem}")
    return failures


def _told(known: Sequence[tuple[tuple[Setting, int], RunRecord]], machine: str) -> list[tuple[Recipe, float]]:
    """Recipes of one stage that were trained on this machine, and how long a step took."""
    return [
        (recipe, run.seconds / run.steps)
        for (setting, seed), run in known
        if run.machine == machine and run.steps and not run.stopped and not (recipe := setting.recipe(seed)).second
    ]


def _decode(tasks: Sequence[Task], cache: Path) -> None:
    """Decode every set of images of classes before many processes ask for it at once."""
    for data in dict.fromkeys(task.recipe.data for task in tasks if task.source is not None):
        class_images(data, cache / "images")


class _AllSteps:
    """One bar over the steps of all runs; a run that ends early counts whole when its record is there."""

    def __init__(self, bar: TrainingReporter, steps: Mapping[str, int]) -> None:
        self.bar, self.steps = bar, steps
        self.names: list[str] = []
        self.done: dict[str, int] = {}
        self.finished = 0

    def __call__(self, number: int, done: int, total: int) -> None:
        """A run of `names` has done so many of its steps."""
        if not self.done:
            self.bar.begin(done)
        self.done[self.names[number]] = done
        self._show()

    def finish(self, name: str) -> None:
        """Count a run whose record is there, or that broke, as a whole."""
        self.done[name] = self.steps[name]
        self.finished += 1
        self._show()

    def _show(self) -> None:
        note = f"{self.finished} of {len(self.steps)} runs done"
        self.bar(sum(self.done.values()), sum(self.steps.values()), note)
