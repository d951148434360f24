"""Surfaces of the training room: recipes, checkpoints, shards, logs, records, whole runs."""

import json
import random
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from hypersphere.core.config import as_table, to_toml
from hypersphere.distributed import read_shards, save_shards
from hypersphere.training import (
    Checkpoints,
    RecordFile,
    RunRecord,
    SetScore,
    Trainer,
    load_recipe,
    load_run,
    read_log,
    recipe_keys,
)
from hypersphere.training.checkpoints import load_weights
from hypersphere.training.logs import JsonLines
from tests.fuzz.mutate import _NUMBERS, _WORDS, Files
from tests.fuzz.surface import CallSurface, Damaged, FileSurface, Surface, plain, unchanged
from tests.training.small import RECIPE

_ERRORS = "errors only: no digest covers it"


def make_checkpoints(folder: Path) -> None:
    kept = Checkpoints(folder)
    for step, score in ((3, 0.5), (6, 0.75), (9, 0.625)):
        kept.save(step, {"step": step, "weights": torch.arange(6.0) + step}, score)


def read_checkpoints(folder: Path) -> Any:
    kept = Checkpoints(folder)
    return {"newest": kept.load_newest(), "best": kept.best(), "steps": kept.steps()}


def passed_over_aloud(damaged: Damaged) -> str | None:
    """A checkpoint is as it was written, or passed over with a warning that names it; without a `.json` it is none."""
    if damaged.found == damaged.sound:
        return None
    touched = [name.rpartition("/")[2].partition(".")[0] for name in damaged.change]
    incomplete = all(name.endswith(".json") and data is None for name, data in damaged.change.items())
    loud = incomplete or any(stem in text for text in damaged.warned for stem in touched)
    newest = damaged.found["newest"]
    known = {3, 6, 9}
    if newest is not None and (newest[0] not in known or newest[1] != _state(newest[0])):
        return f"the newest is {newest!r:.200}"
    return None if loud else f"no warning, but {damaged.found!r:.200}"


def _state(step: int) -> Any:
    return plain({"step": step, "weights": torch.arange(6.0) + step})


def resigned(files: dict[str, bytes], change: Files) -> Files:
    """Damaged weights with a side file that has their digest, wherever it stands."""
    sealed: Files = dict(change)
    for name, data in change.items():
        side = f"{Path(name).stem}.json"
        if name.endswith(".pt") and data is not None and side in files:
            old = files[name]
            text = (sealed.get(side) or files[side]).decode()
            text = text.replace(sha256(old).hexdigest(), sha256(data).hexdigest())
            sealed[side] = re.sub(rf'"bytes": {len(old)}\b', f'"bytes": {len(data)}', text).encode()
    return sealed


def make_shards(folder: Path) -> None:
    save_shards(folder / "s", {"head.weight": torch.arange(12.0).view(4, 3), "optimizer.step": torch.tensor(3.0)})


def with_digests(files: dict[str, bytes], change: Files) -> Files:
    """Damaged shards with a list of their digests."""
    table = json.loads(files["s/digests.json"])
    text = files["s/digests.json"].decode()
    for name, data in change.items():
        base = Path(name).name
        if data is not None and base in table and isinstance(table[base], str):
            text = text.replace(sha256(files[name]).hexdigest(), sha256(data).hexdigest())
    return {**change, "s/digests.json": text.encode()}


def make_log(folder: Path) -> None:
    log = JsonLines(folder / "log.jsonl")
    log.begin(0)
    for step in range(3, 16, 3):
        log.write({"step": step, "loss": 1.0 / step, "rate": 0.1})


def resume_log(folder: Path) -> Any:
    JsonLines(folder / "log.jsonl").begin(9)
    return read_log(folder / "log.jsonl")


def whole_records(damaged: Damaged) -> str | None:
    """Whatever is kept has a step."""
    if not all(isinstance(record, dict) and "step" in record for record in damaged.found):
        return f"a record without a step: {damaged.found!r:.200}"
    return None


def make_records(folder: Path) -> None:
    records = RecordFile(folder / "results.jsonl")
    score = SetScore(accuracy=0.9, low=0.88, high=0.92, eer=0.1, tar={"0.01": 0.7}, right="qqo=")
    for seed in range(3):
        records.add(
            RunRecord(cell="arcface", seed=seed, recipe=f"{seed:012d}", train_accuracy=1.0, norm=3.0,
                      scores={"lfw": score}, steps=30, seconds=1.5, machine="a machine", version="0.1.0")
        )  # fmt: skip


def read_records(folder: Path) -> Any:
    found = RecordFile(folder / "results.jsonl").records
    return {
        key: [each.cell, each.seed, each.train_accuracy, each.norm, each.steps, each.stopped,
              {name: [score.accuracy, score.eer, score.decisions(12)] for name, score in each.scores.items()}]
        for key, each in found.items()
    }  # fmt: skip


def a_run_per_line(damaged: Damaged) -> str | None:
    """Every line is a run; a later one of the same recipe replaces the earlier."""
    text = damaged.text("results.jsonl")
    try:
        keys = len({json.loads(line)["recipe"] for line in text.split("\n") if line.strip()})
    except ValueError:
        return None  # other characters that end a line
    return None if len(damaged.found) == keys else f"{len(damaged.found)} runs of {keys} recipes"


