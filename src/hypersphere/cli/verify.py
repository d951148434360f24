"""`hypersphere verify`: whether two photos show one person, at a stated false-match rate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results, bold, note
from hypersphere.cli.photo_options import (
    add_photo_options,
    check_files,
    check_output,
    chosen_calibration,
    describe_calibration,
    errors_exit_2,
    hint_at_rate,
    open_recognizer,
)


def add_command(commands: Any) -> None:
    """Add `verify` to the command line."""
    parser = commands.add_parser(
        "verify",
        help="whether two photos show one person, at a stated false-match rate",
        description="Find, align and embed the face of each photo, and compare their cosine with the threshold of a "
        "false-match rate. Exit status: 0 match, 1 no match, 2 error.",
    )
    parser.add_argument("first", type=Path, metavar="A.jpg", help="a photo with one face")
    parser.add_argument("second", type=Path, metavar="B.jpg", help="another")
    parser.add_argument(
        "--fmr", type=float, default=1e-3, metavar="RATE", help="false-match rate not to be exceeded (%(default)s)"
    )
    parser.add_argument("--page", type=Path, metavar="OUT.html", help="write photos, crops and score as a page")
    add_photo_options(parser)
    hint_at_rate(parser, "--fmr")
    parser.set_defaults(run="verify:run_verify")


def run_verify(options: argparse.Namespace) -> Results:
    """Decide, print, and write the page. Whatever goes wrong is status 2, for 1 says that the photos do not match."""
    with errors_exit_2():
        return _verified(options)


def _verified(options: argparse.Namespace) -> Results:
    check_files(options, [options.first, options.second])
    check_output(options.page, "--page", ".html")
    calibration = chosen_calibration(options)
    calibration.table.at(options.fmr)
    recognizer = open_recognizer(options, calibration)
    first, second = (recognizer.portrait(photo) for photo in (options.first, options.second))
    decision = recognizer.decide(first.unit, second.unit, options.fmr)
    print(bold(f"{decision.verdict}."))
    print(decision.setting)
    print(f"  {decision}")
    print(f"  false-non-match rate  {decision.fnmr:.1%} [{decision.fnmr_low:.1%}, {decision.fnmr_high:.1%}]")
    print(f"  at this score         false-match rate at most {decision.fmr_at_score:.1e}")
    print(f"  calibrated on         {describe_calibration(options, calibration)}")
    print(f"  model                 {recognizer.model.name}, weights {decision.model}, contract {decision.contract}")
    note(hs.recognition.NO_LIVENESS)
    document = {"first": options.first, "second": options.second, **decision.as_dict()}
    if options.page is not None:
        where = hs.recognition.write_verify_page(
            options.page, (first, second), decision, recognizer.calibration, recognizer.model.name
        )
        note(f"page: {where}")
        document["page"] = where
    return Results(document, status=0 if decision.match else 1)
