"""Runs inputs in child processes with limits of memory and time; what ends a child is put down to its input.

The program in this file is started once, imports the library, and forks a child for every stretch of inputs: a fork of
the process that runs the tests would inherit its threads.
"""

import contextlib
import json
import mmap
import os
import random
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.surface import Surface

OUTCOMES = ("clean", "other", "silent", "crash", "hang", "memory")
CPU_SECONDS = 10
"""An input that computes longer hangs."""
WALL_SECONDS = 90
"""So does one that waits longer."""
_ROOM = 4 << 30
_AGAIN = 77
_ROOT = Path(__file__).parents[2]


@dataclass
class Tally:
    """What came of some inputs of a surface.

    Args:
        surface: its name.
        counts: by outcome.
        failures: of those that are not clean, number and detail.
        seconds: of processor time or waiting, all in all.
    """

    surface: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    failures: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def inputs(self) -> int:
        return sum(self.counts.values())


def generator(surface: str, seed: int, number: int) -> random.Random:
    """The generator of one input: surface, seed and number are all that is needed to make it again."""
    return random.Random(f"{surface}/{seed}/{number}")


def try_input(surface: Surface, rng: random.Random) -> tuple[str, str]:
    """The outcome of one input, and what to say of it."""
    try:
        reason = surface.attempt(rng)
    except Exception as error:
        return judge(surface, error)
    return ("clean", "") if reason is None else ("silent", reason)


