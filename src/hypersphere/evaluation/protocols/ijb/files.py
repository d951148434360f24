"""The meta files of IJB-B and IJB-C."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hypersphere.core import numbered_lines, parse_integer
from hypersphere.evaluation.arrays import Array, Bools, Floats, Ints
from hypersphere.evaluation.protocols.official_files import ALLOWED, INT32_MAX, line_of, read_integers

_ALLOWED = f"{ALLOWED} such templates out and counts them"
_LARGEST_SCORE = 1e6
"""Of a detector: weights of a template's images that are larger could overflow where they are added."""
GALLERIES = (("G1", "G2"), ("S1", "S2"))


@dataclass(frozen=True)
class Media:
    """Which image shows which template, in which medium.

    Args:
        path: the list.
        names: (images,).
        templates, media: (images,) numbers.
        detector: (images,) the face detector's scores, where the list has them.
    """

    path: Path
    names: tuple[str, ...]
    templates: Ints
    media: Ints
    detector: Floats | None


@dataclass(frozen=True)
class TemplatePairs:
    """Pairs of templates, by their numbers.

    Args:
        path: the list.
        left, right: (pairs,) templates.
        same: (pairs,) truth.
        repeated: how many stand in the list more than once.
        without_media: (n,) templates that no image shows.
    """

    path: Path
    left: Array
    right: Array
    same: Bools
    repeated: int
    without_media: Ints


@dataclass(frozen=True)
class TemplateSet:
    """A gallery, or the probes: different templates and their people.

    Args:
        path: the list.
        templates: (n,) numbers.
        subjects: (n,) people.
        lines: (n,) where each comes first.
        without_media: (n,) templates of them that no image shows.
    """

    path: Path
    templates: Ints
    subjects: Ints
    lines: Ints
    without_media: Ints


def read_media(path: Path, landmarks: Path) -> Media:
    """Read `..._face_tid_mid.txt` (image, template, medium) and `..._name_5pts_score.txt` where it is there.

    Args:
        path: the first.
        landmarks: the second; its images must come in the same order.
    """
    names: dict[str, int] = {}
    numbers: list[tuple[int, int]] = []
    for line, text in numbered_lines(path):
        fields, where = text.split(), f"{path}, line {line}"
        if len(fields) != 3:
            raise ValueError(f"{where}: {len(fields)} fields; expected image, template, medium")
        if fields[0] in names:
            raise ValueError(f"{where}: {fields[0]!r} was on line {names[fields[0]]} already")
        names[fields[0]] = line
        template = parse_integer(fields[1], f"{where}: the template", 0, INT32_MAX)
        numbers.append((template, parse_integer(fields[2], f"{where}: the medium", -INT32_MAX, INT32_MAX)))
    if not numbers:
        raise ValueError(f"{path}: no images")
    table = np.array(numbers, dtype=np.int64)
    detector = _read_detector(landmarks, list(names), path) if landmarks.exists() else None
    return Media(path, tuple(names), table[:, 0].copy(), table[:, 1].copy(), detector)


def _read_detector(path: Path, names: list[str], media: Path) -> Floats:
    scores: list[float] = []
    for line, text in numbered_lines(path):
        fields, where = text.split(), f"{path}, line {line}"
        if len(fields) != 12:
            raise ValueError(f"{where}: {len(fields)} fields; expected image, 5 points (x y), score")
        if len(scores) >= len(names) or fields[0] != names[len(scores)]:
            wanted = repr(names[len(scores)]) if len(scores) < len(names) else "the end"
            raise ValueError(f"{where}: {fields[0]!r}; {media} has {wanted} here, and the lists must be in one order")
        try:
            score = float(fields[11])
        except ValueError:
            score = np.nan
        if not abs(score) <= _LARGEST_SCORE:
            raise ValueError(f"{where}: score {fields[11]!r} is not a finite number of at most {_LARGEST_SCORE:.0e}")
        scores.append(score)
    if len(scores) < len(names):
        raise ValueError(f"{path}: ends before {names[len(scores)]!r}, which {media} has")
    return np.array(scores)


