"""The log of a run: one JSON object a line, without duplicates after a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypersphere.training.checkpoints import write_atomically


class JsonLines:
    """Appends records to a file; each has a step.

    Args:
        path: the file.
        step: what was logged beyond this step, before a crash, is dropped.
    """

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [record for record in read_log(path) if record["step"] <= step]
        write_atomically(path, "".join(json.dumps(record) + "\n" for record in kept).encode())

    def write(self, record: dict[str, Any]) -> None:
        """Append one record."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log; a last line that was cut off is left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records