def judge(surface: Surface, error: BaseException) -> tuple[str, str]:
    """Whether an exception is one of the library's own that names what it is about."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, MemoryError) or "can't allocate memory" in str(chain):
            return "memory", f"{type(error).__name__}: {error!s:.300}"
        chain = chain.__cause__ or chain.__context__
    kind = type(error)
    own = kind in (ValueError, OSError) or kind.__module__.startswith("hypersphere.")
    if isinstance(error, OSError) and error.filename is not None:
        return "clean", ""
    if own and surface.names(str(error)):
        return "clean", ""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/src/hypersphere/" in frame.filename] or frames[-1:]
    place = ours[-1] if ours else None
    where = f" at {Path(place.filename).name}:{place.lineno}" if place else ""
    return "other", f"{kind.__name__}{where}: {error!s:.300}" + (" (names no file or argument)" if own else "")


def run_surface(
    surface: Surface, seed: int, first: int, count: int, folder: Path, cpu_seconds: int = CPU_SECONDS
) -> Tally:
    """Try inputs `first` up to `first + count` in children of this process."""
    tally = Tally(surface.name)
    shared = mmap.mmap(-1, 8 * (1 + len(OUTCOMES)))
    began, end, start = time.monotonic(), first + count, first
    while start < end:
        _store(shared, 0, start)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _child(surface, seed, range(start, end), folder, shared, writer, cpu_seconds)
        os.close(writer)
        killed = _collect(child, reader, shared, tally)
        status = os.waitpid(child, 0)[1]
        at = _load(shared, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            break
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _AGAIN:
            start = at + 1
            continue
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if not number and at == start and os.WEXITSTATUS(status) == 70:
            tally.failures[-1]["detail"] = f"the sound input is not read: {tally.failures[-1]['detail']}"
            _store(shared, 1 + OUTCOMES.index("other"), end - start)
            break
        outcome = "hang" if killed or number == signal.SIGXCPU else "crash"
        detail = f"signal {signal.Signals(number).name}" if number else f"exit status {os.WEXITSTATUS(status)}"
        _store(shared, 1 + OUTCOMES.index(outcome), _load(shared, 1 + OUTCOMES.index(outcome)) + 1)
        tally.failures.append({"number": at, "outcome": outcome, "detail": detail})
        start = at + 1
    tally.counts = {name: _load(shared, 1 + place) for place, name in enumerate(OUTCOMES)}
    tally.seconds = time.monotonic() - began
    return tally


def _child(
    surface: Surface, seed: int, numbers: range, folder: Path, shared: mmap.mmap, writer: int, cpu_seconds: int
) -> None:
    say = os.fdopen(writer, "w")
    try:
        surface.prepare(folder)
        base = _peak()
        resource.setrlimit(resource.RLIMIT_AS, (base + _ROOM, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except BaseException as error:
        traceback.print_exc()
        say.write(
            json.dumps({"number": numbers.start, "outcome": "other", "detail": f"{type(error).__name__}: {error}"})
            + "\n"
        )
        say.flush()
        os._exit(70)
    for number in numbers:
        _store(shared, 0, number)
        soft = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + 1 + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
        outcome, detail = try_input(surface, generator(surface.name, seed, number))
        grown = _peak() - base
        if grown > surface.memory and outcome in ("clean", "other"):
            outcome, detail = "memory", f"the process grew by {grown >> 20} MiB; {detail}"
        place = 1 + OUTCOMES.index(outcome)
        _store(shared, place, _load(shared, place) + 1)
        if outcome != "clean":
            say.write(json.dumps({"number": number, "outcome": outcome, "detail": detail}) + "\n")
            say.flush()
        if outcome == "memory":
            os._exit(_AGAIN)
    os._exit(0)


def _collect(child: int, reader: int, shared: mmap.mmap, tally: Tally) -> bool:
    """Take what a child says until it ends; kill it when it has stood still for too long."""
    text, at, since, killed = b"", -1, time.monotonic(), False
    while True:
        ready = select.select([reader], [], [], 5)[0]
        if ready:
            got = os.read(reader, 1 << 16)
            if not got:
                break
            text += got
        if _load(shared, 0) != at:
            at, since = _load(shared, 0), time.monotonic()
        elif not killed and time.monotonic() - since > WALL_SECONDS:
            os.kill(child, signal.SIGKILL)
            killed = True
    os.close(reader)
    tally.failures += [json.loads(line) for line in text.decode().splitlines()]
    return killed


def _peak() -> int:
    """The most address space that this process has had, in bytes."""
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmPeak:"):
                return int(line.split()[1]) << 10
    return 0


def _store(shared: mmap.mmap, place: int, value: int) -> None:
    struct.pack_into("q", shared, 8 * place, value)


def _load(shared: mmap.mmap, place: int) -> int:
    return int(struct.unpack_from("q", shared, 8 * place)[0])


class Pool:
    """The program below as a subprocess, asked for one surface at a time."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'src'}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.pool"],
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, surface: str, seed: int, first: int, count: int, cpu_seconds: int = CPU_SECONDS) -> Tally:
        """Try some inputs of a surface."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([surface, seed, first, count, cpu_seconds]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{surface}: the pool ended with status {self._process.wait()}")
        table = json.loads(answer)
        if "error" in table:
            raise RuntimeError(table["error"])
        return Tally(**table)

    def close(self) -> None:
        """End the subprocess."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@contextlib.contextmanager
def open_pool() -> Iterator[Pool]:
    """A pool that is closed at the end."""
    pool = Pool()
    try:
        yield pool
    finally:
        pool.close()


def main() -> None:
    """Answer requests, a line of JSON each; what decoders print is thrown away."""
    out = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    if not os.environ.get("FUZZ_SHOW"):
        os.dup2(null, 2)
    import torch

    from tests.fuzz.surfaces import SELF_TEST, SURFACES

    known = {**SURFACES, SELF_TEST.name: SELF_TEST}
    torch.set_num_threads(1)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        for line in sys.stdin:
            name, *rest = json.loads(line)
            try:
                table = vars(run_surface(known[name], *rest[:3], Path(folder) / name.replace(" ", "-"), rest[3]))  # type: ignore[call-arg]
            except Exception as error:
                table = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(table), file=out, flush=True)


if __name__ == "__main__":
    main()
