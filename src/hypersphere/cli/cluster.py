"""`hypersphere cluster`: group the faces of photos by person."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results, note
from hypersphere.cli.photo_options import (
    add_photo_options,
    check_files,
    check_output,
    chosen_calibration,
    hint_at_rate,
    open_recognizer,
)
from hypersphere.core import Progress, counted, write_atomically

LINKAGES = ("average", "single")


def add_command(commands: Any) -> None:
    """Add `cluster` to the command line."""
    parser = commands.add_parser(
        "cluster",
        help="group the faces of a folder of photos by person",
        description="Find, align and embed every face of every photo, and group them by person at a false-match rate.",
    )
    parser.add_argument("photos", type=Path, metavar="PHOTOS", help="folder, .tar or folder of them, list, or .rec")
    parser.add_argument(
        "--fmr", type=float, default=1e-3, metavar="RATE", help="false-match rate of one pair (%(default)s)"
    )
    parser.add_argument(
        "--linkage",
        choices=LINKAGES,
        default="average",
        help="groups are one while their mean similarity, or that of any pair, reaches the threshold (%(default)s)",
    )
    parser.add_argument("--page", type=Path, metavar="OUT.html", help="write the groups as a page")
    parser.add_argument("--out", type=Path, metavar="OUT.csv", help="write photo, box and group of every face")
    add_photo_options(parser, one_face=False)
    hint_at_rate(parser, "--fmr")
    parser.set_defaults(run="cluster:run_cluster")


def run_cluster(options: argparse.Namespace) -> Results:
    """Group, print the largest groups, and write what was asked for."""
    check_output(options.out, "--out", ".csv")
    check_output(options.page, "--page", ".html")
    check_files(options, [])
    source, names = hs.data.open_every_image(options.photos)
    row = chosen_calibration(options).table.at(options.fmr)
    recognizer = open_recognizer(options)
    with Progress(f"finding faces in {options.photos.name}", "photos") as progress:
        faces = hs.recognition.find_faces(recognizer, source, progress)
    groups = hs.recognition.cluster_faces(faces.unit, row.threshold, linkage=options.linkage)
    members = hs.recognition.members_of(groups)
    several = [group for group in members if len(group) > 1]
    numbers = (groups + 1).tolist()
    hint = ", indicative" if row.indicative else ""
    print(
        f"{counted(len(groups), 'face')} of {counted(len(names), 'photo')}: {counted(len(several), 'group')}, "
        f"{counted(len(members) - len(several), 'face')} on their own, "
        f"at FMR {row.fmr:.0e} [{row.fmr_low:.1e}, {row.fmr_high:.1e}]{hint} of a pair "
        f"({options.linkage} linkage, threshold {row.threshold:.3f})"
    )
    for number, group in enumerate(several[:10], start=1):
        print(f"  group {number}: {len(group):,} faces, {names[faces.photos[group[0]]]} ...")
    if len(several) > 10:
        print(f"  {len(several) - 10:,} more (--page shows them, --out and --json list them)")
    for number, why in list(faces.left_out.items())[:10]:
        print(f"  {names[number]}: left out ({why.removeprefix(f'{source.describe(number)}: ')})")
    if len(faces.left_out) > 10:
        print(f"  {counted(len(faces.left_out) - 10, 'more photo')} left out (--json names them)")
    if options.out is not None:
        write_atomically(options.out, _table(faces, numbers, names))
        note(f"table: {options.out}")
    if options.page is not None:
        about = f"{counted(len(names), 'photo')} of {options.photos.name}, {options.linkage} linkage."
        hs.recognition.write_cluster_page(options.page, faces, groups, names, row, about=about)
        note(f"page: {options.page}")
    return Results(
        {
            "photos": len(names),
            "faces": [
                {"photo": names[photo], "box": box, "group": group}
                for photo, box, group in zip(faces.photos, faces.boxes, numbers, strict=True)
            ],
            "left_out": {names[number]: why for number, why in faces.left_out.items()},
            "linkage": options.linkage,
            "threshold": row,
            "calibration": recognizer.calibration.table.people,
            "calibration_digest": recognizer.calibration.table.digest,
            "model": recognizer.contract.digest,
            "contract": recognizer.calibration.contract,
        }
    )


def _table(faces: Any, groups: list[int], names: list[str]) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["photo", "x0", "y0", "x1", "y1", "group"])
    for photo, box, group in zip(faces.photos, faces.boxes, groups, strict=True):
        rows.writerow([names[photo], *(["", "", "", ""] if box is None else [f"{side:.1f}" for side in box]), group])
    return text.getvalue().encode("utf-8", "surrogateescape")
