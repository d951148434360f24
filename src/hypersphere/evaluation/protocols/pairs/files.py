"""The files that pair lists come in: LFW, CALFW and CPLFW, CFP, plain lists, packs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hypersphere.core import is_integer, numbered_lines, parse_integer
from hypersphere.data import PackSource
from hypersphere.evaluation.arrays import Bools, Ints
from hypersphere.evaluation.protocols.official_files import INT32_MAX

FOLDS = 10


@dataclass(frozen=True)
class Pair:
    """One line of a list: two images, whether they show one person, the fold (None where the list has none), where."""

    left: str
    right: str
    same: bool
    fold: int | None
    where: str


def read_pair_file(path: Path) -> tuple[list[Pair], str]:
    """The pairs of a list in any of the formats, and the format's name."""
    if path.is_dir():
        return _read_cfp(path), "cfp"
    if path.suffix == ".bin":
        pack = PackSource(path)
        pairs = [
            Pair(str(2 * k), str(2 * k + 1), bool(same), None, f"{path}, pair {k}") for k, same in enumerate(pack.same)
        ]
        return pairs, "pack"
    lines = [(f"{path}, line {number}", fields) for number, fields in _lines(path)]
    if not lines:
        raise ValueError(f"{path}: no pairs")
    where, first = lines[0]
    if len(first) <= 2 and all(_is_number(field) for field in first):
        return _read_lfw(lines), "lfw"
    if len(first) == 2:
        return _read_two_lines(lines), "calfw"
    if len(first) in (3, 4):
        return [_plain_pair(where, fields) for where, fields in lines], "list"
    raise ValueError(
        f"{where}: {len(first)} fields; expected LFW's '10 300', CALFW's 'image label', or 'image image same [fold]'"
    )


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of every line that is not empty; fields stand apart by tabs where there are any."""
    for number, line in numbered_lines(path):
        yield number, [field.strip() for field in line.split("\t")] if "\t" in line else line.split()


def _is_number(text: str) -> bool:
    return is_integer(text) and text[0] != "-"


def _read_lfw(lines: Sequence[tuple[str, list[str]]]) -> list[Pair]:
    """LFW: `folds n`, then for each fold n lines `name i j` and n lines `name i other j`. Without `folds`: one fold."""
    head = [parse_integer(field, f"{lines[0][0]}: the number of folds or pairs", 0, INT32_MAX) for field in lines[0][1]]
    folds, each = head if len(head) == 2 else (1, head[0])
    if folds < 1 or each < 1:
        raise ValueError(f"{lines[0][0]}: {folds} folds of {each} pairs of each kind; both must be at least 1")
    pairs = []
    for place, (where, fields) in enumerate(lines[1:]):
        fold, same = place // (2 * each), place // each % 2 == 0
        if fold >= folds:
            raise ValueError(f"{where}: more lines than the {folds} folds of {each} + {each} pairs that line 1 states")
        kind = "'name i j' (one person)" if same else "'name i name j' (two people)"
        if len(fields) != (3 if same else 4):
            raise ValueError(
                f"{where}: {len(fields)} fields; pair {place % (2 * each) + 1} of fold {fold + 1} must be {kind}"
            )
        first, other = fields[0], fields[0] if same else fields[2]
        if not same and first == other:
            raise ValueError(f"{where}: {first!r} twice, among the pairs of two people")
        numbers = [fields[1], fields[-1]]
        for number in numbers:
            parse_integer(number, f"{where}: image", 1, INT32_MAX)
        left, right = (f"{name}/{name}_{int(n):04d}.jpg" for name, n in zip((first, other), numbers, strict=True))
        pairs.append(Pair(left, right, same, fold if folds > 1 else None, where))
    if len(pairs) < 2 * each * folds:
        done, rest = divmod(len(pairs), 2 * each)
        raise ValueError(
            f"{lines[-1][0]}: the list ends after {done} folds and {rest} pairs, but line 1 states {folds} folds of "
            f"{each} + {each} pairs"
        )
    return pairs


def _read_two_lines(lines: Sequence[tuple[str, list[str]]]) -> list[Pair]:
    """CALFW and CPLFW: a pair is two lines `image label`, label 0 for two people.

    Where the labels of the pairs of one person are 1, 2, ... they are folds. Pairs of two people have no fold in the
    file; theirs come later, by order.
    """
    if len(lines) % 2:
        raise ValueError(f"{lines[-1][0]}: an image without a partner; every pair is two lines")
    pairs = []
    for (where, one), (second, two) in zip(lines[::2], lines[1::2], strict=True):
        for place, fields in ((where, one), (second, two)):
            if len(fields) != 2 or not _is_number(fields[1]):
                raise ValueError(f"{place}: {' '.join(fields)!r}; expected an image and a whole number")
        if one[1] != two[1]:
            raise ValueError(f"{second}: label {two[1]}, but the first image of the pair, a line before, has {one[1]}")
        label = parse_integer(one[1], f"{where}: label", 0, INT32_MAX)
        pairs.append(Pair(one[0], two[0], label != 0, label - 1, where))
    if {pair.fold for pair in pairs if pair.same} == {0}:
        return [Pair(p.left, p.right, p.same, None, p.where) for p in pairs]
    return pairs


def _plain_pair(where: str, fields: list[str]) -> Pair:
    """`image image same`, `same image image`, or `image image same fold`."""
    if len(fields) == 3 and fields[0] in ("0", "1") and fields[2] not in ("0", "1"):
        fields = [fields[1], fields[2], fields[0]]
    if len(fields) not in (3, 4):
        raise ValueError(f"{where}: {len(fields)} fields; expected 'image image same' and perhaps a fold")
    if fields[2] not in ("0", "1"):
        raise ValueError(f"{where}: {fields[2]!r} must be 1 (one person) or 0 (two people)")
    fold = parse_integer(fields[3], f"{where}: fold", 0, INT32_MAX) if len(fields) == 4 else None
    return Pair(fields[0], fields[1], fields[2] == "1", fold, where)


def _read_cfp(folder: Path) -> list[Pair]:
    """CFP: `Protocol/Split/FP/01/same.txt` and `diff.txt`, ..., of lines `i,j` into `Pair_list_F.txt` and `_P.txt`."""
    splits = sorted({path.parent for name in ("same.txt", "diff.txt") for path in folder.glob(f"*/{name}")})
    if not splits or folder.name not in ("FF", "FP"):
        raise ValueError(
            f"{folder}: expected CFP's folder Protocol/Split/FF or Protocol/Split/FP with 01/same.txt, ..."
        )
    frontal = _read_cfp_images(folder, "Pair_list_F.txt")
    other = frontal if folder.name == "FF" else _read_cfp_images(folder, "Pair_list_P.txt")
    pairs = []
    for fold, split in enumerate(splits):
        for same in (True, False):
            path = split / ("same.txt" if same else "diff.txt")
            for number, fields in _lines(path):
                where, parts = f"{path}, line {number}", "".join(fields).split(",")
                if len(parts) != 2 or not all(_is_number(part) for part in parts):
                    raise ValueError(f"{where}: expected two numbers with a comma between")
                first, second = (parse_integer(part, f"{where}: image", 0, INT32_MAX) for part in parts)
                for image, images in ((first, frontal), (second, other)):
                    if image not in images:
                        raise ValueError(f"{where}: image {image} is not among the {len(images)} of its Pair_list")
                pairs.append(Pair(frontal[first], other[second], same, fold, where))
    return pairs


def cfp_files(folder: Path) -> list[Path]:
    """The files of CFP's `Protocol/Split/FF` or `FP`."""
    lists = [_cfp_list(folder, f"Pair_list_{kind}.txt") for kind in sorted(set(folder.name))]
    return [*lists, *sorted(path for path in folder.glob("*/*.txt") if path.name in ("same.txt", "diff.txt"))]


