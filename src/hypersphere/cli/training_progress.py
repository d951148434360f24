"""The progress of a training run: also where it goes on, or that there is nothing left to do."""

from __future__ import annotations

import sys
from pathlib import Path

from hypersphere.core import Progress


class TrainingProgress(Progress):
    """A `Progress` of steps that says after which step a run goes on, and how to train a finished one for longer.

    Args:
        title: what is being trained.
        recipe: how the user called it.
    """

    def __init__(self, title: str, recipe: str | Path) -> None:
        super().__init__(title, "steps")
        self.recipe = recipe
        self.total = 0
        self.folder = Path()

    def expect(self, total: int, folder: Path) -> None:
        """The next run has so many steps, in this folder."""
        self.total, self.folder = total, folder

    def begin(self, done: int) -> None:
        """Say where the run goes on, and count the rate from here."""
        super().begin(done)
        if self.silent or not done:
            return
        if done < self.total:
            print(f"{self.folder}: going on after step {done:,} of {self.total:,}", file=sys.stderr)
            return
        print(
            f"{self.folder}: finished, all {done:,} steps are done. To train on from its weights, as a new run:\n"
            f"  hypersphere train {self.recipe} train.start={self.folder} train.start_head=true train.steps={done}",
            file=sys.stderr,
        )
