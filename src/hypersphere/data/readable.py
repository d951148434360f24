"""The check before a run starts: which images cannot be read."""

from __future__ import annotations

from dataclasses import dataclass

from hypersphere.core import Reporter, check_range
from hypersphere.data.images import UnreadableImage
from hypersphere.data.prefetch import Prefetcher
from hypersphere.data.source import ImageSource, Indices, first_few

_CHUNK = 64
"""Images a thread reads before it reports."""


@dataclass(frozen=True)
class ReadReport:
    """What `check_readable` found: how many images were tried, and each that could not be read (index, message)."""

    checked: int
    unreadable: list[tuple[int, str]]

    @property
    def share(self) -> float:
        """The share of images that could not be read."""
        return len(self.unreadable) / self.checked if self.checked else 0.0


def check_readable(
    source: ImageSource,
    progress: Reporter | None = None,
    limit_share: float = 0.01,
    indices: Indices | None = None,
    workers: int = 0,
) -> ReadReport:
    """Read every image once; refuse when too many cannot be read.

    Args:
        source: the images.
        progress: called as `progress(done, total)`.
        limit_share: above this share of unreadable images it raises ValueError.
        indices: only these images.
        workers: threads that read; 0 reads in the caller's own. The report is the same.

    Returns:
        how many were checked, and index and message of each that cannot be read.

    Example:
        >>> report = check_readable(source)
        >>> good = Subset(source, np.setdiff1d(np.arange(len(source)), [index for index, _ in report.unreadable]))
    """
    limit = check_range("limit_share", limit_share, 0.0, 1.0)
    chosen = range(len(source)) if indices is None else [int(index) for index in indices]
    unreadable: list[tuple[int, str]] = []

    def read(chunk: int) -> list[tuple[int, str]]:
        return unreadable_among(source, chosen[chunk * _CHUNK : (chunk + 1) * _CHUNK])

    with Prefetcher(read, stop=-(-len(chosen) // _CHUNK), workers=workers) as chunks:
        for chunk, found in enumerate(chunks, start=1):
            unreadable += found
            if progress is not None:
                progress(min(chunk * _CHUNK, len(chosen)), len(chosen))
    report = ReadReport(len(chosen), unreadable)
    if report.share > limit:
        shown = first_few((message for _, message in unreadable), len(unreadable))
        raise ValueError(
            f"{len(unreadable)} of {len(chosen)} images cannot be read ({report.share:.1%}, more than the "
            f"{limit:.1%} allowed): {shown}"
        )
    return report


def unreadable_among(source: ImageSource, indices: Indices) -> list[tuple[int, str]]:
    """Index and message of each of these images that cannot be read."""
    found = []
    for index in map(int, indices):
        try:
            source.read(index)
        except UnreadableImage as error:
            found.append((index, str(error)))
    return found