def _cfp_list(folder: Path, name: str) -> Path:
    places = [folder.parent.parent / name, folder.parent / name]
    return next((place for place in places if place.is_file()), places[0])


def _read_cfp_images(folder: Path, name: str) -> dict[int, str]:
    """Numbers and names of images, relative to `Data/Images`."""
    path = _cfp_list(folder, name)
    images = {}
    for number, fields in _lines(path):
        where = f"{path}, line {number}"
        if len(fields) != 2 or not _is_number(fields[0]):
            raise ValueError(f"{where}: expected a number and the path of an image")
        image = parse_integer(fields[0], f"{where}: image", 0, INT32_MAX)
        if image in images:
            raise ValueError(f"{where}: image {image} was there already")
        images[image] = re.sub(r"^(\.\./)*(Data/Images/)?", "", fields[1])
    return images


def fold_numbers(pairs: Sequence[Pair], same: Bools, by_kind: bool, path: Path) -> Ints:
    """The fold of each pair: the list's own, or 10 consecutive parts of it (with `by_kind`, of each kind of pairs)."""
    own = [pair.fold for pair in pairs]
    known = np.array([fold is not None and fold >= 0 for fold in own])
    folds = np.array([-1 if fold is None else fold for fold in own], dtype=np.int64)
    if known.all():
        _check_folds(folds, path)
        return folds
    numbers = np.unique(folds[known]) if known.any() else np.arange(min(FOLDS, len(pairs)))
    rest = [~known & same, ~known & ~same] if by_kind or known.any() else [~known]
    for kind in rest:
        parts = np.array_split(np.flatnonzero(kind), len(numbers))
        for number, part in zip(numbers, parts, strict=True):
            folds[part] = number
    _check_folds(folds, path)
    return folds


def _check_folds(folds: Ints, path: Path) -> None:
    if len(np.unique(folds)) < 2:
        raise ValueError(f"{path}: a single fold; a threshold from the other folds needs at least 2")
