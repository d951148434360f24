"""A closed registry: names to classes, with a suggestion for a name that is not there."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

from hypersphere.core.checks import nearest

T = TypeVar("T", bound=type[Any])


class Registry(Generic[T]):
    """Names of one kind of thing.

    Args:
        kind: what is registered, in the words of an error message.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Class decorator: enter the class under `name`."""

        def enter(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            entry.name = name
            self._entries[name] = entry
            return entry

        return enter

    def __getitem__(self, name: str) -> T:
        if not isinstance(name, str) or name not in self._entries:
            raise ValueError(f"unknown {self.kind} {name!r}; {nearest(str(name), self._entries)}")
        return self._entries[name]

    def names(self, pattern: str = "*") -> list[str]:
        """The registered names that match a shell pattern, sorted."""
        return sorted(name for name in self._entries if fnmatchcase(name, pattern))
