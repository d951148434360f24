"""Fuzz every surface, or some: `python -m tests.fuzz --inputs 1000000 --seed 1 --table docs/robustness.md`."""

import argparse
import json
import sys
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.pool import Pool, Tally, generator
from tests.fuzz.surface import FileSurface
from tests.fuzz.surfaces import SURFACES
from tests.fuzz.table import write_table


def main() -> int:
    """Run, print what is not clean, write the table; 1 if anything was not."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, help="in all, shared out as in `make test` (default: as there)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--surface", nargs="+", choices=SURFACES, default=list(SURFACES), metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--only", type=int, metavar="NUMBER", help="of one surface: show this input and what comes of it"
    )
    parser.add_argument("--failures", type=Path, help="write seed and number of every input that was not clean")
    parser.add_argument("--table", type=Path, help="write the table into this page")
    options = parser.parse_args()
    if options.only is not None:
        return show(options.surface[0], options.seed, options.only)
    shares = {name: SURFACES[name].inputs for name in options.surface}
    factor = 1.0 if options.inputs is None else options.inputs / sum(shares.values())
    tallies = run_all(
        {name: max(1, round(share * factor)) for name, share in shares.items()}, options.seed, options.jobs
    )
    if options.failures:
        lines = [
            json.dumps({"surface": tally.surface, "seed": options.seed, **failure})
            for tally in tallies
            for failure in tally.failures
        ]
        options.failures.write_text("".join(f"{line}\n" for line in lines))
    if options.table:
        write_table(options.table, tallies, options.seed)
    return int(any(tally.counts["clean"] < tally.inputs for tally in tallies))


def run_all(counts: dict[str, int], seed: int, jobs: int) -> list[Tally]:
    """Every surface in one of `jobs` pools; a surface of many inputs is cut, so that all end together."""
    pools = [Pool() for _ in range(jobs)]
    free, merged = list(pools), {name: Tally(name) for name in counts}
    most = max(200, sum(counts.values()) // (8 * jobs))
    parts = [
        (name, first, min(most, count - first)) for name, count in counts.items() for first in range(0, count, most)
    ]

    def work(part: tuple[str, int, int]) -> Tally:
        pool = free.pop()
        try:
            return pool.run(part[0], seed, part[1], part[2])
        finally:
            free.append(pool)

    try:
        with ThreadPoolExecutor(jobs) as threads:
            for tally in threads.map(work, parts):
                whole = merged[tally.surface]
                whole.seconds += tally.seconds
                whole.failures += tally.failures
                for outcome, count in tally.counts.items():
                    whole.counts[outcome] += count
                if whole.inputs == counts[whole.surface]:
                    report(whole)
    finally:
        for pool in pools:
            pool.close()
    return list(merged.values())


def report(tally: Tally) -> None:
    """A line for a surface, and a few of its failures, each kind once."""
    counts = ", ".join(f"{name} {count}" for name, count in tally.counts.items() if count)
    rate = 1000 * tally.seconds / max(1, tally.inputs)
    print(f"{tally.surface}: {tally.inputs} inputs, {counts}; {rate:.2f} ms each", flush=True)
    kinds = Counter((failure["outcome"], failure["detail"][:60]) for failure in tally.failures)
    for (outcome, start), count in kinds.most_common(8):
        first = next(each for each in tally.failures if (each["outcome"], each["detail"][:60]) == (outcome, start))
        print(f"    {count} x {outcome}, first number {first['number']}: {first['detail']}", flush=True)


def show(name: str, seed: int, number: int) -> int:
    """One input again, here, with its traceback."""
    import tempfile

    surface = SURFACES[name]
    with tempfile.TemporaryDirectory() as folder:
        surface.prepare(Path(folder) / "fuzz")
        if isinstance(surface, FileSurface):
            for file, data in surface.draw(generator(name, seed, number)).items():
                print(
                    f"{file}: {len(surface.files.get(file, b''))} bytes become "
                    f"{data if data is None else len(data)}: {data!r:.2000}"
                )
        try:
            print("silent:" if (reason := surface.attempt(generator(name, seed, number))) else "clean", reason or "")
        except Exception:
            traceback.print_exc()
    return 0


if __name__ == "__main__":
    sys.exit(main())