def read_template_pairs(path: Path, known: Ints, allow_missing: bool = False) -> TemplatePairs:
    """Read `..._template_pair_label.txt`: template, template, 1 for the same person and 0 for two.

    Args:
        path: the list.
        known: the templates that have media, rising.
        allow_missing: whether others may be named.
    """
    table = read_integers(path, ("template", "template", "label"))
    wrong = (table[:, 2] != 0) & (table[:, 2] != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{line_of(path, row)}: label {table[row, 2]}; expected 0 or 1")
    if table.min() < 0:
        row = int(np.argmax(table.min(axis=1) < 0))
        raise ValueError(f"{line_of(path, row)}: template {table[row].min()}; numbers count from 0")
    without = np.empty(0, dtype=np.int64)
    for column in (0, 1):
        lost = ~_among(table[:, column], known)
        if lost.any() and not allow_missing:
            row = int(np.argmax(lost))
            raise ValueError(f"{line_of(path, row)}: template {table[row, column]} has no media; {_ALLOWED}")
        without = np.union1d(without, table[lost, column])
    itself = table[:, 0] == table[:, 1]
    if itself.any():
        row = int(np.argmax(itself))
        raise ValueError(f"{line_of(path, row)}: template {table[row, 0]} is paired with itself")
    same = table[:, 2] == 1
    if same.all() or not same.any():
        raise ValueError(f"{path}: all labels are {int(same[0])}; pairs of one person and pairs of two are needed")
    return TemplatePairs(path, table[:, 0].copy(), table[:, 1].copy(), same, _repeated(table, path), without)


def _repeated(table: Array, path: Path) -> int:
    """How many pairs were listed before; an error if one was listed as the same person and as two."""
    small, large = np.minimum(table[:, 0], table[:, 1]), np.maximum(table[:, 0], table[:, 1])
    keys = small.astype(np.int64) << 32 | large
    keys.sort()
    again = int(np.count_nonzero(keys[1:] == keys[:-1]))
    if again:
        keys = (small.astype(np.int64) << 32 | large)[table[:, 2] == 1]
        for row in np.flatnonzero(np.isin(small.astype(np.int64) << 32 | large, keys)).tolist():
            if table[row, 2] == 0:
                pair = f"{table[row, 0]} and {table[row, 1]}"
                raise ValueError(f"{line_of(path, row)}: templates {pair} have label 1 and label 0")
    return again


def read_template_set(path: Path, known: Ints, allow_missing: bool = False) -> TemplateSet:
    """Read a gallery or probe list: a header with TEMPLATE_ID and SUBJECT_ID first, then a line for every image.

    Args:
        path: the list.
        known: the templates that have media, rising.
        allow_missing: whether others may be named.
    """
    found: dict[int, tuple[int, int]] = {}
    header = False
    for line, text in numbered_lines(path):
        fields, where = [field.strip() for field in text.split(",")], f"{path}, line {line}"
        if not header:
            if [field.upper() for field in fields[:2]] != ["TEMPLATE_ID", "SUBJECT_ID"]:
                raise ValueError(f"{where}: the header is {text!r}; expected TEMPLATE_ID,SUBJECT_ID,...")
            header = True
            continue
        if len(fields) < 2:
            raise ValueError(f"{where}: 1 field; expected template, subject, ...")
        template = parse_integer(fields[0], f"{where}: the template", 0, INT32_MAX)
        subject = parse_integer(fields[1], f"{where}: the subject", -INT32_MAX, INT32_MAX)
        if found.setdefault(template, (subject, line))[0] != subject:
            other, first = found[template]
            raise ValueError(f"{where}: template {template} is subject {subject}, but on line {first} subject {other}")
    if not found:
        raise ValueError(f"{path}: no templates")
    templates = np.array(list(found), dtype=np.int64)
    subjects, lines = (np.array(column, dtype=np.int64) for column in zip(*found.values(), strict=True))
    lost = ~_among(templates, known)
    if lost.any() and not allow_missing:
        place = int(np.argmax(lost))
        raise ValueError(f"{path}, line {lines[place]}: template {templates[place]} has no media; {_ALLOWED}")
    return TemplateSet(path, templates, subjects, lines, templates[lost])


def _among(values: Array, known: Ints) -> Bools:
    places = np.searchsorted(known, values).clip(max=len(known) - 1)
    found: Bools = known[places] == values
    return found
