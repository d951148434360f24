"""`hypersphere align`: faces of photos, found and aligned into a folder of crops."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results
from hypersphere.core import Progress, counted

TARGETS = ("insightface-112", "sphereface-112x96", "open-model-zoo-128")
FACES = ("one", "largest", "all")


def add_command(commands: Any) -> None:
    """Add `align` to the command line."""
    parser = commands.add_parser(
        "align",
        help="find and align the faces of photos",
        description="Find the faces of photos and write aligned crops, faces.csv (boxes, landmarks) and align.html: "
        "which photos gave none, and why. The same command goes on after a kill.",
    )
    parser.add_argument("photos", metavar="PHOTOS", help="folder, .tar or folder of them, list, .rec, or one photo")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the crops")
    parser.add_argument(
        "--detector", default="mtcnn", metavar="D", help="mtcnn, or an .onnx file of YuNet or SCRFD (%(default)s)"
    )
    parser.add_argument("--target", choices=TARGETS, default=TARGETS[0], help="alignment target (%(default)s)")
    parser.add_argument(
        "--faces",
        choices=FACES,
        default="one",
        help="of a photo with several: refuse it, or take one or all",
    )
    parser.add_argument(
        "--min-face", type=int, default=20, metavar="N", help="smallest face for mtcnn, in pixels (%(default)s)"
    )
    parser.add_argument("--quality", type=int, metavar="Q", help="JPEG of this quality, 1 to 100 (PNG)")
    parser.add_argument("--format", metavar="F", help="of the photos (guessed from names)")
    parser.add_argument("--processes", type=int, metavar="N", help="that work at once (one per core)")
    parser.set_defaults(run="align:run_align", goes_on=True)


def run_align(options: argparse.Namespace) -> Results:
    """Align and say what was written."""
    task = hs.recognition.AlignTask(
        out=str(options.out),
        **{name: getattr(options, name) for name in ("photos", "detector", "target", "faces", "min_face")},
        **{name: getattr(options, name) for name in ("quality", "format")},
    )
    processes = options.processes if options.processes is not None else os.cpu_count() or 1
    with Progress(f"aligning {Path(options.photos).name}", "photos") as progress:
        report = hs.recognition.align_photos(task, processes=processes, progress=progress)
    rate, failed = report.failure_rate, report.failed
    print(f"{counted(len(report.photos), 'photo')}: {counted(report.crops, 'crop')} in {options.out}")
    if failed:
        kinds = {kind: sum(each.failure == kind for each in failed) for kind in hs.recognition.ALIGN_FAILURES}
        shown = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        print(
            f"without a crop: {len(failed):,} ({shown}); failure to acquire {hs.plots.percent(rate.value)} "
            f"{hs.plots.interval(rate.low, rate.high)}"
        )
        if kinds["several faces"]:
            print("--faces largest or --faces all takes photos of several faces")
    print(f"page: {options.out / 'align.html'}")
    failures = [{"photo": each.photo, "failure": each.failure, "cause": each.cause} for each in failed]
    return Results(
        {
            "photos": len(report.photos),
            "crops": report.crops,
            "failures": failures,
            "failure_to_acquire": {"value": rate.value, "low": rate.low, "high": rate.high, "n": rate.n},
            "files": [options.out / "faces.csv", options.out / "align.html"],
        }
    )
