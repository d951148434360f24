"""Configuration: frozen dataclasses are the schema, TOML is the file, a wrong key is an error naming the right one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hypersphere.core.checks import nearest
from hypersphere.core.files import read_bounded

C = TypeVar("C")
Replaced = Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[str]]
"""Called with a table and the one over it: the keys of the former that are dropped, not merged."""
_LEVELS = 32
_BASES = 32
_BYTES = 2**24


def load_toml(path: str | Path, replaced: Replaced = lambda *_: (), children: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Return a TOML file as a dictionary; `base = "other.toml"` is read first and overlaid, key by key."""
    path = Path(path)
    if path.resolve() in children:
        raise ValueError(f"{path} is its own base")
    if len(children) > _BASES:
        raise ValueError(f"{path}: the base of the base ... of a file, more than {_BASES} times")
    data = read_bounded(path, _BYTES, "TOML")
    try:
        table = _parse(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is not UTF-8 text; expected TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    base = table.pop("base", None)
    if base is None:
        return table
    if not isinstance(base, str) or "\0" in base:
        raise ValueError(f"{path}: base must be the path of another file, not {base!r}")
    return overlay(load_toml(path.parent / base, replaced, (*children, path.resolve())), table, replaced)


def overlay(below: Mapping[str, Any], above: Mapping[str, Any], replaced: Replaced = lambda *_: ()) -> dict[str, Any]:
    """Return `above` over `below`: tables are merged, everything else is replaced.

    Args:
        below, above: the tables.
        replaced: called with every pair of tables that are merged; the keys that it returns are dropped from the lower.
    """
    dropped = set(replaced(below, above))
    merged = {key: value for key, value in below.items() if key not in dropped}
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = value
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = overlay(old, value, replaced)
    return merged


def override(table: Mapping[str, Any], settings: Sequence[str], replaced: Replaced = lambda *_: ()) -> dict[str, Any]:
    """Apply `key.sub=value` settings; the value is read as TOML, or as a plain string where that is no TOML."""
    merged = dict(table)
    for setting in settings:
        name, equals, text = setting.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys) or len(keys) > _LEVELS:
            raise ValueError(f"{setting[:200]!r} is no setting: write key.sub=value")
        try:
            value = _setting(text)
        except ValueError as error:
            raise ValueError(f"{setting[:200]!r}: {error}") from None
        for key in reversed(keys):
            value = {key: value}
        merged = overlay(merged, value, replaced)
    return merged


def _setting(text: str) -> Any:
    try:
        table = _parse(f"value = {text}")
    except tomllib.TOMLDecodeError:
        table = {"value": text.strip()}
        _check_plain(table)
    if len(table) > 1:
        raise ValueError("one value, not several lines")
    return table["value"]


def _parse(text: str) -> dict[str, Any]:
    """TOML text as a table of numbers, strings and lists; ValueError for what no configuration has."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"lists and tables more than {_LEVELS} deep") from None
    _check_plain(table)
    return table


def _check_plain(table: Mapping[str, Any]) -> None:
    """Raise ValueError unless all is text, finite numbers of 64 bits, lists and tables, and not too deep."""
    level: list[tuple[str, Any]] = list(table.items())
    for _ in range(_LEVELS):
        inner: list[tuple[str, Any]] = []
        for name, value in level:
            if isinstance(value, Mapping):
                inner += ((f"{name}.{key}", each) for key, each in value.items())
            elif isinstance(value, list | tuple):
                inner += ((f"{name}[{place}]", each) for place, each in enumerate(value))
            else:
                _check_value(name, value)
        if not inner:
            return
        level = inner
    raise ValueError(f"lists and tables more than {_LEVELS} deep")


def _check_value(name: str, value: Any) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{name} is a number beyond 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{name}={value} must be finite")
    elif not isinstance(value, str):
        raise ValueError(f"{name}={value} is a {type(value).__name__}; expected text, a number, a list or a table")
    elif not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{name}={value!r} is not UTF-8 text")


def build(schema: type[C], table: Mapping[str, Any], where: str = "") -> C:
    """An instance of a dataclass from a table, checked key by key.

    Args:
        schema: a dataclass; fields that are dataclasses themselves take tables.
        table: the values.
        where: the table's name, for messages.
    """
    hints = _hints(schema)  # type: ignore[arg-type]
    fields = {field.name: field for field in dataclasses.fields(schema)}  # type: ignore[arg-type]
    values = {}
    for key, value in table.items():
        name = f"{where}.{key}" if where else key
        if key not in fields:
            raise ValueError(f"{name} is unknown; {nearest(key, fields)}")
        values[key] = _value(hints[key], value, name)
    for key, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and key not in values:
            raise ValueError(f"{f'{where}.{key}' if where else key} is missing")
    try:
        return schema(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}" if where else str(error)) from None


@cache
def _hints(schema: type[Any]) -> Mapping[str, Any]:
    """Return the types of a dataclass's fields; reading them from their text costs more than checking a table."""
    return types.MappingProxyType(get_type_hints(schema))


