"""`hypersphere reproduce`: every figure and table of the papers as a command."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch

from hypersphere.cli.output import Results, green, note, red, wrapped
from hypersphere.core import Progress, check_integer, choose_device, is_installed
from hypersphere.plots import NO_PICTURES
from hypersphere.reproduce import (
    Entry,
    Result,
    RunOptions,
    load_catalogue,
    missing,
    read_results,
    run_entries,
    shipped_results,
    state,
    write_pages,
)

_COLOURS = {"held": green, "contradicted": red}
_STATES = ("held", "contradicted", "undecided", "drawn", "not run")


def run_reproduce(options: argparse.Namespace) -> Results:
    """List items, or run them and sum up."""
    catalogue = load_catalogue()
    chosen = catalogue.select(kind=options.kind, paper=options.paper)
    if options.pages:
        write_pages(options.out, catalogue)
        print(f"pages: {options.out / 'index.md'}")
        return Results({"pages": options.out / "index.md"})
    if options.list or not (options.items or options.all):
        return _print_list(chosen, options.data, options.out)
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
    how = RunOptions(
        data=options.data,
        seeds=seeds,
        epochs=options.epochs,
        cache=options.cache,
        jobs=check_integer("--jobs", options.jobs, 1),
        device=choose_device(options.device),
        progress=Progress,
        announce=note,
    )
    torch.set_num_threads(1)
    results: dict[str, Result] = {}
    errors: dict[str, str] = {}
    for entry, found in run_entries([entry for entry in entries if not problems[entry.id]], options.out, how):
        if isinstance(found, Result):
            results[entry.id] = found
            _print_result(found, options.out)
        elif options.items:
            raise found
        else:
            errors[entry.id] = str(found)
            print(f"  {found}", flush=True)
    if results and not is_installed("matplotlib"):
        print(f"\n{NO_PICTURES}")
    write_pages(options.out, catalogue)
    return _sum_up(entries, results, errors, problems, options.out)


def _print_list(entries: Sequence[Entry], data: Path | None, folder: Path) -> Results:
    """Every item with its kind and the verdict of its stored result: of `folder`, or else that of this version."""
    results = shipped_results() | read_results(folder)
    width = max((len(entry.id) for entry in entries), default=0)
    items = []
    for entry in entries:
        problem, result = missing(entry, data), results.get(entry.id)
        word = "not run" if result is None else result.state
        shown = _COLOURS.get(word, str)(f"{word:<12}")
        text = f"{entry.title}{f'  [{problem}]' if problem else ''}"
        print(wrapped(f"{entry.id:<{width}}  {entry.kind:<12}  {shown}  ", text))
        counts = {} if result is None else result.counts()
        about = {"id": entry.id, "kind": entry.kind, "verdict": word, "counts": counts, "title": entry.title}
        items.append({**about, "needs": problem or None})
    total = Counter(item["verdict"] for item in items)
    note(f"\n{len(items)} items: {', '.join(f'{total[word]} {word}' for word in _STATES)}")
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
