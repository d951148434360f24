"""The page that shows groups of faces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypersphere.core import counted
from hypersphere.data import Image
from hypersphere.models import Threshold
from hypersphere.plots import Page
from hypersphere.recognition.cluster import Ints, members_of
from hypersphere.recognition.find_faces import FoundFaces

_GROUPS, _FACES = 300, 40
"""How many a page shows, and how many of each."""


def write_cluster_page(
    path: str | Path, faces: FoundFaces, groups: Ints, names: Sequence[str], row: Threshold, *, about: str
) -> Path:
    """Write the groups as one offline page, the largest first.

    Args:
        path: the new `.html`.
        faces: of the photos.
        groups: (faces,) of `cluster_faces`.
        names: of the photos.
        row: the threshold with its false-match rate.
        about: how the groups were made, in a sentence.
    """
    members = members_of(groups)
    several = [group for group in members if len(group) > 1]
    page = Page(
        f"{counted(len(faces.photos), 'face')}: {counted(len(several), 'group')}, {len(members) - len(several):,} on "
        "their own",
        f"{about} Threshold {row.threshold:.3f}: false-match rate {row.fmr:.0e} [{row.fmr_low:.1e}, "
        f"{row.fmr_high:.1e}] of one pair; a group of many faces is right less often than one pair.",
    )
    page.heading("Groups")
    for number, group in enumerate(several[:_GROUPS], start=1):
        page.sheet(_shown(faces, group[:_FACES], names), _caption(number, group), quality=85)
    if len(several) > _GROUPS:
        page.text(f"Not shown: {counted(len(several) - _GROUPS, 'smaller group')}.")
    single = [group[0] for group in members if len(group) == 1]
    if single:
        page.heading("Faces on their own")
        shown = single[: 5 * _FACES]
        caption = f"{len(shown):,} of {counted(len(single), 'face')} that no other is like."
        page.sheet(_shown(faces, shown, names), caption, quality=85)
    if faces.left_out:
        page.heading("Photos left out")
        page.table(["photo", "why"], [[names[k], why] for k, why in faces.left_out.items()], text=True)
    return page.save(path)


def _shown(faces: FoundFaces, group: Sequence[int], names: Sequence[str]) -> list[tuple[Image, str]]:
    return [(faces.thumbnails[face], names[faces.photos[face]]) for face in group]


def _caption(number: int, group: Sequence[int]) -> str:
    some = f", {_FACES} of them shown" if len(group) > _FACES else ""
    return f"Group {number}: {len(group):,} faces{some}."
