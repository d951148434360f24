"""All protocols by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypersphere.core import Registry
from hypersphere.data import NamedImages
from hypersphere.evaluation.results.result import Result


@dataclass(frozen=True)
class Evaluated:
    """A result, and what its report shows besides.

    Args:
        result: of a protocol.
        title: of what was measured.
        images: by title of the set, where images are given.
        warning: why the result may say nothing of the model; the report begins with it.
    """

    result: Result
    title: str
    images: Mapping[str, NamedImages | None]
    warning: str = ""


PROTOCOLS: Registry[Any] = Registry("protocol")
"""Each is a function of an `EmbeddingSource` and of the protocol's own options, by keyword, that gives `Evaluated`."""


def list_protocols(pattern: str = "*") -> list[str]:
    """The names of all protocols, matching a shell pattern.

    Example:
        >>> list_protocols("pairs")
        ['pairs']
    """
    return PROTOCOLS.names(pattern)
