"""`hypersphere reproduce`: every figure and table of the papers as a command."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

import hypersphere as hs
from hypersphere.cli import Results, green, note, red, screen_width, wrapped
from hypersphere.core import Progress, check_integer, choose_device, clip, is_installed
from hypersphere_papers import laboratory
from hypersphere_papers.laboratory import Entry, Result

_COLOURS = {"held": green, "contradicted": red}
_COUNTS = (
    "Counts: how many of an item's sentences and numbers are held/contradicted/undecided (of a proxy agree/disagree/"
    "cannot tell), and in fourth place how many were not measured. Rows: how many of those that the paper's table "
    "prints have a number of ours."
)
_DATA = (
    "Items on faces, MNIST and CIFAR-10 take --data PATH; runs on record: papers/records/losses (faces), "
    "papers/records/cifar (MNIST, CIFAR-10)."
)
_ROOM_FOR_COUNTS = 100
"""Columns of a terminal that has them."""


def run_reproduce(options: argparse.Namespace) -> Results:
    """List items, or run them and sum up."""
    catalogue = laboratory.load_catalogue()
    chosen = catalogue.select(kind=options.kind, paper=options.paper)
    if options.pages:
        laboratory.write_pages(options.out, catalogue)
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
    problems = {entry.id: laboratory.missing(entry, options.data) for entry in entries}
    for name in options.items:
        if problems[name]:
            raise ValueError(f"{name} cannot run: {problems[name]}")
    how = laboratory.RunOptions(
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
    ready = [entry for entry in entries if not problems[entry.id]]
    for entry, found in laboratory.run_entries(ready, options.out, how):
        if isinstance(found, laboratory.Result):
            results[entry.id] = found
            _print_result(found, options.out)
        elif len(options.items) == 1:
            raise found
        else:
            errors[entry.id] = str(found)
            print(f"  {found}", flush=True)
    if results and not is_installed("matplotlib"):
        print(f"\n{hs.plots.NO_PICTURES}")
    laboratory.write_pages(options.out, catalogue)
    return _sum_up(entries, results, errors, problems, options.out)


def _print_list(entries: Sequence[Entry], data: Path | None, folder: Path) -> Results:
    """Every item with its kind and the verdict of its stored result: of `folder`, or else that of this version."""
    results = laboratory.shipped_results() | laboratory.read_results(folder)
    width = max((len(entry.id) for entry in entries), default=0)
    columns = screen_width()
    counted = columns is None or columns >= _ROOM_FOR_COUNTS
    items, run, of = [], 0, 0
    for entry in entries:
        problem, result = laboratory.missing(entry, data), results.get(entry.id)
        word = "not run" if result is None else result.state
        shown_word = "not run" if result is None else result.state_in_words
        counts = {} if result is None else result.counts()
        rows = [0 if result is None else result.rows_run(entry), len(entry.rows)]
        run, of = run + rows[0], of + rows[1]
        items.append(
            {
                "id": entry.id,
                "kind": entry.kind,
                "data": entry.data,
                "verdict": word,
                "says": shown_word,
                "counts": counts,
                "rows": rows,
                "proxy": entry.proxy or None,
                "title": entry.title,
                "needs": problem or None,
            }
        )
        shown = _COLOURS.get(word, str)(f"{shown_word:<18}")
        table = f"{_compact(counts):<8}  {f'{rows[0]}/{rows[1]}' if entry.rows else '':<6}" if counted else ""
        start = f"{entry.id:<{width}}  {entry.data:<13}  {shown}  {table}"
        only_data = entry.kind == "real" and laboratory.find_item(entry.id) is not None
        text = f"{entry.full_title}{f'  [{problem}]' if problem and not only_data else ''}"
        print(start + (text if columns is None else clip(text, columns - len(start) + len(shown) - 18)))
    total = Counter(item["verdict"] for item in items)
    note(f"\n{len(items)} items: {', '.join(f'{total[word]} {word}' for word in laboratory.STATES)}")
    note(f"{run} of the {of} rows that the papers' tables print were run.")
    for line in (f"An item is {laboratory.STATE_RULE}.", *([_COUNTS] if counted else []), _DATA):
        note(wrapped("", line))
    return Results({"items": items})


def _compact(counts: Mapping[str, int]) -> str:
    """`11/1/2`: held, contradicted, undecided, with proxies; a fourth number where sentences were not measured."""
    *decided, lost = counts.values() if counts else (0,)
    half = len(decided) // 2
    numbers = [*(one + other for one, other in zip(decided[:half], decided[half:], strict=True)), lost]
    return "/".join(map(str, numbers if numbers[-1] else numbers[:-1])) if any(numbers) else ""


def _print_result(result: Result, folder: Path) -> None:
    """Judged sentences, then the numbers behind them, then how much is not on record and how well runs fit."""
    words = {"held": green("held"), "contradicted": red("CONTRADICTED")}
    for finding in sorted(result.findings, key=lambda finding: finding.verdict is None):
        if not finding.measured:
            continue
        beside = f" (paper {finding.paper})" if finding.paper else ""
        sure = f", ± {finding.detectable:g} at 95 %" if finding.detectable is not None else ""
        said = [part for part in (words.get(finding.word, finding.word), finding.note) if part]
        end = f": {'; '.join(dict.fromkeys(said))}" if said else ""
        print(wrapped("  ", f"{finding.what}: {finding.ours}{beside}{sure}{end}"))
    if lost := [finding for finding in result.findings if not finding.measured]:
        print(wrapped("  ", laboratory.not_on_record(lost)))
    if result.fits:
        print(wrapped("  ", f"runs: {laboratory.fit_summary(result.fits)}"))
    if untested := laboratory.no_tests(result.fits):
        print(wrapped("  ", untested))
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
            line = f"{laboratory.state(entry, result)}, {result.seconds:g} s"
        else:
            line = problems[entry.id]
        print(wrapped(f"{entry.id:<{width}}  {entry.data:<13}  ", line))
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
