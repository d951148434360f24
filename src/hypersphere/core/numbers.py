"""Numbers in text: the one parser of integers, and counts with their nouns."""

from __future__ import annotations

INT64_MAX = 2**63 - 1
_DIGITS = len(str(INT64_MAX))


def is_integer(text: str) -> bool:
    """Whether a text is ASCII digits, with a minus sign before them or none, however many."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()


def parse_integer(text: str, where: str, low: int = 0, high: int = INT64_MAX) -> int:
    """Return the integer that stands in a text file: ASCII digits, at most 19 of them, within [low, high].

    Unlike `int` it takes no blanks, underscores, plus sign, digits of other scripts, or thousands of digits.

    Args:
        text: the digits, with a minus sign before them where `low` is negative.
        where: file, line and what the number is, for the message.
        low, high: the least and the largest integer that is right.

    Example:
        >>> parse_integer("17", "train.txt, line 3: label", -1, 1000)
        17
    """
    wanted = f"expected a whole number from {low} to {high}"
    if not is_integer(text):
        raise ValueError(f"{where} {text[:40]!r} is not an integer; {wanted}")
    if len(text.removeprefix("-")) > _DIGITS:
        raise ValueError(f"{where} {text[:40]!r} has {len(text.removeprefix('-'))} digits; {wanted}")
    number = int(text)
    if not low <= number <= high:
        raise ValueError(f"{where} {number} is out of range; {wanted}")
    return number


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun.

    Args:
        count: how many.
        one: the noun of one.
        many: that of any other number; `one` with an s by default.

    Example:
        >>> counted(1, "photo"), counted(2400, "photo"), counted(0, "person", "people")
        ('1 photo', '2,400 photos', '0 people')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
