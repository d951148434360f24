"""Long work in parts: what is finished lies in a folder, so that a killed command goes on from there."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from hypersphere.core.files import bytes_digest, read_bounded, remove_partial, write_atomically
from hypersphere.core.numbers import counted
from hypersphere.core.sealed import read_sealed, seal_of, sealed_text

T = TypeVar("T")
_PLAN = "plan.json"
_PART = re.compile(r"part-\d{8}\.part")


class Parts(Generic[T]):
    """The finished parts of one piece of work, each a file, and the plan that they belong to.

    The first line of a part has the SHA-256 of the plan, of the part's number and of its content, which follows. So a
    part that is damaged, cut short, under the name of another or of other work is noticed; it is never used, but made
    again.

    Args:
        folder: of the parts.
        plan: what makes the parts what they are, as plain values.
        count: how many parts there will be.
        decode: turns number and content of a part into what it holds; ValueError where it holds something else.
        limit: bytes that a part may have.
        begun: the folder that a user knows of, for messages; `folder` by default.
    """

    def __init__(
        self,
        folder: Path,
        plan: Mapping[str, Any],
        count: int,
        decode: Callable[[int, bytes], T],
        *,
        limit: int,
        begun: Path | None = None,
    ) -> None:
        self.folder = folder
        self.plan: dict[str, Any] = json.loads(json.dumps(dict(plan)))
        self.count = count
        self._decode = decode
        self._limit = limit
        self._begun = begun or folder
        self._seal = seal_of(self.plan)

    def begin(self) -> None:
        """Write the plan of new work; ValueError for a folder of other work. Call only while holding the folder."""
        remove_partial(self.folder)
        path = self.folder / _PLAN
        if path.is_file():
            try:
                begun, _ = read_sealed(path, "plan")
            except ValueError as error:
                warnings.warn(f"{error}; it is written again", RuntimeWarning, stacklevel=2)
            else:
                changed = [key for key in self.plan if begun.get(key) != self.plan[key]]
                if changed:
                    raise ValueError(
                        f"{self._begun} was begun with another {' and '.join(changed)}: repeat the command as it was, "
                        "remove this folder to begin anew, or choose another one"
                    )
                return
        write_atomically(path, sealed_text(self.plan))

    def discard_damaged(
        self, check: Callable[[T], None] = lambda _: None, whole: Callable[[int], None] = lambda _: None
    ) -> None:
        """Remove the parts that are not whole, with a warning, so that they count as missing.

        Args:
            check: raises ValueError for a part that is whole, but whose other files are not.
            whole: called with the number of each part that is.
        """
        damaged = []
        for number in self._numbers():
            try:
                check(self.load(number))
            except ValueError as error:
                damaged.append(str(error))
                self._path(number).unlink()
            else:
                whole(number)
        if damaged:
            warnings.warn(
                f"{counted(len(damaged), 'finished part')} of {self.count:,} cannot be used and will be made again: "
                f"{damaged[0]}",
                RuntimeWarning,
                stacklevel=2,
            )

    def missing(self) -> list[int]:
        """Return the numbers of the parts that are still to be made."""
        return sorted({*range(self.count)} - {*self._numbers()})

    def any(self) -> bool:
        """Whether there is a part at all, whole or not."""
        return any(_PART.fullmatch(path.name) for path in self.folder.glob("part-*"))

    def save(self, number: int, content: bytes) -> None:
        """Write a part, whole or not at all."""
        write_atomically(self._path(number), self._title(number, content) + b"\n" + content)

    def load(self, number: int) -> T:
        """Return what a part holds; ValueError that names its file unless it is whole and of this work."""
        path = self._path(number)
        title, _, content = read_bounded(path, self._limit, "part").partition(b"\n")
        if title != self._title(number, content):
            raise ValueError(
                f"{path}: damaged, cut short or of other work; the same command, run again, makes this part anew"
            )
        try:
            return self._decode(number, content)
        except ValueError as error:
            raise ValueError(f"{path}: {error}; remove it and run the same command again") from None

    def _numbers(self) -> list[int]:
        return [number for number in range(self.count) if self._path(number).is_file()]

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:08d}.part"

    def _title(self, number: int, content: bytes) -> bytes:
        digest = bytes_digest(f"{self._seal}\n{number}\n".encode() + content)
        return f"hypersphere part {number} of {self.count} {digest}".encode()
