"""Results: one JSON file and its pictures per item, written whole."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from hypersphere import __version__
from hypersphere.core import as_table, build, import_extra, is_installed, read_json, whole_file
from hypersphere.plots import save_figure
from hypersphere_papers.catalogue import Entry
from hypersphere_papers.engine.multiplicity import corrected
from hypersphere_papers.engine.outcome import NOT_MEASURED, PROXY_WORDS, Finding, Outcome
from hypersphere_papers.engine.setting_fit import SettingFit
from hypersphere_papers.engine.verdict import VERDICTS, Verdict, every

STATES = ("held", "contradicted", "undecided", "proxy", "drawn", "not run")
"""What an item is, in a word."""
STATE_RULE = (
    "held where all its sentences and numbers are, contradicted where one is, otherwise undecided, of experiments on "
    "the paper's data with a network that fits the question; proxy where all it has stands in for such an experiment, "
    "and agrees, disagrees or cannot tell; drawn where there is nothing to judge, not run where nothing was measured"
)
"""How the one word for an item is made."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One item, as it was run.

    Args:
        id: of the catalogue.
        command: that was typed.
        date: day, in UTC.
        seconds: it took.
        machine: processor and system.
        versions: of Python, torch, NumPy and hypersphere.
        seeds: of what was random.
        findings: see `Finding`.
        notes: paragraphs.
        figures: names of the pictures, without folder and ending.
        fits: see `SettingFit`; none of items that train nothing, and of results from before it was kept.
    """

    id: str
    command: str
    date: str
    seconds: float
    machine: str
    versions: Mapping[str, str]
    seeds: tuple[int, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    fits: tuple[SettingFit, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether something is contradicted and nothing says why."""
        return any(finding.verdict == "contradicted" and not finding.note for finding in self.findings)

    def verdict(self, *, proxy: bool = False) -> Verdict | None:
        """Return held where all that was judged is, contradicted where one is; None where nothing was.

        Of experiments as the paper's; with `proxy`, of those that stand in for them.
        """
        judged = [found.verdict for found in self.findings if found.verdict is not None and found.proxy == proxy]
        return every(judged) if judged else None

    @property
    def extent(self) -> Literal["run", "partly run", "not run"]:
        """How much was run: in part where sentences were not measured, not at all where none was."""
        judged = [finding for finding in self.findings if finding.verdict is not None] or self.findings
        if all(finding.measured for finding in judged):
            return "run"
        return "partly run" if any(finding.measured for finding in judged) else "not run"

    @property
    def state(self) -> str:
        """The item in a word, see `STATE_RULE`."""
        if self.extent == "not run":
            return "not run"
        return self.verdict() or ("proxy" if self.verdict(proxy=True) else "drawn")

    @property
    def state_in_words(self) -> str:
        """`held`, or `proxy: disagrees`."""
        proxy = self.verdict(proxy=True)
        return f"proxy: {PROXY_WORDS[proxy]}" if proxy and self.state == "proxy" else self.state

    def counts(self) -> dict[str, int]:
        """How many of the numbers and sentences have each verdict, agree as proxies, and were not measured."""
        judged = [finding for finding in self.findings if finding.verdict is not None]
        found = Counter(finding.word if finding.measured else NOT_MEASURED for finding in judged)
        return {word: found[word] for word in (*VERDICTS, *PROXY_WORDS.values(), NOT_MEASURED)}

    def summary(self) -> str:
        """`3 held, 1 undecided, 2 not measured`; `drawn` where nothing was judged."""
        return ", ".join(f"{count} {word}" for word, count in self.counts().items() if count) or "drawn"

    def rows_run(self, entry: Entry) -> int:
        """How many of the rows that the paper's table prints have a number of ours."""
        return len({finding.row for finding in self.findings if finding.measured} & entry.rows.keys())


def file_name(name: str) -> str:
    """`normface-fig5` of `normface/fig5`."""
    return name.replace("/", "-")


def write_result(
    folder: Path, name: str, outcome: Outcome, *, command: str, seconds: float, seeds: tuple[int, ...]
) -> Result:
    """Draw the figures (`images/`, PNG and SVG; none without matplotlib), then write the JSON (`results/`)."""
    drawn = []
    for label, draw in outcome.figures.items() if is_installed("matplotlib") else ():
        figure = draw()
        stem = file_name(name) if label == name.split("/")[1] else f"{file_name(name)}-{label}"
        for ending in ("png", "svg"):
            save_figure(figure, folder / "images" / f"{stem}.{ending}")
        slim(folder / "images" / f"{stem}.png")
        drawn.append(stem)
    result = Result(
        id=name,
        command=command,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        seconds=round(seconds, 1),
        machine=describe_machine(),
        versions={
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "hypersphere": __version__,
        },
        seeds=seeds,
        findings=tuple(corrected(outcome.findings)),
        notes=tuple(outcome.notes),
        figures=tuple(drawn),
        fits=tuple(outcome.fits),
    )
    with whole_file(folder / "results" / f"{file_name(name)}.json") as partial:
        partial.write_text(result_text(result), encoding="utf-8")
    return result


def result_text(result: Result) -> str:
    """Return the JSON of a result; of findings without what they do not have."""
    table = as_table(result)
    plain = as_table(Finding(what="", ours=""))
    for finding in table["findings"]:
        for name in [name for name in finding if name in plain and finding[name] == plain[name]]:
            del finding[name]
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def describe_machine() -> str:
    """Processor, cores and system; the GPU, where there is one."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{processor}, {os.cpu_count()} cores{gpu}, {platform.system()}"


def slim(path: Path) -> None:
    """Write a picture again with a palette of 256 colours, a third of its size: there are a hundred of them."""
    image = import_extra("PIL.Image", "a picture")
    with image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, dither=image.Dither.NONE)
    with whole_file(path) as partial:
        small.save(partial, optimize=True)


def read_result(path: str | Path) -> Result:
    """A result file, checked."""
    path = Path(path)
    table = read_json(path)
    if not isinstance(table, dict):
        raise ValueError(f"{path}: expected an object, found a {type(table).__name__}")
    try:
        return build(Result, table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def shipped_results() -> dict[str, Result]:
    """The results that came with this version, by id: those on record."""
    return read_results(Path(__file__).parents[1])


def read_results(folder: str | Path) -> dict[str, Result]:
    """All results of a folder, by id."""
    results = [read_result(path) for path in sorted((Path(folder) / "results").glob("*.json"))]
    return {result.id: result for result in results}
