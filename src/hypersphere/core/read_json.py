"""The one reader of JSON: whatever is in a file, it is plain values or a ValueError that names the file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NoReturn

from hypersphere.core.files import read_bounded

JSON_LIMIT = 1 << 28
"""Bytes that a JSON file may have; the lists of MegaFace's million images have a fifth of it."""
JSON_DEPTH = 64
"""Levels of lists and tables that a JSON text may have."""

_LEAST, _LARGEST = -(1 << 63), (1 << 63) - 1
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_CONTAINERS = (dict, list)


def read_json(path: str | Path, *, limit: int = JSON_LIMIT) -> Any:
    """The value of a JSON file in UTF-8.

    Args:
        path: the file.
        limit: bytes it may have.

    Raises:
        ValueError: there is no such file, or `parse_json` refuses its text; the message names the file.
    """
    path = Path(path)
    return parse_json(read_bounded(path, limit, "JSON"), str(path))


def parse_json(text: str | bytes, where: str) -> Any:
    """The value of a JSON text.

    Text that is not UTF-8, more than 64 levels, a key that a table has twice, NaN and infinity (which JSON has not),
    whole numbers beyond 64 bits and half characters (lone surrogates) are refused.

    Args:
        text: of one value.
        where: the file, and the line if need be, for messages.
    """
    try:
        plain = text if isinstance(text, str) else text.decode("utf-8-sig")
        value = _DECODER.decode(plain)
        if _SURROGATE.search(plain):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: byte {error.start} is not UTF-8 text; expected JSON") from None
    except UnicodeEncodeError:
        raise ValueError(f"{where}: not JSON (half of a character: a \\u escape without its other half)") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}, line {error.lineno}: not JSON ({error.msg}, column {error.colno})") from None
    except ValueError as error:
        raise ValueError(f"{where}: not JSON ({error})") from None
    except RecursionError:
        raise ValueError(f"{where}: lists and tables more than {JSON_DEPTH} deep") from None
    level = [value]
    for _ in range(JSON_DEPTH + 1):
        level = [each for each in level if isinstance(each, _CONTAINERS)]
        if not level:
            return value
        level = [each for one in level for each in (one.values() if isinstance(one, dict) else one)]
    raise ValueError(f"{where}: lists and tables more than {JSON_DEPTH} deep")


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {double!r} comes twice in one table")
    return table


def _integer(text: str) -> int:
    number = int(text) if len(text) <= 20 else _LARGEST + 1
    if not _LEAST <= number <= _LARGEST:
        shown = text if len(text) <= 20 else f"{text[:20]}..."
        raise ValueError(f"the number {shown} does not fit into 64 bits")
    return number


def _real(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_table, parse_int=_integer, parse_float=_real, parse_constant=_constant)
