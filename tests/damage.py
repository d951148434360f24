"""Damage done to the files of a folder, drawn from a seeded generator."""

import random
from pathlib import Path

Files = dict[str, bytes]


def read_files(folder: Path) -> Files:
    """The content of every file of a folder, by name; locks apart."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_files(folder: Path, files: Files) -> None:
    """Let a folder hold these files and no others."""
    for name in read_files(folder):
        (folder / name).unlink()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def flipped(data: bytes, place: int, bit: int) -> bytes:
    """The bytes with one bit the other way."""
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def damaged(files: Files, chance: random.Random) -> tuple[str, Files]:
    """The files with one bit flipped, one of them cut short, removed, or two exchanged; and what was done, in words."""
    name = chance.choice([name for name, content in files.items() if content])
    content, kind = files[name], chance.random()
    if kind < 0.6:
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        return f"bit {bit} of byte {place} of {name}", {**files, name: flipped(content, place, bit)}
    if kind < 0.85:
        length = chance.randrange(len(content))
        return f"{name} cut to {length} bytes", {**files, name: content[:length]}
    other = chance.choice([*files])
    if kind < 0.95 and other != name:
        return f"{name} and {other} exchanged", {**files, name: files[other], other: content}
    return f"{name} removed", {key: each for key, each in files.items() if key != name}
