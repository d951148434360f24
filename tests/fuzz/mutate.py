"""Damage done to files, all of it drawn from a seeded generator: bytes, text, JSON, and whole files."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

Files = dict[str, bytes | None]
"""The content of every file by its relative name; None for one that is removed, b"/" for a folder in its place."""

FOLDER = b"/"
_SIZES = (0, 1, 2, 127, 128, 255, 256, 32767, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
_NUMBERS = (
    *("0", "-1", "1", "2", "00", "-0", "+1", "1_0", "0x10", "1e3", "1.5", "1e308", "1e999", "-1e999", "nan", "inf"),
    *("127", "65536", "16777217", "600000000", "2147483647", "2147483648", "4294967296", "9223372036854775807"),
    *("-9223372036854775808", "9223372036854775808", "18446744073709551616", "9" * 30, "9" * 400, "9" * 5000),
    *("\N{SUPERSCRIPT TWO}", "\N{FULLWIDTH DIGIT ONE}", "\N{ARABIC-INDIC DIGIT FIVE}", "true", "null", "None"),
)
_WORDS = (
    *(
        "",
        " ",
        "\t",
        ",",
        "\r",
        "\r\n",
        "\n",
        "\n\n",
        "\0",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x85",
        "\u2028",
        "\ufeff",
        "\u202e",
    ),
    *("..", "../..", "/etc/passwd", "\\", "C:\\x", "a/../b", ".", "~", "#", '"', "'", "{}", "[]", "[[", "]]", "=", ";"),
    *("\N{LATIN SMALL LETTER E WITH ACUTE}", "e\u0301", "\N{GRINNING FACE}", "x" * 300, "x" * 5000, "None", "nan"),
)
_RAW = (b"\xff", b"\xfe\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\0\0\0\0")
_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        0.5,
        2**31,
        2**63 - 1,
        2**63,
        10**30,
        1e308,
        float("nan"),
        float("inf"),
        -float("inf"),
    ),
    *("", "x", "1", "nan", "\ud800", "\0", "..", "/etc/passwd", "x" * 5000),
    *([], {}, [[]], [None], {"": None}, {"x": 1}, [1, "2"], [0] * 1000),
)


def _span(rng: random.Random, data: bytes, most: int = 64) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.randint(1, most))


def flip_bits(rng: random.Random, data: bytes) -> bytes:
    """Flip one bit, or a few."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 5, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def flip_early(rng: random.Random, data: bytes) -> bytes:
    """Flip a bit among the first 64 bytes, or the last: headers and directories lie there."""
    changed = bytearray(data)
    place = rng.randrange(min(64, len(changed)))
    changed[place if rng.random() < 0.6 else len(changed) - 1 - place] ^= 1 << rng.randrange(8)
    return bytes(changed)


def set_byte(rng: random.Random, data: bytes) -> bytes:
    """Set a byte to another value."""
    place = rng.randrange(len(data))
    return data[:place] + bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))]) + data[place + 1 :]


