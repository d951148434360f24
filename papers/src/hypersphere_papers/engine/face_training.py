"""Training on real faces: how many steps and about how long is said before, one bar shows the steps of all runs."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch

from hypersphere.core import counted, digest, duration
from hypersphere.data import ImageSource, Subset
from hypersphere.distributed import World
from hypersphere.training import (
    Measure,
    Recipe,
    RecordFile,
    RunRecord,
    Task,
    TrainingReporter,
    load_recipe,
    machine_name,
    make_batches,
    run_key,
    run_tasks,
    same_first_stages,
    total_steps,
    training_source,
)
from hypersphere_papers.engine.face_measures import (
    measure_biases,
    measure_features,
    measure_margins,
    measure_rankings,
)
from hypersphere_papers.engine.face_searches import measure_searches
from hypersphere_papers.engine.run import Announce, ProgressFactory
from hypersphere_papers.engine.run_plan import TRIED_STEPS, expected_seconds, seconds_a_step
from hypersphere_papers.engine.setting import FACE_FILES, RECIPES, Setting

MEASURES: Mapping[str, Measure] = {
    "searches": measure_searches,
    "rankings": measure_rankings,
    "features": measure_features,
    "margins": measure_margins,
    "biases": measure_biases,
}
"""What measures more of a run than its pairs."""
Wanted = Mapping[str, tuple[Setting, int]]
"""Setting and seed of runs, by key."""


def recipe_in_folder(setting: Setting, seed: int, folder: Path) -> Recipe:
    """The recipe of a run with the paths of a folder, and its images on the card where there is one."""
    files = [f"{key}={folder / name}" for key, _, name in (entry.partition("=") for entry in FACE_FILES)]
    place = [] if torch.cuda.is_available() else ["data.device=cpu"]
    overrides = [*files, *place, *setting.overrides, f"train.seed={seed}"]
    return load_recipe(RECIPES["faces"], overrides)


def train_faces(
    left: Wanted,
    known: Mapping[str, tuple[Setting, RunRecord]],
    files: Mapping[str, RecordFile],
    folder: Path,
    *,
    jobs: int,
    device: str,
    progress: ProgressFactory,
    announce: Announce,
) -> None:
    """Train runs on the faces of a folder and put them on record.

    Args:
        left: the runs.
        known: those that are on record, by key, with their settings: they tell how long a step takes.
        files: by measure, where the runs are put on record.
        folder: of the faces.
        jobs, device, progress, announce: as of `train_runs`.
    """
    recipes: dict[str, dict[str, Recipe]] = {}
    for key, (setting, seed) in left.items():
        recipes.setdefault(setting.measure, {})[key] = recipe_in_folder(setting, seed, folder)
    plans = {measure: FacePlan(chosen) for measure, chosen in recipes.items()}
    steps = {key: each for plan in plans.values() for key, each in plan.steps.items()}
    more = f" ({len(known)} more are on record)" if known else ""
    announce(f"{counted(len(left), 'run')} to train on real faces, {sum(steps.values()):,} steps in all{more}")
    seconds = sum(plan.seconds([*known.values()], jobs=jobs, device=device) for plan in plans.values())
    announce(f"about {duration(seconds)} on {device} with --jobs {jobs}, after the images are decoded")
    world, options = World(device=torch.device(device)), {"workers": 1, "compile": False}
    with tempfile.TemporaryDirectory() as place, progress("training", "steps") as bar:
        shown = _AllSteps(bar, steps)
        for measure, plan in plans.items():
            tasks = [Task(left[key][0].cell, recipe, Path(place) / key) for key, recipe in plan.recipes.items()]
            shown.names = list(plan.recipes)
            keys = {run_key(recipe): key for key, recipe in plan.recipes.items()}
            more_measured = MEASURES.get(measure)
            for result in run_tasks(tasks, world, options, jobs=jobs, report=shown, measure=more_measured):
                files[measure].add(result)
                shown.finish(keys[result.recipe])


class FacePlan:
    """The steps of runs on real faces, and about how long they take; a first stage that several share counts once.

    Args:
        recipes: of the runs, by key.
    """

    def __init__(self, recipes: Mapping[str, Recipe]) -> None:
        self.recipes = recipes
        self._sources: dict[str, ImageSource] = {}
        firsts = same_first_stages([*recipes.values()])
        self.steps = {
            key: sum(self._steps_of(stage) for stage in recipe.stages()[0 if first is None else 1 :])
            for (key, recipe), first in zip(recipes.items(), firsts, strict=True)
        }

    def _source(self, recipe: Recipe) -> ImageSource:
        name = digest(recipe.data)
        if name not in self._sources:
            self._sources[name] = training_source(recipe.data)
        return self._sources[name]

    def _steps_of(self, stage: Recipe) -> int:
        return total_steps(stage, make_batches(stage, self._source(stage), World()))

    def seconds(self, known: list[tuple[Setting, RunRecord]], *, jobs: int, device: str) -> float:
        """Return about how long the runs take, see `expected_seconds`; runs of this machine tell, or a few steps."""
        here = machine_name(torch.device(device))
        told = [
            (setting.recipe(run.seed), run.seconds / run.steps)
            for setting, run in known
            if run.machine == here and run.steps and not run.stopped and not setting.recipe(run.seed).second
        ]
        left = [(recipe, self.steps[key], partial(self._tried, recipe, device)) for key, recipe in self.recipes.items()]
        return expected_seconds(told, left, jobs=jobs)

    def _tried(self, recipe: Recipe, device: str) -> float:
        """Seconds a step, of a few on no more images than they need: all would have to be decoded."""
        source = self._source(recipe)
        count = min(len(source), TRIED_STEPS * recipe.train.batch_size)
        some = np.sort(np.random.default_rng(0).permutation(len(source))[:count])
        return seconds_a_step(recipe, lambda: Subset(source, some), device)


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
        """The record of a run is there."""
        self.done[name] = self.steps[name]
        self.finished += 1
        self._show()

    def _show(self) -> None:
        note = f"{self.finished} of {len(self.steps)} runs done"
        self.bar(sum(self.done.values()), sum(self.steps.values()), note)
