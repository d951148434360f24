"""`hypersphere find`: on which of many photos somebody is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results, bold, note
from hypersphere.cli.photo_options import (
    add_cache,
    add_photo_options,
    check_files,
    check_output,
    check_photos,
    chosen_calibration,
    describe_calibration,
    errors_exit_2,
    faces_table,
    hint_at_rate,
    open_cache,
    open_recognizer,
    print_left_out,
)
from hypersphere.core import Progress, counted, write_atomically

_SHOWN = 20


def add_command(commands: Any) -> None:
    """Add `find` to the command line."""
    parser = commands.add_parser(
        "find",
        help="on which of many photos somebody is",
        description="Compare the face of one photo with every face of a folder of photos, the best first. "
        "Exit status: 0 found, 1 not found, 2 error.",
    )
    parser.add_argument("photo", type=Path, metavar="PHOTO", help="of the person, with one face")
    parser.add_argument("photos", nargs="+", type=Path, metavar="PHOTOS", help="folders or photos to search, or a .tar")
    parser.add_argument(
        "--fmr",
        type=float,
        default=1e-3,
        metavar="RATE",
        help="share of the faces of strangers that may be accepted (%(default)s)",
    )
    parser.add_argument("--page", type=Path, metavar="OUT.html", help="write the faces as a page")
    parser.add_argument("--out", type=Path, metavar="OUT.csv", help="write photo, box and score of every face")
    add_cache(parser)
    add_photo_options(parser)
    hint_at_rate(parser, "--fmr")
    parser.set_defaults(run="find:run_find")


def run_find(options: argparse.Namespace) -> Results:
    """Search, and say on which photos. Whatever goes wrong is status 2, for 1 says that nothing was found."""
    with errors_exit_2():
        return _searched(options)


def _searched(options: argparse.Namespace) -> Results:
    check_files(options, [options.photo])
    check_photos(options.photos)
    check_output(options.page, "--page", ".html")
    check_output(options.out, "--out", ".csv")
    calibration = chosen_calibration(options)
    calibration.table.at(options.fmr)
    recognizer = open_recognizer(options, calibration)
    cache = open_cache(options, options.photos, recognizer)
    with Progress(f"finding faces in {options.photos[0].name}", "photos") as progress:
        search = hs.recognition.find_person(
            recognizer, options.photo, options.photos, options.fmr, cache=cache, progress=progress
        )
    _print(search)
    print_left_out(search.faces.left_out, search.names)
    print(f"  calibrated on  {describe_calibration(options, calibration)}")
    note(hs.recognition.NO_LIVENESS)
    if options.out is not None:
        columns = {"score": [f"{score:.4f}" for score in search.scores]}
        write_atomically(options.out, faces_table(search.faces, search.names, columns))
        note(f"table: {options.out}")
    if options.page is not None:
        hs.recognition.write_find_page(options.page, search)
        note(f"page: {options.page}")
    document = {
        "photo": options.photo,
        "sentence": f"{search.verdict}. {search.setting}",
        "photos": search.photos,
        "faces": search.rows(),
        "left_out": {search.names[number]: why for number, why in search.faces.left_out.items()},
        "threshold": search.threshold,
        "calibration": calibration.table.people,
        "model": recognizer.contract.digest,
        "contract": calibration.contract,
    }
    return Results(document, status=0 if search.matches else 1)


def _print(search: hs.recognition.PersonSearch) -> None:
    """The sentence, the best faces, and the one that just misses the threshold."""
    row, matches = search.threshold, search.matches
    print(bold(f"{search.verdict}."))
    print(search.setting)
    for face in matches[:_SHOWN]:
        print(f"  {search.scores[face]:.3f}  {search.names[search.faces.photos[face]]}")
    if len(matches) > _SHOWN:
        print(f"  {counted(len(matches) - _SHOWN, 'more face')} (--page shows them, --out and --json list them)")
    below = search.order[len(matches) :][:1]
    nearest = "".join(f", nearest below it {search.scores[face]:.3f}" for face in below)
    expected = row.fmr * len(search.scores)
    print(f"  threshold      {row.threshold:.3f} at FMR {row.fmr:.0e} [{row.fmr_low:.1e}, {row.fmr_high:.1e}]{nearest}")
    print(f"  by mistake     {expected:.2g} of {counted(len(search.scores), 'face')} expected, if all were strangers")
