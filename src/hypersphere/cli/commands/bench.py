"""Declare `hypersphere bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.cli.commands.machine import add_device, add_loading


def add_command(commands: Any) -> None:
    """Add `bench` to the command line."""
    bench = commands.add_parser("bench", help="measure speed on this machine")
    kinds = bench.add_subparsers(title="what to measure", metavar="WHAT", required=True)
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
    add_device(train)
    add_loading(train)
    train.add_argument("--csv", type=Path, help="a file to append the rows to")
    train.set_defaults(run="bench:run_train")
    _add_head(kinds)


def _add_head(kinds: Any) -> None:
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
        help="instead, forecast bytes, memory and time of C classes and N rows in all shared over up to P processes",
    )
    head.add_argument("--bandwidth", type=float, default=25.0, help="of --plan: GB/s a process sends (%(default)s)")
    head.add_argument("--latency", type=float, default=20.0, help="of --plan: microseconds a collective (%(default)s)")
    head.add_argument("--check", action="store_true", help="of --plan: compare with 1 to 4 gloo processes started here")
    head.set_defaults(run="bench_head:run_head")
