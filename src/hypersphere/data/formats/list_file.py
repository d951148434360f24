"""List files: `path label` or `path` on each line."""

from __future__ import annotations

import os
import shlex
from pathlib import Path, PurePosixPath

import numpy as np

from hypersphere.core import Reporter, Staged, is_integer, parse_integer
from hypersphere.data.file_access import Root, safe_name
from hypersphere.data.formats.folder import FileSource, file_of
from hypersphere.data.source import ImageSource, Labels, first_few, number_labels, number_names


class ListSource(FileSource):
    """A text file with `path label` or `path` on each line, all lines alike; without labels the identity is the folder
    that the image lies in.

    Path and label stand apart by a tab or spaces; a path may be quoted as in a shell. Paths are relative to the root
    and cannot leave it: no absolute paths, no `..`, no symbolic link that leads outside. Every file must be there.

    Args:
        path: the list.
        root: the folder the paths start from; the list's own by default.
        relabel: number the labels that occur from 0 on, instead of refusing a gap.

    Example:
        >>> ListSource("people.txt", root="people").num_classes
        4
    """

    def __init__(self, path: str | Path, root: str | Path | None = None, relabel: bool = False) -> None:
        path = Path(path)
        folder = Root(path.parent if root is None else root)
        files: list[str] = []
        given: list[int | None] = []
        lines: dict[str, int] = {}
        missing: list[str] = []
        for number, text in enumerate(_read_text(path).split("\n"), start=1):
            if not text.strip():
                continue
            where = f"{path}, line {number}"
            name, label = _parse(text, where)
            name = safe_name(name, where)
            if given and (label is None) != (given[0] is None):
                raise ValueError(f"{where}: some lines have a label and some have none")
            if name in lines:
                raise ValueError(f"{where}: {name!r} was on line {lines[name]} already")
            if not folder.check(name, where):
                missing.append(f"{name!r} (line {number})")
            lines[name] = number
            files.append(name)
            given.append(label)
        if missing:
            raise ValueError(
                f"{path}: {len(missing)} of {len(files)} files are missing below {folder.path}: "
                f"{first_few(missing, len(missing))}"
            )
        super().__init__(folder.path, files, *_identities(files, given, path, relabel))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is not UTF-8 text; expected a list of paths") from error


def _parse(text: str, where: str) -> tuple[str, int | None]:
    text = text.strip()
    if text[0] in "\"'":
        try:
            fields = shlex.split(text)
        except ValueError as error:
            raise ValueError(f"{where}: {str(error).lower()}") from error
    elif "\t" in text:
        fields = text.split("\t")
    else:
        name, _, last = text.rpartition(" ")
        fields = [name.rstrip(), last] if name and is_integer(last) else [text]
    if len(fields) > 2:
        raise ValueError(f"{where}: {len(fields)} fields; expected 'path label' or 'path'")
    if len(fields) == 1:
        return fields[0], None
    return fields[0], parse_integer(fields[1], f"{where}: label", -1)


def _identities(files: list[str], given: list[int | None], path: Path, relabel: bool) -> tuple[Labels, list[str]]:
    folders = [str(PurePosixPath(name).parent) for name in files]
    if not files:
        raise ValueError(f"{path}: no images")
    if given[0] is None:
        if "." in folders:
            bare = files[folders.index(".")]
            raise ValueError(f"{path}: {bare!r} has neither a label nor a folder that names its identity")
        return number_names(folders)
    labels, kept = number_labels(np.array(given), str(path), relabel=relabel)
    return labels, label_names(labels, kept, folders)


def label_names(labels: Labels, kept: list[int], folders: list[str]) -> list[str]:
    """Names for numbered identities: their folders, where these are one to one, otherwise their numbers."""
    owners: dict[int, set[str]] = {}
    for label, folder in zip(labels.tolist(), folders, strict=True):
        if label >= 0:
            owners.setdefault(label, set()).add(folder)
    singles = [next(iter(owners[k])) for k in range(len(kept)) if len(owners[k]) == 1]
    if len(set(singles)) == len(kept) and "." not in singles:
        return singles
    return [str(k) for k in kept]


def write_list(
    source: ImageSource, path: str | Path, *, root: str | Path | None = None, progress: Reporter | None = None
) -> None:
    """Write `path label` for every image of a source whose images are files.

    Args:
        source: an image folder, a list, or a subset of one.
        path: the new list.
        root: the folder the paths start from; the list's own by default. Every image must lie below it.
        progress: called as `progress(done, total)`.
    """
    path = Path(path)
    start = os.path.abspath(path.parent if root is None else root)
    with Staged() as stage:
        file = stage.open(path)
        for index in range(len(source)):
            image = file_of(source, index)
            if image is None:
                raise ValueError(f"{source.describe(index)} is not a file of its own; convert to an image folder first")
            name = os.path.relpath(os.path.abspath(image), start).replace(os.sep, "/")
            if name.startswith("../"):
                raise ValueError(f"{image} does not lie below the list's root {start}; give root=")
            file.write(f"{_quoted(name, f'{path}: image {index}')} {source.labels[index]}\n".encode())
            if progress is not None:
                progress(index + 1, len(source))


def _quoted(name: str, where: str) -> str:
    """A name as it stands in a list, so that it can be read back; ValueError where no list can hold it."""
    if "\n" in name or "\r" in name:
        raise ValueError(f"{where}: {name!r} has a line break, which a list cannot hold")
    if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ValueError(f"{where}: {name!r} is not UTF-8, as lists are; rename the file, or convert to another format")
    safe_name(name, where)
    return shlex.quote(name) if name[0] in "\"'\ufeff" or any(letter.isspace() for letter in name) else name
