"""All protocols by name."""

from __future__ import annotations

from typing import Any

from hypersphere.core import Registry

PROTOCOLS: Registry[Any] = Registry("protocol")
"""Each is a frozen dataclass made by a `read_*` function, with `names` (the images it needs) and `evaluate`."""


def list_protocols(pattern: str = "*") -> list[str]:
    """The names of all protocols, matching a shell pattern.

    Example:
        >>> list_protocols("pairs")
        ['pairs']
    """
    return PROTOCOLS.names(pattern)
