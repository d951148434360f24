"""`hypersphere keys`: who may ask a service for what."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.output import Results, note

ROLES = ("verify", "identify", "enroll", "administer", "scores")
_DAY = 24 * 3600.0


def add_command(commands: Any) -> None:
    """Add `keys` to the command line."""
    parser = commands.add_parser(
        "keys",
        help="who may ask a service for what: add, list, rotate and remove keys",
        description="Look after the keys of `hypersphere serve --keys FILE`. The file has digests; a token is "
        "shown once. A service that runs takes changes within a second.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add = _add_action(actions, "add", "make a key, and print its token")
    add.add_argument("name", metavar="NAME", help="of the key, for logs and the audit trail")
    add.add_argument("--role", action="append", required=True, choices=ROLES, help="what it may ask; again for more")
    add.add_argument("--days", type=float, metavar="D", help="it expires then")
    add.add_argument("--rate", type=float, metavar="R", help="requests a second (that of the service)")
    add.add_argument("--quota", type=int, default=0, metavar="N", help="requests a day; 0: any (%(default)s)")
    add.add_argument(
        "--non-matches", type=int, metavar="N", help="decisions a day without a match; 0: any (the service's)"
    )
    _add_action(actions, "list", "the keys of a file, without their tokens")
    rotate = _add_action(actions, "rotate", "give a key a new token, and print it")
    rotate.add_argument("name", metavar="NAME", help="of the key")
    rotate.add_argument("--grace", type=float, default=24.0, metavar="H", help="hours the old one serves (%(default)s)")
    remove = _add_action(actions, "remove", "remove a key")
    remove.add_argument("name", metavar="NAME", help="of the key")


def _add_action(actions: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="of keys, such as keys.json")
    parser.set_defaults(run=f"keys:run_{name}")
    return parser


def run_add(options: argparse.Namespace) -> Results:
    """Add a key and print its token."""
    token = hs.service.KeyFile(options.file).add(
        options.name,
        options.role,
        expires=None if options.days is None else time.time() + options.days * _DAY,
        rate=options.rate,
        quota=options.quota,
        non_matches=options.non_matches,
    )
    return _told(options, token)


def run_list(options: argparse.Namespace) -> Results:
    """Print the keys of a file."""
    keys = hs.service.KeyFile(options.file).keys()
    for key in keys:
        end = "" if key.expires is None else f", until {datetime.fromtimestamp(key.expires, UTC):%Y-%m-%d %H:%M} UTC"
        quota = f", {key.quota:,} requests a day" if key.quota else ""
        print(f"{key.name}: {', '.join(key.roles)}{quota}{end}")
    shown = [{"name": key.name, "roles": key.roles, "quota": key.quota, "expires": key.expires} for key in keys]
    return Results({"keys": shown})


def run_rotate(options: argparse.Namespace) -> Results:
    """Give a key a new token."""
    return _told(options, hs.service.KeyFile(options.file).rotate(options.name, options.grace * 3600))


def run_remove(options: argparse.Namespace) -> Results:
    """Remove a key."""
    hs.service.KeyFile(options.file).remove(options.name)
    note(f"{options.name} is removed")
    return Results({"removed": options.name})


def _told(options: argparse.Namespace, token: str) -> Results:
    note(f"the token of {options.name}, which is kept nowhere:")
    print(token)
    return Results({"name": options.name, "token": token})
