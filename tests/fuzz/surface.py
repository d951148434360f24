"""What is fuzzed: a surface makes a sound input, damages it and reads it; what it may answer then is its promise."""

import fnmatch
import hashlib
import os
import random
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from tests.fuzz.mutate import BYTES, FOLDER, JSON, TEXT, Files, mutate

_TEXT_SUFFIXES = {".txt", ".csv", ".toml", ".lst", ".idx", ".index", ".cls", ".names"}
_JSON_SUFFIXES = {".json", ".jsonl"}
_STAMP = 1_700_000_000_000_000_000


MEMORY = 512 << 20
"""An input for which the process grows by more takes too much memory, unless a surface says otherwise."""


class Surface(Protocol):
    """One reader of what users hand over.

    `inputs` is how many `make test` tries, `promise` in words what must stay where no error comes. `prepare` gets an
    empty folder of its own. `attempt` draws an input, reads it and returns None, or why the answer is wrong although no
    error came; it raises what the reader raises. `names` says whether a message names the file or the argument.
    """

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> int: ...

    @property
    def promise(self) -> str: ...

    @property
    def memory(self) -> int: ...

    def prepare(self, folder: Path) -> None: ...

    def attempt(self, rng: random.Random) -> str | None: ...

    def names(self, message: str) -> bool: ...


@dataclass(frozen=True)
class Damaged:
    """A damaged input, as a promise sees it.

    Args:
        sound, found: what was read of the sound files and of the damaged ones.
        files: the sound files.
        change: what was changed.
        warned: the warnings that came.
    """

    sound: Any
    found: Any
    files: Mapping[str, bytes]
    change: Files
    warned: Sequence[str]

    @property
    def gone(self) -> bool:
        """Whether a file was removed, or a folder put in its place."""
        return any(data is None or data == FOLDER for data in self.change.values())

    def text(self, name: str) -> str:
        """A file as it was read, as text."""
        data = self.change[name] if name in self.change else self.files[name]
        return (data or b"").decode("utf-8-sig", "replace")

    def lines(self, name: str) -> set[int]:
        """How many lines of a file are not empty, whether a carriage return ends a line or not."""
        text = self.text(name)
        return {sum(bool(line.strip()) for line in each.split("\n")) for each in (text, text.replace("\r", "\n"))}


Promise = Callable[[Damaged], str | None]


def free(damaged: Damaged) -> None:
    """Nothing: the format has no checksum, and other content is other content."""


def unchanged(damaged: Damaged) -> str | None:
    """The same answer, or an error: a digest or a checksum covers every byte that counts."""
    return None if damaged.found == damaged.sound else f"{damaged.found!r:.200} instead of {damaged.sound!r:.200}"


@dataclass
class FileSurface:
    """A reader of files.

    Args:
        name: in the table.
        inputs: how many `make test` tries.
        make: writes sound files into a folder.
        read: reads them; its answer must be comparable with ==.
        check: the promise.
        promise: the same in a sentence.
        only: patterns of the files that are damaged.
        seal: makes the damaged files consistent again, as a forger would: digests recomputed.
        writes: the reader may change the folder.
        words: what a message may name instead of a file.
        memory: bytes that reading may take.
    """

    name: str
    inputs: int
    make: Callable[[Path], object]
    read: Callable[[Path], Any]
    check: Promise = free
    promise: str = "errors only: the format has no checksum"
    only: tuple[str, ...] = ("*",)
    seal: Callable[[dict[str, bytes], Files], Files] | None = None
    writes: bool = False
    words: tuple[str, ...] = ()
    memory: int = MEMORY
    sound: Any = None
    files: dict[str, bytes] = field(default_factory=dict)

    def prepare(self, folder: Path) -> None:
        """Make the sound files once, and read them."""
        seed = folder / "seed"
        if not seed.is_dir():
            partial = folder / "partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            self.make(partial)
            partial.rename(seed)
        self.files = {
            str(path.relative_to(seed)): path.read_bytes() for path in sorted(seed.rglob("*")) if path.is_file()
        }
        self._stamps = {name: (seed / name).stat().st_mtime_ns for name in self.files}
        self._choose = [name for name in self.files if any(fnmatch.fnmatch(name, pattern) for pattern in self.only)]
        self._kinds = {name: mutators(name) for name in self.files}
        self.folder = folder / "work"
        self._rebuild()
        self.sound = plain(self.read(self.folder))
        self._rebuild()

    def draw(self, rng: random.Random) -> Files:
        """A damaged input."""
        change = mutate(rng, self.files, self._kinds, self._choose)
        return change if self.seal is None else self.seal(self.files, change)

    def attempt(self, rng: random.Random) -> str | None:
        change = self.draw(rng)
        try:
            for name, data in change.items():
                self._write(name, data)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = plain(self.read(self.folder))
            warned = [str(warning.message) for warning in caught]
            return self.check(Damaged(self.sound, found, self.files, change, warned))
        finally:
            if self.writes:
                self._rebuild()
            else:
                for name in change:
                    self._write(name, self.files[name])

    def names(self, message: str) -> bool:
        """Whether the folder or a file of it is named."""
        known = (str(self.folder), *(Path(name).name for name in self.files), *self.words)
        return any(name in message for name in known)

    def _write(self, name: str, data: bytes | None) -> None:
        path = self.folder / name
        if path.is_dir():
            shutil.rmtree(path)
        if data is None:
            path.unlink(missing_ok=True)
        elif data == FOLDER:
            path.unlink(missing_ok=True)
            path.mkdir()
        else:
            path.write_bytes(data)
            os.utime(path, ns=(self._stamps.get(name, _STAMP), self._stamps.get(name, _STAMP)))

    def _rebuild(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for name, data in self.files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            self._write(name, data)


@dataclass
class CallSurface:
    """A function that is called with arguments drawn at random.

    Args:
        name, inputs, promise: as of `FileSurface`.
        call: draws arguments, calls, and returns None or why the answer is wrong; it is given a folder too.
        words: one of them must be in a message, or, where empty, any word.
        memory: bytes that a call may take.
    """

    name: str
    inputs: int
    call: Callable[[random.Random, Path], str | None]
    promise: str
    words: tuple[str, ...] = ()
    memory: int = MEMORY

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def attempt(self, rng: random.Random) -> str | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.call(rng, self.folder)

    def names(self, message: str) -> bool:
        return bool(message) if not self.words else any(word in message for word in self.words)


def mutators(name: str) -> Any:
    """The mutators that fit a file."""
    suffix = Path(name).suffix
    if suffix in _JSON_SUFFIXES or ".json" in name:
        return JSON
    return TEXT if suffix in _TEXT_SUFFIXES or name.endswith("property") else BYTES


def plain(value: Any, depth: int = 0) -> Any:
    """A value that can be compared with ==: arrays by their bytes, and a NaN equal to itself."""
    if depth > 50:
        return "deep"
    if isinstance(value, torch.Tensor):
        value = value.detach().contiguous()
        raw = value.reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return str(value.dtype), tuple(value.shape), hashlib.sha256(raw).hexdigest()[:16]
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    if isinstance(value, Mapping):
        return {str(key): plain(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry, depth + 1) for entry in value]
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()[:16]
    return repr(value) if isinstance(value, float) or not isinstance(value, (str, int, type(None))) else value
