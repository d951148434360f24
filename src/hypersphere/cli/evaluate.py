"""`hypersphere evaluate`: measure embeddings by a protocol, and compare two results."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from hypersphere.cli.embedding import finish, save_embeddings
from hypersphere.cli.models import open_models
from hypersphere.cli.output import Results
from hypersphere.core import Progress, choose_device
from hypersphere.evaluation.arrays import Array
from hypersphere.evaluation.protocols import EmbeddingSource, protocol_options, run_protocol
from hypersphere.evaluation.results.compare_results import (
    compare_results,
    difference_cells,
    only_in_one,
    read_result,
    shown_rows,
    unmeasured,
    write_comparison,
)
from hypersphere.evaluation.results.metric_tables import estimate_cells, not_measurable
from hypersphere.models import Embedder
from hypersphere.training.finished_run import newest_head


def run_evaluate(options: argparse.Namespace) -> Results:
    """Run a protocol and write its folder."""
    out: Path = options.out
    source = EmbeddingSource(
        model=options.model or [],
        images=options.images or [],
        embeddings=options.embeddings or [],
        names=options.names or [],
        contract=options.contract,
        flip=options.flip,
        resize=options.resize,
        merge=options.merge,
        batch_size=options.batch_size,
        allow_missing=options.allow_missing,
        meter=Progress,
        open_model=partial(_open_models, options),
        keep=partial(save_embeddings, out) if options.save_embeddings else None,
        option=lambda name: f"--{name.replace('_', '-')}",
    )
    given = vars(options)
    own = {name: given[name] for name in protocol_options(options.protocol) if given.get(name) is not None}
    if options.protocol == "classify" and "prototypes" not in own:
        own["prototypes"] = _prototypes_of_run(options.model)
    evaluated = run_protocol(options.protocol, source, own)
    if options.protocol == "classify" and options.prototypes is None:
        named = {**evaluated.result.options, "prototypes": f"head of {options.model[0].name}"}
        evaluated = replace(evaluated, result=replace(evaluated.result, options=named))
    return finish(evaluated, out, options.command)


def _open_models(options: argparse.Namespace, path: Path) -> list[Embedder]:
    """The models of a file or of a run; ONNX files run on the CPU unless a device is asked for."""
    device = "cpu" if path.suffix == ".onnx" and options.device is None else choose_device(options.device)
    return open_models(path, contract=options.contract, device=device, snapshots=options.snapshots)


def _prototypes_of_run(models: Sequence[Path] | None) -> Array:
    if not models or not models[0].is_dir():
        raise ValueError("give --prototypes NPY, or with --model a folder of `train`, whose head has them")
    weight: Array = newest_head(models[0])["weight"].float().numpy()
    return weight


def compare(options: argparse.Namespace) -> Results:
    """Print two results side by side."""
    first, second = (read_result(path) for path in options.results)
    with Progress("comparing", "metrics") as progress:
        rows = compare_results(first, second, progress=progress)
    shown = shown_rows(rows)
    width = max((len(row.name) + 2 for row in shown), default=2)
    tests: dict[str, list[str]] = {}
    print(f"{'':<{width}}{'A':<10}{'B':<10}{'B - A, points':<25}p")
    for row in shown:
        one, two = (estimate_cells(estimate)[0] for estimate in (row.first, row.second))
        difference, p, test = difference_cells(row)
        tests.setdefault(test if p else f"no test ({test})", []).append(row.name)
        print(f"{row.name:<{width}}{one:<10}{two:<10}{difference:<25}{p}".rstrip())
    for test, names in tests.items():
        print(textwrap.fill(f"{test}: {', '.join(names)}", 79, subsequent_indent="  "))
    for sentence in (not_measurable(unmeasured(rows)), *only_in_one(first, second)):
        if sentence:
            print(textwrap.fill(sentence, 79))
    page = None
    if options.out is not None:
        page = write_comparison(rows, first, second, options.out, command=options.command)
        print(page)
    return Results({"results": options.results, "metrics": rows, "page": page})
