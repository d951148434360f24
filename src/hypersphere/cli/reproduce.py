"""`hypersphere reproduce`: every figure and table of the papers as a command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hypersphere.cli.output import Results, green, note, red, wrapped
from hypersphere.core import Progress, Reporter, check_integer, choose_device, duration, is_installed
from hypersphere.plots import NO_PICTURES
from hypersphere.reproduce import Entry, Result, load_catalogue, missing, run_entry, state, write_pages
from hypersphere.reproduce.pocket import Plan, estimate_seconds, gather, plan_runs, settings_of


def run_reproduce(options: argparse.Namespace) -> Results:
    """List items, or run them and sum up."""
    catalogue = load_catalogue()
    chosen = catalogue.select(kind=options.kind, paper=options.paper)
    if options.pages:
        write_pages(options.out, catalogue)
        print(f"pages: {options.out / 'index.md'}")
        return Results({"pages": options.out / "index.md"})
    if options.list or not (options.items or options.all):
        return _print_list(chosen, options.data)
    if options.items and options.all:
        raise ValueError("--all runs every item; name some, or leave their names out")
    if options.data is not None and not options.data.exists():
        raise ValueError(f"--data {options.data}: there is no such file or folder")
    seeds = tuple(range(check_integer("--seeds", options.seeds, 1)))
    if options.epochs is not None:
        check_integer("--epochs", options.epochs, 1)
    entries = [catalogue[name] for name in options.items] if options.items else chosen
    problems = {entry.id: missing(entry, options.data) for entry in entries}
    for name in options.items:
        if problems[name]:
            raise ValueError(f"{name} cannot run: {problems[name]}")
    torch.set_num_threads(1)
    ready = [entry for entry in entries if not problems[entry.id]]
    training = {
        "cache": options.cache or options.out / "cache",
        "jobs": check_integer("--jobs", options.jobs, 1),
        "device": choose_device(options.device),
    }
    _train_all(ready, seeds, training)
    results: dict[str, Result] = {}
    errors: dict[str, str] = {}
    with Progress("items", "done") as progress:
        for place, entry in enumerate(ready, start=1):
            print(f"\n{entry.id}: {entry.title}", flush=True)
            try:
                result = run_entry(
                    entry,
                    options.out,
                    data=options.data,
                    seeds=seeds,
                    epochs=options.epochs,
                    progress=Progress,
                    announce=lambda text: print(f"  {text}", flush=True),
                    **training,
                )
            except (ValueError, OSError) as error:
                if options.items:
                    raise
                errors[entry.id] = str(error)
                print(f"  {error}", flush=True)
                continue
            results[entry.id] = result
            _print_result(result, options.out)
            progress(place, len(ready))
    if results and not is_installed("matplotlib"):
        print(f"\n{NO_PICTURES}")
    write_pages(options.out, catalogue)
    return _sum_up(entries, results, errors, problems, options.out)


def _train_all(entries: Sequence[Entry], seeds: tuple[int, ...], training: dict[str, Any]) -> None:
    """The runs that the chosen items need, all together before any of them is judged."""
    settings = settings_of([entry.id for entry in entries])
    if not settings:
        return
    _announce(plan_runs(settings, seeds, training["cache"]), training)
    with Progress("training", "steps") as progress:
        got = gather(settings, seeds, progress=_from_the_first_step(progress), **training)
    print(f"{len(got.records)} runs in {training['cache']}, {len(got.failures)} failed", flush=True)
    for problem in got.failures.values():
        print(f"  failed: {problem}", flush=True)


def _from_the_first_step(progress: Progress) -> Reporter:
    """Return a reporter whose rate leaves out what comes before the first step: starting processes, painting."""
    begun = False

    def report(done: int, total: int) -> None:
        nonlocal begun
        if begun:
            progress(done, total)
        elif done:
            progress.begin(done)
            begun = True

    return report


def _announce(plan: Plan, training: dict[str, Any]) -> None:
    """Say what will be trained and about how long it takes, before it starts."""
    count = len(plan.left)
    if not count:
        return
    found = f" ({len(plan.records)} more are in {training['cache']})" if plan.records else ""
    note(f"{count} {'run' if count == 1 else 'runs'} to train, {plan.steps:,} steps in all{found}")
    seconds = estimate_seconds(plan, **training)
    note(f"about {duration(seconds)} on {training['device']} with --jobs {training['jobs']}")


def _print_list(entries: Sequence[Entry], data: Path | None) -> Results:
    width = max((len(entry.id) for entry in entries), default=0)
    problems = {entry.id: missing(entry, data) for entry in entries}
    for entry in entries:
        problem = problems[entry.id]
        print(
            wrapped(f"{entry.id:<{width}}  {entry.kind:<12}  ", f"{entry.title}{f'  [{problem}]' if problem else ''}")
        )
    items = [
        {"id": entry.id, "kind": entry.kind, "title": entry.title, "needs": problems[entry.id] or None}
        for entry in entries
    ]
    return Results({"items": items})


def _print_result(result: Result, folder: Path) -> None:
    words = {"held": green("held"), "contradicted": red("CONTRADICTED"), "undecided": "undecided", None: ""}
    for finding in result.findings:
        beside = f" (paper {finding.paper})" if finding.paper else ""
        said = [part for part in (words[finding.verdict], finding.note) if part]
        end = f": {'; '.join(dict.fromkeys(said))}" if said else ""
        print(wrapped("  ", f"{finding.what}: {finding.ours}{beside}{end}"))
    for name in result.figures:
        print(f"  written: {folder / 'images' / name}.png, .svg")


def _sum_up(
    entries: Sequence[Entry], results: dict[str, Result], errors: dict[str, str], problems: dict[str, str], folder: Path
) -> Results:
    """The table at the end; 1 where an item broke, or a theory value is off and nothing says why."""
    width = max((len(entry.id) for entry in entries), default=0)
    print()
    for entry in entries:
        result = results.get(entry.id)
        if entry.id in errors:
            line = f"failed: {errors[entry.id]}"
        elif result is not None:
            line = f"{state(entry, result)}, {result.seconds:g} s"
        else:
            line = problems[entry.id]
        print(wrapped(f"{entry.id:<{width}}  {entry.kind:<12}  ", line))
    left = len(entries) - len(results) - len(errors)
    print(f"\n{len(results)} run, {left} left out, {len(errors)} failed; pages: {folder / 'index.md'}")
    off = [
        entry.id for entry in entries if entry.kind == "theory" and entry.id in results and results[entry.id].differs
    ]
    if off:
        print(f"outside the tolerance, without a reason: {', '.join(off)}")
    document = {
        "results": results,
        "failed": errors,
        "left_out": {entry.id: problems[entry.id] for entry in entries if problems[entry.id]},
        "differ": off,
        "pages": folder / "index.md",
    }
    return Results(document, status=1 if errors or off else 0)
