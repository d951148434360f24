"""`hypersphere calibrate --impostors`: false matches from one photo a person, misses from another set or left open."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypersphere as hs
from hypersphere.cli.output import bold
from hypersphere.core import Progress, bytes_digest, counted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hypersphere.evaluation import GroupRate, ImpostorThreshold
    from hypersphere.models import Embedder
    from hypersphere.recognition import Calibration

GROUP_RATES = (1e-2, 1e-3)
"""Overall false-match rates at whose thresholds those of groups are shown."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of impostors and groups."""
    impostors = parser.add_argument_group("impostors", "false matches from photos of which each shows somebody else")
    impostors.add_argument("--impostors", metavar="PHOTOS", help="aligned, one a person; IMAGES then give the misses")
    impostors.add_argument(
        "--groups", type=Path, metavar="CSV", help="the photo's name, then columns of groups: rates within and across"
    )
    impostors.add_argument("--group-by", metavar="COLUMN", help="of --groups (the second column)")
    impostors.add_argument("--plot", type=Path, metavar="FILE", help="draw the rates of groups")


def check_options(options: argparse.Namespace) -> None:
    """ValueError for options that do not go together, told before a model is loaded."""
    if options.impostors is None:
        for name in ("groups", "group_by", "plot"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')} needs --impostors: photos of one a person")
        if options.images is None:
            raise ValueError("give IMAGES, people with several images each, or --impostors PHOTOS")
        return
    if options.held_out is not None:
        raise ValueError("--impostors and --held-out: give one of them")
    for name in ("group_by", "plot"):
        if options.groups is None and getattr(options, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} needs --groups CSV: which photo is of which group")


class Impostors:
    """Photos of one a person, embedded.

    Args:
        options: of the command.
        model: that embeds.
    """

    def __init__(self, options: argparse.Namespace, model: Embedder) -> None:
        import numpy as np

        self.options = options
        self.source, self.names = hs.data.open_every_image(options.impostors)
        labels = None if options.groups is None else hs.evaluation.read_groups(options.groups, options.group_by)
        self.groups = [(labels or {}).get(Path(name).stem, "") for name in self.names]
        if labels is not None and not any(self.groups):
            raise ValueError(
                f"{options.groups}: none of its names, such as {next(iter(labels), '(it is empty)')!r}, is one of "
                f"{options.impostors}, such as {self.names[0]!r}"
            )
        with Progress(f"embedding {Path(options.impostors).name}", "images") as progress:
            unit = model(self.source, batch_size=options.batch_size, progress=progress).numpy()
        self.scores, self.left, self.right = hs.evaluation.all_pairs(unit, np.arange(len(unit)))
        self.thresholds: list[ImpostorThreshold] = hs.evaluation.impostor_thresholds(self.scores, self.left, self.right)

    def with_genuine(
        self, scores: npt.NDArray[np.float32], people: npt.NDArray[np.int64], images: Any, model: Embedder
    ) -> Calibration:
        """The calibration of these false matches, and of the misses of another set's pairs of one person."""
        import numpy as np

        options, count = self.options, len(self.names)
        digest = bytes_digest("".join(hs.data.images_digest(each) for each in (self.source, images)).encode())
        numbered = np.unique(people, return_inverse=True)[1]
        text = (
            f"{counted(count, 'person', 'people')} of {Path(options.impostors).name}, one photo each (false matches), "
            f"and {counted(int(numbered.max()) + 1, 'person', 'people')} of {Path(options.images).name} (misses)"
        )
        about = hs.recognition.CalibrationSet(
            people=options.people or text, digest=digest, images=len(images) + count, names=()
        )
        return hs.recognition.calibrate_scores(
            np.concatenate([self.scores, scores]),
            np.concatenate([self.left, numbered + count]),
            np.concatenate([self.right, numbered + count]),
            model.contract,
            about,
            prior=options.prior,
        )

    def by_group(self) -> dict[str, list[GroupRate]]:
        """The false-match rates of groups, by the overall one whose threshold they have; none without `--groups`."""
        if self.options.groups is None:
            return {}
        with Progress("drawing people", "thresholds") as progress:
            chosen = [row for row in self.thresholds if row.fmr in GROUP_RATES]
            rates = {}
            for done, row in enumerate(chosen, start=1):
                wrong = self.scores >= row.threshold
                rates[f"{row.fmr:.0e}"] = hs.evaluation.rates_by_group(wrong, self.left, self.right, self.groups)
                progress(done, len(chosen))
        return rates

    def print_thresholds(self) -> None:
        """Print what is known without genuine pairs."""
        print(f"{counted(len(self.names), 'person', 'people')}, one photo each: {len(self.scores):,} pairs of two")
        print(bold("  FMR     threshold  measured 95 % interval        FNMR"))
        for row in self.thresholds:
            bounds = f"{row.false_matches / len(self.scores):.1e}  [{row.fmr_low:.1e}, {row.fmr_high:.1e}]"
            print(f"  {row.fmr:.0e}   {row.threshold:.4f}     {bounds}   open{'  indicative' * row.indicative}")

    def print_groups(self, rates: dict[str, list[GroupRate]]) -> None:
        """Print the groups, the worst first, and draw them where that was asked for."""
        for fmr, groups in rates.items():
            print(bold(f"  at an overall FMR of {fmr}   FMR of the group [95 %]          people  pairs"))
            for each in groups:
                rate = f"{each.rate.value:.1e} [{each.rate.low:.1e}, {each.rate.high:.1e}]"
                print(f"    {each.group:<24}  {rate:<30}  {each.people:>6,}  {each.comparisons:,}")
        if self.options.plot is not None:
            fmr, groups = next(iter(rates.items()))
            figure = hs.evaluation.draw_groups(groups, f"false-match rate, %, at an overall {fmr}")
            print(f"plot: {hs.plots.save_figure(figure, self.options.plot)}")
