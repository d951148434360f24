"""`hypersphere gallery`: look at a gallery, check it, copy it, remove what has expired."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.output import Results, green, note, red
from hypersphere.core import counted

if TYPE_CHECKING:
    from hypersphere.recognition import GalleryInfo
    from hypersphere.recognition.gallery.stored_template import Record

_ADDRESS = "people.db, postgresql://user@host/database#name or milvus://host:port/name"


def add_command(commands: Any) -> None:
    """Add `gallery` to the command line."""
    parser = commands.add_parser(
        "gallery",
        help="look at a gallery, check it, copy it, remove what has expired",
        description="Look after the templates of people in SQLite, PostgreSQL (pgvector) or Milvus.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_action(actions, "info", "what a gallery holds")
    people = actions.add_parser("list", help="who is enrolled", description="Who is enrolled, sorted by name.")
    people.add_argument("address", nargs="?", metavar="ADDRESS", help=f"{_ADDRESS} (that of `enroll`)")
    people.set_defaults(run="gallery:run_list")
    _add_action(actions, "verify", "check every row; take damaged ones out of use (status 1 if there are any)")
    backup = _add_action(actions, "backup", "copy to a new SQLite file, whole or not at all, and read it back")
    backup.add_argument("out", type=Path, metavar="OUT.db", help="must not exist yet")
    restore = actions.add_parser(
        "restore",
        help="make a new gallery from a backup, of any engine",
        description="Make a new gallery from a backup (any SQLite gallery), of any engine.",
    )
    restore.add_argument("backup", type=Path, metavar="BACKUP.db", help="what `gallery backup` wrote")
    restore.add_argument("address", metavar="ADDRESS", help=f"of the new gallery: {_ADDRESS}")
    restore.add_argument("--replace", action="store_true", help="instead of all that a SQLite gallery holds, at once")
    restore.set_defaults(run="gallery:run_restore")
    templates = _add_action(actions, "templates", "the templates of a person, one by one")
    templates.add_argument("name", metavar="NAME", help="of the person")
    remove = _add_action(actions, "remove", "remove one template")
    remove.add_argument("template", metavar="ID", help="of the template, as `gallery templates` shows it")
    _add_action(actions, "purge", "remove templates that have expired and rows in quarantine")
    index = _add_action(actions, "approximate", "search by an HNSW index, if it misses at most 1 best match in 1,000")
    index.add_argument("probes", type=Path, metavar="PROBES.npy", help="1,000 unit vectors or more, as searches have")
    _add_action(actions, "exact", "remove the approximate index")
    audit = _add_action(actions, "audit", "what was done, and when")
    audit.add_argument("--last", type=int, metavar="N", help="only the last N entries")


def _add_action(actions: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}."
    )
    parser.add_argument("address", metavar="ADDRESS", help=_ADDRESS)
    parser.set_defaults(run=f"gallery:run_{name}")
    return parser


def run_info(options: argparse.Namespace) -> Results:
    """Print what a gallery holds."""
    with hs.open_gallery(options.address) as gallery:
        info = gallery.info()
    for words, value in _lines(info):
        print(f"{words:12} {value}")
    return Results({"info": info})


def _lines(info: GalleryInfo) -> list[tuple[str, str]]:
    index = info.index
    if info.miss_probes:
        index += f", which misses {hs.plots.percent(info.miss_rate)} of best matches ({info.miss_probes:,} probes)"
    contract = info.contract
    shown = [str(contract[key]) for key in ("backbone", "alignment") if contract[key]]
    return [
        ("gallery", f"{info.address} ({info.engine})"),
        ("templates", f"{info.size:,} of {counted(info.subjects, 'person', 'people')}, {info.dim} numbers each"),
        ("expired", f"{info.expired:,}"),
        ("quarantined", f"{info.quarantined:,}"),
        ("search", index),
        ("contract", ", ".join([info.contract_digest, *shown, f"weights {contract['digest']}"])),
    ]


def run_list(options: argparse.Namespace) -> Results:
    """Print who is enrolled, since when and until when."""
    import time

    address = options.address or str(hs.recognition.default_gallery())
    people: dict[str, list[Record]] = {}
    with hs.open_gallery(address) as gallery:
        for record in gallery.records():
            if record.expires is None or record.expires > time.time():
                people.setdefault(record.subject, []).append(record)
    rows = []
    for name, records in sorted(people.items()):
        enrolled = min(record.enrolled for record in records)
        expires = min((record.expires for record in records if record.expires is not None), default=None)
        consent = "; ".join(sorted({record.consent for record in records if record.consent}))
        until = "" if expires is None else f", until {_when(expires)[:10]}"
        agreed = f", consent: {consent}" if consent else ""
        print(f"{name}: {counted(len(records), 'template')} since {_when(enrolled)[:10]}{until}{agreed}")
        rows.append(
            {"name": name, "templates": len(records), "enrolled": enrolled, "expires": expires, "consent": consent}
        )
    if not rows:
        print("nobody is enrolled")
    return Results({"gallery": address, "people": rows})


def run_verify(options: argparse.Namespace) -> Results:
    """Check every row."""
    with hs.open_gallery(options.address) as gallery:
        damage = gallery.verify()
        info = gallery.info()
    for each in damage:
        done = {"template": "quarantined", "index": "made anew"}.get(each.kind, "kept")
        print(f"{red('damaged')} {each.kind} {each.name} ({done})")
    if not damage:
        print(f"{green('whole')}: {counted(info.size + info.expired, 'template')}")
    return Results({"damaged": damage, "templates": info.size + info.expired}, status=int(bool(damage)))


def run_backup(options: argparse.Namespace) -> Results:
    """Copy a gallery to a file."""
    with hs.open_gallery(options.address) as gallery:
        count = gallery.backup(options.out)
    print(f"{counted(count, 'template')} in {options.out}")
    note("the file holds biometric data: keep it as safe as the gallery, and remove it when people are forgotten")
    return Results({"templates": count, "files": [options.out]})


def run_restore(options: argparse.Namespace) -> Results:
    """Make a gallery from a backup."""
    count = hs.recognition.restore_gallery(options.backup, options.address, replace=options.replace)
    with hs.open_gallery(options.address) as gallery:
        info = gallery.info()
    print(f"{counted(count, 'template')} in {info.address}")
    return Results({"templates": count, "info": info})


def run_templates(options: argparse.Namespace) -> Results:
    """Print the templates of a person."""
    with hs.open_gallery(options.address) as gallery:
        records = gallery.templates(options.name)
    for record in records:
        expires = f", until {_when(record.expires)}" if record.expires is not None else ""
        print(f"{record.id}  {_when(record.enrolled)}{expires}  {record.consent}".rstrip())
    if not records:
        note(f"nobody of the name {options.name!r} has a template")
    columns = ("id", "subject", "metadata", "consent", "enrolled", "expires")
    return Results({"templates": [{name: getattr(record, name) for name in columns} for record in records]})


def run_remove(options: argparse.Namespace) -> Results:
    """Remove one template."""
    with hs.open_gallery(options.address) as gallery:
        if not gallery.forget_template(options.template):
            raise ValueError(f"{gallery.address}: there is no template {options.template!r}")
    print(f"removed the template {options.template}")
    return Results({"removed": options.template})


def run_purge(options: argparse.Namespace) -> Results:
    """Remove what has expired."""
    with hs.open_gallery(options.address) as gallery:
        quarantined = gallery.info().quarantined
        expired = gallery.purge()
    print(f"removed {counted(expired, 'expired template')} and {counted(quarantined, 'row')} in quarantine")
    return Results({"expired": expired, "quarantined": quarantined})


def run_approximate(options: argparse.Namespace) -> Results:
    """Build an index, check it, and use it."""
    from hypersphere.core.read_arrays import read_npy

    probes = read_npy(options.probes)
    with hs.open_gallery(options.address) as gallery:
        check = gallery.use_approximate(probes)
    print(f"misses {check.misses:,} of {check.probes:,} best matches at ef_search {check.effort}; in use from now on")
    return Results({"check": check, "miss_rate": check.miss_rate})


def run_exact(options: argparse.Namespace) -> Results:
    """Search exactly again."""
    with hs.open_gallery(options.address) as gallery:
        gallery.use_exact()
        info = gallery.info()
    print(f"search       {info.index}")
    return Results({"info": info})


def run_audit(options: argparse.Namespace) -> Results:
    """Print the audit trail."""
    with hs.open_gallery(options.address) as gallery:
        entries = gallery.audit()
    entries = entries[-options.last :] if options.last else entries
    for entry in entries:
        print(f"{_when(entry.time)}  {entry.action:8} {entry.subject}  {entry.detail}".rstrip())
    return Results({"entries": entries})


def _when(time: float) -> str:
    """The date and time in UTC; of a damaged entry the number itself, so that the rest of the trail is shown."""
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError, TypeError):
        return red(f"damaged: {time}")
