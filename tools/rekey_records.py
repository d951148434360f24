"""Give runs on record the keys of version 2: `python tools/rekey_records.py [FOLDER ...]`.

Keys of version 1 held the `about` of their recipe, and what else a run was filed under; papers/records/keys.csv says
which key of version 2 each has: that of its settings, from which both were computed. Nothing else of a line changes. Of
29 runs the settings are not known any more; they keep their keys, as whatever the map does not know does.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

from hypersphere.core import SEAL, numbered_lines, parse_json, seal_of, write_atomically

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "papers" / "records"


def read_keys(path: Path = RECORDS / "keys.csv") -> dict[tuple[str, str], str]:
    """Return the keys of version 2 by the name of the record file and the key of version 1."""
    with path.open(newline="") as file:
        return {(row["file"], row["version 1"]): row["version 2"] for row in csv.DictReader(file)}


def rekeyed(line: str, name: str, keys: dict[tuple[str, str], str]) -> str:
    """Return a line of the record file of a name with its new key."""
    table = parse_json(line, name)
    new = keys.get((name, table["recipe"]))
    if new is None:
        return line
    sealed = table.pop(SEAL, None) is not None
    table["recipe"] = new
    return json.dumps({**table, SEAL: seal_of(table)} if sealed else table, allow_nan=False)


def main(folders: list[str]) -> None:
    keys = read_keys()
    for folder in map(Path, folders) if folders else sorted(path for path in RECORDS.iterdir() if path.is_dir()):
        for path in sorted(folder.glob("*.jsonl")):
            lines = [line for _, line in numbered_lines(path)]
            new = [rekeyed(line, path.name, keys) for line in lines]
            changed = sum(one != other for one, other in zip(lines, new, strict=True))
            if changed:
                write_atomically(path, "".join(f"{line}\n" for line in new).encode())
            print(f"{path}: {changed} of {len(lines)} runs have a new key")


if __name__ == "__main__":
    main(sys.argv[1:])
