"""`hypersphere identify`: who of a gallery is on photos."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.enroll import add_gallery, gallery_address
from hypersphere.cli.output import Results, bold, note
from hypersphere.cli.photo_options import (
    add_cache,
    add_photo_options,
    check_files,
    check_gallery_file,
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

if TYPE_CHECKING:
    from hypersphere.recognition import IdentificationDecision, Recognizer


def add_command(commands: Any) -> None:
    """Add `identify` to the command line."""
    parser = commands.add_parser(
        "identify",
        help="who of a gallery is on photos, at a stated rate of false positives",
        description="Search a gallery for the face of a photo, with the threshold of a false-positive identification "
        "rate in a gallery of this size; of several photos or a folder, for every face. Exit status: 0 somebody is "
        "recognised, 1 nobody, 2 error.",
    )
    parser.add_argument(
        "photos", nargs="+", type=Path, metavar="PHOTO", help="one with one face, or several, or folders"
    )
    parser.add_argument(
        "--fpir",
        type=float,
        default=1e-2,
        metavar="RATE",
        help="share of searches for people who are not enrolled that may return anybody (%(default)s)",
    )
    parser.add_argument("--out", type=Path, metavar="OUT.csv", help="write photo, box, name and score of every face")
    add_gallery(parser)
    add_cache(parser)
    add_photo_options(parser)
    hint_at_rate(parser, "--fpir")
    parser.set_defaults(run="identify:run_identify")


def run_identify(options: argparse.Namespace) -> Results:
    """Search, and say who it is. Whatever goes wrong is status 2, for 1 says that nobody matches."""
    with errors_exit_2():
        return _identified(options)


def _identified(options: argparse.Namespace) -> Results:
    single = len(options.photos) == 1 and not options.photos[0].is_dir() and options.out is None
    check_files(options, options.photos if single else [])
    check_photos(options.photos)
    check_output(options.out, "--out", ".csv")
    address = gallery_address(options)
    check_gallery_file(address)
    calibration = chosen_calibration(options)
    with hs.open_gallery(address) as gallery:
        calibration.search_at(options.fpir, gallery.size())
        recognizer = open_recognizer(options, calibration, gallery)
        results = _one(recognizer, options) if single else _many(recognizer, options)
    print(f"  gallery        {address}")
    print(f"  calibrated on  {describe_calibration(options, calibration)}")
    print(f"  model          weights {recognizer.contract.digest}, contract {calibration.contract}")
    note(hs.recognition.NO_LIVENESS)
    return Results({"gallery": address, **results.document}, results.status)


def _one(recognizer: Recognizer, options: argparse.Namespace) -> Results:
    """Search for the one face of a photo."""
    [photo] = options.photos
    decision = recognizer.identify(photo, options.fpir)
    print(bold(f"{decision.verdict}."))
    print(decision.setting)
    print(f"  {decision}")
    if decision.fnir is not None and decision.fnir_low is not None and decision.fnir_high is not None:
        print(
            f"  false-negative identification rate  {decision.fnir:.1%} [{decision.fnir_low:.1%}, "
            f"{decision.fnir_high:.1%}], measured with N = {decision.calibrated_size:,}"
        )
    return Results({"photo": photo, **decision.as_dict()}, status=0 if decision.match else 1)


def _many(recognizer: Recognizer, options: argparse.Namespace) -> Results:
    """Search for every face of several photos."""
    source, names = hs.recognition.open_photos(options.photos)
    cache = open_cache(options, options.photos, recognizer)
    with Progress(f"finding faces in {options.photos[0].name}", "photos") as progress:
        faces = hs.recognition.find_faces(recognizer, source, progress, cache=cache)
    decisions = [recognizer.search(unit, options.fpir) for unit in faces.unit]
    known = sum(decision.match for decision in decisions)
    print(bold(f"{counted(known, 'face')} of {len(decisions):,} on {counted(len(names), 'photo')} recognised."))
    print(f"{decisions[0].setting} This holds for each face.")
    for photo, decision in zip(faces.photos, decisions, strict=True):
        print(f"  {names[photo]}: {_who(decision)}")
    print_left_out(faces.left_out, names)
    if options.out is not None:
        columns = {
            "name": [decision.candidates[0].subject if decision.match else "" for decision in decisions],
            "score": ["" if decision.best_score is None else f"{decision.best_score:.4f}" for decision in decisions],
        }
        write_atomically(options.out, faces_table(faces, names, columns))
        note(f"table: {options.out}")
    document = {
        "photos": names,
        "faces": [
            {"photo": names[photo], "box": box, **decision.as_dict()}
            for photo, box, decision in zip(faces.photos, faces.boxes, decisions, strict=True)
        ],
        "left_out": {names[number]: why for number, why in faces.left_out.items()},
    }
    return Results(document, status=0 if known else 1)


def _who(decision: IdentificationDecision) -> str:
    """Return the people that a face may be, each with the score, or the best score of nobody."""
    if decision.candidates:
        return " or ".join(f"{candidate.subject} ({candidate.score:.3f})" for candidate in decision.candidates)
    return "nobody" if decision.best_score is None else f"nobody (best score {decision.best_score:.3f})"