def truncate(rng: random.Random, data: bytes) -> bytes:
    """Cut off the end, often just a little."""
    kept = rng.choice((len(data) - 1, len(data) - rng.randint(1, 16), rng.randrange(len(data)), len(data) // 2, 0))
    return data[: max(0, kept)]


def behead(rng: random.Random, data: bytes) -> bytes:
    """Cut off the beginning."""
    return data[rng.choice((1, 2, 4, 8, rng.randrange(len(data)))) :]


def remove_span(rng: random.Random, data: bytes) -> bytes:
    """Leave some bytes out."""
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def insert(rng: random.Random, data: bytes) -> bytes:
    """Put some bytes in: random ones, zeros, or what UTF-8 does not allow."""
    place = rng.randrange(len(data) + 1)
    made = rng.choice((rng.randbytes(rng.choice((1, 2, 4, 100))), bytes(rng.choice((1, 4, 512))), rng.choice(_RAW)))
    return data[:place] + made + data[place:]


def append(rng: random.Random, data: bytes) -> bytes:
    """Add bytes at the end."""
    return data + rng.choice((b"\0", b"\n", b" ", b"x", rng.randbytes(16), bytes(1024), data[-64:], data))


def repeat_span(rng: random.Random, data: bytes) -> bytes:
    """Write some bytes twice, or very often."""
    start, end = _span(rng, data, 512)
    return data[:end] + data[start:end] * rng.choice((1, 1, 1, 3, 100)) + data[end:]


def swap_spans(rng: random.Random, data: bytes) -> bytes:
    """Exchange two stretches."""
    (a, b), (c, d) = sorted((_span(rng, data), _span(rng, data)))
    return data if c < b else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def overwrite_size(rng: random.Random, data: bytes) -> bytes:
    """Overwrite two, four or eight bytes by an extreme number, little or big end first."""
    width = rng.choice((2, 4, 8))
    place = rng.randrange(max(1, len(data) - width))
    number = rng.choice(_SIZES) % (1 << 8 * width)
    return data[:place] + number.to_bytes(width, rng.choice(("little", "big"))) + data[place + width :]


def zero_span(rng: random.Random, data: bytes) -> bytes:
    """Overwrite a stretch by zeros, as a disk does that lost a block."""
    start, end = _span(rng, data, 512)
    return data[:start] + bytes(end - start) + data[end:]


BYTES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(flip_bits, flip_bits, flip_early, set_byte, truncate, truncate, behead, remove_span, insert, append, repeat_span),
    *(swap_spans, overwrite_size, overwrite_size, zero_span),
)


def replace_number(rng: random.Random, data: bytes) -> bytes:
    """Write another number in the place of one."""
    return _replaced(rng, data, re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"), _NUMBERS)


def replace_word(rng: random.Random, data: bytes) -> bytes:
    """Write another word in the place of one, or one of the same file."""
    words = re.findall(rb"[^\s,]+", data)
    own = [rng.choice(words).decode("latin-1")] * 10 if words else []
    return _replaced(rng, data, re.compile(rb"[^\s,]+"), (*_WORDS, *own))


def _replaced(rng: random.Random, data: bytes, pattern: re.Pattern[bytes], instead: tuple[str, ...]) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return insert(rng, data)
    here = rng.choice(found)
    return data[: here.start()] + rng.choice(instead).encode("utf-8", "surrogatepass") + data[here.end() :]


def insert_word(rng: random.Random, data: bytes) -> bytes:
    """Put an odd word in."""
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice((*_WORDS, *_NUMBERS)).encode("utf-8", "surrogatepass") + data[place:]


def change_lines(rng: random.Random, data: bytes) -> bytes:
    """Remove, repeat, exchange, join or cut a line."""
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(other, lines[one])
    elif kind == 2:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == 3:
        lines[one] = lines[one][: rng.randrange(len(lines[one]) + 1)]
    elif kind == 4:
        lines[one] += b" " + lines[other]
    else:
        return b"\n".join(lines).rstrip(b"\n")
    return b"\n".join(lines)


def change_encoding(rng: random.Random, data: bytes) -> bytes:
    """The same text in another encoding, with other line ends, or with a byte order mark."""
    text = data.decode("utf-8", "replace")
    kind = rng.randrange(6)
    if kind == 0:
        return text.encode(rng.choice(("utf-16", "utf-32", "utf-16-le", "utf-8-sig")))
    if kind == 1:
        return text.replace("\n", rng.choice(("\r\n", "\r", "\u2028", "\n\n", "\x85", "\0"))).encode()
    if kind == 2:
        return text.translate({ord("0") + k: ord("\N{FULLWIDTH DIGIT ZERO}") + k for k in range(10)}).encode()
    if kind == 3:
        return text.swapcase().encode()
    if kind == 4:
        return text.encode() + rng.choice(_RAW)
    return text.replace(" ", rng.choice(("\t", "  ", "\u00a0", ""))).encode()


def nest(rng: random.Random, data: bytes) -> bytes:
    """Open brackets a hundred or ten thousand times."""
    place, depth = rng.randrange(len(data) + 1), rng.choice((100, 1000, 3000, 20000))
    opened, closed = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"[[", b"]]"), (b"{a=", b"}")))
    return data[:place] + opened * depth + (b"1" + closed * depth if rng.random() < 0.7 else b"") + data[place:]


