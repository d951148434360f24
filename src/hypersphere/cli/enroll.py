"""`hypersphere enroll` and `forget`: people in a gallery."""

from __future__ import annotations

import argparse
import mimetypes
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results
from hypersphere.cli.photo_options import add_photo_options, check_files, chosen_calibration, open_recognizer
from hypersphere.core import counted


def add_command(commands: Any) -> None:
    """Add `enroll` and `forget` to the command line."""
    enroll = commands.add_parser(
        "enroll",
        help="add a person to a gallery by one or more photos",
        description="Make one template of one or more photos of a person, and store it in a gallery.",
    )
    enroll.add_argument("name", metavar="NAME", help="of the person")
    enroll.add_argument("photos", nargs="+", type=Path, metavar="PHOTO", help="each with one face")
    enroll.add_argument("--consent", default="", metavar="TEXT", help="what the person agreed to")
    enroll.add_argument("--days", type=float, metavar="N", help="keep the template so long (for ever)")
    enroll.add_argument("--key", metavar="KEY", help="enrol once, however often the command is repeated with this key")
    add_gallery(enroll)
    add_photo_options(enroll)
    enroll.set_defaults(run="enroll:run_enroll")
    forget = commands.add_parser(
        "forget",
        help="remove a person from a gallery",
        description="Remove all templates of a person from a gallery; no trace of them stays in its file.",
    )
    forget.add_argument("name", metavar="NAME", help="of the person")
    add_gallery(forget)
    forget.set_defaults(run="enroll:run_forget")


def add_gallery(parser: argparse.ArgumentParser) -> None:
    """`--gallery`, of the commands that enrol, identify and forget."""
    parser.add_argument(
        "--gallery",
        metavar="ADDRESS",
        help="a .db file or a server's address ($XDG_DATA_HOME or ~/.local/share, hypersphere/gallery.db)",
    )


def gallery_address(options: argparse.Namespace) -> str:
    """The gallery that was named, or the user's own."""
    address: str | None = options.gallery
    return address or str(hs.recognition.default_gallery())


def _check_name(options: argparse.Namespace) -> None:
    """ValueError where the name is that of a photo: whoever forgot the name would enrol a file."""
    kind, _ = mimetypes.guess_type(options.name)
    if (kind or "").startswith("image/") or Path(options.name).is_file():
        photos = " ".join(str(photo) for photo in (options.name, *options.photos))
        raise ValueError(
            f"NAME {options.name!r} is a photo; the person's name comes first: hypersphere enroll Ada {photos}"
        )


def run_enroll(options: argparse.Namespace) -> Results:
    """Enrol a person, and say where."""
    import time

    _check_name(options)
    if options.days is not None and options.days <= 0:
        raise ValueError(f"--days {options.days:g} must be above 0")
    check_files(options, options.photos)
    expires = None if options.days is None else time.time() + 86400 * options.days
    address = gallery_address(options)
    # One that exists is opened at once, before the model is loaded, so that a damaged file is named first.
    existing = "://" not in address and Path(address).exists()
    gallery = hs.open_gallery(address) if existing else address
    with open_recognizer(options, chosen_calibration(options), gallery) as recognizer:
        template = recognizer.template(options.photos)
        template_id = recognizer.gallery.enroll(
            options.name, template, key=options.key, consent=options.consent, expires=expires
        )
        size = recognizer.gallery.stored()
        recognizer.warn_of_size()
    photos, templates = counted(len(options.photos), "photo"), counted(size, "template")
    print(f"{options.name}: template {template_id} of {photos}, in {address} ({templates})")
    return Results({"subject": options.name, "template": template_id, "photos": options.photos, "gallery": address})


def run_forget(options: argparse.Namespace) -> Results:
    """Remove a person; an error if there is none of that name."""
    address = gallery_address(options)
    with hs.open_gallery(address) as gallery:
        removed = gallery.forget(options.name)
    if not removed:
        raise ValueError(f"{address}: nobody is enrolled as {options.name!r}")
    print(f"{options.name}: {counted(removed, 'template')} removed from {address}")
    return Results({"subject": options.name, "removed": removed, "gallery": address})
