"""`hypersphere models`: the catalogue of named models, with licences, error rates and files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.model_options import USES
from hypersphere.cli.output import Results, bold, wrapped
from hypersphere.core import Progress, nearest

if TYPE_CHECKING:
    from hypersphere.models import CatalogueEntry


def add_command(commands: Any) -> None:
    """Add `models` to the command line."""
    parser = commands.add_parser(
        "models",
        help="models by name: licence, data, error rates; fetch one",
        description="List the models that have names, or say of one what a person needs to decide: licence, training "
        "data, error rates, files. Any command takes the name as MODEL and fetches the files when they are first used.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="of one model")
    parser.add_argument("--fetch", action="store_true", help="fetch its files now")
    parser.add_argument("--use", choices=USES, help="list those whose licence allows this")
    parser.set_defaults(run="models:run_models")


def run_models(options: argparse.Namespace) -> Results:
    """List the models, or show and fetch one."""
    entries = hs.models.named_models()
    if options.name is None:
        if options.fetch:
            raise ValueError("--fetch: name one model to fetch, such as `hypersphere models intel-0095 --fetch`")
        shown = [entry for entry in entries.values() if options.use != "any" or entry.use == "any"]
        _print_list(shown)
        return Results({"home": hs.models.home(), "models": [_document(entry) for entry in shown]})
    if options.name not in entries:
        raise ValueError(f"model {options.name!r} is unknown; {nearest(options.name, entries)}")
    entry = entries[options.name]
    entry.check_use(options.use)
    if options.fetch:
        with Progress(f"fetching {entry.name}", "bytes") as progress:
            hs.models.fetch(entry, progress=progress)
    _print_one(entry)
    return Results({"home": hs.models.home(), "model": _document(entry)})


def _print_list(entries: list[CatalogueEntry]) -> None:
    print(bold("  name        kind        use       LFW, %  FNMR, % at FMR 1e-3  size, MB  at hand"))
    for entry in entries:
        measured = entry.measured
        lfw = f"{measured.lfw[0]:.2f}" if measured.lfw else "-"
        fnmr = f"{measured.fnmr[0][1]:.1f}" if measured.fnmr else "-"
        size = f"{sum(file.bytes for file in entry.files) / 1e6:.1f}" if entry.files else "-"
        there = "yes" if entry.at_hand else "no"
        print(f"  {entry.name:<10}  {entry.kind:<10}  {entry.use:<8}  {lfw:>6}  {fnmr:>19}  {size:>8}  {there}")


def _print_one(entry: CatalogueEntry) -> None:
    print(bold(f"{entry.name}: {entry.about}"))
    print(wrapped("  licence  ", entry.licence))
    print(wrapped("  data     ", entry.data))
    print(wrapped("  source   ", entry.source))
    if entry.contract is not None:
        height, width = entry.contract.input_size
        print(f"  images   {width}x{height} {entry.contract.colour}, aligned to {entry.contract.alignment}")
    measured = entry.measured
    if measured.lfw:
        print("  LFW      {:.2f} % [{:.2f}, {:.2f}] of 6,000 pairs".format(*measured.lfw))
    for fmr, *rates in measured.fnmr:
        print(f"  FNMR     {rates[0]:.1f} % [{rates[1]:.1f}, {rates[2]:.1f}] at FMR {fmr:.0e}")
    if measured.portraits_fmr:
        print(f"  FMR      {measured.portraits_fmr:.1e} on portraits, where LFW's threshold says 1e-3")
    if measured.milliseconds:
        print(f"  time     {measured.milliseconds:.1f} ms of one core for an image")
    for file in entry.files:
        there = "there" if (entry.folder / file.name).is_file() else "not fetched"
        print(f"  file     {entry.folder / file.name} ({there})")
        print(f"           {file.url}\n           SHA-256 {file.sha256}")


def _document(entry: CatalogueEntry) -> dict[str, Any]:
    return {**vars(entry), "at_hand": entry.at_hand}
