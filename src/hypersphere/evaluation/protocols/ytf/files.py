"""YouTube Faces' list of pairs, `splits.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hypersphere.core import is_integer, numbered_lines, parse_integer

SPLITS = 10


class VideoPair(NamedTuple):
    """One line: two videos, whether they show one person, the split from 1, the number of the line."""

    left: str
    right: str
    same: bool
    split: int
    line: int


def read_splits(path: Path) -> list[VideoPair]:
    """The pairs, in the order of their splits."""
    pairs: list[VideoPair] = []
    for number, text in numbered_lines(path):
        fields = [field.strip() for field in text.split(",")]
        if not pairs and not is_integer(fields[0]):
            continue
        where = f"{path}, line {number}"
        if len(fields) != 5:
            raise ValueError(f"{where}: {len(fields)} fields; expected split, pair, first video, second video, is same")
        split = parse_integer(fields[0], f"{where}: the split", 1, SPLITS)
        same = parse_integer(fields[4], f"{where}: is same", 0, 1)
        left, right = fields[2], fields[3]
        owners = [video.rpartition("/")[0] for video in (left, right)]
        if not all(owners):
            raise ValueError(f"{where}: {left!r} and {right!r} must be videos like 'Ada_Lee/0'")
        if bool(same) != (owners[0] == owners[1]):
            raise ValueError(f"{where}: is same is {same}, but the people are {owners[0]!r} and {owners[1]!r}")
        if pairs and split < pairs[-1].split:
            raise ValueError(f"{where}: split {split} after split {pairs[-1].split}; the list must rise")
        pairs.append(VideoPair(left, right, bool(same), split, number))
    if not pairs:
        raise ValueError(f"{path}: no pairs")
    splits = {pair.split for pair in pairs}
    if len(splits) != SPLITS:
        raise ValueError(f"{path}: {len(splits)} splits; the protocol has {SPLITS}")
    return pairs
