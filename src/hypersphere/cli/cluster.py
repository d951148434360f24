"""`hypersphere cluster`: group the faces of photos by person."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results, note
from hypersphere.cli.photo_options import (
    add_cache,
    add_photo_options,
    check_files,
    check_output,
    chosen_calibration,
    faces_table,
    hint_at_rate,
    open_cache,
    open_recognizer,
    print_left_out,
)
from hypersphere.core import Progress, counted, refuse_existing, write_atomically

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
    parser.add_argument("--sort", type=Path, metavar="FOLDER", help="copy the photos into folders, one for each group")
    add_cache(parser)
    add_photo_options(parser, one_face=False)
    hint_at_rate(parser, "--fmr")
    parser.set_defaults(run="cluster:run_cluster")


def run_cluster(options: argparse.Namespace) -> Results:
    """Group, print the largest groups, and write what was asked for."""
    check_output(options.out, "--out", ".csv")
    check_output(options.page, "--page", ".html")
    check_files(options, [])
    if options.sort is not None:
        refuse_existing(options.sort)
    source, names = hs.data.open_every_image(options.photos)
    calibration = chosen_calibration(options)
    row = calibration.table.at(options.fmr)
    recognizer = open_recognizer(options, calibration)
    cache = open_cache(options, [options.photos], recognizer)
    with Progress(f"finding faces in {options.photos.name}", "photos") as progress:
        faces = hs.recognition.find_faces(recognizer, source, progress, cache=cache)
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
    print_left_out(faces.left_out, names)
    if options.out is not None:
        write_atomically(options.out, faces_table(faces, names, {"group": numbers}))
        note(f"table: {options.out}")
    if options.page is not None:
        about = f"{counted(len(names), 'photo')} of {options.photos.name}, {options.linkage} linkage."
        hs.recognition.write_cluster_page(options.page, faces, groups, names, row, about=about)
        note(f"page: {options.page}")
    if options.sort is not None:
        folders = hs.recognition.sort_photos(source, names, faces, groups, options.sort)
        note(f"copies of the photos: {counted(len(folders), 'folder')} in {options.sort}")
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
