"""Options of the commands that take photos, and the recognizer that they make."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hypersphere as hs
from hypersphere.cli.model_options import add_default_model, check_model, chosen_model, runtime_of, say_model
from hypersphere.cli.output import note
from hypersphere.cli.parser import Parser, add_device, check_exists
from hypersphere.core import counted

if TYPE_CHECKING:
    from hypersphere.recognition import Calibration, FaceCache, FoundFaces, Gallery, Recognizer

FACES = ("only", "largest")
CALIBRATIONS = ("portraits", "albums")


def add_photo_options(parser: argparse.ArgumentParser, *, one_face: bool = True) -> None:
    """Which model, detector and calibration, and what a photo may show.

    Args:
        parser: of the command.
        one_face: whether a photo must show one face.
    """
    add_default_model(parser)
    parser.add_argument(
        "--calibration",
        metavar="C",
        help="portraits (of adults) or albums (families, children) for the starter model, or a file that `calibrate` "
        "wrote (portraits, or the file beside the model)",
    )
    parser.add_argument("--detector", default="mtcnn", metavar="D", help="that finds faces (%(default)s)")
    parser.add_argument("--aligned", action="store_true", help="photos are aligned crops: look for no faces")
    if one_face:
        parser.add_argument(
            "--face", choices=FACES, default="only", help="of a photo with several: refuse it, or take the largest"
        )
    add_device(parser)


def hint_at_rate(parser: argparse.ArgumentParser, option: str) -> None:
    """Answer `--threshold` with the option that chooses one by its error rate."""
    if isinstance(parser, Parser):
        parser.hints["--threshold"] = f"a threshold is chosen by its error rate: {option} 1e-3"


def check_output(path: Path | None, option: str, ending: str) -> None:
    """ValueError for a file to be written that has another ending, or whose folder does not exist.

    Folders are not made: a typing mistake in a path would leave them anywhere.
    """
    if path is None:
        return
    if path.suffix.lower() != ending:
        raise ValueError(f"{option} {path}: what is written ends in {ending}")
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: the folder {path.parent} does not exist; make it first")


@contextlib.contextmanager
def errors_exit_2() -> Iterator[None]:
    """Make any error one of status 2, for commands whose status 1 says that nothing matches."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(str(error) or type(error).__name__) from error


def check_files(options: argparse.Namespace, photos: Sequence[Path]) -> None:
    """ValueError for a photo or a file of `add_photo_options` that is not there, before torch or a model is loaded."""
    for photo in photos:
        if not photo.is_file():
            raise ValueError(f"{photo} is {'a folder; expected a photo' if photo.is_dir() else 'missing'}")
    calibration = options.calibration
    if calibration is not None and calibration not in CALIBRATIONS and not Path(calibration).exists():
        known = ", ".join(CALIBRATIONS)
        raise ValueError(f"--calibration {calibration} is missing; expected {known} or a file that `calibrate` wrote")
    detector = Path(options.detector) if options.detector.endswith(".onnx") and not options.aligned else None
    check_model(options.model)
    check_exists(detector, "--detector")


def check_photos(paths: Sequence[Path]) -> None:
    """ValueError for a photo or a folder that is not there."""
    for path in paths:
        check_exists(path)


def add_cache(parser: argparse.ArgumentParser) -> None:
    """`--no-cache`, of the commands that take folders of photos."""
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="keep no faces for the next command ($XDG_CACHE_HOME or ~/.cache, hypersphere/faces)",
    )


def open_cache(options: argparse.Namespace, paths: Sequence[Path], recognizer: Recognizer) -> FaceCache | None:
    """Return the faces of these photos that earlier commands kept; None where none are to be kept."""
    if options.no_cache:
        return None
    cache = hs.recognition.FaceCache(paths, recognizer)
    if not cache.path.exists():
        note(f"the faces are kept in {cache.path} for the next time (biometric data; --no-cache keeps none)")
    return cache


def print_left_out(left_out: Mapping[int, str], names: Sequence[str]) -> None:
    """Name photos that gave no face, and why."""
    for number, why in list(left_out.items())[:10]:
        print(f"  {names[number]}: left out ({why})")
    if len(left_out) > 10:
        print(f"  {counted(len(left_out) - 10, 'more photo')} left out (--json names them)")


def faces_table(faces: FoundFaces, names: Sequence[str], columns: Mapping[str, Sequence[object]]) -> bytes:
    """Return photo and box of every face with further columns, as CSV.

    Args:
        faces: on the photos.
        names: of the photos.
        columns: by their names, a value for each face.
    """
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["photo", "x0", "y0", "x1", "y1", *columns])
    for photo, box, *values in zip(faces.photos, faces.boxes, *columns.values(), strict=True):
        rows.writerow([names[photo], *(["", "", "", ""] if box is None else [f"{side:.1f}" for side in box]), *values])
    return text.getvalue().encode("utf-8", "surrogateescape")


def check_gallery_file(address: str) -> None:
    """ValueError for the file of a gallery that is not there, before torch or a model is loaded."""
    if "://" not in address and not Path(address).exists():
        raise ValueError(f"{address}: there is no such gallery")


def chosen_calibration(options: argparse.Namespace) -> Calibration:
    """The calibration that the options name, for rates to be looked up before a model is loaded."""
    model, named = chosen_model(options), options.calibration
    if named in CALIBRATIONS and model != hs.models.STARTER:
        raise ValueError(
            f"--calibration {named} is of the starter model; leave it out for that of {model}, or name a file"
        )
    return hs.recognition.load_calibration(named or model)


def describe_calibration(options: argparse.Namespace, calibration: Calibration) -> str:
    """Return whose scores decide, with a hint at the other calibration that comes with the starter model."""
    people = calibration.table.people
    if options.calibration is None and chosen_model(options) == hs.models.STARTER:
        return f"{people}; for family albums: --calibration albums"
    return people


def open_recognizer(
    options: argparse.Namespace, calibration: Calibration, gallery: str | Gallery | None = None
) -> Recognizer:
    """The recognizer that the options name; says which model it is if none was named."""
    model = chosen_model(options)
    say_model(options)
    return hs.Recognizer(
        model,
        detector=None if options.aligned else options.detector,
        gallery=gallery,
        calibration=calibration,
        contract=options.contract,
        provider=runtime_of(options),
        face=getattr(options, "face", "only"),
        device=options.device,
    )