def as_table(config: Any) -> Any:
    """A configuration as plain dictionaries, lists and numbers, without what is None."""
    if dataclasses.is_dataclass(config):
        pairs = ((field.name, getattr(config, field.name)) for field in dataclasses.fields(config))
        return {name: as_table(value) for name, value in pairs if value is not None}
    if isinstance(config, Mapping):
        return {str(key): as_table(value) for key, value in config.items()}
    if isinstance(config, tuple | list):
        return [as_table(value) for value in config]
    return config


def digest(config: Any) -> str:
    """A short hash of a configuration, the same for the same settings.

    Fields at their defaults do not count, so that a new one leaves the hashes of earlier configurations as they are;
    nor do fields that are not compared.
    """
    text = json.dumps(_chosen(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _chosen(config: Any) -> Any:
    """`as_table` without the fields of dataclasses that are at their defaults."""
    if not dataclasses.is_dataclass(config):
        return as_table(config)
    chosen = {}
    for field in dataclasses.fields(config):
        value, default = getattr(config, field.name), field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if field.compare and value != default:
            chosen[field.name] = _chosen(value)
    return chosen


def to_toml(table: Mapping[str, Any], prefix: str = "") -> str:
    """A table as TOML text: plain values first, then its sub-tables."""
    lines = [f"{_key(key)} = {to_value(value)}" for key, value in table.items() if not isinstance(value, Mapping)]
    for key, value in table.items():
        if isinstance(value, Mapping):
            name = f"{prefix}{_key(key)}"
            lines += ["", f"[{name}]", to_toml(value, f"{name}.").strip("\n")]
    return "\n".join(lines).strip("\n") + "\n"


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")


def to_value(value: Any) -> str:
    """A plain value as TOML text."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(to_value(entry) for entry in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(str(key))} = {to_value(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(hint: Any, value: Any, name: str) -> Any:
    """`value` as the type `hint`, or an error that says what was expected."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        _check_plain({name: value})
        return value
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, name)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise ValueError(f"{name}={value!r} must be a table")
        return build(hint, value, name)
    if origin is tuple:
        return _tuple(arguments, value, name)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise ValueError(f"{name}={value!r} must be a table")
        return {str(key): _value(arguments[1], entry, f"{name}.{key}") for key, entry in value.items()}
    return _plain(hint, value, name)


def _one_of(arguments: tuple[Any, ...], value: Any, name: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    problems = []
    for argument in arguments:
        if argument is type(None):
            continue
        try:
            return _value(argument, value, name)
        except ValueError as error:
            problems.append(str(error))
    raise ValueError(problems[0])


def _tuple(arguments: tuple[Any, ...], value: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name}={value!r} must be a list")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise ValueError(f"{name}={value!r} must have {len(arguments)} entries")
    return tuple(
        _value(hint, entry, f"{name}[{i}]") for i, (hint, entry) in enumerate(zip(arguments, value, strict=True))
    )


def _plain(hint: Any, value: Any, name: str) -> Any:
    if isinstance(value, int | float | str):
        _check_value(name, value)
    if get_origin(hint) is Literal:
        if any(type(value) is type(choice) and value == choice for choice in get_args(hint)):
            return value
        raise ValueError(f"{name}={value!r} is unknown; {nearest(str(value), map(str, get_args(hint)))}")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    matches = isinstance(value, hint) and not (hint in (int, float) and isinstance(value, bool))
    if not matches:
        raise ValueError(f"{name}={value!r} must be of type {hint.__name__}")
    return value
