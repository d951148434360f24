"""Declare the options that say how a machine is used: one meaning in all commands."""

from __future__ import annotations

import argparse


def add_device(parser: argparse._ActionsContainer, default: str | None = None) -> None:
    """`--device`, of every command that computes."""
    usual = default or "cuda where there is one, otherwise cpu"
    parser.add_argument("--device", default=default, help=f"cpu, cuda, cuda:N or mps ({usual})")


def add_loading(parser: argparse.ArgumentParser) -> None:
    """`--workers` and `--compile`, of every command that trains."""
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes that load images (0 on a CPU, up to 8 beside a GPU)"
    )
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=False, help="hand the network to torch.compile"
    )


def add_seeds(parser: argparse.ArgumentParser) -> None:
    """`--seeds`, of every command that repeats trainings."""
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="runs of each training, with seeds 0 to N - 1 (%(default)s)"
    )
