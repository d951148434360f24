"""What `hypersphere evaluate` prints and writes of a result, and the embeddings that it keeps."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from hypersphere.cli.output import Results
from hypersphere.core import install_hint, is_installed
from hypersphere.core.files import Staged
from hypersphere.data import UnreadableImage
from hypersphere.data.images import Image
from hypersphere.evaluation import Embeddings, write_report, write_result
from hypersphere.evaluation.embeddings import names_text
from hypersphere.evaluation.protocols import Evaluated
from hypersphere.evaluation.results.metric_tables import estimate_cells, not_measurable, without_complements
from hypersphere.evaluation.results.report import lost_counts, words
from hypersphere.evaluation.results.result import result_table


def finish(evaluated: Evaluated, out: Path, command: str) -> Results:
    """Write result.json and report.html, and print the metrics.

    Args:
        evaluated: of a protocol.
        out: the folder.
        command: what was typed.
    """
    result = dataclasses.replace(evaluated.result, command=command)
    title = f"{result.protocol}: {evaluated.title}"

    def picture(name: str) -> Image | None:
        for owner, source in evaluated.images.items():
            place = -1 if source is None else int(source.find([name.removeprefix(f"{owner}: ")])[0])
            if source is not None and place >= 0:
                with suppress(UnreadableImage):
                    return source.read(place)
        return None

    write_result(result, out)
    report: Path | str = install_hint("matplotlib", "The report is left out: drawing its figures")
    if is_installed("matplotlib"):
        report = write_report(result, out, title=title, pictures=picture)
    print(title)
    width = max(len(name) + 2 for name in (*result.counts, *result.metrics))
    for name, count in result.counts.items():
        print(f"  {words(name):<{width}}{count:,}")
    for name in without_complements(result.metrics):
        value, interval, n, _ = estimate_cells(result.metrics[name])
        owner, _, bare = name.rpartition("/")
        detail = result.details.get(owner or "all")
        if bare == "accuracy" and isinstance(detail, Mapping) and "deviation" in detail:
            value = f"{value} +- {100 * detail['deviation']:.2f}"
        print(f"  {name:<{width}}{value:<17}{f'[{interval}]':<24}n={n}")
    missing = not_measurable(result.metrics)
    if missing:
        print(textwrap.fill(missing, 79))
    lost = lost_counts(result)
    if lost:
        print(f"not all of the protocol was measured: {', '.join(lost)}")
    print(f"{out / 'result.json'}\n{report}")
    return Results({**result_table(result), "folder": out})


def save_embeddings(out: Path, tag: str, embeddings: Embeddings) -> None:
    """Write `embeddings.npy` and `names.txt`, with a tag in their names where there are several."""
    with Staged() as stage:
        np.save(stage.open(out / f"embeddings{tag}.npy", replace=True), embeddings.values)
        stage.open(out / f"names{tag}.txt", replace=True).write(names_text(embeddings.names).encode())
