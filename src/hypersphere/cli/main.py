"""Parse the command line and hand over to one file per command group."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hypersphere.cli import advise, bench, data, demo, theory, train
from hypersphere.training import TrainingStopped
from hypersphere.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="hypersphere", description="Learn, measure, understand and use embeddings on the unit sphere."
    )
    parser.add_argument("--version", action="version", version=f"hypersphere {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in (demo, train, data, theory, advise, bench):
        group.add_command(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OSError, ModuleNotFoundError, TrainingStopped) as error:
        print(f"hypersphere: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("hypersphere: interrupted", file=sys.stderr)
        return 130
    return 0
