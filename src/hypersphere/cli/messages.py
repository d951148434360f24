"""What a user reads when something is wrong: warnings as plain lines, errors of the system with the file first."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

ELSEWHERE = {
    "lr": "optimizer.lr",
    "learning_rate": "optimizer.lr",
    "weight_decay": "optimizer.weight_decay",
    "loss": "head.name",
    "backbone": "backbone.name",
    "network": "backbone.name",
    "data": "data.source",
}
"""What other tools call their options, and the recipe's key for it."""
_PACKAGE = str(Path(__file__).parents[1])


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Write the package's own warnings as a line on standard error; those of others stay as they are."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if filename.startswith(_PACKAGE):
                print(f"hypersphere: warning: {message}", file=sys.stderr)
            else:
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def in_words(error: BaseException) -> str:
    """Return an error as a sentence: one of the system names its file and not its number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def as_setting(words: Sequence[str]) -> str:
    """Return an option that is none, and its value, as the setting of a recipe that is meant, or as an example.

    Example:
        >>> as_setting(["--batch-size", "64"])
        'train.batch_size=64'
    """
    option, _, value = words[0].partition("=")
    value = value or next((word for word in words[1:2] if not word.startswith("-")), "VALUE")
    key = _nearest_key(option.removeprefix("--").replace("-", "_"))
    return f"{key}={value}" if key else "train.batch_size=64, for example"


def _nearest_key(word: str) -> str | None:
    """The recipe's key that ends in a word, or in one like it."""
    from hypersphere.training import recipe_keys

    by_end = dict(ELSEWHERE)
    for key in recipe_keys():
        by_end[key.rpartition(".")[2]] = key
        by_end[key.replace(".", "_")] = key
    close = difflib.get_close_matches(word, by_end, n=1, cutoff=0.75)
    return by_end[close[0]] if close else None
