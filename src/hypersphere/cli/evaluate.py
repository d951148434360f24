"""`hypersphere evaluate`: measure embeddings by a protocol, and compare two results."""

from __future__ import annotations

import argparse
import sys
import tomllib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.evaluate_options import add_protocols
from hypersphere.cli.model_options import runtime_of
from hypersphere.cli.output import Results
from hypersphere.core import Progress, install_hint


def add_command(commands: Any) -> None:
    """Add `evaluate` to the command line."""
    parser = commands.add_parser(
        "evaluate",
        help="measure embeddings by a protocol; compare two results",
        description="Measure embeddings by a protocol, with intervals and all choices on record; compare two results.",
    )
    protocols = parser.add_subparsers(title="protocols, and their comparison", metavar="PROTOCOL", required=True)
    add_protocols(protocols)
    compare = protocols.add_parser(
        "compare",
        help="two results side by side, with paired tests",
        description="Compare two results of the same protocol: B less A, with the paired test that fits each metric. "
        "(`hypersphere compare` trains: it compares losses.)",
    )
    compare.add_argument("results", nargs=2, type=Path, metavar="RESULT", help="folders that `evaluate` wrote: A, B")
    compare.add_argument("--out", type=Path, metavar="DIR", help="write compare.html there")
    compare.set_defaults(run="evaluate:run_compare")


def run_evaluate(options: argparse.Namespace) -> Results:
    """Run a protocol and write its folder."""
    from hypersphere.evaluation import protocols

    hs.core.load_plugins(options.plugin)
    out: Path = options.out
    given = {**vars(options), **_settings(getattr(options, "settings", []))}
    source = protocols.EmbeddingSource(
        model=options.model or [],
        images=options.images or [],
        embeddings=options.embeddings or [],
        names=options.names or [],
        **{name: given[name] for name in ("contract", "flip", "resize", "merge", "batch_size", "allow_missing")},
        meter=Progress,
        open_model=partial(_open_models, options),
        keep=partial(hs.evaluation.write_embeddings, out) if options.save_embeddings else None,
        option=lambda name: f"--{name.replace('_', '-')}",
    )
    own = {name: given[name] for name in protocols.protocol_options(options.protocol) if given.get(name) is not None}
    of_run = options.protocol == "classify" and options.prototypes is None
    if of_run:
        if not options.model or not options.model[0].is_dir():
            raise ValueError("give --prototypes NPY, or with --model a folder of `train`, whose head has them")
        own["prototypes"] = hs.training.newest_head(options.model[0])["weight"].float().numpy()
    evaluated = protocols.run_protocol(options.protocol, source, own)
    if of_run:
        named = {**evaluated.result.options, "prototypes": f"head of {options.model[0].name}"}
        evaluated = replace(evaluated, result=replace(evaluated.result, options=named))
    result, report = protocols.write_evaluated(evaluated, out, options.command)
    if evaluated.warning:
        print(f"hypersphere: warning: {evaluated.warning}", file=sys.stderr)
    print(f"{result.protocol}: {evaluated.title}")
    print("\n".join(hs.evaluation.result_lines(result)))
    print(f"{out / 'result.json'}")
    print(report or install_hint("matplotlib", "The report is left out: drawing its figures"))
    return Results(
        {
            **hs.evaluation.result_table(result),
            "folder": out,
            **({"warning": evaluated.warning} if evaluated.warning else {}),
        }
    )


def _settings(words: list[str]) -> dict[str, Any]:
    """The options of an own protocol: values as TOML has them, or words."""
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is no option of a protocol: write key=value")
        pairs[key] = tomllib.loads(f"value = {value}")["value"] if _is_toml(value) else value
    return pairs


def _is_toml(value: str) -> bool:
    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return False
    return True


def _open_models(options: argparse.Namespace, path: Path) -> list[hs.models.Embedder]:
    """The models of a file or of a run; ONNX files run on the CPU unless a device is asked for."""
    device = hs.models.model_device(path, options.device)
    models = hs.training.open_models(
        path, contract=options.contract, device=device, snapshots=options.snapshots, runtime=runtime_of(options)
    )
    return models if options.crops is None else [model.of_crops(options.crops) for model in models]


def run_compare(options: argparse.Namespace) -> Results:
    """Print two results side by side."""
    first, second = (hs.evaluation.read_result(path) for path in options.results)
    with Progress("comparing", "metrics") as progress:
        rows = hs.evaluation.compare_results(first, second, progress=progress)
    print("\n".join(hs.evaluation.comparison_lines(rows, first, second)))
    page = None
    if options.out is not None:
        page = hs.evaluation.write_comparison(rows, first, second, options.out, command=options.command)
        print(page)
    return Results({"results": options.results, "metrics": rows, "page": page})
