"""Options of the commands that take photos, and the recognizer that they make."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hypersphere as hs
from hypersphere.cli.model_options import add_default_model, check_model, chosen_model, runtime_of, say_model
from hypersphere.cli.parser import Parser, add_device, check_exists

if TYPE_CHECKING:
    from hypersphere.recognition import Calibration, Recognizer

FACES = ("only", "largest")


def add_photo_options(parser: argparse.ArgumentParser, *, one_face: bool = True) -> None:
    """Which model, detector and calibration, and what a photo may show.

    Args:
        parser: of the command.
        one_face: whether a photo must show one face.
    """
    add_default_model(parser)
    parser.add_argument(
        "--calibration", type=Path, metavar="FILE", help="what `calibrate` wrote (the file beside the model)"
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
    detector = Path(options.detector) if options.detector.endswith(".onnx") and not options.aligned else None
    check_model(options.model)
    for option, path in (("calibration", options.calibration), ("detector", detector)):
        check_exists(path, f"--{option}")


def check_gallery_file(address: str) -> None:
    """ValueError for the file of a gallery that is not there, before torch or a model is loaded."""
    if "://" not in address and not Path(address).exists():
        raise ValueError(f"{address}: there is no such gallery")


def chosen_calibration(options: argparse.Namespace) -> Calibration:
    """The calibration that the options name, for rates to be looked up before a model is loaded."""
    return hs.recognition.load_calibration(options.calibration or chosen_model(options))


def open_recognizer(options: argparse.Namespace, gallery: str | None = None) -> Recognizer:
    """The recognizer that the options name; says which model it is if none was named."""
    model = chosen_model(options)
    say_model(options)
    return hs.Recognizer(
        model,
        detector=None if options.aligned else options.detector,
        gallery=gallery,
        calibration=options.calibration,
        contract=options.contract,
        provider=runtime_of(options),
        face=getattr(options, "face", "only"),
        device=options.device,
    )