TEXT: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(flip_bits, set_byte, truncate, remove_span, insert, append, repeat_span, swap_spans, zero_span),
    *(replace_number, replace_number, replace_number, replace_word, replace_word, insert_word, insert_word),
    *(change_lines, change_lines, change_lines, change_encoding, nest),
)


def change_json(rng: random.Random, data: bytes) -> bytes:
    """Change one value of a JSON text, of any line of it: another kind, an extreme, another key, or none."""
    lines = data.split(b"\n") if data.count(b"\n{") else [data]
    place = rng.randrange(len(lines))
    try:
        lines[place] = json.dumps(_changed(rng, json.loads(lines[place]))).encode()
    except (ValueError, RecursionError):
        return replace_number(rng, data)
    return b"\n".join(lines)


def _changed(rng: random.Random, value: Any, depth: int = 0) -> Any:
    if not value or not isinstance(value, (dict, list)) or (depth and rng.random() < 0.3):
        nested: Any = value
        for _ in range(rng.choice((3, 500)) if rng.random() < 0.1 else 0):
            nested = [nested] if rng.random() < 0.5 else {"a": nested}
        return nested if nested is not value else rng.choice(_VALUES)
    if isinstance(value, list):
        kind, place = rng.randrange(5), rng.randrange(len(value))
        if kind == 0:
            return value[:place] + value[place + 1 :]
        if kind == 1:
            return [*value, value[place]]
        return [*value[:place], _changed(rng, value[place], depth + 1), *value[place + 1 :]]
    kind, key = rng.randrange(8), rng.choice(list(value))
    if kind == 0:
        return {name: entry for name, entry in value.items() if name != key}
    if kind == 1:
        return {(rng.choice(_WORDS) if name == key else name): entry for name, entry in value.items()}
    if kind == 2:
        return {**value, rng.choice(("extra", "", "__class__", key + "x")): rng.choice(_VALUES)}
    return {**value, key: _changed(rng, value[key], depth + 1)}


JSON = (*TEXT, change_json, change_json, change_json, change_json, change_json)


def exchange(files: dict[str, bytes], one: str, other: str) -> Files:
    """Two files under each other's names, with all that lies beside them and differs in the suffix only."""
    first, second = one.rpartition(".")[0] or one, other.rpartition(".")[0] or other
    pairs = [(name, second + name.removeprefix(first)) for name in files if name.startswith(first)]
    kept = [(name, twin) for name, twin in pairs if twin in files]
    return {place: files[name] for a, b in kept for place, name in ((a, b), (b, a))}


def mutate(rng: random.Random, files: dict[str, bytes], kinds: dict[str, Any], choose: list[str]) -> Files:
    """Damage one file, seldom two, or put something else in the place of one.

    Args:
        rng: draws everything.
        files: the sound ones.
        kinds: the mutators of each file.
        choose: the files that may be damaged.

    Returns:
        what changed.
    """
    name = rng.choice(choose)
    draw = rng.random()
    if draw < 0.01:
        return {name: None}
    if draw < 0.015:
        return {name: FOLDER}
    if draw < 0.02:
        return {name: b""}
    if draw < 0.04 and len(files) > 1:
        return {name: files[rng.choice(list(files))]}
    if draw < 0.06:
        return exchange(files, name, rng.choice(choose))
    data = files[name]
    for _ in range(1 if rng.random() < 0.85 else rng.randint(2, 5)):
        data = rng.choice(kinds[name])(rng, data) if data else insert(rng, data)
    found: Files = {name: data}
    if draw > 0.97 and len(choose) > 1:
        other = rng.choice(choose)
        found.setdefault(other, rng.choice(kinds[other])(rng, files[other]) if files[other] else b"\n")
    return found


DIGITS = (
    "0",
    "7",
    "-1",
    "0000",
    "9" * 19,
    "9" * 400,
    "9" * 5000,
    "\N{SUPERSCRIPT TWO}",
    "\N{FULLWIDTH DIGIT ONE}",
    "x",
)
"""Texts that stand for a number in a name, few of which are one."""
