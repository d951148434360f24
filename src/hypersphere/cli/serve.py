"""`hypersphere serve`: verify, enrol, identify and forget over HTTP, with a page."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results, note
from hypersphere.core import read_bounded


def add_command(commands: Any) -> None:
    """Add `serve` to the command line."""
    parser = commands.add_parser(
        "serve",
        help="verify, enrol and identify over HTTP, with a page",
        description="Verify, enrol, identify and forget faces over HTTP, with a page at the same address. Beyond this "
        "machine a token is needed: HYPERSPHERE_TOKEN, --token-file or --keys. Liveness is not checked.",
    )
    parser.add_argument("--gallery", metavar="ADDRESS", help="file or server of the gallery (that of `enroll`)")
    parser.add_argument("--model", default="starter", metavar="M", help="a calibrated model (%(default)s)")
    parser.add_argument(
        "--calibration", default="", metavar="C", help="portraits, albums, or a file (portraits, or that of the model)"
    )
    parser.add_argument("--detector", default="mtcnn", metavar="D", help="mtcnn, or an ONNX file (%(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (%(default)s)")
    parser.add_argument("--token-file", type=Path, metavar="F", help="file that holds the token clients must send")
    parser.add_argument("--keys", type=Path, metavar="F", help="file of keys with roles, of `hypersphere keys`")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that look at photos (the number of cores)")
    parser.add_argument("--rate", type=float, default=20.0, metavar="R", help="requests a second of a client; 0: any")
    parser.add_argument(
        "--non-matches", type=int, default=200, metavar="N", help="decisions a day without a match, of a key; 0: any"
    )
    parser.add_argument("--scores", action="store_true", help="show scores without a match too: only to try things out")
    parser.add_argument("--proxy", default="", metavar="ADDRESS", help="a proxy that says who the client is")
    parser.set_defaults(run="serve:run_serve")


def run_serve(options: argparse.Namespace) -> Results | None:
    """Serve until it is stopped."""
    gallery = options.gallery or str(hs.recognition.default_gallery())
    settings = hs.service.ServiceSettings(
        host=options.host,
        port=options.port,
        token=_token(options.token_file),
        rate=options.rate,
        keys=str(options.keys or ""),
        scores=options.scores,
        non_matches=options.non_matches,
        state=_state(options.keys, gallery),
        **({} if options.workers is None else {"workers": options.workers}),
    )
    if options.model == "starter":
        note("the starter model of the package is for research only (docs/starter.md)")

    def ready(address: str) -> None:
        note(f"gallery {gallery}; liveness is not checked; Ctrl-C ends it")
        print(f"{address}{'' if settings.open_to_all else ' (needs the token)'}", flush=True)

    hs.service.serve(
        hs.service.ServeOptions(
            gallery=gallery,
            model=options.model,
            detector=options.detector,
            calibration=options.calibration,
            proxy=options.proxy,
        ),
        settings,
        ready,
    )
    return None


def _state(keys: Path | None, gallery: str) -> str:
    """Where daily allowances are kept: beside the keys, or beside a gallery that is a file."""
    beside = str(keys) if keys is not None else "" if "://" in gallery else gallery
    return f"{beside}.used.json" if beside else ""


def _token(path: Path | None) -> str:
    """The token: of the file, or of the environment."""
    if path is None:
        return os.environ.get("HYPERSPHERE_TOKEN", "")
    token = read_bounded(path, 10_000, "token").decode("utf-8", "replace").strip()
    if not token:
        raise ValueError(f"{path} holds no token")
    return token