_SMALL = re.sub(r"steps = 30", "steps = 4", RECIPE).replace("log_every = 3", "log_every = 2")


def make_run(folder: Path) -> None:
    (folder / "given.toml").write_text(_SMALL)
    Trainer(load_recipe(folder / "given.toml"), folder / "run").run()
    (folder / "given.toml").unlink()


def read_run(folder: Path) -> Any:
    recipe, network = load_run(folder / "run")
    return {"recipe": as_table(recipe), "network": network.state_dict()}


def bound(damaged: Damaged) -> str | None:
    """Recipe and weights belong together: both as they were, or an error, or a warning that names the file."""
    if damaged.found == damaged.sound or any("checkpoints" in name and damaged.warned for name in damaged.change):
        return None
    return unchanged(damaged)


def make_recipe(folder: Path) -> None:
    (folder / "base.toml").write_text(RECIPE)
    (folder / "recipe.toml").write_text(
        'base = "base.toml"\nabout = "another"\n[head]\nname = "arcface"\nscale = 16\nmargin = 0.3\n'
        '[head.add.center]\nweight = 0.1\n[data]\nsize = [16, 16]\nsource = "pocket"\n[second]\ntrain = { steps = 3 }\n'
    )


def read_recipe(folder: Path) -> Any:
    recipe = load_recipe(folder / "recipe.toml")
    table = as_table(recipe)
    again = folder / "again.toml"
    again.write_text(to_toml(table), encoding="utf-8")
    try:
        return {"recipe": table, "again": as_table(load_recipe(again))}
    finally:
        again.unlink()


def reads_itself(damaged: Damaged) -> str | None:
    """A recipe that is accepted is saved with its run, and read from there as the same recipe."""
    same = damaged.found["recipe"] == damaged.found["again"]
    return None if same else f"saved and read again: {damaged.found['again']!r:.300}"


_SETTING_VALUES = (
    *_NUMBERS,
    *_WORDS,
    *('"x"', "[1, 2]", "[]", "{}", "{a = 1}", "2020-01-01", "12:00:00", "1979-05-27T07:32:00Z", "[" * 3000, "0.5"),
    *("[16, 16]", "[-1, 2]", "[9999999999, 1]", "5", "'arcface'", "arcface", "sphereface2", "1e-300", "-5e-4"),
)


def call_settings(rng: random.Random, folder: Path) -> str | None:
    """`key.sub=value` on top of a sound recipe."""
    path = folder / "sound.toml"
    if not path.exists():
        path.write_text(RECIPE)
    keys = recipe_keys()
    settings = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        key = rng.choice((*keys, rng.choice(keys).partition(".")[0], rng.choice(keys) + ".x", "second.train.steps"))
        settings.append(f"{key}={rng.choice(_SETTING_VALUES)}")
    recipe = load_recipe(path, settings)
    again = folder / "again.toml"
    again.write_text(to_toml(as_table(recipe)), encoding="utf-8")
    found = as_table(load_recipe(again))
    return (
        None if plain(found) == plain(as_table(recipe)) else f"{settings!r:.200}: saved and read again, another recipe"
    )


RUNS: list[Surface] = [
    FileSurface(
        "recipe",
        830,
        make_recipe,
        read_recipe,
        reads_itself,
        "an accepted recipe, saved and read again, is the same",
    ),
    CallSurface(
        "settings of a recipe",
        1040,
        call_settings,
        "an accepted recipe, saved and read again, is the same",
    ),
    FileSurface(
        "checkpoints",
        480,
        make_checkpoints,
        read_checkpoints,
        passed_over_aloud,
        "as written, or passed over with a warning",
        writes=True,
    ),
    FileSurface(
        "checkpoint, digest recomputed",
        210,
        make_checkpoints,
        read_checkpoints,
        promise="errors only: a forger can write any weights",
        only=("*.pt",),
        seal=resigned,
        writes=True,
    ),
    FileSurface("shards", 210, make_shards, lambda folder: read_shards(folder / "s"), unchanged, "digests cover all"),
    FileSurface(
        "shards, digests recomputed",
        210,
        make_shards,
        lambda folder: read_shards(folder / "s"),
        promise="errors only: a forger can write any weights",
        only=("s/*.safetensors",),
        seal=with_digests,
    ),
    FileSurface(
        "weights .pt",
        280,
        lambda folder: torch.save({"conv.weight": torch.arange(24.0).view(2, 3, 2, 2)}, folder / "weights.pt"),
        lambda folder: load_weights(folder / "weights.pt"),
        promise=_ERRORS,
    ),
    FileSurface("log of a run", 340, make_log, resume_log, whole_records, "records with a step", writes=True),
    FileSurface(
        "results.jsonl", 480, make_records, read_records, a_run_per_line, "a run for every line", words=("right",)
    ),
    FileSurface(
        "run folder",
        80,
        make_run,
        read_run,
        bound,
        "recipe and weights as written, or an error",
        only=("run/recipe.toml", "run/checkpoints/*"),
    ),
]
