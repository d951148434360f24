"""The one reader of lists: lines of UTF-8 text, and names that such a list can hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

_BOM = b"\xef\xbb\xbf"
_UNFIT = ("\r", "\n", "\0")


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, stripped, with their numbers from 1.

    Lines end with a line feed, or a carriage return and a line feed. One that is not UTF-8, or has a carriage return or
    a zero byte within, is a ValueError that names the file and the line.
    """
    path = Path(path)
    done = 0
    try:
        with path.open("rb") as file:
            for number, data in enumerate(file, start=1):
                plain = data.removeprefix(_BOM) if number == 1 else data
                try:
                    text = plain.decode().strip()
                except UnicodeDecodeError as error:
                    place = done + len(data) - len(plain) + error.start
                    raise ValueError(f"{path}: byte {place} is not UTF-8 text (line {number})") from None
                if "\r" in text or "\0" in text:
                    raise ValueError(f"{path}, line {number}: a carriage return or a zero byte within the line")
                done += len(data)
                if text:
                    yield number, text
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None


def check_names(names: Iterable[str], where: str) -> None:
    """Raise ValueError for a name that no list can hold: with a line break or a zero byte within, or not UTF-8.

    Args:
        names: of images or files.
        where: they come from, for the message.
    """
    known = list(names)
    joined = " ".join(known)
    if not any(letter in joined for letter in _UNFIT) and _is_utf8(joined):
        return
    wrong = next(name for name in known if any(letter in name for letter in _UNFIT) or not _is_utf8(name))
    raise ValueError(f"{where}: {wrong!r} cannot be written to a list: a line break within it, or not UTF-8; rename it")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
