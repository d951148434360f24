"""Files of the catalogue from their publishers' addresses: whole and of the stated digest, or not at all."""

from __future__ import annotations

import http
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from hypersphere.core import Failure, Reporter, file_digest, hold_folder, sync_file, sync_folder
from hypersphere.models.catalogue import CatalogueEntry, CatalogueFile
from hypersphere.version import __version__

OFFLINE = "HYPERSPHERE_OFFLINE"
"""Set to anything, nothing is fetched; `--offline` sets it."""
TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""
_ATTEMPTS = 3
_CHUNK = 2**16


class NotFetched(Failure):
    """A file of the catalogue is not here and could not be fetched; the message says how to put it there by hand."""


def fetch(entry: CatalogueEntry, *, timeout: float = TIMEOUT, progress: Reporter | None = None) -> Path | None:
    """Return the main file of a model after fetching what is missing; None of one that comes with a package.

    What came before a connection broke is kept, and the next call goes on from there. A file gets its name only when
    its SHA-256 is the stated one, so what has the name is whole.

    Args:
        entry: of the catalogue.
        timeout: seconds without a byte after which the server is given up.
        progress: called as `progress(done, total)` in bytes.

    Raises:
        NotFetched: a file is missing and there is no network, the server failed, or `HYPERSPHERE_OFFLINE` is set.
        ValueError: a file is there and is not the stated one.
    """
    if entry.path and not Path(entry.path).exists():
        raise ValueError(f"{entry.name}: {entry.path} is missing")
    missing = [file for file in entry.files if not _is_there(entry, file)]
    if missing:
        with hold_folder(entry.folder):
            for file in missing:
                _fetch_file(entry, file, timeout, progress)
    return entry.main_file


def _is_there(entry: CatalogueEntry, file: CatalogueFile) -> bool:
    path = entry.folder / file.name
    if not path.exists():
        return False
    digest = file_digest(path)
    if digest not in (file.sha256, *file.also):
        raise ValueError(
            f"{path} has SHA-256 {digest}, but {entry.name} has {file.sha256}: it is another file or damaged; remove "
            "it, and it is fetched again"
        )
    return True


def _fetch_file(entry: CatalogueEntry, file: CatalogueFile, timeout: float, progress: Reporter | None) -> None:
    path = entry.folder / file.name
    part = path.with_name(f"{file.name}.part")
    if os.environ.get(OFFLINE):
        raise _not_fetched(entry, file, "fetching is switched off (--offline)")
    cause = ""
    for _ in range(_ATTEMPTS):
        before = part.stat().st_size if part.exists() else 0
        try:
            cause = _download(file, part, timeout, progress)
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)
                continue
            cause = f"the server answered {error.code} {error.reason}"
        except (OSError, http.client.HTTPException) as error:  # URLError and TimeoutError are OSErrors
            cause = _in_words(error, timeout)
        after = part.stat().st_size if part.exists() else 0
        # A server that answers at all may be tried again; one that sent nothing new will not do better at once.
        if not cause or after == before:
            break
    if cause:
        kept = f"; {after:,} of {file.bytes:,} bytes are kept, and the next try goes on from there" if after else ""
        raise _not_fetched(entry, file, f"{file.url}: {cause}{kept}")
    digest = file_digest(part)
    if digest != file.sha256:
        part.unlink()
        raise _not_fetched(entry, file, f"{file.url} gave a file with SHA-256 {digest}, which is thrown away")
    sync_file(part)
    part.replace(path)
    sync_folder(path.parent)


def _download(file: CatalogueFile, part: Path, timeout: float, progress: Reporter | None) -> str:
    """Append what is missing to a part; returns what went wrong, or nothing."""
    start = part.stat().st_size if part.exists() else 0
    if start >= file.bytes:
        part.unlink()
        start = 0
    headers = {"User-Agent": f"hypersphere/{__version__}", **({"Range": f"bytes={start}-"} if start else {})}
    request = urllib.request.Request(file.url, headers=headers)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        # 206 with the range that was asked for goes on; a server that knows no ranges sends the whole file.
        resumed = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        done = start if resumed else 0
        with part.open("ab" if resumed else "wb") as out:
            while done <= file.bytes and (block := answer.read1(_CHUNK)):
                out.write(block)
                done += len(block)
                if progress is not None:
                    progress(min(done, file.bytes), file.bytes)
    if done > file.bytes:
        part.unlink()
        return f"sent more than the {file.bytes:,} bytes of {file.name}"
    return "" if done == file.bytes else f"the connection ended after {done:,} of {file.bytes:,} bytes"


def _in_words(error: OSError | http.client.HTTPException, timeout: float) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"nothing came for {timeout:g} s"
    return f"{type(reason).__name__}: {reason}" if str(reason) else type(reason).__name__


def _not_fetched(entry: CatalogueEntry, file: CatalogueFile, cause: str) -> NotFetched:
    return NotFetched(
        f"{entry.name}: {file.name} is not here and was not fetched: {cause}. By hand: fetch {file.url} (SHA-256 "
        f"{file.sha256}) where there is a network, and put it at {entry.folder / file.name}"
    )
