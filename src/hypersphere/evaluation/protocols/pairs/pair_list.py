"""Lists of pairs of images, one person or two."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hypersphere.evaluation.arrays import Bools, Ints
from hypersphere.evaluation.protocols.pairs.files import Pair, cfp_files, fold_numbers, read_pair_file
from hypersphere.evaluation.results.provenance import file_digests


@dataclass(frozen=True, eq=False)
class PairList:
    """Pairs of images to verify.

    Args:
        title: of the set, such as `lfw-pairs`.
        left, right: (n,) names of images.
        same: (n,) whether they show one person.
        folds: (n,) the fold of each pair.
        where: (n,) file and line of each, for messages.
        subjects: (n,) who is on the left and on the right image; None where names do not tell.
        files: the list, by name, with its digest; CFP's has several.
    """

    title: str
    left: Sequence[str]
    right: Sequence[str]
    same: Bools
    folds: Ints
    where: Sequence[str]
    subjects: tuple[Sequence[str], Sequence[str]] | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.same)

    @property
    def names(self) -> list[str]:
        """The images, in order of occurrence, without repetition."""
        return list(dict.fromkeys(name for pair in zip(self.left, self.right, strict=True) for name in pair))

    def some(self, chosen: Bools) -> PairList:
        """The chosen pairs."""

        def of(values: Sequence[str]) -> list[str]:
            return [value for value, keep in zip(values, chosen, strict=True) if keep]

        people = None if self.subjects is None else (of(self.subjects[0]), of(self.subjects[1]))
        return replace(
            self,
            left=of(self.left),
            right=of(self.right),
            same=self.same[chosen],
            folds=self.folds[chosen],
            where=of(self.where),
            subjects=people,
        )

    def check_images(self, missing: Collection[str], known: Sequence[str]) -> None:
        """ValueError with file and line where an image is missing; says so if the whole person is.

        Args:
            missing: names of images that are not there.
            known: names of images that are.
        """
        lost, pairs = set(missing), zip(self.left, self.right, self.where, strict=True)
        places = [(name, where) for one, two, where in pairs for name in (one, two) if name in lost]
        if not places:
            return
        name, where = places[0]
        folder = name.partition("/")[0]
        stranger = "/" in name and not any(other.startswith(f"{folder}/") for other in known)
        what = f"nobody called {folder!r} is known ({name!r})" if stranger else f"there is no {name!r}"
        raise ValueError(
            f"{where}: {what}; {len({name for name, _ in places}):,} images of {len({w for _, w in places}):,} pairs "
            "are missing (allow_missing, --allow-missing, leaves these pairs out and counts them)"
        )


def read_pairs(path: str | Path, title: str | None = None) -> PairList:
    """The pairs of an official list, in any of its formats.

    - LFW's `pairs.txt` (`10 300`, then `name i j` and `name i other j`); images are `name/name_0001.jpg`;
    - CALFW's and CPLFW's two lines `image label` for each pair;
    - CFP's folder `Protocol/Split/FP` or `FF`; images are named from `Data/Images` on;
    - a plain list `image image same`, `same image image` or `image image same fold`, fields apart by spaces or tabs;
    - a verification pack (`.bin`), whose images are named `0`, `1`, ...

    A list that states no folds is cut into 10 consecutive parts; CALFW's and CPLFW's, by kind of pairs. A pair that
    comes twice is an error; in CALFW's, CPLFW's and CFP's files, which are as they are, it is counted
    (`repeated_pairs`), unless the two contradict each other.

    Args:
        path: the list.
        title: of the set; by default the file's name.
    """
    path = Path(path)
    pairs, form = read_pair_file(path)
    seen: dict[frozenset[str], Pair] = {}
    for pair in pairs:
        both = frozenset((pair.left, pair.right))
        if len(both) == 1:
            raise ValueError(f"{pair.where}: {pair.left!r} is compared with itself")
        first = seen.setdefault(both, pair)
        if first is not pair and (form in ("lfw", "list") or first.same != pair.same):
            raise ValueError(f"{pair.where}: the same pair as at {first.where}")
    same = np.array([pair.same for pair in pairs], dtype=bool)
    if same.all() or not same.any():
        raise ValueError(f"{path}: all {len(pairs)} pairs are of {'one person' if same.all() else 'two people'}")
    folds = fold_numbers(pairs, same, form in ("lfw", "calfw"), path)
    left, right = [pair.left for pair in pairs], [pair.right for pair in pairs]
    name = f"{path.parents[2].name}-{path.name}" if form == "cfp" and len(path.parents) > 2 else path.stem
    return PairList(
        title=title or name,
        left=left,
        right=right,
        same=same,
        folds=folds,
        where=[pair.where for pair in pairs],
        subjects=_people(left, right, same),
        files=file_digests(cfp_files(path), path.parent.parent) if form == "cfp" else file_digests([path]),
    )


def _people(left: list[str], right: list[str], same: Bools) -> tuple[list[str], list[str]] | None:
    """Who is on the images by their names: their folder, or the name without its number, where that fits the truth."""

    def person(name: str) -> str:
        return name.partition("/")[0] if "/" in name else re.sub(r"_\d+(\.\w+)?$", "", name)

    sides = [person(name) for name in left], [person(name) for name in right]
    fits = all((one == two) == truth for one, two, truth in zip(*sides, same.tolist(), strict=True))
    return sides if fits else None
