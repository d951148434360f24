"""Speed on this machine: whole training steps, heads beside others', or a plan for many processes.

python benchmarks/speed.py train [--backbones NAMES] [--batch-size B] [--compile] [--augment all|flip] [--csv FILE]
python benchmarks/speed.py head [--classes C,C..] [--rows N] [--dim d] [--only WORDS] [--csv FILE] [--figure FILE]
python benchmarks/speed.py head --plan C N d P [--measure] [--bandwidth GB/S] [--latency MICROSECONDS] [--check]
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import torch
from bench import (
    PLANNED,
    Measured,
    Size,
    TrainingBench,
    append_row,
    check_lines,
    choose_measured_device,
    describe_measured,
    describe_plan,
    draw_head_panels,
    forecast_for,
    head_rows,
    head_table,
    measure_heads,
    measure_rate,
)

from hypersphere.cli import add_device
from hypersphere.core import Failure, Progress, check_integer, choose_device, import_extra
from hypersphere.heads import Cost, forecast_table, memory_table, network_cost, process_counts
from hypersphere.plots import save_figure


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="speed.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(title="what to measure", metavar="WHAT", required=True)
    train = kinds.add_parser(
        "train",
        help="images a second of whole training steps: reading JPEG files, augmentation, network, head, optimizer",
    )
    train.add_argument(
        "--backbones",
        default="sfnet20,sfnet64,iresnet18,iresnet50,iresnet100",
        help="names, separated by commas (%(default)s)",
    )
    train.add_argument("--batch-size", type=int, default=128, help="images a step (%(default)s)")
    train.add_argument("--size", type=int, default=112, help="height and width of the images (%(default)s)")
    train.add_argument("--classes", type=int, default=10_572, help="of the head, CosFace (%(default)s)")
    train.add_argument("--steps", type=int, default=50, help="measured steps, after --warmup more (%(default)s)")
    train.add_argument("--warmup", type=int, default=20, help="steps before the clock starts (%(default)s)")
    train.add_argument("--precision", default="bfloat16", help="float32, bfloat16 or float16 (%(default)s)")
    train.add_argument(
        "--augment", default="all", choices=("all", "flip"), help="every kind of change, or flips alone (%(default)s)"
    )
    add_device(train)
    train.add_argument("--workers", type=int, help="processes that load images (0 on a CPU, up to 8 beside a GPU)")
    train.add_argument("--compile", action=argparse.BooleanOptionalAction, default=False, help="compile the network")
    train.add_argument("--csv", type=Path, help="a file to append the rows to")
    train.set_defaults(run=run_train)
    head = kinds.add_parser(
        "head", help="time and memory of losses with many classes, ours beside others', over those of three products"
    )
    head.add_argument("--classes", help="numbers of classes, separated by commas")
    head.add_argument("--rows", type=int, help="embeddings in the batch (1024 on a GPU, 256 on a CPU)")
    head.add_argument("--dim", type=int, default=512, help="width of the embeddings (%(default)s)")
    head.add_argument("--repeats", type=int, default=10, help="measured steps (%(default)s)")
    head.add_argument("--threads", type=int, help="on a CPU (as many as torch takes)")
    add_device(head)
    head.add_argument("--only", help="contestants whose names hold one of these words, separated by commas")
    head.add_argument("--csv", type=Path, help="a file to append the rows to")
    head.add_argument("--figure", type=Path, help="a picture of time and memory over the number of classes")
    head.add_argument(
        "--plan",
        nargs=4,
        type=int,
        metavar=("C", "N", "d", "P"),
        help="instead, forecast memory and bytes of C classes and N rows in all shared over up to P processes",
    )
    head.add_argument("--measure", action="store_true", help="of --plan: measure one process, and forecast time too")
    head.add_argument("--bandwidth", type=float, default=25.0, help="of --plan: GB/s a process sends (%(default)s)")
    head.add_argument("--latency", type=float, default=20.0, help="of --plan: microseconds a collective (%(default)s)")
    head.add_argument("--check", action="store_true", help="of --plan: compare with 1 to 4 gloo processes started here")
    head.set_defaults(run=run_head)
    return parser.parse_args(words)


def run_train(options: argparse.Namespace) -> None:
    """Measure each backbone and print a line for it."""
    names = ("batch_size", "size", "classes", "steps", "warmup", "precision", "workers", "compile", "augment")
    bench = TrainingBench(**{name: getattr(options, name) for name in names})
    print(f"{textwrap.fill(bench.describe(choose_device(options.device)), 79)}\n")
    print(f"{'backbone':<14}{'images/s':>10}{'ms a step':>11}{'waiting for data':>18}{'GPU memory':>12}", flush=True)
    for row in bench.rows(options.backbones.split(","), options.device):
        memory = f"{row['gpu_gib']:.1f} GiB" if row["gpu_gib"] else "-"
        speed = f"{row['images_per_s']:>10,.0f}{row['ms']:>11.1f}{row['waiting']:>18.1%}"
        print(f"{row['backbone']:<14}{speed}{memory:>12}", flush=True)
        if options.csv is not None:
            append_row(options.csv, row)


def run_head(options: argparse.Namespace) -> None:
    """Measure every contestant at every size, and print a table for each; or plan for several processes."""
    threads = torch.get_num_threads() if options.threads is None else check_integer("--threads", options.threads, 1)
    if options.plan is not None:
        run_plan(options, threads)
        return
    for name in ("check", "measure"):
        if getattr(options, name):
            raise ValueError(f"--{name} belongs to --plan: give --plan C N d P too")
    device = choose_measured_device(options.device)
    gpu = device == "cuda"
    rows = options.rows if options.rows is not None else 1024 if gpu else 256
    for name, value, least in (("--rows", rows, 1), ("--dim", options.dim, 1), ("--repeats", options.repeats, 2)):
        check_integer(name, value, least)
    classes = options.classes or ("85742,1000000,4000000,10000000" if gpu else "50000")
    for text in classes.split(","):
        if not text.strip().isdecimal() or int(text) < 2:
            raise ValueError(f"--classes {classes}: {text!r} is no number of classes, an integer of at least 2")
    if options.figure is not None and options.figure.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--figure {options.figure}: its name must end in .png, .svg or .pdf")
    if options.figure is not None:
        import_extra("matplotlib", "--figure")
    results: dict[int, dict[str, Measured | str]] = {}
    for text in classes.split(","):
        size = Size(rows, options.dim, int(text), device, threads)
        with Progress(f"{size.classes:,} classes", "contestants") as progress:
            results[size.classes] = measured = measure_heads(size, options.repeats, options.only, progress)
        print(head_table(size, measured))
        print(f"median of {options.repeats} steps. MiB: peak of a step beyond parameters and inputs, with gradients")
        for row in head_rows(size, measured):
            if options.csv is not None:
                append_row(options.csv, row)
    if options.figure is not None:
        save_figure(draw_head_panels(results), options.figure)


def run_plan(options: argparse.Namespace, threads: int) -> None:
    """Print memory and bytes on 1, 2, 4 .. P processes; with --measure the time, with --check beside real processes."""
    classes, rows, dim = (
        check_integer(f"--plan's {name}", value, least)
        for name, value, least in zip(("C", "N", "d"), options.plan, (2, 1, 1), strict=False)
    )
    counts = process_counts(rows, options.plan[3])
    network = network_cost(options.bandwidth, options.latency)
    size = Size(rows, dim, classes, choose_measured_device(options.device), threads)
    free = Cost(0.0, 0.0)
    unmeasured = {
        title: [forecast_for(name, size, count, free, network) for count in counts] for title, name in PLANNED.items()
    }
    print(f"{describe_plan(size)}\n{memory_table(unmeasured)}", flush=True)
    if not (options.measure or options.check):
        print("--measure adds the time of a step, from some minutes of measuring one process here")
        return
    print(
        f"{describe_measured(size)}\n"
        f"Assumed: each process sends {options.bandwidth:g} GB/s, {options.latency:g} microseconds for a collective to"
        f" begin (--bandwidth, --latency)."
    )
    for title, name in PLANNED.items():
        with Progress(f"measuring {name}", "sizes") as progress:
            rate = measure_rate(name, size, progress)
        forecasts = [forecast_for(name, size, count, rate, network) for count in counts]
        print(forecast_table(title, rows, rate, forecasts), flush=True)
    for line in check_lines() if options.check else ():
        print(line, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Measure; 2 where what was asked for cannot be done."""
    options = parse(words)
    try:
        options.run(options)
    except (ValueError, ModuleNotFoundError, Failure) as error:
        print(f"speed.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
